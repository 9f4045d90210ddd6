/* op_shape.c - views, copies, patches; see ops.h
 *
 * A view records nothing, since its gradient is a view of its base's gradient. */
#include <string.h>

#include "common/tensor/engine.h"

/* ---- copies ---- */

static void copy_grad(vt_ctx *g, const vt_node *n)
{
    vt_pass_grad(g, n, n->in[0]);
}

static vt_tensor *copy(vt_ctx *g, const char *op, vt_tensor *x, vc_dtype dtype)
{
    vt_tensor *y = vt_new(g, dtype, x->nd, x->dim);
    if (!y)
        return NULL;
    VT_RUN(g, copy, y, x);
    return vt_record(g, y, op, copy_grad, 1, &x, 0, false, NULL);
}

vt_tensor *vt_pack(vt_ctx *g, vt_tensor *x)
{
    if (!vt_ok(g, "pack", 1, &x))
        return NULL;
    return vt_packed(x) ? x : copy(g, "pack", x, x->dtype);
}

vt_tensor *vt_rows_packed(vt_ctx *g, vt_tensor *x)
{
    if (!x || vt_last(x) == 1 || x->stride[x->nd - 1] == 1)
        return x;
    return copy(g, g->op, x, x->dtype);
}

vt_tensor *vt_cast(vt_ctx *g, vt_tensor *x, vc_dtype dtype)
{
    if (!vt_ok(g, "cast", 1, &x))
        return NULL;
    if (dtype != VC_F32 && dtype != VC_BF16)
        return vt_bad(g, "cast", "only f32 and bf16 can be cast to", 1, &x);
    return x->dtype == dtype ? x : copy(g, "cast", x, dtype);
}

void vt_assign(vt_ctx *g, vt_tensor *y, vt_tensor *x)
{
    vt_tensor *in[] = { y, x };

    if (!vt_ok(g, "assign", 2, in))
        return;
    if (!vt_same_shape(x, y))
        vt_bad(g, "assign", "shapes differ", 2, in);
    else if (!y->buf || y->needs_grad || x->needs_grad)
        vt_bad(g, "assign", "it has no gradient, and no parameter is written", 2, in);
    else
        VT_RUN(g, copy, y, x);
}

/* ---- views ---- */

/* Computes the strides of x's elements under the sizes dim[nd]; false if there are none. Groups of
 * old and new axes with equal products are matched, outermost first; inside a group the old axes
 * must be contiguous. */
static bool view_strides(const vt_tensor *x, int nd, const int64_t *dim, int64_t *stride)
{
    int64_t od[VT_DIMS], os[VT_DIMS];
    int on = 0;

    for (int i = 0; i < x->nd; i++)
        if (x->dim[i] != 1) {
            od[on] = x->dim[i];
            os[on++] = x->stride[i];
        }
    for (int o = 0, i = 0; i < nd;) {
        int o1 = o, i1 = i + 1;
        int64_t want = dim[i], have = 1;
        while (have != want) {
            if (have < want)
                have *= od[o1++];
            else
                want *= dim[i1++];
        }
        for (int k = o; k + 1 < o1; k++)
            if (os[k] != os[k + 1] * od[k + 1])
                return false;
        int64_t s = o1 > o ? os[o1 - 1] : 1;
        for (int k = i1; k-- > i; s *= dim[k])
            stride[k] = s;
        o = o1;
        i = i1;
    }
    return true;
}

vt_tensor *vt_reshape(vt_ctx *g, vt_tensor *x, int nd, const int64_t *dim)
{
    int64_t full[VT_DIMS], stride[VT_DIMS], known = 1;
    int open = -1;

    if (!vt_ok(g, "reshape", 1, &x))
        return NULL;
    if (nd < 0 || nd > VT_DIMS)
        return vt_bad(g, "reshape", "too many axes", 1, &x);
    for (int i = 0; i < nd; i++) {
        full[i] = dim[i];
        if (dim[i] == -1 && open < 0)
            open = i;
        else if (dim[i] < 1 || __builtin_mul_overflow(known, dim[i], &known))
            return vt_bad(g, "reshape", "a new size is not possible", 1, &x);
    }
    if (open >= 0)
        full[open] = vt_count(x) / known;
    if (open >= 0 ? full[open] * known != vt_count(x) : known != vt_count(x))
        return vt_bad(g, "reshape", "another number of elements", 1, &x);
    if (!view_strides(x, nd, full, stride)) {
        x = copy(g, "reshape", x, x->dtype);
        if (!x || !view_strides(x, nd, full, stride))
            return NULL;
    }
    return vt_view(g, x, nd, full, stride, 0);
}

