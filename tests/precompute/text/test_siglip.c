/* test_siglip.c - SigLIP's vision model equals transformers', and its processor's pixels
 * (tests/golden/siglip-vision): types, forms of checkpoints, refused files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "precompute/text/clip_vision.h"
#include "precompute/pictures/image_processor.h"
#include "tests/lib/ok.h"
#include "tests/precompute/text/text_folder.h"

enum { SIDE = 30, TOKENS = 16, WIDTH = 40 };

/* The tolerances of test_clip_vision.c. */
#define F32 1e-5
#define BF16 2e-2

static encoder_opts options(const tf_fixture *f, vc_dtype type)
{
    return (encoder_opts){ .dir = f->dir, .image_processor = f->dir, .dtype = type,
                           .device = golden_device(), .threads = 1 };
}

static tf_fixture open_fixture(vc_dtype stored)
{
    tf_fixture f = tf_open("siglip-vision", stored);
    tf_put_text(f.dir, "preprocessor_config.json", vf_safetensors_meta(f.gold, "image_processor"));
    return f;
}

static void is_near(const tf_fixture *f, const char *name, const float *have, int64_t n, double tol)
{
    float *want = golden_values(f->gold, name, (int64_t[8]){ 0 });
    const double e = golden_error(have, want, n);
    free(want);
    if (!(e <= tol))
        fail_msg("%s: error %g, at most %g is right", name, e, tol);
}

static void states_equal(vc_dtype stored, vc_dtype type, const char *want)
{
    tf_fixture f = open_fixture(stored);
    const encoder_opts o = options(&f, type);
    float states[TOKENS * WIDTH], *pixels = golden_values(f.gold, "pixels", NULL);
    clip_vision_info info;
    clip_vision *m;
    size_t bytes;
    vc_err err = { 0 };

    assert_ok(clip_vision_open_siglip(&m, &o, &info, &err), &err);
    assert_true(info.size == SIDE && info.tokens == TOKENS && info.width == WIDTH);
    assert_ok(clip_vision_encode(m, pixels, states, NULL, &err), &err);
    is_near(&f, want, states, TOKENS * WIDTH, type == VC_F32 ? F32 : BF16);
    const size_t peak = clip_vision_usage(m).pool_peak;
    assert_ok(clip_vision_memory(m, &bytes, &err), &err);
    assert_int_equal(bytes, peak);
    assert_fails(clip_vision_encode(m, pixels, states, states, &err), VC_EINVAL, &err, "pooled");
    clip_vision_close(m);
    free(pixels);
    tf_close(&f);
}

static void equals_transformers(void **state)
{
    (void)state;
    states_equal(VC_F32, VC_F32, "states");
    states_equal(VC_F32, VC_BF16, "states");
    states_equal(VC_F16, VC_F32, "f16");
}

/* The picture's sides become the model's, whatever their ratio is. */
static void sees_pictures(void **state)
{
    tf_fixture f = open_fixture(VC_F32);
    encoder_opts o = options(&f, VC_F32);
    float pixels[SIDE * SIDE * 3], again[SIDE * SIDE * 3], states[TOKENS * WIDTH];
    vision_info info;
    vision_enc *v;
    vf_view picture;
    vc_err err = { 0 };

    (void)state;
    assert_ok(vf_safetensors_get(f.gold, "picture", &picture, &err), &err);
    const int h = (int)picture.dim[0], w = (int)picture.dim[1];
    assert_ok(vision_siglip.open(&v, &o, &info, &err), &err);
    assert_string_equal(info.class, "SiglipVisionModel");
    assert_true(info.side == SIDE && info.tokens == TOKENS && info.width == WIDTH);
    assert_ok(vision_siglip.encode(v, picture.data, h, w, pixels, states, &err), &err);
    is_near(&f, "processed", pixels, SIDE * SIDE * 3, 1e-6);
    vision_siglip.close(v);
    o.image_processor = NULL;                    /* its own constants */
    assert_ok(vision_siglip.open(&v, &o, &info, &err), &err);
    assert_ok(vision_siglip.encode(v, picture.data, h, w, again, states, &err), &err);
    assert_memory_equal(again, pixels, sizeof again);
    vision_siglip.close(v);
    tf_close(&f);
}

static void refused(tf_fixture *f, int rc, const char *says)
{
    const encoder_opts o = options(f, VC_F32);
    vision_info info;
    vision_enc *v;
    vc_err err = { 0 };

    const int have = vision_siglip.open(&v, &o, &info, &err);
    assert_null(v);
    if (have != rc || !strstr(err.text, says))
        fail_msg("%d, not %d; \"%s\" is missing from: %s", have, rc, says, err.text);
}

static void others_refused(void **state)
{
    static const struct { const char *field, *value; int rc; const char *says; } rows[] = {
        { "model_type", "\"clip_vision_model\"", VC_EFORMAT, "only \"siglip_vision_model\"" },
        { "image_size", "40", VC_EMISMATCH, "is [16,40], [25,40] was expected" },
        { "image_size", "6", VC_EFORMAT, "image_size: 6" },
        { "hidden_act", "\"relu\"", VC_EFORMAT, "hidden_act: \"relu\"" },
        { "num_hidden_layers", "2", VC_EMISMATCH, "layers.2" },
    };
    tf_fixture f = open_fixture(VC_F32);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = tf_changed(&f, rows[i].field, rows[i].value);
        tf_put_config(&f, text);
        refused(&f, rows[i].rc, rows[i].says);
        free(text);
    }
    tf_put_config(&f, vf_safetensors_meta(f.gold, "config"));
    tf_put_text(f.dir, "preprocessor_config.json", "{\"size\":{\"height\":384,\"width\":384}}");
    refused(&f, VC_EMISMATCH, "size: pictures of 384 pixels a side, the vision model takes 30");
    tf_put_text(f.dir, "preprocessor_config.json", "{\"size\":30,\"do_center_crop\":true}");
    refused(&f, VC_EFORMAT, "do_center_crop: true");
    tf_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_transformers), cmocka_unit_test(sees_pictures),
        cmocka_unit_test(others_refused),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
