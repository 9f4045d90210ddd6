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
 * type. A layer without weights returns e, which holds the n results then, [B,n,D]. */
vt_tensor *nn_modulation(vt_ctx *g, vt_tensor *e, const vt_lin *l, int64_t n);
/* The n parts of m, each [B,1,D], or [B,N,D] of numbers for each token. */
void nn_chunk(vt_ctx *g, vt_tensor *m, int n, vt_tensor **part);

/* Tokens below split take the first of each pair, the others the second. Where split is 0, or as
 * large as the number of tokens, one of each pair is not read and may be NULL. Each is [B,1,D], or
 * has a row for each token of its group. */
typedef struct nn_groups {
    int64_t split;
    vt_tensor *shift[2], *scale[2], *gate[2];
} nn_groups;

/* Normalises, scales and shifts x [B,N,D]. */
vt_tensor *nn_modulate(vt_ctx *g, vt_tensor *x, const nn_norm *n, const nn_groups *m, float eps);
/* Returns x + gate * y. */
vt_tensor *nn_gate(vt_ctx *g, vt_tensor *x, vt_tensor *y, const nn_groups *m);

/* The embeddings, after their SiLU, that modulate the tokens of a sequence: e [B,E] of a row's
 * time, or [B,N,E]. Where the first `split` tokens, a clean first frame, have another time,
 * clean [B,E] is its embedding; else clean is NULL and split 0. */
typedef struct nn_times {
    vt_tensor *e, *clean;
    int64_t split;
} nn_times;
enum { NN_MOD = 9 };
/* A linear layer makes n <= NN_MOD numbers: part[0] for the clean tokens, part[1] for the
 * others. */
void nn_time_parts(vt_ctx *g, const nn_times *t, const vt_lin *l, int n,
                   vt_tensor *part[2][NN_MOD]);
/* The groups whose shift, scale and gate are the parts from `first` on. */
nn_groups nn_part_groups(const nn_times *t, vt_tensor *const part[2][NN_MOD], int first);

#endif
