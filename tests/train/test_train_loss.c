/* test_train_loss.c - levels on a table, weights, losses and gradients against diffusers
 * and PyTorch (scripts/golden/objective.py) */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/tensor/tensor.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "train/diffusion/objective.h"
#include "train/diffusion/loss.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

static void near(double a, double b, double tolerance, const char *what)
{
    if (!(fabs(a - b) <= tolerance))
        fail_msg("%s: %.9g is not %.9g (+-%g)", what, a, b, tolerance);
}

/* ---- levels ---- */

/* diffusers' indices count from the noisiest level on, so that a larger u means less noise: its
 * logit-normal of mean m is ours of mean -m. backwards: our quantile r is its 1 - r. */
static const struct { const char *scheme; vtrain_density density; bool backwards; } schemes[] = {
    { "none", VTRAIN_UNIFORM, false },
    { "logit_normal", VTRAIN_LOGIT_NORMAL, true },
    { "mode", VTRAIN_MODE, true },
    { "sigma_sqrt", VTRAIN_SIGMA_SQRT, false },
    { "cosmap", VTRAIN_COSMAP, false },
};

static vtrain_objective *open_table(vtrain_density density, double shift)
{
    const vtrain_objective_opts o = {
        .kind = VTRAIN_FLOW, .density = density, .logit_mean = -0.4, .logit_std = 1.3,
        .mode_scale = 1.29, .shift = shift, .grid = 1000,
    };
    vtrain_objective *x;
    vc_err err = { 0 };
    assert_ok(vtrain_objective_open(&x, &o, &err), &err);
    return x;
}

static float *values_of(const vf_safetensors *f, const char *kind, const char *scheme, double shift,
                        int64_t *n)
{
    char name[64];
    int64_t dim[8];
    snprintf(name, sizeof name, "%s/%s/%g", kind, scheme, shift);
    float *v = golden_values(f, name, dim);
    *n = dim[0];
    return v;
}

/* Compares the levels of quantiles q, or of i / n without q, with the file's. */
static void check_levels(const vf_safetensors *f, const char *scheme, vtrain_density density,
                         double shift, const float *q, bool backwards)
{
    int64_t n, n_weights;
    float *levels = values_of(f, "levels", scheme, shift, &n);
    float *weights = values_of(f, "weights", scheme, shift, &n_weights);
    vtrain_objective *o = open_table(density, shift);
    for (int64_t i = 0; i < n; i++) {
        double r = q ? (double)q[i] : (double)i / (double)n;
        vtrain_level l = vtrain_level_of(o, 1, backwards ? 1 - r : r);
        near(l.sigma, (double)levels[i], 2e-7, scheme);
        near((double)l.t, 1000 * (double)levels[i], 2e-4, scheme);
        near((double)l.weight, (double)weights[i], 2e-6 * fabs((double)weights[i]) + 2e-6, scheme);
    }
    vtrain_objective_close(o);
    free(levels);
    free(weights);
}

static void test_levels(void **state)
{
    (void)state;
    static const double shifts[] = { 1, 3, 7 };
    int64_t dim[8];
    vf_safetensors *f = golden_open("objective");
    float *q = golden_values(f, "quantiles", dim);
    for (size_t i = 0; i < COUNT(schemes); i++)
        for (size_t k = 0; k < COUNT(shifts); k++)
            check_levels(f, schemes[i].scheme, schemes[i].density, shifts[k], q,
                         schemes[i].backwards);
    free(q);
    vf_safetensors_close(f);
}

static void test_bell(void **state)
{
    (void)state;
    vf_safetensors *f = golden_open("objective");
    for (double shift = 1; shift <= 5; shift += 2)
        check_levels(f, "bell", VTRAIN_BELL, shift, NULL, false);
    vf_safetensors_close(f);
    /* The mean weight is 1 without the table as well, to the width of its steps. */
    const vtrain_objective_opts opts = {
        .kind = VTRAIN_FLOW, .density = VTRAIN_BELL, .shift = 3,
    };
    vtrain_objective *o;
    assert_int_equal(vtrain_objective_open(&o, &opts, NULL), 0);
    double sum = 0;
    for (int i = 0; i < 5000; i++)
        sum += (double)vtrain_level_of(o, 1, (i + 0.5) / 5000).weight;
    near(sum / 5000, 1, 2e-3, "mean weight");
    vtrain_objective_close(o);
}

