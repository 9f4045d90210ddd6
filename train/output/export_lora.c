/* export_lora.c - writes the files of LoRAs and other adapters for other programs; see export.h */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/adapters/adapter.h"
#include "common/os/file.h"
#include "formats/tensors/values.h"
#include "train/lora/lora.h"
#include "train/output/export.h"

static int64_t rank_of(const vt_lin *l, const vtrain_export_lora_opts *o)
{
    const int64_t rank = vt_adapter_rank(l);
    return rank ? rank : o->rank;
}

/* What alpha is divided by: the rank, or its root. */
static double divisor(double rank, bool root)
{
    return root ? sqrt(rank) : rank;
}

static bool bakes(const vtrain_export_lora_opts *o, const vt_lin *l)
{
    return o->bake && l->adapter->pair;
}

/* The alpha that a module was trained with, or, baked, the one that goes with its B. lora_scale is
 * alpha / rank rounded to f32; root: readers know that it is alpha by the root of the rank. */
static double alpha_of(const vtrain_export_lora_opts *o, const vt_lin *l, bool root)
{
    const double r = (double)rank_of(l, o), by = divisor(r, root);
    const double alpha = (double)l->lora_scale * by;
    const bool is_run = (float)(o->alpha / by) == l->lora_scale;
    return bakes(o, l) ? r : is_run ? o->alpha : (double)(float)alpha;
}

/* The factor that a module's B is multiplied by. */
static double scale_of(const vtrain_export_lora_opts *o, const vt_lin *l)
{
    const double by = divisor((double)o->rank, l->adapter->root);
    if (!bakes(o, l))
        return 1;
    return rank_of(l, o) == o->rank && (float)(o->alpha / by) == l->lora_scale
               ? o->alpha / by : (double)l->lora_scale;
}

/* Returns true for one factor of each module. */
static bool is_module(const vt_param *x)
{
    int first = 0;
    while (x->role != VT_P_BASE && !x->lin->factor[first])
        first++;
    return (int)x->role == 1 + first;
}

/* The adapter of the modules of p. */
static const vt_adapter *adapter_of(vt_params *p)
{
    for (int i = 0; i < vt_params_count(p); i++)
        if (vt_params_at(p, i)->role != VT_P_BASE)
            return vt_params_at(p, i)->lin->adapter;
    return &vt_adapters[VT_ADAPTER_LORA];
}

