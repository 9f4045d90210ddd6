/* embeddings.c - tokens of patches and their positions; vectors of a sample; see embeddings.h */
#include "common/nn/embeddings.h"

#define MAX_PERIOD 10000.0f

vt_tensor *nn_patches(vt_ctx *g, vt_tensor *x, const int patch[3])
{
    return vt_cast(g, vt_patchify(g, x, patch[0], patch[1], patch[2], VT_C_FIRST), vt_compute(g));
}

/* A convolution's weights [out,in,kernel] become a linear layer's, [out,in*kernel]. */
static vt_tensor *flat(vt_ctx *g, vt_tensor *w)
{
    return w ? vt_reshape(g, w, 2, (int64_t[]){ w->dim[0], -1 }) : NULL;
}

vt_tensor *nn_embed_patches(vt_ctx *g, vt_tensor *patches, const vt_lin *l)
{
    vt_lin linear = *l;
    linear.w = flat(g, l->w);
    linear.lora_b = flat(g, l->lora_b);
    linear.lora_a = flat(g, l->lora_a);
    return linear.w ? vt_linear(g, patches, &linear) : NULL;
}

vt_tensor *nn_embed_vector(vt_ctx *g, vt_tensor *x, const vt_lin *l1, const vt_lin *l2,
                           vc_dtype type)
{
    vt_tensor *(*const linear)(vt_ctx *, vt_tensor *, const vt_lin *) =
        type == VC_F32 ? vt_linear_f32 : vt_linear;
    return linear(g, vt_silu(g, linear(g, vt_cast(g, x, type), l1)), l2);
}

vt_tensor *nn_embed_number(vt_ctx *g, vt_tensor *t, const vt_lin *l1, const vt_lin *l2,
                           vc_dtype type)
{
    vt_tensor *all = t && t->nd == 2 ? vt_reshape(g, t, 1, (int64_t[]){ -1 }) : t;
    vt_tensor *h = nn_embed_vector(g, vt_timestep(g, all, l1->w->dim[1], MAX_PERIOD), l1, l2, type);
    return h && t->nd == 2 ? vt_reshape(g, h, 3, (int64_t[]){ t->dim[0], t->dim[1], -1 }) : h;
}

vt_tensor *nn_add_cropped(vt_ctx *g, vt_tensor *x, vt_tensor *table, int64_t side, int64_t rows,
                          int64_t columns)
{
    if (!x)
        return NULL;
    const int64_t flat[3] = { x->dim[0], x->dim[1], x->dim[2] };
    const int64_t grid[4] = { x->dim[0], rows, columns, x->dim[2] };
    const int64_t square[4] = { 1, side, side, x->dim[2] };
    int64_t top = (side - rows) / 2, left = (side - columns) / 2;
    table = vt_reshape(g, table, 4, square);
    table = vt_slice(g, vt_slice(g, table, 1, top, top + rows), 2, left, left + columns);
    return vt_reshape(g, vt_add(g, vt_reshape(g, x, 4, grid), table), 3, flat);
}

/* The mean is the attention of a query of zeros, to which all keys are alike. Heads are as wide as
 * attention with a gradient takes them. */
vt_tensor *nn_mean_tokens(vt_ctx *g, vt_tensor *x, vt_tensor *length)
{
    if (!x)
        return NULL;
    int64_t d = x->dim[2], head = 256;
    while (d % head)
        head -= 8;
    const int64_t keys[4] = { x->dim[0], x->dim[1], d / head, head };
    const int64_t one[4] = { x->dim[0], 1, d / head, head };
    const int64_t rows[2] = { x->dim[0], d };
    vt_tensor *k = vt_reshape(g, x, 4, keys);
    vt_tensor *q = vt_reshape(g, vt_scale(g, vt_slice(g, x, 1, 0, 1), 0), 4, one);
    return vt_reshape(g, vt_attention(g, q, k, k, &(vt_attn){ .kv_len = length }), 2, rows);
}
