/* bf16.h - gemm.h in bf16 by AVX-512's dot products of pairs; a unit is a pair of bf16.
 * avx512_bf16.c and the tests' emulation define GEMM_SET, GEMM_NAME, GEMM_ROWS and GEMM_MR, and
 * include this file.
 *
 * A dot product adds the pair's second product to the sum and then its first. Each product of two
 * bf16 is exact in f32, so nothing is lost because the instruction does not fuse it with the sum.
 * Sums are rounded to nearest even, whatever MXCSR says, and denormals are flushed to 0 in operands
 * and results, as with AMX. */
#include "common/cpu/gemm/pairs.h"

typedef uint32_t unit;
typedef vu units;

static inline units load_units(const unit *p)
{
    units u;
    memcpy(&u, p, sizeof u);
    return u;
}

static inline units repeat(const unit *p)
{
    unit u;
    memcpy(&u, p, sizeof u);                   /* p may point at a tensor of bf16 */
    return u - (units){ 0 };
}

/* Adds to each lane of s the products of the pairs x and b; the emulation keeps denormals. */
static inline vf add_product(vf s, units x, units b)
{
#if defined(V_AVX512) && defined(__AVX512BF16__)
    return _mm512_dpbf16_ps(s, (__m512bh)x, (__m512bh)b);
#else
    s += (vf)(x & 0xffff0000u) * (vf)(b & 0xffff0000u);
    return s + (vf)(x << 16) * (vf)(b << 16);
#endif
}

#include "common/cpu/gemm/products.h"

const cpu_gemm GEMM_SET = {
    .name = GEMM_NAME,
    .pair = 2,
    .nr = PANEL,
    .kr = 1,
    .mr = 1,
    .begin = nothing,
    .end = nothing,
    .block = block,
    .along = pairs_along,
    .across = pairs_across,
    .transpose = transpose_units,
    .softmax = softmax,
    .softmax_grad = pairs_softmax_grad,
};
