/* embeddings.h - how pictures and numbers become what a transformer's blocks take. */
#ifndef COMMON_NN_EMBEDDINGS_H
#define COMMON_NN_EMBEDDINGS_H

#include "common/tensor/ops.h"

/* x [B,C,f,h,w] -> [B,f*h*w/(pt*ph*pw),C*pt*ph*pw] in the compute type, (c,pt,ph,pw) in a token. */
vt_tensor *nn_patches(vt_ctx *g, vt_tensor *x, const int patch[3]);
/* A linear layer of them, whose weights may be stored as those of a convolution that steps as wide
 * as its kernel, [D,C,pt,ph,pw] or [D,C,ph,pw]; LoRA's then are convolutions too. -> [B,N,D] */
vt_tensor *nn_embed_patches(vt_ctx *g, vt_tensor *patches, const vt_lin *l);

/* A vector of each sample, x [B,P], as the pooled embedding of a text is: linear, SiLU, linear:
 * [B,E]. type: VC_F32, or the compute type. These few numbers move every token alike: in bf16 their
 * roundings would be half of a gradient's error. */
vt_tensor *nn_embed_vector(vt_ctx *g, vt_tensor *x, const vt_lin *l1, const vt_lin *l2,
                           vc_dtype type);
/* The same of the sinusoid of t [B], as wide as the first layer takes it, with periods up to
 * 10000. */
vt_tensor *nn_embed_number(vt_ctx *g, vt_tensor *t, const vt_lin *l1, const vt_lin *l2,
                           vc_dtype type);

/* x [B,rows*columns,D] plus the positions of its tokens, which are cut from the middle of a stored
 * table of side * side of them, [1,side*side,D] (Esser et al. 2024, 5.3.2). rows and columns are at
 * most side. */
vt_tensor *nn_add_cropped(vt_ctx *g, vt_tensor *x, vt_tensor *table, int64_t side, int64_t rows,
                          int64_t columns);

#endif
