/* test_flux2_run.c - whole runs of FLUX.2's tiny transformer: validation samples against diffusers'
 * Flux2KleinPipeline (tests/golden/samples-flux2, -distilled, -edit), guided and not, and with
 * reference pictures; traces. */
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
enum { C = 16, H = 3, W = 5, TEXT = 48 };

static const toy_sample pictures[] = {
    { .number = 0, .h = H, .w = W, .caption = { "a" } },
    { .number = 1, .h = H, .w = W, .caption = { "b" } },
};

static toy toy_of(const char *path)
{
    return (toy){ .path = path, .sample = pictures, .n = COUNT(pictures), .channels = C,
                  .width = TEXT, .encoders = 1, .family = "flux2", .vae = "AutoencoderKLFlux2",
                  .per_channel = true };
}

/* The shift of the levels follows from the tokens and the steps of a sample. A model folder without
 * model_index.json has the pipeline of its transformer's class. */
static void samples_are_pipelines(void **state)
{
    static const char *const goldens[] = { "samples-flux2", "samples-flux2-distilled",
                                           "samples-flux2-edit", NULL };
    pipeline_goldens_check(*state, toy_of, "flux2-klein", goldens);
}

/* Without flags a sample has the pipeline's 50 steps and its guidance of 4. */
static void defaults(void **state)
{
    pipeline_defaults_check(*state, toy_of, "flux2-klein", "samples-flux2", "50", "4");
}

/* diffusers' forward() is given the level, tokens and positions of four axes. */
static void traces(void **state)
{
    const char *dir = *state;
    char *path = vc_path_join(dir, "set.lmdb");
    char *more = vc_format("--trace_dir %s/trace", dir);
    const toy t = toy_of(path);
    vc_err err = { 0 };
    toy_make(&t);
    assert_ok(pipeline_run(dir, "set.lmdb", "flux2-klein", more, &err), &err);
    vf_safetensors *f = run_open(dir, "trace/step-000001-mb-00-rank-00.safetensors");
    golden_has_shape(f, "hidden_states", 3, (int64_t[]){ 1, H * W, C });
    golden_has_shape(f, "img_ids", 2, (int64_t[]){ H * W, 4 });
    float *time = golden_values(f, "timestep", NULL), *sigma = golden_values(f, "sigmas", NULL);
    float *ids = golden_values(f, "txt_ids", NULL);
    assert_float_equal(*time, *sigma, 1e-6);
    assert_true(ids[3] == 0.0f && ids[7] == 1.0f && ids[4] == 0.0f);
    free(golden_values(f, "encoder_hidden_states", NULL));
    vf_safetensors_close(f);
    free(time);
    free(sigma);
    free(ids);
    free(path);
    free(more);
}

static int make(void **state)
{
    static const char *const names[] = { "flux2-klein", NULL };
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
