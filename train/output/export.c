#include "train/output/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/os/file.h"
#include "formats/tensors/values.h"

enum { MAX_CONFIG = 1 << 20 };

/* ---- LoRA ---- */

/* {"transformer.r":..., "transformer.lora_alpha":..., "transformer.target_modules":[...]} : these
 * three must be there, and every further name would have to be one of PEFT's LoraConfig. */
static char *lora_metadata(const vtrain_export_lora_opts *o)
{
    cJSON *m = cJSON_CreateObject(), *list = cJSON_CreateStringArray(o->target, o->n_targets);
    bool ok = vf_json_add_int(m, "transformer.r", o->rank) == 0 &&
              cJSON_AddNumberToObject(m, "transformer.lora_alpha",
                                      o->bake ? (double)o->rank : o->alpha);
    if (!ok || !cJSON_AddItemToObject(m, "transformer.target_modules", list)) {
        cJSON_Delete(list);
        ok = false;
    }
    char *text = ok ? vf_json_line(m) : NULL;
    cJSON_Delete(m);
    return text;
}

/* Which data made it, and the alpha that a baked file no longer shows; the new number of fields. */
static int add_lineage(vf_meta *meta, int n, const vtrain_export_lora_opts *o, char alpha[32])
{
    if (o->data) meta[n++] = (vf_meta){ "vlt_data", o->data };
    if (o->plan) meta[n++] = (vf_meta){ "vlt_plan", o->plan };
    if (o->bake) {
        snprintf(alpha, 32, "%.17g", o->alpha);
        meta[n++] = (vf_meta){ "vlt_network_alpha", alpha };
    }
    return n;
}

/* What B is multiplied by. */
static double scale_of(const vtrain_export_lora_opts *o)
{
    return o->bake ? o->alpha / (double)o->rank : 1;
}

static int write_diffusers(const char *dir, vt_params *p, const vtrain_export_lora_opts *o,
                           vc_err *err)
{
    vtrain_views s;
    char alpha[32];
    int rc = vtrain_views_open(&s, vt_params_context(p), vt_params_count(p), err);
    for (int i = 0; !rc && i < s.room; i++) {
        const vt_param *x = vt_params_at(p, i);
        if (x->role == VT_P_BASE) continue;
        rc = vtrain_views_add(&s, "transformer.", x->name, "", x->t, VC_F32,
                              x->role == VT_P_LORA_B ? scale_of(o) : 1, err);
    }
    char *text = rc ? NULL : lora_metadata(o);
    if (!rc && !text) rc = vc_fail(err, VC_ENOMEM, "out of memory");
    vf_meta meta[5] = { { "format", "pt" }, { "lora_adapter_metadata", text } };
    int n = add_lineage(meta, 2, o, alpha);
    if (!rc)
        rc = vtrain_views_write(&s, dir, "pytorch_lora_weights.safetensors", meta, n, true,
                                o->sums, err);
    free(text);
    vtrain_views_close(&s);
    return rc;
}

/* A layout with a scalar alpha beside each pair. */
typedef struct layout {
    const char *file, *prefix;
    bool flat;                                /* underscores for the dots of a module's path */
} layout;

/* Half of a pair under its name in the layout; after the second half the alpha of both. */
static int add_half(vtrain_views *s, const layout *l, const vt_param *x, double scale,
                    vt_tensor *alpha, vc_err *err)
{
    char *module = strdup(x->module);
    if (!module) return vc_fail(err, VC_ENOMEM, "out of memory");
    for (char *c = module; l->flat && (c = strchr(c, '.'));)
        *c = '_';
    bool a = x->role == VT_P_LORA_A;
    int rc = vtrain_views_add(s, l->prefix, module, a ? ".lora_down.weight" : ".lora_up.weight",
                              x->t, VC_F32, a ? 1 : scale, err);
    if (!rc && !a) rc = vtrain_views_add(s, l->prefix, module, ".alpha", alpha, VC_F32, 1, err);
    free(module);
    return rc;
}

