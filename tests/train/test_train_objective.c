/* test_train_objective.c - schedules, clipping, noise levels and targets equal their formulas. */
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

/* ---- flow matching ---- */

static vtrain_objective *open_flow(vtrain_density density, double shift)
{
    const vtrain_objective_opts o = {
        .kind = VTRAIN_FLOW, .density = density, .logit_mean = 0.5, .logit_std = 2,
        .mode_scale = 1.29, .shift = shift,
    };
    vtrain_objective *x;
    vc_err err = { 0 };
    assert_ok(vtrain_objective_open(&x, &o, &err), &err);
    return x;
}

/* Phi(1) = 0.841344746..., so quantile 0.841344746 of N(0.5, 2^2) is 2.5. */
static const struct { vtrain_density density; double shift, r, sigma, weight; } levels[] = {
    { VTRAIN_UNIFORM, 1, 0, 1, 1 },
    { VTRAIN_UNIFORM, 1, 0.25, 0.75, 1 },
    { VTRAIN_UNIFORM, 3, 0.5, 0.75, 1 },                    /* 3 * .5 / (1 + 2 * .5) */
    { VTRAIN_LOGIT_NORMAL, 1, 0.5, 0.62245933120185, 1 },   /* 1 / (1 + e^-0.5) */
    { VTRAIN_LOGIT_NORMAL, 1, 0.84134474606854, 0.92414181997876, 1 },
    { VTRAIN_MODE, 1, 0, 1, 1 },
    { VTRAIN_MODE, 1, 0.5, 0.5, 1 },
    { VTRAIN_MODE, 1, 0.25, 0.61641612613, 1 },                 /* .75 - 1.29 (cos^2(pi/8) - .75) */
    { VTRAIN_SIGMA_SQRT, 1, 0.5, 0.5, 4 },
    { VTRAIN_COSMAP, 1, 0.5, 0.5, 1.2732395447352 },        /* 4 / pi */
    { VTRAIN_COSMAP, 1, 0, 1, 0.63661977236758 },
};

/* The error of the clean sample is s times that of the velocity. */
static void test_clean(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        const vtrain_objective_opts o = {
            .kind = VTRAIN_FLOW, .density = levels[i].density, .logit_mean = 0.5, .logit_std = 2,
            .mode_scale = 1.29, .shift = levels[i].shift, .clean = true,
        };
        const double s = levels[i].sigma;
        vtrain_objective *x;
        vc_err err = { 0 };
        assert_ok(vtrain_objective_open(&x, &o, &err), &err);
        near((double)vtrain_level_of(x, 1, levels[i].r).weight, s * s * levels[i].weight, 1e-6);
        vtrain_objective_close(x);
    }
}

/* ---- stretched levels ---- */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The level that ltx-trainer makes of a normal number, of mean 0.5 and deviation 2 before the shift
 * by 3. */
static double of_normal(double z)
{
    const double mu = 0.5 + log(3), low = 1 / (1 + exp(-(mu - 2 * 2.5758)));
    const double high = 1 / (1 + exp(-(mu + 2 * 3.0902)));
    const double y = (1 / (1 + exp(-(mu + 2 * z))) - low) / (high - low);
    return fmin(y < 1e-3 ? 2e-3 - y : y, 1);
}

/* Levels of evenly spread quantiles are those of as many draws, nine of ten of which are normal. */
static void test_stretched(void **state)
{
    enum { N = 20000, NORMAL = N / 10 * 9 };
    vtrain_objective *o = open_flow(VTRAIN_STRETCHED, 3);
    double *draw = malloc(N * sizeof *draw), z = -9;
    (void)state;
    for (int i = 0; i < N; i++) {
        const double r = i < NORMAL ? (i + 0.5) / NORMAL : (i - NORMAL + 0.5) / (N - NORMAL);
        while (i < NORMAL && 0.5 * erfc(-z * M_SQRT1_2) < r)
            z += 1e-5;
        draw[i] = i < NORMAL ? of_normal(z) : 1e-3 + (1 - 1e-3) * r;
    }
    qsort(draw, N, sizeof *draw, by_size);
    for (int i = 0; i < N; i++)
        near(vtrain_level_of(o, 1, (i + 0.5) / N).sigma, draw[i], 3e-4);
    free(draw);
    vtrain_objective_close(o);
}

