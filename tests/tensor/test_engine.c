/* test_engine.c - the engine around the ops: pool, failures and their messages, scopes, host
 * data. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/tensor/backend.h"
#include "common/tensor/pool.h"
#include "tests/tensor/engine_model.h"

/* ---- pool ---- */

static void test_pool(void **state)
{
    vt_pool p = { .limit = 1024 };
    size_t a, b, c, d;

    (void)state;
    assert_int_equal(vt_pool_take(&p, 100, &a), 0);           /* takes 128 bytes */
    assert_int_equal(vt_pool_take(&p, 64, &b), 0);
    assert_int_equal(vt_pool_take(&p, 256, &c), 0);
    assert_int_equal(vt_pool_take(&p, 1, &d), 0);
    assert_int_equal(a, 0);
    assert_int_equal(b, 128);
    assert_int_equal(c, 192);
    assert_int_equal(d, 448);
    vt_pool_give(&p, c, 256);
    vt_pool_give(&p, a, 100);
    assert_int_equal(p.gaps, 2);
    assert_int_equal(vt_pool_take(&p, 65, &a), 0);            /* best fit: 128, not 256 */
    assert_int_equal(a, 0);
    vt_pool_give(&p, a, 65);
    vt_pool_give(&p, b, 64);                                  /* merges with both neighbours */
    assert_int_equal(p.gaps, 1);
    assert_int_equal(vt_pool_take(&p, 448, &a), 0);
    assert_int_equal(a, 0);
    assert_int_equal(vt_pool_take(&p, 600, &b), VC_ENOMEM);   /* 512 bytes are free */
    vt_pool_give(&p, d, 1);
    assert_int_equal(p.top, 448);
    vt_pool_give(&p, a, 448);
    assert_int_equal(p.top, 0);
    assert_int_equal(p.gaps, 0);
    assert_int_equal(p.peak, 512);
    vt_pool_close(&p);
}

/* Spans that are taken and given back at random never overlap; when all are free, they are one span
 * again. */
static void test_pool_random(void **state)
{
    enum { N = 200 };
    vt_pool p = { .limit = 1 << 20 };
    struct { size_t at, bytes; } held[N];
    uint32_t x = 1;
    int n = 0;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        x = x * 1664525u + 1013904223u;
        if (n < N && (x >> 24) % 2) {
            size_t bytes = 1 + (x >> 8) % 5000, at;
            assert_int_equal(vt_pool_take(&p, bytes, &at), 0);
            for (int i = 0; i < n; i++)
                assert_true(at + bytes <= held[i].at || held[i].at + held[i].bytes <= at);
            held[n].at = at;
            held[n++].bytes = bytes;
        } else if (n) {
            int i = (int)((x >> 8) % (uint32_t)n);
            vt_pool_give(&p, held[i].at, held[i].bytes);
            held[i] = held[--n];
        }
    }
    while (n--)
        vt_pool_give(&p, held[n].at, held[n].bytes);
    assert_int_equal(p.top, 0);
    assert_int_equal(p.gaps, 0);
    vt_pool_close(&p);
}

/* ---- failures ---- */

static void test_first_failure_sticks(void **state)
{
    vt_ctx *g = em_context(VC_F32);
    vc_err err = { 0 };

    (void)state;
    vt_step_begin(g, VT_RECORD);
    vt_tensor *a = vt_new(g, VC_F32, 2, (int64_t[]){ 3, 4 });
    vt_tensor *b = vt_new(g, VC_F32, 2, (int64_t[]){ 3, 5 });
    vt_tensor *c = vt_add(g, a, b);
    assert_null(c);
    assert_true(vt_failed(g));
    assert_null(vt_silu(g, c));
    assert_null(vt_attention(g, c, c, c, NULL));              /* only the first failure counts */
    assert_null(vt_add(g, a, a));
    vt_tensor *out[2] = { a, a };
    vt_chunk(g, a, 1, 2, out);
    assert_null(out[0]);
    vt_backward(g, c);
    assert_true(isnan(vt_item(g, c)));
    assert_true(isnan(vt_item(g, a)));
    assert_int_equal(vt_step_end(g, &err), VC_EINVAL);
    assert_string_equal(err.text,
                        "add: the second does not broadcast to the first: [3,4] f32, [3,5] f32");
    vt_step_begin(g, 0);                                      /* the next step has no failure */
    assert_false(vt_failed(g));
    assert_int_equal(vt_step_end(g, &err), 0);
    vt_close(g);
}

