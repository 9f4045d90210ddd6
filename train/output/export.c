/* export.c - writes LoRA files, whole models and pipelines for other programs; see export.h */
#include "train/output/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/os/file.h"
#include "formats/tensors/values.h"

enum { MAX_CONFIG = 1 << 20 };

/* ---- LoRA ---- */

static int64_t rank_of(const vt_lin *l)
{
    return l->lora_a->dim[0];
}

/* The alpha that a module was trained with, or, baked, the one that goes with its B. lora_scale is
 * alpha / rank rounded to f32. */
static double alpha_of(const vtrain_export_lora_opts *o, const vt_lin *l)
{
    const double r = (double)rank_of(l), alpha = (double)l->lora_scale * r;
    const bool is_run = (float)(o->alpha / r) == l->lora_scale;
    return o->bake ? r : is_run ? o->alpha : (double)(float)alpha;
}

/* The factor that a module's B is multiplied by. */
static double scale_of(const vtrain_export_lora_opts *o, const vt_lin *l)
{
    if (!o->bake)
        return 1;
    return rank_of(l) == o->rank && (float)(o->alpha / (double)o->rank) == l->lora_scale
               ? o->alpha / (double)o->rank : (double)l->lora_scale;
}

static bool is_module(const vt_param *x)
{
    return x->role == VT_P_LORA_A;
}

/* Adds PEFT's rank_pattern and alpha_pattern, for modules whose rank or alpha is not the run's. */
static bool add_patterns(cJSON *m, vt_params *p, const vtrain_export_lora_opts *o)
{
    cJSON *rank = cJSON_CreateObject(), *alpha = cJSON_CreateObject();
    bool ok = rank && alpha;
    const double own = o->bake ? (double)o->rank : o->alpha;
    for (int i = 0; ok && i < vt_params_count(p); i++) {
        const vt_param *x = vt_params_at(p, i);
        if (is_module(x) && rank_of(x->lin) != o->rank)
            ok = cJSON_AddNumberToObject(rank, x->module, (double)rank_of(x->lin));
        if (ok && is_module(x) && alpha_of(o, x->lin) != own)
            ok = cJSON_AddNumberToObject(alpha, x->module, alpha_of(o, x->lin));
    }
    const struct { const char *name; cJSON *o; } lists[2] = {
        { "transformer.rank_pattern", rank }, { "transformer.alpha_pattern", alpha },
    };
    for (int i = 0; i < 2; i++) {
        bool added = ok && lists[i].o->child && cJSON_AddItemToObject(m, lists[i].name, lists[i].o);
        ok = ok && (added || !lists[i].o->child);
        if (!added)
            cJSON_Delete(lists[i].o);
    }
    return ok;
}

/* {"transformer.r":..., "transformer.lora_alpha":..., "transformer.target_modules":[...]}: these
 * three fields are required, and PEFT's LoraConfig would have to know any other. */
static char *lora_metadata(vt_params *p, const vtrain_export_lora_opts *o)
{
    cJSON *m = cJSON_CreateObject(), *list = cJSON_CreateStringArray(o->target, o->n_targets);
    bool ok = vf_json_add_int(m, "transformer.r", o->rank) == 0 &&
              cJSON_AddNumberToObject(m, "transformer.lora_alpha",
                                      o->bake ? (double)o->rank : o->alpha);
    if (!ok || !cJSON_AddItemToObject(m, "transformer.target_modules", list)) {
        cJSON_Delete(list);
        ok = false;
    }
    char *text = ok && add_patterns(m, p, o) ? vf_json_line(m) : NULL;
    cJSON_Delete(m);
    return text;
}

/* True if the modules' scales are all the run's, which one number in the metadata can give. */
static bool is_uniform(vt_params *p, const vtrain_export_lora_opts *o)
{
    bool is = true;
    for (int i = 0; is && i < vt_params_count(p); i++) {
        const vt_param *x = vt_params_at(p, i);
        is = !is_module(x) || (float)(o->alpha / (double)rank_of(x->lin)) == x->lin->lora_scale;
    }
    return is;
}

/* Adds the training data and, for a baked file, the trained alpha; returns the number of fields. */
static int add_lineage(vf_meta *meta, int n, vt_params *p, const vtrain_export_lora_opts *o,
                       char alpha[32])
{
    if (o->data)
        meta[n++] = (vf_meta){ "vlt_data", o->data };
    if (o->plan)
        meta[n++] = (vf_meta){ "vlt_plan", o->plan };
    if (o->transformer)
        meta[n++] = (vf_meta){ "vlt_transformer", o->transformer };
    if (o->bake && is_uniform(p, o)) {
        snprintf(alpha, 32, "%.17g", o->alpha);
        meta[n++] = (vf_meta){ "vlt_network_alpha", alpha };
    }
    return n;
}

