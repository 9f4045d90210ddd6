/* f32.h - gemm.h in f32: plain.c, avx2.c and avx512.c define GEMM_SET, GEMM_NAME, GEMM_ROWS (the
 * rows_*.c of the same target) and GEMM_MR, and include this file.
 *
 * The inner kernel holds a block of GEMM_MR rows by two vectors of C in registers. Of 16 registers,
 * 6 x 2 leave two for B and one for A; with 32 registers 8 x 2 already hide the latency of the
 * products. */
#include "common/cpu/gemm/gemm.h"
#include "common/cpu/simd/vec.h"

#define MR GEMM_MR
#define NR (2 * VW)

/* ---- products ---- */

#define INLINE static inline __attribute__((always_inline))

/* Computes `rows` (a constant) by NR of C; row i of A is at a + i lda. */
INLINE void multiply(vf acc[MR][2], int rows, size_t k, const float *a, size_t lda, const float *b,
                     size_t ld, bool fetch)
{
    vf s[MR][2];

#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
        s[i][0] = s[i][1] = (vf){ 0 };
    for (size_t p = 0; p < k; p++, b += ld) {
        if (fetch)
            __builtin_prefetch(b + NR);
        vf b0 = v_load(b), b1 = v_load(b + VW);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            vf x = v_set(a[(size_t)i * lda + p]);
            s[i][0] += x * b0;
            s[i][1] += x * b1;
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        acc[i][0] = s[i][0];
        acc[i][1] = s[i][1];
    }
}

INLINE void full(size_t k, const float *a, size_t lda, const float *b, size_t ld, bool fetch,
                 float *c, size_t ldc, bool add)
{
    vf acc[MR][2];

    for (size_t i = 0; i < MR; i++) {
        __builtin_prefetch(c + i * ldc, 1);
        __builtin_prefetch(c + i * ldc + NR - 1, 1);
    }
    multiply(acc, MR, k, a, lda, b, ld, fetch);
    for (size_t i = 0; i < MR; i++, c += ldc) {
        v_store(c, add ? v_load(c) + acc[i][0] : acc[i][0]);
        v_store(c + VW, add ? v_load(c + VW) + acc[i][1] : acc[i][1]);
    }
}

/* Computes a block with fewer rows or columns than a full one. */
static __attribute__((noinline)) void edge(size_t m, size_t n, size_t k, const float *a, size_t lda,
                                           const float *b, size_t ld, float *c, size_t ldc,
                                           bool add)
{
    vf acc[MR][2];
    size_t n1 = n > VW ? n - VW : 0;

    switch (m) {
#define ROWS(r)                                     \
    case r:                                         \
        multiply(acc, r, k, a, lda, b, ld, false);  \
        break;
        ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5)
#if MR > 6
        ROWS(6) ROWS(7)
#endif
    default:
        multiply(acc, MR, k, a, lda, b, ld, false);
#undef ROWS
    }
    for (size_t i = 0; i < m; i++, c += ldc) {
        v_put(c, add ? v_get(c, n) + acc[i][0] : acc[i][0], n);
        if (n1)
            v_put(c + VW, add ? v_get(c + VW, n1) + acc[i][1] : acc[i][1], n1);
    }
}

static __attribute__((noinline)) void full_packed(size_t k, const float *a, size_t lda,
                                                  const float *b, float *c, size_t ldc, bool add)
{
    full(k, a, lda, b, NR, false, c, ldc, add);
}

static void f32_block(size_t m, size_t n, size_t k, const uint32_t *a, size_t lda,
                      const uint32_t *b, size_t pb, float *c, size_t ldc, bool add)
{
    for (size_t j = 0; j < n; j += NR, b += pb)
        for (size_t i = 0; i < m; i += MR) {
            const float *ai = (const float *)a + i * lda, *bj = (const float *)b;
            float *cij = c + i * ldc + j;
            if (m - i >= MR && n - j >= NR)
                full_packed(k, ai, lda, bj, cij, ldc, add);
            else
                edge(m - i < MR ? m - i : MR, n - j, k, ai, lda, bj, NR, cij, ldc, add);
        }
}

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

#include "common/cpu/gemm/transpose.h"

/* ---- softmax ---- */

static void f32_softmax(const cpu_softmax *x)
{
    for (int r = 0; r < x->rows; r++) {
        float *s = x->s + (size_t)r * x->lds, *p = (float *)x->p + (size_t)r * x->ldp;
        float top = most(s, (size_t)x->n) * x->scale;
        if (top > x->max[r]) {
            rescale(x, r, x->max[r], top);
            x->max[r] = top;
        }
        float max = x->max[r];
        vf sum = { 0 };
        for (int i = 0; i < x->np; i += VW) {
            vf e = v_exp2(v_load(s + i) * x->scale - max);
            if (i + VW > x->n)
                e = v_if(v_lanes() < x->n - i, e, v_set(0));
            v_store(p + i, e);
            sum += e;
        }
        x->sum[r] += v_sum(sum);
    }
}

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

static void nothing(void) {}

const cpu_gemm GEMM_SET = {
    .name = GEMM_NAME,
    .pair = 1,
    .nr = NR,
    .kr = 1,
    .mr = 1,
    .begin = nothing,
    .end = nothing,
    .block = f32_block,
    .block_as_is = f32_block_as_is,
    .along = f32_along,
    .across = f32_across,
    .transpose = transpose_units,
    .softmax = f32_softmax,
    .softmax_grad = f32_softmax_grad,
};
