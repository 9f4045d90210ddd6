/* pairs.h - the packing and softmax of gemm.h in bf16, where a unit is a pair of bf16: for amx.h
 * and bf16.h, whose including files define GEMM_ROWS. A vector has 16 units, a panel of B two
 * vectors. */
#include "common/cpu/gemm/gemm.h"
#include "common/cpu/simd/vec.h"

enum { PAIR = 2, PANEL = 2 * VW };
_Static_assert(VW == 16, "bf16 kernels have vectors of 16 units");

/* ---- packing ---- */

/* Loads up to VW elements of any type as bf16 bits, one per lane; lanes past n are 0. */
static inline vu bits(const void *src, vc_dtype t, size_t i, size_t n)
{
    size_t k = n - i < VW ? n - i : VW;
    if (t == VC_BF16)
        return __builtin_convertvector(v_get_u16((const uint16_t *)src + i, k), vu);
    if (t == VC_F32 && k == VW)
        return __builtin_convertvector(v_to_bf16(v_load((const float *)src + i)), vu);
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
    size_t i = 0;
    for (; t == VC_F32 && i + VW <= n; i += VW)
        v_put_u16((uint16_t *)dst + i, v_to_bf16(v_load((const float *)src + i)), VW);
    for (; i < n; i += VW)
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

/* ---- probabilities ---- */

typedef uint16_t prob;
typedef uint16_t probs __attribute__((vector_size(PANEL * sizeof(prob))));

static inline vf prob_exp2(vf x) { return v_exp2_bf16(x); }

#define IN_TURN(lane, unused) lane
static inline probs probs_of(vf low, vf high)
{
#if defined(V_AVX512) && defined(__AVX512BF16__)
    return (probs)_mm512_cvtne2ps_pbh(high, low);
#else
    return __builtin_shufflevector(v_to_bf16(low), v_to_bf16(high), V_LANES(IN_TURN, 0),
                                   V_LANES4(IN_TURN, 16, 0), V_LANES4(IN_TURN, 20, 0),
                                   V_LANES4(IN_TURN, 24, 0), V_LANES4(IN_TURN, 28, 0));
#endif
}

static inline void put_probs(prob *p, probs x) { memcpy(p, &x, sizeof x); }

#include "common/cpu/gemm/transpose.h"