vt_tensor *vt_permute(vt_ctx *g, vt_tensor *x, const int *order)
{
    int64_t dim[VT_DIMS], stride[VT_DIMS];
    unsigned seen = 0;

    if (!vt_ok(g, "permute", 1, &x))
        return NULL;
    for (int i = 0; i < x->nd; i++) {
        if (order[i] < 0 || order[i] >= x->nd || seen >> order[i] & 1)
            return vt_bad(g, "permute", "the order must name each axis once", 1, &x);
        seen |= 1u << order[i];
        dim[i] = x->dim[order[i]];
        stride[i] = x->stride[order[i]];
    }
    return vt_view(g, x, x->nd, dim, stride, 0);
}

vt_tensor *vt_detach(vt_ctx *g, vt_tensor *x)
{
    if (!vt_ok(g, "detach", 1, &x))
        return NULL;
    vt_tensor *y = vt_view(g, x, x->nd, x->dim, x->stride, 0);
    if (y)
        y->needs_grad = false;
    return y;
}

vt_tensor *vt_distances(vt_ctx *g, vt_tensor *x, int64_t sq)
{
    int64_t dim[VT_DIMS], stride[VT_DIMS];

    if (!vt_ok(g, "distances", 1, &x))
        return NULL;
    int64_t n = vt_last(x);
    if (x->nd < 1 || x->nd >= VT_DIMS || sq < 1 || sq > n)
        return vt_bad(g, "distances", "x must be [..,Sq+Sk-1], Sk at least 1", 1, &x);
    if (x->needs_grad)
        return vt_bad(g, "distances", "it has no gradient", 1, &x);
    int nd = x->nd;
    int64_t step = x->stride[nd - 1];
    memcpy(dim, x->dim, sizeof dim);
    memcpy(stride, x->stride, sizeof stride);
    dim[nd - 1] = sq;
    dim[nd] = n - sq + 1;
    stride[nd - 1] = -step;                     /* the next query is one nearer to each key */
    stride[nd] = step;
    return vt_view(g, x, nd + 1, dim, stride, (sq - 1) * step);
}

/* ---- tables ---- */

vt_tensor *vt_embedding(vt_ctx *g, vt_tensor *table, vt_tensor *ids)
{
    vt_tensor *in[] = { table, ids };
    int64_t dim[VT_DIMS];

    if (!vt_ok(g, "embedding", 1, in))
        return NULL;
    if (!ids)
        return vt_fail(g, VC_EFAIL, "embedding: operand 2 is missing");
    if (table->nd != 2 || !vt_packed(table) || ids->dtype != VC_I32 || ids->nd >= VT_DIMS ||
        !vt_packed(ids) || (ids->buf && ids->buf->refs <= 0))
        return vt_bad(g, "embedding", "the table must be packed [V,D], ids i32 and not given back "
                      "yet", 2, in);
    if (table->needs_grad)
        return vt_bad(g, "embedding", "it has no gradient", 2, in);
    memcpy(dim, ids->dim, sizeof dim);
    dim[ids->nd] = table->dim[1];
    vt_tensor *y = vt_new(g, g->compute, ids->nd + 1, dim);
    if (!y)
        return NULL;
    VT_RUN(g, embedding, y, table, ids);
    return y;
}

/* ---- reorder ---- */

/* Copies row ids[i] of x to row i of y, where the last axis is a row. */
static void take_rows(vt_ctx *g, vt_tensor *y, const vt_tensor *x, const vt_tensor *ids)
{
    vt_tensor table = *x;
    table.nd = 2;
    table.dim[0] = vt_count(ids);
    table.dim[1] = vt_last(x);
    VT_RUN(g, embedding, y, &table, ids);
}

static void reorder_grad(vt_ctx *g, const vt_node *n)
{
    vt_tensor *dx = vt_grad(g, n->in[0]), *moved = dx ? vt_new_like(g, n->out->grad) : NULL;
    if (!moved)
        return;
    take_rows(g, moved, n->out->grad, n->in[1]);
    VT_RUN(g, scale, dx, moved, 1.0f);
}