static void test_flow(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(levels); i++) {
        vtrain_objective *o = open_flow(levels[i].density, levels[i].shift);
        vtrain_level l = vtrain_level_of(o, 1, levels[i].r);
        near(l.sigma, levels[i].sigma, 1e-7);
        near((double)l.t, 1000 * levels[i].sigma, 1e-3);
        near((double)l.weight, levels[i].weight, 1e-5);
        /* x_s = (1-s) x + s n, and the target is n - x. */
        near((double)l.x_of, 1 - l.sigma, 1e-7);
        near((double)l.n_of, l.sigma, 1e-7);
        near((double)l.tx_of, -1, 0);
        near((double)l.tn_of, 1, 0);
        vtrain_objective_close(o);
    }
}

static void test_flow_extremes(void **state)
{
    (void)state;
    for (int d = VTRAIN_UNIFORM; d <= VTRAIN_BELL; d++) {
        vtrain_objective *o = open_flow((vtrain_density)d, 5);
        for (int i = 0; i <= 1000; i++) {
            vtrain_level l = vtrain_level_of(o, 1, i == 1000 ? 1 - 0x1p-53 : i / 1000.0);
            assert_true(l.sigma > 0 && l.sigma <= 1);
            assert_true(isfinite(l.weight) && (l.weight > 0 || (d == VTRAIN_BELL && l.sigma == 1)));
        }
        vtrain_objective_close(o);
    }
}

/* Draws with a boundary have the distribution of all draws on their own part of the levels, and an
 * r of 0.5 halves this part. Of N(0.5, 2^2), half lies above 0.5 and 0.84134474606854 below 2.5, as
 * above. */
static const struct {
    vtrain_density density; double shift, boundary; bool low; double r, sigma;
} halves[] = {
    { VTRAIN_UNIFORM, 1, 0.875, false, 0, 1 },
    { VTRAIN_UNIFORM, 1, 0.875, false, 0.5, 0.9375 },
    { VTRAIN_UNIFORM, 1, 0.875, true, 0.5, 0.4375 },
    { VTRAIN_UNIFORM, 3, 0.75, false, 0.5, 0.9 },           /* u is in .5..1: .75, shifted */
    { VTRAIN_UNIFORM, 3, 0.75, true, 0.5, 0.5 },            /* u is .25, shifted */
    { VTRAIN_LOGIT_NORMAL, 1, 0.62245933120185, false, 0.68268949213708, 0.92414181997876 },
    { VTRAIN_LOGIT_NORMAL, 1, 0.92414181997876, true, 0.59428670867253, 0.62245933120185 },
    { VTRAIN_MODE, 1, 0.5, false, 0.5, 0.61641612613 },
};

static void test_boundary(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(halves); i++) {
        const vtrain_objective_opts opts = {
            .kind = VTRAIN_FLOW, .density = halves[i].density, .logit_mean = 0.5, .logit_std = 2,
            .mode_scale = 1.29, .shift = halves[i].shift, .boundary = halves[i].boundary,
            .low = halves[i].low,
        };
        vtrain_objective *o;
        assert_int_equal(vtrain_objective_open(&o, &opts, NULL), 0);
        near(vtrain_level_of(o, 1, halves[i].r).sigma, halves[i].sigma, 1e-7);
        for (int k = 0; k <= 1000; k++) {
            vtrain_level l = vtrain_level_of(o, 1, k == 1000 ? 1 - 0x1p-53 : k / 1000.0);
            assert_true((l.sigma < halves[i].boundary) == halves[i].low);
            assert_true((l.t < (float)(1000 * halves[i].boundary)) == halves[i].low);
        }
        vtrain_objective_close(o);
    }
}

/* A range scales a level that was shifted, or keeps the levels within it as they are distributed:
 * then r halves the part of the quantiles that lies in the range. 0.5 of 3 is 0.75; of N(0.5, 2^2),
 * half lies above sigmoid 0.62245933120185. A boundary cuts what a range left. */
