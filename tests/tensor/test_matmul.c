/* test_matmul.c - matrix products by every kernel set and by oneDNN, against f64 loops. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/cpu/dnnl.h"
#include "common/os/heap.h"
#include "common/tensor/packing.h"
#include "tests/lib/sanitized.h"
#include "tests/tensor/kernels_dev.h"

typedef struct mm_case {
    int64_t m, n, k;
    bool ta, tb;
    vc_dtype a, b, c;
    float alpha, beta;
    bool bias;
    int gap;                                  /* unused elements between rows */
} mm_case;
#define F VC_F32
#define H VC_BF16
static const mm_case mm_cases[] = {
    { 1, 1, 1, 0, 0, F, F, F, 1, 0, 0, 0 },
    { 3, 7, 17, 0, 1, F, F, F, 1, 0, 1, 0 },
    { 7, 3, 33, 1, 0, F, F, F, 1, 1, 0, 3 },
    { 33, 65, 17, 0, 0, F, F, F, 0.5f, 2, 1, 5 },
    { 65, 33, 300, 1, 1, F, F, F, 1, -0.5f, 0, 1 },
    { 17, 65, 513, 0, 1, F, H, F, 1, 1, 1, 0 },
    { 200, 40, 65, 0, 1, F, VC_F16, F, 1, 0, 1, 0 },
    { 31, 47, 70, 0, 1, F, VC_F8E4M3, F, 2, 0, 0, 0 },
    { 31, 47, 70, 0, 0, F, VC_F8E5M2, H, 1, 1, 1, 2 },
    { 40, 129, 600, 0, 1, H, H, H, 1, 0, 1, 0 },
    { 33, 31, 65, 0, 0, H, H, H, 1, 1, 0, 1 },
    { 65, 97, 31, 1, 0, H, H, F, 1, 0, 0, 1 },
    { 96, 64, 1100, 1, 0, H, H, F, 1, 1, 0, 0 },
    { 1, 33, 1, 0, 1, H, H, H, 1, 0, 0, 0 },
    { 17, 7, 33, 0, 1, H, F, H, 1, 0, 0, 0 },
    { 19, 40, 45, 1, 1, H, VC_F8E4M3, F, 0.25f, 1, 1, 3 },
    { 50, 4, 64, 0, 1, F, F, F, 1, 0, 0, 0 },
    { 4, 50, 130, 1, 0, F, H, F, 1, 1, 0, 0 },
    { 50, 64, 4, 0, 1, H, F, H, 2, 1, 0, 0 },
    { 3, 5, 0, 0, 1, F, F, F, 1, 0.5f, 1, 0 },
    { 3, 5, 0, 0, 1, F, F, F, 1, 0, 0, 0 },
    { 800, 70, 20, 0, 1, F, F, F, 1, 0, 1, 0 },
    { 40, 64, 600, 0, 1, H, F, H, 1, 0, 0, 2 },
    { 200, 34, 66, 0, 1, H, H, F, 1, 0, 0, 2 },
    /* gradients of a LoRA: few rows; B is read in place, in whole panels and a rest, or transposed
     * */
    { 16, 150, 300, 1, 0, F, F, F, 1, 0, 0, 3 },
    { 23, 97, 260, 1, 0, F, F, H, 0.5f, 1, 1, 0 },
    { 4, 64, 140, 0, 0, F, F, F, 1, 1, 1, 2 },
    { 130, 48, 300, 1, 0, F, F, F, 1, 1, 0, 1 },
    { 150, 101, 129, 1, 0, F, F, H, 2, 0.5f, 1, 0 },
    /* the last panel is half empty, beside rows that fill blocks and some more */
    { 66, 140, 260, 0, 1, F, F, F, 1, 0, 1, 0 },
    { 71, 10, 300, 0, 1, F, F, H, 0.5f, 1, 1, 2 },
    { 50, 80, 258, 0, 1, H, F, H, 1, 0, 1, 1 },
    { 81, 38, 256, 0, 0, H, H, F, 1, 1, 0, 0 },
};
/* oneDNN reads operands in place, converted as a whole, or in slabs of op(B)'s columns and op(A)'s
 * rows: SLABS is just long enough for two of each, and for two of the panels of matmul.c. */