static int write_layout(const char *dir, const layout *l, vt_params *p,
                        const vtrain_export_lora_opts *o, vc_err *err)
{
    vtrain_views s;
    char trained[32];
    float value = (float)(o->bake ? (double)o->rank : o->alpha);
    vt_ctx *g = vt_params_context(p);
    vt_tensor *alpha = vt_param_new(g, VC_F32, 0, NULL, &value, VC_F32, false, err);
    int rc = vtrain_views_open(&s, g, 2 * vt_params_count(p), err);
    if (!alpha) rc = VC_ENOMEM;
    for (int i = 0; !rc && i < vt_params_count(p); i++) {
        const vt_param *x = vt_params_at(p, i);
        if (x->role != VT_P_BASE) rc = add_half(&s, l, x, scale_of(o), alpha, err);
    }
    vf_meta meta[4] = { { "format", "pt" } };
    int n = add_lineage(meta, 1, o, trained);
    if (!rc) rc = vtrain_views_write(&s, dir, l->file, meta, n, true, o->sums, err);
    vtrain_views_close(&s);
    vt_param_free(g, alpha);
    return rc;
}

int vtrain_export_lora(const char *dir, vt_params *p, const vtrain_export_lora_opts *o, vc_err *err)
{
    static const layout kohya = { "lora_kohya.safetensors", "lora_unet__", true };
    static const layout comfyui = { "lora_comfyui.safetensors", "diffusion_model.", false };
    int rc = write_diffusers(dir, p, o, err);
    if (!rc && o->kohya) rc = write_layout(dir, &kohya, p, o, err);
    if (!rc && o->comfyui) rc = write_layout(dir, &comfyui, p, o, err);
    return rc;
}

/* ---- all of it ---- */

/* What decides the files before the first one is written. */
typedef struct shards {
    int n;                                    /* files */
    int *of;                                  /* [parameters] file of each */
    size_t total;                             /* bytes of all tensors */
} shards;

static vc_dtype saved_type(const vtrain_weights *w, const vt_param *x)
{
    return w ? vtrain_weights_type(w, x->name) : x->t->dtype;
}

/* In bound order, each file as full as `most` allows; a tensor above it has a file of its own. */
static int make_shards(shards *s, vt_params *p, const vtrain_weights *w, size_t most, vc_err *err)
{
    size_t filled = 0;
    *s = (shards){ .n = 1, .of = calloc((size_t)vt_params_count(p) + 1, sizeof *s->of) };
    if (!s->of) return vc_fail(err, VC_ENOMEM, "out of memory");
    for (int i = 0; i < vt_params_count(p); i++) {
        const vt_param *x = vt_params_at(p, i);
        size_t bytes = (size_t)vt_count(x->t) * vc_dtype_size(saved_type(w, x));
        if (filled && filled + bytes > most) {
            s->n++;
            filled = 0;
        }
        s->of[i] = s->n - 1;
        filled += bytes;
        s->total += bytes;
    }
    return 0;
}

static char *shard_name(const shards *s, int i)
{
    if (s->n == 1) return strdup("diffusion_pytorch_model.safetensors");
    return vc_format("diffusion_pytorch_model-%05d-of-%05d.safetensors", i + 1, s->n);
}

static int write_shard(const char *folder, const shards *s, int at, vt_params *p,
                       const vtrain_weights *w, vf_sums *sums, vc_err *err)
{
    vtrain_views v;
    char *name = shard_name(s, at);
    int rc = vtrain_views_open(&v, vt_params_context(p), vt_params_count(p), err);
    if (!rc && !name) rc = vc_fail(err, VC_ENOMEM, "out of memory");
    for (int i = 0; !rc && i < v.room; i++) {
        const vt_param *x = vt_params_at(p, i);
        if (s->of[i] == at)
            rc = vtrain_views_add(&v, "", x->name, "", x->t, saved_type(w, x), 1, err);
    }
    const vf_meta meta = { "format", "pt" };
    if (!rc) rc = vtrain_views_write(&v, folder, name, &meta, 1, false, sums, err);
    vtrain_views_close(&v);
    free(name);
    return rc;
}

static int add_to_map(cJSON *map, const shards *s, int at, const char *tensor)
{
    char *name = shard_name(s, at);
    bool ok = name && cJSON_AddStringToObject(map, tensor, name);
    free(name);
    return ok;
}

