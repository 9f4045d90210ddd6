/* modulation.c - adaptive layer norm; see modulation.h */
#include "common/nn/modulation.h"

#include <string.h>

vt_tensor *nn_modulation(vt_ctx *g, vt_tensor *e, const vt_lin *l, int64_t n)
{
    if (!e || !l->w)
        return e;
    vt_tensor *y = e->dtype == VC_F32 ? vt_linear_f32(g, e, l) : vt_linear(g, e, l);
    if (!y)
        return NULL;
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

/* Whether all of x's tokens are of one group, which is *k. */
static bool one_group(const vt_tensor *x, const nn_groups *m, int *k)
{
    *k = m->split > 0 ? 0 : 1;
    return x && (m->split <= 0 || m->split >= x->dim[1]);
}

vt_tensor *nn_modulate(vt_ctx *g, vt_tensor *x, const nn_norm *n, const nn_groups *m, float eps)
{
    int k;
    if (one_group(x, m, &k))
        return vt_layer_norm_modulate(g, x, n->w, n->b, m->shift[k], m->scale[k], eps);
    return vt_layer_norm_modulate_two(g, x, n->w, n->b, m->split, m->shift, m->scale, eps);
}

vt_tensor *nn_gate(vt_ctx *g, vt_tensor *x, vt_tensor *y, const nn_groups *m)
{
    int k;
    if (one_group(x, m, &k))
        return vt_gated_add(g, x, y, m->gate[k]);
    return vt_gated_add_two(g, x, y, m->split, m->gate);
}

void nn_time_parts(vt_ctx *g, const nn_times *t, const vt_lin *l, int n, vt_tensor *part[2][NN_MOD])
{
    for (int i = 0; i < n; i++)
        part[0][i] = NULL;
    if (t->clean)
        nn_chunk(g, nn_modulation(g, t->clean, l, n), n, part[0]);
    nn_chunk(g, nn_modulation(g, t->e, l, n), n, part[1]);
}

nn_groups nn_part_groups(const nn_times *t, vt_tensor *const part[2][NN_MOD], int first)
{
    vt_tensor *const *a = part[0] + first, *const *b = part[1] + first;
    return (nn_groups){ t->split, { a[0], b[0] }, { a[1], b[1] }, { a[2], b[2] } };
}