enum { SLABS = 33000 };
static const mm_case large_cases[] = {
    { 128, 128, 128, 0, 1, F, F, F, 1, 1, 1, 3 },
    { 130, 140, 150, 1, 0, F, F, F, 1, 0, 0, 0 },
    { 150, 520, 530, 0, 0, H, H, H, 0.5f, 0.5f, 1, 1 },
    { 129, 530, 600, 1, 0, F, F, F, 2, 1, 1, 0 },
    { 150, 513, 530, 0, 1, F, VC_F16, F, 1, 0, 1, 0 },
    { 136, 530, 600, 1, 0, H, F, F, 1, 1, 0, 2 },
    { 150, 520, 530, 0, 1, H, VC_F8E4M3, H, 1, 0, 1, 0 },
    { 257, 513, 601, 0, 0, H, H, H, 1, 1, 1, 4 },
    { 520, 514, 515, 1, 0, H, H, F, 1, 1, 0, 1 },
    { 130, 514, SLABS, 0, 1, H, H, H, 1, 0, 1, 0 },
    { 130, 514, SLABS, 1, 0, F, H, F, 1, 1, 1, 0 },
};
#undef F
#undef H

typedef struct mm_data {
    vt_tensor *a, *b, *c, *bias, *was;
} mm_data;

static mm_data mm_make(const mm_case *x)
{
    kd_rng r = { 7 }, again;
    mm_data d = { 0 };
    d.a = kd_tensor(&r, x->a, 2, (int64_t[]){ x->ta ? x->k : x->m, x->ta ? x->m : x->k }, x->gap,
                    NULL);
    d.b = kd_tensor(&r, x->b, 2, (int64_t[]){ x->tb ? x->n : x->k, x->tb ? x->k : x->n }, x->gap,
                    NULL);
    if (x->bias)
        d.bias = kd_tensor(&r, x->b == VC_BF16 ? VC_BF16 : VC_F32, 1, &x->n, 0, NULL);
    again = r;
    d.c = kd_tensor(&r, x->c, 2, (int64_t[]){ x->m, x->n }, x->gap, NULL);
    d.was = kd_tensor(&again, x->c, 2, (int64_t[]){ x->m, x->n }, x->gap, NULL);
    if (x->beta == 0)
        kd_fill(d.c, NAN);                    /* beta 0: C must not be read */
    return d;
}

static void mm_free(mm_data *d)
{
    kd_free(d->a), kd_free(d->b), kd_free(d->c), kd_free(d->bias), kd_free(d->was);
}

static void mm_run(const kd_dev *d, const mm_case *x, const mm_data *t)
{
    d->be->matmul(d->dev, t->c, t->a, x->ta, t->b, x->tb, t->bias, x->alpha, x->beta);
}

/* Returns every `step`-th of n vectors of k numbers, which are x's rows or else its columns. */
static double *vectors(const vt_tensor *x, bool rows, int64_t n, int64_t k, int64_t step, bool bf16)
{
    double *out = malloc((size_t)((n + step - 1) / step * k + 1) * sizeof *out), *to = out;

    assert_non_null(out);
    for (int64_t i = 0; i < n; i += step)
        for (int64_t q = 0; q < k; q++, to++) {
            *to = rows ? kd_at(x, i, q, 0, 0) : kd_at(x, q, i, 0, 0);
            if (bf16)
                *to = kd_bf16(*to);
        }
    return out;
}

/* Compares every `step`-th row and column. */
static void mm_check(const char *set, const kd_dev *d, const mm_case *x, size_t row,
                     const mm_data *t, int64_t step)
{
    double *as = vectors(t->a, !x->ta, x->m, x->k, step, false), *a = as;
    double *bs = vectors(t->b, x->tb, x->n, x->k, step, d->bf16 && x->a == VC_BF16);

    for (int64_t i = 0; i < x->m; i += step, a += x->k) {
        const double *b = bs;
        for (int64_t j = 0; j < x->n; j += step, b += x->k) {
            double sum = 0, size = 0;
            for (int64_t k = 0; k < x->k; k++) {
                sum += a[k] * b[k];
                size += fabs(a[k] * b[k]);
            }
            double want = x->alpha * sum + (x->bias ? kd_at(t->bias, j, 0, 0, 0) : 0) +
                          (x->beta ? x->beta * kd_at(t->was, i, j, 0, 0) : 0);
            double got = kd_at(t->c, i, j, 0, 0);
            if (!(fabs(got - want) <= 5e-7 * (size + 4) + kd_half_step(x->c) * fabs(want)))
                fail_msg("%s, row %zu: c[%d,%d] is %.9g, not %.9g", set, row, (int)i, (int)j, got,
                         want);
        }
    }
    free(as);
    free(bs);
}

