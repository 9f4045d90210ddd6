/* hunyuan_refiner.h - the blocks that refine the prompt's states in HunyuanVideo and HunyuanVideo
 * 1.5, in diffusers' names, and the mask of a known first frame, which both join with latents. */
#ifndef TRAIN_MODELS_HUNYUAN_REFINER_H
#define TRAIN_MODELS_HUNYUAN_REFINER_H

#include "common/nn/flux_blocks.h"

#define HUNYUAN_REFINER "context_embedder.token_refiner.refiner_blocks.%d."

typedef struct hunyuan_refiner_weights {
    nn_norm norm1, norm2;
    nn_attention attn;
    vt_lin gates, up, down;                   /* gates [2D,D] */
} hunyuan_refiner_weights;
extern const vt_weight hunyuan_refiner_table[];     /* its sizes are those of flux_blocks.h */

/* The layers that make the embedding e of the time and of the prompt's mean state. */
typedef struct hunyuan_refiner_time {
    vt_lin time1, time2, text1, text2;
} hunyuan_refiner_time;
/* The embedding [B,D], after its SiLU, of the times t [B] and of the states text [B,n,TEXT]; keys
 * i32 [B] are the rows' numbers of tokens, or NULL. */
vt_tensor *hunyuan_refiner_embed(vt_ctx *g, const hunyuan_refiner_time *w, vt_tensor *t,
                                 vt_tensor *text, vt_tensor *keys);
/* Runs a block of `heads` heads on the tokens x [B,n,D]. */
vt_tensor *hunyuan_refine(vt_ctx *g, vt_tensor *x, vt_tensor *e, const hunyuan_refiner_weights *w,
                          int64_t heads, vt_tensor *keys);

/* Ones in the first latent frame of x [B,C,f,h,w], zeros in all later ones: [B,1,f,h,w]. */
vt_tensor *hunyuan_first_frame_mask(vt_ctx *g, vt_tensor *x);

#endif
