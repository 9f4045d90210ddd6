/* test_forcing.c - levels of single frames: their distribution against counts of all non-decreasing
 * lists (scripts/golden/forcing.py); whole runs of SkyReels V2's tiny model, whose traces have the
 * noisy latents, timesteps and weights of each frame; resuming; what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "common/os/file.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_run.h"
#include "train/steps/forcing.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
enum { F = 5, H = 4, W = 6, C = 4, PLANE = H * W, TEXT = 32, DRAWS = 20000, MOST = 5 };

static char dir[256];

/* ---- the distribution ---- */

static void no_fit(const void *model, vtrain_fit *fit)
{
    (void)model;
    *fit = (vtrain_fit){ .mult = { 1, 2, 2 } };
}

static vtrain_level row_level(const vtrain *t, const vtrain_micro *m)
{
    return vtrain_level_row(t->objective, 8, m->seed, m->batch->first, m->number);
}

/* Draws the levels of n frames DRAWS times and compares their moments with the golden's, whose
 * levels are the shares of LEVELS: they differ by half of one, and by 4 deviations of a mean. */
static void check_moments(vtrain *t, int n, const float *mean, const float *spread)
{
    static vtrain_levels v;
    double sum[MOST] = { 0 }, squares[MOST] = { 0 };
    vtrain_batch b = { .rows = 1, .tokens = 8 };
    v.frames = vtrain_forced_frames(t, n);
    assert_int_equal(v.frames, n);
    for (int i = 0; i < DRAWS; i++) {
        const vtrain_micro m = { .batch = &b, .seed = 7, .number = (uint64_t)i, .level = -1 };
        const vtrain_level l = row_level(t, &m);
        vtrain_forcing_draw(&v, t, &m, 0, &l, 1, false, vtrain_noise_grows(t));
        for (int k = 0; k < n; k++) {
            const double s = (double)v.frame_sigma[k];
            assert_true(!k || v.frame_sigma[k] >= v.frame_sigma[k - 1]);
            sum[k] += s;
            squares[k] += s * s;
        }
    }
    for (int k = 0; k < n; k++) {
        const double is = sum[k] / DRAWS, far = 4 * (double)spread[k] / sqrt(DRAWS) + 0.5 / 400;
        assert_float_equal(is, mean[k], far);
        assert_float_equal(sqrt(squares[k] / DRAWS - is * is), spread[k], 0.01);
    }
}

static void test_distribution(void **state)
{
    const vtrain_family family = { .fit = no_fit };
    vtrain t = { .model.family = &family, .cfg = { .diffusion_forcing = VTRAIN_FORCING_INCREASING,
                                                   .diffusion_forcing_block = 1 } };
    const vtrain_density densities[] = { VTRAIN_UNIFORM, VTRAIN_MODE };     /* falls, falls */
    vf_safetensors *gold = golden_open("forcing");
    float *mean = golden_values(gold, "mean", NULL), *spread = golden_values(gold, "spread", NULL);
    vc_err err = { 0 };
    (void)state;
    for (size_t i = 0; i < COUNT(densities); i++) {
        const vtrain_objective_opts o = { .kind = VTRAIN_FLOW, .density = densities[i], .shift = 1,
                                          .logit_std = 1, .micros = 1 };   /* mode, scale 0: even */
        assert_ok(vtrain_objective_open(&t.objective, &o, &err), &err);
        for (int n = 2; n <= MOST; n++)
            check_moments(&t, n, mean + (n - 2) * MOST, spread + (n - 2) * MOST);
        vtrain_objective_close(t.objective);
    }
    assert_int_equal(vtrain_forced_frames(&t, 1), 0);                 /* a still */
    free(mean);
    free(spread);
    vf_safetensors_close(gold);
}

/* ---- whole runs ---- */

static const toy_sample samples[] = {
    { .number = 0, .f = F, .h = H, .w = W, .caption = { "a red ball" } },
    { .number = 1, .f = F, .h = H, .w = W, .caption = { "a long walk" } },
    { .number = 2, .f = F, .h = H, .w = W, .caption = { "b" } },
    { .number = 3, .f = F, .h = H, .w = W, .caption = { "c" } },
};

static int make(void **state)
{
    toy_dir_make(dir);
    char *path = vc_path_join(dir, "set.lmdb"), *to = vc_path_join(dir, "skyreels2-rate");
    const toy t = { .path = path, .sample = samples, .n = COUNT(samples), .channels = C,
                    .width = TEXT, .per_channel = true };
    toy_make(&t);
    vf_safetensors *golden = golden_open("skyreels2-rate");
    golden_model(golden, to, VC_BF16);
    vf_safetensors_close(golden);
    free(path);
    free(to);
    *state = dir;
    return 0;
}

#define MODEL "--transformer %s/skyreels2-rate --rank 2 "