static const struct {
    vtrain_density density; double shift, least, most; bool keep; double boundary, r, sigma;
    int64_t grid;
} ranges[] = {
    { VTRAIN_UNIFORM, 1, 0, 1000, false, 0, 0.5, 0.5, 0 },
    { VTRAIN_UNIFORM, 1, 200, 600, false, 0, 0.25, 0.5, 0 },     /* .2 + .75 * .4 */
    { VTRAIN_UNIFORM, 3, 200, 600, false, 0, 0.5, 0.5, 0 },      /* .2 + .75 * .4 */
    { VTRAIN_UNIFORM, 3, 500, 900, true, 0, 0.5, 0.75, 0 },      /* u is in .25...75: .5, shifted */
    { VTRAIN_UNIFORM, 3, 0, 750, true, 0, 0.5, 0.5, 0 },         /* u is .25, shifted */
    { VTRAIN_UNIFORM, 1, 200, 600, true, 0, 0.5, 0.4, 1000 },
    { VTRAIN_UNIFORM, 1, 250, 250.5, true, 0, 0.5, 0.25, 1000 }, /* one level of the table */
    { VTRAIN_LOGIT_NORMAL, 1, 622.45933120185, 1000, true, 0, 0.68268949213708, 0.92414181997876,
      0 },
    { VTRAIN_LOGIT_NORMAL, 1, 100, 300, false, 0, 0.5, 0.22449186624037, 0 },
    { VTRAIN_MODE, 1, 500, 1000, true, 0, 0.5, 0.61641612613, 0 },
    { VTRAIN_UNIFORM, 1, 0, 500, true, 0.875, 0.5, 0.25, 0 },
    { VTRAIN_UNIFORM, 1, 500, 1000, false, 0.875, 0.5, 0.6875, 0 },   /* half of .5 to .875 */
};

static void test_range(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(ranges); i++) {
        const vtrain_objective_opts opts = {
            .kind = VTRAIN_FLOW, .density = ranges[i].density, .logit_mean = 0.5, .logit_std = 2,
            .mode_scale = 1.29, .shift = ranges[i].shift, .boundary = ranges[i].boundary,
            .low = true, .least = ranges[i].least, .most = ranges[i].most,
            .keep_shape = ranges[i].keep, .grid = ranges[i].grid,
        };
        vtrain_objective *o;
        assert_int_equal(vtrain_objective_open(&o, &opts, NULL), 0);
        near(vtrain_level_of(o, 1, ranges[i].r).sigma, ranges[i].sigma, 1e-7);
        for (int k = 0; k <= 1000; k++) {
            vtrain_level l = vtrain_level_of(o, 1, k == 1000 ? 1 - 0x1p-53 : k / 1000.0);
            assert_true(l.sigma > 0 && l.t >= (float)ranges[i].least &&
                        l.t <= (float)ranges[i].most);
            assert_true(ranges[i].boundary == 0 || l.sigma < ranges[i].boundary);
        }
        vtrain_objective_close(o);
    }
}

/* A part of the list of levels, as DiffSynth-Studio draws an index of it: with a table of 1000 and
 * a shift of 5, item i of the list is 5 u / (1 + 4 u) at u = 1 - i / 1000. */
static void test_part_of_list(void **state)
{
    enum { FROM = 100, TO = 417, N = 50 * (TO - FROM) };
    static const vtrain_density densities[] = { VTRAIN_UNIFORM, VTRAIN_BELL };
    (void)state;
    for (size_t d = 0; d < COUNT(densities); d++) {
        const vtrain_objective_opts opts = {
            .kind = VTRAIN_FLOW, .density = densities[d], .shift = 5, .grid = 1000,
            .list_from = 0.1, .list_to = 0.417,
        };
        vtrain_objective *o, *whole;
        int drawn[1000] = { 0 };
        assert_int_equal(vtrain_objective_open(&o, &opts, NULL), 0);
        vtrain_objective_opts all = opts;
        all.list_to = 0;
        assert_int_equal(vtrain_objective_open(&whole, &all, NULL), 0);
        for (int k = 0; k < N; k++) {
            vtrain_level l = vtrain_level_of(o, 1, (k + 0.5) / N);
            int i = (int)lround(1000 * (1 - l.sigma / (5 - 4 * l.sigma)));
            assert_between(i, FROM, TO - 1);
            drawn[i]++;
            near(l.weight, vtrain_level_of(whole, 1, (i + 0.5) / 1000).weight, 1e-6);
        }
        for (int i = FROM; i < TO; i++)
            assert_int_equal(drawn[i], N / (TO - FROM));
        vtrain_objective_close(o);
        vtrain_objective_close(whole);
    }
}

