/* test_scales.c - files of weights in fp8, int8 and nf4 with scales, in each program's names, and
 * files of weights that are quantised in other ways. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/tensors/component.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "tests/lib/tmp_dir.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
enum { ROWS = 4, COLUMNS = 6, MOST = 6 };

static const uint8_t codes[ROWS * COLUMNS] = { 0x38, 0x40, 0xb8, 0x01, 0x77, 0x30 };
static const uint8_t marker[64] = { 0 };
static const float numbers[64] = { 0.5f, 0.25f, 2, 4, 0.125f, 8, 16, 3, 5, 7, 9, 11 };

#define WEIGHT(type) { .name = "a.0.weight", .dtype = type, .nd = 2, .dim = { ROWS, COLUMNS } }
#define VIEW(text, type, axes, ...) \
    { .name = text, .dtype = type, .nd = axes, .dim = { __VA_ARGS__ } }

static char *write_file(const char *dir, vf_view v[MOST], int *n, const char *meta)
{
    vc_err err = { 0 };
    char *path = vc_path_join(dir, "x.safetensors");
    const vf_meta m = { "_quantization_metadata", meta };
    for (*n = 0; *n < MOST && v[*n].name; ++*n) {
        vf_view *x = &v[*n];
        x->bytes = (size_t)vf_view_count(x) * vc_dtype_size(x->dtype);
        if (!x->data)
            x->data = x->dtype == VC_F32 ? (const void *)numbers
                    : x->dtype == VC_U8 ? (const void *)marker : codes;
    }
    assert_ok(vf_safetensors_write(path, v, *n, &m, meta != NULL, &err), &err);
    return path;
}

/* ---- what is read ---- */

static const struct { vf_view v[MOST]; int64_t scales[2]; int kept; } scaled[] = {
    /* ComfyUI's and Kijai's, with one scale */
    { { WEIGHT(VC_F8E4M3), VIEW("a.0.scale_weight", VC_F32, 0),
        VIEW("a.0.scale_input", VC_F32, 0), VIEW("scaled_fp8", VC_F8E4M3, 1, 0) }, { 1, 1 }, 1 },
    { { WEIGHT(VC_F8E5M2), VIEW("a.0.scale_weight", VC_F32, 1, 1),
        VIEW("scaled_fp8", VC_F8E5M2, 1, 2), VIEW("b", VC_F32, 1, 3) }, { 1, 1 }, 2 },
    { { WEIGHT(VC_F8E4M3), VIEW("a.0.weight_scale", VC_F32, 0),
        VIEW("a.0.input_scale", VC_F32, 0),
        { .name = "a.0.comfy_quant", .dtype = VC_U8, .nd = 1, .dim = { 27 },
          .data = "{\"format\": \"float8_e4m3fn\"}" } }, { 1, 1 }, 1 },
    /* musubi-tuner's, with one, with one a row, and with blocks */
    { { WEIGHT(VC_F8E4M3), VIEW("a.0.scale_weight", VC_F32, 2, ROWS, 1) }, { ROWS, 1 }, 1 },
    { { WEIGHT(VC_F8E4M3), VIEW("a.0.scale_weight", VC_F32, 3, ROWS, 3, 1) }, { ROWS, 3 }, 1 },
    /* transformers' and torchao's rows */
    { { WEIGHT(VC_F8E4M3), VIEW("a.0.weight_scale", VC_F32, 1, ROWS) }, { ROWS, 1 }, 1 },
    { { WEIGHT(VC_F8E4M3), VIEW("a.0.weight_scale", VC_F32, 2, 1, 1) }, { 1, 1 }, 1 },
    /* the same in int8, and ComfyUI's */
    { { WEIGHT(VC_I8), VIEW("a.0.weight_scale", VC_F32, 2, ROWS, 1) }, { ROWS, 1 }, 1 },
    { { WEIGHT(VC_I8), VIEW("a.0.scale_weight", VC_F32, 0) }, { 1, 1 }, 1 },
    { { WEIGHT(VC_I8), VIEW("a.0.weight_scale", VC_F32, 0),
        { .name = "a.0.comfy_quant", .dtype = VC_U8, .nd = 1, .dim = { 29 },
          .data = "{\"format\": \"int8_tensorwise\"}" } }, { 1, 1 }, 1 },
};

