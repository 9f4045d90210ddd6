/* data.c - copies between host and device, and persistent tensors; see tensor.h */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/spill.h"
#include "common/tensor/engine.h"

enum { STAGE = 2048,                           /* elements converted at a time, on the stack */
       SHARE = 1 << 18,                        /* elements that one thread converts at a time */
       PART = 1 << 20 };                       /* elements of rows that are filled at a time */

int vt_host_threads(const vt_ctx *g) { return g->be->threads ? g->be->threads(g->dev) : 1; }

static void convert_share(char *to, vc_dtype type, const char *from, vc_dtype of, int64_t n)
{
    float stage[STAGE];

    if (type == of) {
        memcpy(to, from, vc_dtype_bytes(type, (size_t)n));
        return;
    }
    for (int64_t i = 0; i < n; i += STAGE) {
        size_t m = (size_t)(n - i < STAGE ? n - i : STAGE);
        vc_to_f32(stage, from + vc_dtype_bytes(of, (size_t)i), of, m);
        vc_from_f32(to + vc_dtype_bytes(type, (size_t)i), type, stage, m);
    }
}

/* Copies n elements in host memory, converted to `type`, by all threads. */
static void convert(const vt_ctx *g, void *to, vc_dtype type, const void *from, vc_dtype of,
                    int64_t n)
{
    int threads = n > SHARE ? vt_host_threads(g) : 1;

    #pragma omp parallel for num_threads(threads) if(threads > 1)
    for (int64_t i = 0; i < n; i += SHARE)
        convert_share((char *)to + vc_dtype_bytes(type, (size_t)i), type,
                      (const char *)from + vc_dtype_bytes(of, (size_t)i), of,
                      n - i < SHARE ? n - i : SHARE);
}

/* Copies n elements of src on the host to dst on the device, converted to type `to`. */
static void upload(const vt_ctx *g, void *dst, vc_dtype to, const void *src, vc_dtype from,
                   int64_t n)
{
    const vt_backend *be = g->be;
    vt_dev *dev = g->dev;

    if (be->host_memory) {
        convert(g, dst, to, src, from, n);
        return;
    }
    if (to == from) {
        be->upload(dev, dst, src, vc_dtype_bytes(to, (size_t)n));
        return;
    }
    float stage[STAGE];
    uint64_t bytes[STAGE];
    for (int64_t i = 0; i < n; i += STAGE) {
        size_t m = (size_t)(n - i < STAGE ? n - i : STAGE);
        char *at = (char *)dst + vc_dtype_bytes(to, (size_t)i);
        vc_to_f32(stage, (const char *)src + vc_dtype_bytes(from, (size_t)i), from, m);
        if (to == VC_F32) {
            be->upload(dev, at, stage, m * sizeof *stage);
            continue;
        }
        vc_from_f32(bytes, to, stage, m);
        be->upload(dev, at, bytes, vc_dtype_bytes(to, m));
    }
}

/* Takes data that a part has on the device already, or on the way there. */
static bool copy_of_part(vt_ctx *g, vt_tensor *t, const void *data)
{
    bool copied = false;
    for (int i = 0; i < g->n_parts && !copied; i++)
        copied = g->part[i]->copy && g->part[i]->copy(g, t, data);
    return copied;
}

vt_tensor *vt_from_host(vt_ctx *g, vc_dtype dtype, int nd, const int64_t *dim, const void *data,
                        vc_dtype from)
{
    if (g->err.code)
        return NULL;
    g->op = "from_host";
    vt_tensor *t = vt_new(g, dtype, nd, dim);
    if (!t || g->flags & VT_DRY)
        return t;
    if (dtype != from || !copy_of_part(g, t, data))
        upload(g, t->data, dtype, data, from, vt_count(t));
    return t;
}

