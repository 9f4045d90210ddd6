/* embeddings.h - pictures, numbers and vectors become the inputs of a transformer's blocks. */
#ifndef COMMON_NN_EMBEDDINGS_H
#define COMMON_NN_EMBEDDINGS_H

#include "common/tensor/ops.h"

/* Cuts x [B,C,f,h,w] into [B,f*h*w/(pt*ph*pw),C*pt*ph*pw] in the compute type; the numbers of a
 * token are in the order c, pt, ph, pw. */
vt_tensor *nn_patches(vt_ctx *g, vt_tensor *x, const int patch[3]);
/* Puts the patches through a linear layer: [B,N,D]. Its weights may be stored as those of a
 * convolution whose steps are as wide as its kernel, [D,C,pt,ph,pw] or [D,C,ph,pw]; a LoRA's
 * factors are convolutions as well then. */
vt_tensor *nn_embed_patches(vt_ctx *g, vt_tensor *patches, const vt_lin *l);

/* Puts a vector of each sample, x [B,P], such as a text's pooled embedding, through linear, SiLU,
 * linear: [B,E]. type: VC_F32, or the compute type. These few numbers move every token alike: in
 * bf16 their roundings would be half of a gradient's error. */
vt_tensor *nn_embed_vector(vt_ctx *g, vt_tensor *x, const vt_lin *l1, const vt_lin *l2,
                           vc_dtype type);
/* Does the same with the sinusoid of t, which is as wide as the first layer and has periods up to
 * 10000: [B] -> [B,E], [B,N] -> [B,N,E]. */
vt_tensor *nn_embed_number(vt_ctx *g, vt_tensor *t, const vt_lin *l1, const vt_lin *l2,
                           vc_dtype type);

/* Adds positions to the tokens x [B,rows*columns,D]: the middle of a stored table of side * side
 * positions, [1,side*side,D] (Esser et al. 2024, 5.3.2). rows and columns are at most side. */
vt_tensor *nn_add_cropped(vt_ctx *g, vt_tensor *x, vt_tensor *table, int64_t side, int64_t rows,
                          int64_t columns);

/* The mean over the tokens of a text, x [B,n,D] -> [B,D], D a multiple of 8. Of row b the first
 * length[b] tokens count (i32 [B] on the device); length NULL: all of them count. */
vt_tensor *nn_mean_tokens(vt_ctx *g, vt_tensor *x, vt_tensor *length);

#endif
