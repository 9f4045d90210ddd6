/* test_i2v.c - image-to-video models of HunyuanVideo, HunyuanVideo 1.5, LTX-Video, Kandinsky 5 and
 * Cosmos-Predict2 in whole runs: validation samples against diffusers' pipelines
 * (tests/golden/samples-*; of T2V with a negative prompt too), first frames as posterior means, and
 * datasets that are made for another of these models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_run.h"
#include "tests/train/models/pipeline_samples.h"

enum { C = 4, C_LTX = 8, F = 3, H = 4, W = 6, WIDTH = 32, REPLACE = 4, CONCAT = 2 };

#define FIRST "--first_frame_conditioning_p 1"

static const toy_sample clips[] = {
    { .number = 0, .f = F, .h = H, .w = W, .caption = { "a" } },
    { .number = 1, .f = F, .h = H, .w = W, .caption = { "b" } },
};
static const struct model {
    const char *name;
    int interleave;
    const char *flags;
    bool ltx, v15, kandinsky, cosmos;        /* LTX-Video, HunyuanVideo 1.5, Kandinsky 5,
                                              * Cosmos-Predict2 */
    bool pictures;                           /* of HunyuanVideo 1.5: image to video */
    const char *transformer;                 /* its golden, if not of this name */
    const char *pipeline;                    /* _class_name of --model, with Euler's scheduler */
} models[] = {
    { .name = "hunyuan-replace", .interleave = REPLACE, .flags = "" },
    { .name = "hunyuan-concat", .interleave = CONCAT, .flags = "" },
    { .name = "skyreels-i2v", .flags = "" },
    { .name = "hunyuan", .flags = "--true_cfg_scale 6" },
    { .name = "hunyuan15", .flags = "", .v15 = true },
    { .name = "hunyuan15-i2v", .flags = "", .v15 = true, .pictures = true },
    { .name = "hunyuan15-steps", .flags = "--guidance_scale 6", .v15 = true, .pictures = true },
    { .name = "kandinsky5", .flags = "--flow_shift 5", .kandinsky = true },
    { .name = "kandinsky5-i2v", .transformer = "kandinsky5", .kandinsky = true,
      .flags = "--flow_shift 5 " FIRST },
    { .name = "ltx", .flags = FIRST " --guidance_scale 3", .ltx = true },
    { .name = "ltx-rescaled", .transformer = "ltx", .ltx = true,
      .flags = "--guidance_scale 3 --guidance_rescale 0.7" },
    { .name = "ltx-condition", .transformer = "ltx", .ltx = true, .flags = FIRST
      " --guidance_scale 3", .pipeline = "LTXConditionPipeline" },
    { .name = "ltx-condition-text", .transformer = "ltx", .ltx = true,
      .flags = "--guidance_scale 3", .pipeline = "LTXConditionPipeline" },
    { .name = "cosmos2-world", .cosmos = true, .flags = FIRST " --guidance_scale 2.5" },
};
enum { MODELS = sizeof models / sizeof *models };

/* ---- the dataset ---- */

static toy toy_of(const char *path, int interleave, bool images)
{
    return (toy){ .path = path, .sample = clips, .n = 2, .channels = C, .width = WIDTH,
                  .pooled = WIDTH, .encoders = 2, .pooled_only = 2, .interleave = interleave,
                  .scaling = 0.476986, .train_mode = images ? "i2v" : "normal",
                  .conditions = images ? 1u << VC_ROLE_IMAGE : 0 };
}

static toy toy_of_ltx(const char *path)
{
    return (toy){ .path = path, .sample = clips, .n = 2, .channels = C_LTX, .width = WIDTH,
                  .per_channel = true, .store = TOY_SHARED_LOGVAR };
}

static toy toy_of_kandinsky(const char *path)
{
    return (toy){ .path = path, .sample = clips, .n = 2, .channels = C, .width = WIDTH,
                  .pooled = WIDTH, .encoders = 2, .pooled_only = 2, .scaling = 0.476986,
                  .family = "kandinsky5", .vae = "AutoencoderKLHunyuanVideo" };
}

static toy toy_of_cosmos(const char *path)
{
    return (toy){ .path = path, .sample = clips, .n = 2, .channels = C, .width = WIDTH,
                  .encoders = 1, .family = "cosmos2", .vae = "AutoencoderKLWan",
                  .per_channel = true };
}

/* The second encoder's texts are ByT5's. */
static toy toy_of_v15(const char *path, bool images)
{
    return (toy){ .path = path, .sample = clips, .n = 2, .channels = C, .width = WIDTH,
                  .encoders = 2, .scaling = 0.75, .train_mode = images ? "i2v" : "normal",
                  .conditions = images ? VC_ROLE_BIT(VC_ROLE_IMAGE) | VC_ROLE_BIT(VC_ROLE_VISION)
                                       : 0 };
}

/* ---- runs ---- */

#define EULER "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\"}"

static void check_sample(const char *dir, const struct model *m, const vf_safetensors *gold)
{
    char *path = vc_format("%s/out-set-%s-%s/validation/step-1/000.safetensors", dir, m->name,
                           m->transformer ? m->transformer : m->name);
    vf_safetensors *f = pipeline_sample_check(path, gold);
    const char *skip = vf_safetensors_meta(f, "skip_frames");
    assert_true(m->interleave == CONCAT ? skip && !strcmp(skip, "4") : !skip);
    vf_safetensors_close(f);
    free(path);
}

