/* sandwich.h - the block of one sequence that Z-Image and Ideogram 4 have: its attention and its
 * feed-forward (SwiGLU, Shazeer 2020) each have an RMS norm before them and one behind, and are
 * scaled and gated, never shifted. */
#ifndef COMMON_NN_SANDWICH_H
#define COMMON_NN_SANDWICH_H

#include "common/nn/attention.h"

typedef struct nn_sandwich {
    vt_tensor *before[2], *behind[2];         /* [D]: of the attention and of the feed-forward */
    nn_attention attn;
    vt_lin mod;                               /* [4D,E]: scale and gate of the attention, then of
                                               * the feed-forward; w NULL: it is not modulated */
    vt_lin gate, up, down;
} nn_sandwich;

#define NN_SANDWICH_NORM(field, name, n) \
    { name, VT_W_TENSOR, offsetof(nn_sandwich, field), { n }, VT_INIT_ONE }
#define NN_SANDWICH_LINEAR(field, name, out, in) \
    { name, VT_W_LINEAR_NO_BIAS, offsetof(nn_sandwich, field), { out, in }, VT_INIT_XAVIER }
/* Rows of all its weights but mod, for tables of weights.h: sizes of a token, a head, a row of the
 * feed-forward. */
#define NN_SANDWICH_ROWS(d, head, hidden) \
    NN_SANDWICH_NORM(before[0], "attention_norm1.weight", d), \
    NN_SANDWICH_LINEAR(attn.q, "attention.to_q", d, d), \
    NN_SANDWICH_LINEAR(attn.k, "attention.to_k", d, d), \
    NN_SANDWICH_LINEAR(attn.v, "attention.to_v", d, d), \
    NN_SANDWICH_LINEAR(attn.out, "attention.to_out.0", d, d), \
    NN_SANDWICH_NORM(attn.norm_q.w, "attention.norm_q.weight", head), \
    NN_SANDWICH_NORM(attn.norm_k.w, "attention.norm_k.weight", head), \
    NN_SANDWICH_NORM(behind[0], "attention_norm2.weight", d), \
    NN_SANDWICH_NORM(before[1], "ffn_norm1.weight", d), \
    NN_SANDWICH_LINEAR(gate, "feed_forward.w1", hidden, d), \
    NN_SANDWICH_LINEAR(up, "feed_forward.w3", hidden, d), \
    NN_SANDWICH_LINEAR(down, "feed_forward.w2", d, hidden), \
    NN_SANDWICH_NORM(behind[1], "ffn_norm2.weight", d)
#define NN_SANDWICH_MOD(name, four_d, e) \
    { name, VT_W_LINEAR, offsetof(nn_sandwich, mod), { four_d, e }, VT_INIT_XAVIER }

/* The attention of a block: nn_self_attention or nn_halves_attention. */
typedef vt_tensor *nn_attention_fn(vt_ctx *g, vt_tensor *x, const nn_attention *w,
                                   const nn_heads *h, vt_tensor *kv_len);
/* Returns the block's result for x [B,N,D]; e [B,E] is the time's embedding, which a block without
 * mod does not read. */
vt_tensor *nn_sandwich_block(vt_ctx *g, vt_tensor *x, const nn_sandwich *w, vt_tensor *e,
                             nn_attention_fn *attention, const nn_heads *heads, vt_tensor *kv_len,
                             float eps);
/* The head of such a model: a layer norm of x [B,N,D], scaled by the linear layer `mod` of e, then
 * the linear layer `out`. */
vt_tensor *nn_sandwich_head(vt_ctx *g, vt_tensor *x, vt_tensor *e, const vt_lin *mod,
                            const vt_lin *out, float eps);

#endif
