/* alpha.c - the alphas in the metadata of LoRA files: see alpha.h */
#include "train/lora/alpha.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/json/json.h"
#include "train/lora/paths_regex.h"

enum { MAX_CONFIG = 1 << 20, MAX_PATTERNS = 4096, MAX_PATTERN = 512 };
#define MAX_ALPHA 1e9

struct vtrain_lora_pattern {
    vc_regex *module;
    double alpha;
};

/* ---- alpha_pattern ---- */

static int read_pattern(vtrain_lora_alpha *a, const cJSON *o, const char *key, vc_err *err)
{
    struct vtrain_lora_pattern *p = &a->pattern[a->n_patterns];
    int rc = vf_json_num_opt(o, key, &p->alpha, err);
    if (!rc && !(p->alpha >= 0 && p->alpha < MAX_ALPHA))
        rc = vc_fail(err, VC_EFORMAT, "alpha is out of range");
    if (!rc && strlen(key) > MAX_PATTERN)
        rc = vc_fail(err, VC_EFORMAT, "expressions longer than %d characters are not read",
                     MAX_PATTERN);
    if (!rc && vtrain_regex_open(&p->module, key, true, err))
        rc = VC_EFORMAT;
    a->n_patterns += !rc;
    return rc;
}

static int read_patterns(vtrain_lora_alpha *a, const cJSON *meta, const char *field, vc_err *err)
{
    const cJSON *o = cJSON_GetObjectItemCaseSensitive(meta, field);
    if (!o || cJSON_IsNull(o) || !o->child)
        return 0;
    if (!cJSON_IsObject(o))
        return vc_fail(err, VC_EFORMAT, "%s: expected an object", field);
    int n = cJSON_GetArraySize(o);
    if (n > MAX_PATTERNS)
        return vc_fail(err, VC_EFORMAT, "%s has %d entries; at most %d are read", field, n,
                       MAX_PATTERNS);
    a->pattern = calloc((size_t)n, sizeof *a->pattern);
    if (!a->pattern)
        return vc_no_memory(err);
    for (const cJSON *c = o->child; c; c = c->next) {
        int rc = read_pattern(a, o, c->string, err);
        if (rc)
            return vc_context(err, rc, "%s: \"%.100s\"", field, c->string);
    }
    return 0;
}

/* ---- metadata ---- */

/* Reads fields of PEFT's LoraConfig, which diffusers writes with the prefix "transformer." and
 * Finetrainers without a prefix. */
static int read_config(vtrain_lora_alpha *a, const cJSON *meta, const char *prefix, vc_err *err)
{
    static const char *const names[] = { "lora_alpha", "use_rslora", "use_dora", "alpha_pattern" };
    char field[4][40];
    for (int i = 0; i < 4; i++)
        snprintf(field[i], sizeof field[i], "%s%s", prefix, names[i]);
    int rc = vf_json_num_opt(meta, field[0], &a->alpha, err);
    if (!rc && (a->alpha < 0 || a->alpha >= MAX_ALPHA))
        rc = vc_fail(err, VC_EFORMAT, "%s is out of range", field[0]);
    if (!rc)
        rc = vf_json_bool_opt(meta, field[1], &a->root, err);
    if (!rc)
        rc = vf_json_bool_opt(meta, field[2], &a->dora, err);
    return rc ? rc : read_patterns(a, meta, field[3], err);
}

/* PEFT writes its LoraConfig into a file beside the values. */
static int read_adapter_config(vtrain_lora_alpha *a, const char *path, vc_err *err)
{
    static const char name[] = "adapter_config.json";
    cJSON *meta = NULL;
    char *dir = vc_format("%.*s", (int)(vc_path_base(path) - path), path);
    if (!dir)
        return vc_no_memory(err);
    int rc = vf_json_read_in_opt(&meta, dir, name, MAX_CONFIG, err);
    free(dir);
    if (!rc && meta)
        rc = vc_context(err, read_config(a, meta, "", err), "%s", name);
    cJSON_Delete(meta);
    return rc;
}

static int read_trained(vtrain_lora_alpha *a, const vf_safetensors *file, vc_err *err)
{
    const char *text = vf_safetensors_meta(file, "vlt_network_alpha");
    char *end;
    a->trained = text ? strtod(text, &end) : NAN;
    if (text && (end == text || *end || !(a->trained > 0 && a->trained < MAX_ALPHA)))
        return vc_fail(err, VC_EFORMAT, "vlt_network_alpha: \"%.40s\" is not a number above 0",
                       text);
    return 0;
}

int vtrain_lora_alpha_read(vtrain_lora_alpha *a, const vf_safetensors *file, const char *path,
                           vc_err *err)
{
    static const char *const keys[] = { "lora_adapter_metadata", "lora_config" };
    *a = (vtrain_lora_alpha){ .alpha = NAN };
    if (read_trained(a, file, err))
        return VC_EFORMAT;
    for (int i = 0; i < 2; i++) {
        const char *text = vf_safetensors_meta(file, keys[i]);
        cJSON *meta = NULL;
        if (!text)
            continue;
        int rc = vf_json_parse(&meta, text, strlen(text), err);
        if (!rc)
            rc = read_config(a, meta, i ? "" : "transformer.", err);
        cJSON_Delete(meta);
        return vc_context(err, rc, "%s", keys[i]);
    }
    return read_adapter_config(a, path, err);
}

void vtrain_lora_alpha_close(vtrain_lora_alpha *a)
{
    for (int i = 0; i < a->n_patterns; i++)
        vc_regex_close(a->pattern[i].module);
    free(a->pattern);
    *a = (vtrain_lora_alpha){ 0 };
}

/* ---- the scale of a module ---- */

double vtrain_lora_alpha_scale(const vtrain_lora_alpha *a, const char *module, double rank)
{
    double alpha = a->alpha;
    for (int i = 0; i < a->n_patterns; i++) {
        if (vc_regex_matches(a->pattern[i].module, module)) {
            alpha = a->pattern[i].alpha;
            break;
        }
        if (vc_regex_check(a->pattern[i].module, NULL))
            return NAN;
    }
    return isnan(alpha) ? 1 : a->root ? alpha / sqrt(rank) : alpha / rank;
}

int vtrain_lora_alpha_check(const vtrain_lora_alpha *a, vc_err *err)
{
    for (int i = 0; i < a->n_patterns; i++)
        if (vc_regex_check(a->pattern[i].module, err))
            return vc_context(err, VC_EFORMAT, "alpha_pattern");
    return 0;
}
