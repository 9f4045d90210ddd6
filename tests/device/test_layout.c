/* test_layout.c - products of row-major tensors are passed to cuBLASLt as column-major ones. A
 * naive column-major product with the passed layouts is compared with a naive row-major product. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "common/cuda/layout.h"

enum { ROOM = 4096 };

typedef struct matrix {
    vt_tensor t;
    _Alignas(64) float v[ROOM];
} matrix;

static void make(matrix *x, int64_t rows, int64_t cols, int64_t gap)
{
    x->t = (vt_tensor){ .dtype = VC_F32, .nd = 2, .dim = { rows, cols },
                        .stride = { cols + gap, 1 }, .data = x->v };
    for (int i = 0; i < ROOM; i++)
        x->v[i] = (float)(rand() % 17 - 8);
}

static float at(const matrix *x, bool transposed, int64_t i, int64_t j)
{
    return x->v[transposed ? j * x->t.stride[0] + i : i * x->t.stride[0] + j];
}

static const cuda_epilogue plain;

/* These stand for GELU and its slope; they keep whole numbers whole. */
static float like_gelu(float x) { return 3 * x + 1; }
static float like_slope(float x) { return 2 * x - 5; }

/* Computes the product as the library does: columns are packed; a bias has an element for each row
 * of C, and a bias's gradient one for each column. */
static void column_major(const cuda_gemm *g, const float *a, const float *b, float *c,
                         const cuda_epilogue *e)
{
    float *pre = e->pre ? e->pre->data : NULL, *vector = e->vector;

    for (int64_t j = 0; j < g->n; j++) {
        float total = 0;
        for (int64_t i = 0; i < g->m; i++) {
            float sum = 0;
            for (int64_t l = 0; l < g->k; l++) {
                float right = b[g->trans_b ? j + l * g->ldb : l + j * g->ldb];
                sum += a[g->trans_a ? l + i * g->lda : i + l * g->lda] * right;
                total += i ? 0 : right;
            }
            if (g->epilogue & CUDA_BIAS_ADDED)
                sum += vector[i];
            if (g->epilogue & CUDA_PRE_STORED)
                pre[i + j * g->ld_pre] = sum;
            if (g->epilogue & CUDA_GELU)
                sum = like_gelu(sum);
            if (g->epilogue & CUDA_GELU_SLOPE)
                sum *= like_slope(pre[i + j * g->ld_pre]);
            c[i + j * g->ldc] = sum;
        }
        if (g->epilogue & CUDA_BIAS_GRAD)
            vector[j] = total;
    }
}

static void test_layouts(void **state)
{
    static const int64_t sizes[][3] = { { 1, 1, 1 }, { 5, 3, 7 }, { 1, 9, 4 }, { 6, 1, 5 },
                                        { 3, 8, 1 }, { 16, 24, 8 } };
    static matrix a, b, c;

    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int how = 0; how < 8; how++) {
            const int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
            bool ta = how & 1, tb = how & 2;
            int64_t gap = how & 4 ? 3 : 0;
            cuda_gemm g;
            make(&a, ta ? k : m, ta ? m : k, gap);
            make(&b, tb ? n : k, tb ? k : n, 2 * gap);
            make(&c, m, n, gap);
            assert_true(cuda_gemm_of(&g, &c.t, &a.t, ta, &b.t, tb, &plain));
            /* cuBLASLt refuses a leading dimension below the number of rows of the stored matrix */
            assert_true(g.lda >= (g.trans_a ? g.k : g.m) && g.ldb >= (g.trans_b ? g.n : g.k) &&
                        g.ldc >= g.m);
            column_major(&g, b.v, a.v, c.v, &plain);
            for (int64_t i = 0; i < m; i++)
                for (int64_t j = 0; j < n; j++) {
                    float sum = 0;
                    for (int64_t l = 0; l < k; l++)
                        sum += at(&a, ta, i, l) * at(&b, tb, l, j);
                    assert_true(fabsf(at(&c, false, i, j) - sum) <= 0.0f);
                }
        }
}

/* A bias has an element for each column of a row-major result; the stored input of GELU has the
 * result's layout; a bias's gradient is the sum of dy's rows. */
