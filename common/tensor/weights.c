/* weights.c - parameters bound by tables: binding, initial values, training; see weights.h */
#include "common/tensor/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/base/rng.h"
#include "common/tensor/engine.h"
#include "common/tensor/host_grads.h"
#include "common/tensor/params.h"

/* ---- the list ---- */

int vt_params_open(vt_params **out, vt_ctx *g, vc_err *err)
{
    vt_params *p = calloc(1, sizeof *p);

    *out = p;
    if (!p)
        return vc_fail(err, VC_ENOMEM, "parameters: out of memory");
    p->g = g;
    return 0;
}

static void free_param(vt_params *p, vt_param *w)
{
    if (!w)
        return;
    vt_param_free(p->g, w->t);
    vt_param_free(p->g, w->scale);
    free(w->name);
    free(w->module);
    free(w);
}

void vt_params_close(vt_params *p)
{
    if (!p)
        return;
    if (p->swap)
        p->swap->close(p->swap);
    vt_host_grads_close(p->host_grads);
    for (int i = 0; i < p->n; i++)
        free_param(p, p->at[i]);
    free(p->at);
    free(p);
}

void vt_params_expect_host_grads(vt_params *p)
{
    p->g->lends_grads = true;
}

int vt_params_host_grads(vt_params *p, size_t *bytes, vc_err *err)
{
    int rc = vt_host_grads_open(&p->host_grads, p, err);

    *bytes = vt_host_grads_on_host(p->host_grads);
    p->g->lends_grads = false;
    p->g->hooks_why = "gradients are offloaded";
    for (int i = 0; !rc && i < p->n; i++) {
        const vt_param *w = p->at[i];
        float *row = w->trained ? vt_host_grads_row(p->host_grads, w) : NULL;
        if (row)
            vt_param_lend_grad(p->g, w->t, row);
        else if (w->trained)
            rc = vc_context(err, vt_param_own_grad(p->g, w->t, err), "%s", w->name);
    }
    return rc;
}

void vt_params_grads_enter(vt_params *p, int block) { vt_host_grads_enter(p->host_grads, block); }
void vt_params_grads_ready(vt_params *p, int block) { vt_host_grads_ready(p->host_grads, block); }

void vt_params_watch(vt_params *p, vt_loaded_fn *loaded, void *arg)
{
    p->loaded = loaded;
    p->loaded_arg = arg;
}

/* Reports that n values of this type were copied or converted. */
static int report(const vt_params *p, int64_t n, vc_dtype type, vc_err *err)
{
    if (!p->loaded || p->g->sizes_only)
        return 0;
    return p->loaded(p->loaded_arg, vc_dtype_bytes(type, (size_t)n), err);
}

vt_ctx *vt_params_context(const vt_params *p) { return p->g; }
int vt_params_count(const vt_params *p) { return p->n; }
vt_param *vt_params_at(vt_params *p, int i) { return p->at[i]; }

vt_param *vt_params_find(vt_params *p, const char *name)
{
    for (int i = 0; i < p->n; i++)
        if (p->at[i]->model == p->model && !strcmp(p->at[i]->name, name))
            return p->at[i];
    return NULL;
}

void vt_params_model(vt_params *p, int i)
{
    p->model = i;
}

/* Returns a, b and c joined, in malloc'ed memory. */
static char *join(const char *a, const char *b, const char *c)
{
    size_t n = strlen(a) + strlen(b) + strlen(c) + 1;
    char *s = malloc(n);

    if (s)
        snprintf(s, n, "%s%s%s", a, b, c);
    return s;
}

vt_param *vt_params_add(vt_params *p, const char *name, const char *module, vt_tensor *t,
                        vt_lin *lin, int role, vc_err *err)
{
    vt_param *w = calloc(1, sizeof *w);
    char *nm = join(name, "", ""), *mod = module ? join(module, "", "") : NULL;

    if (p->n == p->room) {
        int room = p->room ? 2 * p->room : 64;
        vt_param **at = realloc(p->at, (size_t)room * sizeof *at);
        if (at) {
            p->at = at;
            p->room = room;
        }
    }
    if (!w || !nm || (module && !mod) || p->n == p->room) {
        vc_fail(err, VC_ENOMEM, "%s: out of memory", name);
        vt_param_free(p->g, t);
        free(nm);
        free(mod);
        free(w);
        return NULL;
    }
    *w = (vt_param){ .name = nm, .module = mod, .t = t, .lin = lin, .role = role, .block = -1,
                     .model = p->model };
    return p->at[p->n++] = w;
}

/* ---- values ---- */