static void test_scaled(void **state)
{
    for (size_t i = 0; i < COUNT(scaled); i++) {
        vf_view v[MOST];
        int n;
        vf_model *m;
        vt_host h;
        vc_err err = { 0 };
        memcpy(v, scaled[i].v, sizeof v);
        char *path = write_file(*state, v, &n, NULL);
        assert_ok(vf_model_open(&m, path, &err), &err);
        assert_int_equal(vf_model_count(m), scaled[i].kept);
        const vt_source src = vf_model_source(m);
        assert_ok(src.get(src.arg, "a.0.weight", &h, &err), &err);
        assert_non_null(h.scale);
        assert_memory_equal(h.scales, scaled[i].scales, sizeof h.scales);
        for (int64_t r = 0; r < ROWS; r++) {
            float got[COLUMNS];
            vt_host_row(got, &h, r);
            for (int64_t c = 0; c < COLUMNS; c++) {
                const int64_t at = (h.scales[0] > 1 ? r : 0) * h.scales[1] +
                                   c / (COLUMNS / h.scales[1]);
                float code;
                vc_to_f32(&code, codes + r * COLUMNS + c, v[0].dtype, 1);
                assert_true(got[c] == code * numbers[at]);
            }
        }
        vf_model_close(m);
        free(path);
    }
}

/* A decoder's file without config.json, as ComfyUI's users have it. */
static void test_decoders(void **state)
{
    static const struct { const char *mark, *visual, *type; double theta; } rows[] = {
        { "model.layers.0.self_attn.q_proj.bias", "visual.patch_embed.proj.weight", "qwen2_5_vl",
          1000000 },
        { "model.norm.weight", "lm_head.weight", "llama", 500000 },
    };
    static const struct { const char *field; double value; } fields[] = {
        { "hidden_size", 4 }, { "vocab_size", 3 }, { "intermediate_size", 2 },
        { "num_attention_heads", 2 }, { "num_key_value_heads", 1 }, { "num_hidden_layers", 1 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        static const uint8_t many[256 * 4] = { 0 };
        const vf_view v[] = {
            { "model.embed_tokens.weight", VC_F8E4M3, 2, { 3, 4 }, many, 12 },
            { "model.layers.0.mlp.gate_proj.weight", VC_F8E4M3, 2, { 2, 4 }, many, 8 },
            { "model.layers.0.self_attn.q_proj.weight", VC_F8E4M3, 2, { 256, 4 }, many, 1024 },
            { "model.layers.0.self_attn.q_proj.scale_weight", VC_F32, 0, { 0 }, numbers, 4 },
            { "model.layers.0.self_attn.k_proj.weight", VC_F8E4M3, 2, { 128, 4 }, many, 512 },
            { rows[i].mark, VC_F32, 1, { 1 }, numbers, 4 },
            { rows[i].visual, VC_F32, 1, { 1 }, numbers, 4 },
        };
        cJSON *config;
        vc_err err = { 0 };
        char *path = vc_path_join(*state, "x.safetensors"), *json = vc_path_join(*state,
                                                                               "config.json");
        assert_ok(vf_safetensors_write(path, v, COUNT(v), NULL, 0, &err) ||
                  vf_component_config(&config, path, NULL, rows[i].type, &err), &err);
        for (size_t k = 0; k < COUNT(fields); k++)
            assert_true(cJSON_GetNumberValue(cJSON_GetObjectItem(config, fields[k].field)) ==
                        fields[k].value);
        assert_true(cJSON_GetNumberValue(cJSON_GetObjectItem(config, "rope_theta")) ==
                    rows[i].theta);
        assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(config, "model_type")),
                            rows[i].type);
        cJSON_Delete(config);
        /* one beside the file is taken in its place, if it names a class or type */
        const char *beside = "{\"model_type\":\"y\",\"x\":1}";
        assert_ok(vc_file_write(json, beside, strlen(beside), &err) ||
                  vf_component_config(&config, path, NULL, rows[i].type, &err), &err);
        assert_non_null(cJSON_GetObjectItem(config, "x"));
        cJSON_Delete(config);
        remove(json);
        free(path);
        free(json);
    }
}

/* Files of bitsandbytes 0.50: four bits with scales in eight bits and in f32, and eight bits. The
 * values are those that it computes (scripts/golden/packings.py). */
