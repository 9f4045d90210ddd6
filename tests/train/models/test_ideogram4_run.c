/* test_ideogram4_run.c - whole runs of Ideogram 4's tiny transformer: validation samples against
 * diffusers' pipeline (tests/golden/samples-ideogram4, -end), guided by the unconditional
 * transformer with one guidance and with the pipeline's own; by the negative prompt without that
 * transformer; the levels that follow from a picture's tokens; refusals. */
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
/* The pipeline rounds 1 - t / 1000 in f32, and its sinusoids multiply the time by 1e4: with the
 * time in f64 its own samples differ by 5.5e-5. */
#define TOLERANCE 1e-4

static const toy_sample pictures[] = {
    { .number = 0, .h = 2, .w = 3, .caption = { "a" } },
    { .number = 1, .h = 2, .w = 3, .caption = { "a longer one" } },
};

static toy set_at(const char *path, const char *family, int width)
{
    return (toy){ .path = path, .sample = pictures, .n = COUNT(pictures), .channels = 16,
                  .width = width, .encoders = 1, .family = family, .vae = "AutoencoderKLFlux2" };
}

/* Writes DIR/MODEL/unconditional_transformer: the golden's weights, each half as large, with these
 * fields of config.json. */
static void make_unconditional(const char *dir, const char *model, const char *fields)
{
    char *from = vc_format("%s/ideogram4/diffusion_pytorch_model.safetensors", dir);
    char *to = vc_format("%s/%s/unconditional_transformer", dir, model);
    char *file = vc_path_join(to, "diffusion_pytorch_model.safetensors");
    char *config = vc_path_join(to, "config.json");
    vf_safetensors *f;
    vc_err err = { 0 };
    assert_ok(vc_mkdirs(to, &err), &err);
    assert_ok(vf_safetensors_open(&f, from, &err), &err);
    const int n = vf_safetensors_count(f);
    vf_view *v = calloc((size_t)n, sizeof *v);
    assert_non_null(v);
    for (int i = 0; i < n; i++) {
        v[i] = *vf_safetensors_at(f, i);
        float *x = malloc(sizeof *x * (size_t)vf_view_count(&v[i]));
        assert_non_null(x);
        for (int64_t k = 0; k < vf_view_count(&v[i]); k++) {
            const uint32_t bits = (uint32_t)((const uint16_t *)v[i].data)[k] << 16;
            memcpy(&x[k], &bits, sizeof bits);
            x[k] *= 0.5f;
        }
        v[i].dtype = VC_F32;
        v[i].data = x;
        v[i].bytes = sizeof *x * (size_t)vf_view_count(&v[i]);
    }
    assert_ok(vf_safetensors_write(file, v, n, NULL, 0, &err), &err);
    for (int i = 0; i < n; i++)
        free((void *)v[i].data);
    free(v);
    assert_ok(vc_file_write(config, fields, strlen(fields), &err), &err);
    vf_safetensors_close(f);
    free(from), free(to), free(file), free(config);
}

static char *config_of(const char *dir)
{
    char *path = vc_format("%s/ideogram4/config.json", dir), *text;
    size_t size;
    vc_err err = { 0 };
    assert_ok(vc_file_read(&text, &size, path, 1 << 20, &err), &err);
    free(path);
    return text;
}

