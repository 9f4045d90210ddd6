/* test_mel.c - the log-mel spectrogram equals torchaudio's, also of sounds that are shorter than a
 * window; wrong shapes are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "precompute/sound/mel.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"

static const mel_shape ltx2 = { 16000, 1024, 160, 64 };

/* torchaudio transforms in f32: a magnitude of 1e-5, the floor, has the rounding of sums of 1024
 * terms of up to 0.4, 1e-6 or so, so that the logarithm of a quiet bin is uncertain by 0.01; loud
 * bins agree to 1e-5. */
static void equals_torchaudio(void **state)
{
    static const int lengths[] = { 513, 3200, 5003 };
    vf_safetensors *g = golden_open("sound");
    vc_err err = { 0 };
    mel_maker *m;
    (void)state;
    assert_ok(mel_open(&m, &ltx2, &err), &err);
    float *filters = golden_values(g, "filters", NULL);
    assert_true(golden_error(mel_filters(m), filters, 513 * 64) < 1e-5);
    for (int i = 0; i < 3; i++) {
        char name[32];
        int64_t dim[8];
        snprintf(name, sizeof name, "wave.%d", lengths[i]);
        float *x = golden_values(g, name, NULL);
        snprintf(name, sizeof name, "mel.%d", lengths[i]);
        float *want = golden_values(g, name, dim);
        assert_int_equal(dim[0], mel_frames(&ltx2, lengths[i]));
        float *y = malloc((size_t)(dim[0] * 64) * sizeof *y);
        mel_run(m, x, lengths[i], y);
        double loud = 0, quiet = 0;
        for (int64_t k = 0; k < dim[0] * 64; k++) {
            const double far = fabs((double)y[k] - (double)want[k]);
            double *most = want[k] > -7 ? &loud : &quiet;
            *most = fmax(*most, far);
        }
        if (loud > 2e-4 || quiet > 2e-2)
            fail_msg("%d samples: %g where loud, %g where quiet", lengths[i], loud, quiet);
        free(x);
        free(want);
        free(y);
    }
    free(filters);
    mel_close(m);
    vf_safetensors_close(g);
}

/* Ends are reflected as often as it takes: a constant stays one, silence is the floor. */
static void short_sounds(void **state)
{
    float x[400], y[3 * 64];
    vc_err err = { 0 };
    mel_maker *m;
    (void)state;
    assert_ok(mel_open(&m, &ltx2, &err), &err);
    memset(x, 0, sizeof x);
    for (int n = 1; n <= 400; n += 57) {
        mel_run(m, x, n, y);
        for (int k = 0; k < (int)mel_frames(&ltx2, n) * 64; k++)
            assert_float_equal(y[k], log(1e-5), 1e-5);
    }
    for (int i = 0; i < 400; i++)
        x[i] = 0.5f;
    float first[3 * 64];
    mel_run(m, x, 1, first);
    mel_run(m, x, 400, y);
    for (int k = 0; k < 64; k++)
        assert_float_equal(y[k], first[k], 1e-5);
    mel_close(m);
}

static void refuses_shapes(void **state)
{
    static const mel_shape bad[] = { { 16000, 1000, 160, 64 }, { 16000, 8, 160, 64 },
                                     { 16000, 1024, 0, 64 }, { 16000, 1024, 160, 0 },
                                     { 0, 1024, 160, 64 }, { 16000, 1024, 160, 5000 } };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mel_maker *m;
        vc_err err = { 0 };
        assert_int_equal(mel_open(&m, &bad[i], &err), VC_EINVAL);
        assert_null(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_torchaudio), cmocka_unit_test(short_sounds),
        cmocka_unit_test(refuses_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
