/* weights.c - parameters bound by tables: binding, initial values, training, LoRA; see weights.h */
#include "common/tensor/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/base/rng.h"
#include "common/tensor/adapter.h"
#include "common/tensor/engine.h"
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
    for (int i = 0; i < p->n; i++)
        free_param(p, p->at[i]);
    free(p->at);
    free(p);
}

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
    return p->loaded(p->loaded_arg, (size_t)n * vc_dtype_size(type), err);
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

/* Returns a new entry at the end of the list, of no block; NULL: out of memory. Takes ownership of
 * t in every case. */
static vt_param *add(vt_params *p, const char *name, const char *module, vt_tensor *t, vt_lin *lin,
                     int role, vc_err *err)
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

static int started(vt_tensor **t, vt_ctx *g, vt_init init, int nd, const int64_t *dim,
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
                      : started(&t, p->g, init, nd, dim, name, src->seed, err);
    if (rc)
        return rc;
    vt_param *w = add(p, name, module, t, lin, VT_P_BASE, err);
    if (!w) {
        vt_param_free(p->g, scale);
        return VC_ENOMEM;
    }
    *slot = t;
    w->scale = scale;
    if (may_scale)
        lin->scale = scale;
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

/* Multiplies the values of a weight, which are f32 by now, by their scales, and frees these. */
static int unscale(vt_params *p, vt_param *w, vc_err *err)
{
    int rc = p->g->sizes_only ? 0 : vt_unscale(p->g, w->t, w->scale, err);
    vt_param_free(p->g, w->scale);
    w->scale = w->lin->scale = NULL;
    return rc;
}

static int train(vt_params *p, vt_param *w, vc_err *err)
{
    int rc = vt_param_train(p->g, w->t, VC_F32, err);

    if (!rc && w->scale)
        rc = unscale(p, w, err);
    if (rc)
        return vc_context(err, rc, "%s", w->name);
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
        int rc = train(p, w, err);
        if (!rc)
            rc = report(p, vt_count(w->t), from, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* The lengths of the rows of a layer's weight, which DoRA's magnitudes begin as. */
static int row_lengths(vt_params *p, const vt_param *of, vt_tensor *to, vc_err *err)
{
    const int64_t out = of->t->dim[0], in = vt_count(of->t) / out;
    const size_t n = (size_t)vt_count(of->t);
    float *row = malloc((size_t)in * sizeof *row), *lengths = malloc((size_t)out * sizeof *lengths);
    char *room = malloc(n * vc_dtype_size(of->t->dtype));
    const int rc = row && lengths && room ? 0 : vc_no_memory(err);

    if (!rc && !p->g->sizes_only) {
        const void *host = vt_param_host_values(of->t);
        const char *values = host ? host : vt_param_get(p->g, of->t, room);
        for (int64_t o = 0; o < out; o++) {
            double sum = 0;
            vc_to_f32(row, values + (size_t)(o * in) * vc_dtype_size(of->t->dtype), of->t->dtype,
                      (size_t)in);
            for (int64_t i = 0; i < in; i++)
                sum += (double)row[i] * (double)row[i];
            lengths[o] = (float)sqrt(sum);
        }
        vt_param_set(p->g, to, lengths, VC_F32);
    }
    free(row);
    free(lengths);
    free(room);
    return rc;
}

static int add_factor(vt_params *p, const vt_param *of, const vt_factor *f, int index, int nd,
                      const int64_t *dim, uint64_t seed, vc_err *err)
{
    vt_tensor *t = NULL;
    char *name = join(of->module, f->suffix, "");
    int rc = name ? started(&t, p->g, f->init, nd, dim, name, seed, err)
                  : vc_fail(err, VC_ENOMEM, "%s: out of memory", of->name);

    if (!rc) {
        vt_param *w = add(p, name, of->module, t, of->lin, 1 + index, err);
        rc = w ? train(p, w, err) : VC_ENOMEM;
        if (!rc && f->init == VT_INIT_ROWS)
            rc = row_lengths(p, of, t, err);
        if (!rc)
            rc = vc_context(err, vt_param_round(p->g, t, err), "%s", name);
        if (w) {
            w->block = of->block;
            w->model = of->model;
            of->lin->factor[index] = t;
        }
    }
    free(name);
    return rc;
}

/* Sets the shape of a factor, and returns its number of axes. Of a convolution, the factor that has
 * the weight's inputs has its kernel too, and others have as many axes. */
static int factor_shape(int64_t dim[VT_DIMS], const vt_factor *f, const vt_param *of,
                        const int64_t *sides)
{
    int nd = 0;
    for (; nd < 2 && f->side[nd]; nd++)
        dim[nd] = sides[f->side[nd]];
    for (int i = 2; i < of->t->nd; i++, nd++)
        dim[nd] = f->side[1] == VT_IN ? of->t->dim[i] : 1;
    return nd;
}

static int check_size(const vt_param *of, const vt_adapter_size *s, vc_err *err)
{
    const vt_adapter *a = &vt_adapters[s->kind];
    if (s->rank < 1)
        return vc_fail(err, VC_EINVAL, "%s: LoRA of rank %d", of->module, s->rank);
    if (of->t->nd > 2 && !a->convs)
        return vc_fail(err, VC_EUSAGE, "--adapter %s: %s is a convolution, which only lora and "
                       "rslora adapt: leave it out of --target_name", a->name, of->module);
    if (of->scale && a->plain_base)
        return vc_fail(err, VC_EUSAGE, "--adapter %s: needs the lengths of the weight's rows, which "
                       "an fp8 base (%s) does not keep: give --transformer_dtype bf16, or another "
                       "adapter", a->name, of->module);
    return 0;
}

static int add_adapter(vt_params *p, const vt_param *of, const vt_adapter_size *s, uint64_t seed,
                       vc_err *err)
{
    const vt_adapter *a = &vt_adapters[s->kind];
    vt_lin *l = of->lin;
    int64_t sides[VT_SIDES];
    int rc = check_size(of, s, err);

    if (rc)
        return rc;
    vt_adapter_sides(sides, s, of->t->dim[0], of->t->dim[1]);
    l->adapter = a;
    l->lora_scale = (float)vt_adapter_scale(s, sides);
    l->lora_key = XXH3_64bits(of->module, strlen(of->module));
    for (int i = 0; !rc && i < VT_FACTORS && a->factor[i].suffix; i++) {
        int64_t dim[VT_DIMS];
        if (!vt_adapter_has(s, sides, &a->factor[i]))
            continue;
        const int nd = factor_shape(dim, &a->factor[i], of, sides);
        rc = add_factor(p, of, &a->factor[i], i, nd, dim, seed, err);
    }
    if (a->pair) {
        l->lora_a = l->factor[0];
        l->lora_b = l->factor[1];
    }
    return rc;
}

int vt_params_adapt(vt_params *p, bool (*size)(void *arg, const char *module, vt_adapter_size *s),
                    void *arg, uint64_t seed, int *matched, vc_err *err)
{
    int n = p->n;

    *matched = 0;
    for (int i = 0; i < n; i++) {
        const vt_param *w = p->at[i];
        vt_adapter_size s = { 0 };
        if (!w->lin || w->t != w->lin->w || w->lin->adapter || !size(arg, w->module, &s))
            continue;
        int rc = add_adapter(p, w, &s, seed, err);
        if (rc)
            return rc;
        ++*matched;
    }
    return 0;
}

/* A LoRA whose modules all have one size. */
typedef struct one_size {
    bool (*match)(void *arg, const char *module);
    void *arg;
    vt_adapter_size size;
} one_size;

static bool size_of_all(void *arg, const char *module, vt_adapter_size *s)
{
    const one_size *o = arg;
    *s = o->size;
    return !o->match || o->match(o->arg, module);
}

int vt_params_lora(vt_params *p, bool (*match)(void *arg, const char *module), void *arg, int rank,
                   double alpha, uint64_t seed, int *matched, vc_err *err)
{
    one_size o = { match, arg, { .rank = rank, .alpha = alpha } };

    *matched = 0;
    return rank < 1 ? vc_fail(err, VC_EINVAL, "LoRA of rank %d", rank)
                    : vt_params_adapt(p, size_of_all, &o, seed, matched, err);
}

vt_param_bytes vt_params_bytes(const vt_params *p)
{
    vt_param_bytes b = { .values = p->swap ? p->swap->bytes : 0 };

    for (int i = 0; i < p->n; i++) {
        const vt_param *w = p->at[i];
        size_t bytes = (size_t)vt_count(w->t) * vc_dtype_size(w->t->dtype);
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
