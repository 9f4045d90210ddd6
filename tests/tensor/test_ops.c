/* test_ops.c - every op on every backend and CPU kernel set: its value is compared with an
 * independent f64 loop and its gradient with central differences of this loop, in f32 and bf16,
 * with packed, sliced and permuted inputs, and a second run must have the same bits. The rows, one
 * for each op and shape, are in ops_elem.c and other files by subject; see ops.h. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/tensor/backend.h"
#include "tests/lib/ok.h"
#include "tests/tensor/ops.h"

static const op_case *const all[] = { ops_shape, ops_elem, ops_norm, ops_matmul, ops_attn, ops_conv,
                                      ops_ttt };

enum { CONTEXTS = 10 };

/* Checks a list of rows in one compute type on n contexts; returns the number of failures. */
static int check_rows(const op_case *rows, vt_ctx *const *g, int n, vc_dtype type)
{
    static const char *const layout[] = { "packed", "sliced", "permuted" };
    const char *only = getenv("VLT_OP");       /* name of an op: only its rows are checked */
    char why[256];
    int bad = 0;

    for (; rows->name; rows++) {
        if (only && strncmp(rows->name, only, strlen(only)))
            continue;
        op_want *w = op_want_open(rows, type);
        for (int k = 0; k < n; k++)
            for (int l = 0; l < OP_LAYOUTS; l++)
                if (op_check(g[k], w, l, why)) {
                    print_error("%s, %s on %s: %s\n", rows->name, layout[l], vt_describe(g[k]),
                                why);
                    bad++;
                }
        op_want_close(w);
    }
    return bad;
}

static int check_all(vt_ctx *const *g, int n, vc_dtype type)
{
    int bad = 0;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        bad += check_rows(all[i], g, n, type);
    return bad;
}

/* Opens each kernel set that this machine can run, with one thread and with two. */
static int open_cpu(vt_ctx **g, vc_dtype type)
{
    static const char *const sets[] = { "plain", "avx2", "avx512", "avx512_bf16",
                                       "amx" };
    int n = 0;

    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        for (int threads = 1; threads <= 2; threads++) {
            vt_options o = { .device = "cpu", .kernels = sets[i], .threads = threads,
                             .compute = type, .pool_limit = 64 << 20 };
            if (!vt_open(&g[n], &o, NULL))
                n++;
            else if (threads == 1)
                print_message("this machine cannot run kernel set %s\n", sets[i]);
        }
    return n;
}

static void test_cpu(void **state)
{
    int bad = 0;

    (void)state;
    for (vc_dtype type = VC_F32; type <= VC_BF16; type++) {
        vt_ctx *g[CONTEXTS];
        int n = open_cpu(g, type);
        assert_true(n >= 2);
        bad += check_all(g, n, type);
        while (n--)
            vt_close(g[n]);
    }
    assert_int_equal(bad, 0);
}

static void test_other_backends(void **state)
{
    int others = 0, bad = 0;

    (void)state;
    for (const vt_backend *const *be = vt_backends(); *be; be++)
        for (vc_dtype type = VC_F32; strcmp((*be)->name, "cpu") && type <= VC_BF16; type++) {
            vt_options o = { .device = (*be)->name, .compute = type, .pool_limit = 64 << 20 };
            vt_ctx *g;
            vc_err err;
            if (vt_open(&g, &o, &err)) {
                print_message("%s: %s\n", (*be)->name, err.text);
                continue;
            }
            bad += check_all(&g, 1, type);
            vt_close(g);
            others++;
        }
    if (!others)
        skip();
    assert_int_equal(bad, 0);
}

/* The noise of a step is that of rng.h, for any number of threads. */
static void test_randn(void **state)
{
    enum { B = 2, N = 5003 };
    float have[B * N], want[B * N];

    (void)state;
    for (uint32_t b = 0; b < B; b++)
        vc_train_normals(want + b * N, 0, N, 11, 4 + b, 9, VC_DRAW_NOISE);
    for (int threads = 1; threads <= 2; threads++) {
        vt_options o = { .device = "cpu", .threads = threads, .pool_limit = 1 << 20 };
        vt_ctx *g;
        assert_int_equal(vt_open(&g, &o, NULL), 0);
        vt_step_begin(g, 0);
        vt_tensor *z = vt_randn(g, 2, (int64_t[]){ B, N }, 11, 4, 9, VC_DRAW_NOISE);
        assert_int_equal(vt_to_host(g, z, have, NULL), 0);
        assert_memory_equal(have, want, sizeof want);
        assert_int_equal(vt_step_end(g, NULL), 0);
        vt_close(g);
    }
}

/* An id outside of the table fails the step, and the error names the id. */
static void test_embedding_range(void **state)
{
    static const float table[6];
    const int32_t ids[2][2] = { { 1, 3 }, { -1, 2 } };
    const char *expected[2] = { "id 3 at 1, the table has 3 rows", "id -1 at 0" };
    const vt_options o = { .device = "cpu", .pool_limit = 1 << 20 };
    vt_ctx *g;
    vc_err err;

    (void)state;
    assert_int_equal(vt_open(&g, &o, NULL), 0);
    vt_tensor *t = vt_param_new(g, VC_F32, 2, (int64_t[]){ 3, 2 }, table, VC_F32, true, NULL);
    for (int i = 0; i < 2; i++) {
        vt_step_begin(g, 0);
        vt_embedding(g, t, vt_from_host(g, VC_I32, 1, (int64_t[]){ 2 }, ids[i], VC_I32));
        assert_int_equal(vt_step_end(g, &err), VC_EINVAL);
        assert_says(&err, expected[i]);
    }
    vt_param_free(g, t);
    vt_close(g);
}

