/* test_first_frame.c - whole runs of the built-in transformer with --first_frame_conditioning_p:
 * traces, the loss, samples that begin with an image, resumed runs, and models that refuse the
 * flag. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/tensors/safetensors.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_run.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
#define TINY "--dit_width 32 --dit_layers 2 --dit_heads 2 --max_train_steps 4 "
enum { C = 2, F = 4, H = 4, W = 6, PLANE = H * W, TOKENS = PLANE / 4 };

static const toy_sample samples[] = {
    { .number = 0, .f = F, .h = H, .w = W, .caption = { "a" } },
    { .number = 1, .f = F, .h = H, .w = W, .caption = { "b" } },
    { .number = 2, .h = H, .w = W, .caption = { "a still" } },
    { .number = 3, .f = F, .h = H, .w = W, .caption = { "c" } },
    { .number = 4, .h = H, .w = W, .caption = { "a still" } },
    { .number = 5, .f = F, .h = H, .w = W, .caption = { "d" } },
};

static int make(void **state)
{
    static char dir[256];
    toy_dir_make(dir);
    char *path = vc_path_join(dir, "set.lmdb");
    const toy t = { .path = path, .sample = samples, .n = COUNT(samples), .prompts = 2,
                    .image = &samples[2], .train_mode = "i2v", .conditions = 1 << VC_ROLE_IMAGE,
                    .per_channel = true };
    toy_make(&t);
    free(path);
    *state = dir;
    return 0;
}

static const float *floats(const vf_safetensors *f, const char *name, vf_view *v)
{
    vc_err err = { 0 };
    assert_ok(vf_safetensors_get(f, name, v, &err), &err);
    return v->data;
}

/* ---- traces ---- */

/* The loss of a row's frames from `first` on, or of their differences. */
static double row_loss(const float *y, const float *target, int first, bool differences)
{
    double sum = 0;
    int64_t n = 0;
    for (int c = 0; c < C; c++)
        for (int64_t i = 0; i < F * PLANE; i++) {
            int64_t at = c * F * PLANE + i;
            if (i / PLANE < first + differences)
                continue;
            double d = (double)y[at] - (double)target[at];
            if (differences)
                d -= (double)y[at - PLANE] - (double)target[at - PLANE];
            sum += d * d;
            n++;
        }
    return sum / (double)n;
}

/* Checks a batch of two clips, and returns its number of clean rows. */
static int check_clips(const vf_safetensors *f, double motion)
{
    vf_view v;
    int all = 0;
    double loss = 0;
    const float *x0 = floats(f, "latents", &v), *x = floats(f, "noisy_latents", &v);
    const float *rows = floats(f, "timesteps", &v), *y = floats(f, "model_output", &v);
    const float *target = floats(f, "target", &v), *t = floats(f, "timestep", &v);
    assert_true(v.nd == 2 && v.dim[0] == 2 && v.dim[1] == F * TOKENS);
    const float *w = floats(f, "loss_weight", &v);
    assert_true(v.nd == 5 && v.dim[0] == 2 && v.dim[2] == F && vf_view_count(&v) == 2 * F);
    for (int row = 0; row < 2; row++, t += F * TOKENS, w += F, y += C * F * PLANE,
         target += C * F * PLANE, x += C * F * PLANE, x0 += C * F * PLANE) {
        bool clean = t[0] == 0;
        for (int i = 0; i < F * TOKENS; i++)
            assert_true(t[i] == (clean && i < TOKENS ? 0 : rows[row]));
        for (int i = 0; i < F; i++)
            assert_float_equal(w[i], clean ? i ? 4.0 / 3 : 0 : 1, 1e-6);
        for (int c = 0; c < C; c++)
            assert_true(clean == !memcmp(x + c * F * PLANE, x0 + c * F * PLANE, PLANE * 4));
        loss += (1 - motion) * row_loss(y, target, clean, false) / 2 +
                motion * row_loss(y, target, clean, true) / 2;
        all += clean;
    }
    assert_float_equal(loss, *floats(f, "loss", &v), 1e-5 * loss);
    return all;
}

/* Checks stills, which have one timestep per row. */
static void check_stills(const vf_safetensors *f)
{
    vf_view v;
    floats(f, "timestep", &v);
    assert_true(v.nd == 1 && v.dim[0] == 2);
    floats(f, "loss_weight", &v);
    assert_int_equal(vf_view_count(&v), 2);
}

