/* test_zimage_run.c - whole runs of Z-Image's tiny transformer: validation samples against
 * diffusers' pipeline (tests/golden/samples-z-image, -turbo), guided and not; traces. */
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
enum { C = 4, H = 4, W = 6, TEXT = 32 };

static const toy_sample pictures[] = {
    { .number = 0, .h = H, .w = W, .caption = { "a" } },
    { .number = 1, .h = H, .w = W, .caption = { "a longer one" } },
};

static toy toy_of(const char *path)
{
    return (toy){ .path = path, .sample = pictures, .n = COUNT(pictures), .channels = C,
                  .width = TEXT, .encoders = 1, .family = "z-image", .vae = "AutoencoderKL",
                  .scaling = 0.3611, .shift = 0.1159 };
}

/* The schedule is the family's, as the folder has no scheduler's file. A guidance of 0 is none. */
static void samples_are_pipelines(void **state)
{
    static const char *const goldens[] = { "samples-z-image", "samples-z-image-turbo", NULL };
    pipeline_goldens_check(*state, toy_of, "zimage", goldens);
}

/* Without flags a sample has the pipeline's 50 steps and its guidance of 5. */
static void defaults(void **state)
{
    pipeline_defaults_check(*state, toy_of, "zimage", "samples-z-image", "50", "5");
}

/* diffusers' forward() is given 1 - s, and latents as they are. */
static void traces(void **state)
{
    const char *dir = *state;
    char *path = vc_path_join(dir, "set.lmdb");
    char *more = vc_format("--trace_dir %s/trace", dir);
    const toy t = toy_of(path);
    vc_err err = { 0 };
    toy_make(&t);
    assert_ok(pipeline_run(dir, "set.lmdb", "zimage", more, &err), &err);
    vf_safetensors *f = run_open(dir, "trace/step-000001-mb-00-rank-00.safetensors");
    golden_has_shape(f, "noisy_latents", 5, (int64_t[]){ 1, C, 1, H, W });
    float *time = golden_values(f, "timestep", NULL), *sigma = golden_values(f, "sigmas", NULL);
    assert_float_equal(*time, 1 - *sigma, 1e-6);
    free(golden_values(f, "cap_feats", NULL));
    vf_safetensors_close(f);
    free(time);
    free(sigma);
    free(path);
    free(more);
}

static int make(void **state)
{
    static const char *const names[] = { "zimage", NULL };
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