static void test_bitsandbytes(void **state)
{
    static const struct form {
        const char *values, *tensor[7];        /* in the golden, without the weight's name */
        vc_dtype type;
        int64_t blocks;
    } forms[] = {
        { "nested/values",
          { "nested/weight", "nested/absmax", "nested/quant_map", "nested/nested_absmax",
            "nested/nested_quant_map", "nested/quant_state.bitsandbytes__nf4" }, VC_NF4, 3 },
        { "int8/values", { "int8/codes", "int8/absmax" }, VC_I8, 1 },
    };
    static const char *const names[2][6] = {
        { "a.weight", "a.weight.absmax", "a.weight.quant_map", "a.weight.nested_absmax",
          "a.weight.nested_quant_map", "a.weight.quant_state.bitsandbytes__nf4" },
        { "a.weight", "a.SCB" },
    };
    vf_safetensors *golden = golden_open("packings");
    for (size_t i = 0; i < COUNT(forms); i++) {
        vf_view v[6];
        vf_model *m;
        vt_host h;
        vc_err err = { 0 };
        int n = 0;
        for (; n < 6 && forms[i].tensor[n]; n++) {
            assert_ok(vf_safetensors_get(golden, forms[i].tensor[n], &v[n], &err), &err);
            v[n].name = names[i][n];
        }
        char *path = vc_path_join(*state, "x.safetensors");
        assert_ok(vf_safetensors_write(path, v, n, NULL, 0, &err) ||
                  vf_model_open(&m, path, &err), &err);
        assert_int_equal(vf_model_count(m), 1);
        const vt_source src = vf_model_source(m);
        assert_ok(src.get(src.arg, "a.weight", &h, &err), &err);
        assert_int_equal(h.dtype, forms[i].type);
        assert_true(h.nd == 2 && h.dim[0] == 24 && h.dim[1] == 192);
        assert_true(h.scales[0] == 24 && h.scales[1] == forms[i].blocks);
        float *want = golden_values(golden, forms[i].values, NULL), got[192];
        for (int64_t r = 0; r < 24; r++) {
            vt_host_row(got, &h, r);
            for (int c = 0; c < 192; c++)
                assert_true(fabsf(got[c] - want[r * 192 + c]) <= 1e-6f * fabsf(want[r * 192 + c]));
        }
        free(want);
        vf_model_close(m);
        free(path);
    }
    vf_safetensors_close(golden);
}

/* A VAE's quant_conv is no quantisation. */
static void test_other_names(void **state)
{
    static const char *const names[] = { "quant_conv.weight", "vae.quant_conv.weight",
                                         "first_stage_model.post_quant_conv.weight" };
    for (size_t i = 0; i < COUNT(names); i++) {
        vf_view v[MOST] = { VIEW(names[i], VC_F32, 2, 2, 3) };
        int n;
        vf_model *m;
        vc_err err = { 0 };
        char *path = write_file(*state, v, &n, NULL);
        assert_ok(vf_model_open(&m, path, &err), &err);
        vf_model_close(m);
        free(path);
    }
}

/* The values' key changes with the scales. */
static void test_hash(void **state)
{
    vf_key key[3];
    for (int i = 0; i < 3; i++) {
        vf_view v[MOST] = { WEIGHT(VC_F8E4M3), VIEW("a.0.scale_weight", VC_F32, 0) };
        int n;
        vf_model *m;
        vc_err err = { 0 };
        v[1].data = numbers + i;
        if (i == 2)
            v[1].name = NULL;
        char *path = write_file(*state, v, &n, NULL);
        assert_ok(vf_model_open(&m, path, &err) || vf_model_hash(&key[i], m, NULL, &err), &err);
        vf_model_close(m);
        free(path);
    }
    assert_memory_not_equal(&key[0], &key[1], sizeof *key);
    assert_memory_not_equal(&key[0], &key[2], sizeof *key);
}

/* ---- what is refused ---- */

static const uint32_t nan_scale[1] = { 0x7fc00000 };
#define NF4_FAULT(bytes, json, says)                                                               \
    { { VIEW("a.0.weight", VC_U8, 2, bytes, 1), VIEW("a.0.weight.absmax", VC_F32, 1, 12),          \
        VIEW("a.0.weight.quant_map", VC_F32, 1, 16),                                               \
        { .name = "a.0.weight.quant_state.bitsandbytes__nf4", .dtype = VC_U8, .nd = 1,             \
          .dim = { sizeof json - 1 }, .data = json } }, NULL, says }
