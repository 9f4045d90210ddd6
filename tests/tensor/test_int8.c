/* test_int8.c - products of int8 codes with activations that are rounded to int8 (matmul_int8.c):
 * every result is that of the rounded numbers, computed in f64, on every set of kernels. */
#include "tests/tensor/kernels_dev.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/tensor/packing.h"

/* tb: the weight [n,k] as in the forward pass, or else [k,n], as in the backward one. */
typedef struct product_case {
    int64_t m, n, k;
    bool tb;
    vc_dtype a, c;
    float alpha, beta;
    bool bias;
    int gap;
} product_case;

#define F VC_F32
#define H VC_BF16
static const product_case cases[] = {
    { 1, 48, 64, true, F, F, 1, 0, true, 0 },
    { 3, 48, 64, false, H, H, 1, 1, false, 0 },
    { 32, 48, 64, true, F, F, 1, 0, false, 0 },
    { 33, 1, 40, true, F, F, 1, 0, true, 0 },
    { 40, 65, 129, true, H, H, 1, 0, true, 3 },
    { 67, 96, 1, false, F, H, 1, 1, false, 0 },
    { 70, 33, 70, false, H, F, 0.5f, 2, true, 1 },
    { 130, 160, 520, false, H, H, 1, 1, false, 0 },
    { 300, 20000, 12, true, F, F, 1, 0, true, 0 },           /* two slabs of rows */
    { 64, 40, 3000, true, F, F, 1, 0, false, 0 },
};
#undef F
#undef H

/* Makes a weight of codes with a scale a row, which free_weight() frees. */
static vt_tensor make_weight(kd_rng *r, int64_t rows, int64_t n)
{
    const vt_packing *p = vt_packing_of(VC_I8);
    vt_tensor w = { .dtype = VC_I8, .nd = 2, .dim = { rows, n }, .stride = { n, 1 } };
    vt_tensor *scale = calloc(1, sizeof *scale);
    float *row = malloc((size_t)n * sizeof *row);

    assert_true(scale && row);
    *scale = (vt_tensor){ .dtype = VC_F32, .nd = 1, .dim = { rows }, .stride = { 1 },
                          .data = malloc((size_t)rows * sizeof(float)) };
    w.data = malloc((size_t)(rows * n));
    w.scale = scale;
    assert_true(scale->data && w.data);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t q = 0; q < n; q++)
            row[q] = kd_random(r) * (float)(1 + i % 7);
        assert_true(vt_pack_codes(p, (int8_t *)w.data + i * n, (float *)scale->data + i, row, n));
    }
    free(row);
    return w;
}

static void free_weight(vt_tensor *w)
{
    free(w->scale->data);
    free((vt_tensor *)(uintptr_t)w->scale);
    free(w->data);
}

/* The numbers that row i of a stands for once it is rounded: of a gradient, times the scales of the
 * weight's rows. */
static void round_row(double *to, const vt_tensor *a, int64_t i, int64_t k, const float *scale)
{
    float most = 0;

    for (int64_t q = 0; q < k; q++) {
        const float x = (float)kd_at(a, i, q, 0, 0) * (scale ? scale[q] : 1);
        to[q] = x;
        most = fabsf(x) > most ? fabsf(x) : most;
    }
    for (int64_t q = 0; q < k; q++)
        to[q] = most > 0 ? (double)(nearbyintf((float)to[q] / (most / 127)) * (most / 127)) : 0;
}

static void check(const char *set, size_t row, const product_case *x, const vt_tensor *a,
                  const vt_tensor *w, const vt_tensor *bias, const vt_tensor *was,
                  const vt_tensor *c)
{
    const float *scale = w->scale->data;
    double *of = malloc((size_t)x->k * sizeof *of);

    assert_non_null(of);
    for (int64_t i = 0; i < x->m; i++) {
        round_row(of, a, i, x->k, x->tb ? NULL : scale);
        for (int64_t j = 0; j < x->n; j += x->n > 999 ? 97 : 1) {
            double sum = 0, size = 0;
            for (int64_t q = 0; q < x->k; q++) {
                const int64_t at = x->tb ? j * x->k + q : q * x->n + j;
                const double by = x->tb ? (double)scale[j] : 1;
                const double product = of[q] * by * ((const int8_t *)w->data)[at];
                sum += product;
                size += fabs(product);
            }
            const double old = x->beta == 0 ? 0 : (double)x->beta * kd_at(was, i, j, 0, 0);
            const double add = bias ? kd_at(bias, j, 0, 0, 0) : 0;
            const double want = (double)x->alpha * sum + old + add, got = kd_at(c, i, j, 0, 0);
            const double room = (kd_half_step(x->c) + 5e-7) *
                                (fabs((double)x->alpha) * size + fabs(old) + fabs(add));
            if (!(fabs(got - want) <= room + 1e-12))
                fail_msg("%s, row %zu: [%d,%d] is %.9g, not %.9g", set, row, (int)i, (int)j, got,
                         want);
        }
    }
    free(of);
}

