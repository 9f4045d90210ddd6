/* optimiser.c - the optimiser and its numbers: vtrain_take_optimiser of settings.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "train/optim/groups.h"
#include "train/settings/settings.h"

/* ---- the rate ---- */

/* The settings of a group are after the last colon. */
static void check_one_rate(const vtrain_config *c, vc_flags *set)
{
    const vt_optimizer_row *own = &vt_optimizers[c->optimizer];
    for (int i = 0; own->one_rate && i < c->param_groups.n; i++) {
        const char *text = c->param_groups.item[i], *colon = strrchr(text, ':');
        if (colon && (strstr(colon, "lr=") || strstr(colon, "end=") || strstr(colon, "schedule=")))
            vc_flags_wrong(set, "--param_groups %s: --optimizer %s has one rate for all "
                           "parameters: leave lr, end and schedule out", text, own->name);
    }
}

static void check_groups(const vtrain_config *c, vc_flags *set)
{
    check_one_rate(c, set);
    vtrain_groups *groups;
    vc_err e;
    const vtrain_groups_opts o = { .groups = &c->param_groups, .rate = vtrain_rate_of(c, 0) };
    vc_flags_catch(set, vtrain_groups_open(&groups, &o, NULL, &e), &e);
    vtrain_groups_close(groups);
}

static void check_rate(vtrain_config *c, vc_flags *set)
{
    const vtrain_rate rate = vtrain_rate_of(c, 0);
    const vtrain_schedule how = rate.how;
    bool flat = !vtrain_schedule_is(how, VTRAIN_HAS_WARM);
    bool rules = vtrain_schedule_is(how, VTRAIN_HAS_RULES);
    vc_err e;
    if (c->lr_warmup_steps > 1 && c->lr_warmup_steps != floor(c->lr_warmup_steps))
        vc_flags_wrong(set, "--lr_warmup_steps %g: a whole number of steps, or a share below 1, is "
                       "expected", c->lr_warmup_steps);
    if (flat && c->lr_warmup_steps > 0)
        vc_flags_wrong(set, "--lr_warmup_steps: --lr_scheduler %s has no warm-up: give %s",
                       vtrain_schedule_name(how),
                       rules ? "rules that begin with it" : "constant_with_warmup");
    if (c->lr_num_cycles != 1 && !vtrain_schedule_is(how, VTRAIN_HAS_CYCLES))
        vc_flags_wrong(set, "--lr_num_cycles: belongs to --lr_scheduler cosine_with_restarts");
    if (c->lr_power != 1 && !vtrain_schedule_is(how, VTRAIN_HAS_POWER))
        vc_flags_wrong(set, "--lr_power: belongs to --lr_scheduler polynomial");
    if (c->lr_step_rules && !rules)
        vc_flags_wrong(set, "--lr_step_rules: belongs to --lr_scheduler piecewise_constant");
    if (c->lr_end > 0 && !vtrain_schedule_is(how, VTRAIN_HAS_END) && !c->param_groups.n)
        vc_flags_wrong(set, "--lr_end: belongs to --lr_scheduler linear, cosine, "
                       "cosine_with_restarts and polynomial");
    vc_flags_catch(set, vtrain_rate_check(&rate, &e), &e);
    check_groups(c, set);
}

/* ---- the numbers ---- */

static bool has_word(const char *words, const char *word, size_t n)
{
    for (const char *s = words; (s = strstr(s, word)); s += n)
        if ((s == words || s[-1] == ' ') && strchr(" ", s[n]))
            return true;
    return false;
}

/* True if the flag has its default, as in the config.yaml of a run of another optimiser. */
static bool has_default(const vtrain_config *c, const vc_flag *table, vc_flags *set,
                        const char *flag)
{
    char text[64], *end;
    const vc_flag *f = table;
    vc_flags_show(set, flag, c, text, sizeof text);
    while (f->kind == VC_GROUP || strcmp(f->name, flag))
        f++;
    double value = strtod(text, &end);
    return !strcmp(text, f->value) || (!*end && value == strtod(f->value, NULL));
}

/* Refuses flags of other optimisers, and sets the numbers that this one has by default. */
static int take_optimiser(const vtrain_config *c, const vc_flag *table, vc_flags *set, vc_err *err)
{
    const vt_optimizer_row *own = &vt_optimizers[c->optimizer];
    char flag[64], value[32];
    int rc = 0;
    size_t n;
    for (int i = 0; i < VT_OPTIMIZERS; i++)
        for (const char *s = vt_optimizers[i].flags; *s; s += n + strspn(s + n, " ")) {
            n = strcspn(s, " ");
            snprintf(flag, sizeof flag, "%.*s", (int)n, s);
            if (vc_flags_given(set, flag) && !has_word(own->flags, flag, n) &&
                !has_default(c, table, set, flag))
                vc_flags_wrong(set, "--%s: --optimizer %s has no such number: leave it out", flag,
                               own->name);
        }
    for (const char *s = own->defaults; !rc && s && *s; s += strspn(s, " ")) {
        n = strcspn(s, "=");
        snprintf(flag, sizeof flag, "%.*s", (int)n, s);
        s += n + 1;
        n = strcspn(s, " ");
        snprintf(value, sizeof value, "%.*s", (int)n, s);
        s += n;
        if (!vc_flags_given(set, flag))
            rc = vc_flags_prefer(set, flag, value, err);
    }
    return rc;
}

