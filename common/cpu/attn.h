/* attn.h - addressing of heads, shared by attention's forward and backward. */
#ifndef COMMON_CPU_ATTN_H
#define COMMON_CPU_ATTN_H

#include <math.h>

#include "common/cpu/cpu.h"

enum { CPU_ATTN_PAD = 16 };                    /* units, so that rows are no power of two apart */

#define CPU_LOG2E 1.44269504088896f
#define CPU_LN2 0.69314718055994f

/* Returns the address of token s of head h of sample b; x [B,S,H,D] of any strides, D packed. */
static inline void *cpu_token(const vt_tensor *x, size_t b, size_t s, size_t h)
{
    size_t at = b * (size_t)x->stride[0] + s * (size_t)x->stride[1] + h * (size_t)x->stride[2];
    return (char *)x->data + at * vc_dtype_size(x->dtype);
}

/* Describes one head as vectors over D (one per token), or as vectors over tokens (one per element
 * of D). */
static inline cpu_vectors cpu_head(const vt_tensor *x, size_t b, size_t h, bool over_d)
{
    return (cpu_vectors){ .data = cpu_token(x, b, 0, h), .type = x->dtype,
                          .stride = (size_t)x->stride[1], .along = over_d };
}

static inline float *cpu_lse(const vt_tensor *lse, size_t b, size_t h)
{
    return (float *)lse->data + b * (size_t)lse->stride[0] + h * (size_t)lse->stride[1];
}

/* Returns the number of keys of sample b. */
static inline size_t cpu_keys(const vt_tensor *k, const vt_tensor *kv_len, size_t b)
{
    int64_t all = k->dim[1], n = all;
    if (kv_len)
        n = ((const int32_t *)kv_len->data)[b * (size_t)kv_len->stride[0]];
    return (size_t)(n < 0 ? 0 : n > all ? all : n);
}

#endif
