/* hunyuan_refiner.h - what HunyuanVideo and HunyuanVideo 1.5 have in front of their blocks: the
 * blocks that refine the prompt's states, in diffusers' names, the video's rotations, and the mask
 * of a known first frame, which both join with latents. */
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
/* Rows of a model's weights with a field `refiner` of this type, and of `text`, which embeds the
 * prompt's states: ROW is the model's macro (field, name, out, in), with its sizes D, TIME, TEXT. */
#define HUNYUAN_REFINER_ROWS(ROW)                                                                  \
    ROW(refiner.time1, "context_embedder.time_text_embed.timestep_embedder.linear_1", D, TIME),    \
    ROW(refiner.time2, "context_embedder.time_text_embed.timestep_embedder.linear_2", D, D),       \
    ROW(refiner.text1, "context_embedder.time_text_embed.text_embedder.linear_1", D, TEXT),        \
    ROW(refiner.text2, "context_embedder.time_text_embed.text_embedder.linear_2", D, D),           \
    ROW(text, "context_embedder.proj_in", D, TEXT)
/* The embedding [B,D], after its SiLU, of the times t [B] and of the states text [B,n,TEXT]; keys
 * i32 [B] are the rows' numbers of tokens, or NULL. */
vt_tensor *hunyuan_refiner_embed(vt_ctx *g, const hunyuan_refiner_time *w, vt_tensor *t,
                                 vt_tensor *text, vt_tensor *keys);
/* Runs a block of `heads` heads on the tokens x [B,n,D]. */
vt_tensor *hunyuan_refine(vt_ctx *g, vt_tensor *x, vt_tensor *e, const hunyuan_refiner_weights *w,
                          int64_t heads, vt_tensor *keys);

/* Makes the rotations of the video's tokens, cosines and sines, of latents x [B,C,f,h,w] cut into
 * patches; axis has the numbers of a head that turn with each axis. Returns the number of tokens. */
int64_t hunyuan_rope(vt_ctx *g, const vt_tensor *x, const int64_t patch[3], const int64_t axis[3],
                     double theta, vt_tensor **made);

/* Ones in the first latent frame of x [B,C,f,h,w], zeros in all later ones: [B,1,f,h,w]. */
vt_tensor *hunyuan_first_frame_mask(vt_ctx *g, vt_tensor *x);

#endif