TEST(matmul_against_f64)
{
    (void)state;
    EACH_SET(s) {
        kd_dev d = kd_open(*s, 2);
        for (size_t i = 0; i < COUNT(mm_cases); i++) {
            mm_data t = mm_make(&mm_cases[i]);
            mm_run(&d, &mm_cases[i], &t);
            mm_check(*s, &d, &mm_cases[i], i, &t, 1);
            mm_free(&t);
        }
        kd_close(&d);
    }
}

/* Weights of codes and scales, whose rows lie along k or across it: products with few rows, with
 * tiles that pack their part of B, with shared panels, and by oneDNN. */
#define F VC_F32
#define H VC_BF16
static const mm_case packed_cases[] = {
    { 3, 80, 192, 0, 1, F, F, F, 1, 0, 1, 0 },
    { 2, 48, 96, 0, 0, F, F, H, 1, 1, 0, 0 },
    { 40, 144, 128, 0, 1, H, F, H, 1, 0, 1, 0 },
    { 40, 48, 176, 0, 0, H, F, H, 1, 1, 0, 0 },
    { 31, 80, 1088, 0, 1, F, F, F, 1, 0, 0, 0 },
    { 600, 160, 48, 0, 0, F, F, H, 1, 0, 0, 0 },
    { 600, 96, 704, 0, 1, H, F, H, 1, 0, 1, 0 },
    { 150, 544, 528, 0, 1, H, F, H, 1, 0, 1, 0 },
    { 150, 528, 544, 0, 0, F, F, F, 1, 1, 0, 0 },
};
#undef F
#undef H

/* Makes a weight of a type with scales, of which a row has one or those of its blocks. */
static vt_tensor *packed_weight(const vt_tensor *of, vc_dtype type, vt_tensor *scale)
{
    const size_t rows = (size_t)of->dim[0], n = (size_t)of->dim[1];
    const vt_packing *p = vt_packing_of(type);
    vt_tensor *w = malloc(sizeof *w);
    float *row = malloc(n * sizeof *row);

    assert_true(w && row);
    *w = *of;
    w->dtype = type;
    w->data = malloc(vc_dtype_bytes(type, rows * n));
    *scale = (vt_tensor){ .dtype = VC_F32, .nd = 2,
                          .dim = { of->dim[0], vt_packing_scales(p, of->dim[1]) } };
    scale->stride[0] = scale->dim[1];
    scale->stride[1] = 1;
    scale->data = malloc((size_t)vt_count(scale) * sizeof(float));
    assert_true(w->data && scale->data);
    for (size_t i = 0; i < rows; i++) {
        memcpy(row, (const float *)of->data + i * n, n * sizeof *row);
        assert_true(vt_pack_codes(p, (char *)w->data + i * vc_dtype_bytes(type, n),
                                  (float *)scale->data + i * (size_t)scale->dim[1], row,
                                  (int64_t)n));
    }
    w->scale = scale;
    free(row);
    return w;
}

TEST(products_unpack)
{
    static const vc_dtype types[] = { VC_F8E4M3, VC_I8, VC_NF4 };
    (void)state;
    EACH_SET(s) {
        kd_dev d = kd_open(*s, 2);
        for (size_t i = 0; i < COUNT(packed_cases) * COUNT(types); i++) {
            const mm_case *x = &packed_cases[i / COUNT(types)];
            vt_tensor scale;
            mm_data t = mm_make(x);
            vt_tensor *values = t.b;
            t.b = packed_weight(values, types[i % COUNT(types)], &scale);
            mm_run(&d, x, &t);
            d.be->copy(d.dev, values, t.b);    /* the values that the codes stand for */
            free(t.b->data);
            free(t.b);
            free(scale.data);
            t.b = values;
            mm_check(*s, &d, x, i, &t, x->k > 500 ? 7 : 1);
            mm_free(&t);
        }
        kd_close(&d);
    }
}

static bool all_f32(const mm_case *x)
{
    return x->a == VC_F32 && x->b == VC_F32 && x->c == VC_F32;
}

