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

/* Lane l of an interleaved half: element l / 2 of the first or, if l is odd, of the second row. */
#define LOW_PAIR(lane, unused) ((lane) / 2 + (lane) % 2 * PANEL)
#define HIGH_PAIR(lane, unused) ((lane) / 2 + VW + (lane) % 2 * PANEL)
#define PANEL_LANES(F)                                                                             \
    V_LANES4(F, 0, 0), V_LANES4(F, 4, 0), V_LANES4(F, 8, 0), V_LANES4(F, 12, 0),                   \
        V_LANES4(F, 16, 0), V_LANES4(F, 20, 0), V_LANES4(F, 24, 0), V_LANES4(F, 28, 0)

/* Stores rows r.. of a panel, n of them, an even number. */
static inline void put_panel(uint32_t *panel, size_t r, const probs *x, int n)
{
    panel += r / PAIR * PANEL;
#pragma GCC unroll 16
    for (int i = 0; i < n; i += PAIR, panel += PANEL) {
        probs low = __builtin_shufflevector(x[i], x[i + 1], PANEL_LANES(LOW_PAIR));
        probs high = __builtin_shufflevector(x[i], x[i + 1], PANEL_LANES(HIGH_PAIR));
        memcpy(panel, &low, sizeof low);
        memcpy(panel + VW, &high, sizeof high);
    }
}

#include "common/cpu/gemm/attend.h"

const cpu_gemm GEMM_SET = {
    .name = GEMM_NAME,
    .row_kernels = &GEMM_ROWS,
    .pair = 2,
    .nr = PANEL,
    .kr = 1,
    .mr = 1,
    .rows = MR,
    .step = 384,
    .columns = 1920,
    .begin = nothing,
    .end = nothing,
    .block = block,
    .along = pairs_along,
    .across = pairs_across,
    .transpose = transpose_units,
    .softmax = softmax,
    .attend = attend,
    .queries = ATTEND_QUERIES,
    .scores_grad = scores_grad,
};
