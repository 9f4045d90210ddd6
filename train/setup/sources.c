/* sources.c - see sources.h */
#include "train/setup/sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "train/models/weights.h"

#define PRESET "preset_lora_path"
#define SCHEDULER "scheduler"

/* The text of a source, or NULL: there is none. */
static const char *source(const cJSON *sources, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(sources, name));
}

/* Writes the noise schedule, as far as it is the file's: a shift that a flag gives is none. */
static void schedule_text(char *text, size_t size, const vtrain_config *c,
                          const vtrain_scheduler *s)
{
    const vtrain_by_tokens *b = &s->by_tokens;
    *text = '\0';
    if (!s->path || (s->kind == VTRAIN_FLOW) != (c->objective == 1 + VTRAIN_FLOW))
        return;
    if (s->kind == VTRAIN_V)
        snprintf(text, size, "betas %g to %g, SNR shift %g%s", s->beta_start, s->beta_end,
                 s->snr_shift, s->zero_snr ? ", no signal at the end" : "");
    else if (c->flow_shift == 0 && b->on)
        snprintf(text, size, "shift by tokens, mu %g to %g at %lld to %lld%s%s", b->base, b->max,
                 (long long)b->base_len, (long long)b->max_len,
                 b->type == VTRAIN_MU_EXPONENTIAL ? "" : ", ",
                 b->type == VTRAIN_MU_EXPONENTIAL ? "" : vtrain_shift_types[b->type]);
    else if (c->flow_shift == s->shift)
        snprintf(text, size, "shift %g", s->shift);
}

/* The hashes of the preset LoRAs, as "HASH*0.5" of another strength than 1, and those of the second
 * transformer behind them; malloc'ed, and "" without any. NULL when out of memory. */
static char *preset_text(const vtrain_model *m)
{
    const vtrain_weights *of[] = { m->weights, m->low_weights };
    vc_buf text = { 0 };
    char hex[VF_KEY_HEX];
    double strength;
    vf_key k;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (int n = 0; of[i] && vtrain_weights_preset(of[i], n, &k, &strength); n++) {
            vc_buf_printf(&text, "%s%s", text.n ? " " : "", vf_key_hex(hex, k));
            if (strength != 1)
                vc_buf_printf(&text, "*%.17g", strength);
        }
    return vc_buf_take(&text);
}

static int collect(vtrain *t, vc_err *err)
{
    char text[160], *presets = preset_text(&t->model);
    t->compared.sources = cJSON_CreateObject();
    bool ok = t->compared.sources && presets;
    if (ok && *presets)
        ok = cJSON_AddStringToObject(t->compared.sources, PRESET, presets);
    free(presets);
    schedule_text(text, sizeof text, &t->cfg, &t->model.scheduler);
    if (ok && *text)
        ok = cJSON_AddStringToObject(t->compared.sources, SCHEDULER, text);
    return ok ? 0 : vc_no_memory(err);
}

static int compare_preset(const vtrain *t, vc_err *err)
{
    const char *had = source(t->from.state.sources, PRESET);
    const char *has = source(t->compared.sources, PRESET);
    if (!t->compared.base)                              /* all weights are the checkpoint's */
        return 0;
    if (had && !has)
        return vc_fail(err, VC_EMISMATCH, "%s was trained with --preset_lora_path (XXH3-128 %s), "
                       "which this run lacks: give it, or --allow_mismatch", t->from.dir, had);
    if (!had && has)
        return vc_fail(err, VC_EMISMATCH, "%s was trained without --preset_lora_path: leave it "
                       "out, or give --allow_mismatch", t->from.dir);
    if (!had || !strcmp(had, has))
        return 0;
    if (t->cfg.preset_lora_path.n > 1 || strpbrk(had, " *") || strchr(has, '*'))
        return vc_fail(err, VC_EMISMATCH, "--preset_lora_path: other LoRAs or multipliers "
                       "(XXH3-128 %s) than those that %s was trained with (XXH3-128 %s): give "
                       "those, in their order, or --allow_mismatch", has, t->from.dir, had);
    return vc_fail(err, VC_EMISMATCH, "--preset_lora_path %s: another LoRA (XXH3-128 %s) than the "
                   "one that %s was trained with (XXH3-128 %s): give that one, or "
                   "--allow_mismatch", t->cfg.preset_lora_path.item[0], has, t->from.dir, had);
}

static int compare_schedule(const vtrain *t, vc_err *err)
{
    const char *had = source(t->from.state.sources, SCHEDULER);
    const char *has = source(t->compared.sources, SCHEDULER);
    if (!had || !has || !strcmp(had, has))
        return 0;
    return vc_fail(err, VC_EMISMATCH, "%s: another noise schedule (%s) than the one that %s was "
                   "trained with (%s): give that file, or --allow_mismatch",
                   t->model.scheduler.path, has, t->from.dir, had);
}

/* With --allow_mismatch a difference is a warning. */
static int allowed(const vtrain *t, int rc, const vc_err *err)
{
    if (rc != VC_EMISMATCH || !t->cfg.allow_mismatch)
        return rc;
    vc_warn(t->ui, "%s", err->text);
    return 0;
}

int vtrain_sources_open(vtrain *t, vc_err *err)
{
    int rc = collect(t, err);
    if (rc || !t->from.dir || !t->from.state.sources)
        return rc;
    rc = allowed(t, compare_preset(t, err), err);
    return rc ? rc : allowed(t, compare_schedule(t, err), err);
}
