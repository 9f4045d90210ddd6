/* test_controlnet_run.c - whole runs of FLUX.1's and Qwen-Image's tiny transformers beside a
 * ControlNet of copied blocks: validation samples against diffusers' FluxControlNetPipeline (a
 * ControlNet-Union too), QwenImageControlNetPipeline and QwenImageControlNetInpaintPipeline
 * (tests/golden/samples-control-*), guided by a negative prompt that the ControlNet does not
 * read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_run.h"
#include "tests/train/models/pipeline_samples.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
enum { C = 4, H = 4, W = 6, PIXELS = 64 };

static const toy_sample pictures[] = {
    { .number = 0, .h = H, .w = W, .caption = { "a" } },
    { .number = 1, .h = H, .w = W, .caption = { "b" } },
};
static const toy flux = { .sample = pictures, .n = COUNT(pictures), .channels = C, .width = 16,
                          .pooled = 32, .encoders = 2, .pooled_only = 1, .family = "flux",
                          .vae = "AutoencoderKL", .scaling = 0.3611, .shift = 0.1159 };
static const toy qwen = { .sample = pictures, .n = COUNT(pictures), .channels = C, .width = 32,
                          .encoders = 1, .family = "qwen-image" };
static const struct model {
    const char *name, *transformer;
    const toy *of;
    const char *mode;
    unsigned conditions;                         /* of the samples; the prompt has its own */
} models[] = {
    { "flux", "flux-dev", &flux, "control", VC_ROLE_BIT(VC_ROLE_CONTROL) },
    { "union", "flux-dev", &flux, "control", VC_ROLE_BIT(VC_ROLE_CONTROL) },
    { "qwen", "qwen", &qwen, "control", VC_ROLE_BIT(VC_ROLE_CONTROL) },
    { "qwen-mask", "qwen", &qwen, "inpaint",
      VC_ROLE_BIT(VC_ROLE_MASK) | VC_ROLE_BIT(VC_ROLE_VIDEO) },
};

/* A LoRA is trained beside the frozen ControlNet; its changes are too small to be seen. */
static void check_model(const char *dir, const struct model *m)
{
    char *golden = vc_format("samples-control-%s", m->name), *set = vc_path_join(dir, m->name);
    char *net = vc_format("%s/net-%s", dir, m->name);
    char *out = vc_format("%s/out-%s-%s/validation/step-1/000.safetensors", dir, m->name,
                          m->transformer);
    vf_safetensors *gold = golden_open(golden);
    vc_err err = { 0 };
    toy t = *m->of;
    t.path = set;
    t.train_mode = m->mode;
    t.conditions = m->conditions;
    t.mask_channels = PIXELS;
    golden_model(gold, net, VC_BF16);
    pipeline_set_make(t, gold, 1);
    char *more = vc_format("--controlnet %s --validation_steps 1 --num_inference_steps %s "
                           "--caption_dropout_p 0 %s", net, vf_safetensors_meta(gold, "steps"),
                           vf_safetensors_meta(gold, "flags"));
    assert_ok(pipeline_run(dir, m->name, m->transformer, more, &err), &err);
    vf_safetensors_close(pipeline_sample_check(out, gold));
    vf_safetensors_close(gold);
    free(more);
    free(out);
    free(net);
    free(set);
    free(golden);
}

static void samples_are_pipelines(void **state)
{
    for (size_t i = 0; i < COUNT(models); i++)
        check_model(*state, &models[i]);
}

static int make(void **state)
{
    static const char *const names[] = { "flux-dev", "qwen", NULL };
    return pipeline_models_make(state, names);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(samples_are_pipelines) };
    return cmocka_run_group_tests(tests, make, toy_dir_teardown);
}