static vt_tensor *bad_scope(vt_ctx *g, vt_tensor *x)
{
    vt_scope s = vt_scope_begin(g);
    vt_tensor *y = vt_silu(g, x);
    vt_scope_end(g, s, 0, NULL);
    return vt_silu(g, y);
}

static vt_tensor *bad_slice(vt_ctx *g, vt_tensor *x) { return vt_slice(g, x, 1, 2, 9); }
static vt_tensor *bad_axis(vt_ctx *g, vt_tensor *x) { return vt_slice(g, x, 2, 0, 1); }
static vt_tensor *bad_count(vt_ctx *g, vt_tensor *x)
{
    return vt_reshape(g, x, 2, (int64_t[]){ 5, -1 });
}
static vt_tensor *bad_size(vt_ctx *g, vt_tensor *x)
{
    (void)x;
    return vt_new(g, VC_F32, 2, (int64_t[]){ INT64_MAX / 2, 8 });
}
static vt_tensor *bad_zero(vt_ctx *g, vt_tensor *x)
{
    (void)x;
    return vt_new(g, VC_F32, 1, (int64_t[]){ 0 });
}
static vt_tensor *bad_linear(vt_ctx *g, vt_tensor *x)
{
    return vt_linear(g, x, &(vt_lin){ .w = vt_reshape(g, x, 2, (int64_t[]){ 2, 6 }) });
}
static vt_tensor *bad_missing(vt_ctx *g, vt_tensor *x) { return vt_add(g, x, NULL); }
static vt_tensor *bad_memory(vt_ctx *g, vt_tensor *x)
{
    (void)x;
    return vt_new(g, VC_F32, 2, (int64_t[]){ 1 << 13, 1 << 13 });
}
static vt_tensor *bad_loss(vt_ctx *g, vt_tensor *x)
{
    vt_backward(g, x);
    return NULL;
}
static vt_tensor *bad_heads(vt_ctx *g, vt_tensor *x)
{
    vt_tensor *q = vt_reshape(g, x, 4, (int64_t[]){ 1, 3, 1, 4 });
    return vt_attention(g, q, q, q, NULL);
}
static vt_tensor *bad_outside(vt_ctx *g, vt_tensor *x)
{
    return vt_fail(g, VC_ENUMERIC, "sigma is %g at row %d", 2.5, (int)x->dim[0]);
}

static void test_messages(void **state)
{
    static const struct {
        vt_tensor *(*run)(vt_ctx *g, vt_tensor *x);
        int code;
        const char *text;
    } cases[] = {
        { bad_scope, VC_EINVAL, "silu: operand was given back when its scope ended: [3,4] f32" },
        { bad_slice, VC_EINVAL, "slice: 2 to 9 of axis 1, which has 4" },
        { bad_axis, VC_EINVAL, "slice: no such axis: [3,4] f32" },
        { bad_count, VC_EINVAL, "reshape: another number of elements: [3,4] f32" },
        { bad_size, VC_EINVAL, "is not possible" },
        { bad_zero, VC_EINVAL, "axis 0 of size 0 is not possible" },
        { bad_linear, VC_EINVAL,
          "linear: the last axis of x must be the last of w [out,in]: [3,4] f32, [2,6] f32" },
        { bad_missing, VC_EFAIL, "add: operand 2 is missing" },
        { bad_memory, VC_ENOMEM, "[8192,8192] f32 needs 268435456 bytes" },
        { bad_loss, VC_EINVAL, "backward: the loss must be one f32 value: [3,4] f32" },
        { bad_heads, VC_EINVAL, "attention: the head size must be a multiple of 8, at most 1024" },
        { bad_outside, VC_ENUMERIC, "sigma is 2.5 at row 3" },
    };
    vt_ctx *g = em_context(VC_F32);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vc_err err = { 0 };
        vt_step_begin(g, VT_RECORD);
        vt_tensor *x = em_input(g, 2, (int64_t[]){ 3, 4 });
        assert_null(cases[i].run(g, x));
        assert_int_equal(vt_step_end(g, &err), cases[i].code);
        if (!strstr(err.text, cases[i].text))
            fail_msg("\"%s\" lacks \"%s\"", err.text, cases[i].text);
    }
    vt_close(g);
}

