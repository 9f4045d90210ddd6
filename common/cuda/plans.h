/* plans.h - the graphs of attention and convolution, each of which cuDNN recognises and runs as one
 * kernel; inside common/cuda and its tests. test_plans checks without a GPU that cuDNN still
 * recognises them after an edit. */
#ifndef COMMON_CUDA_PLANS_H
#define COMMON_CUDA_PLANS_H

#include "common/cuda/graph.h"

/* The ids of tensors; those from CUDA_NUMBERS on are numbers of the host. */
enum { CUDA_Q = 1, CUDA_K, CUDA_V, CUDA_O, CUDA_LSE, CUDA_BIAS_IN, CUDA_LEN_Q, CUDA_LEN_K,
       CUDA_DOUT, CUDA_GRAD_Q, CUDA_GRAD_K, CUDA_GRAD_V, CUDA_ROW_SUMS, CUDA_SUM_Q,
       CUDA_X, CUDA_W, CUDA_Y, CUDA_B, CUDA_NUMBERS,
       CUDA_SCALE = CUDA_NUMBERS, CUDA_LOWEST, CUDA_ONE };

typedef struct cuda_rows_at { int64_t b, s, h; } cuda_rows_at;  /* strides of [B,S,H,D], elements */

/* Attention of bf16 tensors whose rows are 16-byte aligned. The struct is a plan's key, compared as
 * bytes, so it has no padding. */
typedef struct cuda_attention_key {
    int64_t b, h, sq, sk, d;
    cuda_rows_at q, k, v, o, dout, dq, dk, dv; /* the last four: of the gradient */
    int64_t lse_b, lse_h;                      /* strides of [B,H,Sq] */
    int64_t bias_b, bias_h, bias_q;            /* strides of [B,H,Sq,Sk], 0 repeats; f32 */
    int64_t bias, lengths, grad, repeatable;   /* flags */
} cuda_attention_key;
/* Plans o and lse, or with `grad` dq, dk, dv. lse and row sums [B,H,Sq] and sum_q [B,H,Sq,D] are
 * f32. len_q is the number of queries, always Sq. repeatable: dS is stored in the workspace, 2 b h
 * sq sk bytes, and sum_q is not needed. */
int cuda_plan_attention(cuda_graph *g, const cuda_attention_key *s, vc_err *err);

/* Channels-last convolution: x [n,t,h,w,c], w [k,kt,kh,kw,c], y [n,t',h',w',k], b [k], all bf16 or
 * all f32. */
typedef struct cuda_conv_key {
    int64_t n, c, k, size[3], kernel[3], stride[3], before[3], after[3];
    int64_t bias, f32;                         /* flags */
} cuda_conv_key;
int cuda_plan_conv(cuda_graph *g, const cuda_conv_key *s, vc_err *err);

#endif
