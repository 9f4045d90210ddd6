/* test_qwen_vision.c - Qwen2.5-VL's vision tower and its image processor equal transformers'
 * (tests/golden/qwen-vision): pictures of odd sizes, types, forms of checkpoints, refused files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "precompute/pictures/qwen_pictures.h"
#include "precompute/text/qwen_vision.h"
#include "tests/lib/ok.h"
#include "tests/precompute/text/text_folder.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
enum { PICTURES = 5, PATCH = 14, MERGE = 2, WIDTH = 24 };

/* The tolerances, relative to the greatest state: as in test_clip_vision.c. */
#define F32 1e-5
#define BF16 2e-2

static tf_fixture open_fixture(vc_dtype stored)
{
    tf_fixture f = tf_open("qwen-vision", stored);

    tf_put_text(f.dir, "preprocessor_config.json", vf_safetensors_meta(f.gold, "image_processor"));
    return f;
}

static vf_view view_of(const tf_fixture *f, const char *kind, int i)
{
    char name[32];
    vf_view v;
    vc_err err = { 0 };

    snprintf(name, sizeof name, "%s_%d", kind, i);
    assert_ok(vf_safetensors_get(f->gold, name, &v, &err), &err);
    return v;
}

/* ---- the processor ---- */

/* Returns picture i as the processor makes it, [h,w,3]. */
static float *pixels_of(const tf_fixture *f, const qwen_pictures *p, int i, int *h, int *w)
{
    const vf_view v = view_of(f, "picture", i);
    const int from[2] = { (int)v.dim[0], (int)v.dim[1] };
    vc_err err = { 0 };

    assert_ok(qwen_pictures_size(p, from[0], from[1], h, w, &err), &err);
    float *pixels = malloc((size_t)*h * (size_t)*w * 3 * sizeof *pixels);
    assert_ok(qwen_pictures_run(p, v.data, from[0], from[1], *h, *w, pixels, &err), &err);
    return pixels;
}

static void pictures_are_transformers(void **state)
{
    tf_fixture f = open_fixture(VC_F32);
    qwen_pictures p;
    vc_err err = { 0 };

    (void)state;
    assert_ok(qwen_pictures_open(&p, f.dir, PATCH, MERGE, &err), &err);
    for (int i = 0; i < PICTURES; i++) {
        const vf_view want = view_of(&f, "resized", i);
        const uint8_t *bytes = want.data;
        int h, w;
        float *pixels = pixels_of(&f, &p, i, &h, &w);
        assert_int_equal(h, want.dim[0]);
        assert_int_equal(w, want.dim[1]);
        for (int64_t k = 0; k < (int64_t)h * w * 3; k++) {
            const double byte = (pixels[k] * p.colours.std[k % 3] + p.colours.mean[k % 3]) * 255;
            if (!(byte > bytes[k] - 0.01 && byte < bytes[k] + 0.01))
                fail_msg("picture %d, byte %lld: %g, not %d", i, (long long)k, byte, bytes[k]);
        }
        if (!i) {
            float *exact = golden_values(f.gold, "pixels_0", NULL);
            assert_true(golden_error(pixels, exact, (int64_t)h * w * 3) < 1e-6);
            free(exact);
        }
        free(pixels);
    }
    tf_close(&f);
}

/* Sides that Python rounds to an even multiple where two are equally near, and limits. */
static void sizes(void **state)
{
    static const struct { int64_t least, most; int h, w, to_h, to_w; } rows[] = {
        { 3136, 1003520, 42, 70, 56, 56 }, { 3136, 1003520, 70, 98, 56, 112 },
        { 3136, 1003520, 1, 200, 28, 812 }, { 3136, 1003520, 1024, 1024, 980, 980 },
        { 3136, 12845056, 1024, 1024, 1036, 1036 }, { 3136, 12845056, 1328, 800, 1316, 812 },
        { 3136, 12845056, 384, 384, 392, 392 }, { 3136, 784 * 4, 10000, 60, 700, 28 },
    };
    qwen_pictures p = { .side = PATCH * MERGE };
    vc_err err = { 0 };
    int h, w;

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        p.least = rows[i].least;
        p.most = rows[i].most;
        assert_ok(qwen_pictures_size(&p, rows[i].h, rows[i].w, &h, &w, &err), &err);
        if (h != rows[i].to_h || w != rows[i].to_w)
            fail_msg("%dx%d: %dx%d, not %dx%d", rows[i].w, rows[i].h, w, h, rows[i].to_w,
                     rows[i].to_h);
    }
    assert_fails(qwen_pictures_size(&p, 1, 201, &h, &w, &err), VC_EINVAL, &err, "at most 1:200");
}

static void refuses_processor(const tf_fixture *f, const char *text, int rc, const char *says)
{
    qwen_pictures p;
    vc_err err = { 0 };

    tf_put_text(f->dir, "preprocessor_config.json", text);
    assert_fails(qwen_pictures_open(&p, f->dir, PATCH, MERGE, &err), rc, &err, says);
    assert_non_null(strstr(err.text, "preprocessor_config.json"));
}

