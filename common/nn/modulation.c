/* modulation.c - adaptive layer norm; see modulation.h */
#include "common/nn/modulation.h"

#include <string.h>

vt_tensor *nn_modulation(vt_ctx *g, vt_tensor *e, const vt_lin *l, int64_t n)
{
    if (!e) return NULL;
    vt_tensor *y = e->dtype == VC_F32 ? vt_linear_f32(g, e, l) : vt_linear(g, e, l);
    if (!y) return NULL;
    int64_t dim[VT_DIMS], last = y->nd - 1;
    memcpy(dim, y->dim, sizeof dim);
    dim[last] = n;
    dim[last + 1] = vt_last(y) / n;
    return vt_reshape(g, y, y->nd + 1, dim);
}

void nn_chunk(vt_ctx *g, vt_tensor *m, int n, vt_tensor **part)
{
    vt_chunk(g, m, -2, n, part);
    for (int i = 0; i < n && part[i] && m->nd == 4; i++)
        part[i] = vt_reshape(g, part[i], 3, (int64_t[]){ m->dim[0], m->dim[1], m->dim[3] });
}

vt_tensor *nn_modulate(vt_ctx *g, vt_tensor *x, const nn_norm *n, const nn_groups *m, float eps)
{
    return vt_layer_norm_modulate_two(g, x, n->w, n->b, m->split, m->shift, m->scale, eps);
}

vt_tensor *nn_gate(vt_ctx *g, vt_tensor *x, vt_tensor *y, const nn_groups *m)
{
    return vt_gated_add_two(g, x, y, m->split, m->gate);
}