/* The first quarter of a logit-normal's list is the quarter of its draws with most noise. */
static void test_part_of_rising_list(void **state)
{
    vtrain_objective *o, *whole;
    vtrain_objective_opts opts = { .kind = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
                                   .logit_std = 1, .shift = 3 };
    (void)state;
    assert_int_equal(vtrain_objective_open(&whole, &opts, NULL), 0);
    opts.list_to = 0.25;
    assert_int_equal(vtrain_objective_open(&o, &opts, NULL), 0);
    for (double r = 0; r < 1; r += 0.125)
        near(vtrain_level_of(o, 1, r).sigma, vtrain_level_of(whole, 1, 0.75 + r / 4).sigma, 1e-9);
    vtrain_objective_close(o);
    vtrain_objective_close(whole);
}

/* OneTrainer scales draws into its range and then shifts them. */
static void test_scaled_before_shift(void **state)
{
    vtrain_objective *o, *plain;
    vtrain_objective_opts opts = { .kind = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
                                   .logit_mean = 0.3, .logit_std = 1.2, .shift = 1 };
    (void)state;
    assert_int_equal(vtrain_objective_open(&plain, &opts, NULL), 0);
    opts.shift = 3;
    opts.draw_least = 0.2;
    opts.draw_most = 0.7;
    assert_int_equal(vtrain_objective_open(&o, &opts, NULL), 0);
    for (double r = 0.01; r < 1; r += 0.07) {
        double u = 0.2 + 0.5 * vtrain_level_of(plain, 1, r).sigma;
        near(vtrain_level_of(o, 1, r).sigma, 3 * u / (1 + 2 * u), 1e-9);
    }
    vtrain_objective_close(o);
    vtrain_objective_close(plain);
}

/* v: the list of timesteps begins with the last one. */
static void test_parts_of_v(void **state)
{
    static const struct { double from, to, least, most; int first, last; } rows[] = {
        { 0.1, 0.4, 0, 0, 600, 899 }, { 0, 0, 0.25, 0.75, 250, 749 },
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const vtrain_objective_opts opts = {
            .kind = VTRAIN_V, .shift = 1, .beta_start = 0.00085, .beta_end = 0.012, .snr_shift = 1,
            .list_from = rows[i].from, .list_to = rows[i].to, .draw_least = rows[i].least,
            .draw_most = rows[i].most,
        };
        vtrain_objective *o;
        assert_int_equal(vtrain_objective_open(&o, &opts, NULL), 0);
        assert_int_equal(vtrain_level_of(o, 1, 0.0001).t, rows[i].first);
        assert_int_equal(vtrain_level_of(o, 1, 0.9999).t, rows[i].last);
        vtrain_objective_close(o);
    }
}

/* v draws all timesteps of a range, the upper end left out, and strata are parts of the range. */
static void test_range_of_v(void **state)
{
    (void)state;
    const vtrain_objective_opts opts = {
        .kind = VTRAIN_V, .shift = 1, .stratified = true, .micros = 4, .beta_start = 0.00085,
        .beta_end = 0.012, .snr_shift = 1, .zero_snr = true, .least = 200, .most = 600,
    };
    vtrain_objective *o;
    bool seen[1000] = { false };
    int n = 0;
    assert_int_equal(vtrain_objective_open(&o, &opts, NULL), 0);
    for (uint64_t m = 0; m < 4 * 1600; m++) {
        int t = (int)vtrain_level_of(o, 0, vtrain_level_draw(o, 42, 0, m)).t;
        assert_int_equal((t - 200) / 100, m % 4);
        n += !seen[t];
        seen[t] = true;
    }
    assert_int_equal(n, 400);
    vtrain_objective_close(o);
}

