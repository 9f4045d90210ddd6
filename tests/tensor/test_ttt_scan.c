/* test_ttt_scan.c - the inner scan of test-time training: the reference's values
 * (scripts/golden/ttt_scan.py), the same bits for any group and number of threads, its memory and
 * its errors. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/tensor/ops.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"

enum { OPERANDS = 10, OUTPUT = OPERANDS, RESULTS };
static const char *const names[] = { "q", "k", "target", "eta", "gamma", "beta", "w1", "b1", "w2",
                                     "b2", "dout" };
static const int axes[] = { 4, 4, 4, 3, 2, 2, 3, 3, 3, 3, 4 };

/* The largest distance, relative to the largest value. The reference's own f32 lies within 8e-7 of
 * its f64 (the golden's metadata `f32`); other orders of its sums are a few times as far. */
static const double tolerance = 3e-6;
static const struct {
    const char *name;
    int operands, mini_batch, group;
} cases[] = {
    { "linear", 8, 4, 2 },   { "linear.wide", 8, 16, 3 }, { "mlp", 10, 4, 2 },
    { "mlp.odd", 10, 6, 2 }, { "real", 10, 16, 2 },
};
enum { CASES = sizeof cases / sizeof *cases };

/* The output of a case, its operands' gradients, and their numbers of elements. */
typedef struct result {
    float *v[RESULTS];
    int64_t n[RESULTS];
} result;

static void free_result(result *r)
{
    for (int k = 0; k < RESULTS; k++)
        free(r->v[k]);
}

/* Returns a tensor of a case, whose name may have a prefix. */
static float *values(const vf_safetensors *f, int i, const char *prefix, const char *what,
                     int64_t dim[8])
{
    char name[64];

    snprintf(name, sizeof name, "%s/%s%s", cases[i].name, prefix, what);
    return golden_values(f, name, dim);
}

static int64_t count(const int64_t *dim, int nd) { return nd ? *dim * count(dim + 1, nd - 1) : 1; }

static vt_ctx *open_threads(int threads)
{
    vt_options o = { .device = golden_device(), .threads = threads, .pool_limit = 64 << 20 };
    vt_ctx *g;
    vc_err err = { 0 };

    assert_ok(vt_open(&g, &o, &err), &err);
    return g;
}

static vt_tensor *scan(vt_ctx *g, vt_tensor *const x[OPERANDS], int mini_batch, int group)
{
    return vt_ttt_scan(g, &(vt_ttt){
        .q = x[0], .k = x[1], .target = x[2], .eta = x[3], .gamma = x[4], .beta = x[5],
        .w1 = x[6], .b1 = x[7], .w2 = x[8], .b2 = x[9], .mini_batch = mini_batch, .group = group });
}

static result run(const vf_safetensors *f, int i, int threads, int group)
{
    vt_ctx *g = open_threads(threads);
    vt_tensor *x[OPERANDS] = { NULL };
    int64_t dim[8];
    result r = { { NULL }, { 0 } };
    vc_err err = { 0 };

    for (int k = 0; k < cases[i].operands; k++) {
        float *v = values(f, i, "", names[k], dim);
        x[k] = vt_param_new(g, VC_F32, axes[k], dim, v, VC_F32, false, &err);
        assert_non_null(x[k]);
        assert_ok(vt_param_train(g, x[k], VC_F32, &err), &err);
        r.n[k] = count(dim, axes[k]);
        r.v[k] = v;
    }
    float *dout = values(f, i, "", "dout", dim);
    r.n[OUTPUT] = count(dim, 4);
    r.v[OUTPUT] = calloc((size_t)r.n[OUTPUT], sizeof(float));
    vt_step_begin(g, VT_RECORD);
    vt_tensor *o = scan(g, x, cases[i].mini_batch, group);
    assert_ok(vt_to_host(g, o, r.v[OUTPUT], &err), &err);
    vt_backward(g, vt_sum(g, vt_mul(g, o, vt_from_host(g, VC_F32, 4, dim, dout, VC_F32))));
    assert_ok(vt_step_end(g, &err), &err);
    for (int k = 0; k < cases[i].operands; k++) {
        assert_ok(vt_to_host(g, x[k]->grad, r.v[k], &err), &err);
        vt_param_free(g, x[k]);
    }
    free(dout);
    vt_close(g);
    return r;
}

static void test_reference(void **state)
{
    vf_safetensors *f = golden_open("ttt_scan");
    int bad = 0;

    (void)state;
    for (int i = 0; i < CASES; i++) {
        result r = run(f, i, 2, cases[i].group);
        for (int k = 0; k < RESULTS; k++) {
            if (!r.v[k])
                continue;
            float *want = values(f, i, k == OUTPUT ? "" : "d", k == OUTPUT ? "o" : names[k], NULL);
            double far = golden_error(r.v[k], want, r.n[k]);
            if (!(far <= tolerance)) {
                print_error("%s, %s: %.2e\n", cases[i].name, k == OUTPUT ? "o" : names[k], far);
                bad++;
            }
            free(want);
        }
        free_result(&r);
    }
    vf_safetensors_close(f);
    assert_int_equal(bad, 0);
}

