/* test_audio_vae.c - AutoencoderKLLTX2Audio equals diffusers' on odd lengths; a prefix has the same
 * latents; its memory is foretold; wrong folders are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "precompute/sound/audio_vae.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"

/* f32 sums up to 9 * 64 terms in another order, some 15 layers deep. bf16 activations have 8 bits,
 * and each of the layers rounds by 2e-3. */
#define TOL_F32 (strcmp(golden_device(), "cpu") ? 3e-5 : 1e-5)
#define TOL_BF16 3e-2

static const char *const goldens[] = { "sound_vae", "sound_vae_wide" };
static const int lengths[] = { 1, 2, 7, 41 }, latents[] = { 1, 2, 9 };

typedef struct bench {
    vf_safetensors *golden;
    audio_vae *vae;
    audio_info info;
} bench;

static bench open_bench(const char *name, vc_dtype compute)
{
    bench b = { .golden = golden_open(name) };
    const char *dir = golden_tmp(name);
    const encoder_opts o = { .dir = dir, .dtype = compute, .device = golden_device(),
                             .threads = 1 };
    vc_err err = { 0 };
    golden_model(b.golden, dir, VC_F32);
    assert_ok(audio_vae_open(&b.vae, &o, &b.info, &err), &err);
    return b;
}

static void close_bench(bench *b)
{
    audio_vae_close(b->vae);
    vf_safetensors_close(b->golden);
}

static float *tensor(const bench *b, const char *name, int n, int64_t *count)
{
    char full[32];
    int64_t dim[8] = { 0 };
    snprintf(full, sizeof full, "%s.%d", name, n);
    float *x = golden_values(b->golden, full, dim);
    *count = dim[0] * dim[1] * dim[2];
    return x;
}

static void near_golden(const bench *b, const char *name, int n, const float *have, double tol)
{
    int64_t count;
    float *want = tensor(b, name, n, &count);
    const double e = golden_error(have, want, count);
    if (!(e <= tol))
        fail_msg("%s.%d: %g, at most %g", name, n, e, tol);
    free(want);
}

static void codes(const char *golden, vc_dtype compute, double tol)
{
    bench b = open_bench(golden, compute);
    vc_err err = { 0 };
    int64_t n;
    for (int i = 0; i < 4; i++) {
        const int t = lengths[i], l = audio_vae_latents(&b.info, t);
        float *mel = tensor(&b, "mel", t, &n);
        const size_t out = (size_t)(b.info.channels * l * b.info.bins);
        float *mean = malloc(out * sizeof *mean), *logvar = malloc(out * sizeof *mean);
        assert_ok(audio_vae_encode(b.vae, mel, t, mean, logvar, &err), &err);
        near_golden(&b, "mean", t, mean, tol);
        near_golden(&b, "logvar", t, logvar, tol);
        free(mel);
        free(mean);
        free(logvar);
    }
    for (int i = 0; i < 3; i++) {
        float *z = tensor(&b, "z", latents[i], &n);
        float *mel = malloc((size_t)(2 * audio_vae_frames(&b.info, latents[i]) *
                                     b.info.mel.bins) * sizeof *mel);
        assert_ok(audio_vae_decode(b.vae, z, latents[i], mel, &err), &err);
        near_golden(&b, "sample", latents[i], mel, tol);
        free(z);
        free(mel);
    }
    close_bench(&b);
}

static void equals_diffusers(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        codes(goldens[i], VC_F32, TOL_F32);
        codes(goldens[i], VC_BF16, TOL_BF16);
    }
}

/* The first frames of a spectrogram have the same latents alone, up to the order of sums. */
static void sees_no_later_frame(void **state)
{
    bench b = open_bench(goldens[0], VC_F32);
    const int bins = b.info.mel.bins, latent = b.info.bins;
    float all[4 * 11 * 4], part[4 * 2 * 4], short_mel[2 * 5 * 16];
    vc_err err = { 0 };
    int64_t n;
    (void)state;
    float *mel = tensor(&b, "mel", 41, &n);
    for (int c = 0; c < 2; c++)
        memcpy(short_mel + c * 5 * bins, mel + c * 41 * bins, (size_t)(5 * bins) * sizeof *mel);
    assert_ok(audio_vae_encode(b.vae, mel, 41, all, NULL, &err), &err);
    assert_ok(audio_vae_encode(b.vae, short_mel, 5, part, NULL, &err), &err);
    for (int c = 0; c < 4; c++)
        assert_true(golden_error(part + c * 2 * latent, all + c * 11 * latent, 2 * latent) < 1e-5);
    free(mel);
    close_bench(&b);
}

static void memory_is_foretold(void **state)
{
    bench b = open_bench(goldens[1], VC_F32);
    size_t few, many;
    vc_err err = { 0 };
    (void)state;
    for (int decode = 0; decode < 2; decode++) {
        assert_ok(audio_vae_memory(b.vae, decode, 10, &few, &err), &err);
        assert_ok(audio_vae_memory(b.vae, decode, 1000, &many, &err), &err);
        assert_true(few > 0 && many > 50 * few);
    }
    assert_int_equal(audio_vae_memory(b.vae, false, 0, &few, &err), VC_EINVAL);
    close_bench(&b);
}

static void refuses_folders(void **state)
{
    static const struct { const char *field, *value, *says; } bad[] = {
        { "norm_type", "\"group\"", "norm_type" },
        { "causality_axis", "\"width\"", "causality_axis" },
        { "mid_block_add_attention", "true", "mid_block_add_attention" },
        { "attn_resolutions", "[16]", "attn_resolutions" },
        { "ch_mult", "[1,2]", "ch_mult" }, { "ch_mult", "[1,2,4]", "encoder.down.2" },
        { "mel_bins", "18", "mel_bins" }, { "base_channels", "8", "base_channels" },
        { "latent_channels", "8", "latents_mean" }, { "in_channels", "1", "in_channels" },
        { "double_z", "false", "double_z" },
    };
    vf_safetensors *g = golden_open(goldens[0]);
    const char *dir = golden_tmp("bad_sound");
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        golden_model_with(g, dir, bad[i].field, bad[i].value);
        vc_err err = { 0 };
        audio_vae *a;
        audio_info info;
        const encoder_opts o = { .dir = dir, .device = golden_device(), .threads = 1 };
        assert_int_not_equal(audio_vae_open(&a, &o, &info, &err), 0);
        assert_null(a);
        if (!strstr(err.text, bad[i].says) || !strstr(err.text, dir))
            fail_msg("%s: %s", bad[i].field, err.text);
    }
    vf_safetensors_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_diffusers), cmocka_unit_test(sees_no_later_frame),
        cmocka_unit_test(memory_is_foretold), cmocka_unit_test(refuses_folders),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