static void processors(void **state)
{
    tf_fixture f = open_fixture(VC_F32);
    qwen_pictures p;
    vc_err err = { 0 };

    (void)state;
    refuses_processor(&f, "{\"patch_size\": 16}", VC_EMISMATCH, "2x2 patches of 16 pixels");
    refuses_processor(&f, "{\"merge_size\": 4}", VC_EMISMATCH, "4x4 patches of 14 pixels");
    refuses_processor(&f, "{\"resample\": 2}", VC_EFORMAT, "resample");
    refuses_processor(&f, "{\"do_resize\": false}", VC_EFORMAT, "do_resize");
    refuses_processor(&f, "{\"size\": {\"longest_edge\": 0}}", VC_EFORMAT, "size: longest_edge");
    refuses_processor(&f, "{\"min_pixels\": 50, \"max_pixels\": 40}", VC_EFORMAT, "min_pixels");
    tf_put_text(f.dir, "preprocessor_config.json", "{\"min_pixels\": 784, \"size\": "
                "{\"shortest_edge\": 3136, \"longest_edge\": 12845056}}");
    assert_ok(qwen_pictures_open(&p, f.dir, PATCH, MERGE, &err), &err);
    assert_true(p.least == 784 && p.most == 12845056);
    char *path = vc_format("%s/preprocessor_config.json", f.dir);
    remove(path);
    free(path);
    assert_fails(qwen_pictures_open(&p, f.dir, PATCH, MERGE, &err), VC_ENOENT, &err,
                 "preprocessor_config.json");
    tf_put_text(f.dir, "processor_config.json",
                "{\"image_processor\": {\"max_pixels\": 5000, \"size\": 3}}");
    assert_ok(qwen_pictures_open(&p, f.dir, PATCH, MERGE, &err), &err);
    assert_true(p.least == 3136 && p.most == 5000);
    tf_close(&f);
}

/* ---- the tower ---- */

static qwen_vision *open_in(const char *dir, vc_dtype type, qwen_vision_info *info)
{
    encoder_opts o = tf_alone(dir, type);
    vc_err err = { 0 };
    qwen_vision *m;

    assert_ok(qwen_vision_open(&m, &o, info, &err), &err);
    return m;
}

static void refused(const char *dir, int rc, const char *says)
{
    encoder_opts o = tf_alone(dir, VC_F32);
    qwen_vision_info info;
    vc_err err = { 0 };
    qwen_vision *m = (qwen_vision *)&o;

    assert_fails(qwen_vision_open(&m, &o, &info, &err), rc, &err, says);
    assert_null(m);
}

/* Compares picture i with the golden's `want`, or states_i. */
static void states_equal(const tf_fixture *f, qwen_vision *m, int i, const char *want,
                         vc_dtype type)
{
    qwen_pictures p;
    vc_err err = { 0 };
    char name[32];
    int h, w;

    snprintf(name, sizeof name, "states_%d", i);
    assert_ok(qwen_pictures_open(&p, f->dir, PATCH, MERGE, &err), &err);
    float *pixels = pixels_of(f, &p, i, &h, &w);
    const int64_t n = (int64_t)(h / 28) * (w / 28);
    float *states = malloc((size_t)n * WIDTH * sizeof *states);
    float *gold = golden_values(f->gold, want ? want : name, NULL);
    assert_ok(qwen_vision_encode(m, pixels, h, w, states, &err), &err);
    const double e = golden_error(states, gold, n * WIDTH);
    if (!(e <= (type == VC_F32 ? F32 : BF16)))
        fail_msg("%s, picture %d, activations %s: %g", want ? want : name, i, vc_dtype_name(type),
                 e);
    free(pixels);
    free(states);
    free(gold);
}

static void equals_transformers(void **state)
{
    tf_fixture f = open_fixture(VC_F32);

    (void)state;
    for (vc_dtype type = VC_F32; type <= VC_BF16; type++) {
        qwen_vision_info info;
        qwen_vision *m = open_in(f.dir, type, &info);
        assert_true(info.patch == PATCH && info.merge == MERGE && info.width == WIDTH);
        for (int i = 0; i < PICTURES; i++)
            states_equal(&f, m, i, NULL, type);
        qwen_vision_close(m);
    }
    tf_close(&f);
}

static void stored_types(void **state)
{
    static const struct { const char *want; vc_dtype stored; } rows[] = {
        { "bf16", VC_BF16 }, { "f16", VC_F16 },
    };

    (void)state;
    for (size_t r = 0; r < COUNT(rows); r++) {
        tf_fixture f = open_fixture(rows[r].stored);
        qwen_vision_info info;
        qwen_vision *m = open_in(f.dir, VC_F32, &info);
        states_equal(&f, m, 0, rows[r].want, VC_F32);
        qwen_vision_close(m);
        tf_close(&f);
    }
}