/* A file being written, and the tensors made for it. */
typedef struct layout {
    const vtrain_naming *naming;
    const vtrain_export_lora_opts *o;
    vt_params *p;
    vf_views s;
    vt_tensor **made;
    int n_made;
} layout;

static void layout_close(layout *l)
{
    vf_views_close(&l->s);
    for (int i = 0; i < l->n_made; i++)
        vt_param_free(vt_params_context(l->p), l->made[i]);
    free(l->made);
}

/* Makes a tensor that layout_close frees; NULL when out of memory. */
static vt_tensor *make(layout *l, int nd, const int64_t *dim, const float *v, vc_err *err)
{
    vt_tensor *t = vt_param_new(vt_params_context(l->p), VC_F32, nd, dim, v, VC_F32, false, err);
    if (t)
        l->made[l->n_made++] = t;
    return t;
}

static int add_tensor(layout *l, const char *module, const char *suffix, const vt_tensor *t,
                      double scale, vc_err *err)
{
    char *name = strdup(module);
    if (!name)
        return vc_no_memory(err);
    for (char *c = name; l->naming->flat && (c = strchr(c, '.'));)
        *c = '_';
    int rc = vf_views_add(&l->s, l->naming->prefix, name, suffix, t, VC_F32, scale, err);
    free(name);
    return rc;
}

/* Adds alpha of a module, if the file has alphas. */
static int add_alpha(layout *l, const char *module, double alpha, vc_err *err)
{
    float value = (float)alpha;
    if (!l->naming->alpha)
        return 0;
    vt_tensor *t = make(l, 0, NULL, &value, err);
    return t ? add_tensor(l, module, l->naming->alpha, t, 1, err) : VC_ENOMEM;
}

/* ---- several modules fused into one ---- */

/* The modules of a fused one: their rows of outputs, and the pairs of the trained ones. */
typedef struct fused {
    const vt_lin *of[VTRAIN_FUSED];
    int parts;
    int64_t rows, in, rank;                   /* of all; the sum of the ranks of the pairs */
    bool mixed;                               /* their scales differ, and are multiplied into B */
    float scale;                              /* of the first pair */
} fused;

static const vt_lin *find_lin(vt_params *p, int model, const char *module)
{
    for (int i = 0; i < vt_params_count(p); i++) {
        const vt_param *x = vt_params_at(p, i);
        if (x->model == model && x->module && !strcmp(x->module, module))
            return x->lin;
    }
    return NULL;
}

static int find_fused(fused *f, vt_params *p, int model, const vtrain_renamed *r, vc_err *err)
{
    *f = (fused){ .parts = r->parts };
    for (int i = 0; i < f->parts; i++) {
        char *module = vtrain_rename_sibling(r, i);
        if (!module)
            return vc_no_memory(err);
        const vt_lin *lin = f->of[i] = find_lin(p, model, module);
        int rc = lin ? 0 : vc_fail(err, VC_EINVAL, "\"%s\": no module \"%s\" in this transformer",
                                   r->theirs, module);
        free(module);
        if (rc)
            return rc;
        f->rows += lin->w->dim[0];
        f->in = lin->w->dim[1];
        if (!lin->lora_a)
            continue;
        f->mixed |= f->rank && lin->lora_scale != f->scale;
        f->scale = f->rank ? f->scale : lin->lora_scale;
        f->rank += rank_of(lin);
    }
    return 0;
}

/* Fills a with the modules' A one below the other, and b with their B along the diagonal; rows of
 * modules without a pair stay zero. */
static int fill_fused(float *a, float *b, const fused *f, const vtrain_export_lora_opts *o,
                      vt_ctx *g, vc_err *err)
{
    int64_t row = 0, at = 0;
    float *own = malloc(sizeof *own * (size_t)(f->rows * f->rank));
    int rc = own ? 0 : vc_no_memory(err);
    for (int i = 0; !rc && i < f->parts; i++) {
        const vt_lin *lin = f->of[i];
        int64_t out = lin->w->dim[0], rank = lin->lora_a ? rank_of(lin) : 0;
        if (rank) {
            const float by = f->mixed ? lin->lora_scale : (float)scale_of(o, lin);
            rc = vt_to_host(g, lin->lora_a, a + at * f->in, err);
            if (!rc)
                rc = vt_to_host(g, lin->lora_b, own, err);
            for (int64_t k = 0; !rc && k < out * rank; k++)
                b[(row + k / rank) * f->rank + at + k % rank] = by == 1 ? own[k] : own[k] * by;
            at += rank;
        }
        row += out;
    }
    free(own);
    return rc;
}