TEST(products_are_those_of_rounded_numbers)
{
    (void)state;
    EACH_SET(s) {
        kd_dev d = kd_open(*s, 2);
        d.dev->int8_products = true;
        for (size_t i = 0; i < COUNT(cases); i++) {
            const product_case *x = &cases[i];
            kd_rng r = { 3 + i }, again;
            vt_tensor w = make_weight(&r, x->tb ? x->n : x->k, x->tb ? x->k : x->n);
            vt_tensor *a = kd_tensor(&r, x->a, 2, (int64_t[]){ x->m, x->k }, x->gap, NULL);
            vt_tensor *bias = x->bias ? kd_tensor(&r, VC_F32, 1, &x->n, 0, NULL) : NULL;
            again = r;
            vt_tensor *c = kd_tensor(&r, x->c, 2, (int64_t[]){ x->m, x->n }, x->gap, NULL);
            vt_tensor *was = kd_tensor(&again, x->c, 2, (int64_t[]){ x->m, x->n }, x->gap, NULL);
            if (x->beta == 0)
                kd_fill(c, NAN);
            d.be->matmul(d.dev, c, a, false, &w, x->tb, bias, x->alpha, x->beta);
            check(*s, i, x, a, &w, bias, was, c);
            free_weight(&w);
            kd_free(a), kd_free(bias), kd_free(c), kd_free(was);
        }
        kd_close(&d);
    }
}

/* What a row has never decides about another one: zeros stay zeros, a row with a number that is not
 * finite becomes NaN, and rows too small to be divided become zeros. */
TEST(rows_are_alone)
{
    enum { M = 34, N = 20, K = 96 };
    (void)state;
    EACH_SET(s) {
        kd_dev d = kd_open(*s, 2);
        kd_rng r = { 5 };
        d.dev->int8_products = true;
        vt_tensor w = make_weight(&r, N, K);
        vt_tensor *a = kd_tensor(&r, VC_F32, 2, (int64_t[]){ M, K }, 0, NULL);
        vt_tensor *c = kd_tensor(&r, VC_F32, 2, (int64_t[]){ M, N }, 0, NULL);
        float *at = a->data, *y = c->data, clean[M * N];
        d.be->matmul(d.dev, c, a, false, &w, true, NULL, 1, 0);
        memcpy(clean, y, sizeof clean);
        at[3 * K + 7] = NAN;
        at[4 * K] = -INFINITY;
        memset(at + 5 * K, 0, K * sizeof *at);
        for (int q = 0; q < K; q++)
            at[6 * K + q] = 1e-38f;
        d.be->matmul(d.dev, c, a, false, &w, true, NULL, 1, 0);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                const float got = y[i * N + j];
                if (i == 3 || i == 4)
                    assert_true(isnan(got));
                else
                    assert_true(got == (i == 5 || i == 6 ? 0 : clean[i * N + j]));
            }
        free_weight(&w);
        kd_free(a), kd_free(c);
        kd_close(&d);
    }
}

/* Without the option codes are unpacked, and what they are multiplied by is not rounded. */
TEST(rounding_is_a_choice)
{
    enum { M = 3, N = 24, K = 80 };
    (void)state;
    for (int on = 0; on < 2; on++) {
        kd_dev d = kd_open("plain", 1);
        kd_rng r = { 9 };
        d.dev->int8_products = on;
        vt_tensor w = make_weight(&r, N, K);
        vt_tensor *a = kd_tensor(&r, VC_F32, 2, (int64_t[]){ M, K }, 0, NULL);
        vt_tensor *c = kd_tensor(&r, VC_F32, 2, (int64_t[]){ M, N }, 0, NULL);
        double most = 0;
        d.be->matmul(d.dev, c, a, false, &w, true, NULL, 1, 0);
        for (int64_t j = 0; j < N; j++) {
            double sum = 0;
            for (int64_t q = 0; q < K; q++)
                sum += kd_at(a, 0, q, 0, 0) * ((const int8_t *)w.data)[j * K + q];
            sum *= (double)((const float *)w.scale->data)[j];
            most = fmax(most, fabs(kd_at(c, 0, j, 0, 0) - sum));
        }
        assert_true(on ? most > 1e-3 : most < 1e-4);
        free_weight(&w);
        kd_free(a), kd_free(c);
        kd_close(&d);
    }
}

/* A dry step records the scratch that the same products take. */
TEST(scratch_is_predicted)
{
    (void)state;
    EACH_SET(s) {
        kd_dev d = kd_open(*s, 2);
        d.dev->int8_products = true;
        for (size_t i = 0; i < COUNT(cases); i++) {
            const product_case *x = &cases[i];
            kd_rng r = { 3 + i };
            vt_tensor w = make_weight(&r, x->tb ? x->n : x->k, x->tb ? x->k : x->n);
            vt_tensor *a = kd_tensor(&r, x->a, 2, (int64_t[]){ x->m, x->k }, 0, NULL);
            vt_tensor *c = kd_tensor(&r, x->c, 2, (int64_t[]){ x->m, x->n }, 0, NULL);
            d.be->dry(d.dev, true);
            d.be->matmul(d.dev, c, a, false, &w, x->tb, NULL, 1, 0);
            const size_t predicted = d.be->dry(d.dev, true);
            d.be->dry(d.dev, false);
            d.be->matmul(d.dev, c, a, false, &w, x->tb, NULL, 1, 0);
            assert_int_equal(d.be->dry(d.dev, false), predicted);
            free_weight(&w);
            kd_free(a), kd_free(c);
        }
        kd_close(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_those_of_rounded_numbers),
        cmocka_unit_test(rows_are_alone),
        cmocka_unit_test(rounding_is_a_choice),
        cmocka_unit_test(scratch_is_predicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