static int make_models(void **state)
{
    int rc = pipeline_models_make(state, (const char *const[]){ "ideogram4", NULL });
    char *config = config_of(*state);
    free(pipeline_folder(*state, "Ideogram4Pipeline",
                         "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":1.0}"));
    make_unconditional(*state, "Ideogram4Pipeline", config);
    free(config);
    return rc;
}

/* Makes the golden's sample by a run with these flags. */
static vf_safetensors *sample(const char *dir, const char *set, const char *golden,
                              const char *flags)
{
    char *path = vc_path_join(dir, set), *more, *file;
    vf_safetensors *gold = golden_open(golden);
    vc_err err = { 0 };
    pipeline_set_make(set_at(path, "ideogram4", 208), gold, 1);
    more = vc_format("--validation_steps 1 --num_inference_steps %s %s",
                     vf_safetensors_meta(gold, "steps"), flags);
    file = vc_format("%s/out-%s-ideogram4/validation/step-1/000.safetensors", dir, set);
    assert_ok(pipeline_run(dir, set, "ideogram4", more, &err), &err);
    vf_safetensors *f;
    assert_ok(vf_safetensors_open(&f, file, &err), &err);
    vf_safetensors_close(gold);
    free(path), free(more), free(file);
    return f;
}

/* The largest difference from the golden's latents, in parts of the largest value. */
static double away(const vf_safetensors *f, const char *golden)
{
    vf_safetensors *gold = golden_open(golden);
    float *have = golden_values(f, "latents", NULL), *want = golden_values(gold, "latents", NULL);
    const double e = golden_error(have, want, 16 * 2 * 3);
    print_message("%s: %.2g\n", golden, e);
    free(have), free(want);
    vf_safetensors_close(gold);
    return e;
}

static void samples_are_pipelines(void **state)
{
    char *model = vc_format("--model %s/Ideogram4Pipeline", (char *)*state);
    char *scaled = vc_format("%s --guidance_scale 2.5", model);
    vf_safetensors *f = sample(*state, "one", "samples-ideogram4", scaled);
    assert_true(away(f, "samples-ideogram4") <= TOLERANCE);
    vf_safetensors_close(f);
    f = sample(*state, "end", "samples-ideogram4-end", model);
    assert_true(away(f, "samples-ideogram4-end") <= TOLERANCE);
    assert_string_equal(vf_safetensors_meta(f, "guidance_scale"), "7");
    vf_safetensors_close(f);
    free(model), free(scaled);
}

/* Without the unconditional transformer, the negative prompt's prediction guides. */
static void negative_prompt_guides(void **state)
{
    vf_safetensors *f = sample(*state, "alone", "samples-ideogram4", "--guidance_scale 2.5");
    assert_true(away(f, "samples-ideogram4") > 1e-2);
    vf_safetensors_close(f);
}

static void refused(const char *dir, const char *flags, const char *says)
{
    char *path = vc_path_join(dir, "refused");
    vf_safetensors *gold = golden_open("samples-ideogram4");
    vc_err err = { 0 };
    pipeline_set_make(set_at(path, "ideogram4", 208), gold, 1);
    vf_safetensors_close(gold);
    assert_true(pipeline_run(dir, "refused", "ideogram4", flags, &err) != 0);
    assert_says(&err, says);
    free(path);
}

static void wrong_transformers(void **state)
{
    char *config = config_of(*state), *at = strstr(config, "Ideogram4Transformer2DModel");
    char *flag = vc_format("--validation_steps 1 --unconditional_transformer "
                           "%s/other/unconditional_transformer", (char *)*state);
    assert_non_null(at);
    at[0] = 'X';
    make_unconditional(*state, "other", config);
    refused(*state, flag, "has the _class_name Xdeogram4Transformer2DModel, not Ideogram4");
    refused(*state, "--validation_steps 1 --unconditional_transformer /nowhere", "/nowhere");
    free(config), free(flag);
}

/* A dataset of FLUX.2's, whose prompts are others, is refused, though its VAE's class is the
 * same. */
static void other_datasets(void **state)
{
    char *path = vc_path_join(*state, "flux2");
    vc_err err = { 0 };
    const toy t = set_at(path, "flux2", 48);
    toy_make(&t);
    assert_true(pipeline_run(*state, "flux2", "ideogram4", "", &err) != 0);
    assert_says(&err, "208");
    assert_says(&err, "48");
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_pipelines), cmocka_unit_test(negative_prompt_guides),
        cmocka_unit_test(wrong_transformers), cmocka_unit_test(other_datasets),
    };
    return cmocka_run_group_tests(tests, make_models, toy_dir_teardown);
}