/* oneDNN computes the cases that it can, with its own kernels for this machine. */
TEST(matmul_by_onednn)
{
    (void)state;
    EACH_SET(s) {
        kd_dev d = kd_open(*s, 2);
        for (size_t i = 0; d.dev->dnnl && i < COUNT(mm_cases); i++) {
            const mm_case *x = &mm_cases[i];
            bool can = all_f32(x) && x->alpha == 1 && (x->beta == 0 || x->beta == 1) && x->k > 0 &&
                       x->m > 1 && x->n > 1;
            for (int again = 0; again < 2; again++) {     /* the second run uses the cache */
                mm_data t = mm_make(x);
                bool done = cpu_dnnl_matmul(d.dev, t.c, t.a, x->ta, t.b, x->tb, t.bias, x->alpha,
                                            x->beta, true);
                if (done != can)
                    fail_msg("%s, row %zu: oneDNN %s it", *s, i,
                             done ? "computed" : "did not compute");
                if (done)
                    mm_check(*s, &d, x, i, &t, 1);
                mm_free(&t);
            }
        }
        kd_close(&d);
    }
}

/* Texts of many lengths give products of many shapes. Those that were not used for longest are
 * forgotten, with their code: behind the first 200 shapes memory does not grow. */
TEST(shapes_by_onednn_are_bounded)
{
    enum { FIRST = 200, SHAPES = 700, ROOM = 2 << 20 };

    (void)state;
    if (SANITIZED)
        skip();                                /* it keeps what is freed */
    EACH_SET(s) {
        kd_dev d = kd_open(*s, 1);
        size_t before = 0;
        for (int i = 0; d.dev->dnnl && i < SHAPES; i++) {
            const mm_case x = { 20 + i, 32, 48, 0, 1, VC_F32, VC_F32, VC_F32, 1, 0, 1, 0 };
            mm_data t = mm_make(&x);
            assert_true(cpu_dnnl_matmul(d.dev, t.c, t.a, x.ta, t.b, x.tb, t.bias, x.alpha, x.beta,
                                        true));
            mm_free(&t);
            if (i == FIRST)
                before = vc_heap_used();
        }
        const size_t after = vc_heap_used();
        if (before && after > before + ROOM)
            fail_msg("%s: %zu bytes after %d shapes, %zu after %d", *s, before, FIRST, after,
                     SHAPES);
        kd_close(&d);
    }
}

TEST(large_matmul_by_onednn)
{
    (void)state;
    EACH_SET(s) {
        kd_dev d = kd_open(*s, 2);
        for (size_t i = 0; d.dev->dnnl && i < COUNT(large_cases); i++) {
            const mm_case *x = &large_cases[i];
            bool want = x->a != VC_BF16 || !d.bf16;   /* matmul.c multiplies in bf16 */
            mm_data one = mm_make(x), two = mm_make(x);
            bool done = cpu_matmul_dnnl(d.dev, one.c, one.a, x->ta, one.b, x->tb, one.bias,
                                        x->alpha, x->beta);
            if (done != want)
                fail_msg("%s, row %zu: oneDNN %s it", *s, i, done ? "did" : "did not do");
            if (done) {
                mm_check(*s, &d, x, i, &one, x->k == SLABS ? 37 : 7);
                cpu_matmul_dnnl(d.dev, two.c, two.a, x->ta, two.b, x->tb, two.bias, x->alpha,
                                x->beta);
                if (memcmp(one.c->data, two.c->data, kd_bytes(one.c)))
                    fail_msg("%s, row %zu: the second run has other bits", *s, i);
            }
            mm_free(&one), mm_free(&two);
        }
        kd_close(&d);
    }
}

/* The device plans for two threads and gets one: inside another team, because OpenMP does not nest
 * teams, and in a thread that OpenMP did not start. Each of the two rows of slabs, which take as
 * long as all others, has one of these places. */
enum { IN_TEAM, IN_THREAD, PLACES };

typedef struct threaded_run {
    kd_dev *d;
    const mm_case *x;
    mm_data *t;
} threaded_run;

static void *run_in_thread(void *of)
{
    const threaded_run *e = of;

    mm_run(e->d, e->x, e->t);
    return NULL;
}

TEST(matmul_in_other_teams)
{
    (void)state;
    EACH_SET(s) {
        kd_dev d = kd_open(*s, 2);
        for (size_t i = 0; i < COUNT(large_cases); i++)
            for (int place = 0; place < PLACES; place++) {
                if (large_cases[i].k == SLABS && place != (int)(i % PLACES))
                    continue;
                mm_data t = mm_make(&large_cases[i]);
                threaded_run e = { &d, &large_cases[i], &t };
                pthread_t thread;
                if (place == IN_TEAM) {
#pragma omp parallel num_threads(2)
#pragma omp single
                    run_in_thread(&e);
                } else {
                    assert_int_equal(pthread_create(&thread, NULL, run_in_thread, &e), 0);
                    pthread_join(thread, NULL);
                }
                mm_check(*s, &d, e.x, i, &t, e.x->k == SLABS ? 37 : 7);
                mm_free(&t);
            }
        kd_close(&d);
    }
}

