/* weights.c - parameters bound by tables: binding, initial values, training, LoRA; see weights.h */
#include "common/tensor/weights.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/base/rng.h"
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
    vt_swap_close(p->swap);
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

void vt_shape_text(char text[VT_SHAPE_TEXT], int nd, const int64_t *dim)
{
    size_t n = (size_t)snprintf(text, VT_SHAPE_TEXT, "[");

    for (int i = 0; i < nd; i++)
        n += (size_t)snprintf(text + n, VT_SHAPE_TEXT - n, "%s%lld", i ? "," : "",
                              (long long)dim[i]);
    snprintf(text + n, VT_SHAPE_TEXT - n, "]");
}

/* Converts n values to e4m3, scaled by the power of two that brings them into +-448. row has room
 * for n. Returns false if a value is not finite. */
static bool to_fp8(uint8_t *code, float *scale, const void *data, vc_dtype type, size_t n,
                   float *row)
{
    float most = 0;
    bool finite = true;
    int e;

    vc_to_f32(row, data, type, n);
    for (size_t k = 0; k < n; k++) {
        most = fmaxf(most, fabsf(row[k]));
        finite &= isfinite(row[k]);
    }
    if (!finite)
        return false;
    frexpf(most / 448, &e);                    /* 0.5..1 times 2^e */
    *scale = most > 0 ? ldexpf(1, e > -126 ? e : -126) : 1;
    float by = 1 / *scale;
    for (size_t k = 0; k < n; k++)
        row[k] *= by;
    vc_from_f32(code, VC_F8E4M3, row, n);
    return true;
}

/* Converts each row of h by all threads; `room` has room for a row of each thread. */
static int to_rows_of_fp8(uint8_t *code, float *scale, const vt_host *h, const char *name,
                          float *room, int threads, vc_err *err)
{
    size_t n = (size_t)h->dim[1], size = vc_dtype_size(h->dtype);
    int64_t bad = h->dim[0];                   /* the first row with a value that is not finite */

    #pragma omp parallel for num_threads(threads) if(threads > 1) reduction(min : bad)
    for (int64_t i = 0; i < h->dim[0]; i++)
        if (!to_fp8(code + (size_t)i * n, scale + i, (const char *)h->data + (size_t)i * n * size,
                    h->dtype, n, room + (size_t)omp_get_thread_num() * n))
            bad = i < bad ? i : bad;
    return bad == h->dim[0] ? 0
         : vc_fail(err, VC_EMISMATCH, "tensor \"%s\": row %lld holds a value that is not finite, "
                   "which fp8 cannot", name, (long long)bad);
}

/* Fills a weight and the scales of its rows with the converted values of h. */
static int fill_fp8(vt_tensor *t, vt_tensor *scale, vt_ctx *g, const vt_host *h, const char *name,
                    vc_err *err)
{
    size_t rows = (size_t)h->dim[0], n = (size_t)h->dim[1];
    int threads = vt_host_threads(g);
    uint8_t *own = vt_param_host_memory(g, t), *code = own ? own : malloc(rows * n);
    float *s = malloc(rows * sizeof *s), *room = malloc((size_t)threads * n * sizeof *room);
    int rc = code && s && room ? to_rows_of_fp8(code, s, h, name, room, threads, err)
                               : vc_fail(err, VC_ENOMEM, "%s: out of memory", name);

    if (!rc && !own)
        vt_param_set(g, t, code, VC_F8E4M3);
    if (!rc)
        vt_param_set(g, scale, s, VC_F32);
    if (!own)
        free(code);
    free(s);
    free(room);
    return rc;
}

static int load_fp8(vt_tensor **t, vt_tensor **scale, vt_ctx *g, const vt_host *h, bool on_host,
                    const char *name, vc_err *err)
{
    const vc_dtype fp8 = VC_F8E4M3;
    *t = on_host ? vt_param_on_host(g, fp8, 2, h->dim, NULL, fp8, false, err)
                 : vt_param_new(g, fp8, 2, h->dim, NULL, fp8, false, err);
    *scale = *t ? vt_param_new(g, VC_F32, 1, h->dim, NULL, VC_F32, false, err) : NULL;
    int rc = *scale ? 0 : vc_context(err, VC_ENOMEM, "%s", name);

    if (!rc && !g->sizes_only)
        rc = fill_fp8(*t, *scale, g, h, name, err);
    if (rc) {
        vt_param_free(g, *t);
        vt_param_free(g, *scale);
        *t = *scale = NULL;
    }
    return rc;
}

/* Loads a tensor of the source, of type *from there. scale is NULL but for a linear's weight, for
 * which *scale becomes the scale of its rows if it is converted to fp8. */