static const struct { vf_view v[MOST]; const char *meta, *says; } refused[] = {
    { { WEIGHT(VC_F8E4M3), VIEW("a.0.scale_weight", VC_F32, 1, 3) }, NULL,
      "a.0.scale_weight: [3] numbers do not fit a weight of [4,6]" },
    { { WEIGHT(VC_F8E4M3), VIEW("a.0.scale_weight", VC_F32, 2, ROWS, 4) }, NULL, "do not fit" },
    { { WEIGHT(VC_F8E4M3), { .name = "a.0.scale_weight", .dtype = VC_F32, .nd = 1, .dim = { 1 },
                             .data = nan_scale } }, NULL, "a.0.scale_weight" },
    { { WEIGHT(VC_F8E4M3), VIEW("a.1.scale_weight", VC_F32, 0) }, NULL,
      "a.1.scale_weight: the file has no a.1.weight" },
    { { WEIGHT(VC_F8E4M3), VIEW("a.0.weight_scale", VC_U8, 2, ROWS, 1) }, NULL, "mxfp8" },
    { { WEIGHT(VC_U8), VIEW("a.0.weight_scale", VC_F8E4M3, 2, ROWS, 1),
        VIEW("a.0.weight_scale_2", VC_F32, 0) }, NULL, "nvfp4" },
    { { WEIGHT(VC_I8), VIEW("a.0.SCB", VC_F32, 1, 3) }, NULL,
      "a.0.SCB: 3 numbers of f32, 4 of f32 were expected" },
    { { WEIGHT(VC_F8E4M3), VIEW("a.0.SCB", VC_F32, 1, ROWS) }, NULL, "no int8 weight" },
    { { VIEW("a.0.SCB", VC_F32, 1, ROWS) }, NULL, "a.0.SCB: the file has no a.0.weight" },
    { { WEIGHT(VC_I8), VIEW("a.0.SCB", VC_F32, 1, ROWS),
        { .name = "a.0.weight_format", .dtype = VC_U8, .nd = 0, .data = "\1" } }, NULL,
      "a.0.weight_format: the int8 weight is not stored by rows" },
    NF4_FAULT(24, "{\"quant_type\":\"fp4\",\"blocksize\":64,\"shape\":[4,6]}", "no nf4 weight"),
    NF4_FAULT(24, "{\"quant_type\":\"nf4\",\"blocksize\":64,\"shape\":[4,6]}",
              "rows of 6 numbers do not consist of blocks of 64"),
    NF4_FAULT(24, "{\"quant_type\":\"nf4\",\"blocksize\":2,\"shape\":[4,6]}",
              "a.0.weight: 24 numbers of u8, 12 of u8 were expected"),
    NF4_FAULT(12, "{\"quant_type\":\"nf4\",\"blocksize\":2,\"shape\":[4,6]}",
              "quant_map: number 0"),
    NF4_FAULT(12, "{\"quant_type\":\"nf4\",\"blocksize\":2,\"shape\":[4,6e99]}", "no nf4 weight"),
    NF4_FAULT(12, "{\"quant_type\":\"nf4\",\"blocksize\":0,\"shape\":[4,6]}", "no nf4 weight"),
    NF4_FAULT(12, "{\"blocksize\":2,\"shape\":[4,6]}", "quant_type"),
    { { WEIGHT(VC_U8), VIEW("a.0.weight.absmax", VC_F32, 1, 3) }, NULL, "bitsandbytes" },
    { { WEIGHT(VC_U8), VIEW("a.0.weight.quant_state.bitsandbytes__nf4", VC_U8, 1, 3) }, NULL,
      "bitsandbytes" },
    { { VIEW("a.0.qweight", VC_I32, 2, 1, 2), VIEW("a.0.wscales", VC_F32, 2, 1, 2) }, NULL,
      "nunchaku" },
    { { VIEW("a.0.qweight", VC_I32, 2, 1, 2), VIEW("a.0.qzeros", VC_I32, 2, 1, 2) }, NULL,
      "GPTQ" },
    { { WEIGHT(VC_F8E4M3), VIEW("a.0.weight_scale_inv", VC_F32, 2, 1, 1) }, NULL,
      "weight_scale_inv" },
    { { WEIGHT(VC_F8E4M3), VIEW("a.0.weight_scale", VC_F32, 0),
        { .name = "a.0.comfy_quant", .dtype = VC_U8, .nd = 1, .dim = { 19 },
          .data = "{\"format\": \"mxfp8\"}" } }, NULL, "comfy_quant: mxfp8" },
    { { WEIGHT(VC_F8E4M3), VIEW("a.0.weight_scale", VC_F32, 0) },
      "{\"format_version\":\"1.0\",\"layers\":{\"a.0\":{\"format\":\"nvfp4\"}}}", "a.0: nvfp4" },
};

static void test_refused(void **state)
{
    for (size_t i = 0; i < COUNT(refused); i++) {
        vf_view v[MOST];
        int n;
        vf_model *m;
        vc_err err = { 0 };
        memcpy(v, refused[i].v, sizeof v);
        char *path = write_file(*state, v, &n, refused[i].meta);
        if (!vf_model_open(&m, path, &err))
            fail_msg("%s: opened", refused[i].says);
        if (!strstr(err.text, refused[i].says) || !strstr(err.text, "x.safetensors"))
            fail_msg("%s: %s", refused[i].says, err.text);
        free(path);
    }
}

static void test_gguf(void **state)
{
    char *path = vc_path_join(*state, "x.gguf");
    FILE *f = fopen(path, "wb");
    vf_model *m;
    vc_err err = { 0 };
    assert_non_null(f);
    fwrite("GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 1, 24, f);
    fclose(f);
    assert_fails(vf_model_open(&m, path, &err), VC_EFORMAT, &err, "GGUF");
    free(path);
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, tmp_dir_setup, tmp_dir_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_scaled), IN_FOLDER(test_hash), IN_FOLDER(test_refused),
        IN_FOLDER(test_gguf), IN_FOLDER(test_other_names), IN_FOLDER(test_bitsandbytes),
        IN_FOLDER(test_decoders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