/* Groups change only which states are computed again, and threads only who computes a head. */
static void test_same_bits(void **state)
{
    static const struct { int threads, group; } ways[] = { { 1, 1 }, { 3, 0 }, { 1, 100 },
                                                           { 4, 4 } };
    vf_safetensors *f = golden_open("ttt_scan");

    (void)state;
    for (int i = 0; i < CASES; i++) {
        result want = run(f, i, 2, cases[i].group);
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            result r = run(f, i, ways[w].threads, ways[w].group);
            for (int k = 0; k < RESULTS; k++)
                if (want.v[k])
                    assert_memory_equal(r.v[k], want.v[k], (size_t)want.n[k] * sizeof(float));
            free_result(&r);
        }
        free_result(&want);
    }
    vf_safetensors_close(f);
}

/* ---- memory and errors: B 1, H 2, D 8, E 16 ---- */

enum { H = 2, D = 8, E = 16 };

static void make(vt_ctx *g, int64_t length, vt_tensor *x[OPERANDS], bool train)
{
    const int64_t dims[OPERANDS][4] = {
        { 1, length, H, D }, { 1, length, H, D }, { 1, length, H, D }, { 1, length, H },
        { H, D }, { H, D }, { H, D, E }, { H, 1, E }, { H, E, D }, { H, 1, D },
    };
    vc_err err = { 0 };

    for (int k = 0; k < OPERANDS; k++) {
        x[k] = vt_param_new(g, VC_F32, axes[k], dims[k], NULL, VC_F32, false, &err);
        assert_non_null(x[k]);
        if (train)
            assert_ok(vt_param_train(g, x[k], VC_F32, &err), &err);
    }
}

static vt_usage usage(vt_ctx *g, vt_tensor *const x[OPERANDS], int flags)
{
    vc_err err = { 0 };

    vt_step_begin(g, VT_RECORD | flags);
    vt_backward(g, vt_sum(g, scan(g, x, 4, 0)));
    assert_ok(vt_step_end(g, &err), &err);
    return vt_usage_of(g);
}

/* A dry step predicts the pool and the scratch to the byte, and the memory beside the activations
 * grows with the root of the length: 16 times as many mini-batches need 4 times as many states. */
static void test_memory(void **state)
{
    vt_ctx *g = open_threads(2);
    int64_t kept[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        int64_t length = i ? 4 * 256 : 4 * 16, activations = length * H * D * 4;
        vt_tensor *x[OPERANDS];
        make(g, length, x, true);
        vt_usage dry = usage(g, x, VT_DRY), real = usage(g, x, 0);
        assert_int_equal(dry.pool_peak, real.pool_peak);
        assert_int_equal(dry.scratch, real.scratch);
        kept[i] = (int64_t)dry.saved - activations;
        for (int k = 0; k < OPERANDS; k++)
            vt_param_free(g, x[k]);
    }
    assert_between(kept[1], 1, 4 * kept[0]);
    vt_close(g);
}

static void test_errors(void **state)
{
    static const struct { int operand, from, mini_batch; const char *says; } wrong[] = {
        { 0, 0, 5, "ttt_scan: a sequence of 8 tokens is no multiple of a mini-batch of 5" },
        { 0, 0, 0, "8 tokens is no multiple of a mini-batch of 0" },
        { 1, 3, 4, "q, k and target must be equal [B,L,H,D]" },
        { 3, 0, 4, "eta must be [B,L,H]" },
        { 4, 3, 4, "gamma and beta must be [H,D]" },
        { 6, 8, 4, "w1 must be [H,D,E], b1 [H,E] or [H,1,E]" },
        { 7, 9, 4, "w1 must be [H,D,E], b1 [H,E] or [H,1,E]" },
        { 8, 6, 4, "w2 must be [H,E,D], b2 [H,D] or [H,1,D]" },
        { 9, 7, 4, "w2 must be [H,E,D], b2 [H,D] or [H,1,D]" },
        { 9, -1, 4, "w2 and b2 go together" },
    };
    vt_ctx *g = open_threads(1);
    vt_tensor *x[OPERANDS];
    vc_err err;

    (void)state;
    make(g, 8, x, false);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        vt_tensor *y[OPERANDS];
        memcpy(y, x, sizeof y);
        y[wrong[i].operand] = wrong[i].from < 0 ? NULL : x[wrong[i].from];
        vt_step_begin(g, 0);
        assert_null(scan(g, y, wrong[i].mini_batch, 0));
        assert_int_equal(vt_step_end(g, &err), VC_EINVAL);
        assert_says(&err, wrong[i].says);
    }
    vt_step_begin(g, 0);                       /* one layer whose matrix is not square */
    vt_tensor *one[OPERANDS] = { NULL };
    memcpy(one, x, 8 * sizeof *x);
    assert_null(scan(g, one, 4, 0));
    assert_int_equal(vt_step_end(g, &err), VC_EINVAL);
    assert_says(&err, "w1 must be [H,D,D] without w2");
    for (int k = 0; k < OPERANDS; k++)
        vt_param_free(g, x[k]);
    vt_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_errors),
    };
    if (!golden_has_device())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
