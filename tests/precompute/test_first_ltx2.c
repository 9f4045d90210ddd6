/* test_first_ltx2.c - LTX-2's components in files of its authors and of ComfyUI: each tensor, the
 * hash, config.json and the pixels are those of the folders in diffusers' layout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/tensors/component.h"
#include "precompute/encoder.h"
#include "tests/lib/first.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
enum { MOST = 512, C = 8, F = 17, SIDE = 64, VERSIONS = 2, PARTS = 3 };

static const struct part { const char *golden[VERSIONS], *slot; } parts[PARTS] = {
    { { "ltx2-20", "ltx2-23" }, "transformer" },
    { { "vae_ltx2_20", "vae_ltx2_23" }, "vae" },
    { { "ltx2-connectors-20", "ltx2-connectors-23" }, "connectors" },
};
static const char *const whole[VERSIONS] = { "first-ltx2-20", "first-ltx2-23" };

static char *file_of(int version, const char *name)
{
    char *path = malloc(700);
    vf_safetensors *f = golden_open(whole[version]);

    assert_non_null(path);
    snprintf(path, 700, "%s/%s.safetensors", golden_tmp(whole[version]), name);
    first_write(f, path);
    vf_safetensors_close(f);
    return path;
}

static const char *folder_of(const struct part *p, int version)
{
    const char *dir = golden_tmp(p->golden[version]);
    vf_safetensors *f = golden_open(p->golden[version]);

    golden_model(f, dir, VC_F32);
    vf_safetensors_close(f);
    return dir;
}

static void same_tensors(const vf_model *a, const vf_model *b)
{
    assert_int_equal(vf_model_count(a), vf_model_count(b));
    for (int i = 0; i < vf_model_count(a); i++) {
        const vf_view *x = vf_model_at(a, i), *y = vf_model_at(b, i);
        assert_string_equal(x->name, y->name);
        assert_true(x->dtype == y->dtype && x->nd == y->nd && x->bytes == y->bytes);
        assert_memory_equal(x->dim, y->dim, (size_t)x->nd * sizeof *x->dim);
        assert_memory_equal(x->data, y->data, x->bytes);
    }
}

static void same_weights(const char *dir, const char *file, const char *slot)
{
    vc_err err = { 0 };
    vf_model *m[2];
    vf_key k[2];

    assert_ok(vf_component_open(&m[0], dir, slot, &err), &err);
    assert_ok(vf_component_open(&m[1], file, slot, &err), &err);
    same_tensors(m[0], m[1]);
    for (int i = 0; i < 2; i++) {
        assert_ok(vf_model_hash(&k[i], m[i], NULL, &err), &err);
        vf_model_close(m[i]);
    }
    assert_memory_equal(&k[0], &k[1], sizeof *k);
}

/* Fields that the file makes, and the folder has, are equal. */
static void same_config(const char *dir, const char *file, const char *slot)
{
    vc_err err = { 0 };
    cJSON *had, *has;
    const cJSON *v;
    int n = 0;

    assert_ok(vf_component_config(&had, dir, slot, NULL, &err), &err);
    assert_ok(vf_component_config(&has, file, slot, NULL, &err), &err);
    cJSON_ArrayForEach(v, has) {
        const cJSON *is = cJSON_GetObjectItemCaseSensitive(had, v->string);
        n += is != NULL;
        if (is && !cJSON_Compare(is, v, true))
            fail_msg("%s: %s: %s is expected, not %s", file, v->string, cJSON_PrintUnformatted(is),
                     cJSON_PrintUnformatted(v));
    }
    assert_true(n > 5);
    cJSON_Delete(had);
    cJSON_Delete(has);
}

static void one_file(void **state)
{
    (void)state;
    for (int v = 0; v < VERSIONS; v++) {
        char *file = file_of(v, "whole");
        for (int i = 0; i < PARTS; i++) {
            const char *dir = folder_of(&parts[i], v);
            same_weights(dir, file, parts[i].slot);
            same_config(dir, file, parts[i].slot);
        }
        free(file);
    }
}

/* Writes the tensors whose names begin with the prefix, which is cut off, to a file of their own,
 * with the authors' configuration where `told`. */
static char *split(int version, const char *prefix, bool told)
{
    char *from = file_of(version, "whole"), *path = malloc(strlen(from) + 80);
    vf_view v[MOST];
    vf_safetensors *f;
    vc_err err = { 0 };
    int n = 0;

    assert_non_null(path);
    sprintf(path, "%.*s/%zu-%d.safetensors", (int)(strrchr(from, '/') - from), from,
            strlen(prefix), told);
    assert_ok(vf_safetensors_open(&f, from, &err), &err);
    const vf_meta meta = { "config", vf_safetensors_meta(f, "config") };
    for (int i = 0; i < vf_safetensors_count(f); i++) {
        v[n] = *vf_safetensors_at(f, i);
        if (strncmp(v[n].name, prefix, strlen(prefix)))
            continue;
        v[n++].name += strlen(prefix);
        assert_true(n < MOST);
    }
    assert_ok(vf_safetensors_write(path, v, n, &meta, told, &err), &err);
    vf_safetensors_close(f);
    free(from);
    return path;
}

/* ComfyUI's files of one component, whose transformer has the connectors too, but not the layer
 * before them. */