/* Rows of a micro-batch lie on one side of the boundary between two transformers, and over many
 * micro-batches each row has the distribution of all draws, whose quantiles are uniform; also where
 * a step's micro-batches draw from parts of the range. */
static const struct {
    vtrain_density density; double shift; bool stratified, keep; int64_t micros, grid;
} divided[] = {
    { VTRAIN_UNIFORM, 1, false, false, 1, 0 },
    { VTRAIN_UNIFORM, 5, true, false, 4, 0 },
    { VTRAIN_LOGIT_NORMAL, 3, false, false, 1, 0 },
    { VTRAIN_LOGIT_NORMAL, 1, true, false, 2, 0 },
    { VTRAIN_MODE, 1, true, false, 8, 0 },
    { VTRAIN_UNIFORM, 3, true, true, 4, 1000 },
};

static void test_divided(void **state)
{
    (void)state;
    enum { ROWS = 2, MICROS = 2000, PARTS = 10 };
    for (size_t i = 0; i < COUNT(divided); i++) {
        const double divide = 0.7;
        const vtrain_objective_opts opts = {
            .kind = VTRAIN_FLOW, .density = divided[i].density, .logit_mean = 0.5, .logit_std = 1,
            .mode_scale = 1.29, .shift = divided[i].shift, .divide = divide,
            .least = divided[i].keep ? 300 : 0, .most = divided[i].keep ? 900 : 1000,
            .keep_shape = divided[i].keep, .stratified = divided[i].stratified,
            .micros = divided[i].micros, .grid = divided[i].grid,
        };
        vtrain_objective *o;
        assert_int_equal(vtrain_objective_open(&o, &opts, NULL), 0);
        double edge[PARTS + 1], high = 0;
        int seen[ROWS][PARTS] = { { 0 } };
        for (int k = 0; k <= PARTS; k++)
            edge[k] = vtrain_level_of(o, 1, (k == PARTS ? PARTS - 1e-9 : k) / (double)PARTS).sigma;
        for (uint64_t micro = 0; micro < MICROS; micro++) {
            vtrain_level first = vtrain_level_row(o, 1, 7, 0, micro);
            double own = vtrain_level_of(o, 1, vtrain_level_draw(o, 7, 0, micro)).sigma;
            assert_true(first.sigma == own);
            high += !vtrain_level_low(o, &first);
            for (uint32_t row = 0; row < ROWS; row++) {
                vtrain_level l = vtrain_level_row(o, 1, 7, row, micro);
                assert_true((l.sigma < divide) == (first.sigma < divide));
                int k = 0;
                while (k < PARTS - 1 && (edge[PARTS] < edge[0] ? l.sigma < edge[k + 1]
                                                               : l.sigma >= edge[k + 1]))
                    k++;
                seen[row][k]++;
            }
        }
        near(vtrain_share_high(o, 1), high / MICROS, 0.03);
        for (int row = 0; row < ROWS; row++)
            for (int k = 0; k < PARTS; k++)
                if (abs(seen[row][k] - MICROS / PARTS) > 60)     /* 4.5 standard deviations */
                    fail_msg("%zu: row %d, part %d: %d draws", i, row, k, seen[row][k]);
        vtrain_objective_close(o);
    }
}

/* ---- v-prediction ---- */

static vtrain_objective *open_v(double snr_shift)
{
    const vtrain_objective_opts o = {
        .kind = VTRAIN_V, .beta_start = 0.00085, .beta_end = 0.012, .snr_shift = snr_shift,
        .zero_snr = true, .shift = 1,
    };
    vtrain_objective *x;
    vc_err err = { 0 };
    assert_ok(vtrain_objective_open(&x, &o, &err), &err);
    return x;
}