/* Ops without a gradient fail if a gradient is needed, and refuse operands that do not fit. */
static void test_forward_only(void **state)
{
    const vt_options o = { .device = "cpu", .pool_limit = 1 << 20 };
    const int64_t shape[] = { 1, 4, 2, 8 }, wide[] = { 2, 4, 5 };
    vt_ctx *g;
    vc_err err;

    (void)state;
    assert_int_equal(vt_open(&g, &o, NULL), 0);
    vt_tensor *w = vt_param_new(g, VC_F32, 4, shape, NULL, VC_F32, false, NULL);
    vt_tensor *b = vt_param_new(g, VC_F32, 2, shape + 1, NULL, VC_F32, false, NULL);
    vt_tensor *odd = vt_param_new(g, VC_F32, 3, wide, NULL, VC_F32, false, NULL);
    vt_tensor *half = vt_param_new(g, VC_BF16, 1, (int64_t[]){ 4 }, NULL, VC_BF16, false, NULL);
    assert_int_equal(vt_param_train(g, b, VC_F32, NULL), 0);
    vt_tensor *train[3];
    for (int k = 0; k < 3; k++) {
        const int64_t n[] = { 64, 264, 1032 };
        train[k] = vt_param_new(g, VC_F32, 1, &n[k], NULL, VC_F32, false, NULL);
        assert_int_equal(vt_param_train(g, train[k], VC_F32, NULL), 0);
    }
    for (int i = 0; i < 16; i++) {
        static const char *const messages[] = {
            "attention: it has no gradient with a bias", "distances: it has no gradient",
            "embedding: it has no gradient", "have Sk columns: ", "have Sk columns: ",
            "attention: a causal run is negative", "x must be [..,Sq+Sk-1]",
            "x must be [..,Sq+Sk-1]", "embedding: operand 2 is missing", "packed [V,D], ids i32",
            "packed [V,D], ids i32",               /* only the first failure is reported */
            "a bias or a causal mask: ", "fewer key heads than query heads", "heads above 256",
            "must be a multiple of the key heads", "at most 1024",
        };
        vt_step_begin(g, VT_RECORD);
        vt_tensor *bias = vt_reshape(g, b, 3, (int64_t[]){ 2, 1, 4 });
        vt_tensor *id = vt_from_host(g, VC_I32, 1, (int64_t[]){ 1 }, &(int32_t){ 0 }, VC_I32);
        vt_tensor *one = vt_slice(g, w, 2, 0, 1), *heads[3];
        for (int k = 0; k < 3; k++)
            heads[k] = vt_reshape(g, train[k], 4, k ? (int64_t[]){ 1, 1, 1, -1 } : shape);
        vt_tensor *y = i == 0 ? vt_attention(g, w, w, w, &(vt_attn){ .bias = bias })
                     : i == 1 ? vt_distances(g, b, 2)
                     : i == 2 ? vt_embedding(g, b, id)
                     : i == 3 ? vt_attention(g, w, w, w, &(vt_attn){ .bias = odd })
                     : i == 4 ? vt_attention(g, w, w, w, &(vt_attn){ .bias = half })
                     : i == 5 ? vt_attention(g, w, w, w, &(vt_attn){ .causal = -1 })
                     : i == 6 ? vt_distances(g, odd, 6)
                     : i == 7 ? vt_distances(g, odd, 0)
                     : i == 8 ? vt_embedding(g, half, NULL)
                     : i == 9 ? vt_embedding(g, half, id)
                     : i == 10 ? vt_distances(g, vt_embedding(g, half, id), 2)
                     : i == 11 ? vt_attention(g, heads[0], w, w, &(vt_attn){ .causal = 1 })
                     : i == 12 ? vt_attention(g, heads[0], one, one, NULL)
                     : i == 13 ? vt_attention(g, heads[1], heads[1], heads[1], NULL)
                     : i == 14 ? vt_attention(g, one, w, w, NULL)
                     : vt_attention(g, heads[2], heads[2], heads[2], NULL);
        assert_null(y);
        assert_int_not_equal(vt_step_end(g, &err), 0);
        if (!strstr(err.text, messages[i]))
            fail_msg("%d: %s", i, err.text);
    }
    vt_param_free(g, w);
    vt_param_free(g, b);
    vt_param_free(g, odd);
    vt_param_free(g, half);
    for (int k = 0; k < 3; k++)
        vt_param_free(g, train[k]);
    vt_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_other_backends),
        cmocka_unit_test(test_randn),
        cmocka_unit_test(test_embedding_range),
        cmocka_unit_test(test_forward_only),
    };
    cmocka_set_test_filter(getenv("VLT_TEST"));    /* a test's name, with * as a wildcard */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