/* Numbers of ai-toolkit's table for timestep_type weighted, at the times 1000, 950 .. 50 and 1. The
 * weights follow its table by lines, within 2%; their mean over its 1000 times is 1, as there. */
static void test_weighted(void **state)
{
    static const double table[] = { 0.9057, 1.3748, 1.5068, 1.5069, 1.4413, 1.3549, 1.2636, 1.172,
                                    1.0826, 1.0004, 0.9254, 0.8596, 0.8049, 0.7618, 0.7312, 0.7152,
                                    0.7161, 0.7285, 0.7162, 0.5822, 0.4473 };
    vtrain_objective *o = open_table(VTRAIN_WEIGHTED, 1);
    double sum = 0;
    (void)state;
    for (int i = 0; i < (int)COUNT(table); i++) {
        const double s = i < 20 ? 1 - i / 20.0 : 0.001;
        near((double)vtrain_level_at(o, s).weight, table[i], 0.01 * table[i], "weight");
    }
    for (int i = 0; i < 1000; i++)
        sum += (double)vtrain_level_of(o, 1, i / 1000.0).weight;
    near(sum / 1000, 1, 1e-3, "mean weight");
    vtrain_objective_close(o);
}

/* ---- losses ---- */

static const struct { const char *name; vtrain_loss_opts o; bool weighted; } losses[] = {
    { "mse", { VTRAIN_MSE, 1, 0 }, true },
    { "mse_cut", { VTRAIN_MSE, 1, 1.25 }, true },
    { "huber", { VTRAIN_HUBER, 0.7, 0 }, false },
    { "huber_weighted", { VTRAIN_HUBER, 0.7, 0 }, true },
    { "huber_cut", { VTRAIN_HUBER, 0.4, 1.5 }, true },
    { "smooth_l1", { VTRAIN_SMOOTH_L1, 0.3, 0 }, false },
    { "smooth_l1_cut", { VTRAIN_SMOOTH_L1, 0.3, 2 }, true },
};

/* A tensor [B,..] of 5 dimensions. */
static vt_tensor *tensor_of(vt_ctx *g, const vf_safetensors *f, const char *name)
{
    int64_t dim[8];
    float *v = golden_values(f, name, dim);
    vt_tensor *x = vt_from_host(g, VC_F32, 5, dim, v, VC_F32);
    free(v);
    return x;
}

static void check_loss(vt_ctx *g, const vf_safetensors *f, size_t row)
{
    char name[64];
    int64_t dim[8], n = 1;
    vc_err err = { 0 };
    float *values = golden_values(f, "pred", dim);
    for (int i = 0; i < 5; i++)
        n *= dim[i];
    vt_tensor *pred = vt_param_new(g, VC_F32, 5, dim, values, VC_F32, false, &err);
    assert_non_null(pred);
    assert_ok(vt_param_train(g, pred, VC_F32, &err), &err);
    vt_step_begin(g, VT_RECORD);
    vt_tensor *target = tensor_of(g, f, "target");
    vt_tensor *weight = losses[row].weighted ? tensor_of(g, f, "weight") : NULL;
    vt_tensor *loss = vtrain_loss(g, pred, target, weight, &losses[row].o);
    vt_backward(g, loss);
    float got = vt_item(g, loss);
    assert_ok(vt_step_end(g, &err), &err);
    snprintf(name, sizeof name, "%s/loss", losses[row].name);
    float *want = golden_values(f, name, NULL);
    near((double)got, (double)*want, 1e-6 * fabs((double)*want), name);
    free(want);
    snprintf(name, sizeof name, "%s/grad", losses[row].name);
    want = golden_values(f, name, NULL);
    assert_ok(vt_to_host(g, pred->grad, values, &err), &err);
    for (int64_t i = 0; i < n; i++)
        near((double)values[i], (double)want[i], 1e-9 + 1e-6 * fabs((double)want[i]), name);
    vt_param_free(g, pred);
    free(values);
    free(want);
}

static void test_losses(void **state)
{
    (void)state;
    vf_safetensors *f = golden_open("objective");
    vt_ctx *g;
    vc_err err = { 0 };
    const vt_options o = { .device = "cpu", .threads = 2, .compute = VC_F32 };
    assert_ok(vt_open(&g, &o, &err), &err);
    for (size_t i = 0; i < COUNT(losses); i++)
        check_loss(g, f, i);
    vt_close(g);
    vf_safetensors_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels), cmocka_unit_test(test_bell),
        cmocka_unit_test(test_weighted), cmocka_unit_test(test_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