/* ---- checkpoints and configs ---- */

/* Names as transformers wrote them before 5, and as files on the hub have them. */
static bool older_name(vf_view *v, const void *arg)
{
    (void)arg;
    assert_true(!strncmp(v->name, "model.visual.", 13));
    v->name += 6;
    return true;
}

static void checkpoint_forms(void **state)
{
    const float extra[6] = { 0 };
    const vf_view more[] = {
        { "model.layers.0.input_layernorm.weight", VC_F32, 1, { 6 }, extra, sizeof extra },
        { "visual.blocks.3.norm1.weight", VC_F32, 1, { 6 }, extra, sizeof extra },
    };
    tf_fixture f = open_fixture(VC_F32);
    qwen_vision_info info;
    char dir[600];

    (void)state;
    snprintf(dir, sizeof dir, "%s/changed", f.dir);
    tf_write(&f, dir, NULL, older_name, NULL, 1, more, 1);
    qwen_vision *m = open_in(dir, VC_F32, &info);
    states_equal(&f, m, 0, NULL, VC_F32);
    qwen_vision_close(m);
    tf_write(&f, dir, NULL, older_name, NULL, 1, more, 2);
    refused(dir, VC_EMISMATCH, "visual.blocks.3.norm1.weight is not used");
    tf_write(&f, dir, NULL, tf_without, "model.visual.merger.ln_q.weight", 1, NULL, 0);
    refused(dir, VC_ENOENT, "model.visual.merger.ln_q.weight\" is missing; it should be [32]");
    tf_close(&f);
}

static void config_refused(void **state)
{
    static const struct { const char *field, *value; int rc; const char *says; } rows[] = {
        { "hidden_act", "\"gelu\"", VC_EFORMAT, "vision_config: hidden_act" },
        { "in_channels", "4", VC_EFORMAT, "in_channels" },
        { "temporal_patch_size", "1", VC_EFORMAT, "temporal_patch_size" },
        { "num_heads", "3", VC_EFORMAT, "hidden_size: 32 is not num_heads: 3 times" },
        { "window_size", "20", VC_EFORMAT, "window_size: 20 is less than a merged patch of 28" },
        { "patch_size", "7", VC_EMISMATCH, "is [32,3,2,14,14], [32,3,2,7,7] was expected" },
        { "depth", "4", VC_ENOENT, "model.visual.blocks.3.norm1.weight" },
    };
    tf_fixture f = open_fixture(VC_F32);

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        cJSON *o = golden_json(f.gold, "config");
        cJSON *part = cJSON_GetObjectItemCaseSensitive(o, "vision_config");
        cJSON_DeleteItemFromObjectCaseSensitive(part, rows[i].field);
        cJSON_AddItemToObject(part, rows[i].field, cJSON_Parse(rows[i].value));
        char *text = vf_json_line(o);
        tf_put_config(&f, text);
        refused(f.dir, rows[i].rc, rows[i].says);
        free(text);
        cJSON_Delete(o);
    }
    tf_put_config(&f, "{\"model_type\": \"qwen2_5_vl\"}");
    refused(f.dir, VC_ENOENT, "vision_config");
    refused(NULL, VC_EINVAL, "folder");
    tf_close(&f);
}

/* Sides that the processor never makes; windows and full layers are in the fingerprint. */
static void sides_and_fingerprints(void **state)
{
    tf_fixture f = open_fixture(VC_F32);
    const float pixels[28 * 3] = { 0 };
    float states[WIDTH];
    qwen_vision_info info[2];
    vc_err err = { 0 };

    (void)state;
    for (int i = 0; i < 2; i++) {
        qwen_vision *m = open_in(f.dir, VC_F32, &info[i]);
        assert_fails(qwen_vision_encode(m, pixels, 1, 28, states, &err), VC_EINVAL, &err,
                     "no multiples of 28");
        qwen_vision_close(m);
        cJSON *o = golden_json(f.gold, "config");
        cJSON *part = cJSON_GetObjectItemCaseSensitive(o, "vision_config");
        cJSON_ReplaceItemInObjectCaseSensitive(part, "fullatt_block_indexes", cJSON_Parse("[2]"));
        char *text = vf_json_line(o);
        tf_put_config(&f, text);
        free(text);
        cJSON_Delete(o);
    }
    assert_memory_not_equal(&info[0].fingerprint, &info[1].fingerprint, sizeof info->fingerprint);
    qwen_vision_close(NULL);
    tf_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_are_transformers), cmocka_unit_test(sizes),
        cmocka_unit_test(processors), cmocka_unit_test(equals_transformers),
        cmocka_unit_test(stored_types), cmocka_unit_test(checkpoint_forms),
        cmocka_unit_test(config_refused), cmocka_unit_test(sides_and_fingerprints),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
