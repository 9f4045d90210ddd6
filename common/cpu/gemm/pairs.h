/* pairs.h - the packing and softmax of gemm.h in bf16, where a unit is a pair of bf16: for amx.h
 * and bf16.h, whose including files define GEMM_ROWS. A panel of B is two vectors of units wide. */
#include "common/cpu/gemm/gemm.h"
#include "common/cpu/simd/vec.h"

enum { PANEL = 2 * VW };

/* ---- packing ---- */

/* Loads up to VW elements of any type as bf16 bits, one per lane; lanes past n are 0. */
static inline vu bits(const void *src, vc_dtype t, size_t i, size_t n)
{
    size_t k = n - i < VW ? n - i : VW;
    if (t == VC_BF16)
        return __builtin_convertvector(v_get_u16((const uint16_t *)src + i, k), vu);
    float f[VW] = { 0 };
    GEMM_ROWS.load(f, (const char *)src + i * vc_dtype_size(t), t, k);
    return __builtin_convertvector(v_to_bf16(v_load(f)), vu);
}

static void pairs_along(uint32_t *dst, const void *src, vc_dtype t, size_t n)
{
    if (n & 1)
        dst[n / 2] = 0;
    if (t == VC_BF16) {
        memcpy(dst, src, n * 2);
        return;
    }
    for (size_t i = 0; i < n; i += VW)
        v_put_u16((uint16_t *)dst + i, __builtin_convertvector(bits(src, t, i, n), vu16), n - i);
}

static void pairs_across(uint32_t *dst, const void *row0, const void *row1, vc_dtype t, size_t n)
{
    for (size_t i = 0; i < n; i += VW) {
        vu u = bits(row0, t, i, n);
        if (row1)
            u |= bits(row1, t, i, n) << 16;
        v_put_u32(dst + i, u, n - i);
    }
}

typedef uint16_t prob;
static inline void put_prob(prob *p, vf x)
{
    vu16 h = v_to_bf16(x);
    memcpy(p, &h, sizeof h);
}

#include "common/cpu/gemm/transpose.h"

/* ---- softmax ---- */

/* Computes one row's P and dS at queries j.. and stores them as A; returns dS. */
static inline vf grad_row(const cpu_softmax_grad *x, int r, int j)
{
    const float *s = x->s + (size_t)r * x->lds + j, *dp = x->dp + (size_t)r * x->lds + j;
    vf e = v_exp2(v_load(s) * x->scale - v_load(x->lse + j));
    vf d = e * (v_load(dp) - v_load(x->delta + j));

    put_prob((prob *)(x->p + (size_t)r * x->ldp) + j, e);
    put_prob((prob *)(x->ds + (size_t)r * x->ldp) + j, d);
    return d;
}

static void pairs_softmax_grad(const cpu_softmax_grad *x)
{
    for (int j = 0; j < x->n; j += VW) {
        uint32_t *panel = x->panels + (size_t)(j / PANEL) * x->pb + j % PANEL;
        for (int r = 0; r < x->padded; r += 2, panel += PANEL) {
            vu pair = { 0 };
            if (r < x->rows)
                pair = __builtin_convertvector(v_to_bf16(grad_row(x, r, j)), vu);
            if (r + 1 < x->rows)
                pair |= __builtin_convertvector(v_to_bf16(grad_row(x, r + 1, j)), vu) << 16;
            memcpy(panel, &pair, sizeof pair);
        }
    }
}
