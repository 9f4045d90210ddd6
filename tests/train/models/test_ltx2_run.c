/* test_ltx2_run.c - validation samples of whole runs of LTX-2's tiny models, with their connectors,
 * equal the reference's (tests/golden/samples-ltx2-20, -23, and with sound -sound-20, -sound-23):
 * 2.0 from text, 2.3 from a first frame. */
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

enum { C = 8, F = 3, H = 4, W = 6, WIDTH = 32, SOUND_WIDTH = 16 };

#define DYNAMIC "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"base_shift\":0.95," \
    "\"max_shift\":2.05,\"base_image_seq_len\":1024,\"max_image_seq_len\":4096," \
    "\"use_dynamic_shifting\":true,\"shift_terminal\":0.1}"

static const toy_sample clips[] = {
    { .number = 0, .f = F, .h = H, .w = W, .caption = { "a" } },
    { .number = 1, .f = F, .h = H, .w = W, .caption = { "b" } },
};
#define FIRST "--first_frame_conditioning_p 1"
static const struct { const char *version, *class, *flags; bool sound; } models[] = {
    { "20", "LTX2Pipeline", "", false },
    { "23", "LTX2ImageToVideoPipeline", FIRST, false },
    { "20", "LTX2Pipeline", "--with_audio --audio_guidance_scale 7", true },
    { "23", "LTX2ImageToVideoPipeline", "--with_audio --audio_guidance_scale 7 " FIRST, true },
};

static void check_sound(const vf_safetensors *sample, const vf_safetensors *gold)
{
    vc_err err = { 0 };
    int64_t dim[8];
    vf_view v;
    float *want = golden_values(gold, "audio", dim);
    assert_ok(vf_safetensors_get(sample, "audio", &v, &err), &err);
    assert_memory_equal(v.dim, dim, 4 * sizeof *dim);
    double e = golden_error(v.data, want, vf_view_count(&v));
    print_message("sound: %.2g\n", e);
    assert_true(e <= 5e-5);
    free(want);
}

/* Makes the pipeline's folder with its scheduler and connectors. */
static char *make_pipeline(const char *dir, const char *class, const char *version)
{
    char *name = vc_format("ltx2-connectors-%s", version);
    char *model = pipeline_folder(dir, class, DYNAMIC), *path = vc_path_join(model, "connectors");
    vf_safetensors *f = golden_open(name);

    golden_model(f, path, VC_BF16);
    vf_safetensors_close(f);
    free(name);
    free(path);
    return model;
}

static void samples_are_the_reference(void **state)
{
    const char *dir = *state;

    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const bool sound = models[i].sound, wide = sound && !strcmp(models[i].version, "23");
        char *name = vc_format("samples-ltx2-%s%s", sound ? "sound-" : "", models[i].version);
        char *transformer = vc_format("ltx2-%s", models[i].version);
        char *path = vc_path_join(dir, name);
        char *model = make_pipeline(dir, models[i].class, models[i].version);
        char *sample = vc_format("%s/out-%s-%s/validation/step-1/000.safetensors", dir, name,
                                 transformer);
        vf_safetensors *gold = golden_open(name);
        const toy t = { .path = path, .sample = clips, .n = 2, .channels = C,
                        .width = wide ? WIDTH + SOUND_WIDTH : WIDTH,
                        .sound_channels = sound ? 4 : 0, .sound_bins = 4,
                        .per_channel = true, .store = TOY_SHARED_LOGVAR };
        vc_err err = { 0 };
        pipeline_set_make(t, gold, 4 * F - 3);
        char *more = vc_format("--validation_steps 1 --num_inference_steps %s --model %s "
                               "--guidance_scale 3 %s", vf_safetensors_meta(gold, "steps"), model,
                               models[i].flags);
        assert_ok(pipeline_run(dir, name, transformer, more, &err), &err);
        vf_safetensors *made = pipeline_sample_check(sample, gold);
        if (sound)
            check_sound(made, gold);
        vf_safetensors_close(made);
        vf_safetensors_close(gold);
        free(name), free(transformer), free(path), free(model), free(sample), free(more);
    }
}

/* Without the pipeline's folder there are no connectors. */
static void needs_the_pipeline(void **state)
{
    vc_err err = { 0 };

    assert_fails(pipeline_run(*state, "samples-ltx2-20", "ltx2-23", "", &err), VC_EUSAGE, &err,
                 "has no folder connectors");
}

static int make(void **state)
{
    static const char *const names[] = { "ltx2-20", "ltx2-23", NULL };
    return pipeline_models_make(state, names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_the_reference), cmocka_unit_test(needs_the_pipeline),
    };
    return cmocka_run_group_tests(tests, make, toy_dir_teardown);
}
