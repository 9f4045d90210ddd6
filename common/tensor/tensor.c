/* tensor.c - contexts, steps, scopes, buffers: see tensor.h */
#include "common/tensor/tensor.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/map.h"
#include "common/tensor/engine.h"

/* ---- context ---- */

/* Reserves the pool. Dry steps write nothing, so that theirs may be larger than the machine's
 * memory: they find what a larger machine would need. */
static int reserve(vt_ctx *g, vc_err *err)
{
    const size_t given = g->pool.limit, dry = (size_t)1 << 44;
    void *range = NULL;
    int rc = VC_ENOMEM;
    if (g->sizes_only && g->be->host_memory && !given) {
        g->pool.limit = dry;
        rc = g->be->reserve(g->dev, &range, &g->pool.limit, NULL);
    }
    if (rc) {
        g->pool.limit = given;
        rc = g->be->reserve(g->dev, &range, &g->pool.limit, err);
    }
    g->range = range;
    return rc;
}

int vt_open(vt_ctx **out, const vt_options *o, vc_err *err)
{
    *out = NULL;
    if (o->compute != VC_F32 && o->compute != VC_BF16)
        return vc_fail(err, VC_EINVAL, "activations can be f32 or bf16");
    vt_ctx *g = calloc(1, sizeof *g);
    if (!g)
        return vc_fail(err, VC_ENOMEM, "tensor context: out of memory");
    g->compute = o->compute;
    g->sizes_only = o->sizes_only;
    g->pool.limit = o->pool_limit;

    vc_err passed = { 0 };
    int rc = vt_backend_open(&g->be, &g->dev, o, &passed, err);
    if (!rc) {
        rc = reserve(g, err);
    }
    if (rc) {
        vt_close(g);
        return rc;
    }
    snprintf(g->describe, sizeof g->describe, "%s: %s, activations %s%s%s%.120s%s", g->be->name,
             g->be->describe(g->dev), vc_dtype_name(g->compute),
             o->repeatable && !g->be->host_memory ? ", deterministic" : "",
             passed.code ? " (" : "", passed.code ? passed.text : "", passed.code ? ")" : "");
    *out = g;
    return 0;
}

void vt_close(vt_ctx *g)
{
    if (!g)
        return;
    VT_EACH_PART(g, close, g);
    if (g->be)
        g->be->close(g->dev);
    vt_arena_close(&g->arena);
    vt_pool_close(&g->pool);
    vt_profile_free(g->profile);
    free(g->live);
    free(g);
}

vc_dtype vt_compute(const vt_ctx *g) { return g->compute; }

bool vt_batch_keeps_bits(const vt_ctx *g)
{
    return g->be->batch_keeps_bits && g->be->batch_keeps_bits(g->dev, g->compute);
}
const char *vt_describe(const vt_ctx *g) { return g->describe; }
bool vt_host_memory(const vt_ctx *g) { return g->be->host_memory; }

size_t vt_heap_bytes(const vt_ctx *g)
{
    return g->be->on_heap ? g->be->on_heap(g->dev) : 0;
}
bool vt_failed(const vt_ctx *g) { return g->err.code != 0; }

void vt_watch(vt_ctx *g, void (*seen)(void *arg, double flops), void *arg)
{
    g->seen = seen;
    g->seen_arg = arg;
}

void vt_add_part(vt_ctx *g, const vt_engine_part *part)
{
    for (int i = 0; i < g->n_parts; i++)
        if (g->part[i] == part)
            return;
    g->part[g->n_parts++] = part;
}

void vt_set_hooks(vt_ctx *g, const vt_hooks *h)
{
    g->hooks = h ? *h : (vt_hooks){ 0 };
}

/* ---- steps ---- */

static void forget(vt_ctx *g)
{
    if (g->flags & VT_DRY && g->be->dry)
        g->be->dry(g->dev, false);
    vt_pool_reset(&g->pool);
    VT_EACH_PART(g, forget, g);
    vt_arena_rewind(&g->arena);
    g->tape = NULL;
    g->dropout.draw = NULL;
    g->bare = false;
    g->n_live = 0;
    g->kept = 0;
    g->in_step = g->recording = g->in_grad = false;
    g->flags = 0;
    g->op = "";
    g->err.code = 0;
    g->err.text[0] = 0;
}