vt_tensor *vt_reorder(vt_ctx *g, vt_tensor *x, vt_tensor *order, vt_tensor *inverse)
{
    vt_tensor *in[] = { x, inverse, order };

    if (!vt_ok(g, "reorder", 1, in))
        return NULL;
    for (int i = 1; i < 3; i++)
        if (!in[i] || in[i]->dtype != VC_I32 || !vt_packed(in[i]) ||
            vt_count(in[i]) * vt_last(x) != vt_count(x))
            return vt_bad(g, "reorder", "order and inverse must be i32, one number a row", 1, in);
    in[0] = vt_pack(g, x);
    vt_tensor *y = in[0] ? vt_new(g, vt_result(g, x), x->nd, x->dim) : NULL;
    if (!y)
        return NULL;
    take_rows(g, y, in[0], order);
    return vt_record(g, y, "reorder", reorder_grad, 2, in, 2, false, NULL);
}

/* Returns the index of an axis, which counts from the end if negative; fails with -1 if x has no
 * such axis. */
static int axis_of(vt_ctx *g, const char *op, vt_tensor *x, int axis)
{
    if (axis < 0)
        axis += x->nd;
    if (axis >= 0 && axis < x->nd)
        return axis;
    vt_bad(g, op, "no such axis", 1, &x);
    return -1;
}

vt_tensor *vt_slice(vt_ctx *g, vt_tensor *x, int axis, int64_t begin, int64_t end)
{
    int64_t dim[VT_DIMS];

    if (!vt_ok(g, "slice", 1, &x) || (axis = axis_of(g, "slice", x, axis)) < 0)
        return NULL;
    if (begin < 0 || end > x->dim[axis] || begin >= end)
        return vt_fail(g, VC_EINVAL, "slice: %lld to %lld of axis %d, which has %lld",
                       (long long)begin, (long long)end, axis, (long long)x->dim[axis]);
    memcpy(dim, x->dim, sizeof dim);
    dim[axis] = end - begin;
    return vt_view(g, x, x->nd, dim, x->stride, begin * x->stride[axis]);
}

void vt_chunk(vt_ctx *g, vt_tensor *x, int axis, int n, vt_tensor **out)
{
    memset(out, 0, (size_t)n * sizeof *out);
    if (!vt_ok(g, "chunk", 1, &x) || (axis = axis_of(g, "chunk", x, axis)) < 0)
        return;
    if (x->dim[axis] % n) {
        vt_bad(g, "chunk", "the axis does not divide into equal parts", 1, &x);
        return;
    }
    int64_t part = x->dim[axis] / n;
    for (int i = 0; i < n; i++)
        out[i] = vt_slice(g, x, axis, i * part, (i + 1) * part);
    if (g->err.code)
        memset(out, 0, (size_t)n * sizeof *out);
}

/* ---- concat ---- */

/* Returns a descriptor of the part of y (or of its gradient) that was copied from x. */
static vt_tensor part_of(const vt_tensor *y, const vt_tensor *x, int axis, int64_t begin)
{
    vt_tensor p = *y;

    p.dim[axis] = x->dim[axis];
    if (p.data)
        p.data = (char *)p.data + begin * y->stride[axis] * (int64_t)vc_dtype_size(y->dtype);
    return p;
}

static void concat_grad(vt_ctx *g, const vt_node *n)
{
    int axis = (int)n->i[0];
    int64_t begin = 0;

    for (int k = 0; k < n->n_in; begin += n->in[k++]->dim[axis]) {
        vt_tensor *dx = vt_grad(g, n->in[k]);
        if (!dx)
            continue;
        vt_tensor dy = part_of(n->out->grad, n->in[k], axis, begin);
        VT_RUN(g, scale, dx, &dy, 1.0f);
    }
}

static bool fits(const vt_tensor *a, const vt_tensor *b, int axis)
{
    if (a->nd != b->nd)
        return false;
    for (int i = 0; i < a->nd; i++)
        if (i != axis && a->dim[i] != b->dim[i])
            return false;
    return true;
}

