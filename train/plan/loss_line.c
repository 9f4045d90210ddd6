/* loss_line.c - see loss_line.h */
#include "train/plan/loss_line.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "train/diffusion/loss.h"
#include "train/steps/distill.h"

const char *vtrain_plan_word(const vtrain *t, const char *flag, char *buf, size_t size)
{
    size_t n = strlen(flag);
    snprintf(buf, size, "none");
    for (const char *s = t->output.settings; s && *s; s += *s == '\n') {
        size_t len = strcspn(s, "\n");
        if (len > n + 2 && !strncmp(s, flag, n) && s[n] == ':')
            snprintf(buf, size, "%.*s", (int)(len - n - 2), s + n + 2);
        s += len;
    }
    return buf;
}

/* Describes the shift of levels; a shift by tokens gets the range over the run's buckets. */
static void shift_text(char *text, size_t size, const vtrain *t)
{
    const vtrain_by_tokens *b = &t->model.scheduler.by_tokens;
    double least = INFINITY, most = 0;
    for (uint32_t i = 0; i < vtrain_data_groups(t->data); i++) {
        double a = vtrain_objective_shift(t->objective, vtrain_data_group(t->data, i)->tokens);
        least = fmin(least, a);
        most = fmax(most, a);
    }
    if (t->cfg.flow_shift > 0)
        snprintf(text, size, "%g", t->cfg.flow_shift);
    else
        snprintf(text, size, "%g to %g by tokens (%s, %g at %lld, %g at %lld)", least, most,
                 vtrain_shift_types[b->type], b->base,
                 (long long)b->base_len, b->max, (long long)b->max_len);
}

/* ", huber of delta 0.5, errors above 50 left out", or "" for a plain squared error. */
static void error_text(char *text, size_t size, const vtrain *t)
{
    const vtrain_config *c = &t->cfg;
    char type[32];
    int n = 0;
    *text = 0;
    if (c->loss_type != VTRAIN_MSE)
        n = snprintf(text, size, ", %s of delta %g",
                     vtrain_plan_word(t, "loss_type", type, sizeof type), c->loss_delta);
    if (c->precondition_outputs)
        n += snprintf(text + n, size - (size_t)n, ", error of the clean sample");
    if (c->loss_cutoff > 0)
        snprintf(text + n, size - (size_t)n, ", errors above %g left out", c->loss_cutoff);
}

/* The range of levels that is trained, as timesteps; "": all of them. two: the model has two
 * transformers. */
static void range_text(char *text, size_t size, const vtrain_config *c, bool two)
{
    const char *how = c->objective == 1 + VTRAIN_V || c->preserve_distribution_shape
                      ? "only timesteps" : "scaled to timesteps";
    *text = '\0';
    if (c->min_timestep > 0 || c->max_timestep < 1000)
        snprintf(text, size, ", %s %g to %g", how, c->min_timestep, c->max_timestep);
    else if (c->min_noising_strength > 0 || c->max_noising_strength < 1)
        snprintf(text, size, ", scaled to %g to %g before the shift", c->min_noising_strength,
                 c->max_noising_strength);
    else if (!two && (c->min_timestep_boundary > 0 || c->max_timestep_boundary < 1))
        snprintf(text, size, ", the part %g to %g of the list of levels", c->min_timestep_boundary,
                 c->max_timestep_boundary);
}

/* Which levels are drawn, and for which of two transformers. */
static void levels_text(char *text, size_t size, const vtrain *t)
{
    const uint32_t tokens = vtrain_data_group(t->data, 0)->tokens;
    *text = '\0';
    if (vtrain_both(t))
        snprintf(text, size, ", levels from %g for transformer (%.0f%% of micro-batches), below "
                 "for transformer_2", t->model.boundary,
                 100 * vtrain_share_high(t->objective, (int64_t)tokens));
    else if (t->model.boundary > 0)
        snprintf(text, size, ", only levels %s %g",
                 t->cfg.boundary_type == VTRAIN_SIDE_LOW ? "below" : "from", t->model.boundary);
}

/* The line of an objective whose levels are those of flow matching. */
static char *flow_line(const vtrain *t, const char *range, const char *error)
{
    const vtrain_config *c = &t->cfg;
    char scheme[32], normal[64] = "", shift[200], levels[160] = "", table[80] = "";
    int n = 0;
    if (c->flow_levels)
        n = snprintf(table, sizeof table, ", a table of %lld levels", (long long)c->flow_levels);
    if (c->flow_terminal > 0)
        snprintf(table + n, sizeof table - (size_t)n, ", stretched to %g", c->flow_terminal);
    if (c->weighting_scheme == VTRAIN_LOGIT_NORMAL || c->weighting_scheme == VTRAIN_STRETCHED)
        snprintf(normal, sizeof normal, " (mean %g, deviation %g)", c->logit_mean, c->logit_std);
    if (c->weighting_scheme == VTRAIN_MODE)
        snprintf(normal, sizeof normal, " (scale %g)", c->mode_scale);
    levels_text(levels, sizeof levels, t);
    shift_text(shift, sizeof shift, t);
    return vc_format("flow matching, weighting %s%s, shift %s%s%s%s%s",
                     vtrain_plan_word(t, "weighting_scheme", scheme, sizeof scheme), normal, shift,
                     table, range, levels, error);
}

char *vtrain_loss_line(const vtrain *t)
{
    char range[80], error[96], *walk, *line;
    error_text(error, sizeof error, t);
    range_text(range, sizeof range, &t->cfg, t->model.boundary > 0);
    if (t->cfg.objective == 1 + VTRAIN_V && !t->distill.steps)
        return vc_format("v-prediction, times uniform%s, weight 1%s", range, error);
    if (!t->distill.steps)
        return flow_line(t, range, error);
    walk = vtrain_distill_line(t);
    line = walk ? vc_format("%s%s", walk, error) : NULL;
    free(walk);
    return line;
}