/* ---- numbers by their names in Python ---- */

/* Keys of optimisers' classes: the flag that has the key's meaning, or "other" flags for the
 * elements of a list; or a note of why there is none. `only` is the value that may be given. */
static const struct { const char *key, *flag, *other, *only, *say; } keys[] = {
    { "lr", "learning_rate", NULL, NULL, NULL },
    { "weight_decay", "adam_weight_decay", NULL, NULL, NULL },
    { "betas", "adam_beta1", "adam_beta2", NULL, NULL },
    { "beta1", "adam_beta1", NULL, NULL, NULL },
    { "beta2", "adam_beta2", NULL, NULL, NULL },
    { "eps", "adam_epsilon", NULL, NULL, NULL },
    { "d_coef", "prodigy_d_coef", NULL, NULL, NULL },
    { "d0", "prodigy_d0", NULL, NULL, NULL },
    { "growth_rate", "prodigy_growth_rate", NULL, NULL, NULL },
    { "beta3", "prodigy_beta3", NULL, NULL, NULL },
    { "use_bias_correction", "prodigy_use_bias_correction", NULL, NULL, NULL },
    { "safeguard_warmup", "prodigy_safeguard_warmup", NULL, NULL, NULL },
    { "relative_step", "adafactor_relative_step", NULL, NULL, NULL },
    { "scale_parameter", "adafactor_scale_parameter", NULL, NULL, NULL },
    { "warmup_init", "adafactor_warmup_init", NULL, NULL, NULL },
    { "clip_threshold", "adafactor_clip_threshold", NULL, NULL, NULL },
    { "decay_rate", "adafactor_decay_rate", NULL, NULL, NULL },
    { "r", "schedule_free_r", NULL, NULL, NULL },
    { "weight_lr_power", "schedule_free_weight_lr_power", NULL, NULL, NULL },
    { "momentum", "muon_momentum", NULL, NULL, NULL },
    { "nesterov", "muon_nesterov", NULL, NULL, NULL },
    { "ns_steps", "muon_iterations", NULL, NULL, NULL },
    { "adjust_lr_fn", "muon_adjust_lr_fn", NULL, NULL, NULL },
    { "decouple", NULL, NULL, "true", "decay is decoupled in all optimisers here" },
    { "weight_decouple", NULL, NULL, "true", "decay is decoupled in all optimisers here" },
    { "amsgrad", NULL, NULL, "false", "no optimiser here has it" },
    { "slice_p", NULL, NULL, "1", "all values are measured" },
    { "foreach", NULL, NULL, NULL, "kernels are chosen by the machine" },
    { "fused", NULL, NULL, NULL, "kernels are chosen by the machine" },
    { "is_paged", NULL, NULL, NULL, "state stays in the device's memory" },
};

/* Values that flags write in another way. */
static const char *as_flag(const char *value)
{
    return !strcasecmp(value, "inf") || !strcasecmp(value, "None") ? "0" : value;
}

/* Takes a value of n letters for the flag. */
static int take_value(const vt_optimizer_row *own, vc_flags *set, const char *key, const char *flag,
                      const char *value, size_t n, vc_err *err)
{
    char text[64];
    bool rate = !strcmp(flag, "learning_rate");
    snprintf(text, sizeof text, "%.*s", (int)n, value);
    if (!rate && !has_word(own->flags, flag, strlen(flag))) {
        vc_flags_wrong(set, "--optimizer_args %s: --optimizer %s has no such number: leave it out",
                       key, own->name);
        return 0;
    }
    return vc_context(err, vc_flags_catch(set, vc_flags_prefer(set, flag, as_flag(text), err), err),
                      "--optimizer_args %s", key);
}