static int load(vt_tensor **t, vt_tensor **scale, vc_dtype *from, vt_ctx *g, const vt_source *src,
                int nd, const int64_t *dim, const char *name, vc_err *err)
{
    char want[VT_SHAPE_TEXT], have[VT_SHAPE_TEXT];
    vt_host h = { 0 };

    vt_shape_text(want, nd, dim);
    int rc = src->get(src->arg, name, &h, err);
    if (rc == VC_ENOENT)
        return vc_fail(err, VC_ENOENT, "tensor \"%s\" is missing; it should be %s", name, want);
    if (rc)
        return vc_context(err, rc, "%s", name);
    vt_shape_text(have, h.nd, h.dim);
    if (h.nd != nd || memcmp(h.dim, dim, (size_t)nd * sizeof *dim))
        return vc_fail(err, VC_EMISMATCH, "tensor \"%s\" is %s, %s was expected", name, have, want);
    if (h.dtype < 0 || h.dtype > VC_F64)
        return vc_fail(err, VC_EMISMATCH, "tensor \"%s\" holds %s, no weight has that type", name,
                       h.dtype < 0 ? "no known type" : vc_dtype_name(h.dtype));
    vc_dtype as = h.dtype == VC_F64 ? VC_F32 : h.dtype;
    *from = h.dtype;
    if (scale && src->converts)
        as = src->to;
    if (scale && as == VC_F8E4M3 && h.dtype != as)
        return load_fp8(t, scale, g, &h, src->on_host, name, err);
    *t = scale && src->on_host
             ? vt_param_on_host(g, as, nd, dim, h.data, h.dtype, src->mapped, err)
             : vt_param_new(g, as, nd, dim, h.data, h.dtype, src->mapped, err);
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
    int rc = !drawn ? load(&t, may_scale, &from, p->g, src, nd, dim, name, err)
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

static int train(vt_params *p, vt_param *w, vc_err *err)
{
    int rc = w->scale ? vc_fail(err, VC_EINVAL, "held in fp8: it cannot be trained")
                      : vt_param_train(p->g, w->t, VC_F32, err);

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

static int add_factor(vt_params *p, const vt_param *of, const char *suffix, int role, vt_init init,
                      const int64_t *dim, uint64_t seed, vt_tensor **slot, vc_err *err)
{
    vt_tensor *t = NULL;
    char *name = join(of->module, suffix, "");
    int rc = name ? started(&t, p->g, init, of->t->nd, dim, name, seed, err)
                  : vc_fail(err, VC_ENOMEM, "%s: out of memory", of->name);

    if (!rc) {
        vt_param *w = add(p, name, of->module, t, of->lin, role, err);
        rc = w ? train(p, w, err) : VC_ENOMEM;
        if (w) {
            w->block = of->block;
            w->model = of->model;
            *slot = t;
        }
    }
    free(name);
    return rc;
}

static int add_lora(vt_params *p, const vt_param *of, int rank, double alpha, uint64_t seed,
                    vc_err *err)
{
    vt_lin *l = of->lin;
    int64_t a[VT_DIMS] = { rank }, b[VT_DIMS] = { of->t->dim[0], rank, 1, 1, 1, 1 };

    memcpy(a + 1, of->t->dim + 1, (size_t)(of->t->nd - 1) * sizeof *a);
    l->lora_scale = (float)(alpha / rank);
    int rc = add_factor(p, of, ".lora_A.weight", VT_P_LORA_A, VT_INIT_KAIMING, a, seed, &l->lora_a,
                        err);
    if (!rc)
        rc = add_factor(p, of, ".lora_B.weight", VT_P_LORA_B, VT_INIT_ZERO, b, seed, &l->lora_b,
                        err);
    return rc;
}

int vt_params_lora(vt_params *p, bool (*match)(void *arg, const char *module), void *arg, int rank,
                   double alpha, uint64_t seed, int *matched, vc_err *err)
{
    int n = p->n;

    *matched = 0;
    if (rank < 1)
        return vc_fail(err, VC_EINVAL, "LoRA of rank %d", rank);
    for (int i = 0; i < n; i++) {
        const vt_param *w = p->at[i];
        if (!w->lin || w->t != w->lin->w || w->lin->lora_a || (match && !match(arg, w->module)))
            continue;
        int rc = add_lora(p, w, rank, alpha, seed, err);
        if (rc)
            return rc;
        ++*matched;
    }
    return 0;
}

vt_param_bytes vt_params_bytes(const vt_params *p)
{
    vt_param_bytes b = { .values = vt_swap_bytes(p->swap) };

    for (int i = 0; i < p->n; i++) {
        const vt_param *w = p->at[i];
        size_t bytes = (size_t)vt_count(w->t) * vc_dtype_size(w->t->dtype);
        if (!vt_param_values_lent(w->t))
            *(vt_param_is_on_host(w->t) ? &b.on_host
              : vt_param_mapped(w->t)   ? &b.mapped
                                        : &b.values) += bytes;
        if (w->scale)
            b.values += (size_t)vt_count(w->scale) * sizeof(float);
        *(w->trained ? &b.trained : &b.frozen) += vt_count(w->t);
        if (w->grad && !vt_param_grad_lent(w->t))
            b.grads += (size_t)vt_count(w->t) * sizeof(float);
    }
    return b;
}