static void test_open_errors(void **state)
{
    static const struct { vt_options o; const char *text; } cases[] = {
        { { .device = "cuda" }, "-DVLT_CUDA=ON" },
        { { .device = "tpu" }, "auto, cpu, cuda or cuda:N" },
        { { .device = "cpu:x" }, "no number after the colon" },
        { { .device = "cpu:3" }, "one CPU device" },
        { { .device = "cpu", .kernels = "mmx" }, "this machine can run plain" },
        { { .device = "cpu", .threads = -1 }, "-1 threads" },
        { { .device = "cpu", .compute = VC_F16 }, "f32 or bf16" },
    };

    (void)state;
    bool gpu = vt_backends()[1] != NULL;       /* the first row does not apply to a CUDA build */
    for (size_t i = gpu; i < sizeof cases / sizeof *cases; i++) {
        vc_err err = { 0 };
        vt_ctx *g = (vt_ctx *)&err;
        assert_int_equal(vt_open(&g, &cases[i].o, &err), VC_EINVAL);
        assert_null(g);
        if (!strstr(err.text, cases[i].text))
            fail_msg("\"%s\" lacks \"%s\"", err.text, cases[i].text);
    }
    vt_ctx *g;
    assert_int_equal(vt_open(&g, &(vt_options){ .device = gpu ? "cpu" : "auto", .threads = 1,
                                                .kernels = "plain" }, NULL), 0);
    assert_non_null(strstr(vt_describe(g), "cpu: plain"));
    assert_non_null(strstr(vt_describe(g), "1 thread, activations f32"));
    vt_close(g);
    vt_close(NULL);
}

/* "auto" opens the best possible backend; the description names it, and the reason against a better
 * one. */
static void test_auto(void **state)
{
    vt_ctx *g;

    (void)state;
    assert_int_equal(vt_open(&g, &(vt_options){ .device = "auto", .pool_limit = 1 << 20 }, NULL),
                     0);
    const char *text = vt_describe(g), *best = vt_backends()[0]->name;
    bool best_opened = !strncmp(text, best, strlen(best)) && text[strlen(best)] == ':';
    if (!best_opened && (strncmp(text, "cpu: ", 5) || !strstr(text, " (cuda: ")))
        fail_msg("\"%s\"", text);
    vt_close(g);
}

/* ---- scopes ---- */

static size_t chain_peak(vt_ctx *g, int n)
{
    vt_step_begin(g, 0);
    vt_scope s = vt_scope_begin(g);
    vt_tensor *x = em_input(g, 2, (int64_t[]){ 32, 64 });
    for (int i = 0; i < n; i++) {
        vt_tensor *y = vt_add(g, x, vt_gelu(g, vt_scale(g, x, 0.5f)));
        vt_tensor *view = vt_reshape(g, y, 2, (int64_t[]){ 64, 32 });
        view = vt_reshape(g, view, 2, (int64_t[]){ 32, 64 });
        vt_scope_end(g, s, 1, &view);
        x = view;
    }
    float z[32 * 64];
    assert_int_equal(vt_to_host(g, x, z, NULL), 0);
    assert_false(isnan(z[100]));
    assert_int_equal(vt_step_end(g, NULL), 0);
    return vt_usage_of(g).pool_peak;
}

