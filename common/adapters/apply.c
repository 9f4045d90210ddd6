/* apply.c - linear layers with adapters that are no pair of factors alone; see adapter.h. All
 * are made of other ops, so that gradients, memory and ranks are theirs. */
#include <float.h>
#include <math.h>

#include "common/adapters/adapter.h"
#include "common/tensor/engine.h"

/* A layer in f32 or in the compute type, with a LoRA pair, and without the adapter's function. */
static vt_tensor *plain(vt_ctx *g, vt_tensor *x, const vt_lin *l, vc_dtype type)
{
    vt_lin base = *l;
    base.apply = NULL;
    return type == VC_F32 ? vt_linear_f32(g, x, &base) : vt_linear(g, x, &base);
}

static vt_tensor *times(vt_ctx *g, vt_tensor *x, vt_tensor *w, vc_dtype type)
{
    return w ? plain(g, x, &(vt_lin){ .w = w }, type) : NULL;
}

/* a [m,r] b [r,n] -> [m,n] in f32 */
static vt_tensor *product(vt_ctx *g, vt_tensor *a, vt_tensor *b)
{
    return times(g, a, vt_pack(g, vt_permute(g, b, (int[]){ 1, 0 })), VC_F32);
}

/* ---- DoRA ---- */

/* 1 / |W + s B A| of each row, [out], through which no gradient passes. A row of zeros has the
 * length 1e-12, as nothing is divided by 0. */
static vt_tensor *inverse_lengths(vt_ctx *g, const vt_lin *l)
{
    const int64_t out = l->w->dim[0], in = l->w->dim[1], dim[2] = { out, in };
    vt_tensor *inverse = vt_new(g, VC_F32, 1, &out);

    if (!inverse)
        return NULL;
    vt_scope s = vt_scope_begin(g);
    vt_tensor *sum = vt_new(g, VC_F32, 2, dim), *rows = vt_new(g, VC_F32, 2, dim);
    vt_tensor *stats = vt_new(g, VC_F32, 2, (int64_t[]){ out, 2 });
    if (sum && rows && stats) {
        VT_RUN(g, copy, sum, l->w);
        g->usage.flops += 2.0 * (double)out * (double)in * (double)l->lora_a->dim[0];
        VT_RUN_HEAVY(g, matmul, sum, l->lora_b, false, l->lora_a, false, NULL, l->lora_scale,
                     1.0f);
        VT_RUN(g, norm, rows, stats, sum, NULL, NULL, NULL, NULL, 1e-24f / (float)in, true);
        vt_tensor column = *stats;
        column.nd = 1;
        column.dim[0] = out;
        column.stride[0] = 2;
        column.data = (float *)stats->data + 1;
        VT_RUN(g, scale, inverse, &column, (float)(1 / sqrt((double)in)));
        vt_wrote(inverse);
    }
    const bool done = stats;
    vt_scope_end(g, s, 0, NULL);
    return done ? inverse : NULL;
}

vt_tensor *vt_apply_dora(vt_ctx *g, vt_tensor *x, const vt_lin *l, vc_dtype type)
{
    vt_lin pair = *l;
    pair.b = NULL;
    if (l->w->nd != 2)
        return vt_bad(g, "dora", "the weight must be [out,in]", 2,
                      (vt_tensor *[]){ x, l->w });
    vt_tensor *by = vt_mul(g, l->factor[2], inverse_lengths(g, l));
    vt_tensor *y = vt_mul(g, plain(g, x, &pair, type), by);
    return l->b ? vt_add(g, y, l->b) : y;
}

/* ---- LoHa and LoKr ---- */

/* Adds x (V - W)' to y, the layer without its adapter, where the rows of V are those of the sum
 * W + change, but have the layer's lengths. A row of zeros is divided by FLT_EPSILON, as LyCORIS
 * does; what is added, and not the whole of V, is rounded for the product. */