/* Known values of the schedule for both SNR shifts in use. */
static const struct { double snr_shift; int t; double alpha_bar; } schedule[] = {
    { 1, 0, 0.99915 },    { 1, 1, 0.99823345 },   { 1, 250, 0.65245702 }, { 1, 500, 0.24101878 },
    { 1, 750, 0.03279912 }, { 1, 999, 0 },        { 3, 0, 0.99745433 },   { 3, 500, 0.09532810 },
    { 3, 750, 0.01083890 },
};

static void test_schedule(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(schedule); i++) {
        vtrain_objective *o = open_v(schedule[i].snr_shift);
        near(vtrain_alpha_bar(o, schedule[i].t), schedule[i].alpha_bar, 5e-9);
        vtrain_objective_close(o);
    }
}

/* x = sqrt(A) x_t - sqrt(1-A) v holds for every t, with the noisy latents x_t and the target v. */
static void test_v_identity(void **state)
{
    (void)state;
    vtrain_objective *o = open_v(1);
    const double x = 0.7, n = -1.3;
    for (int t = 0; t < 1000; t++) {
        vtrain_level l = vtrain_level_of(o, 1, (t + 0.5) / 1000);
        assert_int_equal((int)l.t, t);
        double a = vtrain_alpha_bar(o, t);
        double noisy = (double)l.x_of * x + (double)l.n_of * n;
        double v = (double)l.tx_of * x + (double)l.tn_of * n;
        near(sqrt(a) * noisy - sqrt(1 - a) * v, x, 3e-7);
        near(l.sigma * l.sigma, 1 - a, 1e-12);
    }
    vtrain_objective_close(o);
}

/* ---- draws ---- */

static const struct { int64_t ranks, strata; } strata[] = {
    { 1, 1 }, { 2, 2 }, { 4, 4 }, { 6, 2 }, { 7, 1 }, { 8, 8 }, { 12, 4 }, { 16, 8 }, { 20, 20 },
    { 64, 8 },
};

static void test_strata(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(strata); i++)
        assert_int_equal(vtrain_strata(strata[i].ranks, 1000), strata[i].strata);
}

/* Draws of micro-batch m of a step of 4 stay in its quarter; without strata they cover the whole
 * range. */
static void test_draws(void **state)
{
    (void)state;
    for (int stratified = 0; stratified < 2; stratified++) {
        vtrain_objective_opts opts = {
            .kind = VTRAIN_FLOW, .shift = 1, .stratified = stratified, .micros = 4,
        };
        vtrain_objective *o;
        assert_int_equal(vtrain_objective_open(&o, &opts, NULL), 0);
        int outside = 0;
        double sum = 0;
        for (uint64_t m = 0; m < 400; m++)
            for (uint32_t row = 0; row < 4; row++) {
                double r = vtrain_level_draw(o, 42, row, m);
                assert_true(r >= 0 && r < 1);
                outside += (int)(r * 4) != (int)(m % 4);
                sum += r;
                near(vtrain_level_draw(o, 42, row, m), r, 0);
            }
        assert_true(stratified ? outside == 0 : outside > 1000);
        near(sum / 1600, 0.5, 0.03);
        vtrain_objective_close(o);
    }
}

/* Eight samples in a row of a step of 64 have times in the same 125, as in ttt-video, whose ranks
 * have a sample each; the position in the step counts, and not the rank that computes it. */
static void test_times_of_step(void **state)
{
    (void)state;
    const vtrain_objective_opts opts = {
        .kind = VTRAIN_V, .shift = 1, .stratified = true, .micros = 64, .beta_start = 0.00085,
        .beta_end = 0.012, .snr_shift = 1, .zero_snr = true,
    };
    vtrain_objective *o;
    bool seen[1000] = { false };
    int n = 0;
    assert_int_equal(vtrain_objective_open(&o, &opts, NULL), 0);
    for (uint64_t m = 0; m < 64 * 400; m++) {
        float t = vtrain_level_of(o, 0, vtrain_level_draw(o, 42, 0, m)).t;
        assert_int_equal((int)t / 125, m % 64 / 8);
        n += !seen[(int)t];
        seen[(int)t] = true;
    }
    assert_int_equal(n, 1000);
    vtrain_objective_close(o);
}