static int write_index(const char *folder, const shards *s, vt_params *p, vf_sums *sums,
                       vc_err *err)
{
    char *path = vc_path_join(folder, "diffusion_pytorch_model.safetensors.index.json");
    cJSON *o = cJSON_CreateObject(), *meta = cJSON_AddObjectToObject(o, "metadata");
    cJSON *map = cJSON_AddObjectToObject(o, "weight_map");
    bool ok = path && map && vf_json_add_int(meta, "total_size", (int64_t)s->total) == 0;
    for (int i = 0; ok && i < vt_params_count(p); i++)
        ok = add_to_map(map, s, s->of[i], vt_params_at(p, i)->name);
    char *text = ok ? cJSON_Print(o) : NULL;
    int rc = text ? vf_sums_put(sums, path, text, strlen(text), err)
                  : vc_fail(err, VC_ENOMEM, "out of memory");
    free(text);
    free(path);
    cJSON_Delete(o);
    return rc;
}

/* The file that w was opened with, byte for byte; else the config as it is. */
static int write_config(const char *folder, const vtrain_weights *w, const cJSON *config,
                        vf_sums *sums, vc_err *err)
{
    char *to = vc_path_join(folder, "config.json"), *text = NULL;
    char *from = w ? vc_path_join(vtrain_weights_path(w), "config.json") : NULL;
    size_t n = 0;
    int rc = to && (from || !w) ? 0 : vc_fail(err, VC_ENOMEM, "out of memory");
    if (!rc && from) rc = vc_file_read(&text, &n, from, MAX_CONFIG, err);
    if (!rc && !from) {
        text = cJSON_Print(config);
        rc = text ? 0 : vc_fail(err, VC_ENOMEM, "out of memory");
        n = text ? strlen(text) : 0;
    }
    if (!rc) rc = vf_sums_put(sums, to, text, n, err);
    free(to);
    free(from);
    free(text);
    return rc;
}

int vtrain_export_full(const char *folder, vt_params *p, const vtrain_weights *w,
                       const cJSON *config, size_t most, vf_sums *sums, vc_err *err)
{
    shards s = { 0 };
    int rc = vc_mkdirs(folder, err);
    if (!rc) rc = write_config(folder, w, config, sums, err);
    if (!rc) rc = make_shards(&s, p, w, most, err);
    for (int i = 0; !rc && i < s.n; i++)
        rc = write_shard(folder, &s, i, p, w, sums, err);
    if (!rc && s.n > 1) rc = write_index(folder, &s, p, sums, err);
    free(s.of);
    return rc;
}

/* ---- a whole pipeline ---- */

/* A component's name comes from a file: one that is a path could lead out of the folder. */
static bool plain_name(const char *name)
{
    return *name && *name != '.' && !strchr(name, '/');
}

static int link_component(const char *dir, const char *model, const char *name, vc_err *err)
{
    char *from = vc_path_join(model, name), *to = vc_path_join(dir, name), *real = NULL;
    int rc = from && to ? 0 : vc_fail(err, VC_ENOMEM, "out of memory");
    if (!rc && vc_file_exists(from) && !vc_file_exists(to)) {
        real = realpath(from, NULL);
        if (!real || symlink(real, to)) rc = vc_fail_errno(err, "%s", to);
    }
    free(real);
    free(to);
    free(from);
    return rc;
}

int vtrain_export_pipeline(const char *dir, const char *model, vf_sums *sums, vc_err *err)
{
    static const char index[] = "model_index.json";
    char *from = vc_path_join(model, index), *to = vc_path_join(dir, index), *text = NULL;
    cJSON *o = NULL;
    size_t n;
    int rc = from && to ? 0 : vc_fail(err, VC_ENOMEM, "out of memory");
    if (!rc && vc_file_exists(from)) {
        rc = vc_file_read(&text, &n, from, MAX_CONFIG, err);
        if (!rc) rc = vc_context(err, vf_json_parse(&o, text, n, err), "%s", from);
        for (const cJSON *c = rc || !dir ? NULL : o->child; c && !rc; c = c->next)
            if (cJSON_IsArray(c) && plain_name(c->string))
                rc = link_component(dir, model, c->string, err);
        if (!rc && dir) rc = vf_sums_put(sums, to, text, n, err);
    }
    cJSON_Delete(o);
    free(text);
    free(to);
    free(from);
    return rc;
}
