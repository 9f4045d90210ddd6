/* export.c - writes whole models and pipelines for other programs; see export.h */
#include "train/output/export.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/os/file.h"
#include "formats/tensors/values.h"

enum { MAX_CONFIG = 1 << 20 };

/* ---- a whole transformer ---- */

/* Distribution over files of the parameters, and behind them of the tensors that are kept. */
typedef struct shards {
    vt_params *p;
    const vtrain_weights *w;
    vf_view *kept;
    int n_kept;
    int n;                                    /* files */
    int *of;                                  /* [parameters + n_kept] file of each */
    size_t total;                             /* bytes of all tensors */
} shards;

static vc_dtype saved_type(const vtrain_weights *w, const vt_param *x)
{
    return w ? vtrain_weights_type(w, x->name) : x->t->dtype;
}

static int tensors_of(const shards *s)
{
    return vt_params_count(s->p) + s->n_kept;
}

/* The view of a tensor that is kept; NULL: tensor i is a parameter. */
static const vf_view *kept_at(const shards *s, int i)
{
    const int n = vt_params_count(s->p);
    return i < n ? NULL : &s->kept[i - n];
}

static size_t bytes_at(const shards *s, int i)
{
    const vf_view *kept = kept_at(s, i);
    if (kept)
        return kept->bytes;
    const vt_param *x = vt_params_at(s->p, i);
    return (size_t)vt_count(x->t) * vc_dtype_size(saved_type(s->w, x));
}

/* Fills the files in the tensors' order, up to `most` bytes each; a larger tensor has a file of its
 * own. */