static void test_scopes(void **state)
{
    vt_ctx *g = em_context(VC_F32);
    size_t one = 32 * 64 * 4;

    (void)state;
    for (int n = 1; n <= 1000; n *= 10)
        assert_int_equal(chain_peak(g, n), 4 * one);
    vt_close(g);
}

/* A tensor made for the step outlives the scope that made the tensor, and the step's end frees its
 * memory. */
static void test_for_step(void **state)
{
    vt_ctx *g = em_context(VC_F32);
    int64_t dim[2] = { 32, 64 };
    float z[32 * 64];

    (void)state;
    assert_null(vt_new_for_step(g, VC_F32, 2, dim));          /* outside a step */
    for (int again = 0; again < 2; again++) {
        vt_step_begin(g, 0);
        vt_scope s = vt_scope_begin(g);
        vt_tensor *x = em_input(g, 2, dim), *kept = vt_new_for_step(g, VC_F32, 2, dim);
        vt_assign(g, kept, x);
        vt_scope_end(g, s, 0, NULL);
        for (int i = 0; i < 3; i++) {
            vt_scale(g, em_input(g, 2, dim), 0);              /* reuses memory of the scope */
            vt_scope_end(g, s, 0, NULL);
        }
        vt_tensor *sum = vt_sub(g, kept, em_input(g, 2, dim));
        assert_int_equal(vt_to_host(g, sum, z, NULL), 0);
        for (int i = 0; i < 32 * 64; i++)
            assert_true(z[i] == 0);
        assert_int_equal(vt_step_end(g, NULL), 0);
        assert_int_equal(vt_usage_of(g).pool_peak, 3 * sizeof z);
    }
    vt_close(g);
}

/* The gradient of sum(w * detached w) is that of a factor that does not depend on w. */
static void test_detach(void **state)
{
    vt_ctx *g = em_context(VC_F32);
    const int64_t dim[1] = { 3 };
    const float values[3] = { 1, -2, 3 };

    (void)state;
    vt_tensor *w = vt_param_new(g, VC_F32, 1, dim, values, VC_F32, false, NULL);
    assert_non_null(w);
    assert_int_equal(vt_param_train(g, w, VC_F32, NULL), 0);
    vt_step_begin(g, VT_RECORD);
    vt_backward(g, vt_sum(g, vt_mul(g, w, vt_detach(g, w))));
    assert_int_equal(vt_step_end(g, NULL), 0);
    for (int i = 0; i < 3; i++)
        assert_true(((const float *)w->grad->data)[i] == values[i]);
    vt_param_free(g, w);
    vt_close(g);
}

/* Values of every type are copied in, and values of every kind of view are copied out. */
static void test_host(void **state)
{
    vt_ctx *g = em_context(VC_BF16);
    static char raw[8 * 24 + 1];
    double aligned[24];
    float out[24];

    (void)state;
    vt_step_begin(g, 0);
    for (vc_dtype t = VC_F32; t <= VC_U8; t++) {
        float v[24];
        for (int i = 0; i < 24; i++)
            v[i] = (float)(i % 8);
        vc_from_f32(aligned, t, v, 24);
        memcpy(raw + 1, aligned, 24 * vc_dtype_size(t));      /* misaligned, as in files */
        vt_tensor *x = vt_from_host(g, t <= VC_F8E5M2 ? t : VC_F32, 3, (int64_t[]){ 2, 3, 4 },
                                    raw + 1, t);
        assert_int_equal(vt_to_host(g, x, out, NULL), 0);
        assert_memory_equal(out, v, sizeof v);
        assert_int_equal(vt_to_host(g, vt_permute(g, x, (int[]){ 2, 0, 1 }), out, NULL), 0);
        assert_true(out[7] == v[1 + 4]);                      /* [1][0][1] is x[0][1][1] */
    }
    assert_int_equal(vt_step_end(g, NULL), 0);
    vt_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool),
        cmocka_unit_test(test_pool_random),
        cmocka_unit_test(test_first_failure_sticks),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_open_errors),
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_scopes), cmocka_unit_test(test_for_step),
        cmocka_unit_test(test_detach),
        cmocka_unit_test(test_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
