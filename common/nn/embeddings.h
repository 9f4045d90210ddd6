/* embeddings.h - how pictures and numbers become what a transformer's blocks take. */
#ifndef COMMON_NN_EMBEDDINGS_H
#define COMMON_NN_EMBEDDINGS_H

#include "common/tensor/ops.h"

/* x [B,C,f,h,w] -> [B,f*h*w/(pt*ph*pw),C*pt*ph*pw] in the compute type, (c,pt,ph,pw) in a token. */
vt_tensor *nn_patches(vt_ctx *g, vt_tensor *x, const int patch[3]);
/* A linear layer of them, whose weights may be stored as those of a convolution that steps as wide
 * as its kernel, [D,C,pt,ph,pw] or [D,C,ph,pw]; LoRA's then are convolutions too. -> [B,N,D] */
vt_tensor *nn_embed_patches(vt_ctx *g, vt_tensor *patches, const vt_lin *l);

/* The sinusoid of t [B], as wide as the first layer takes it, with periods up to 10000, then
 * linear, SiLU, linear: [B,E]. type: VC_F32, or the compute type. These few numbers move every
 * token alike: in bf16 their roundings would be half of a gradient's error. */
vt_tensor *nn_embed_number(vt_ctx *g, vt_tensor *t, const vt_lin *l1, const vt_lin *l2,
                           vc_dtype type);

#endif
