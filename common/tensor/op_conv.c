/* op_conv.c - ops of autoencoders, on channels-last video; see ops.h */
#include "common/tensor/engine.h"

static bool is_video(const vt_tensor *x) { return x->nd == 5; }

static bool is_vector(const vt_tensor *t, int64_t n)
{
    return t->nd == 1 && t->dim[0] == n && vt_packed(t);
}

/* ---- convolution ---- */

enum { WIDEST = 64 };                          /* largest side of a kernel that can be packed */

static bool is_front(const vt_tensor *f, const vt_tensor *x, int before)
{
    if (f->nd != 5 || f->dtype != x->dtype || (f->dim[1] != before && f->dim[1] != 1))
        return false;
    for (int i = 0; i < 5; i++)
        if (i != 1 && f->dim[i] != x->dim[i])
            return false;
    return before > 0;
}

vt_tensor *vt_conv3d(vt_ctx *g, vt_tensor *x, vt_tensor *w, vt_tensor *b, const vt_conv *c)
{
    vt_tensor *in[] = { x, w, b, c->front };
    vt_conv v = *c;
    int64_t dim[5];

    if (!vt_ok(g, "conv3d", b ? 3 : 2, in) || (c->front && !vt_ok(g, "conv3d", 1, &in[3])))
        return NULL;
    if (!is_video(x) || w->nd != 5 || w->dim[1] != x->dim[4] ||
        (b && !is_vector(b, w->dim[0])) || !vt_packed(w))
        return vt_bad(g, "conv3d", "x must be [N,T,H,W,C], w [K,C,kt,kh,kw], b [K]", 3, in);
    if (c->front && !is_front(c->front, x, c->before[0]))
        return vt_bad(g, "conv3d", "front must be frames like x's, as many as stand before it, or "
                      "one", 4, in);
    dim[0] = x->dim[0];
    dim[4] = w->dim[0];
    for (int i = 0; i < 3; i++) {
        if (w->dim[2 + i] > WIDEST)
            return vt_bad(g, "conv3d", "kernels are at most 64 wide", 2, in);
        int64_t room = x->dim[1 + i] + c->before[i] + c->after[i] - w->dim[2 + i];
        if (c->stride[i] < 1 || c->before[i] < 0 || c->after[i] < 0 || room < 0)
            return vt_bad(g, "conv3d", "the kernel does not fit into the padded input", 2, in);
        dim[1 + i] = room / c->stride[i] + 1;
    }
    if (x->needs_grad || w->needs_grad || (b && b->needs_grad) ||
        (c->front && c->front->needs_grad))
        return vt_bad(g, "conv3d", "it has no gradient", 2, in);
    for (int i = 0; i < 3; i++)                /* only axes with padding that front does not give */
        v.edge[i] = c->edge[i] && (c->after[i] || (c->before[i] && (i || !c->front)));
    x = vt_pack(g, x);
    v.front = c->front ? vt_pack(g, c->front) : NULL;
    vt_tensor *y = x && !v.front == !c->front ? vt_new(g, vt_result(g, x), 5, dim) : NULL;
    if (!y)
        return NULL;
    g->usage.flops += 2.0 * (double)vt_count(y) * (double)(vt_count(w) / w->dim[0]);
    VT_RUN_HEAVY(g, conv3d, y, x, w, b, &v);
    return y;
}

/* ---- group norm ---- */

static const char *wrong_group(const vt_tensor *x, const vt_tensor *w, const vt_tensor *b,
                               const vt_group *n)
{
    const vt_tensor *s = n->scale, *h = n->shift;

    if (!is_video(x) || n->groups < 1 || x->dim[4] % n->groups)
        return "x must be [N,T,H,W,C] with C a multiple of the groups";
    if (!is_vector(w, x->dim[4]) || !is_vector(b, x->dim[4]))
        return "w and b must have the size of x's last axis";
    if (!s != !h)
        return "scale and shift go together";
    if (s && (!is_video(s) || !vt_same_shape(s, h) || s->dtype != h->dtype ||
              s->dim[0] != x->dim[0] || s->dim[4] != x->dim[4]))
        return "scale and shift must be equal, [N,t,h,w,C]";
    if (n->first && (!s || s->dim[1] < 2 || x->dim[1] < 2))
        return "a first frame of its own needs others behind it";
    return NULL;
}

vt_tensor *vt_group_norm(vt_ctx *g, vt_tensor *x, vt_tensor *w, vt_tensor *b, const vt_group *n)
{
    vt_tensor *in[5] = { x, w, b };
    int k = 3;
    vt_group v = *n;

    if (n->scale)
        in[k++] = n->scale;
    if (n->shift)
        in[k++] = n->shift;
    if (!vt_ok(g, "group_norm", k, in))
        return NULL;
    const char *why = wrong_group(x, w, b, n);
    for (int i = 0; i < k && !why; i++)
        if (in[i]->needs_grad)
            why = "it has no gradient";
    if (why)
        return vt_bad(g, "group_norm", why, k, in);
    x = vt_pack(g, x);
    if (n->scale) {
        v.scale = vt_pack(g, n->scale);
        v.shift = vt_pack(g, n->shift);
    }
    vt_tensor *y = x ? vt_new(g, vt_result(g, x), 5, x->dim) : NULL;
    VT_RUN_HEAVY(g, group_norm, y, x, w, b, &v);
    return g->err.code ? NULL : y;
}

/* ---- sizes ---- */

/* Packs *x and returns a new result of its type and the given size; NULL after a failure. */
static vt_tensor *resized(vt_ctx *g, vt_tensor **x, int64_t t, int64_t h, int64_t w)
{
    *x = vt_pack(g, *x);
    return *x ? vt_new(g, vt_result(g, *x), 5,
                       (int64_t[]){ (*x)->dim[0], t, h, w, (*x)->dim[4] }) : NULL;
}

vt_tensor *vt_nearest(vt_ctx *g, vt_tensor *x, int64_t t, int64_t h, int64_t w)
{
    if (!vt_ok(g, "nearest", 1, &x))
        return NULL;
    if (!is_video(x) || x->needs_grad)
        return vt_bad(g, "nearest", "x must be [N,T,H,W,C], without a gradient", 1, &x);
    vt_tensor *y = resized(g, &x, t, h, w);
    if (y)
        VT_RUN(g, nearest, y, x);
    return y;
}

vt_tensor *vt_pool_frames(vt_ctx *g, vt_tensor *x)
{
    if (!vt_ok(g, "pool_frames", 1, &x))
        return NULL;
    if (!is_video(x) || x->needs_grad)
        return vt_bad(g, "pool_frames", "x must be [N,T,H,W,C], without a gradient", 1, &x);
    vt_tensor *y = resized(g, &x, (x->dim[1] + 1) / 2, x->dim[2], x->dim[3]);
    if (y)
        VT_RUN(g, pool_frames, y, x);
    return y;
}