void vt_step_begin(vt_ctx *g, int flags)
{
    forget(g);
    g->usage = (vt_usage){ 0 };
    g->flags = flags;
    g->recording = flags & VT_RECORD;
    g->in_step = true;
    if (!(flags & VT_DRY) && g->renew)
        g->renew(g);
    if (flags & VT_DRY && g->be->dry)
        g->be->dry(g->dev, true);
    if (flags & VT_OFFLOAD && !g->offload)
        vt_fail(g, VC_EINVAL, "a step with VT_OFFLOAD needs vt_offload_open");
}

vt_usage vt_usage_of(const vt_ctx *g)
{
    vt_usage u = g->usage;
    if (g->in_step && g->be->dry)
        u.scratch = g->be->dry(g->dev, g->flags & VT_DRY);
    return u;
}

void vt_expect(vt_ctx *g, size_t bytes)
{
    if (g->be->expect)
        g->be->expect(g->dev, bytes);
}

void vt_give_back(vt_ctx *g)
{
    if (!g->be->shrink || !g->grown)
        return;
    VT_EACH_PART(g, give_back, g);
    g->be->shrink(g->dev);
    g->grown = 0;
}

size_t vt_room(const vt_ctx *g)
{
    return g->be->room ? g->be->room(g->dev) : 0;
}

int vt_step_end(vt_ctx *g, vc_err *err)
{
    int rc = g->err.code;

    g->usage = vt_usage_of(g);
    if (rc) {
        vc_fail(err, rc, "%s", g->err.text);
        g->be->status(g->dev, NULL);           /* waits until no kernel of this step runs */
    } else if (!(g->flags & VT_DRY)) {
        rc = g->be->status(g->dev, err);
    }
    rc = vc_maps_check(rc, err);
    if (g->be->waited && !(g->flags & VT_DRY))
        g->usage.waits = g->be->waited(g->dev, &g->usage.waited);
    forget(g);
    return rc;
}

vt_tensor *vt_fail(vt_ctx *g, int code, const char *fmt, ...)
{
    if (g->err.code)
        return NULL;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(g->err.text, sizeof g->err.text, fmt, ap);
    va_end(ap);
    g->err.code = code;
    return NULL;
}

