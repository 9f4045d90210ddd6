/* test_vocoder.c - the vocoders of LTX-2.0 and 2.3 equal diffusers'; wrong folders are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "precompute/sound/vocoder.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"

enum { BINS = 16 };

/* f32 sums of up to 32 * 11 terms in another order, some 30 layers deep; the spectrogram between
 * the two networks of 2.3 takes a logarithm, which enlarges the difference of quiet bins. */
static const struct {
    const char *golden;
    int lengths[4], hop, rate;
    double tol;
} rows[] = {
    { "vocoder_20", { 1, 5, 12 }, 240, 24000, 2e-5 },
    { "vocoder_snake", { 2, 5, 12 }, 10, 24000, 2e-5 },
    { "vocoder_23", { 1, 4 }, 480, 48000, 5e-5 },
};

static vocoder *open_golden(const char *name, vf_safetensors **g, vocoder_info *info)
{
    const char *dir = golden_tmp(name);
    const encoder_opts o = { .dir = dir, .dtype = VC_BF16, .device = golden_device(),
                             .threads = 1 };
    vocoder *v;
    vc_err err = { 0 };
    *g = golden_open(name);
    golden_model(*g, dir, VC_F32);
    assert_ok(vocoder_open(&v, &o, info, &err), &err);
    return v;
}

static void equals_diffusers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vf_safetensors *g;
        vocoder_info info;
        vocoder *v = open_golden(rows[i].golden, &g, &info);
        assert_int_equal(info.hop, rows[i].hop);
        assert_int_equal(info.rate, rows[i].rate);
        assert_int_equal(info.inputs, 2 * BINS);
        for (const int *t = rows[i].lengths; *t; t++) {
            char name[32];
            int64_t dim[8];
            vc_err err = { 0 };
            snprintf(name, sizeof name, "mel.%d", *t);
            float *mel = golden_values(g, name, NULL);
            snprintf(name, sizeof name, "wave.%d", *t);
            float *want = golden_values(g, name, dim);
            assert_int_equal(dim[0], 2);
            assert_int_equal(dim[1], *t * info.hop);
            float *x = malloc((size_t)(2 * dim[1]) * sizeof *x);
            assert_ok(vocoder_run(v, mel, *t, BINS, x, &err), &err);
            const double e = golden_error(x, want, 2 * dim[1]);
            if (!(e <= rows[i].tol))
                fail_msg("%s, %s: %g, at most %g", rows[i].golden, name, e, rows[i].tol);
            assert_int_equal(vocoder_run(v, mel, *t, BINS + 1, x, &err), VC_EINVAL);
            assert_int_equal(vocoder_run(v, mel, 0, BINS, x, &err), VC_EINVAL);
            free(mel);
            free(want);
            free(x);
        }
        vocoder_close(v);
        vf_safetensors_close(g);
    }
}

static void refuses_folders(void **state)
{
    static const struct { const char *field, *value, *says; } bad[] = {
        { "_class_name", "\"LTXVocoder\"", "LTX2VocoderWithBWE" },
        { "upsample_factors", "[6,5]", "upsample_factors" },
        { "upsample_kernel_sizes", "[16,14,8,4,4]", "even number" },
        { "resnet_dilations", "[[1,3,5],[1,2,3]]", "resnet_dilations" },
        { "resnet_dilations", "[[1,3,99],[1,3,99]]", "resnet_dilations" },
        { "resnet_kernel_sizes", "[3,8]", "resnet_kernel_sizes" },
        { "act_fn", "\"relu\"", "act_fn" }, { "hidden_channels", "64", "conv_in.weight" },
        { "final_bias", "false", "conv_out.bias" },
    };
    vf_safetensors *g = golden_open("vocoder_20");
    const char *dir = golden_tmp("bad_vocoder");
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        golden_model_with(g, dir, bad[i].field, bad[i].value);
        vc_err err = { 0 };
        vocoder *v;
        vocoder_info info;
        const encoder_opts o = { .dir = dir, .device = golden_device(), .threads = 1 };
        assert_int_not_equal(vocoder_open(&v, &o, &info, &err), 0);
        assert_null(v);
        if (!strstr(err.text, bad[i].says) || !strstr(err.text, dir))
            fail_msg("%s: %s", bad[i].field, err.text);
    }
    vf_safetensors_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_diffusers), cmocka_unit_test(refuses_folders),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