static void test_refused(void **state)
{
    (void)state;
    const vtrain_objective_opts bad[] = {
        { .kind = VTRAIN_FLOW, .shift = 0 },
        { .kind = VTRAIN_FLOW, .shift = NAN },
        { .kind = VTRAIN_FLOW, .shift = 1, .density = VTRAIN_LOGIT_NORMAL, .logit_std = 0 },
        { .kind = VTRAIN_FLOW, .shift = 1, .density = VTRAIN_STRETCHED, .logit_std = 0 },
        { .kind = VTRAIN_FLOW, .shift = 1, .density = VTRAIN_STRETCHED, .logit_std = 1, .grid = 9 },
        { .kind = VTRAIN_V, .density = VTRAIN_COSMAP, .beta_start = 0.1, .beta_end = 0.2,
          .snr_shift = 1 },
        { .kind = VTRAIN_V, .beta_start = 0, .beta_end = 0.2, .snr_shift = 1 },
        { .kind = VTRAIN_V, .beta_start = 0.1, .beta_end = 0.2, .snr_shift = 1, .boundary = 0.5 },
        { .kind = VTRAIN_FLOW, .shift = 1, .density = VTRAIN_MODE, .mode_scale = 2,
          .boundary = 0.5 },
        { .kind = VTRAIN_FLOW, .shift = 1, .least = 600, .most = 600 },
        { .kind = VTRAIN_FLOW, .shift = 1, .list_from = 0.5, .list_to = 0.5 },
        { .kind = VTRAIN_FLOW, .shift = 1, .list_to = 1.5 },
        { .kind = VTRAIN_FLOW, .shift = 1, .draw_least = 0.9, .draw_most = 0.1 },
        { .kind = VTRAIN_FLOW, .shift = 1, .least = 600, .most = 200 },
        { .kind = VTRAIN_FLOW, .shift = 1, .least = NAN, .most = 200 },
        { .kind = VTRAIN_FLOW, .shift = 1, .least = 0, .most = 1001 },
        { .kind = VTRAIN_FLOW, .shift = 1, .most = 500, .boundary = 0.875 },
        { .kind = VTRAIN_FLOW, .shift = 1, .most = 875, .boundary = 0.875 },
        { .kind = VTRAIN_V, .beta_start = 0.1, .beta_end = 0.2, .snr_shift = 1, .divide = 0.5 },
        { .kind = VTRAIN_FLOW, .shift = 1, .density = VTRAIN_MODE, .mode_scale = 2,
          .logit_std = 1, .divide = 0.5 },
        { .kind = VTRAIN_FLOW, .shift = 1, .least = 900, .most = 1000, .boundary = 0.875,
          .low = true },
        { .kind = VTRAIN_FLOW, .shift = 1, .least = 250.2, .most = 250.7, .grid = 1000,
          .keep_shape = true },
        { .kind = VTRAIN_FLOW, .shift = 1, .density = VTRAIN_MODE, .mode_scale = 2, .least = 100,
          .most = 500, .keep_shape = true },
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        vtrain_objective *o;
        vc_err err = { 0 };
        assert_int_equal(vtrain_objective_open(&o, &bad[i], &err), VC_EINVAL);
        assert_null(o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flow),         cmocka_unit_test(test_clean),
        cmocka_unit_test(test_stretched),
        cmocka_unit_test(test_flow_extremes),
        cmocka_unit_test(test_boundary),
        cmocka_unit_test(test_divided),
        cmocka_unit_test(test_schedule),     cmocka_unit_test(test_v_identity),
        cmocka_unit_test(test_range),        cmocka_unit_test(test_part_of_list),
        cmocka_unit_test(test_part_of_rising_list), cmocka_unit_test(test_scaled_before_shift),
        cmocka_unit_test(test_parts_of_v), cmocka_unit_test(test_range_of_v),
        cmocka_unit_test(test_strata),       cmocka_unit_test(test_draws),
        cmocka_unit_test(test_times_of_step),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
