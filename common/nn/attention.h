/* attention.h - attention of a transformer's block (Vaswani et al. 2017, 3.2) with norms of queries
 * and keys (Henry et al. 2020) and rotated positions (Su et al. 2021).
 *
 * A block has an nn_attention among its weights, bound by rows like its linears (weights.h). One
 * sequence that attends to itself is one call. Streams with projections of their own are projected
 * one by one, joined by vt_concat and attended. */
#ifndef COMMON_NN_ATTENTION_H
#define COMMON_NN_ATTENTION_H

#include "common/nn/modulation.h"

typedef struct nn_attention {
    vt_lin q, k, v, out;
    nn_norm norm_q, norm_k;                   /* [HEAD]; with b a layer norm, without an RMS norm */
} nn_attention;

typedef struct nn_heads {
    int64_t n;                                /* heads */
    float eps;                                /* of the norms */
    vt_tensor *cos, *sin;                     /* nn_rope's tables; NULL: no rotation */
    int64_t begin;                            /* the first token that is rotated */
} nn_heads;

/* Queries, keys or values of x [B,N,D]: [B,N,heads,HEAD]. Each head is normalised and rotated;
 * norm NULL: it is neither, as values are. */
vt_tensor *nn_project(vt_ctx *g, vt_tensor *x, const vt_lin *l, const nn_norm *norm,
                      const nn_heads *h);
/* Attention of what was projected, then a linear layer of all heads: [B,N,D]. kv_len as in
 * vt_attention. */
vt_tensor *nn_attend(vt_ctx *g, vt_tensor *q, vt_tensor *k, vt_tensor *v, vt_tensor *kv_len,
                     const vt_lin *out);
/* Both, of one sequence x [B,N,D]. */
vt_tensor *nn_self_attention(vt_ctx *g, vt_tensor *x, const nn_attention *w, const nn_heads *h,
                             vt_tensor *kv_len);

#endif
