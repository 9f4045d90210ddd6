/* modulation.c - adaptive layer norm; see modulation.h */
#include "common/nn/modulation.h"

vt_tensor *nn_modulation(vt_ctx *g, vt_tensor *e, const vt_lin *l, int64_t n)
{
    if (!e) return NULL;
    vt_tensor *y = e->dtype == VC_F32 ? vt_linear_f32(g, e, l) : vt_linear(g, e, l);
    if (!y) return NULL;
    const int64_t dim[3] = { y->dim[0], n, y->dim[1] / n };
    return vt_reshape(g, y, 3, dim);
}

vt_tensor *nn_modulate(vt_ctx *g, vt_tensor *x, const nn_norm *n, const nn_groups *m, float eps)
{
    return vt_layer_norm_modulate_two(g, x, n->w, n->b, m->split, m->shift, m->scale, eps);
}

vt_tensor *nn_gate(vt_ctx *g, vt_tensor *x, vt_tensor *y, const nn_groups *m)
{
    return vt_gated_add_two(g, x, y, m->split, m->gate);
}
