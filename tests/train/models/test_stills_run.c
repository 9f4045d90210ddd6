/* test_stills_run.c - whole runs of the tiny transformers of Z-Image, Chroma, Krea 2, SD3,
 * ERNIE-Image, Cosmos-Predict2 and FLUX.2: validation samples against diffusers' pipelines
 * (tests/golden/samples-z-image, -turbo, samples-chroma, samples-krea2, samples-sd3*,
 * samples-ernie-image, -turbo, samples-cosmos2, -unguided, samples-flux2, -distilled, -edit*),
 * guided and not, and with reference pictures; traces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_run.h"
#include "tests/train/models/pipeline_samples.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

static const toy_sample zimage_pictures[] = {
    { .number = 0, .h = 4, .w = 6, .caption = { "a" } },
    { .number = 1, .h = 4, .w = 6, .caption = { "a longer one" } },
};
static const toy_sample flux2_pictures[] = {
    { .number = 0, .h = 3, .w = 5, .caption = { "a" } },
    { .number = 1, .h = 3, .w = 5, .caption = { "b" } },
};

static toy zimage_toy(const char *path)
{
    return (toy){ .path = path, .sample = zimage_pictures, .n = COUNT(zimage_pictures),
                  .channels = 4, .width = 32, .encoders = 1, .family = "z-image",
                  .vae = "AutoencoderKL", .scaling = 0.3611, .shift = 0.1159 };
}

static toy chroma_toy(const char *path)
{
    return (toy){ .path = path, .sample = zimage_pictures, .n = COUNT(zimage_pictures),
                  .channels = 4, .width = 16, .encoders = 1, .family = "chroma",
                  .vae = "AutoencoderKL", .scaling = 0.3611, .shift = 0.1159 };
}

static toy krea2_toy(const char *path)
{
    return (toy){ .path = path, .sample = zimage_pictures, .n = COUNT(zimage_pictures),
                  .channels = 4, .width = 192, .encoders = 1, .family = "krea2",
                  .vae = "AutoencoderKLQwenImage" };
}

static toy sd3_toy(const char *path)
{
    static const int widths[] = { 4, 6, 12 }, pooled[] = { 4, 6, 0 };
    return (toy){ .path = path, .sample = zimage_pictures, .n = COUNT(zimage_pictures),
                  .channels = 4, .widths = widths, .pooleds = pooled, .encoders = 3,
                  .family = "sd3", .vae = "AutoencoderKL", .scaling = 1.5305, .shift = 0.0609 };
}

static toy ernie_toy(const char *path)
{
    return (toy){ .path = path, .sample = flux2_pictures, .n = COUNT(flux2_pictures),
                  .channels = 16, .width = 32, .encoders = 1, .family = "ernie-image",
                  .vae = "AutoencoderKLFlux2", .per_channel = true };
}

static toy cosmos2_toy(const char *path)
{
    return (toy){ .path = path, .sample = zimage_pictures, .n = COUNT(zimage_pictures),
                  .channels = 4, .width = 32, .encoders = 1, .family = "cosmos2",
                  .vae = "AutoencoderKLWan", .per_channel = true };
}

static toy flux2_toy(const char *path)
{
    return (toy){ .path = path, .sample = flux2_pictures, .n = COUNT(flux2_pictures),
                  .channels = 16, .width = 48, .encoders = 1, .family = "flux2",
                  .vae = "AutoencoderKLFlux2", .per_channel = true };
}

/* A family's goldens; what a run without flags samples with; the tensors of a trace that
 * diffusers' forward() takes. */
typedef struct row {
    toy (*toy_of)(const char *path);
    const char *model, *goldens[6], *steps, *guidance;
    struct { const char *name; int nd; int64_t dim[5]; } traced[4];
    const char *text;
    bool clean;                      /* the timestep is 1 - s, */
    bool thousands;                  /* or 1000 s; else s */
    bool numbered;                   /* the last of a prompt's four axes has the token's number */
} row;

/* Z-Image's schedule is the family's, as the folder has no scheduler's file, and a guidance of 0 is
 * none. Krea 2 Turbo has a shift of its own, which --flow_shift gives. FLUX.2's shift of the levels
 * follows from the tokens and the steps of a sample. A model folder without model_index.json has
 * the pipeline of its transformer's class. */