/* Adds PEFT's rank_pattern and alpha_pattern, for modules whose rank or alpha is not the run's. */
static bool add_patterns(cJSON *m, vt_params *p, const vtrain_export_lora_opts *o)
{
    cJSON *rank = cJSON_CreateObject(), *alpha = cJSON_CreateObject();
    bool ok = rank && alpha;
    const bool root = adapter_of(p)->root && !o->bake;
    const double own = o->bake && adapter_of(p)->pair ? (double)o->rank : o->alpha;
    for (int i = 0; ok && i < vt_params_count(p); i++) {
        const vt_param *x = vt_params_at(p, i);
        if (is_module(x) && rank_of(x->lin, o) != o->rank)
            ok = cJSON_AddNumberToObject(rank, x->module, (double)rank_of(x->lin, o));
        if (ok && is_module(x) && alpha_of(o, x->lin, root) != own)
            ok = cJSON_AddNumberToObject(alpha, x->module, alpha_of(o, x->lin, root));
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
 * three fields are required, and PEFT's LoraConfig would have to know any other, as it does those
 * of a DoRA and of an rsLoRA. */
static char *lora_metadata(vt_params *p, const vtrain_export_lora_opts *o)
{
    cJSON *m = cJSON_CreateObject(), *list = cJSON_CreateStringArray(o->target, o->n_targets);
    bool ok = vf_json_add_int(m, "transformer.r", o->rank) == 0 &&
              cJSON_AddNumberToObject(m, "transformer.lora_alpha",
                                      o->bake && adapter_of(p)->pair ? (double)o->rank
                                                                     : o->alpha);
    if (adapter_of(p) == &vt_adapters[VT_ADAPTER_DORA])
        ok = ok && cJSON_AddTrueToObject(m, "transformer.use_dora");
    if (adapter_of(p)->root && !o->bake)
        ok = ok && cJSON_AddTrueToObject(m, "transformer.use_rslora");
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
        is = !is_module(x) ||
             (float)(o->alpha / divisor((double)rank_of(x->lin, o), x->lin->adapter->root)) ==
                 x->lin->lora_scale;
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
    if (adapter_of(p) != &vt_adapters[VT_ADAPTER_LORA])
        meta[n++] = (vf_meta){ "vlt_adapter", adapter_of(p)->name };
    if (o->bake && adapter_of(p)->pair && is_uniform(p, o)) {
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

/* Adds a factor under its suffix in the file. */
static int add_named(layout *l, const char *module, const vt_factor *f, const vt_tensor *t,
                     double scale, vc_err *err)
{
    const char *suffix = l->naming->alpha && f->kohya ? f->kohya : f->suffix;
    return add_tensor(l, module, suffix, t, scale, err);
}

/* Exchanges the halves of n values. */
static void swap_halves(float *v, int64_t n)
{
    for (int64_t i = 0; i < n / 2; i++) {
        const float x = v[i];
        v[i] = v[n / 2 + i];
        v[n / 2 + i] = x;
    }
}

/* Adds a factor with the halves of its rows exchanged. */
static int add_swapped(layout *l, const char *module, const vt_factor *f, const vt_tensor *t,
                       double scale, vc_err *err)
{
    const int64_t n = vt_count(t);
    float *v = malloc(sizeof *v * (size_t)n);
    int rc = v ? vt_to_host(vt_params_context(l->p), t, v, err) : vc_no_memory(err);
    if (!rc)
        swap_halves(v, n);
    vt_tensor *own = rc ? NULL : make(l, t->nd, t->dim, v, err);
    free(v);
    if (rc || !own)
        return rc ? rc : VC_ENOMEM;
    return add_named(l, module, f, own, scale, err);
}

/* The axis of a layer's factors whose halves are those of its rows. */
static vt_side halves_of(const vt_lin *l)
{
    const vt_tensor *one = l->factor[0] ? l->factor[0] : l->factor[1];
    return vt_adapter_halves(l->adapter, one->dim[0]);
}

/* Adds alpha of a module. Where the metadata hold it, only PEFT's LoRA is read by them. */
static int add_alpha(layout *l, const char *module, const vt_lin *lin, double alpha, vc_err *err)
{
    float value = (float)alpha;
    if (!l->naming->alpha && lin->adapter->pair)
        return 0;
    vt_tensor *t = make(l, 0, NULL, &value, err);
    return t ? add_tensor(l, module, ".alpha", t, 1, err) : VC_ENOMEM;
}

/* ---- magnitudes ---- */

/* A factor on the host, or the product a b of two. The sizes are 0 where a layer has neither. */
typedef struct matrix { float *v; int64_t rows, columns; } matrix;

static int get_factor(matrix *m, const vt_tensor *t, vt_ctx *g, vc_err *err)
{
    *m = (matrix){ malloc(sizeof *m->v * (size_t)vt_count(t)), t->dim[0], t->dim[1] };
    return m->v ? vt_to_host(g, t, m->v, err) : vc_no_memory(err);
}

static int get_product(matrix *m, const vt_tensor *a, const vt_tensor *b, vt_ctx *g, vc_err *err)
{
    matrix one = { 0 }, two = { 0 };
    int rc = get_factor(&one, a, g, err);
    if (!rc)
        rc = get_factor(&two, b, g, err);
    *m = (matrix){ rc ? NULL : calloc((size_t)(one.rows * two.columns), sizeof *m->v), one.rows,
                   two.columns };
    if (!rc && !m->v)
        rc = vc_no_memory(err);
    if (!rc)
        vtrain_lora_merge(m->v, one.rows, two.columns, two.v, one.v, one.columns, 1);
    free(one.v);
    free(two.v);
    return rc;
}

static int get_either(matrix *m, vt_tensor *const *f, vt_ctx *g, vc_err *err)
{
    return f[0] ? get_factor(m, f[0], g, err) : get_product(m, f[1], f[2], g, err);
}

/* The matrices whose product, by an adapter's rule, is added to W: one of a pair, else two. */
static int get_matrices(matrix m[2], const vt_lin *lin, vt_ctx *g, vc_err *err)
{
    vt_tensor *const *f = lin->factor;
    int rc = 0;
    if (lin->adapter && lin->adapter->pair)
        return get_product(&m[0], lin->lora_b, lin->lora_a, g, err);
    if (!lin->adapter)
        return 0;
    rc = lin->adapter->kron ? get_either(&m[0], f, g, err) : get_product(&m[0], f[0], f[1], g, err);
    if (rc)
        return rc;
    return lin->adapter->kron ? get_either(&m[1], f + 3, g, err)
                              : get_product(&m[1], f[2], f[3], g, err);
}

/* Element (o, i) of what the matrices stand for. */
static double element(const matrix m[2], bool kron, int64_t o, int64_t i)
{
    const int64_t rows = kron ? m[1].rows : 1, columns = kron ? m[1].columns : 1;
    if (!m[0].v)
        return 0;
    const double one = (double)m[0].v[o / rows * m[0].columns + i / columns];
    return !m[1].v ? one
                   : one * (double)m[1].v[kron ? o % rows * columns + i % columns
                                               : o * m[1].columns + i];
}

/* Squares of the lengths of the rows of W, and with what the adapter adds. */
static int row_squares(double *base, double *sum, const vt_lin *lin, vt_ctx *g, vc_err *err)
{
    const int64_t out = lin->w->dim[0], in = lin->w->dim[1];
    const bool kron = lin->adapter && lin->adapter->kron;
    float *w = malloc(sizeof *w * (size_t)(out * in));
    matrix m[2] = { 0 };
    int rc = w ? vt_adapter_base(g, lin->w, w, err) : vc_no_memory(err);
    if (!rc)
        rc = get_matrices(m, lin, g, err);
    for (int64_t o = 0; !rc && o < out; o++) {
        base[o] = sum[o] = 0;
        for (int64_t i = 0; i < in; i++) {
            const double x = (double)w[o * in + i];
            const double y = x + (double)lin->lora_scale * element(m, kron, o, i);
            base[o] += x * x;
            sum[o] += y * y;
        }
    }
    free(w);
    free(m[0].v);
    free(m[1].v);
    return rc;
}

/* The magnitudes of a module, [out]: those of a module that is not trained are the lengths of its
 * rows. ComfyUI divides the sum by the lengths of W's rows, not by the sum's, so that its file has
 * magnitudes for this. */
static int magnitudes(float *to, const layout *l, const vt_lin *lin, vc_err *err)
{
    vt_ctx *g = vt_params_context(l->p);
    const int64_t out = lin->w->dim[0];
    const bool comfyui = l->naming == &vtrain_comfyui;
    const vt_tensor *lengths = vt_adapter_lengths(lin);
    double *base = malloc(sizeof *base * (size_t)out), *sum = malloc(sizeof *sum * (size_t)out);
    int rc = base && sum ? 0 : vc_no_memory(err);
    if (!rc && lengths)
        rc = vt_to_host(g, lengths, to, err);
    if (!rc && (comfyui || !lengths))
        rc = row_squares(base, sum, lin, g, err);
    for (int64_t o = 0; !rc && o < out; o++)
        if (!lengths)
            to[o] = (float)sqrt(base[o]);
        else if (comfyui && sum[o] > 0)
            to[o] = (float)((double)to[o] * sqrt(base[o] / sum[o]));
    free(base);
    free(sum);
    return rc;
}

/* Adds the magnitudes of n modules, one below the other, or with exchanged halves: [out] of PEFT's
 * DoRA, or [out,1] in other programs' form. */
static int add_magnitudes(layout *l, const char *module, const vt_adapter *a,
                          const vt_lin *const *of, int n, bool swapped, vc_err *err)
{
    int64_t rows = 0, at = 0;
    for (int i = 0; i < n; i++)
        rows += of[i]->w->dim[0];
    float *m = malloc(sizeof *m * (size_t)rows);
    int rc = m ? 0 : vc_no_memory(err);
    for (int i = 0; !rc && i < n; at += of[i++]->w->dim[0])
        rc = magnitudes(m + at, l, of[i], err);
    if (!rc && swapped)
        swap_halves(m, rows);
    const int64_t dim[2] = { rows, 1 };
    vt_tensor *t = rc ? NULL : make(l, l->naming->alpha || !a->pair ? 2 : 1, dim, m, err);
    free(m);
    if (rc || !t)
        return rc ? rc : VC_ENOMEM;
    return add_named(l, module, vt_adapter_lengths_of(a), t, 1, err);
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

/* The factors of an adapter that are products: indices of the one with the inputs and of that with
 * the outputs. */
static const struct { int in, out; } lora_products[] = { { 0, 1 } },
                                     loha_products[] = { { 1, 0 }, { 3, 2 } };

static const vt_lin *find_lin(vt_params *p, int model, const char *module)
{
    for (int i = 0; i < vt_params_count(p); i++) {
        const vt_param *x = vt_params_at(p, i);
        if (x->model == model && x->module && !strcmp(x->module, module))
            return x->lin;
    }
    return NULL;
}

static int find_fused(fused *f, const layout *l, const vtrain_renamed *r, vc_err *err)
{
    *f = (fused){ .parts = r->parts };
    for (int i = 0; i < f->parts; i++) {
        char *module = vtrain_rename_sibling(r, i);
        if (!module)
            return vc_no_memory(err);
        const vt_lin *lin = f->of[i] = find_lin(l->p, l->o->model, module);
        int rc = lin ? 0 : vc_fail(err, VC_EINVAL, "\"%s\": no module \"%s\" in this transformer",
                                   r->theirs, module);
        free(module);
        if (rc)
            return rc;
        f->rows += lin->w->dim[0];
        f->in = lin->w->dim[1];
        if (!lin->adapter)
            continue;
        f->mixed |= f->rank && lin->lora_scale != f->scale;
        f->scale = f->rank ? f->scale : lin->lora_scale;
        f->rank += rank_of(lin, l->o);
    }
    return 0;
}

/* Fills a with the modules' factors `in` one below the other, and b with their factors `out` along
 * the diagonal; rows of modules without a pair stay zero. The first product has the scale. */
static int fill_fused(float *a, float *b, const fused *f, int in, int out, bool first,
                      const vtrain_export_lora_opts *o, vt_ctx *g, vc_err *err)
{
    int64_t row = 0, at = 0;
    float *own = malloc(sizeof *own * (size_t)(f->rows * f->rank));
    int rc = own ? 0 : vc_no_memory(err);
    for (int i = 0; !rc && i < f->parts; i++) {
        const vt_lin *lin = f->of[i];
        int64_t rows = lin->w->dim[0], rank = lin->adapter ? rank_of(lin, o) : 0;
        if (rank) {
            const float by = !first ? 1 : f->mixed ? lin->lora_scale : (float)scale_of(o, lin);
            rc = vt_to_host(g, lin->factor[in], a + at * f->in, err);
            if (!rc)
                rc = vt_to_host(g, lin->factor[out], own, err);
            for (int64_t k = 0; !rc && k < rows * rank; k++)
                b[(row + k / rank) * f->rank + at + k % rank] = by == 1 ? own[k] : own[k] * by;
            at += rank;
        }
        row += rows;
    }
    free(own);
    return rc;
}

/* Adds one product of the fused module. */
static int add_product(layout *l, const char *module, const fused *f, const vt_adapter *adapter,
                       int in, int out, bool first, vc_err *err)
{
    const int64_t dim_a[2] = { f->rank, f->in }, dim_b[2] = { f->rows, f->rank };
    float *a = malloc(sizeof *a * (size_t)(f->rank * f->in));
    float *b = calloc((size_t)(f->rows * f->rank), sizeof *b);
    int rc = a && b ? fill_fused(a, b, f, in, out, first, l->o, vt_params_context(l->p), err)
                    : vc_no_memory(err);
    vt_tensor *ta = rc ? NULL : make(l, 2, dim_a, a, err);
    vt_tensor *tb = ta ? make(l, 2, dim_b, b, err) : NULL;
    if (!rc && !tb)
        rc = VC_ENOMEM;
    free(a);
    free(b);
    if (!rc)
        rc = add_named(l, module, &adapter->factor[in], ta, 1, err);
    return rc ? rc : add_named(l, module, &adapter->factor[out], tb, 1, err);
}

/* Adds the fused module when called for its first trained module, and nothing for the others. */
static int add_fused(layout *l, const vtrain_renamed *r, const vt_lin *at, vc_err *err)
{
    fused f;
    const vt_adapter *adapter = at->adapter;
    int first = 0, rc = find_fused(&f, l, r, err);
    while (!rc && !f.of[first]->adapter)
        first++;
    if (rc || f.of[first] != at)
        return rc;
    if (adapter->kron)
        return vc_fail(err, VC_EINVAL, "\"%s\": a LoKr of %d modules in one has no such form",
                       r->theirs, r->parts);
    const int n = adapter->pair ? 1 : 2;
    for (int i = 0; !rc && i < n; i++)
        rc = adapter->pair ? add_product(l, r->theirs, &f, adapter, lora_products[i].in,
                                         lora_products[i].out, true, err)
                           : add_product(l, r->theirs, &f, adapter, loha_products[i].in,
                                         loha_products[i].out, i == 0, err);
    const double times = (double)f.rank / (double)rank_of(at, l->o);
    if (!rc)
        rc = add_alpha(l, r->theirs, at, f.mixed ? (double)f.rank
                                                 : alpha_of(l->o, at, false) * times, err);
    return rc || !adapter->decomposed ? rc
           : add_magnitudes(l, r->theirs, adapter, f.of, f.parts, false, err);
}

/* ---- a LoRA file ---- */

/* Adds one factor of a module by its name in the file, where the halves of its rows may be swapped,
 * and alpha after the B of a pair, or before the first of other factors. */
static int add_one(layout *l, const vt_param *x, const char *name, bool swapped, vc_err *err)
{
    const vt_adapter *adapter = x->lin->adapter;
    const int index = x->role - 1;
    const vt_factor *f = &adapter->factor[index];
    const bool b = adapter->pair && index == 1;
    if (f->init == VT_INIT_ROWS)
        return add_magnitudes(l, name, adapter, (const vt_lin *const[]){ x->lin }, 1, swapped,
                              err);
    const bool turned = swapped && f->side[0] == halves_of(x->lin);
    int rc = (turned ? add_swapped : add_named)(l, name, f, x->t, b ? scale_of(l->o, x->lin) : 1,
                                                err);
    if (!rc && (adapter->pair ? b : is_module(x)))
        rc = add_alpha(l, name, x->lin, alpha_of(l->o, x->lin, false), err);
    return rc;
}

static int add_param(layout *l, const vt_param *x, vc_err *err)
{
    vtrain_renamed r;
    int rc = vtrain_rename_module(&r, l->naming->renamed ? l->o->renames : NULL, x->module, err);
    bool comfyui = r.row && r.row->comfyui && l->naming == &vtrain_comfyui;
    const char *name = comfyui ? r.row->comfyui : r.row ? r.theirs : x->module;
    if (!rc && r.parts > 1)
        rc = is_module(x) ? add_fused(l, &r, x->lin, err) : 0;
    else if (!rc)
        rc = add_one(l, x, name, vtrain_rename_swapped(&r, x->lin->w->dim[0], x->lin->w->dim[1]),
                     err);
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
    vf_meta meta[8] = { { "format", "pt" } };
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
    if (adapter_of(l->p)->decomposed && l->naming == &vtrain_comfyui)
        meta[n++] = (vf_meta){ "vlt_magnitudes", "comfyui" };
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
        { &vtrain_diffsynth, o->diffsynth },
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
