/* test_flux_run.c - whole runs of FLUX.1's tiny transformers: validation samples against diffusers'
 * pipelines (tests/golden/samples-flux-*; of Fill with a mask, of Kontext with a reference), shifts
 * with and without a scheduler's file, traces in the layout of diffusers' forward(), datasets and
 * flags that are refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_run.h"
#include "tests/train/models/pipeline_samples.h"
#include "train/diffusion/shift.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
enum { C = 4, H = 4, W = 6, N = H / 2 * (W / 2), TEXT = 16, POOLED = 32, CLIP = 1 };

static const vtrain_by_tokens dev = { true, VTRAIN_MU_EXPONENTIAL, 0.5, 1.15, 256, 4096 };
static const toy_sample pictures[] = {
    { .number = 0, .h = H, .w = W, .caption = { "a" } },
    { .number = 1, .h = H, .w = W, .caption = { "b" } },
};
static const struct model {
    const char *name, *folder, *golden, *flags, *mode;
    unsigned conditions;                         /* of the samples; the prompt has its own */
} models[] = {
    { "dev", "flux-dev", "samples-flux-dev", "", NULL, 0 },
    { "cfg", "flux-dev", "samples-flux-dev-cfg", "--true_cfg_scale 2", NULL, 0 },
    { "schnell", "flux-schnell", "samples-flux-schnell", "", NULL, 0 },
    { "fill", "flux-fill", "samples-flux-fill", "", "inpaint",
      1u << VC_ROLE_MASK | 1u << VC_ROLE_VIDEO },
    { "kontext", "flux-kontext", "samples-flux-kontext", "--guidance_scale 2.5", "edit", 0 },
};

static toy toy_of(const char *path)
{
    return (toy){ .path = path, .sample = pictures, .n = COUNT(pictures), .channels = C,
                  .width = TEXT, .pooled = POOLED, .encoders = 2, .pooled_only = CLIP,
                  .family = "flux", .vae = "AutoencoderKL", .scaling = 0.3611, .shift = 0.1159 };
}

/* Runs a step whose changes are too small to be seen in samples. */
static int run_type(const char *dir, const char *set, const char *model, const char *out,
                    const char *type, const char *more, vc_err *err)
{
    char *args = vc_format("--latents %s/%s --transformer %s/%s --output_dir %s/out-%s "
                           "--training_type %s --learning_rate 1e-20 "
                           "--max_train_steps 1 --mixed_precision no --threads 1 --workers 1 "
                           "--train_batch_size 1 --seed 5 --caption_dropout_p 0 %s", dir, set,
                           dir, model, dir, out, type, more);
    int rc = run_bare(args, err);
    free(args);
    return rc;
}

static int run_model(const char *dir, const char *set, const char *model, const char *out,
                     const char *more, vc_err *err)
{
    return run_type(dir, set, model, out, "lora --rank 1", more, err);
}

/* A folder without a scheduler's file has the schedule of the family. */
static void samples_are_pipelines(void **state)
{
    const char *dir = *state;
    for (size_t i = 0; i < COUNT(models); i++) {
        const struct model *m = &models[i];
        char *path = vc_path_join(dir, m->name);
        char *out = vc_format("%s/out-%s/validation/step-1/000.safetensors", dir, m->name);
        vf_safetensors *gold = golden_open(m->golden);
        vc_err err = { 0 };
        toy t = toy_of(path);
        t.train_mode = m->mode;
        t.conditions = m->conditions;
        t.mask_channels = 64;
        pipeline_set_make(t, gold, 1);
        char *more = vc_format("--validation_steps 1 --num_inference_steps %s %s",
                               vf_safetensors_meta(gold, "steps"), m->flags);
        assert_ok(run_model(dir, m->name, m->folder, m->name, more, &err), &err);
        vf_safetensors_close(pipeline_sample_check(out, gold));
        vf_safetensors_close(gold);
        free(path);
        free(out);
        free(more);
    }
}

/* ---- traces ---- */

static vf_safetensors *traced(const char *dir, const char *model, const char *name,
                              const char *more)
{
    char *args = vc_format("--trace_dir %s/trace-%s %s", dir, name, more);
    char *path = vc_format("%s/trace-%s/step-000001-mb-00-rank-00.safetensors", dir, name);
    vf_safetensors *f;
    vc_err err = { 0 };
    assert_ok(run_model(dir, "dev", model, name, args, &err), &err);
    assert_ok(vf_safetensors_open(&f, path, &err), &err);
    free(args);
    free(path);
    return f;
}

static float sigma_of(const char *dir, const char *model, const char *name, const char *more)
{
    vf_safetensors *f = traced(dir, model, name, more);
    float *v = golden_values(f, "sigmas", NULL), sigma = *v;
    free(v);
    vf_safetensors_close(f);
    return sigma;
}

/* dev's levels have the factor of their number of tokens, also by the name of musubi-tuner, and
 * schnell's have no shift. */