/* Takes "KEY=VALUE" of n letters; a list is written with commas, and may be in brackets. */
static int take_pair(const vt_optimizer_row *own, vc_flags *set, const char *pair, size_t n,
                     vc_err *err)
{
    char text[160], *value, *rest;
    snprintf(text, sizeof text, "%.*s", (int)n, pair);
    value = strchr(text, '=');
    if (!value || !value[1]) {
        vc_flags_wrong(set, "--optimizer_args %s: KEY=VALUE is expected", text);
        return 0;
    }
    *value++ = '\0';
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcasecmp(keys[i].key, text))
            continue;
        if (!keys[i].flag && keys[i].only && strcasecmp(keys[i].only, value))
            vc_flags_wrong(set, "--optimizer_args %s: only %s is available here: %s", text,
                           keys[i].only, keys[i].say);
        else if (!keys[i].flag)
            vc_flags_say(set, "--optimizer_args %s: has no effect here: %s", text, keys[i].say);
        if (!keys[i].flag)
            return 0;
        value += strspn(value, "([");
        value[strcspn(value, ")]")] = '\0';
        rest = value + strcspn(value, ",");
        int rc = take_value(own, set, text, keys[i].flag, value, (size_t)(rest - value), err);
        if (rc || !keys[i].other || !*rest)
            return rc;
        return take_value(own, set, text, keys[i].other, rest + 1, strlen(rest + 1), err);
    }
    vc_flags_wrong(set, "--optimizer_args %s: --optimizer %s has no such number: leave it out",
                   text, own->name);
    return 0;
}

/* Each item has pairs with blanks between them. */
static int take_args(vtrain_config *c, vc_flags *set, vc_err *err)
{
    static const char blanks[] = " \t\n";
    const vt_optimizer_row *own = &vt_optimizers[c->optimizer];
    int rc = 0;
    for (int i = 0; i < c->optimizer_args.n; i++)
        for (const char *s = c->optimizer_args.item[i]; !rc && *(s += strspn(s, blanks));) {
            size_t n = strcspn(s, blanks);
            rc = take_pair(own, set, s, n, err);
            s += n;
        }
    c->optimizer_args.n = 0;                  /* config.yaml has the flags that these stand for */
    return rc;
}

/* ---- the optimiser ---- */

/* Replaces another word for an optimiser by that of its row. */
static int take_alias(vtrain_config *c, vc_flags *set, vc_err *err)
{
    if (c->optimizer < VT_OPTIMIZERS)
        return 0;
    const vt_optimizer_alias *a = &vt_optimizer_aliases[c->optimizer - VT_OPTIMIZERS];
    if (!strncmp(a->name, "paged", 5))
        vc_flags_say(set, "--optimizer %s: state stays in the device's memory, and is not paged",
                     a->name);
    return vc_flags_replace(set, "optimizer", vt_optimizers[a->how].name, err);
}

static void warn_of_rate(const vtrain_config *c, vc_flags *set)
{
    const vt_optimizer_row *own = &vt_optimizers[c->optimizer];
    double rate = c->learning_rate;
    if (rate > 0 && ((own->least > 0 && rate < own->least) || (own->most > 0 && rate > own->most)))
        vc_flags_say(set, "--learning_rate %g: is unusual for --optimizer %s, whose rate is "
                     "usually %s", rate, own->name, own->usual);
}

/* As in transformers, a rate belongs to steps that are not relative. */
static int take_relative(const vtrain_config *c, vc_flags *set, vc_err *err)
{
    bool given = vc_flags_given(set, "learning_rate");
    if (c->optimizer != VT_ADAFACTOR)
        return 0;
    if (c->adafactor_warmup_init && !c->adafactor_relative_step)
        vc_flags_wrong(set, "--adafactor_warmup_init: belongs to --adafactor_relative_step");
    if (c->adafactor_relative_step && given && c->learning_rate != 1)
        vc_flags_wrong(set, "--learning_rate: --optimizer adafactor computes the rate: leave it "
                       "out, or give --no_adafactor_relative_step (and "
                       "--no_adafactor_scale_parameter for the same rate of all tensors)");
    return c->adafactor_relative_step && !given ? vc_flags_prefer(set, "learning_rate", "1", err)
                                                : 0;
}

/* An optimiser that evaluates a mean of its own has no other, and finds it by a beta1 above 0. */
static void check_shown(const vtrain_config *c, vc_flags *set)
{
    const vt_optimizer_row *own = &vt_optimizers[c->optimizer];
    if (!own->run || !own->run->shown)
        return;
    if (c->use_ema)
        vc_flags_wrong(set, "--use_ema: --optimizer %s evaluates a mean already: leave it out",
                       own->name);
    if (!(c->adam_beta1 > 0))
        vc_flags_wrong(set, "--adam_beta1 0: --optimizer %s needs a number above 0", own->name);
}

int vtrain_take_optimiser(vtrain_config *c, const vc_flag *table, vc_flags *set, vc_err *err)
{
    int rc = take_alias(c, set, err);
    if (rc)
        return rc;
    if (c->use_8bit_adam && vc_flags_given(set, "optimizer") && c->optimizer != VT_ADAMW8BIT)
        vc_flags_wrong(set, "--use_8bit_adam: means adamw8bit, but --optimizer gives another");
    if (c->use_8bit_adam)
        c->optimizer = VT_ADAMW8BIT;
    rc = take_optimiser(c, table, set, err);
    if (!rc)
        rc = take_args(c, set, err);
    if (!rc)
        rc = take_relative(c, set, err);
    if (rc)
        return rc;
    warn_of_rate(c, set);
    check_shown(c, set);
    check_rate(c, set);
    return 0;
}
