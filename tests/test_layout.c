/* test_layout.c - products of row-major tensors as column-major ones: the layouts that cuBLASLt is
 * given, carried out by a naive column-major product, against a naive row-major one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "common/cuda/cuda_layout.h"

enum { ROOM = 4096 };

typedef struct matrix {
    vt_tensor t;
    float v[ROOM];
} matrix;

static void make(matrix *x, int64_t rows, int64_t cols, int64_t gap)
{
    x->t = (vt_tensor){ .dtype = VC_F32, .nd = 2, .dim = { rows, cols },
                        .stride = { cols + gap, 1 }, .data = x->v };
    for (int i = 0; i < ROOM; i++)
        x->v[i] = (float)(rand() % 17 - 8);
}

static float at(const matrix *x, bool turned, int64_t i, int64_t j)
{
    return x->v[turned ? j * x->t.stride[0] + i : i * x->t.stride[0] + j];
}

/* What the library does: columns are packed. */
static void column_major(const cuda_gemm *g, const float *a, const float *b, float *c)
{
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            float sum = 0;
            for (int64_t l = 0; l < g->k; l++)
                sum += a[g->turn_a ? l + i * g->lda : i + l * g->lda] *
                       b[g->turn_b ? j + l * g->ldb : l + j * g->ldb];
            c[i + j * g->ldc] = sum;
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
            assert_true(cuda_gemm_of(&g, &c.t, &a.t, ta, &b.t, tb, false));
            /* cuBLASLt refuses a leading size below the rows of the stored matrix */
            assert_true(g.lda >= (g.turn_a ? g.k : g.m) && g.ldb >= (g.turn_b ? g.n : g.k) &&
                        g.ldc >= g.m);
            column_major(&g, b.v, a.v, c.v);
            for (int64_t i = 0; i < m; i++)
                for (int64_t j = 0; j < n; j++) {
                    float sum = 0;
                    for (int64_t l = 0; l < k; l++)
                        sum += at(&a, ta, i, l) * at(&b, tb, l, j);
                    assert_true(fabsf(at(&c, false, i, j) - sum) <= 0.0f);
                }
        }
}

/* A single row may have any stride; repeated rows and holes between elements are refused. */
static void test_odd(void **state)
{
    static matrix a, b, c;
    cuda_gemm g;

    (void)state;
    make(&a, 1, 4, 0), make(&b, 4, 5, 0), make(&c, 1, 5, 0);
    a.t.stride[0] = 0;
    assert_true(cuda_gemm_of(&g, &c.t, &a.t, false, &b.t, false, true));
    assert_true(g.ldb == 4 && g.bias);
    b.t.stride[0] = 0;
    assert_false(cuda_gemm_of(&g, &c.t, &a.t, false, &b.t, false, false));
    make(&b, 4, 5, 0);
    b.t.stride[1] = 2;
    assert_false(cuda_gemm_of(&g, &c.t, &a.t, false, &b.t, false, false));
    make(&b, 4, 5, 0);
    b.t.data = (void *)(uintptr_t)(4096 + 24);
    c.t.data = (void *)(uintptr_t)65536;
    assert_true(cuda_gemm_of(&g, &c.t, &a.t, false, &b.t, false, false));
    assert_int_equal(g.align_a, 8);
    assert_int_equal(g.align_c, 256);
}

static void test_types(void **state)
{
    static const struct { vc_dtype compute, c, a, b, want; } rows[] = {
        { VC_BF16, VC_BF16, VC_BF16, VC_BF16, VC_BF16 },   /* a linear layer */
        { VC_BF16, VC_BF16, VC_BF16, VC_F8E4M3, VC_BF16 }, /* its weight in fp8: exact */
        { VC_BF16, VC_F32, VC_BF16, VC_F32, VC_BF16 },     /* x A' of LoRA */
        { VC_BF16, VC_BF16, VC_F32, VC_F32, VC_BF16 },     /* h B' of LoRA */
        { VC_BF16, VC_F32, VC_F32, VC_F32, VC_F32 },
        { VC_F32, VC_F32, VC_F32, VC_BF16, VC_F32 },       /* a bf16 weight among f32: exact */
        { VC_F32, VC_F32, VC_F32, VC_F16, VC_F32 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vt_tensor a = { .dtype = rows[i].a }, b = { .dtype = rows[i].b }, c = { .dtype = rows[i].c };
        assert_int_equal(cuda_gemm_type(rows[i].compute, &c, &a, &b), rows[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_odd),
        cmocka_unit_test(test_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