/* Adds the fused module when called for its first trained module, and nothing for the others. */
static int add_fused(layout *l, const vtrain_renamed *r, const vt_lin *at, vc_err *err)
{
    fused f;
    int first = 0, rc = find_fused(&f, l->p, l->o->model, r, err);
    while (!rc && !f.of[first]->lora_a)
        first++;
    if (rc || f.of[first] != at)
        return rc;
    const int64_t dim_a[2] = { f.rank, f.in }, dim_b[2] = { f.rows, f.rank };
    float *a = malloc(sizeof *a * (size_t)(f.rank * f.in));
    float *b = calloc((size_t)(f.rows * f.rank), sizeof *b);
    rc = a && b ? fill_fused(a, b, &f, l->o, vt_params_context(l->p), err)
                : vc_no_memory(err);
    vt_tensor *ta = rc ? NULL : make(l, 2, dim_a, a, err);
    vt_tensor *tb = ta ? make(l, 2, dim_b, b, err) : NULL;
    if (!rc && !tb)
        rc = VC_ENOMEM;
    free(a);
    free(b);
    if (!rc)
        rc = add_tensor(l, r->theirs, l->naming->a, ta, 1, err);
    if (!rc)
        rc = add_tensor(l, r->theirs, l->naming->b, tb, 1, err);
    const double times = (double)f.rank / (double)rank_of(at);
    return rc ? rc : add_alpha(l, r->theirs, f.mixed ? (double)f.rank : alpha_of(l->o, at) * times,
                               err);
}

/* ---- a LoRA file ---- */

/* Adds one half of a pair under its name in the file, and alpha after the second half. */
static int add_param(layout *l, const vt_param *x, vc_err *err)
{
    vtrain_renamed r;
    bool a = x->role == VT_P_LORA_A;
    int rc = vtrain_rename_find(&r, l->naming->renamed ? l->o->renames : NULL, x->module, err);
    bool comfyui = r.row && r.row->comfyui && l->naming == &vtrain_comfyui;
    const char *name = comfyui ? r.row->comfyui : r.row ? r.theirs : x->module;
    if (!rc && r.parts > 1) {
        if (!a)
            rc = add_fused(l, &r, x->lin, err);
    } else if (!rc) {
        rc = add_tensor(l, name, a ? l->naming->a : l->naming->b, x->t,
                        a ? 1 : scale_of(l->o, x->lin), err);
        if (!rc && !a)
            rc = add_alpha(l, name, alpha_of(l->o, x->lin), err);
    }
    free(r.theirs);
    return rc;
}

/* The file's name, malloc'ed: with the suffix, "lora_comfyui_low_noise.safetensors". */
static char *file_name(const layout *l)
{
    const char *file = l->naming->file, *ext = vc_path_ext(file);
    if (!l->o->suffix || l->naming == &vtrain_diffusers)
        return strdup(file);
    return vc_format("%.*s%s%s", (int)(ext - file), file, l->o->suffix, ext);
}

static int write_file(layout *l, const char *dir, vc_err *err)
{
    char alpha[32], *text = NULL, *name = file_name(l);
    int n = 0, room = 3 * vt_params_count(l->p);
    vf_meta meta[6] = { { "format", "pt" } };
    int rc = vf_views_open(&l->s, vt_params_context(l->p), room, err);
    l->made = calloc((size_t)room + 1, sizeof *l->made);
    if (!rc && (!l->made || !name))
        rc = vc_no_memory(err);
    for (int i = 0; !rc && i < vt_params_count(l->p); i++) {
        const vt_param *x = vt_params_at(l->p, i);
        if (x->role != VT_P_BASE && x->model == l->o->model)
            rc = add_param(l, x, err);
    }
    n = 1;
    if (!rc && !l->naming->alpha) {
        text = lora_metadata(l->p, l->o);
        if (!text)
            rc = vc_no_memory(err);
        meta[n++] = (vf_meta){ "lora_adapter_metadata", text };
    }
    n = add_lineage(meta, n, l->p, l->o, alpha);
    if (!rc)
        rc = vf_views_write(&l->s, dir, name, meta, n, true, l->o->sums, err);
    free(text);
    free(name);
    return rc;
}

