/* test_clip_vision.c - CLIP's vision model equals transformers' (tests/golden/clip-vision,
 * clip-vision-gelu): states after all layers and after fewer, types, forms of checkpoints, refused
 * files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "precompute/text/clip_vision.h"
#include "tests/lib/ok.h"
#include "tests/precompute/text/text_folder.h"

enum { WIDTH = 32, MOST = 26 };

/* The tolerances, relative to the greatest state. f32 sums some hundreds of terms in another order.
 * bf16 activations are rounded by 2^-9 a handful of times in each of three layers. */
#define F32 1e-5
#define BF16 2e-2

static const struct { const char *name; int size, tokens; } models[] = {
    { "clip-vision", 56, 17 }, { "clip-vision-gelu", 40, 26 },
};

static clip_vision *open_in(const char *dir, int skip, vc_dtype type, clip_vision_info *info)
{
    encoder_opts o = tf_alone(dir, type);
    vc_err err = { 0 };
    clip_vision *m;
    assert_ok(clip_vision_open(&m, &o, skip, info, &err), &err);
    return m;
}

static void refused(const char *dir, int skip, int rc, const char *says)
{
    encoder_opts o = tf_alone(dir, VC_F32);
    clip_vision_info info;
    vc_err err = { 0 };
    clip_vision *m = (clip_vision *)&o;

    int have = clip_vision_open(&m, &o, skip, &info, &err);
    assert_null(m);
    if (have != rc || !strstr(err.text, says))
        fail_msg("%s: %d, not %d; \"%s\" is missing from: %s", dir, have, rc, says, err.text);
}

static void is_near(const float *have, int64_t n, const vf_safetensors *gold, const char *want,
                    vc_dtype type)
{
    int64_t dim[8] = { 0 };
    float *w = golden_values(gold, want, dim);
    assert_int_equal(n, dim[1] ? dim[0] * dim[1] : dim[0]);
    double e = golden_error(have, w, n);
    free(w);
    if (!(e <= (type == VC_F32 ? F32 : BF16)))
        fail_msg("%s, activations %s: %g", want, vc_dtype_name(type), e);
}

/* Compares the states of the model in dir, with `skip` layers left out, with the golden's
 * `want`. */
static void states_equal(const char *dir, const vf_safetensors *gold, int skip, const char *want,
                         vc_dtype type)
{
    float states[MOST * WIDTH], pooled[WIDTH], *pixels = golden_values(gold, "pixels", NULL);
    clip_vision_info info;
    vc_err err = { 0 };

    clip_vision *m = open_in(dir, skip, type, &info);
    assert_ok(clip_vision_encode(m, pixels, states, skip ? NULL : pooled, &err), &err);
    is_near(states, (int64_t)info.tokens * info.width, gold, want, type);
    if (!skip)
        is_near(pooled, WIDTH, gold, "pooled", type);
    clip_vision_close(m);
    free(pixels);
}

static void equals_transformers(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        for (vc_dtype type = VC_F32; type <= VC_BF16; type++) {
            tf_fixture f = tf_open(models[i].name, VC_F32);
            clip_vision_info info;
            clip_vision_close(open_in(f.dir, 1, type, &info));
            assert_int_equal(info.size, models[i].size);
            assert_int_equal(info.tokens, models[i].tokens);
            assert_int_equal(info.width, WIDTH);
            states_equal(f.dir, f.gold, 0, "states", type);
            states_equal(f.dir, f.gold, 1, "before_last", type);
            tf_close(&f);
        }
}

static void stored_types(void **state)
{
    static const struct { const char *want; vc_dtype stored; } rows[] = {
        { "bf16", VC_BF16 }, { "f16", VC_F16 },
    };

    (void)state;
    for (int i = 0; i < 2; i++)
        for (int r = 0; r < 2; r++)
            for (vc_dtype type = VC_F32; type <= VC_BF16; type++) {
                tf_fixture f = tf_open(models[i].name, rows[r].stored);
                states_equal(f.dir, f.gold, 1, rows[r].want, type);
                tf_close(&f);
            }
}

/* ---- checkpoints and configs ---- */

static bool used_by_two_layers(vf_view *v, const void *arg)
{
    (void)arg;
    return !strstr(v->name, "layers.2.") && !strstr(v->name, "post_layernorm");
}

