/* test_codec.c - the built-in codec and text encoder behave as their interfaces demand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "precompute/encoder.h"

static const encoder_opts opts = { .dtype = VC_F32, .device = "cpu" };

static vae *open_codec(vae_info *info)
{
    vae *v;
    vc_err err;
    assert_int_equal(vae_builtin.open(&v, &opts, info, &err), 0);
    return v;
}

/* Latents that are too small to clip a pixel are decoded and encoded to themselves, except for the
 * rounding to 8 bits. */
static void encode_inverts_decode(void **state)
{
    (void)state;
    vae_info info;
    vae *v = open_codec(&info);
    enum { F = 3, H = 4, W = 6, N = 16 * F * H * W, PF = 9 };
    float z[N], back[N];
    static uint8_t rgb[PF * H * 8 * W * 8 * 3];
    static float pixels[sizeof rgb];
    vc_err err;

    vc_draw_normals(z, N, 1, 2, 3, 4);
    for (int i = 0; i < N; i++)
        z[i] *= 0.25f;
    assert_int_equal(vae_builtin.decode(v, z, F, H, W, &(vae_output){ .all = rgb }, &err), 0);
    for (size_t i = 0; i < sizeof rgb; i++)
        pixels[i] = (float)rgb[i] / 127.5f - 1.0f;
    assert_int_equal(vae_builtin.encode(v, &(vae_input){ .all = pixels }, PF, H * 8, W * 8, back,
                                        NULL, &err), 0);
    /* Rounding errors are uniform with a width of 1/127.5, so their standard deviation is 2.3e-3
     * for a pixel, and for a coefficient too, since rows of the transform have norm 1 (2 in the
     * first frame). Colour differences mix three channels. The bound is six of the largest of these
     * deviations. */
    for (int i = 0; i < N; i++)
        if (fabsf(back[i] - z[i]) > 0.03f)
            fail_msg("value %d: %g became %g", i, (double)z[i], (double)back[i]);
    vae_builtin.close(v);
}

/* A flat picture has one frequency of known value: 16 x luma in the frames after the first. */
static void flat_pictures(void **state)
{
    (void)state;
    vae_info info;
    vae *v = open_codec(&info);
    static float pixels[5 * 16 * 16 * 3], mean[16 * 2 * 2 * 2], logvar[16 * 2 * 2 * 2];
    vc_err err;

    for (size_t i = 0; i < sizeof pixels / sizeof *pixels; i++)
        pixels[i] = 0.5f;
    assert_int_equal(vae_builtin.encode(v, &(vae_input){ .all = pixels }, 5, 16, 16, mean, logvar,
                                        &err), 0);
    for (int c = 0; c < 16; c++)
        for (int i = 0; i < 8; i++) {
            assert_float_equal(mean[c * 8 + i], c == 0 ? 8.0f : 0.0f, 1e-4f);
            assert_float_equal(logvar[c * 8 + i], -30.0f, 0);
        }
    vae_builtin.close(v);
}

static void odd_shapes_are_refused(void **state)
{
    (void)state;
    static const int shape[][3] = { { 2, 16, 16 }, { 4, 16, 16 }, { 5, 12, 16 }, { 5, 16, 20 },
                                    { 0, 16, 16 } };
    vae_info info;
    vae *v = open_codec(&info);
    float x = 0;
    vc_err err;

    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        assert_int_equal(vae_builtin.encode(v, &(vae_input){ .all = &x }, shape[i][0], shape[i][1],
                                            shape[i][2], &x, NULL, &err),
                         VC_EINVAL);
    assert_int_equal(vae_builtin.decode(v, &x, 1, 0, 4, &(vae_output){ 0 }, &err), VC_EINVAL);
    vae_builtin.close(v);
}

static void fingerprints_are_stable(void **state)
{
    (void)state;
    vae_info a, b;
    char hex[VF_KEY_HEX];
    vae *v = open_codec(&a), *w = open_codec(&b);

    assert_memory_equal(&a.fingerprint, &b.fingerprint, sizeof a.fingerprint);
    /* These values are in datasets of earlier builds, which must stay valid. */
    assert_string_equal(vf_key_hex(hex, a.fingerprint), "33360406aa5a72e5a6aec68bce1780be");
    vae_builtin.close(v);
    vae_builtin.close(w);
}

static double cosine(const float *a, const float *b, int n)
{
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < n; i++) {
        ab += (double)a[i] * b[i];
        aa += (double)a[i] * a[i];
        bb += (double)b[i] * b[i];
    }
    return ab / sqrt(aa * bb);
}

static int encode_text(text_enc *t, const char *prompt, text_result *r)
{
    vc_err err;
    return text_encode(t, &(text_input){ .prompt = prompt }, 1, r, &err);
}

static void prompts(void **state)
{
    (void)state;
    text_enc *t;
    text_info info;
    text_result r;
    vc_err err;
    float a[256], b[256];

    assert_int_equal(text_open(&t, &text_builtin, &opts, &info, &err), 0);
    assert_int_equal(encode_text(t, "A red Disc, moving!", &r), 0);
    assert_int_equal(r.n, info.rule.max_length);
    assert_int_equal(r.width, info.width);
    memcpy(a, r.embeds, sizeof a);
    for (int i = 0; i < r.n; i++)
        assert_int_equal(r.mask[i], i <= 4);
    /* Case and punctuation change nothing; other words do; shared words keep texts similar. */
    assert_int_equal(encode_text(t, "a RED disc moving", &r), 0);
    assert_memory_equal(a, r.embeds, sizeof a);
    assert_int_equal(encode_text(t, "a red disc standing", &r), 0);
    memcpy(b, r.embeds, sizeof b);
    assert_true(cosine(a, b, 256) > 0.5);
    assert_int_equal(encode_text(t, "blue waves at night", &r), 0);
    assert_true(fabs(cosine(a, r.embeds, 256)) < 0.35);
    assert_int_equal(encode_text(t, "", &r), 0);
    assert_true(cosine(r.embeds, r.embeds, 256) > 0.99);
    /* A megabyte of one letter is encoded, and so are bytes that are not text. */
    char *big = malloc(1 << 20);
    memset(big, 'x', (1 << 20) - 1);
    for (int i = 100; i < (1 << 20) - 1; i += 5000)
        big[i] = i % 3 ? (char)0xff : ' ';
    big[(1 << 20) - 1] = 0;
    assert_int_equal(encode_text(t, big, &r), 0);
    free(big);
    text_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encode_inverts_decode),
        cmocka_unit_test(flat_pictures),
        cmocka_unit_test(odd_shapes_are_refused),
        cmocka_unit_test(fingerprints_are_stable),
        cmocka_unit_test(prompts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