static void test_shift(void **state)
{
    const char *dir = *state;
    double u = (double)sigma_of(dir, "flux-schnell", "plain", "");
    double want = vtrain_shifted(vtrain_shift_factor(&dev, N), u);
    assert_true(fabs((double)sigma_of(dir, "flux-dev", "by", "") - want) < 1e-6);
    assert_true(fabs((double)sigma_of(dir, "flux-dev", "musubi", "--timestep_sampling flux_shift") -
                     want) < 1e-6);
    assert_true(fabs((double)sigma_of(dir, "flux-dev", "fixed", "--flow_shift 3") -
                     vtrain_shifted(3, u)) < 1e-6);
    vc_err err = { 0 };
    assert_fails(run_model(dir, "dev", "flux-schnell", "no", "--timestep_sampling flux_shift",
                           &err), VC_EUSAGE, &err, "this model has another");
    assert_fails(run_model(dir, "dev", "flux-dev", "no", "--timestep_sampling qwen_shift", &err),
                 VC_EUSAGE, &err, "max_shift 0.9 at 256 and 8192 tokens");
    assert_fails(run_model(dir, "dev", "flux-schnell", "no", "--embedded_guidance 3.5", &err),
                 VC_EUSAGE, &err, "does not take guidance");
}

static void test_trace(void **state)
{
    static const char *const packed[] = { "latents", "noise", "noisy_latents", "target",
                                          "model_output", "hidden_states", "loss_weight" };
    vf_safetensors *f = traced(*state, "flux-dev", "names", "--embedded_guidance 3.5");
    for (size_t i = 0; i < COUNT(packed); i++)
        golden_has_shape(f, packed[i], 3, (int64_t[]){ 1, N, 4 * C });
    golden_has_shape(f, "pooled_projections", 2, (int64_t[]){ 1, POOLED });
    float *level = golden_values(f, "timestep", NULL), *sigma = golden_values(f, "sigmas", NULL);
    float *time = golden_values(f, "timesteps", NULL), *ids = golden_values(f, "img_ids", NULL);
    float *guidance = golden_values(f, "guidance", NULL);
    assert_float_equal(*level, (double)*sigma, 1e-6);
    assert_float_equal(*time, 1000 * (double)*sigma, 1e-3);
    assert_float_equal(*guidance, 3.5, 0);
    for (int i = 0; i < N; i++)
        assert_true(ids[3 * i] == 0 && ids[3 * i + 1] == (float)(i / (W / 2)) &&
                    ids[3 * i + 2] == (float)(i % (W / 2)));
    int64_t dim[8];
    float *text = golden_values(f, "encoder_hidden_states", dim);
    golden_has_shape(f, "txt_ids", 2, (int64_t[]){ dim[1], 3 });
    assert_int_equal(dim[2], TEXT);
    free(text);
    free(level);
    free(sigma);
    free(time);
    free(ids);
    free(guidance);
    vf_safetensors_close(f);
}

/* ---- a file of the first authors ---- */

#define FILE_OF(folder) folder "/diffusion_pytorch_model.safetensors"

/* The file is trained in place, also in 8 bits, and a full finetune writes diffusers' folder. */
static void test_first(void **state)
{
    const char *dir = *state;
    char *folder = vc_path_join(dir, "first"), *json = vc_path_join(dir, "first/config.json");
    vf_safetensors *gold = golden_open("flux-first");
    vc_err err = { 0 };
    golden_model(gold, folder, VC_BF16);
    assert_int_equal(unlink(json), 0);
    assert_ok(run_model(dir, "dev", FILE_OF("first"), "lora-1", "", &err), &err);
    assert_ok(run_model(dir, "dev", FILE_OF("first"), "eight", "--transformer_dtype fp8", &err),
              &err);
    assert_ok(run_type(dir, "dev", FILE_OF("first"), "full", "full-finetune", "", &err), &err);
    assert_ok(run_model(dir, "dev", "out-full/checkpoint-1/transformer", "lora-2", "", &err), &err);
    double loss = run_value(dir, "out-lora-1", 0, "loss");
    assert_true(fabs(run_value(dir, "out-lora-2", 0, "loss") - loss) <= 1e-6 * loss);
    assert_true(fabs(run_value(dir, "out-eight", 0, "loss") - loss) <= 0.1 * loss);
    assert_fails(run_model(dir, "dev", "out-lora-1/checkpoint-1/optimizer.safetensors", "no", "",
                           &err), VC_EUSAGE, &err, "its tensors have no names that are known");
    vf_safetensors_close(gold);
    free(folder);
    free(json);
}

/* ---- what is refused ---- */

/* FLUX.1 masks nothing, so that prompts of different lengths are no batch; it has no clips. */
static void test_refused(void **state)
{
    static const toy_sample odd[] = {
        { .number = 0, .h = H, .w = W, .caption = { "a" } },
        { .number = 1, .h = H, .w = W, .caption = { "a b c" } },
    };
    static const toy_sample clips[] = { { .number = 0, .f = 3, .h = H, .w = W,
                                          .caption = { "a" } } };
    const char *dir = *state;
    char *path = vc_path_join(dir, "odd");
    toy t = toy_of(path);
    vc_err err = { 0 };
    t.sample = odd;
    toy_make(&t);
    assert_fails(run_model(dir, "odd", "flux-dev", "odd", "--train_batch_size 2", &err),
                 VC_EMISMATCH, &err, "the dataset must hold all tokens of each prompt");
    t.sample = clips;
    t.n = 1;
    toy_make(&t);
    assert_fails(run_model(dir, "odd", "flux-dev", "odd", "", &err), VC_EMISMATCH, &err,
                 "FLUX.1 makes pictures");
    free(path);
}

static int make(void **state)
{
    static const char *const names[] = { "flux-dev", "flux-schnell", "flux-fill", "flux-kontext",
                                         NULL };
    return pipeline_models_make(state, names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_pipelines), cmocka_unit_test(test_shift),
        cmocka_unit_test(test_trace), cmocka_unit_test(test_first),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, make, toy_dir_teardown);
}
