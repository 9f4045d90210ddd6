/* like.c - --like in vtrain, and the hint where a command looks like another trainer's: see
 * common/cli/like.h. */
#include "common/cli/like.h"

#include <string.h>

#include "formats/json/json.h"
#include "train/diffusion/loss.h"
#include "train/families/families.h"
#include "train/optim/rate.h"
#include "train/settings/settings.h"

static const char *const of_flow[] = { "weighting_scheme", "flow_levels", "logit_mean", "logit_std",
                                       "mode_scale", "flow_shift", "flow_terminal", "loss_cutoff",
                                       NULL };

static bool is_one_of(const char *const *list, const char *flag)
{
    while (*list && strcmp(*list, flag))
        list++;
    return *list;
}

/* True if a flag of a flow has an effect: --timestep_sampling decides about levels, and each
 * distribution has flags of its own. */
static bool shapes_levels(const vtrain_config *c, const char *flag)
{
    static const char *const levels[] = { "weighting_scheme", "flow_levels", "logit_mean",
                                          "logit_std", "mode_scale", NULL };
    if (c->timestep_sampling && is_one_of(levels, flag))
        return false;
    if (!strcmp(flag, "logit_mean") || !strcmp(flag, "logit_std"))
        return c->weighting_scheme == VTRAIN_LOGIT_NORMAL ||
               c->weighting_scheme == VTRAIN_STRETCHED;
    return strcmp(flag, "mode_scale") || c->weighting_scheme == VTRAIN_MODE;
}

/* True if a flag that --like sets has an effect: only a LoRA has ranks and modules, only a flow has
 * levels, and a rate that is constant or follows rules has no warm-up. */
static bool has_an_effect(const void *options, const char *flag)
{
    static const char *const of_lora[] = { "rank", "network_alpha", "target_name", NULL };
    const vtrain_config *c = options;
    const vtrain_schedule how = (vtrain_schedule)c->lr_scheduler;
    if (is_one_of(of_flow, flag))
        return c->objective != 1 + VTRAIN_V && shapes_levels(c, flag);
    if (is_one_of(of_lora, flag))
        return c->training_type == VTRAIN_LORA;
    if (!strcmp(flag, "checkpointing_epochs"))
        return !c->checkpointing_steps;
    if (!strcmp(flag, "lr_step_rules"))
        return vtrain_schedule_is(how, VTRAIN_HAS_RULES);
    return strcmp(flag, "lr_warmup_steps") || vtrain_schedule_is(how, VTRAIN_HAS_WARM);
}

int vtrain_take_like(vtrain_config *c, vc_flags *set, vc_err *err)
{
    return vc_like_take(set, c->like, vc_vtrain_like, has_an_effect, c, err);
}

/* A run's settings, and facts of its model. */
typedef struct family_run {
    vtrain_config c;             /* the first: flags are set by their offsets in it */
    bool known;                  /* false: nothing is known of the model */
    bool guided;                 /* it has an input for guidance */
} family_run;

/* Only a model with guidance as an input takes it. An alpha that is the rank is our default. */
static bool has_an_effect_here(const void *run, const char *flag)
{
    const family_run *r = run;
    if (!strcmp(flag, "network_alpha") && r->c.network_alpha == (double)r->c.rank)
        return false;
    if (!strcmp(flag, "embedded_guidance"))
        return r->guided;
    if (!r->known && r->c.objective == 0 && is_one_of(of_flow, flag))
        return false;
    return has_an_effect(&r->c, flag);
}

/* Wan 2.2's A14B are the models with two transformers. */
static const char *variant_of(const vtrain *t)
{
    if (!(t->model.boundary > 0))
        return NULL;
    return vtrain_data_mode(t->data) == VC_MODE_NORMAL ? "wan2.2-t2v-a14b" : "wan2.2-i2v-a14b";
}

/* t: a run whose model is known, or NULL. */
static vc_like_run run_of(family_run *r, const vtrain_config *c, const vtrain *t)
{
    *r = (family_run){ .c = *c };
    if (t) {
        r->known = true;
        r->guided = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(t->model.config,
                                                                  "guidance_embeds"));
        vtrain_config d = *c;
        vtrain_defaults(&d, t->model.family, &t->model.scheduler);
        r->c.objective = d.objective;
    }
    return (vc_like_run){
        .rows = vc_vtrain_like, .of_family = vc_vtrain_like_of_family,
        .family = t ? vtrain_family_name(t->model.family) : NULL,
        .variant = t ? variant_of(t) : NULL, .options = c, .scratch = r, .fits = has_an_effect_here,
    };
}

int vtrain_take_like_family(vtrain *t, vc_flags *set, vc_err *err)
{
    family_run r;
    vtrain_config plain = t->cfg;
    vtrain_defaults(&plain, t->model.family, &t->model.scheduler);
    vc_like_run run = run_of(&r, &t->cfg, t);
    run.options = &plain;
    int rc = vc_like_take_family(set, t->cfg.like, &run, &t->cfg, err);
    return rc ? rc : vc_like_say(set, t->cfg.like, &run, err);
}

int vtrain_hint_like(const vtrain_config *c, const vtrain *t, vc_flags *set, vc_err *err)
{
    family_run r;
    const vc_like_run run = run_of(&r, c, t);
    r.c.timestep_sampling = vc_flags_given(set, "timestep_sampling");
    return vc_like_hint(set, &run, err);
}