TEST(matmul_same_bits_for_any_threads)
{
    (void)state;
    EACH_SET(s)
        for (size_t i = 0; i < COUNT(mm_cases); i++) {
            mm_data one = mm_make(&mm_cases[i]);
            kd_dev d = kd_open(*s, 1);
            mm_run(&d, &mm_cases[i], &one);
            kd_close(&d);
            for (int threads = 2; threads <= 5; threads += 3) {
                mm_data many = mm_make(&mm_cases[i]);
                d = kd_open(*s, threads);
                mm_run(&d, &mm_cases[i], &many);
                kd_close(&d);
                if (memcmp(one.c->data, many.c->data, kd_bytes(one.c)))
                    fail_msg("%s, row %zu: other bits with %d threads", *s, i, threads);
                mm_free(&many);
            }
            mm_free(&one);
        }
}

/* Where a set says so, a row of a product has the same bits alone with few others as with many. */
static void same_bits_in_a_batch(kd_dev *d, const char *set, vc_dtype type)
{
    static const vc_dtype weights[] = { VC_BF16, VC_F32, VC_F16 };
    static const int64_t rows[] = { 8, 41, 226 }, columns[] = { 40, 133 }, sums[] = { 96, 801 };
    const size_t sizes = COUNT(rows) - SANITIZED;     /* sanitizers take minutes for the last */
    const size_t all = COUNT(weights) * sizes * COUNT(columns) * COUNT(sums) * 2;
    const int64_t size = (int64_t)vc_dtype_size(type);

    for (size_t i = 0; i < all; i++) {
        mm_case x = {
            .m = 4 * rows[i % sizes], .n = columns[i / sizes % 2], .k = sums[i / sizes / 2 % 2],
            .tb = i / sizes / 4 % 2, .a = type, .b = weights[i / sizes / 8], .c = type, .alpha = 1,
            .bias = 1,
        };
        mm_data t = mm_make(&x);
        mm_run(d, &x, &t);
        for (int64_t k = 0; k < 4; k++) {
            vt_tensor a = *t.a, few = *t.was, c = *t.c;
            x.m = a.dim[0] = few.dim[0] = rows[i % sizes];
            a.data = (char *)a.data + k * x.m * a.stride[0] * size;
            c.data = (char *)c.data + k * x.m * c.stride[0] * size;
            d->be->matmul(d->dev, &few, &a, false, t.b, x.tb, t.bias, 1, 0);
            if (memcmp(few.data, c.data, (size_t)(x.m * x.n * size)))
                fail_msg("%s, %s, case %zu: part %d has other bits alone", set,
                         vc_dtype_name(type), i, (int)k);
        }
        mm_free(&t);
    }
}

TEST(matmul_same_bits_in_a_batch)
{
    (void)state;
    EACH_SET(s) {
        kd_dev d = kd_open(*s, 2);
        assert_true(d.be->batch_keeps_bits(d.dev, VC_BF16) == d.bf16);
        assert_false(d.be->batch_keeps_bits(d.dev, VC_F32));
        if (d.bf16)
            same_bits_in_a_batch(&d, *s, VC_BF16);
        kd_close(&d);
        d = kd_open_for_batches(*s, 2);
        bool f32 = d.be->batch_keeps_bits(d.dev, VC_F32);
        assert_true(f32 == !strcmp(*s, "avx2"));
        if (f32) {
            same_bits_in_a_batch(&d, *s, VC_F32);
            same_bits_in_a_batch(&d, *s, VC_BF16);
        }
        kd_close(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matmul_against_f64),
        cmocka_unit_test(products_unpack),
        cmocka_unit_test(matmul_by_onednn),
        cmocka_unit_test(shapes_by_onednn_are_bounded),
        cmocka_unit_test(large_matmul_by_onednn),
        cmocka_unit_test(matmul_in_other_teams),
        cmocka_unit_test(matmul_same_bits_for_any_threads),
        cmocka_unit_test(matmul_same_bits_in_a_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
