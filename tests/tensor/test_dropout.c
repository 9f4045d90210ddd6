/* test_dropout.c - dropout in linear layers with LoRA, LoHa and LoKr: the references' outputs and
 * gradients with the same masks (scripts/golden/dropout.py), the same draws however a batch is
 * divided and when a block is recomputed, and none outside of training. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/adapters/adapter.h"
#include "common/tensor/ops.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

static const uint64_t seed = 0xfedcba9876543210u, key = 0x1122334455667788u;
enum { ROW = 5, MICRO = 9, BATCH = 3, TOKENS = 5 };
static const char *const cases[] = {
    "input", "neuron", "rank", "module", "all", "down",
    "loha-input", "loha-neuron", "loha-rank", "loha-share", "loha-module", "loha-two", "loha-all",
    "lokr-input", "lokr-neuron", "lokr-rank", "lokr-share", "lokr-module", "lokr-two", "lokr-all",
};
static const double tolerance = 2e-6;          /* of sums of a few f32 products */

static float *values(const vf_safetensors *f, const char *name, const char *what, int64_t dim[8])
{
    char full[64];

    snprintf(full, sizeof full, "%s/%s", name, what);
    return golden_values(f, full, dim);
}

static int64_t count(const int64_t *dim, int nd) { return nd ? *dim * count(dim + 1, nd - 1) : 1; }

static vt_tensor *param(vt_ctx *g, const vf_safetensors *f, const char *name, const char *what,
                        int nd, bool trained)
{
    int64_t dim[8];
    vc_err err = { 0 };
    float *v = values(f, name, what, dim);
    vt_tensor *t = vt_param_new(g, VC_F32, nd, dim, v, VC_F32, false, &err);

    free(v);
    assert_non_null(t);
    if (trained)
        assert_ok(vt_param_train(g, t, VC_F32, &err), &err);
    return t;
}

static vt_ctx *open_threads(int threads)
{
    vt_options o = { .device = golden_device(), .threads = threads, .pool_limit = 16 << 20 };
    vt_ctx *g;
    vc_err err = { 0 };

    assert_ok(vt_open(&g, &o, &err), &err);
    return g;
}

static int compare(const vf_safetensors *f, const char *name, const char *what, const float *have)
{
    int64_t dim[8];
    float *want = values(f, name, what, dim);
    double far = golden_error(have, want, count(dim, strcmp(what, "y") && strcmp(what, "grad_x") ? 2
                                                                                              : 3));

    free(want);
    if (far <= tolerance)
        return 0;
    print_error("%s, %s: %.2e\n", name, what, far);
    return 1;
}

/* Binds the factors of LoHa or LoKr that the golden has for the case. */
static void adapt(vt_ctx *g, const vf_safetensors *f, const char *name, vt_lin *l)
{
    float *scale = values(f, name, "scale", NULL);

    l->adapter = &vt_adapters[strstr(name, "loha") ? VT_ADAPTER_LOHA : VT_ADAPTER_LOKR];
    l->apply = l->adapter->apply;
    l->lora_scale = scale[0];
    for (int i = 0; i < VT_FACTORS; i++) {
        char what[8], full[64];
        vf_view view;
        vc_err err;
        snprintf(what, sizeof what, "f%d", i);
        snprintf(full, sizeof full, "%s/%s", name, what);
        if (!vf_safetensors_get(f, full, &view, &err))
            l->factor[i] = param(g, f, name, what, 2, true);
    }
    free(scale);
}

/* Runs a case on `rows` samples from `first` on, and writes y [rows..] to out; with a gradient,
 * compares all with the golden. */