static void checkpoint_forms(void **state)
{
    const int64_t place[2] = { 0, 1 };
    const float extra[6] = { 0 };
    const vf_view more[] = {
        { "vision_model.embeddings.position_ids", VC_I64, 2, { 1, 2 }, place, sizeof place },
        { "visual_projection.weight", VC_F32, 2, { 2, 3 }, extra, sizeof extra },
    };
    const vf_view left = { "encoder.layers.3.mlp.fc1.bias", VC_F32, 1, { 6 }, extra, sizeof extra };
    tf_fixture f = tf_open("clip-vision", VC_F32);
    char dir[600];

    (void)state;
    snprintf(dir, sizeof dir, "%s/changed", f.dir);
    tf_write(&f, dir, NULL, tf_below, "vision_model.", 1, more, 2);
    states_equal(dir, f.gold, 1, "before_last", VC_F32);
    tf_write(&f, dir, NULL, used_by_two_layers, NULL, 1, NULL, 0);
    states_equal(dir, f.gold, 1, "before_last", VC_F32);
    refused(dir, 0, VC_ENOENT, "encoder.layers.2.layer_norm1.weight");
    tf_write(&f, dir, NULL, NULL, NULL, 1, &left, 1);
    refused(dir, 1, VC_EMISMATCH, "encoder.layers.3.mlp.fc1.bias is not used");
    tf_write(&f, dir, NULL, tf_without, "embeddings.class_embedding", 1, NULL, 0);
    refused(dir, 1, VC_ENOENT, "embeddings.class_embedding\" is missing; it should be [32]");
    tf_close(&f);
}

static void config_refused(void **state)
{
    static const struct { const char *field, *value; int rc; const char *says; } rows[] = {
        { "model_type", "\"clip\"", VC_EFORMAT, "only \"clip_vision_model\"" },
        { "image_size", "57", VC_EFORMAT, "image_size: 57 is not a multiple of patch_size: 14" },
        { "image_size", "70", VC_EMISMATCH, "is [17,32], [26,32] was expected" },
        { "patch_size", "7", VC_EMISMATCH, "is [32,3,14,14], [32,3,7,7] was expected" },
        { "num_channels", "4", VC_EFORMAT, "num_channels: 4; only 3" },
        { "hidden_act", "\"relu\"", VC_EFORMAT, "hidden_act: \"relu\"" },
    };
    tf_fixture f = tf_open("clip-vision", VC_F32);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = tf_changed(&f, rows[i].field, rows[i].value);
        tf_put_config(&f, text);
        refused(f.dir, 1, rows[i].rc, rows[i].says);
        free(text);
    }
    tf_put_config(&f, vf_safetensors_meta(f.gold, "config"));
    refused(f.dir, 4, VC_EINVAL, "3, of which the last 4 layers cannot be left out");
    refused(NULL, 1, VC_EINVAL, "folder");
    tf_close(&f);
}

static void pooled_states(void **state)
{
    tf_fixture f = tf_open("clip-vision", VC_F32);
    float states[MOST * WIDTH], pooled[WIDTH], *pixels = golden_values(f.gold, "pixels", NULL);
    clip_vision_info info;
    vc_err err = { 0 };
    char dir[600];

    (void)state;
    clip_vision *m = open_in(f.dir, 1, VC_F32, &info);
    assert_fails(clip_vision_encode(m, pixels, states, pooled, &err), VC_EINVAL, &err,
                 "needs all layers, but the last 1 are left out");
    clip_vision_close(m);
    snprintf(dir, sizeof dir, "%s/nan", f.dir);
    tf_write(&f, dir, NULL, tf_poison, "post_layernorm.weight", 1, NULL, 0);
    m = open_in(dir, 0, VC_F32, &info);
    assert_int_equal(clip_vision_encode(m, pixels, states, pooled, &err), VC_ENUMERIC);
    assert_int_equal(clip_vision_encode(m, pixels, states, NULL, &err), 0);
    clip_vision_close(m);
    clip_vision_close(NULL);
    free(pixels);
    tf_close(&f);
}

/* Each number of layers has a fingerprint of its own, and takes the memory of one layer, which a
 * dry step predicts. */
static void fingerprint_and_memory(void **state)
{
    tf_fixture f = tf_open("clip-vision", VC_F32);
    float states[MOST * WIDTH], *pixels = golden_values(f.gold, "pixels", NULL);
    clip_vision_info info[2];
    size_t peak[2], predicted;
    vc_err err = { 0 };

    (void)state;
    for (int i = 0; i < 2; i++) {
        clip_vision *m = open_in(f.dir, 2 - i, VC_F32, &info[i]);
        assert_ok(clip_vision_encode(m, pixels, states, NULL, &err), &err);
        peak[i] = clip_vision_usage(m).pool_peak;
        assert_ok(clip_vision_memory(m, &predicted, &err), &err);
        assert_int_equal(predicted, peak[i]);
        assert_ok(clip_vision_encode(m, pixels, states, NULL, &err), &err);
        clip_vision_close(m);
    }
    assert_true(peak[1] <= peak[0]);
    assert_memory_not_equal(&info[0].fingerprint, &info[1].fingerprint, sizeof info->fingerprint);
    free(pixels);
    tf_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_transformers), cmocka_unit_test(stored_types),
        cmocka_unit_test(checkpoint_forms), cmocka_unit_test(config_refused),
        cmocka_unit_test(pooled_states), cmocka_unit_test(fingerprint_and_memory),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