static vt_tensor *add_decomposed(vt_ctx *g, vt_tensor *y, vt_tensor *x, vt_tensor *change,
                                 const vt_lin *l, vc_dtype type)
{
    vt_tensor *w = vt_new(g, VC_F32, 2, l->w->dim);

    if (!w)
        return NULL;
    VT_RUN(g, copy, w, l->w);
    vt_wrote(w);
    vt_tensor *rows = vt_l2_norm(g, vt_add(g, change, w), NULL, FLT_EPSILON);
    vt_tensor *by = vt_reshape(g, vt_adapter_lengths(l), 2, (int64_t[]){ -1, 1 });
    vt_tensor *more = times(g, x, vt_sub(g, vt_mul(g, rows, by), w), type);
    return vt_add(g, y, vt_drop_change(g, more, l));
}

vt_tensor *vt_apply_loha(vt_ctx *g, vt_tensor *x, const vt_lin *l, vc_dtype type)
{
    vt_tensor *const *f = l->factor;
    vt_tensor *y = plain(g, x, l, type);
    vt_tensor *first = product(g, vt_scale(g, f[0], l->lora_scale), f[1]);
    vt_tensor *change = vt_mul(g, first, product(g, f[2], f[3]));
    if (l->adapter->decomposed)
        return add_decomposed(g, y, x, change, l, type);
    return vt_add(g, y, vt_drop_change(g, times(g, vt_drop_input(g, x, l), change, type), l));
}

/* kron(w1, w2) x by parts: with x as [..,M,N], w2 turns each run of N numbers into K, and then w1
 * the M of them into L, which are the outer ones of the result. */
static vt_tensor *by_parts(vt_ctx *g, vt_tensor *x, vt_tensor *w1, vt_tensor *w2, vc_dtype type)
{
    static const int swapped[3] = { 0, 2, 1 };
    int64_t dim[VT_DIMS];

    if (!x || !w1 || !w2)
        return NULL;
    for (int i = 0; i < x->nd; i++)
        dim[i] = x->dim[i];
    const int64_t out = w1->dim[0] * w2->dim[0];
    vt_tensor *y = vt_reshape(g, x, 3, (int64_t[]){ -1, w1->dim[1], w2->dim[1] });
    y = times(g, y, w2, type);
    y = times(g, vt_pack(g, vt_permute(g, y, swapped)), w1, type);
    dim[x->nd - 1] = out;
    return vt_reshape(g, vt_pack(g, vt_permute(g, y, swapped)), x->nd, dim);
}

/* kron(w1, w2) [L K,M N], of w1 [L,M] and w2 [K,N]. */
static vt_tensor *kron(vt_ctx *g, vt_tensor *w1, vt_tensor *w2)
{
    if (!w1 || !w2)
        return NULL;
    const int64_t dim[4] = { w1->dim[0], w1->dim[1], w2->dim[0], w2->dim[1] };
    vt_tensor *all = product(g, vt_reshape(g, w1, 2, (int64_t[]){ -1, 1 }),
                             vt_reshape(g, w2, 2, (int64_t[]){ 1, -1 }));
    all = vt_permute(g, vt_reshape(g, all, 4, dim), (int[]){ 0, 2, 1, 3 });
    return vt_reshape(g, vt_pack(g, all), 2, (int64_t[]){ dim[0] * dim[2], dim[1] * dim[3] });
}

vt_tensor *vt_apply_lokr(vt_ctx *g, vt_tensor *x, const vt_lin *l, vc_dtype type)
{
    vt_tensor *const *f = l->factor;
    vt_tensor *y = plain(g, x, l, type);
    vt_tensor *w1 = f[0] ? f[0] : product(g, f[1], f[2]);
    vt_tensor *w2 = f[3] ? f[3] : product(g, f[4], f[5]);
    w1 = vt_scale(g, w1, l->lora_scale);
    if (l->adapter->decomposed)
        return add_decomposed(g, y, x, kron(g, w1, w2), l, type);
    vt_tensor *change = by_parts(g, vt_drop_input(g, x, l), w1, w2, type);
    return vt_add(g, y, vt_drop_change(g, change, l));
}