/* Fills rows in parts on the host and copies each part to the device. */
static void fill_parts(vt_ctx *g, vt_tensor *t, vt_fill_fn fill, const void *arg)
{
    int64_t rows = t->dim[0], width = t->dim[1], each = width < PART ? PART / width : 1;
    float *part = malloc((size_t)((each < rows ? each : rows) * width) * sizeof *part);

    if (!part) {
        vt_fail(g, VC_ENOMEM, "out of memory");
        return;
    }
    for (int64_t i = 0; i < rows; i += each) {
        int64_t n = rows - i < each ? rows - i : each;
        fill(arg, i, n, part);
        g->be->upload(g->dev, (float *)t->data + i * width, part,
                      (size_t)(n * width) * sizeof *part);
    }
    free(part);
}

vt_tensor *vt_from_rows(vt_ctx *g, int64_t rows, int64_t width, vt_fill_fn fill, const void *arg)
{
    if (g->err.code)
        return NULL;
    g->op = "from_rows";
    vt_tensor *t = vt_new(g, VC_F32, 2, (int64_t[]){ rows, width });
    if (!t || g->flags & VT_DRY)
        return t;
    if (g->be->host_memory)
        fill(arg, 0, rows, t->data);
    else
        fill_parts(g, t, fill, arg);
    return t;
}

static void download(vt_ctx *g, const vt_tensor *t, float *out)
{
    uint64_t bytes[STAGE];
    int64_t n = vt_count(t);

    if (!t->data) {                            /* a dry step */
        memset(out, 0, (size_t)n * sizeof *out);
        return;
    }
    for (int64_t i = 0; i < n; i += STAGE) {
        size_t m = (size_t)(n - i < STAGE ? n - i : STAGE);
        g->be->download(g->dev, bytes,
                        (const char *)t->data + vc_dtype_bytes(t->dtype, (size_t)i),
                        vc_dtype_bytes(t->dtype, m));
        vc_to_f32(out + i, bytes, t->dtype, m);
    }
}

/* Downloads a tensor that is not packed by way of a packed copy in the pool. */
static int download_strided(vt_ctx *g, const vt_tensor *t, float *out, vc_err *err)
{
    vt_scope s = vt_scope_begin(g);

    if (!g->in_step)
        return vc_fail(err, VC_EINVAL, "to_host: outside a step only packed tensors can be read");
    g->op = "to_host";
    vt_tensor *y = vt_new_like(g, t);
    if (!y)
        return vc_fail(err, g->err.code, "%s", g->err.text);
    VT_RUN(g, copy, y, t);
    download(g, y, out);
    vt_scope_end(g, s, 0, NULL);
    return 0;
}

int vt_to_host(vt_ctx *g, const vt_tensor *t, float *out, vc_err *err)
{
    if (!t || g->err.code)
        return vc_fail(err, g->err.code ? g->err.code : VC_EFAIL, "to_host: %s",
                       g->err.code ? g->err.text : "no tensor");
    if (t->buf && t->buf->refs <= 0 && !t->buf->persistent)
        return vc_fail(err, VC_EFAIL, "to_host: the tensor was given back when its scope ended");
    if (t->param)
        VT_EACH_PART(g, finish, g);
    if (!vt_packed(t))
        return download_strided(g, t, out, err);
    download(g, t, out);
    return 0;
}

float vt_item(vt_ctx *g, const vt_tensor *t)
{
    float value = NAN;

    if (t && vt_count(t) == 1 && vt_to_host(g, t, &value, NULL))
        value = NAN;
    return value;
}

/* ---- persistent tensors ---- */

typedef struct param {
    vt_tensor t;                               /* first: a vt_tensor * is a param * */
    bool mapped, values_lent;
    const void *on_host;                       /* its values, if they stay on the host */
    void *copy;                                /* the memory of on_host, unless borrowed */
    bool pinned;                               /* copy is of vt_param_hosted */
    vt_tensor grad;                            /* of a trained parameter */
    bool lent;                                 /* the gradient's values are the caller's */
    vt_buf grad_buf;
    unsigned changes;                          /* vt_param_changes */
    bool stale;                                /* t.rounded has older values than t */
    vt_tensor *next;                           /* of vt_ctx.rounded */
} param;

