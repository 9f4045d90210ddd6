/* lycoris.c - SimpleTuner's file of LyCORIS's settings: vtrain_take_lycoris of settings.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/adapters/adapter.h"
#include "formats/json/json.h"
#include "train/settings/settings.h"

enum { MOST_BYTES = 1 << 20, MOST_RANK = 4096 };

/* The settings of the file: the flag of the same meaning; or why it has none. */
static const struct { const char *key, *flag, *say; } keys[] = {
    { "linear_dim", "rank", NULL },
    { "linear_alpha", "network_alpha", NULL },
    { "factor", "lokr_factor", NULL },
    { "full_matrix", "lokr_full_matrix", NULL },
    { "decompose_both", "lokr_decompose_both", NULL },
    { "dora_wd", "use_dora", NULL },
    { "weight_decompose", "use_dora", NULL },
    { "rs_lora", "use_rslora", NULL },
    { "dropout", "network_dropout", NULL },
    { "rank_dropout", "rank_dropout", NULL },
    { "rank_dropout_scale", "rank_dropout_scale", NULL },
    { "module_dropout", "module_dropout", NULL },
    { "bypass_mode", NULL, "the product is added to the layer's output where this is faster" },
    { "use_tucker", NULL, "it divides convolutions, and linear modules alone are adapted" },
    { "wd_on_output", NULL, "magnitudes are those of outputs" },
    { "conv_dim", NULL, "linear modules alone are adapted" },
    { "conv_alpha", NULL, "linear modules alone are adapted" },
};

static int take_text(vc_flags *set, const char *flag, const cJSON *v, vc_err *err)
{
    char number[32];
    const char *text = cJSON_IsString(v) ? v->valuestring : number;
    if (cJSON_IsNumber(v))
        snprintf(number, sizeof number, "%.9g", v->valuedouble);
    else if (cJSON_IsBool(v))
        snprintf(number, sizeof number, "%s", cJSON_IsTrue(v) ? "true" : "false");
    else if (!cJSON_IsString(v))
        return vc_fail(err, VC_EUSAGE, "--lycoris_config: %s: one value is expected", v->string);
    const int rc = vc_flags_prefer(set, flag, text, err);
    return vc_context(err, rc, "--lycoris_config: %s", v->string);
}

/* The modules of a preset are classes of Python, which have no names here; a map gives some classes
 * settings of their own. */
static void take_preset(vc_flags *set, const cJSON *v)
{
    if (cJSON_GetObjectItemCaseSensitive(v, "module_algo_map") ||
        cJSON_GetObjectItemCaseSensitive(v, "name_algo_map"))
        vc_flags_wrong(set, "--lycoris_config: apply_preset: all modules have one kind of adapter "
                       "and one factor here: leave module_algo_map and name_algo_map out, and give "
                       "ranks by --rank_pattern");
    else
        vc_flags_say(set, "--lycoris_config: apply_preset: names classes of modules; the modules "
                     "here are those of --target_name, or the family's");
}

static int take_key(vc_flags *set, const cJSON *v, vc_err *err)
{
    if (cJSON_IsFalse(v) && !strcmp(v->string, "wd_on_output"))
        vc_flags_wrong(set, "--lycoris_config: wd_on_output: magnitudes of inputs are not "
                       "available here: leave it out, and each output has one");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(keys[i].key, v->string))
            continue;
        if (keys[i].flag)
            return vc_flags_catch(set, take_text(set, keys[i].flag, v, err), err);
        vc_flags_say(set, "--lycoris_config: %s: has no effect here: %s", v->string, keys[i].say);
        return 0;
    }
    if (!strcmp(v->string, "apply_preset"))
        take_preset(set, v);
    else if (!cJSON_IsFalse(v) &&
             (strcmp(v->string, "multiplier") || !cJSON_IsNumber(v) || v->valuedouble != 1))
        vc_flags_wrong(set, "--lycoris_config: %s: not available here: leave it out", v->string);
    return 0;
}

/* A rank above all is LyCORIS's way to ask for whole matrices. */
static int take_values(vtrain_config *c, vc_flags *set, const cJSON *o, vc_err *err)
{
    const cJSON *algo = cJSON_GetObjectItemCaseSensitive(o, "algo");
    const cJSON *dim = cJSON_GetObjectItemCaseSensitive(o, "linear_dim");
    const bool whole = cJSON_IsNumber(dim) && dim->valuedouble > MOST_RANK;
    const char *kind = cJSON_IsString(algo) ? algo->valuestring : "lora";
    const bool open = !vc_flags_given(set, "adapter") || c->adapter >= VT_ADAPTERS;
    int rc = open ? vc_flags_replace(set, "adapter", kind, err)
                  : vc_flags_prefer(set, "adapter", kind, err);
    rc = vc_flags_catch(set, rc, err);
    if (!rc && whole && !strcmp(kind, "lokr"))
        rc = vc_flags_prefer(set, "lokr_full_matrix", "true", err);
    const cJSON *v;
    cJSON_ArrayForEach(v, o)
        if (!rc && strcmp(v->string, "algo") && !(whole && v == dim))
            rc = take_key(set, v, err);
    return rc;
}

int vtrain_take_lycoris(vtrain_config *c, vc_flags *set, vc_err *err)
{
    cJSON *o = NULL;
    if (!c->lycoris_config)
        return 0;
    int rc = vf_json_read(&o, c->lycoris_config, MOST_BYTES, err);
    if (!rc && !cJSON_IsObject(o))
        rc = vc_fail(err, VC_EFORMAT, "%s: expected an object", c->lycoris_config);
    rc = rc ? vc_context(err, rc, "--lycoris_config") : take_values(c, set, o, err);
    cJSON_Delete(o);
    c->lycoris_config = NULL;                 /* config.yaml has the flags that it stands for */
    return rc;
}
