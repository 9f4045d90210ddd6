/* f32.h - gemm.h in f32: plain.c, avx2.c and avx512.c define GEMM_SET, GEMM_NAME, GEMM_ROWS (the
 * rows_*.c of the same target) and GEMM_MR, and include this file. */
#include "common/cpu/gemm/gemm.h"
#include "common/cpu/simd/vec.h"

/* ---- products ---- */

enum { PAIR = 1 };
typedef float unit;
typedef vf units;

static inline units load_units(const unit *p) { return v_load(p); }
static inline units repeat(const unit *p) { return v_set(*p); }
static inline vf add_product(vf s, units x, units b) { return s + x * b; }

#include "common/cpu/gemm/products.h"

/* The first rows prefetch the next panel: its rows of k lie on different pages, across which
 * processors do not prefetch by themselves. */
static void f32_block_as_is(size_t m, size_t n, size_t k, const uint32_t *a, size_t lda,
                            const float *b, size_t ldb, float *c, size_t ldc, bool add)
{
    for (size_t j = 0; j < n; j += NR)
        for (size_t i = 0; i < m; i += MR) {
            const float *ai = (const float *)a + i * lda;
            float *cij = c + i * ldc + j;
            if (m - i < MR)
                edge(m - i, NR, k, ai, lda, b + j, ldb, cij, ldc, add);
            else
                full(k, ai, lda, b + j, ldb, i == 0, cij, ldc, add);
        }
}

/* ---- packing ---- */

static void f32_along(uint32_t *dst, const void *src, vc_dtype t, size_t n)
{
    GEMM_ROWS.load((float *)dst, src, t, n);
}

static void f32_across(uint32_t *dst, const void *row0, const void *row1, vc_dtype t, size_t n)
{
    (void)row1;
    GEMM_ROWS.load((float *)dst, row0, t, n);
}

/* ---- probabilities ---- */

typedef float prob;
typedef struct probs { vf low, high; } probs;

static inline vf prob_exp2(vf x) { return v_exp2(x); }
static inline probs probs_of(vf low, vf high) { return (probs){ low, high }; }
static inline void put_probs(prob *p, probs x)
{
    v_store(p, x.low);
    v_store(p + VW, x.high);
}

/* Stores rows r.. of a panel, n of them. */
static inline void put_panel(uint32_t *panel, size_t r, const probs *x, int n)
{
#pragma GCC unroll 16
    for (int i = 0; i < n; i++)
        put_probs((prob *)panel + (r + (size_t)i) * NR, x[i]);
}

#include "common/cpu/gemm/transpose.h"

#include "common/cpu/gemm/attend.h"
#include "common/cpu/gemm/winograd.h"

const cpu_gemm GEMM_SET = {
    .name = GEMM_NAME,
    .row_kernels = &GEMM_ROWS,
    .pair = 1,
    .nr = NR,
    .kr = 1,
    .mr = 1,
    .rows = MR,
    .step = 256,
    .columns = 768,
    .begin = nothing,
    .end = nothing,
    .block = block,
    .block_as_is = f32_block_as_is,
    .along = f32_along,
    .across = f32_across,
    .transpose = transpose_units,
    .softmax = softmax,
    .attend = attend,
    .queries = ATTEND_QUERIES,
    .scores_grad = scores_grad,
    .tiles_row = tiles_row,
    .tiles_in = tiles_in,
    .tiles_out = tiles_out,
    .tiles_weights = tiles_weights,
};