static size_t bytes_of(const vt_tensor *t)
{
    return vc_dtype_bytes(t->dtype, (size_t)vt_count(t));
}

static int set_shape(vt_tensor *t, int nd, const int64_t *dim, vc_err *err)
{
    if (nd < 0 || nd > VT_DIMS)
        return vc_fail(err, VC_EINVAL, "parameter: %d axes, 0 to %d are possible", nd, VT_DIMS);
    int64_t stride = 1;
    t->nd = nd;
    for (int i = nd; i-- > 0;) {
        t->dim[i] = dim[i];
        t->stride[i] = stride;
        if (dim[i] < 1 || __builtin_mul_overflow(stride, dim[i], &stride) || stride > INT64_MAX / 8)
            return vc_fail(err, VC_EINVAL, "parameter: axis %d of size %lld is not possible", i,
                           (long long)dim[i]);
    }
    return 0;
}

/* Returns a parameter without values. */
static param *describe(vc_dtype dtype, int nd, const int64_t *dim, vc_err *err)
{
    param *p = calloc(1, sizeof *p);

    if (!p) {
        vc_fail(err, VC_ENOMEM, "parameter: out of memory");
        return NULL;
    }
    p->t.dtype = dtype;
    p->t.param = true;
    if (set_shape(&p->t, nd, dim, err)) {
        free(p);
        return NULL;
    }
    return p;
}

static vt_tensor *no_room(param *p, vc_err *err)
{
    vc_fail(err, VC_ENOMEM, "parameter: no memory for %zu bytes", bytes_of(&p->t));
    free(p);
    return NULL;
}

vt_tensor *vt_param_new(vt_ctx *g, vc_dtype dtype, int nd, const int64_t *dim, const void *data,
                        vc_dtype from, bool map, vc_err *err)
{
    param *p = describe(dtype, nd, dim, err);

    if (!p)
        return NULL;
    p->mapped = map && data && from == dtype && g->be->host_memory &&
                (uintptr_t)data % vc_dtype_size(dtype) == 0;
    p->t.data = p->mapped ? (void *)(uintptr_t)data : g->be->alloc(g->dev, bytes_of(&p->t));
    if (!p->t.data)
        return no_room(p, err);
    if (data && !p->mapped && !g->sizes_only)
        upload(g, p->t.data, dtype, data, from, vt_count(&p->t));
    return &p->t;
}

vt_tensor *vt_param_spilled(vt_ctx *g, vc_spill *spill, vc_dtype dtype, int nd, const int64_t *dim,
                            vc_err *err)
{
    size_t bytes = vc_dtype_size(dtype);

    for (int i = 0; i < nd; i++)
        bytes *= (size_t)dim[i];
    void *values = spill ? vc_spill_take(spill, bytes) : NULL;
    if (!spill || values)
        return vt_param_new(g, dtype, nd, dim, values, dtype, true, err);
    vc_fail(err, VC_ENOMEM, "parameter: no %zu bytes are left in its file", bytes);
    return NULL;
}

void vt_param_want(vc_spill *spill, const vt_tensor *t)
{
    vc_spill_want(spill, t->data, bytes_of(t));
}

void vt_param_rest(vc_spill *spill, const vt_tensor *t)
{
    vc_spill_rest(spill, t->data, bytes_of(t));
}

/* ---- weights that stay on the host ---- */

vt_tensor *vt_param_on_host(vt_ctx *g, vc_dtype dtype, int nd, const int64_t *dim,
                            const void *data, vc_dtype from, bool borrow, vc_err *err)
{
    param *p = describe(dtype, nd, dim, err);

    if (!p)
        return NULL;
    p->mapped = borrow && data && from == dtype;
    p->on_host = data;
    if (p->mapped)
        return &p->t;
    p->on_host = p->copy = malloc(bytes_of(&p->t));
    if (!p->copy)
        return no_room(p, err);
    if (data && !g->sizes_only)
        convert(g, p->copy, dtype, data, from, vt_count(&p->t));
    return &p->t;
}