static int run_case(const vf_safetensors *f, const char *name, int threads, int64_t first,
                    int64_t rows, bool drops, float *out)
{
    static float have[1 << 12];
    vt_ctx *g = open_threads(threads);
    bool down = !strcmp(name, "down"), pair = !strchr(name, '-'), whole = rows == BATCH && drops;
    int64_t dydim[8];
    vc_err err = { 0 };
    float *p = values(f, name, "p", NULL), *dyv = values(f, name, "dy", dydim);
    vt_tensor *w = param(g, f, name, "w", 2, false), *all = param(g, f, name, "x", 3, true),
              *a = pair ? param(g, f, name, "a", 2, true) : NULL,
              *b = pair ? param(g, f, name, "b", 2, true) : NULL,
              *up = down ? param(g, f, name, "up", 2, false) : NULL;
    vt_lin lin = { .w = w, .lora_a = a, .lora_b = b, .lora_scale = 2, .lora_key = key };
    int bad = 0;

    if (!pair)
        adapt(g, f, name, &lin);

    vt_step_begin(g, VT_RECORD);
    if (drops)
        vt_dropout_begin(g, &(vt_dropout){ p[0], p[1], p[2], p[3], !pair && p[4] > 0 }, seed, rows,
                         ROW + (uint32_t)first, MICRO);
    vt_tensor *x = vt_slice(g, all, 0, first, first + rows);
    vt_tensor *y = down ? vt_feed_forward(g, x, &(vt_lin){ .w = up }, &lin)
                        : vt_linear(g, x, &lin);
    vt_tensor *dy = vt_slice(g, vt_from_host(g, VC_F32, 3, dydim, dyv, VC_F32), 0, first,
                             first + rows);
    assert_ok(vt_to_host(g, y, out, &err), &err);
    vt_backward(g, vt_sum(g, vt_mul(g, y, dy)));
    assert_ok(vt_step_end(g, &err), &err);
    const struct { const char *what; vt_tensor *t; } grads[] = {
        { "grad_x", all }, { "grad_a", a }, { "grad_b", b },
        { "grad_f0", lin.factor[0] }, { "grad_f1", lin.factor[1] }, { "grad_f2", lin.factor[2] },
        { "grad_f3", lin.factor[3] }, { "grad_f4", lin.factor[4] }, { "grad_f5", lin.factor[5] },
    };
    if (whole)
        bad += compare(f, name, "y", out);
    for (size_t k = 0; whole && k < COUNT(grads); k++) {
        if (!grads[k].t)
            continue;
        assert_ok(vt_to_host(g, grads[k].t->grad, have, &err), &err);
        bad += compare(f, name, grads[k].what, have);
    }
    vt_tensor *const params[] = { w, all, a, b, up };
    for (size_t k = 0; k < COUNT(params); k++)
        if (params[k])
            vt_param_free(g, params[k]);
    for (int k = 0; k < VT_FACTORS; k++)
        if (lin.factor[k])
            vt_param_free(g, lin.factor[k]);
    free(p), free(dyv);
    vt_close(g);
    return bad;
}

static void test_reference(void **state)
{
    vf_safetensors *f = golden_open("dropout");
    float y[BATCH * TOKENS * 8];
    int bad = 0;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int threads = 1; threads <= 3; threads += 2)
            bad += run_case(f, cases[i], threads, 0, BATCH, true, y);
    vf_safetensors_close(f);
    assert_int_equal(bad, 0);
}

/* A sample has the same draws alone and beside others. */
static void test_divided(void **state)
{
    vf_safetensors *f = golden_open("dropout");
    float whole[BATCH * TOKENS * 8], part[TOKENS * 8], without[BATCH * TOKENS * 8];

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        int64_t dim[8];
        free(values(f, cases[i], "y", dim));
        size_t n = (size_t)(dim[1] * dim[2]);
        run_case(f, cases[i], 1, 0, BATCH, true, whole);
        run_case(f, cases[i], 1, 0, BATCH, false, without);
        assert_memory_not_equal(whole, without, BATCH * n * sizeof *whole);
        for (int b = 0; b < BATCH; b++) {
            run_case(f, cases[i], 1, b, 1, true, part);
            assert_true(golden_error(part, whole + (size_t)b * n, (int64_t)n) <= tolerance);
        }
    }
    vf_safetensors_close(f);
}

/* A probability out of range fails the step. */
static void test_refused(void **state)
{
    static const float wrong[] = { -0.1f, 1, 2 };
    vt_ctx *g = open_threads(1);
    vc_err err;

    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        vt_step_begin(g, VT_RECORD);
        vt_dropout_begin(g, &(vt_dropout){ .rank = wrong[i] }, 1, 1, 0, 0);
        assert_int_equal(vt_step_end(g, &err), VC_EINVAL);
    }
    vt_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference), cmocka_unit_test(test_divided),
        cmocka_unit_test(test_refused),
    };
    if (!golden_has_device())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
