/* f32.h - gemm.h in f32: plain.c, avx2.c and avx512.c define GEMM_SET, GEMM_NAME, GEMM_ROWS (the
 * rows_*.c of the same target) and GEMM_MR, and include this file. */
#include "common/cpu/gemm/gemm.h"
#include "common/cpu/simd/vec.h"

/* ---- products ---- */

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

typedef float prob;
static inline void put_prob(prob *p, vf x) { v_store(p, x); }

#include "common/cpu/gemm/transpose.h"

/* ---- softmax ---- */

/* P = 2^(scale s - lse), dS = P (dP - delta), where n counts queries in whole panels. */
static void f32_softmax_grad(const cpu_softmax_grad *x)
{
    for (int r = 0; r < x->rows; r++) {
        const float *s = x->s + (size_t)r * x->lds, *dp = x->dp + (size_t)r * x->lds;
        float *p = (float *)x->p + (size_t)r * x->ldp, *ds = (float *)x->ds + (size_t)r * x->ldp;
        float *panel = (float *)x->panels + (size_t)r * NR;
        for (int j = 0; j < x->n; j += VW) {
            vf e = v_exp2(v_load(s + j) * x->scale - v_load(x->lse + j));
            vf d = e * (v_load(dp + j) - v_load(x->delta + j));
            v_store(p + j, e);
            v_store(ds + j, d);
            v_store(panel + (size_t)(j / NR) * x->pb + j % NR, d);
        }
    }
    for (int r = x->rows; r < x->padded; r++)
        for (int j = 0; j < x->n; j += NR)
            memset(x->panels + (size_t)(j / NR) * x->pb + (size_t)r * NR, 0, NR * 4);
}

const cpu_gemm GEMM_SET = {
    .name = GEMM_NAME,
    .pair = 1,
    .nr = NR,
    .kr = 1,
    .mr = 1,
    .begin = nothing,
    .end = nothing,
    .block = block,
    .block_as_is = f32_block_as_is,
    .along = f32_along,
    .across = f32_across,
    .transpose = transpose_units,
    .softmax = softmax,
    .softmax_grad = f32_softmax_grad,
};