static void test_epilogues(void **state)
{
    enum { M = 6, N = 16, K = 5 };
    static matrix a, b, c, pre;
    static float v[N];
    static const int32_t all[] = { CUDA_BIAS_ADDED, CUDA_GELU | CUDA_BIAS_ADDED,
                                   CUDA_GELU | CUDA_PRE_STORED,
                                   CUDA_GELU | CUDA_PRE_STORED | CUDA_BIAS_ADDED,
                                   CUDA_GELU_SLOPE };

    (void)state;
    for (size_t s = 0; s < sizeof all / sizeof *all; s++) {
        bool has_pre = all[s] & (CUDA_PRE_STORED | CUDA_GELU_SLOPE);
        cuda_epilogue e = { all[s], v, has_pre ? &pre.t : NULL };
        cuda_gemm g;
        make(&a, M, K, 0), make(&b, N, K, 0), make(&c, M, N, 0), make(&pre, M, N, 0);
        for (int i = 0; i < N; i++)
            v[i] = (float)(rand() % 9);
        matrix before = pre;
        assert_true(cuda_gemm_of(&g, &c.t, &a.t, false, &b.t, true, &e));
        assert_true(cuda_epilogue_fits(&g, &e));
        column_major(&g, b.v, a.v, c.v, &e);
        for (int64_t i = 0; i < M; i++)
            for (int64_t j = 0; j < N; j++) {
                float sum = all[s] & CUDA_BIAS_ADDED ? v[j] : 0, want;
                for (int64_t l = 0; l < K; l++)
                    sum += at(&a, false, i, l) * at(&b, true, l, j);
                want = all[s] & CUDA_GELU ? like_gelu(sum) : sum;
                if (all[s] & CUDA_GELU_SLOPE)
                    want *= like_slope(at(&before, false, i, j));
                assert_true(fabsf(at(&c, false, i, j) - want) <= 0.0f);
                if (all[s] & CUDA_PRE_STORED)
                    assert_true(fabsf(at(&pre, false, i, j) - sum) <= 0.0f);
            }
    }
    cuda_gemm g;                               /* dw [N,K] = dy' x, db [N] */
    cuda_epilogue e = { CUDA_BIAS_GRAD, v, NULL };
    make(&a, M, N, 0), make(&b, M, K, 0), make(&c, N, K, 0);
    assert_true(cuda_gemm_of(&g, &c.t, &a.t, true, &b.t, false, &e));
    column_major(&g, b.v, a.v, c.v, &e);
    for (int64_t j = 0; j < N; j++) {
        float sum = 0;
        for (int64_t i = 0; i < M; i++)
            sum += at(&a, false, i, j);
        assert_true(fabsf(v[j] - sum) <= 0.0f);
    }
}

/* The library has no epilogue for rows whose length is no multiple of eight or that are not
 * aligned. */
static void test_refused_epilogues(void **state)
{
    static matrix a, b, c, pre;
    const cuda_epilogue e = { CUDA_GELU | CUDA_PRE_STORED, NULL, &pre.t };
    cuda_gemm g;

    (void)state;
    make(&a, 4, 5, 0), make(&b, 12, 5, 0), make(&c, 4, 12, 0), make(&pre, 4, 12, 0);
    assert_true(cuda_gemm_of(&g, &c.t, &a.t, false, &b.t, true, &e));
    assert_false(cuda_epilogue_fits(&g, &e));
    make(&b, 16, 5, 0), make(&c, 4, 16, 0), make(&pre, 4, 16, 0);
    pre.t.data = (void *)(uintptr_t)(4096 + 8);
    assert_true(cuda_gemm_of(&g, &c.t, &a.t, false, &b.t, true, &e));
    assert_false(cuda_epilogue_fits(&g, &e));
    pre.t.data = (void *)(uintptr_t)4096;
    pre.t.dtype = VC_BF16;
    assert_true(cuda_gemm_of(&g, &c.t, &a.t, false, &b.t, true, &e));
    assert_false(cuda_epilogue_fits(&g, &e));
}

/* A single row may have any stride; repeated rows and holes between elements are refused. */
static void test_odd(void **state)
{
    static matrix a, b, c;
    cuda_gemm g;

    (void)state;
    make(&a, 1, 4, 0), make(&b, 4, 5, 0), make(&c, 1, 5, 0);
    a.t.stride[0] = 0;
    assert_true(cuda_gemm_of(&g, &c.t, &a.t, false, &b.t, false, &plain));
    assert_true(g.ldb == 4);
    b.t.stride[0] = 0;
    assert_false(cuda_gemm_of(&g, &c.t, &a.t, false, &b.t, false, &plain));
    make(&b, 4, 5, 0);
    b.t.stride[1] = 2;
    assert_false(cuda_gemm_of(&g, &c.t, &a.t, false, &b.t, false, &plain));
    make(&b, 4, 5, 0);
    b.t.data = (void *)(uintptr_t)(4096 + 24);
    c.t.data = (void *)(uintptr_t)65536;
    assert_true(cuda_gemm_of(&g, &c.t, &a.t, false, &b.t, false, &plain));
    assert_int_equal(g.align_a, 8);
    assert_int_equal(g.align_c, 256);
}

static void test_types(void **state)
{
    static const struct { vc_dtype compute, c, a, b, want; } rows[] = {
        { VC_BF16, VC_BF16, VC_BF16, VC_BF16, VC_BF16 },   /* a linear layer */
        { VC_BF16, VC_BF16, VC_BF16, VC_F8E4M3, VC_BF16 }, /* a weight in fp8: exact */
        { VC_BF16, VC_F32, VC_BF16, VC_F32, VC_BF16 },     /* x A' of LoRA */
        { VC_BF16, VC_BF16, VC_F32, VC_F32, VC_BF16 },     /* h B' of LoRA */
        { VC_BF16, VC_F32, VC_F32, VC_F32, VC_F32 },       /* Muon's */
        { VC_F32, VC_F32, VC_F32, VC_BF16, VC_F32 },       /* a bf16 weight among f32: exact */
        { VC_F32, VC_F32, VC_F32, VC_F16, VC_F32 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vt_tensor a = { .dtype = rows[i].a }, b = { .dtype = rows[i].b },
            c = { .dtype = rows[i].c };
        assert_int_equal(cuda_gemm_type(rows[i].compute, &c, &a, &b), rows[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_epilogues),
        cmocka_unit_test(test_refused_epilogues),
        cmocka_unit_test(test_odd),
        cmocka_unit_test(test_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
