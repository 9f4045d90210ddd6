/* fold.c - see fold.h */
#include "common/nn/fold.h"

vt_tensor *nn_fold(vt_ctx *g, vt_tensor *x, const int by[3])
{
    if (!x)
        return NULL;
    int64_t h = x->dim[2] / by[1], w = x->dim[3] / by[2];
    x = vt_reshape(g, x, 6, (int64_t[]){ by[0], h, by[1], w, by[2], x->dim[4] });
    x = vt_permute(g, x, (int[]){ 1, 3, 5, 0, 2, 4 });
    return vt_reshape(g, x, 5, (int64_t[]){ 1, 1, h, w, -1 });
}

vt_tensor *nn_unfold(vt_ctx *g, vt_tensor *x, const int by[3])
{
    if (!x)
        return NULL;
    int64_t h = x->dim[2], w = x->dim[3], c = x->dim[4] / (by[0] * by[1] * by[2]);
    x = vt_reshape(g, x, 6, (int64_t[]){ h, w, c, by[0], by[1], by[2] });
    x = vt_permute(g, x, (int[]){ 3, 0, 4, 1, 5, 2 });
    return vt_reshape(g, x, 5, (int64_t[]){ 1, by[0], h * by[1], w * by[2], c });
}

vt_tensor *nn_group_means(vt_ctx *g, vt_tensor *x, int64_t c)
{
    if (!x)
        return NULL;
    const int64_t n = x->dim[4] / c, dim[] = { 1, 1, x->dim[2], x->dim[3], c };
    vt_tensor *sum = NULL;

    x = vt_reshape(g, vt_cast(g, x, VC_F32), 5, (int64_t[]){ 1, dim[2], dim[3], c, n });
    for (int64_t i = 0; i < n; i++) {
        vt_tensor *part = vt_reshape(g, vt_slice(g, x, 4, i, i + 1), 5, dim);
        sum = i ? vt_add(g, sum, part) : part;
    }
    return vt_scale(g, sum, 1.0f / (float)n);
}

vt_tensor *nn_squares(vt_ctx *g, vt_tensor *x, int64_t p)
{
    if (!x)
        return NULL;
    int64_t t = x->dim[1], h = x->dim[2] / p, w = x->dim[3] / p;
    x = vt_reshape(g, x, 6, (int64_t[]){ t, h, p, w, p, 3 });
    x = vt_permute(g, x, (int[]){ 0, 1, 3, 5, 4, 2 });
    return vt_reshape(g, x, 5, (int64_t[]){ 1, t, h, w, 3 * p * p });
}

vt_tensor *nn_unsquares(vt_ctx *g, vt_tensor *x, int64_t p)
{
    if (!x)
        return NULL;
    int64_t t = x->dim[1], h = x->dim[2], w = x->dim[3];
    x = vt_reshape(g, x, 6, (int64_t[]){ t, h, w, 3, p, p });
    x = vt_permute(g, x, (int[]){ 0, 1, 5, 2, 4, 3 });
    return vt_reshape(g, x, 5, (int64_t[]){ 1, t, h * p, w * p, 3 });
}