static int make_shards(shards *s, size_t most, vc_err *err)
{
    size_t filled = 0;
    int rc = s->w ? vtrain_weights_kept(&s->kept, &s->n_kept, s->w, s->p, err) : 0;
    if (rc)
        return rc;
    s->n = 1;
    s->of = calloc((size_t)tensors_of(s) + 1, sizeof *s->of);
    if (!s->of)
        return vc_no_memory(err);
    for (int i = 0; i < tensors_of(s); i++) {
        const size_t bytes = bytes_at(s, i);
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
    if (s->n == 1)
        return strdup("diffusion_pytorch_model.safetensors");
    return vc_format("diffusion_pytorch_model-%05d-of-%05d.safetensors", i + 1, s->n);
}

static int add_tensor(vf_views *v, const shards *s, int i, vc_err *err)
{
    const vf_view *kept = kept_at(s, i);
    if (kept)
        return vf_views_add_view(v, kept, err);
    const vt_param *x = vt_params_at(s->p, i);
    return vf_views_add(v, "", x->name, "", x->t, saved_type(s->w, x), 1, err);
}

static int write_shard(const char *folder, const shards *s, int at, vf_sums *sums, vc_err *err)
{
    vf_views v;
    char *name = shard_name(s, at);
    int rc = vf_views_open(&v, vt_params_context(s->p), tensors_of(s), err);
    if (!rc && !name)
        rc = vc_no_memory(err);
    for (int i = 0; !rc && i < v.room; i++)
        if (s->of[i] == at)
            rc = add_tensor(&v, s, i, err);
    const vf_meta meta = { "format", "pt" };
    if (!rc)
        rc = vf_views_write(&v, folder, name, &meta, 1, false, sums, err);
    vf_views_close(&v);
    free(name);
    return rc;
}

static int add_to_map(cJSON *map, const shards *s, int i)
{
    const vf_view *kept = kept_at(s, i);
    char *name = shard_name(s, s->of[i]);
    bool ok = name && cJSON_AddStringToObject(map, kept ? kept->name : vt_params_at(s->p, i)->name,
                                              name);
    free(name);
    return ok;
}

static int write_index(const char *folder, const shards *s, vf_sums *sums, vc_err *err)
{
    char *path = vc_path_join(folder, "diffusion_pytorch_model.safetensors.index.json");
    cJSON *o = cJSON_CreateObject(), *meta = cJSON_AddObjectToObject(o, "metadata");
    cJSON *map = cJSON_AddObjectToObject(o, "weight_map");
    bool ok = path && map && vf_json_add_int(meta, "total_size", (int64_t)s->total) == 0;
    for (int i = 0; ok && i < tensors_of(s); i++)
        ok = add_to_map(map, s, i);
    char *text = ok ? cJSON_Print(o) : NULL;
    int rc = text ? vf_sums_put(sums, path, text, strlen(text), err)
                  : vc_no_memory(err);
    free(text);
    free(path);
    cJSON_Delete(o);
    return rc;
}

/* Copies the config.json of w, unless this run made its own or w is a file; else writes
 * `config`. */
static int write_config(const char *folder, const vtrain_weights *w, const cJSON *config,
                        vf_sums *sums, vc_err *err)
{
    char *to = vc_path_join(folder, "config.json"), *text = NULL;
    bool copy = w && !vtrain_weights_config_made(w) &&
                vc_file_exists_in(vtrain_weights_path(w), "config.json");
    char *from = copy ? vc_path_join(vtrain_weights_path(w), "config.json") : NULL;
    size_t n = 0;
    int rc = to && (from || !copy) ? 0 : vc_no_memory(err);
    if (!rc && from)
        rc = vc_file_read(&text, &n, from, MAX_CONFIG, err);
    if (!rc && !from) {
        text = cJSON_Print(config);
        rc = text ? 0 : vc_no_memory(err);
        n = text ? strlen(text) : 0;
    }
    if (!rc)
        rc = vf_sums_put(sums, to, text, n, err);
    free(to);
    free(from);
    free(text);
    return rc;
}

int vtrain_export_full(const char *folder, vt_params *p, const vtrain_weights *w,
                       const cJSON *config, size_t most, vf_sums *sums, vc_err *err)
{
    shards s = { .p = p, .w = w };
    int rc = vc_mkdirs(folder, err);
    if (!rc)
        rc = write_config(folder, w, config, sums, err);
    if (!rc)
        rc = make_shards(&s, most, err);
    for (int i = 0; !rc && i < s.n; i++)
        rc = write_shard(folder, &s, i, sums, err);
    if (!rc && s.n > 1)
        rc = write_index(folder, &s, sums, err);
    free(s.of);
    free(s.kept);
    return rc;
}

/* ---- a whole pipeline ---- */

/* True if a component's name, which a file provides, is no path that could lead out of the
 * folder. */
static bool plain_name(const char *name)
{
    return *name && *name != '.' && !strchr(name, '/');
}

static int link_component(const char *dir, const char *model, const char *name, bool *linked,
                          vc_err *err)
{
    char *from = vc_path_join(model, name), *to = vc_path_join(dir, name), *real = NULL;
    int rc = from && to ? 0 : vc_no_memory(err);
    if (!rc && vc_file_exists(from) && !vc_file_exists(to)) {
        real = realpath(from, NULL);
        const int code = !real || symlink(real, to) ? errno : 0;
        if (real && (code == EPERM || code == EOPNOTSUPP || code == ENOSYS))
            *linked = false;
        else if (code)
            rc = vc_fail_errno(err, "%s", to);
    }
    free(real);
    free(to);
    free(from);
    return rc;
}

int vtrain_export_pipeline(const char *dir, const char *model, vf_sums *sums, bool *linked,
                           vc_err *err)
{
    static const char index[] = "model_index.json";
    char *from = vc_path_join(model, index), *to = vc_path_join(dir, index), *text = NULL;
    cJSON *o = NULL;
    size_t n;
    int rc = from && to ? 0 : vc_no_memory(err);
    if (!rc && vc_file_exists(from)) {
        rc = vc_file_read(&text, &n, from, MAX_CONFIG, err);
        if (!rc)
            rc = vc_context(err, vf_json_parse(&o, text, n, err), "%s", from);
        for (const cJSON *c = rc || !dir ? NULL : o->child; c && !rc; c = c->next)
            if (cJSON_IsArray(c) && plain_name(c->string))
                rc = link_component(dir, model, c->string, linked, err);
        if (!rc && dir)
            rc = vf_sums_put(sums, to, text, n, err);
    }
    cJSON_Delete(o);
    free(text);
    free(to);
    free(from);
    return rc;
}