static void files_of_components(void **state)
{
    static const char *const prefixes[] = { "model.diffusion_model.", "vae." };
    (void)state;
    for (int v = 0; v < VERSIONS; v++)
        for (int i = 0; i < 2; i++) {
            char *file = split(v, prefixes[i], true);
            const char *dir = folder_of(&parts[i], v);
            same_weights(dir, file, parts[i].slot);
            same_config(dir, file, parts[i].slot);
            free(file);
        }
}

/* Without the authors' configuration the values are those of the released version. */
static void untold(void **state)
{
    (void)state;
    for (int v = 0; v < VERSIONS; v++) {
        char *file = split(v, "vae.", false);
        same_config(folder_of(&parts[1], v), file, "vae");
        free(file);
    }
}

/* The transformer of 2.3 also shows its heads. */
static void heads(void **state)
{
    vc_err err = { 0 };
    cJSON *o;
    (void)state;
    char *file = split(1, "model.diffusion_model.", false);
    same_config(folder_of(&parts[0], 1), file, "transformer");
    assert_ok(vf_component_config(&o, file, "connectors", NULL, &err), &err);
    assert_string_equal(cJSON_GetObjectItem(o, "_class_name")->valuestring, "LTX2TextConnectors");
    assert_true(cJSON_GetObjectItem(o, "video_connector_num_attention_heads")->valuedouble == 2);
    cJSON_Delete(o);
    free(file);
}

/* ---- pixels ---- */

static void same_pixels(void **state)
{
    static float pixels[F * SIDE * SIDE * 3], mean[2][C * 3 * 4];
    static uint8_t shown[2][F * SIDE * SIDE * 3];
    (void)state;
    for (size_t i = 0; i < COUNT(pixels); i++)
        pixels[i] = (float)(i * 37 % 256) / 127.5f - 1;
    for (int v = 0; v < VERSIONS; v++) {
        char *file = file_of(v, "whole");
        vae_info info[2];
        for (int i = 0; i < 2; i++) {
            encoder_opts o = { .dir = i ? file : folder_of(&parts[1], v), .dtype = VC_F32,
                               .device = "cpu" };
            vc_err err = { 0 };
            vae *m;
            assert_ok(vae_ltx2.open(&m, &o, &info[i], &err), &err);
            assert_ok(vae_ltx2.encode(m, &(vae_input){ .all = pixels }, F, SIDE, SIDE, mean[i],
                                      NULL, &err), &err);
            assert_ok(vae_ltx2.decode(m, mean[0], 3, 2, 2, &(vae_output){ .all = shown[i] }, &err),
                      &err);
            vae_ltx2.close(m);
        }
        assert_memory_equal(&info[0].fingerprint, &info[1].fingerprint, sizeof(vf_key));
        assert_memory_equal(mean[0], mean[1], sizeof *mean);
        assert_memory_equal(shown[0], shown[1], sizeof *shown);
        free(file);
    }
}

/* ---- refused ---- */

static void refuses(void **state)
{
    vae_info info;
    vae *m;
    vc_err err = { 0 };
    cJSON *o;
    (void)state;
    char *file = split(0, "model.diffusion_model.", true);
    encoder_opts opts = { .dir = file, .dtype = VC_F32, .device = "cpu" };

    assert_fails(vae_ltx2.open(&m, &opts, &info, &err), VC_EUSAGE, &err,
                 "the file holds LTX2VideoTransformer3DModel, not AutoencoderKLLTX2Video");
    free(file);
    file = file_of(0, "whole");
    assert_fails(vf_component_config(&o, file, NULL, "AutoencoderKLWan", &err), VC_EUSAGE, &err,
                 "not AutoencoderKLWan");
    free(file);
}

/* A configuration that is damaged, or has sizes that no model has, is refused or without effect. */
static void damaged_configurations(void **state)
{
    static const struct { const char *config; bool reads; } rows[] = {
        { "{", false }, { "{\"transformer\":3,\"vae\":[]}", false },
        { "{\"transformer\":{\"num_attention_heads\":1e300,\"caption_channels\":-1,"
          "\"connector_attention_head_dim\":1e300,\"connector_positional_embedding_max_pos\":"
          "[1e300]},\"vae\":{\"decoder_blocks\":[3,[\"compress_all\",4],[]]}}", true },
        { "[]", true },
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *from = file_of(1, "whole"), path[700];
        vf_view v[MOST];
        vf_safetensors *f;
        vc_err err = { 0 };
        snprintf(path, sizeof path, "%s-%zu.safetensors", from, i);
        assert_ok(vf_safetensors_open(&f, from, &err), &err);
        for (int k = 0; k < vf_safetensors_count(f); k++)
            v[k] = *vf_safetensors_at(f, k);
        const vf_meta meta = { "config", rows[i].config };
        assert_ok(vf_safetensors_write(path, v, vf_safetensors_count(f), &meta, 1, &err), &err);
        vf_safetensors_close(f);
        for (int k = 0; k < PARTS; k++) {
            cJSON *o = NULL;
            const int rc = vf_component_config(&o, path, parts[k].slot, NULL, &err);
            assert_int_equal(rc == 0, rows[i].reads);
            assert_true(rc == 0 || strstr(err.text, "config"));
            cJSON_Delete(o);
        }
        free(from);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_file), cmocka_unit_test(files_of_components),
        cmocka_unit_test(untold), cmocka_unit_test(heads), cmocka_unit_test(same_pixels),
        cmocka_unit_test(refuses), cmocka_unit_test(damaged_configurations),
    };
    return cmocka_run_group_tests_name("first_ltx2", tests, NULL, NULL);
}
