/* test_attend.c - attention by products (common/cuda/attend.c) gives what the kernels of attend.h
 * give, for any number of queries at once; and which of the two a shape gets. On the device "host".
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/rng.h"
#include "common/cuda/cuda.h"
#include "tests/device/device_host.h"

enum { Q, K, V, BIAS, LENGTHS, O, LSE, O2, LSE2, ALL };

static vt_dev *d;

static int open_host(void **state)
{
    (void)state;
    return host_backend.open(&d, &(vt_options){ .compute = VC_F32 }, 0, NULL);
}

static int close_host(void **state)
{
    (void)state;
    host_backend.close(d);
    return 0;
}

static size_t bytes_of(const vt_tensor *t)
{
    return (size_t)vt_count(t) * vc_dtype_size(t->dtype);
}

/* Returns a packed tensor with values of draw `row`. */
static vt_tensor make(vc_dtype type, int nd, const int64_t *dim, uint32_t row)
{
    vt_tensor t = { .dtype = type, .nd = nd };
    int64_t n = 1;

    for (int i = nd; i-- > 0; n *= dim[i]) {
        t.dim[i] = dim[i];
        t.stride[i] = n;
    }
    float *z = malloc((size_t)n * sizeof *z);
    t.data = malloc(bytes_of(&t));
    assert_true(z && t.data);
    vc_train_normals(z, 0, (size_t)n, 3, row, 0, 99);
    if (type != VC_I32)
        vc_from_f32(t.data, type, z, (size_t)n);
    free(z);
    return t;
}

static void compare(const vt_tensor *have, const vt_tensor *want, double tolerance, int row)
{
    const size_t size = vc_dtype_size(want->dtype);
    double most = 0;
    float a, b;

    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < vt_count(want); i++) {
            vc_to_f32(&a, (const char *)have->data + (size_t)i * size, have->dtype, 1);
            vc_to_f32(&b, (const char *)want->data + (size_t)i * size, want->dtype, 1);
            most = fmax(most, fabs((double)b));
            if (pass == 1 && !(fabs((double)a - (double)b) <= tolerance * most))
                fail_msg("row %d: element %d is %.9g, should be %.9g", row, (int)i, (double)a,
                         (double)b);
        }
}

/* Odd numbers of queries and keys, lengths, a bias, fewer key heads, and runs of a causal mask. */
static const struct { int64_t sq, sk, h, shared, d, causal; bool lengths, bias; } rows[] = {
    { 11, 11, 1, 1, 40, 0, false, false },
    { 7, 13, 4, 2, 24, 0, true, true },
    { 12, 12, 2, 1, 512, 4, false, false },
    { 9, 20, 2, 2, 8, 1, true, false },
};
enum { ROWS = sizeof rows / sizeof *rows };

static void check_row(int i, vc_dtype type)
{
    const int64_t sq = rows[i].sq, sk = rows[i].sk, h = rows[i].h;
    const int64_t q[] = { 2, sq, h, rows[i].d }, k[] = { 2, sk, h / rows[i].shared, rows[i].d };
    const int64_t scores[] = { 2, h, sq, sk };
    vt_tensor t[ALL] = { make(type, 4, q, 1), make(type, 4, k, 2), make(type, 4, k, 3),
                         make(VC_F32, 4, scores, 4), make(VC_I32, 1, (int64_t[]){ 2 }, 5),
                         make(type, 4, q, 6), make(VC_F32, 3, scores, 7), make(type, 4, q, 6),
                         make(VC_F32, 3, scores, 7) };
    const vt_attn how = { .scale = 0.2f, .causal = rows[i].causal,
                          .kv_len = rows[i].lengths ? &t[LENGTHS] : NULL,
                          .bias = rows[i].bias ? &t[BIAS] : NULL };
    /* probabilities in bf16 have eight bits; in f32 sums have another order */
    const double tolerance = type == VC_F32 ? 1e-5 : 1e-2;

    memcpy(t[LENGTHS].data, ((int32_t[]){ (int32_t)sk, 3 }), 2 * sizeof(int32_t));
    cuda_attend(d, &t[O], &t[LSE], &t[Q], &t[K], &t[V], &how);
    for (int at_once = 1; at_once <= 16; at_once += 3) {
        memset(t[O2].data, 0xff, bytes_of(&t[O2]));
        memset(t[LSE2].data, 0xff, bytes_of(&t[LSE2]));
        host_lanes = at_once == 4 ? HOST_LANES : 1;
        host_counted = (host_count){ .kernel = "softmax" };
        cuda_attend_products(d, host_backend.matmul,
                             (size_t)at_once * (size_t)((sk + 7) / 8 * 8) * sizeof(float), &t[O2],
                             &t[LSE2], &t[Q], &t[K], &t[V], &how);
        host_lanes = 1;
        assert_int_equal(host_counted.named, 2 * h * ((sq + at_once - 1) / at_once));
        compare(&t[O2], &t[O], tolerance, i);
        compare(&t[LSE2], &t[LSE], 1e-5, i);
    }
    for (int n = 0; n < ALL; n++)
        free(t[n].data);
    assert_int_equal(d->fault, 0);
}

static void test_products(void **state)
{
    (void)state;
    for (int i = 0; i < ROWS; i++)
        for (vc_dtype type = VC_F32; type <= VC_BF16; type++)
            check_row(i, type);
}

/* The heads of HunyuanVideo 1.5's and Wan 2.2's autoencoders are 1,024 wide, those of others at
 * most 640. */
static void test_choice(void **state)
{
    static const struct { int64_t d; int softmaxes; } widths[] = { { 384, 0 }, { 512, 0 },
                                                                   { 640, 1 }, { 1024, 1 } };
    (void)state;
    for (int i = 0; i < 4; i++) {
        const int64_t q[] = { 1, 6, 1, widths[i].d }, scores[] = { 1, 1, 6 };
        vt_tensor x = make(VC_F32, 4, q, 1), o = make(VC_F32, 4, q, 2);
        vt_tensor lse = make(VC_F32, 3, scores, 3);
        host_counted = (host_count){ .kernel = "softmax" };
        cuda_attend_either(d, host_backend.matmul, &o, &lse, &x, &x, &x,
                           &(vt_attn){ .scale = 0.1f });
        assert_int_equal(host_counted.named, widths[i].softmaxes);
        free(x.data);
        free(o.data);
        free(lse.data);
    }
    assert_int_equal(d->fault, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, open_host, close_host);
}