static void test_traces(void **state)
{
    const char *dir = *state;
    static const struct { const char *name, *args; double motion; int least, most; } rows[] = {
        { "all", "--first_frame_conditioning_p 1", 0, 8, 8 },
        { "some", "--first_frame_conditioning_p 0.5", 0, 1, 7 },
        { "motion", "--first_frame_conditioning_p 0.5 --motion_sub_loss", 0.25, 1, 7 },
        { "blocks", "--first_frame_conditioning_p 0.5 --gradient_checkpointing", 0, 1, 7 },
        { "bf16", "--first_frame_conditioning_p 0.5 --mixed_precision bf16", 0, 1, 7 },
        { "v", "--first_frame_conditioning_p 0.5 --objective v", 0, 1, 7 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *args = vc_format(TINY "--dataset_repeat 2 --trace_dir %s/trace-%s --trace_steps 6 "
                               "--max_train_steps 6 %s", dir, rows[i].name, rows[i].args);
        int clean = 0, clips = 0;
        run_ok(dir, rows[i].name, args);
        for (int step = 1; step <= 6; step++) {
            vf_view v;
            char *name = vc_format("trace-%s/step-%06d-mb-00-rank-00.safetensors", rows[i].name,
                                   step);
            vf_safetensors *f = run_open(dir, name);
            floats(f, "latents", &v);
            if (v.dim[2] == F)
                clean += check_clips(f, rows[i].motion);
            else
                check_stills(f);
            clips += v.dim[2] == F ? 2 : 0;
            vf_safetensors_close(f);
            free(name);
        }
        assert_int_equal(clips, 8);
        assert_true(clean >= rows[i].least && clean <= rows[i].most);
        free(args);
    }
    /* Recomputed blocks give the same bits. */
    assert_true(run_same_file(dir, "some/checkpoint-6/optimizer.safetensors",
                              "blocks/checkpoint-6/optimizer.safetensors"));
}

/* ---- runs ---- */

static void test_resume(void **state)
{
    const char *dir = *state;
    const char *args = TINY "--first_frame_conditioning_p 0.5 --eval_split 0.3";
    run_ok(dir, "whole", args);
    run_ok(dir, "parts", TINY "--first_frame_conditioning_p 0.5 --eval_split 0.3 "
                         "--checkpointing_steps 2 --max_train_steps 2");
    char *more = vc_format("%s --resume_from_checkpoint latest", args);
    run_ok(dir, "parts", more);
    free(more);
    assert_true(run_same_file(dir, "whole/checkpoint-4/optimizer.safetensors",
                              "parts/checkpoint-4/optimizer.safetensors"));
}

/* Whether the sample of a prompt, whose values must be finite, begins with the image. */
static bool begins_with_image(const char *dir, const char *out, int prompt)
{
    char *name = vc_format("%s/validation/step-4/%03d.safetensors", out, prompt);
    vf_safetensors *f = run_open(dir, name);
    vf_view v;
    const float *x = floats(f, "latents", &v);
    const int64_t plane = v.dim[2] * v.dim[3], clip = v.dim[1] * plane;
    bool same = plane == PLANE;
    for (int64_t i = 0; i < v.dim[0] * clip; i++) {
        int64_t c = i / clip, at = i % clip;
        assert_true(isfinite(x[i]));
        if (at < plane && plane == PLANE)
            same = same && fabsf(x[i] - toy_mean(samples[2].number, 0, c * plane + at)) < 1e-5f;
    }
    vf_safetensors_close(f);
    free(name);
    return same;
}

/* A prompt's image is the sample's first frame where the model is trained with clean first
 * frames. */
static void test_samples(void **state)
{
    const char *dir = *state;
    static const char sampling[] = TINY "--validation_steps 4 --num_inference_steps 3 ";
    run_ok(dir, "unconditioned", sampling);
    assert_false(begins_with_image(dir, "unconditioned", 0));
    char *args = vc_format("%s --first_frame_conditioning_p 0.5", sampling);
    run_ok(dir, "conditioned", args);
    free(args);
    assert_true(begins_with_image(dir, "conditioned", 0));
    assert_false(begins_with_image(dir, "conditioned", 1));      /* this prompt has no image */
}

/* A run with a chance of 0 equals a run without the flag. */
static void test_never(void **state)
{
    const char *dir = *state;
    run_ok(dir, "plain", TINY);
    run_ok(dir, "never", TINY "--first_frame_conditioning_p 0");
    assert_true(run_same_file(dir, "plain/checkpoint-4/optimizer.safetensors",
                              "never/checkpoint-4/optimizer.safetensors"));
    run_ok(dir, "always", TINY "--first_frame_conditioning_p 1");
    assert_false(run_same_file(dir, "plain/checkpoint-4/optimizer.safetensors",
                               "always/checkpoint-4/optimizer.safetensors"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_traces), cmocka_unit_test(test_resume),
        cmocka_unit_test(test_samples), cmocka_unit_test(test_never),
    };
    return cmocka_run_group_tests(tests, make, toy_dir_teardown);
}
