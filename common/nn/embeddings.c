/* embeddings.c - tokens of patches, and the time as numbers; see embeddings.h */
#include "common/nn/embeddings.h"

#define MAX_PERIOD 10000.0f

vt_tensor *nn_patches(vt_ctx *g, vt_tensor *x, const int patch[3])
{
    return vt_cast(g, vt_patchify(g, x, patch[0], patch[1], patch[2], VT_C_FIRST), vt_compute(g));
}

/* [out,in,kernel] -> [out,all the rest] */
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

vt_tensor *nn_embed_number(vt_ctx *g, vt_tensor *t, const vt_lin *l1, const vt_lin *l2,
                           vc_dtype type)
{
    vt_tensor *(*const linear)(vt_ctx *, vt_tensor *, const vt_lin *) =
        type == VC_F32 ? vt_linear_f32 : vt_linear;
    vt_tensor *h = vt_cast(g, vt_timestep(g, t, l1->w->dim[1], MAX_PERIOD), type);
    return linear(g, vt_silu(g, linear(g, h, l1)), l2);
}