vt_tensor *vt_param_hosted(vt_ctx *g, vc_dtype dtype, int nd, const int64_t *dim, vc_err *err)
{
    param *p = describe(dtype, nd, dim, err);

    if (!p)
        return NULL;
    p->pinned = !g->sizes_only;
    p->on_host = p->copy = p->pinned ? g->be->pin(g->dev, bytes_of(&p->t)) : calloc(1, 1);
    if (!p->copy)
        return no_room(p, err);
    if (p->pinned)
        memset(p->copy, 0, bytes_of(&p->t));
    return &p->t;
}

/* Callers may pass tensors of their own, which are no params. */
static bool is_pinned(const vt_tensor *t) { return t->param && ((const param *)t)->pinned; }

/* Waits until what kernels and copies do to values on the host is done. */
static void wait_for_host(const vt_ctx *g)
{
    g->be->download(g->dev, NULL, NULL, 0);
}

const void *vt_param_host_values(const vt_tensor *t) { return ((const param *)t)->on_host; }
bool vt_param_is_on_host(const vt_tensor *t) { return vt_param_host_values(t); }

void *vt_param_host_memory(const vt_ctx *g, vt_tensor *t)
{
    void *copy = ((param *)t)->copy;
    return copy ? copy : g->be->host_memory ? t->data : NULL;
}

int vt_param_place(vt_ctx *g, vt_tensor *t, vc_err *err)
{
    param *p = (param *)t;
    void *place = g->be->alloc(g->dev, bytes_of(t));

    if (!place)
        return vc_fail(err, VC_ENOMEM, "no memory for %zu bytes on the device", bytes_of(t));
    if (!g->sizes_only)
        g->be->upload(g->dev, place, p->on_host, bytes_of(t));
    t->data = place;
    free(p->copy);
    p->on_host = p->copy = NULL;
    p->mapped = false;
    return 0;
}

const void *vt_param_get(vt_ctx *g, const vt_tensor *t, void *to)
{
    VT_EACH_PART(g, finish, g);
    if (g->be->host_memory)
        return t->data;
    if (is_pinned(t)) {
        wait_for_host(g);
        return ((const param *)t)->copy;
    }
    g->be->download(g->dev, to, t->data, bytes_of(t));
    return to;
}

void vt_param_set(vt_ctx *g, vt_tensor *t, const void *data, vc_dtype from)
{
    VT_EACH_PART(g, finish, g);
    if (is_pinned(t)) {
        wait_for_host(g);
        convert(g, ((param *)t)->copy, t->dtype, data, from, vt_count(t));
    } else if (!g->sizes_only) {
        upload(g, t->data, t->dtype, data, from, vt_count(t));
    }
    vt_param_changed(t);
}

/* ---- values in bf16 too ---- */

static size_t rounded_bytes(const vt_tensor *t)
{
    return (size_t)vt_count(t) * vc_dtype_size(VC_BF16);
}

/* Converts the values of parameters that were changed since. */
static void renew(vt_ctx *g)
{
    for (vt_tensor *t = g->rounded; t; t = ((param *)t)->next) {
        vt_tensor y = *t;
        y.dtype = VC_BF16;
        y.data = t->rounded;
        if (((param *)t)->stale && !g->sizes_only)
            g->be->copy(g->dev, &y, t);
        ((param *)t)->stale = false;
    }
}

int vt_param_round(vt_ctx *g, vt_tensor *t, vc_err *err)
{
    if (!g->be->rounds_products || g->compute != VC_BF16 || t->dtype != VC_F32 || t->rounded)
        return 0;
    t->rounded = g->be->alloc(g->dev, rounded_bytes(t));
    if (!t->rounded)
        return vc_fail(err, VC_ENOMEM, "no memory for %zu bytes of rounded values",
                       rounded_bytes(t));
    ((param *)t)->stale = true;
    ((param *)t)->next = g->rounded;
    g->rounded = t;
    g->renew = renew;
    return 0;
}