/* Runs a step with a trace and opens the trace. */
static vf_safetensors *traced(const char *name, const char *more)
{
    vf_safetensors *f;
    vc_err err = { 0 };
    char *args = vc_format(MODEL "--max_train_steps 1 --trace_dir %s/%s-trace --mixed_precision no "
                           "--caption_dropout_p 0 %s", dir, dir, name, more);
    char *path = vc_format("%s/%s-trace/step-000001-mb-00-rank-00.safetensors", dir, name);
    run_ok(dir, name, args);
    assert_ok(vf_safetensors_open(&f, path, &err), &err);
    free(args);
    free(path);
    return f;
}

/* The frames' noise, weights and loss are those of their timesteps. clean: of the first frame. */
static void check_trace(const char *name, const char *more, bool rising, int block, bool clean)
{
    vf_safetensors *f = traced(name, more);
    golden_has_shape(f, "timestep", 2, (int64_t[]){ 2, F });
    float *t = golden_values(f, "timestep", NULL), *x = golden_values(f, "latents", NULL);
    float *n = golden_values(f, "noise", NULL), *noisy = golden_values(f, "noisy_latents", NULL);
    float *weight = golden_values(f, "loss_weight", NULL), *loss = golden_values(f, "loss", NULL);
    float *y = golden_values(f, "model_output", NULL), *target = golden_values(f, "target", NULL);
    double sum = 0;
    int apart = 0;
    for (int i = 0; i < 2 * F; i++) {
        const bool still = clean && i % F == 0;
        assert_true(still ? t[i] == 0 : t[i] > 0 && t[i] <= 1000);
        assert_float_equal(weight[i], still ? 0 : clean ? (float)F / (F - 1) : 1, 1e-6);
        assert_true(!rising || i % F == 0 || t[i] >= t[i - 1]);
        assert_true(i % F == 0 || i % F % block == 0 || (clean && i % F == 1) || t[i] == t[i - 1]);
        apart += i % F && t[i] != t[i - 1];
    }
    assert_true(apart > 2);
    for (int i = 0; i < 2 * C * F * PLANE; i++) {
        const int at = i / (C * F * PLANE) * F + i / PLANE % F;
        const float s = t[at] / 1000;
        const double far = (double)(y[i] - target[i]);
        assert_float_equal(noisy[i], (1 - s) * x[i] + s * n[i], 1e-4);
        assert_float_equal(target[i], n[i] - x[i], 1e-4);
        sum += (double)weight[at] * far * far / (2 * C * F * PLANE);
    }
    assert_float_equal(loss[0], sum, 1e-4 * sum);
    free(t);
    free(x);
    free(n);
    free(noisy);
    free(weight);
    free(loss);
    free(y);
    free(target);
    vf_safetensors_close(f);
}

static void test_traces(void **state)
{
    (void)state;
    check_trace("rising", "--diffusion_forcing increasing", true, 1, false);
    check_trace("apart", "--diffusion_forcing independent", false, 1, false);
    check_trace("blocks", "--diffusion_forcing independent --diffusion_forcing_block 2", false, 2,
                false);
    check_trace("clean", "--diffusion_forcing increasing --first_frame_conditioning_p 1", true, 1,
                true);
    check_trace("shifted", "--diffusion_forcing increasing --weighting_scheme uniform "
                "--flow_shift 5", true, 1, false);
}

/* A run that stopped resumes to the same weights; held-out losses are those of one level. */
static void test_resume(void **state)
{
    static const char more[] = "--diffusion_forcing increasing --first_frame_conditioning_p 0.5 "
                               "--eval_split 0.25 --eval_steps 2 --train_batch_size 1 ";
    char *args[3];
    (void)state;
    args[0] = vc_format(MODEL "%s--max_train_steps 4", dir, more);
    args[1] = vc_format(MODEL "%s--max_train_steps 2", dir, more);
    args[2] = vc_format(MODEL "%s--max_train_steps 4 --resume_from_checkpoint latest", dir, more);
    run_ok(dir, "whole", args[0]);
    run_ok(dir, "cut", args[1]);
    run_ok(dir, "cut", args[2]);
    assert_true(run_same_file(dir, "whole/checkpoint-4/optimizer.safetensors",
                              "cut/checkpoint-4/optimizer.safetensors"));
    for (int i = 0; i < 3; i++)
        free(args[i]);
}

static void test_refused(void **state)
{
    static const struct { const char *more, *says; } rows[] = {
        { "--diffusion_forcing increasing --motion_sub_loss", "--motion_sub_loss compares frames" },
        { "--diffusion_forcing independent --task direct_distill --distill_steps 2",
          "--task direct_distill: the steps go" },
        { "--diffusion_forcing_block 2", "--diffusion_forcing_block: has no effect without" },
        { "--diffusion_forcing increasing --diffusion_forcing_block 64",
          "--diffusion_forcing_block 64: all frames of a clip would have one level, since the " },
    };
    vc_err err = { 0 };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *args = vc_format(MODEL "--max_train_steps 1 %s", dir, rows[i].more);
        assert_fails(run(dir, "no", args, &err), VC_EUSAGE, &err, rows[i].says);
        assert_false(run_exists(dir, "no"));
        free(args);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distribution), cmocka_unit_test(test_traces),
        cmocka_unit_test(test_resume), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, make, toy_dir_teardown);
}