static void uniform(float *v, int64_t n, double limit, uint64_t seed, uint64_t id)
{
    vc_draws d = vc_draws_of(seed, id, 0, VC_DRAW_INIT);

    for (int64_t i = 0; i < n; i++)
        v[i] = (float)((2.0 * vc_draw_unit(&d) - 1.0) * limit);
}

static void start(float *v, vt_init init, int nd, const int64_t *dim, const char *name,
                  uint64_t seed)
{
    int64_t n = 1;
    for (int i = 0; i < nd; i++)
        n *= dim[i];
    double out = nd ? (double)dim[0] : 1.0, in = (double)n / out;
    uint64_t id = XXH3_64bits(name, strlen(name));

    switch (init) {
    case VT_INIT_ZERO: memset(v, 0, (size_t)n * sizeof *v); break;
    case VT_INIT_ONE:
        for (int64_t i = 0; i < n; i++)
            v[i] = 1.0f;
        break;
    case VT_INIT_XAVIER: uniform(v, n, sqrt(6.0 / (in + out)), seed, id); break;
    case VT_INIT_KAIMING: uniform(v, n, 1.0 / sqrt(in), seed, id); break;
    case VT_INIT_NORMAL:
        vc_draw_normals(v, (size_t)n, seed, id, 0, VC_DRAW_INIT);
        for (int64_t i = 0; i < n; i++)
            v[i] *= 0.02f;
        break;
    case VT_INIT_UNIT_NORMAL:
    case VT_INIT_TENTH_NORMAL:
        vc_draw_normals(v, (size_t)n, seed, id, 0, VC_DRAW_INIT);
        for (int64_t i = 0; i < n && init == VT_INIT_TENTH_NORMAL; i++)
            v[i] *= 0.1f;
        break;
    case VT_INIT_ROWS:
    case VT_INIT_BIAS: uniform(v, n, 1.0 / sqrt(out), seed, id); break;
    case VT_INIT_TENTH:
        for (int64_t i = 0; i < n; i++)
            v[i] = 0.1f;
        break;
    }
}

int vt_param_started(vt_tensor **t, vt_ctx *g, vt_init init, int nd, const int64_t *dim,
                     const char *name, uint64_t seed, vc_err *err)
{
    size_t n = 1;
    for (int i = 0; i < nd; i++)
        n *= (size_t)dim[i];
    float *v = malloc(n * sizeof *v);

    if (!v)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", name);
    if (!g->sizes_only)
        start(v, init, nd, dim, name, seed);
    *t = vt_param_new(g, VC_F32, nd, dim, v, VC_F32, false, err);
    free(v);
    return *t ? 0 : vc_context(err, VC_ENOMEM, "%s", name);
}

/* ---- bind ---- */

static int bind_one(vt_params *p, const char *name, const char *module, vt_tensor **slot,
                    vt_lin *lin, int nd, const int64_t *dim, vt_init init, const vt_source *src,
                    vc_err *err)
{
    bool plain = lin && slot == &lin->w && nd == 2;
    vt_tensor *t = NULL, *scale = NULL, **may_scale = plain ? &scale : NULL;
    vc_dtype from = VC_F32;
    bool drawn = !src->get || (src->lacks && src->lacks(src->lacks_arg, name));
    int rc = !drawn ? vt_load(&t, may_scale, &from, p->g, src, nd, dim, name, err)
                      : vt_param_started(&t, p->g, init, nd, dim, name, src->seed, err);
    if (rc)
        return rc;
    vt_param *w = vt_params_add(p, name, module, t, lin, VT_P_BASE, err);
    if (!w) {
        vt_param_free(p->g, scale);
        return VC_ENOMEM;
    }
    *slot = t;
    t->scale = w->scale = scale;
    return vt_param_mapped(t) ? 0 : report(p, vt_count(t), from, err);
}

static int bind_linear(vt_params *p, const vt_weight *row, const char *name, vt_lin *lin, int nd,
                       const int64_t *dim, const vt_source *src, vc_err *err)
{
    char *w = join(name, ".weight", ""), *b = join(name, ".bias", "");
    int rc = w && b ? 0 : vc_fail(err, VC_ENOMEM, "%s: out of memory", name);

    *lin = (vt_lin){ 0 };
    if (!rc)
        rc = bind_one(p, w, name, &lin->w, lin, nd, dim, row->init, src, err);
    if (!rc && row->kind == VT_W_LINEAR)
        rc = bind_one(p, b, name, &lin->b, lin, 1, dim, VT_INIT_ZERO, src, err);
    free(w);
    free(b);
    return rc;
}