static const row rows[] = {
    { .toy_of = zimage_toy, .model = "zimage",
      .goldens = { "samples-z-image", "samples-z-image-turbo" }, .steps = "50", .guidance = "5",
      .traced = { { "noisy_latents", 5, { 1, 4, 1, 4, 6 } } }, .text = "cap_feats",
      .clean = true },
    { .toy_of = chroma_toy, .model = "chroma",
      .goldens = { "samples-chroma", "samples-chroma-unguided" }, .steps = "35", .guidance = "5",
      .traced = { { "hidden_states", 3, { 1, 2 * 3, 16 } }, { "img_ids", 2, { 2 * 3, 3 } },
                  { "attention_mask", 2, { 1, 2 } } },
      .text = "encoder_hidden_states" },
    { .toy_of = krea2_toy, .model = "krea2", .goldens = { "samples-krea2", "samples-krea2-turbo" },
      .steps = "28", .guidance = "4.5",
      .traced = { { "position_ids", 2, { 2 + 2 * 3, 3 } } },
      .text = "encoder_hidden_states" },
    { .toy_of = sd3_toy, .model = "sd3.5-medium",
      .goldens = { "samples-sd3", "samples-sd3-unguided", "samples-sd3-without",
                    "samples-sd3-skipped" }, .steps = "28",
      .guidance = "7",
      .traced = { { "noisy_latents", 5, { 1, 4, 1, 4, 6 } },
                  { "pooled_projections", 2, { 1, 10 } } },
      .text = "encoder_hidden_states", .thousands = true },
    { .toy_of = ernie_toy, .model = "ernie-image",
      .goldens = { "samples-ernie-image", "samples-ernie-image-turbo" }, .steps = "50",
      .guidance = "4", .traced = { { "noisy_latents", 5, { 1, 16, 1, 3, 5 } },
                                    { "text_lens", 1, { 1 } } }, .text = "text_bth",
      .thousands = true },
    { .toy_of = cosmos2_toy, .model = "cosmos2",
      .goldens = { "samples-cosmos2", "samples-cosmos2-unguided" }, .steps = "35",
      .guidance = "7", .traced = { { "noisy_latents", 5, { 1, 4, 1, 4, 6 } } },
      .text = "encoder_hidden_states" },
    { .toy_of = flux2_toy, .model = "flux2-klein",
      .goldens = { "samples-flux2", "samples-flux2-distilled", "samples-flux2-edit",
                    "samples-flux2-edit-one", "samples-flux2-edit-three" },
      .steps = "50", .guidance = "4",
      .traced = { { "hidden_states", 3, { 1, 3 * 5, 16 } }, { "img_ids", 2, { 3 * 5, 4 } } },
      .text = "encoder_hidden_states", .numbered = true },
};

static void samples_are_pipelines(void **state)
{
    for (size_t i = 0; i < COUNT(rows); i++)
        pipeline_goldens_check(*state, rows[i].toy_of, rows[i].model, rows[i].goldens);
}

static void defaults(void **state)
{
    for (size_t i = 0; i < COUNT(rows); i++)
        pipeline_defaults_check(*state, rows[i].toy_of, rows[i].model, rows[i].goldens[0],
                                rows[i].steps, rows[i].guidance);
}

/* Trains a step with a trace, and opens the trace. */
static vf_safetensors *trace(const char *dir, const row *r)
{
    char *name = vc_format("%s.lmdb", r->model), *path = vc_path_join(dir, name);
    char *more = vc_format("--trace_dir %s/trace-%s", dir, r->model);
    char *file = vc_format("trace-%s/step-000001-mb-00-rank-00.safetensors", r->model);
    const toy t = r->toy_of(path);
    vc_err err = { 0 };

    toy_make(&t);
    assert_ok(pipeline_run(dir, name, r->model, more, &err), &err);
    vf_safetensors *f = run_open(dir, file);
    free(name), free(path), free(more), free(file);
    return f;
}

static void traces(void **state)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        const row *r = &rows[i];
        vf_safetensors *f = trace(*state, r);
        float *time = golden_values(f, "timestep", NULL), *s = golden_values(f, "sigmas", NULL);
        assert_float_equal(r->thousands ? *time / 1000 : *time, r->clean ? 1 - *s : *s, 1e-6);
        for (int k = 0; r->traced[k].name; k++)
            golden_has_shape(f, r->traced[k].name, r->traced[k].nd, r->traced[k].dim);
        free(golden_values(f, r->text, NULL));
        float *ids = r->numbered ? golden_values(f, "txt_ids", NULL) : NULL;
        assert_true(!ids || (ids[3] == 0.0f && ids[7] == 1.0f && ids[4] == 0.0f));
        free(ids);
        vf_safetensors_close(f);
        free(time), free(s);
    }
}

static int make(void **state)
{
    static const char *const names[] = { "zimage", "chroma", "krea2", "sd3.5-medium",
                                          "ernie-image", "cosmos2", "flux2-klein", NULL };
    return pipeline_models_make(state, names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_pipelines), cmocka_unit_test(defaults),
        cmocka_unit_test(traces),
    };
    return cmocka_run_group_tests(tests, make, toy_dir_teardown);
}