static void samples_are_pipelines(void **state)
{
    const char *dir = *state;
    for (int i = 0; i < MODELS; i++) {
        char *name = vc_format("samples-%s", models[i].name), *set = vc_format("set-%s",
                                                                              models[i].name);
        char *path = vc_path_join(dir, set), *more;
        vf_safetensors *gold = golden_open(name);
        vc_err err = { 0 };
        pipeline_set_make(models[i].ltx ? toy_of_ltx(path)
                          : models[i].kandinsky ? toy_of_kandinsky(path)
                          : models[i].cosmos ? toy_of_cosmos(path)
                          : models[i].v15 ? toy_of_v15(path, models[i].pictures)
                                        : toy_of(path, models[i].interleave, true),
                          gold, 4 * F - 3);
        char *model = models[i].pipeline ? pipeline_folder(dir, models[i].pipeline, EULER) : NULL;
        more = vc_format("--validation_steps 1 --num_inference_steps %s %s %s%s",
                         vf_safetensors_meta(gold, "steps"), models[i].flags,
                         model ? "--model " : "", model ? model : "");
        assert_ok(pipeline_run(dir, set, models[i].transformer ? models[i].transformer
                                                               : models[i].name, more, &err), &err);
        free(model);
        check_sample(dir, &models[i], gold);
        vf_safetensors_close(gold);
        free(more);
        free(path);
        free(set);
        free(name);
    }
}

/* ---- first frames in training ---- */

/* Whether the image beside the noisy latents is the posterior's mean; else it is a draw. */
static bool trains_on_mean(const char *dir, const char *model)
{
    char *more = vc_format("--trace_dir %s/trace-%s", dir, model);
    char *path = vc_format("%s/trace-%s/step-000001-mb-00-rank-00.safetensors", dir, model);
    char *set = vc_format("set-%s", model);
    vf_safetensors *f;
    vf_view v;
    vc_err err = { 0 };
    char *out = vc_format("%s/out-%s-%s", dir, set, model);
    assert_ok(vc_remove_tree(out, &err), &err);
    assert_ok(pipeline_run(dir, set, model, more, &err), &err);
    assert_ok(vf_safetensors_open(&f, path, &err), &err);
    assert_ok(vf_safetensors_get(f, "hidden_states", &v, &err), &err);
    const float *x = (const float *)v.data + C * F * H * W;     /* behind the noisy channels */
    bool same[2] = { true, true };
    for (int64_t i = 0; i < C * H * W; i++)
        for (uint32_t clip = 0; clip < 2; clip++) {
            double mean = 0.476986 * (double)toy_condition(VC_ROLE_IMAGE, clip, i);
            double have = (double)x[i / (H * W) * F * H * W + i % (H * W)];
            same[clip] &= have - mean < 1e-5 && mean - have < 1e-5;
        }
    vf_safetensors_close(f);
    free(out);
    free(more);
    free(path);
    free(set);
    return same[0] || same[1];
}

static void first_frames(void **state)
{
    assert_true(trains_on_mean(*state, "hunyuan-concat"));
    assert_false(trains_on_mean(*state, "skyreels-i2v"));
}

/* ---- datasets of another model ---- */

static void refused(const char *dir, const char *set, const char *model, const char *says)
{
    vc_err err = { 0 };
    int rc = pipeline_run(dir, set, model, "", &err);
    if (rc != VC_EMISMATCH || !strstr(err.text, says))
        fail_msg("%d; \"%s\" is missing from: %s", rc, says, err.text);
    assert_ok(pipeline_run(dir, set, model, "--allow_mismatch", &err), &err);
}

static void other_datasets(void **state)
{
    const char *dir = *state;
    static const struct { const char *name; int interleave; bool images; } sets[] = {
        { "t2v", 0, false }, { "t2v-images", 0, true }, { "replace", REPLACE, true },
        { "concat", CONCAT, true }, { "no-images", REPLACE, false },
    };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        char *path = vc_path_join(dir, sets[i].name);
        toy t = toy_of(path, sets[i].interleave, sets[i].images);
        toy_make(&t);
        free(path);
    }
    refused(dir, "t2v", "hunyuan-replace", "texts with no first frame, the transformer "
            "HunyuanVideoTransformer3DModel takes texts with every state 4 of the first frame");
    refused(dir, "t2v-images", "hunyuan-concat", "run vprep with the --model folder of this");
    refused(dir, "concat", "hunyuan-replace", "texts with every state 2 of the first frame");
    refused(dir, "replace", "hunyuan-concat", "takes texts with every state 2");
    refused(dir, "replace", "skyreels-i2v", "takes texts with no first frame");
    refused(dir, "no-images", "hunyuan-replace", "takes a first-frame image (4 channels in all), "
            "the dataset");
}

static int make(void **state)
{
    static const char *const names[] = { "hunyuan-replace", "hunyuan-concat", "skyreels-i2v",
                                         "hunyuan", "hunyuan15", "hunyuan15-i2v",
                                         "hunyuan15-steps", "ltx", "kandinsky5",
                                         "cosmos2-world", NULL };
    return pipeline_models_make(state, names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_pipelines), cmocka_unit_test(first_frames),
        cmocka_unit_test(other_datasets),
    };
    return cmocka_run_group_tests(tests, make, toy_dir_teardown);
}