/* Returns the prefix, its %d replaced by index, and the row's name joined, in malloc'ed memory. */
static char *full_name(const char *prefix, int index, const char *name)
{
    const char *hole = strstr(prefix, "%d");

    if (!hole)
        return join(prefix, name, "");
    size_t n = strlen(prefix) + strlen(name) + 16;
    char *s = malloc(n);
    if (s)
        snprintf(s, n, "%.*s%d%s%s", (int)(hole - prefix), prefix, index, hole + 2, name);
    return s;
}

/* Fills dim, and returns how many there are, or VT_ABSENT. */
static int sizes_of(const vt_weight *row, const int64_t *sizes, int64_t dim[VT_DIMS])
{
    int nd = 0;
    for (; nd < VT_DIMS && row->dim[nd]; nd++) {
        dim[nd] = row->dim[nd] > 0 ? row->dim[nd] : sizes[-row->dim[nd]];
        if (dim[nd] == VT_ABSENT)
            return VT_ABSENT;
    }
    return nd;
}

static int bind_row(vt_params *p, const vt_weight *row, const char *prefix, int index, void *base,
                    const int64_t *sizes, const vt_source *src, vc_err *err)
{
    int64_t dim[VT_DIMS];
    int nd = sizes_of(row, sizes, dim);

    if (nd == VT_ABSENT)
        return 0;
    char *name = full_name(prefix, index, row->name), *field = (char *)base + row->offset;
    if (!name)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", row->name);
    bool tensor = row->kind == VT_W_TENSOR || row->kind == VT_W_BUFFER;
    int rc = tensor
                 ? bind_one(p, name, NULL, (vt_tensor **)field, NULL, nd, dim, row->init, src, err)
                 : bind_linear(p, row, name, (vt_lin *)field, nd, dim, src, err);
    if (!rc)
        p->at[p->n - 1]->buffer = row->kind == VT_W_BUFFER;
    free(name);
    return rc;
}

int vt_params_bind(vt_params *p, const vt_weight *table, const char *prefix, int index, void *base,
                   const int64_t *sizes, const vt_source *src, vc_err *err)
{
    int first = p->n;
    bool block = strstr(prefix, "%d");
    vt_source from = *src;

    from.on_host &= block && !p->g->be->host_memory;
    for (const vt_weight *row = table; row->name; row++) {
        int rc = bind_row(p, row, prefix, index, base, sizes, &from, err);
        if (rc)
            return rc;
    }
    for (int i = first; i < p->n && block; i++)
        p->at[i]->block = index;
    return 0;
}

/* ---- trained parameters ---- */

int vt_params_train_one(vt_params *p, vt_param *w, vc_err *err)
{
    int rc = vt_param_train(p->g, w->t, VC_F32, err);

    if (rc)
        return vc_context(err, rc, "%s", w->name);
    vt_param_free(p->g, w->scale);             /* the values were multiplied by it */
    w->scale = NULL;
    w->grad = w->t->grad;
    w->trained = true;
    return 0;
}

int vt_params_train(vt_params *p, bool (*match)(void *arg, const char *name), void *arg,
                    vc_err *err)
{
    for (int i = 0; i < p->n; i++) {
        vt_param *w = p->at[i];
        vc_dtype from = w->t->dtype;
        if (w->buffer || (match && !match(arg, w->name)))
            continue;
        int rc = vt_params_train_one(p, w, err);
        if (!rc)
            rc = report(p, vt_count(w->t), from, err);
        if (rc)
            return rc;
    }
    return 0;
}

vt_param_bytes vt_params_bytes(const vt_params *p)
{
    vt_param_bytes b = { .values = p->swap ? p->swap->bytes : 0,
                         .grads = vt_host_grads_bytes(p->host_grads) };

    for (int i = 0; i < p->n; i++) {
        const vt_param *w = p->at[i];
        size_t bytes = vc_dtype_bytes(w->t->dtype, (size_t)vt_count(w->t));
        if (!vt_param_values_lent(w->t))
            *(vt_param_is_on_host(w->t) ? &b.on_host
              : vt_param_mapped(w->t)   ? &b.mapped
                                        : &b.values) += bytes;
        if (w->t->rounded)
            b.values += (size_t)vt_count(w->t) * vc_dtype_size(VC_BF16);
        if (w->scale)
            b.values += (size_t)vt_count(w->scale) * sizeof(float);
        *(w->trained ? &b.trained : &b.frozen) += vt_count(w->t);
        if (w->grad && !vt_param_grad_lent(w->t))
            b.grads += (size_t)vt_count(w->t) * sizeof(float);
    }
    return b;
}
