/* modulation.h - adaptive layer norm (Peebles & Xie 2023, 3.2). Tokens are normalised, scaled and
 * shifted before a branch of a block, and the branch's result is gated; scales, shifts and gates
 * come from the time.
 *
 * nn_modulation computes these numbers. Where all tokens share them, a block calls
 * vt_layer_norm_modulate and vt_gated_add (ops.h). An nn_groups is for tokens in two groups: text
 * and video in one sequence, or a clean first frame and the other frames. */
#ifndef COMMON_NN_MODULATION_H
#define COMMON_NN_MODULATION_H

#include "common/tensor/ops.h"

typedef struct nn_norm {
    vt_tensor *w, *b;                         /* [D] or NULL */
} nn_norm;

/* A linear layer of the time's embedding e, whose result is cut into n: [B,E] -> [B,n,D], or
 * [B,N,E] -> [B,N,n,D] where each token has a time of its own; in f32 if e is, else in the compute
 * type. */
vt_tensor *nn_modulation(vt_ctx *g, vt_tensor *e, const vt_lin *l, int64_t n);
/* The n parts of m, each [B,1,D], or [B,N,D] of numbers for each token. */
void nn_chunk(vt_ctx *g, vt_tensor *m, int n, vt_tensor **part);

/* Tokens below split take the first of each pair, the others the second. Each is [B,1,D], or has a
 * row for each token of its group. */
typedef struct nn_groups {
    int64_t split;
    vt_tensor *shift[2], *scale[2], *gate[2];
} nn_groups;

/* Normalises x [B,N,D], then scales and shifts it. */
vt_tensor *nn_modulate(vt_ctx *g, vt_tensor *x, const nn_norm *n, const nn_groups *m, float eps);
/* Returns x + gate * y. */
vt_tensor *nn_gate(vt_ctx *g, vt_tensor *x, vt_tensor *y, const nn_groups *m);

#endif
