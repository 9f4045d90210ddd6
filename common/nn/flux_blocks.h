/* flux_blocks.h - the weights of the two kinds of blocks that FLUX.1 and HunyuanVideo have, in
 * diffusers' names. In dual blocks picture and prompt are two streams (joint_block.h). In single
 * blocks they are one sequence, and attention and feed-forward read the same tokens, so that one
 * linear layer makes the block's result of both. */
#ifndef COMMON_NN_FLUX_BLOCKS_H
#define COMMON_NN_FLUX_BLOCKS_H

#include "common/nn/joint_block.h"
#include "common/tensor/weights.h"

/* Indices into the sizes of the weight tables; a family's own sizes begin at NN_FLUX_SIZES. */
enum { NN_FLUX_D = -1, NN_FLUX_HEAD = -2, NN_FLUX_HIDDEN = -3, NN_FLUX_2D = -4, NN_FLUX_3D = -5,
       NN_FLUX_6D = -6, NN_FLUX_JOINED = -7, NN_FLUX_SIZES = -8 };
/* Sets these sizes, sizes[k] for index -k, for heads * head channels. */
void nn_flux_sizes(int64_t *sizes, int64_t heads, int64_t head);

typedef struct nn_dual_weights { nn_stream_weights stream[2]; } nn_dual_weights;
                                              /* picture or video, prompt */
typedef struct nn_single_weights {
    vt_lin mod, mlp, out;                     /* mod [3D,D]; out reads [attention | mlp] */
    nn_attention attn;                        /* without its out */
} nn_single_weights;
extern const vt_weight nn_dual_table[], nn_single_table[];

/* Runs a single block on x [B,N,D]. kv_len is vt_attention's. */
vt_tensor *nn_single_block(vt_ctx *g, vt_tensor *x, const nn_times *t, const nn_single_weights *w,
                           const nn_heads *heads, vt_tensor *kv_len);

/* Makes the patches of the prediction of the tokens x [B,N,D]: e is the time's embedding after its
 * SiLU, mod [2D,D] makes scale and shift of it. */
vt_tensor *nn_flux_head(vt_ctx *g, vt_tensor *x, vt_tensor *e, const vt_lin *mod,
                        const vt_lin *out);

#endif
