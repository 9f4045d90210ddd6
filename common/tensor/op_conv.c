/* op_conv.c - convolution: see ops.h */
#include "common/tensor/engine.h"

vt_tensor *vt_conv3d(vt_ctx *g, vt_tensor *x, vt_tensor *w, vt_tensor *b, const vt_conv *c)
{
    vt_tensor *in[] = { x, w, b };
    int64_t dim[5];

    if (!vt_ok(g, "conv3d", b ? 3 : 2, in))
        return NULL;
    if (x->nd != 5 || w->nd != 5 || w->dim[1] != x->dim[4] ||
        (b && (b->nd != 1 || b->dim[0] != w->dim[0])) || !vt_packed(w) || (b && !vt_packed(b)))
        return vt_bad(g, "conv3d", "x must be [N,T,H,W,C], w [K,C,kt,kh,kw], b [K]", 3, in);
    dim[0] = x->dim[0];
    dim[4] = w->dim[0];
    for (int i = 0; i < 3; i++) {
        int64_t room = x->dim[1 + i] + c->before[i] + c->after[i] - w->dim[2 + i];
        if (c->stride[i] < 1 || c->before[i] < 0 || c->after[i] < 0 || room < 0)
            return vt_bad(g, "conv3d", "the kernel does not fit into the padded input", 2, in);
        dim[1 + i] = room / c->stride[i] + 1;
    }
    if (x->needs_grad || w->needs_grad || (b && b->needs_grad))
        return vt_bad(g, "conv3d", "it has no gradient", 2, in);
    x = vt_pack(g, x);
    vt_tensor *y = x ? vt_new(g, vt_result(g, x), 5, dim) : NULL;
    if (!y)
        return NULL;
    g->usage.flops += 2.0 * (double)vt_count(y) * (double)(vt_count(w) / w->dim[0]);
    VT_RUN(g, conv3d, y, x, w, b, c);
    return y;
}