int vtrain_export_lora(const char *dir, vt_params *p, const vtrain_export_lora_opts *o, vc_err *err)
{
    const struct { const vtrain_naming *naming; bool wanted; } files[] = {
        { &vtrain_diffusers, true }, { o->kohya, o->kohya }, { &vtrain_comfyui, o->comfyui },
    };
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof files / sizeof *files; i++) {
        if (!files[i].wanted)
            continue;
        layout l = { .naming = files[i].naming, .o = o, .p = p };
        rc = write_file(&l, i && o->more ? o->more : dir, err);
        layout_close(&l);
    }
    return rc;
}

/* ---- a whole transformer ---- */

/* Distribution of the parameters over files. */
typedef struct shards {
    int n;                                    /* files */
    int *of;                                  /* [parameters] file of each */
    size_t total;                             /* bytes of all tensors */
} shards;

static vc_dtype saved_type(const vtrain_weights *w, const vt_param *x)
{
    return w ? vtrain_weights_type(w, x->name) : x->t->dtype;
}

/* Fills the files in the parameters' order, up to `most` bytes each; a larger tensor has a file of
 * its own. */
static int make_shards(shards *s, vt_params *p, const vtrain_weights *w, size_t most, vc_err *err)
{
    size_t filled = 0;
    *s = (shards){ .n = 1, .of = calloc((size_t)vt_params_count(p) + 1, sizeof *s->of) };
    if (!s->of)
        return vc_no_memory(err);
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
    if (s->n == 1)
        return strdup("diffusion_pytorch_model.safetensors");
    return vc_format("diffusion_pytorch_model-%05d-of-%05d.safetensors", i + 1, s->n);
}

static int write_shard(const char *folder, const shards *s, int at, vt_params *p,
                       const vtrain_weights *w, vf_sums *sums, vc_err *err)
{
    vf_views v;
    char *name = shard_name(s, at);
    int rc = vf_views_open(&v, vt_params_context(p), vt_params_count(p), err);
    if (!rc && !name)
        rc = vc_no_memory(err);
    for (int i = 0; !rc && i < v.room; i++) {
        const vt_param *x = vt_params_at(p, i);
        if (s->of[i] == at)
            rc = vf_views_add(&v, "", x->name, "", x->t, saved_type(w, x), 1, err);
    }
    const vf_meta meta = { "format", "pt" };
    if (!rc)
        rc = vf_views_write(&v, folder, name, &meta, 1, false, sums, err);
    vf_views_close(&v);
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
                  : vc_no_memory(err);
    free(text);
    free(path);
    cJSON_Delete(o);
    return rc;
}

/* Copies the config.json of w, unless this run made its own; else writes `config`. */
static int write_config(const char *folder, const vtrain_weights *w, const cJSON *config,
                        vf_sums *sums, vc_err *err)
{
    char *to = vc_path_join(folder, "config.json"), *text = NULL;
    bool copy = w && !vtrain_weights_config_made(w);
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
    shards s = { 0 };
    int rc = vc_mkdirs(folder, err);
    if (!rc)
        rc = write_config(folder, w, config, sums, err);
    if (!rc)
        rc = make_shards(&s, p, w, most, err);
    for (int i = 0; !rc && i < s.n; i++)
        rc = write_shard(folder, &s, i, p, w, sums, err);
    if (!rc && s.n > 1)
        rc = write_index(folder, &s, p, sums, err);
    free(s.of);
    return rc;
}

/* ---- a whole pipeline ---- */

/* True if a component's name, which a file provides, is no path that could lead out of the
 * folder. */
static bool plain_name(const char *name)
{
    return *name && *name != '.' && !strchr(name, '/');
}

static int link_component(const char *dir, const char *model, const char *name, vc_err *err)
{
    char *from = vc_path_join(model, name), *to = vc_path_join(dir, name), *real = NULL;
    int rc = from && to ? 0 : vc_no_memory(err);
    if (!rc && vc_file_exists(from) && !vc_file_exists(to)) {
        real = realpath(from, NULL);
        if (!real || symlink(real, to))
            rc = vc_fail_errno(err, "%s", to);
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
    int rc = from && to ? 0 : vc_no_memory(err);
    if (!rc && vc_file_exists(from)) {
        rc = vc_file_read(&text, &n, from, MAX_CONFIG, err);
        if (!rc)
            rc = vc_context(err, vf_json_parse(&o, text, n, err), "%s", from);
        for (const cJSON *c = rc || !dir ? NULL : o->child; c && !rc; c = c->next)
            if (cJSON_IsArray(c) && plain_name(c->string))
                rc = link_component(dir, model, c->string, err);
        if (!rc && dir)
            rc = vf_sums_put(sums, to, text, n, err);
    }
    cJSON_Delete(o);
    free(text);
    free(to);
    free(from);
    return rc;
}
