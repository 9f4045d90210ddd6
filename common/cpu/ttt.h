/* ttt.h - the inner scan of test-time training on the CPU, shared by forward and backward.
 *
 * A unit of work is one pair of sample and head, with a thread's own buffers, in which rows have
 * the pitches dp and ep of tensor/ttt.h. The right operand of every product is read in place, row
 * by row (cpu_gemm.block_as_is), once an operand with other rows was transposed. The columns past d
 * and e hold finite numbers that nothing else depends on. */
#ifndef COMMON_CPU_TTT_H
#define COMMON_CPU_TTT_H

#include "common/cpu/attn.h"
#include "common/tensor/ttt.h"

typedef struct cpu_ttt {
    const cpu_gemm *g;
    const cpu_rows *r;
    const vt_ttt *t;
    vt_ttt_size s;
} cpu_ttt;
cpu_ttt cpu_ttt_of(vt_dev *d, const vt_ttt *t);

/* A thread's buffers: rows of a mini-batch, as wide as a head unless noted. With one layer z1 and
 * g1 are z2 and g2, and the other hidden buffers are NULL. */
typedef struct cpu_ttt_work {
    float *gamma, *beta;                       /* [dp] */
    float *eta, *stats;                        /* [m], [m][2] */
    float *q, *k, *target;
    float *z2, *error, *g2;                    /* f(k); N(f(k)) - target; the loss's slope in z2 */
    float *z1, *x2, *h, *g1;                   /* of [m][ep]: the hidden layer before gelu and after
                                                * it; the loss's slopes in x2 and z1 */
    float *slope, *curve;                      /* gelu's first and second slopes at z1 */
    float *a1, *y2, *a2, *slope_a;             /* as z1, x2, z2 and slope, at q, by new weights */
    float *scaled, *turned;                    /* m + 1 rows of either width; any transpose */
    float *dout, *da1, *da2, *dy2, *dq, *dk, *deta, *dtarget;      /* gradients, for backward */
    float *dg1, *dg2, *dx2, *dz1, *dz2;
} cpu_ttt_work;
/* Lays out the buffers at base, unless it is NULL, and returns their bytes. */
size_t cpu_ttt_place(const vt_ttt_size *s, bool backward, float *base, cpu_ttt_work *w);

/* Reads gamma and beta of a head; cpu_ttt_start reads the state where its sequences start. */
void cpu_ttt_norm(const cpu_ttt *f, const cpu_ttt_work *w, size_t h);
void cpu_ttt_start(const cpu_ttt *f, float *state, size_t h);
/* These read the tokens of a pair's mini-batch: rows of x, or step sizes. */
void cpu_ttt_read(const cpu_ttt *f, float *to, const vt_tensor *x, size_t pair, size_t step);
void cpu_ttt_read_eta(const cpu_ttt *f, float *to, size_t pair, size_t step);

/* Products; `wide` is the pitch of c's rows, dp or ep, and w->turned holds a transpose meanwhile.
 * inner: c (+)= a b, a [m,k] with a pitch, b [k,wide].
 * outer: c += a' b, a [m,rows] with a pitch, b [m,wide].
 * against: c (+)= a b', a [m,k] with a pitch, b [n,k] with a pitch, n at most wide. */
void cpu_ttt_inner(const cpu_ttt *f, size_t wide, size_t k, const float *a, size_t pitch,
                   const float *b, float *c, bool add);
void cpu_ttt_outer(const cpu_ttt *f, const cpu_ttt_work *w, size_t wide, size_t rows,
                   const float *a, size_t pitch, const float *b, float *c);
void cpu_ttt_against(const cpu_ttt *f, const cpu_ttt_work *w, size_t wide, size_t n, size_t k,
                     const float *a, size_t pitch, const float *b, size_t pitch_b, float *c,
                     bool add);

/* y = each of m rows of `wide` numbers, times -eta of its token */
void cpu_ttt_scale(const cpu_ttt *f, const cpu_ttt_work *w, size_t wide, float *y, const float *x);
/* sum += the sum of m rows */
void cpu_ttt_sum(const cpu_ttt *f, size_t wide, float *sum, const float *x);

/* Computes the inner model at m rows x, with the names of the buffers at k; slope and curve may be
 * NULL. */
void cpu_ttt_model(const cpu_ttt *f, const float *state, const float *x, float *z1, float *x2,
                   float *z2, float *slope, float *curve);
/* Computes z1 to g1 from k, target and a state. */
void cpu_ttt_slopes(const cpu_ttt *f, const cpu_ttt_work *w, const float *state);
/* Takes the inner step, after cpu_ttt_slopes. */
void cpu_ttt_learn(const cpu_ttt *f, const cpu_ttt_work *w, float *state);

#endif
