/* test_rates.c - schedules of the learning rate, averages of weights and the clipping of gradients
 * equal their formulas. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "train/diffusion/objective.h"
#include "train/optim/average.h"
#include "train/optim/rate.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

static void near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance))
        fail_msg("%.12g is not %.12g (+-%g)", a, b, tolerance);
}

static const struct { vtrain_schedule how; int64_t step, warmup, steps; double factor; } rates[] = {
    { VTRAIN_CONSTANT, 0, 0, 100, 1 },
    { VTRAIN_CONSTANT, 99, 0, 100, 1 },
    { VTRAIN_CONSTANT_WITH_WARMUP, 0, 10, 100, 0 },
    { VTRAIN_CONSTANT_WITH_WARMUP, 3, 10, 100, 0.3 },
    { VTRAIN_CONSTANT_WITH_WARMUP, 10, 10, 100, 1 },
    { VTRAIN_CONSTANT_WITH_WARMUP, 5, 0, 100, 1 },
    { VTRAIN_LINEAR, 5, 10, 110, 0.5 },
    { VTRAIN_LINEAR, 10, 10, 110, 1 },
    { VTRAIN_LINEAR, 35, 10, 110, 0.75 },
    { VTRAIN_LINEAR, 110, 10, 110, 0 },
    { VTRAIN_LINEAR, 500, 10, 110, 0 },
    { VTRAIN_LINEAR, 7, 10, 10, 0.7 },
    { VTRAIN_COSINE, 0, 0, 100, 1 },
    { VTRAIN_COSINE, 25, 0, 100, 0.85355339059327 },
    { VTRAIN_COSINE, 50, 0, 100, 0.5 },
    { VTRAIN_COSINE, 60, 20, 100, 0.5 },
    { VTRAIN_COSINE, 100, 0, 100, 0 },
    { VTRAIN_INVERSE_SQRT, 5, 10, 100, 0.5 },         /* transformers' get_inverse_sqrt_schedule */
    { VTRAIN_INVERSE_SQRT, 10, 10, 100, 1 },
    { VTRAIN_INVERSE_SQRT, 40, 10, 100, 0.5 },
    { VTRAIN_INVERSE_SQRT, 1000, 10, 100, 0.1 },
    { VTRAIN_INVERSE_SQRT, 0, 0, 100, 1 },
    { VTRAIN_INVERSE_SQRT, 30000, 0, 100, 0.5 },
};

static void test_rates(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rates); i++)
        near(vtrain_rate_factor(&(vtrain_rate){ .how = rates[i].how, .warmup = rates[i].warmup,
                                                .steps = rates[i].steps, .rate = 1 },
                                rates[i].step), rates[i].factor, 1e-12);
}

/* Decays of update n by EMAModel.get_decay of diffusers. */
static const struct { vtrain_average a; int64_t n; double decay; } averages[] = {
    { { 0.9999, 0, 0, 1, 0 }, 1, 0 },
    { { 0.9999, 0, 0, 1, 0 }, 2, 2 / 11.0 },
    { { 0.9999, 0, 0, 1, 0 }, 100, 100 / 109.0 },
    { { 0.9, 0, 0, 1, 0 }, 100, 0.9 },
    { { 0.9999, 0, 0, 1, 0 }, 1000000, 0.9999 },
    { { 0.9999, 0.5, 0, 1, 0 }, 2, 0.5 },
    { { 0.9999, 0, 0, 1, 10 }, 11, 0 },
    { { 0.9999, 0, 0, 1, 10 }, 12, 2 / 11.0 },
    { { 0.9999, 0, 2 / 3.0, 1, 0 }, 8, 0.75 },
    { { 0.9999, 0, 0.75, 15, 0 }, 1, 0 },
    { { 0.9999, 0, 0.75, 15, 0 }, 16, 0.40539644249863949 },
};

static void test_averages(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(averages); i++)
        near(vtrain_average_decay(&averages[i].a, averages[i].n), averages[i].decay, 1e-12);
}