unsigned vt_param_changes(const vt_tensor *t) { return ((const param *)t)->changes; }

void vt_param_changed(vt_tensor *t)
{
    if (!t->param)                             /* a view of a row that vt_values_put fills */
        return;
    ((param *)t)->changes++;
    ((param *)t)->stale = true;
}

/* Ends the copy. */
static void drop_rounded(vt_ctx *g, vt_tensor *t)
{
    vt_tensor **at = &g->rounded;

    if (!t->rounded)
        return;
    while (*at != t)
        at = &((param *)*at)->next;
    *at = ((param *)t)->next;
    g->be->free(g->dev, t->rounded, rounded_bytes(t));
    t->rounded = NULL;
}

bool vt_param_mapped(const vt_tensor *t) { return ((const param *)t)->mapped; }

static void free_values(vt_ctx *g, param *p)
{
    if (p->pinned)
        g->be->unpin(g->dev, p->copy);
    else
        free(p->copy);
    if (!p->mapped && !p->on_host && !p->values_lent)
        g->be->free(g->dev, p->t.data, bytes_of(&p->t));
}

void vt_param_free(vt_ctx *g, vt_tensor *t)
{
    if (!t)
        return;
    param *p = (param *)t;
    drop_rounded(g, t);
    free_values(g, p);
    if (t->grad && !p->lent)
        g->be->free(g->dev, t->grad->data, bytes_of(t->grad));
    free(p);
}

void vt_param_lend_grad(vt_ctx *g, vt_tensor *t, float *data)
{
    param *p = (param *)t;
    if (!p->lent)
        g->be->free(g->dev, p->grad.data, bytes_of(&p->grad));
    p->lent = true;
    p->grad.data = data;
}

bool vt_param_grad_lent(const vt_tensor *t) { return ((const param *)t)->lent; }

void vt_param_lend_values(vt_ctx *g, vt_tensor *t, void *data)
{
    param *p = (param *)t;
    drop_rounded(g, t);                        /* it would be renewed with each lent value */
    free_values(g, p);
    p->values_lent = true;
    t->data = data;
}

bool vt_param_values_lent(const vt_tensor *t) { return ((const param *)t)->values_lent; }

int vt_param_own_grad(vt_ctx *g, vt_tensor *t, vc_err *err)
{
    param *p = (param *)t;
    size_t bytes = bytes_of(&p->grad);

    p->grad.data = g->be->alloc(g->dev, bytes);
    if (!p->grad.data)
        return vc_fail(err, VC_ENOMEM, "no memory for %zu bytes of gradient", bytes);
    p->lent = false;
    return 0;
}

int vt_param_train(vt_ctx *g, vt_tensor *t, vc_dtype dtype, vc_err *err)
{
    param *p = (param *)t;

    if (t->dtype != dtype || p->mapped) {
        drop_rounded(g, t);
        vt_tensor y = *t;
        y.dtype = dtype;
        y.data = g->be->alloc(g->dev, bytes_of(&y));
        if (!y.data)
            return vc_fail(err, VC_ENOMEM, "no memory for %zu bytes of %s values", bytes_of(&y),
                           vc_dtype_name(dtype));
        if (!g->sizes_only)
            g->be->copy(g->dev, &y, t);
        free_values(g, p);
        p->mapped = false;
        y.scale = NULL;
        *t = y;
    }
    if (!t->grad) {
        p->grad = *t;
        p->grad.dtype = VC_F32;
        p->grad.param = false;
        size_t bytes = bytes_of(&p->grad);
        p->grad.data = NULL;
        p->lent = g->lends_grads;
        p->grad_buf = (vt_buf){ .bytes = bytes, .refs = 1, .empty = true, .persistent = true };
        p->grad.buf = &p->grad_buf;
        int rc = p->lent ? 0 : vt_param_own_grad(g, t, err);
        if (rc)
            return rc;
        t->grad = &p->grad;
    }
    t->needs_grad = true;
    return 0;
}
