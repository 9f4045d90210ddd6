/* network_args.c - settings KEY=VALUE of an adapter, as musubi-tuner and LyCORIS take them:
 * vtrain_take_network_args of settings.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/adapters/adapter.h"
#include "train/settings/settings.h"

/* Keys, with the flag that has the key's meaning, or why there is none. */
static const struct {
    const char *key;
    bool refused;
    const char *say, *flag;
} keys[] = {
    { "exclude_patterns", true, "give the modules that are meant by --target_name, a list of names "
      "or a regular expression over whole paths", NULL },
    { "include_patterns", true, "give the modules by --target_name, a list of names or a regular "
      "expression over whole paths", NULL },
    { "conv_dim", false, "linear modules alone are adapted", NULL },
    { "conv_alpha", false, "linear modules alone are adapted", NULL },
    { "train_norm", true, "norms are not trained beside a LoRA", NULL },
    { "dropout", false, NULL, "network_dropout" },
    { "rank_dropout", false, NULL, "rank_dropout" },
    { "module_dropout", false, NULL, "module_dropout" },
    { "rank_dropout_scale", false, NULL, "rank_dropout_scale" },
    { "factor", false, NULL, "lokr_factor" },
    { "full_matrix", false, NULL, "lokr_full_matrix" },
    { "decompose_both", false, NULL, "lokr_decompose_both" },
    { "dora_wd", false, NULL, "use_dora" },
    { "weight_decompose", false, NULL, "use_dora" },
    { "rs_lora", false, NULL, "use_rslora" },
    { "use_tucker", false, "it divides convolutions, and linear modules alone are adapted", NULL },
    { "bypass_mode", false, "the product is added to the layer's output where this is faster",
      NULL },
    { "use_scalar", true, "factors begin at zero where LyCORIS's do without it: leave it out",
      NULL },
    { "unbalanced_factorization", true, "LoKr's first matrix has the smaller sizes: leave it out",
      NULL },
    { "wd_on_output", false, "magnitudes are those of outputs", NULL },
    { "preset", true, "give the modules by --target_name", NULL },
    { "loraplus_text_encoder_lr_ratio", true, "only the transformer is trained", NULL },
    { "verbose", false, "the plan of a run shows its modules", NULL },
};

/* The key of musubi-tuner, or that of kohya's sd-scripts for the transformer. */
static bool is_loraplus(const char *key, size_t n)
{
    static const char *const names[] = { "loraplus_lr_ratio", "loraplus_unet_lr_ratio" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == n && !strncmp(names[i], key, n))
            return true;
    return false;
}

/* The rate of a LoRA's B is a multiple of the run's. */
static int take_loraplus(vtrain_config *c, vc_flags *set, const char *text, const char *value,
                         vc_err *err)
{
    char *end, group[64];
    double ratio = strtod(value, &end);
    if (!*value || *end || !isfinite(ratio) || !(ratio > 0)) {
        vc_flags_wrong(set, "--network_args %s: a number above 0 is expected, the rate of a LoRA's "
                       "B divided by the run's", text);
        return 0;
    }
    if (vc_flags_given(set, "param_groups"))
        vc_flags_wrong(set, "--network_args loraplus_lr_ratio: --param_groups gives groups "
                       "already: add \"lora_B:lr=%gx\" to them instead", ratio);
    if (c->training_type != VTRAIN_LORA)
        vc_flags_wrong(set, "--network_args loraplus_lr_ratio: belongs to --training_type lora");
    snprintf(group, sizeof group, "lora_B:lr=%.9gx", ratio);
    return vc_flags_prefer(set, "param_groups", group, err);
}

/* The kind of LyCORIS's adapter. --network_module lycoris.kohya leaves the choice to it. */
static int take_algo(vtrain_config *c, vc_flags *set, const char *algo, vc_err *err)
{
    const bool open = !vc_flags_given(set, "adapter") || c->adapter >= VT_ADAPTERS;
    return vc_flags_catch(set, open ? vc_flags_replace(set, "adapter", algo, err)
                                    : vc_flags_prefer(set, "adapter", algo, err), err);
}

/* "PATTERN=RANK,PATTERN=RANK" of sd-scripts and LyCORIS. */
static int take_reg_dims(vtrain_config *c, vc_flags *set, const char *text, vc_err *err)
{
    int rc = 0;
    (void)c;
    while (!rc && *text) {
        const size_t n = strcspn(text, ",");
        char *pair = strndup(text, n);
        rc = pair ? vc_flags_prefer(set, "rank_pattern", pair, err) : vc_no_memory(err);
        free(pair);
        text += n + (text[n] == ',');
    }
    return vc_flags_catch(set, rc, err);
}

/* Whether a setting has the value that LyCORIS has without it. */
static bool is_off(const char *value)
{
    return !strcasecmp(value, "false") || !strcmp(value, "0");
}

static int take_other(vc_flags *set, const char *text, size_t n, vc_err *err)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strlen(keys[i].key) != n || strncasecmp(keys[i].key, text, n))
            continue;
        if (keys[i].flag)
            return vc_flags_catch(set, vc_flags_prefer(set, keys[i].flag, text + n + 1, err), err);
        if (keys[i].refused && !is_off(text + n + 1))
            vc_flags_wrong(set, "--network_args %s: not available here: %s", keys[i].key,
                           keys[i].say);
        else if (!keys[i].refused)
            vc_flags_say(set, "--network_args %s: has no effect here: %s", keys[i].key,
                         keys[i].say);
        if (!strcmp(keys[i].key, "wd_on_output") && is_off(text + n + 1))
            vc_flags_wrong(set, "--network_args wd_on_output: magnitudes of inputs are not "
                           "available here: leave it out, and each output has one");
        return 0;
    }
    vc_flags_wrong(set, "--network_args %s: not available here: of the settings of musubi-tuner "
                   "and LyCORIS, algo, factor, full_matrix, decompose_both, dora_wd, rs_lora, "
                   "network_reg_dims, dropouts and loraplus_lr_ratio=N are taken", text);
    return 0;
}

/* musubi-tuner's default alpha is 1. */
static int take_dim(const vtrain_config *c, vc_flags *set, vc_err *err)
{
    if (!vc_flags_typed(set, "network_dim") || vc_flags_decided(set, "network_alpha"))
        return 0;
    vc_flags_say(set, "--network_dim %lld: alpha is 1, as in musubi-tuner, so that the LoRA's "
                 "product is multiplied by 1/%lld: --network_alpha gives another",
                 (long long)c->rank, (long long)c->rank);
    return vc_flags_prefer(set, "network_alpha", "1", err);
}

int vtrain_take_network_args(vtrain_config *c, vc_flags *set, vc_err *err)
{
    int rc = take_dim(c, set, err);
    if (!rc)
        rc = vtrain_take_lycoris(c, set, err);
    for (int i = 0; !rc && i < c->network_args.n; i++) {
        const char *text = c->network_args.item[i];
        size_t n = strcspn(text, "=");
        if (!text[n])
            vc_flags_wrong(set, "--network_args %s: KEY=VALUE is expected", text);
        else if (is_loraplus(text, n))
            rc = take_loraplus(c, set, text, text + n + 1, err);
        else if (n == 4 && !strncmp(text, "algo", n))
            rc = take_algo(c, set, text + n + 1, err);
        else if (n == 16 && !strncmp(text, "network_reg_dims", n))
            rc = take_reg_dims(c, set, text + n + 1, err);
        else
            rc = take_other(set, text, n, err);
    }
    c->network_args.n = 0;                    /* config.yaml has the flags that these stand for */
    return rc;
}