vt_tensor *vt_concat(vt_ctx *g, int axis, int n, vt_tensor *const *x)
{
    int64_t dim[VT_DIMS], begin = 0;

    if (!vt_ok(g, "concat", n, x))
        return NULL;
    if (n < 1 || n > VT_SAVED)
        return vt_fail(g, VC_EINVAL, "concat: %d parts, 1 to %d are possible", n, VT_SAVED);
    if ((axis = axis_of(g, "concat", x[0], axis)) < 0)
        return NULL;
    memcpy(dim, x[0]->dim, sizeof dim);
    dim[axis] = 0;
    for (int k = 0; k < n; k++) {
        if (!fits(x[0], x[k], axis))
            return vt_bad(g, "concat", "sizes of the other axes differ", n, x);
        dim[axis] += x[k]->dim[axis];
    }
    vt_tensor *y = vt_new(g, vt_result(g, x[0]), x[0]->nd, dim);
    if (!y)
        return NULL;
    for (int k = 0; k < n; begin += x[k++]->dim[axis]) {
        vt_tensor part = part_of(y, x[k], axis, begin);
        VT_RUN(g, copy, &part, x[k]);
    }
    vt_node *node;
    y = vt_record(g, y, "concat", concat_grad, n, x, 0, false, &node);
    if (node)
        node->i[0] = axis;
    return y;
}

/* ---- patches ---- */

static void patchify_grad(vt_ctx *g, const vt_node *n)
{
    vt_tensor *dx = vt_grad(g, n->in[0]);
    if (dx)
        VT_RUN(g, unpatchify, dx, n->out->grad, (int)n->i[0], (int)n->i[1], (int)n->i[2],
               (vt_patch_order)n->i[3]);
}

static void unpatchify_grad(vt_ctx *g, const vt_node *n)
{
    vt_tensor *dx = vt_grad(g, n->in[0]);
    if (dx)
        VT_RUN(g, patchify, dx, n->out->grad, (int)n->i[0], (int)n->i[1], (int)n->i[2],
               (vt_patch_order)n->i[3]);
}

static vt_tensor *record_patch(vt_ctx *g, vt_tensor *y, const char *op, vt_grad_fn fn,
                               vt_tensor *x, const int64_t note[4])
{
    vt_node *node;

    y = vt_record(g, y, op, fn, 1, &x, 0, false, &node);
    if (node)
        memcpy(node->i, note, 4 * sizeof *note);
    return y;
}

vt_tensor *vt_patchify(vt_ctx *g, vt_tensor *x, int pt, int ph, int pw, vt_patch_order order)
{
    if (!vt_ok(g, "patchify", 1, &x))
        return NULL;
    if (x->nd != 5 || pt < 1 || ph < 1 || pw < 1 || x->dim[2] % pt || x->dim[3] % ph ||
        x->dim[4] % pw)
        return vt_bad(g, "patchify", "x must be [B,C,T,H,W] in whole patches", 1, &x);
    x = vt_pack(g, x);
    if (!x)
        return NULL;
    const int64_t *d = x->dim;
    vt_tensor *y = vt_new(g, vt_result(g, x), 3,
                          (int64_t[]){ d[0], d[2] / pt * (d[3] / ph) * (d[4] / pw),
                                       d[1] * pt * ph * pw });
    if (!y)
        return NULL;
    VT_RUN(g, patchify, y, x, pt, ph, pw, order);
    return record_patch(g, y, "patchify", patchify_grad, x, (int64_t[]){ pt, ph, pw, order });
}

vt_tensor *vt_unpatchify(vt_ctx *g, vt_tensor *tokens, const int64_t d[4], int pt, int ph, int pw,
                         vt_patch_order order)
{
    vt_tensor *x = tokens;

    if (!vt_ok(g, "unpatchify", 1, &x))
        return NULL;
    if (x->nd != 3 || pt < 1 || ph < 1 || pw < 1 || d[0] < 1 || d[1] < 1 || d[2] < 1 || d[3] < 1 ||
        d[1] % pt || d[2] % ph || d[3] % pw || x->dim[2] / pt / ph / pw != d[0] ||
        x->dim[2] % ((int64_t)pt * ph * pw) || x->dim[1] != d[1] / pt * (d[2] / ph) * (d[3] / pw))
        return vt_fail(g, VC_EINVAL, "unpatchify: tokens do not make [%lld,%lld,%lld,%lld] of "
                       "patches %dx%dx%d", (long long)d[0], (long long)d[1], (long long)d[2],
                       (long long)d[3], pt, ph, pw);
    x = vt_pack(g, x);
    if (!x)
        return NULL;
    vt_tensor *y = vt_new(g, vt_result(g, x), 5, (int64_t[]){ x->dim[0], d[0], d[1], d[2], d[3] });
    if (!y)
        return NULL;
    VT_RUN(g, unpatchify, y, x, pt, ph, pw, order);
    return record_patch(g, y, "unpatchify", unpatchify_grad, x, (int64_t[]){ pt, ph, pw, order });
}