/* The golden has 101 steps of each, made by diffusers' get_scheduler and stored in f32. */
static const struct { const char *name; vtrain_rate rate; } peers[] = {
    { "constant", { VTRAIN_CONSTANT, 0, 100, 1, 1, 1e-4, NULL, 0, 0 } },
    { "constant_with_warmup", { VTRAIN_CONSTANT_WITH_WARMUP, 10, 100, 1, 1, 1e-4, NULL, 0, 0 } },
    { "linear", { VTRAIN_LINEAR, 10, 100, 1, 1, 1e-4, NULL, 0, 0 } },
    { "cosine", { VTRAIN_COSINE, 10, 100, 1, 1, 1e-4, NULL, 0, 0 } },
    { "cosine_with_restarts", { VTRAIN_COSINE_WITH_RESTARTS, 10, 100, 3, 1, 1e-4, NULL, 0, 0 } },
    { "polynomial", { VTRAIN_POLYNOMIAL, 10, 100, 1, 2.5, 1e-4, NULL, 0, 0 } },
    { "polynomial_end", { VTRAIN_POLYNOMIAL, 10, 100, 1, 0.8, 1e-4, NULL, 4e-7, 0 } },
    { "piecewise_constant", { VTRAIN_PIECEWISE_CONSTANT, 0, 100, 1, 1, 1e-4,
                              "1:10,0.1:30,0.5:60,0.005", 0, 0 } },
};

static void test_rates_equal_diffusers(void **state)
{
    (void)state;
    vf_safetensors *f = golden_open("rates");
    for (size_t i = 0; i < COUNT(peers); i++) {
        int64_t dim[8];
        float *want = golden_values(f, peers[i].name, dim);
        assert_int_equal(dim[0], 101);
        for (int s = 0; s <= 100; s++)
            near(vtrain_rate_factor(&peers[i].rate, s), want[s], 1e-7);
        free(want);
    }
    vf_safetensors_close(f);
}

static void test_rules(void **state)
{
    (void)state;
    static const struct { const char *rules; bool good; } rows[] = {
        { "1:10,0.1:20,0.01", true }, { "0.5", true }, { "0.1:20,1:10,0", true },
        { NULL, false }, { "", false }, { "1:10", false }, { "1:10,", false }, { "x", false },
        { "1:x,2", false }, { "1:10;2", false }, { "1,2", false }, { "-1:10,2", false },
        { "nan", false }, { "1:-3,2", false }, { "1:10,0.1:20,0.01,", false },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vc_err err = { 0 };
        const vtrain_rate r = { .how = VTRAIN_PIECEWISE_CONSTANT, .rules = rows[i].rules };
        if ((vtrain_rate_check(&r, &err) == 0) != rows[i].good)
            fail_msg("%s: %s", rows[i].rules, err.text);
    }
    const vtrain_rate shuffled = { .how = VTRAIN_PIECEWISE_CONSTANT, .rules = "0.1:20,1:10,0" };
    near(vtrain_rate_factor(&shuffled, 9), 1, 0);
    near(vtrain_rate_factor(&shuffled, 10), 0.1, 0);
    near(vtrain_rate_factor(&shuffled, 20), 0, 0);
    const vtrain_rate low = { .how = VTRAIN_POLYNOMIAL, .rate = 1e-7 };
    assert_int_equal(vtrain_rate_check(&low, NULL), VC_EUSAGE);
}

static void test_clip(void **state)
{
    (void)state;
    near(vtrain_clip_factor(0.5, 1), 1, 0);
    near(vtrain_clip_factor(4, 1), 0.25, 1e-6);
    near(vtrain_clip_factor(1e30, 0), 1, 0);                /* 0 does not clip */
    near(vtrain_clip_factor(0, 1), 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates), cmocka_unit_test(test_averages),
        cmocka_unit_test(test_rates_equal_diffusers), cmocka_unit_test(test_rules),
        cmocka_unit_test(test_clip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