/* Appends `between` and a tensor's shape and type: ", [2,7,64] f32". */
static void append_shape(char *text, size_t size, const vt_tensor *t, const char *between)
{
    size_t n = strlen(text);

    n += (size_t)snprintf(text + n, size - n, "%s[", between);
    for (int i = 0; i < t->nd && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%lld", i ? "," : "", (long long)t->dim[i]);
    if (n < size)
        snprintf(text + n, size - n, "] %s", vc_dtype_name(t->dtype));
}

vt_tensor *vt_bad(vt_ctx *g, const char *op, const char *why, int n, vt_tensor *const *t)
{
    char shapes[600] = "";

    for (int i = 0; i < n; i++)
        if (t[i] && strlen(shapes) < sizeof shapes - 100)
            append_shape(shapes, sizeof shapes, t[i], *shapes ? ", " : "");
    return vt_fail(g, VC_EINVAL, "%s: %s: %s", op, why, shapes);
}

bool vt_ok(vt_ctx *g, const char *op, int n, vt_tensor *const *t)
{
    if (g->err.code)
        return false;
    g->op = op;
    if (!g->in_step)
        return vt_fail(g, VC_EFAIL, "%s: outside a step", op);
    for (int i = 0; i < n; i++) {
        if (!t[i])
            return vt_fail(g, VC_EFAIL, "%s: operand %d is missing", op, i + 1);
        if (t[i]->buf && t[i]->buf->refs <= 0)
            return vt_bad(g, op, "operand was given back when its scope ended", 1, &t[i]);
        if (t[i]->scale && strcmp(op, "linear"))
            return vt_bad(g, op, "operand is a weight with scales, which linear layers alone read",
                          1, &t[i]);
        if ((t[i]->dtype > VC_F8E5M2 && !t[i]->scale) ||
            (t[i]->dtype > VC_BF16 && vt_root(t[i])->needs_grad))
            return vt_bad(g, op, "operand has a type no op reads", 1, &t[i]);
    }
    return true;
}

bool vt_tracks(const vt_ctx *g, int n, vt_tensor *const *in)
{
    if (!g->recording)
        return false;
    for (int i = 0; i < n; i++)
        if (in[i] && in[i]->needs_grad)
            return true;
    return false;
}

vc_dtype vt_result(const vt_ctx *g, const vt_tensor *x)
{
    return x->dtype == VC_F32 || x->dtype == VC_BF16 ? x->dtype : g->compute;
}

/* ---- buffers ---- */

void vt_retain(vt_buf *b)
{
    if (b && !b->persistent)
        b->refs++;
}

void vt_release(vt_ctx *g, vt_buf *b)
{
    if (!b || b->persistent || --b->refs > 0)
        return;
    vt_pool_give(&g->pool, b->offset, b->bytes);
}

bool vt_hold(vt_ctx *g, vt_tensor *t)
{
    if (g->n_live == g->room_live) {
        int room = g->room_live ? 2 * g->room_live : 1024;
        vt_tensor **live = realloc(g->live, (size_t)room * sizeof *live);
        if (!live)
            return vt_fail(g, VC_ENOMEM, "%s: out of memory for descriptors", g->op);
        g->live = live;
        g->room_live = room;
    }
    vt_retain(t->buf);
    g->live[g->n_live++] = t;
    return true;
}

vt_tensor *vt_describe_new(vt_ctx *g, vc_dtype dtype, int nd, const int64_t *dim)
{
    if (nd < 0 || nd > VT_DIMS)
        return vt_fail(g, VC_EINVAL, "%s: %d axes, 0 to %d are possible", g->op, nd, VT_DIMS);
    vt_tensor *t = vt_arena_new(&g->arena, sizeof *t);
    if (!t)
        return vt_fail(g, VC_ENOMEM, "%s: out of memory for descriptors", g->op);
    t->dtype = dtype;
    t->nd = nd;
    int64_t stride = 1;
    for (int i = nd; i-- > 0;) {
        t->dim[i] = dim[i];
        t->stride[i] = stride;
        if (dim[i] < 1 || __builtin_mul_overflow(stride, dim[i], &stride) || stride > INT64_MAX / 8)
            return vt_fail(g, VC_EINVAL, "%s: axis %d of size %lld is not possible", g->op, i,
                           (long long)dim[i]);
    }
    return t;
}

static vt_tensor *no_memory(vt_ctx *g, const vt_tensor *t, size_t bytes)
{
    char shape[160] = "";

    append_shape(shape, sizeof shape, t, "");
    return vt_fail(g, VC_ENOMEM, "%s: %s needs %zu bytes, %zu of at most %zu are in use", g->op,
                   shape, bytes, g->pool.top, g->pool.limit);
}

/* Returns a packed tensor with one reference that the caller owns. */
static vt_tensor *make(vt_ctx *g, vc_dtype dtype, int nd, const int64_t *dim)
{
    vt_tensor *t = vt_describe_new(g, dtype, nd, dim);
    vt_buf *b = t ? vt_arena_new(&g->arena, sizeof *b) : NULL;
    if (!b)
        return t ? vt_fail(g, VC_ENOMEM, "%s: out of memory for descriptors", g->op) : NULL;

    b->bytes = (size_t)vt_count(t) * vc_dtype_size(dtype);
    b->empty = true;
    t->buf = b;
    return vt_buf_again(g, t) ? t : NULL;
}

bool vt_buf_again(vt_ctx *g, vt_tensor *t)
{
    vt_buf *b = t->buf;

    if (vt_pool_take(&g->pool, b->bytes, &b->offset))
        return no_memory(g, t, b->bytes);
    if (!(g->flags & VT_DRY) && g->be->grow && g->pool.peak > g->grown) {
        vc_err err = { 0 };
        int rc = g->be->grow(g->dev, g->pool.peak, &err);
        if (rc)
            return vt_fail(g, rc, "%s: %s", g->op, err.text);
        g->grown = g->pool.peak;
    }
    if (g->usage.pool_peak < g->pool.peak)
        g->usage.pool_peak = g->pool.peak;
    b->refs = 1;
    t->data = g->flags & VT_DRY ? NULL : g->range + b->offset;
    return true;
}

vt_tensor *vt_new_for_step(vt_ctx *g, vc_dtype dtype, int nd, const int64_t *dim)
{
    if (g->err.code)
        return NULL;
    return g->in_step ? make(g, dtype, nd, dim) : vt_fail(g, VC_EFAIL, "new tensor outside a step");
}

vt_tensor *vt_new(vt_ctx *g, vc_dtype dtype, int nd, const int64_t *dim)
{
    vt_tensor *t = vt_new_for_step(g, dtype, nd, dim);

    if (!t || !vt_hold(g, t))
        return NULL;
    vt_release(g, t->buf);                     /* the scope's reference is the only one */
    return t;
}

vt_tensor *vt_new_like(vt_ctx *g, const vt_tensor *t)
{
    return t ? vt_new(g, t->dtype, t->nd, t->dim) : NULL;
}

/* ---- views ---- */

static void *at(const vt_tensor *t, int64_t offset)
{
    return t->data ? (char *)t->data + offset * (int64_t)vc_dtype_size(t->dtype) : NULL;
}

vt_tensor *vt_view(vt_ctx *g, vt_tensor *x, int nd, const int64_t *dim, const int64_t *stride,
                   int64_t offset)
{
    vt_tensor *v = vt_describe_new(g, x->dtype, nd, dim);
    if (!v)
        return NULL;
    memcpy(v->stride, stride, (size_t)nd * sizeof *stride);
    v->data = at(x, offset);
    v->buf = x->buf;
    v->base = vt_root(x);
    v->offset = x->offset + offset;
    v->needs_grad = x->needs_grad;
    return !v->buf || vt_hold(g, v) ? v : NULL;
}

/* ---- scopes ---- */

vt_scope vt_scope_begin(vt_ctx *g)
{
    return (vt_scope){ g->n_live };
}

static bool among(const vt_tensor *t, int n, vt_tensor *const *list)
{
    for (int i = 0; i < n; i++)
        if (list[i] == t)
            return true;
    return false;
}

void vt_scope_end(vt_ctx *g, vt_scope s, int n, vt_tensor *const *keep)
{
    int to = s.mark < g->n_live ? s.mark : g->n_live;     /* backward may have ended s */

    for (int i = to; i < g->n_live; i++) {
        vt_tensor *t = g->live[i];
        if (among(t, n, keep))
            g->live[to++] = t;
        else
            vt_release(g, t->buf);
    }
    g->n_live = to;
}

/* ---- gradients' buffers ---- */

vt_tensor *vt_grad(vt_ctx *g, vt_tensor *t)
{
    if (!t || !t->needs_grad || g->err.code)
        return NULL;
    vt_tensor *root = vt_root(t);
    if (!root->grad) {
        root->grad = make(g, root->dtype, root->nd, root->dim);
        if (!root->grad)
            return NULL;
    }
    vt_tensor *d = root->grad;
    if (t == root)
        return d;

    if (d->buf->empty && vt_count(t) < vt_count(root)) {
        VT_RUN(g, fill, d, 0.0f);
        vt_wrote(d);
    }
    vt_tensor *v = vt_describe_new(g, d->dtype, t->nd, t->dim);
    if (!v)
        return NULL;
    memcpy(v->stride, t->stride, sizeof v->stride);
    v->data = at(d, t->offset);
    v->buf = d->buf;
    v->base = d;
    v->offset = t->offset;
    return v;
}

void vt_pass_grad(vt_ctx *g, const vt_node *n, vt_tensor *a)
{
    vt_tensor *dy = n->out->grad, *root = vt_root(a);

    if (!a->needs_grad || g->err.code)
        return;
    bool free_hand = !root->grad && !root->param && root->dtype == dy->dtype && vt_packed(a) &&
                     vt_count(a) == vt_count(root) && vt_count(a) == vt_count(dy);
    if (free_hand) {
        vt_tensor *d = vt_describe_new(g, root->dtype, root->nd, root->dim);
        if (!d)
            return;
        d->data = dy->data;
        d->buf = dy->buf;
        root->grad = d;
        n->out->grad = NULL;
        return;
    }
    vt_tensor *da = vt_grad(g, a);
    if (da)
        VT_RUN(g, scale, da, dy, 1.0f);
}
