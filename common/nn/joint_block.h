/* joint_block.h - the block of an MM-DiT (Esser et al. 2024, figure 2b). Text and picture, or text
 * and video, are two streams with weights of their own. Each stream is modulated by numbers that
 * come from the time, both meet in one attention, and each passes through a feed-forward of its
 * own. All blocks of SD3 and Qwen-Image are such blocks, and the first ones of FLUX.1 and
 * HunyuanVideo. */
#ifndef COMMON_NN_JOINT_BLOCK_H
#define COMMON_NN_JOINT_BLOCK_H

#include "common/nn/attention.h"

/* One stream's weights. A stream that the block reads and does not change, as SD3's last block does
 * with the text, has neither attn.out nor up and down, and its mod is [2D,E]: scale, shift. A
 * stream with a second attention, to its own tokens alone (SD3.5 medium), adds both attentions'
 * results; both read the tokens as they were before the block. */
typedef struct nn_stream_weights {
    vt_lin mod;                               /* [6D,E]: shift, scale, gate of the attention, then
                                               * of the feed-forward; [9D,E] with those of `own`
                                               * behind them */
    nn_attention attn;
    nn_attention own;                         /* the second attention; q.w NULL: there is none */
    vt_lin up, down;
} nn_stream_weights;

/* x[i] [B,N_i,D] are the tokens of stream i, and t[i] holds the embeddings that modulate them.
 * out[i] becomes the stream's new tokens, and is left alone where the block does not change
 * them. kv_len as in nn_joint_attention. */
void nn_joint_block(vt_ctx *g, vt_tensor *const x[2], const nn_times t[2],
                    const nn_stream_weights w[2], const nn_heads heads[2], vt_tensor *kv_len,
                    vt_tensor *out[2]);

#endif
