/* test_llm_files.c - the forms of decoders' checkpoints and of their config.json, and the files
 * that are refused (tests/golden/llama, llama3, qwen2.5-vl, qwen3, mistral-comfyui). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "formats/tensors/component.h"
#include "precompute/text/llm_config.h"
#include "tests/lib/ok.h"
#include "tests/precompute/text/llm_golden.h"

/* ---- checkpoints ---- */

static bool used_by_two_layers(vf_view *v, const void *arg)
{
    (void)arg;
    return strncmp(v->name, "layers.2.", 9) && strncmp(v->name, "layers.3.", 9) &&
           strcmp(v->name, "norm.weight");
}

/* Renames a tensor as in Qwen2.5-VL's released files, which have model. for
 * model.language_model. */
static bool as_released(vf_view *v, const void *arg)
{
    static char name[TF_TENSORS][80];
    static int next;
    static const char now[] = "model.language_model.";
    (void)arg;

    if (strncmp(v->name, now, sizeof now - 1))
        return true;
    next = (next + 1) % TF_TENSORS;
    snprintf(name[next], sizeof *name, "model.%s", v->name + sizeof now - 1);
    v->name = name[next];
    return true;
}

static double error_in(const char *dir, const llm_kind *kind, const vf_safetensors *gold)
{
    llm *m = lg_open(dir, kind, 2, VC_F32);
    double e = lg_error(m, gold, "ids_40", "skip2_40");
    llm_close(m);
    return e;
}

static void checkpoint_forms(void **state)
{
    static const char *const prefixes[] = { "", "model.", "language_model.model." };
    const float extra[6] = { 0 };
    const vf_view others[] = {
        { "lm_head.weight", VC_F32, 2, { 2, 3 }, extra, sizeof extra },
        { "visual.blocks.0.norm1.weight", VC_F32, 1, { 6 }, extra, sizeof extra },
    };
    const vf_view older = { "layers.1.self_attn.rotary_emb.inv_freq", VC_F32, 1, { 6 }, extra,
                            sizeof extra };
    tf_fixture f = tf_open("llama", VC_F32);
    char dir[600];

    (void)state;
    for (int i = 0; i < 3; i++) {
        snprintf(dir, sizeof dir, "%s/form%d", f.dir, i);
        tf_write(&f, dir, NULL, tf_below, prefixes[i], 2, others, i ? 2 : 1);
        assert_true(error_in(dir, &llm_llama, f.gold) <= LG_F32);
    }
    snprintf(dir, sizeof dir, "%s/older", f.dir);
    tf_write(&f, dir, NULL, NULL, NULL, 1, &older, 1);
    assert_true(error_in(dir, &llm_llama, f.gold) <= LG_F32);
    tf_close(&f);
    f = tf_open("qwen2.5-vl", VC_F32);
    snprintf(dir, sizeof dir, "%s/released", f.dir);
    tf_write(&f, dir, NULL, as_released, NULL, 1, &others[1], 1);
    assert_true(error_in(dir, &llm_qwen2_5_vl, f.gold) <= LG_F32);
    tf_close(&f);
}

/* The file may lack layers that are left out. */
static void unused_layers(void **state)
{
    tf_fixture f = tf_open("llama", VC_F32);
    char dir[600];

    (void)state;
    snprintf(dir, sizeof dir, "%s/half", f.dir);
    tf_write(&f, dir, NULL, used_by_two_layers, NULL, 1, NULL, 0);
    assert_true(error_in(dir, &llm_llama, f.gold) <= LG_F32);
    lg_refused(dir, &llm_llama, 0, VC_ENOENT, "\"norm.weight\" is missing");
    lg_refused(dir, &llm_llama, 1, VC_ENOENT, "layers.2.input_layernorm.weight");
    lg_refused(f.dir, &llm_llama, 5, VC_EINVAL, "4, of which the last 5 layers cannot be left out");
    lg_refused(f.dir, &llm_llama, -1, VC_EINVAL, "cannot be left out");
    tf_close(&f);
}

static bool cut_rows(vf_view *v, const void *name)
{
    if (!strcmp(v->name, name)) {
        v->bytes -= v->bytes / (size_t)v->dim[0];
        v->dim[0]--;
    }
    return true;
}

/* The error of the states of three layers of the golden's n ids. */
static double taps_error(llm *m, const vf_safetensors *gold, int n)
{
    float states[LG_MOST * 3 * LG_WIDTH];
    char ids[16], want[16];
    int64_t id[LG_MOST], dim[8];
    vc_err err = { 0 };

    snprintf(ids, sizeof ids, "ids_%d", n);
    snprintf(want, sizeof want, "taps_%d", n);
    assert_int_equal(lg_ids(gold, ids, id), n);
    assert_ok(llm_encode(m, &(text_ids){ id, n, 0, 0 }, 1, states, &err), &err);
    float *w = golden_values(gold, want, dim);
    assert_true(dim[0] == n && dim[1] == 3 * LG_WIDTH && llm_width(m) == 3 * LG_WIDTH);
    double e = golden_error(states, w, dim[0] * dim[1]);
    free(w);
    return e;
}

/* ComfyUI's file of Mistral 3 has no config.json and holds its tokenizer. A file that is cut to the
 * layers that are read has no final norm, and the states after its last layer pass none. */
static void comfyui_mistral(void **state)
{
    static const int taps[VC_TAPS] = { 1, 2, 3 }, most[VC_TAPS] = { 1, 2, 4 };
    const uint8_t bytes[4] = { 123, 34, 34, 125 };
    const vf_view tekken = { "tekken_model", VC_U8, 1, { 4 }, bytes, sizeof bytes };
    tf_fixture f = tf_open("mistral-comfyui", VC_F32);
    encoder_opts o;
    vf_key key[2];
    vc_err err = { 0 };
    char dir[600], path[700];
    llm *m;

    (void)state;
    snprintf(dir, sizeof dir, "%s/cut", f.dir);
    tf_write(&f, dir, "{}", NULL, NULL, 1, &tekken, 1);
    snprintf(path, sizeof path, "%s/config.json", dir);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    for (int i = 0; i < 2; i++) {
        o = lg_options(i ? path : dir, 0, VC_F32);
        memcpy(o.text.taps, taps, sizeof taps);
        assert_ok(llm_open(&m, &llm_mistral3, &o, &key[i], &err), &err);
        assert_true(taps_error(m, f.gold, 5) <= LG_F32 && taps_error(m, f.gold, 40) <= LG_F32);
        llm_close(m);
    }
    assert_memory_equal(&key[0], &key[1], sizeof *key);
    memcpy(o.text.taps, most, sizeof most);
    assert_fails(llm_open(&m, &llm_mistral3, &o, key, &err), VC_EINVAL, &err,
                 "num_hidden_layers: 3, but the transformer reads states of layer 4");
    assert_fails(llm_open(&m, &llm_qwen3, &o, key, &err), VC_EUSAGE, &err,
                 "the file holds mistral3, not qwen3: give one of qwen3, or its folder");
    tf_close(&f);
}

/* Of ComfyUI's files one that is 3072 wide holds Ministral 3, whose rotations are slowed. */
static void comfyui_ministral(void **state)
{
    enum { WIDTH = 3072, HEAD = 128, FEW = 8 };
    float *zeros = calloc((size_t)HEAD * WIDTH, sizeof *zeros);
    const uint8_t bytes[2] = { 123, 125 };
    char path[600];
    vc_err err = { 0 };

    (void)state;
    assert_non_null(zeros);
    snprintf(path, sizeof path, "%s/ministral.safetensors", golden_tmp("ministral"));
    for (int width = WIDTH; width >= WIDTH - HEAD; width -= HEAD) {
        const int64_t few = FEW * (int64_t)width * 4, head = HEAD * (int64_t)width * 4;
        const vf_view all[] = {
            { "model.embed_tokens.weight", VC_F32, 2, { FEW, width }, zeros, (size_t)few },
            { "model.layers.0.self_attn.q_proj.weight", VC_F32, 2, { HEAD, width }, zeros,
              (size_t)head },
            { "model.layers.0.self_attn.k_proj.weight", VC_F32, 2, { HEAD, width }, zeros,
              (size_t)head },
            { "model.layers.0.mlp.gate_proj.weight", VC_F32, 2, { FEW, width }, zeros,
              (size_t)few },
            { "tekken_model", VC_U8, 1, { sizeof bytes }, bytes, sizeof bytes },
        };
        cJSON *config;
        assert_ok(vf_safetensors_write(path, all, sizeof all / sizeof *all, NULL, 0, &err), &err);
        assert_ok(vf_component_config(&config, path, "text_encoder", "mistral3", &err), &err);
        const cJSON *rope = cJSON_GetObjectItemCaseSensitive(config, "rope_parameters");
        assert_true((rope != NULL) == (width == WIDTH));
        llm_config c = { 0 };
        const text_rule rule = { .max_length = 2048, .skip = 1 };
        assert_ok(llm_config_read(&c, &llm_ministral3, &rule, config, &err), &err);
        assert_int_equal(c.rope.kind, width == WIDTH ? ROPE_YARN : ROPE_DEFAULT);
        cJSON_Delete(config);
    }
    free(zeros);
}

static void tensors_refused(void **state)
{
    static const struct { const char *tensor; tf_edit *edit; int rc; const char *says; } rows[] = {
        { "embed_tokens.weight", tf_without, VC_ENOENT, "\"embed_tokens.weight\" is missing" },
        { "embed_tokens.weight", cut_rows, VC_EMISMATCH, "is [63,32], [64,32] was expected" },
        { "layers.1.self_attn.k_proj.weight", tf_without, VC_ENOENT, "it should be [32,32]" },
        { "layers.1.self_attn.k_proj.bias", tf_without, VC_ENOENT, "it should be [32]" },
        { "layers.0.mlp.down_proj.bias", tf_without, VC_ENOENT, "layers.0.mlp.down_proj.bias" },
    };
    const float extra[6] = { 0 };
    const vf_view left = { "layers.4.input_layernorm.weight", VC_F32, 1, { 6 }, extra,
                           sizeof extra };
    tf_fixture f = tf_open("llama3", VC_F32);
    char dir[600], *text;

    (void)state;
    snprintf(dir, sizeof dir, "%s/changed", f.dir);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tf_write(&f, dir, NULL, rows[i].edit, rows[i].tensor, 1, NULL, 0);
        lg_refused(dir, &llm_llama, 2, rows[i].rc, rows[i].says);
    }
    tf_write(&f, dir, NULL, NULL, NULL, 1, &left, 1);
    lg_refused(dir, &llm_llama, 2, VC_EMISMATCH, "layers.4.input_layernorm.weight is not used");
    tf_put_config(&f, text = tf_changed(&f, "attention_bias", "false"));
    free(text);
    lg_refused(f.dir, &llm_llama, 2, VC_EMISMATCH, "_proj.bias is not used");
    tf_close(&f);
}

/* ---- config.json ---- */

static void config_refused(void **state)
{
    static const struct { const char *field, *value; int rc; const char *says; } rows[] = {
        { "model_type", "\"mistral\"", VC_EFORMAT, "model_type: \"mistral\"; only \"llama\" is "
          "supported: give the text encoder that the transformer was trained with" },
        { "model_type", NULL, VC_ENOENT, "model_type: missing" },
        { "hidden_size", "64", VC_EMISMATCH, "was expected" },
        { "num_attention_heads", "3", VC_EFORMAT, "num_attention_heads: 3 is not a multiple of" },
        { "num_key_value_heads", "1", VC_EMISMATCH, "was expected" },
        { "head_dim", "12", VC_EFORMAT, "head_dim: 12 is not a multiple of 8" },
        { "head_dim", "512", VC_EFORMAT, "head_dim: 512" },
        { "num_hidden_layers", "5", VC_ENOENT, "layers.2.input_layernorm.weight" },
        { "hidden_act", "\"gelu\"", VC_EFORMAT, "hidden_act: \"gelu\"" },
        { "rms_norm_eps", "-1", VC_EFORMAT, "rms_norm_eps" },
        { "use_sliding_window", "true", VC_EFORMAT, "use_sliding_window: true" },
        { "quantization_config", "{}", VC_EFORMAT, "quantization_config" },
        { "rope_parameters", "{\"rope_type\": \"dynamic\"}", VC_EFORMAT,
          "rope_parameters: rope_type: \"dynamic\"" },
        { "rope_parameters", "{\"rope_type\": \"yarn\"}", VC_ENOENT, "factor: missing" },
        { "rope_parameters", "{\"rope_type\": \"yarn\", \"factor\": 16, \"mscale\": 1, "
          "\"original_max_position_embeddings\": 64}", VC_ENOENT, "mscale_all_dim: missing" },
        { "rope_parameters", "{\"rope_type\": \"yarn\", \"factor\": 16, \"mscale\": 1, "
          "\"mscale_all_dim\": 0.5, \"original_max_position_embeddings\": 64}", VC_EFORMAT,
          "mscale: 1 is not mscale_all_dim: 0.5" },
        { "rope_parameters", "{\"rope_type\": \"yarn\", \"factor\": 16, \"mscale\": 1, "
          "\"mscale_all_dim\": 1, \"original_max_position_embeddings\": 64, \"beta_slow\": 32}",
          VC_EFORMAT, "beta_fast: 32 is not above beta_slow: 32" },
        { "rope_parameters", "7", VC_EFORMAT, "rope_parameters: expected an object" },
        { "rope_parameters", "{\"rope_type\": \"llama3\"}", VC_ENOENT, "factor: missing" },
        { "rope_parameters", "{\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, "
          "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 64}", VC_EFORMAT,
          "high_freq_factor: 4 is not above low_freq_factor: 4" },
        { "rope_parameters", "{\"rope_theta\": 0}", VC_EFORMAT, "rope_theta: 0" },
    };
    tf_fixture f = tf_open("llama", VC_F32);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool layers = !strcmp(rows[i].field, "num_hidden_layers");
        char *text = tf_changed(&f, rows[i].field, rows[i].value), dir[600];
        snprintf(dir, sizeof dir, "%s/changed", f.dir);
        tf_write(&f, dir, text, layers ? used_by_two_layers : NULL, NULL, 1, NULL, 0);
        lg_refused(dir, &llm_llama, 2, rows[i].rc, rows[i].says);
        free(text);
    }
    tf_put_config(&f, "[]");
    lg_refused(f.dir, &llm_llama, 2, VC_EFORMAT, "config.json");
    lg_refused("/nowhere", &llm_llama, 2, VC_ENOENT, "/nowhere/config.json");
    lg_refused(NULL, &llm_llama, 2, VC_EINVAL, "folder");
    tf_close(&f);
}

/* Files before transformers 5 have the rotations in two fields; files before LLaMA 3.1 have the
 * field `type` in place of rope_type. */
static void older_configs(void **state)
{
    static const struct { const char *name, *scaling; bool same; } rows[] = {
        { "llama", "null", true }, { "llama", "{\"type\": \"default\"}", true },
        { "llama", "{\"type\": \"mrope\", \"mrope_section\": [2, 1, 1]}", true },
        { "llama3", "{\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, "
          "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 64}", true },
        { "llama3", "{\"rope_type\": \"llama3\", \"factor\": 4.0, \"low_freq_factor\": 1.0, "
          "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 64}", false },
        { "llama3", "null", false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tf_fixture f = tf_open(rows[i].name, VC_F32);
        char *text = tf_changed(&f, "rope_parameters", NULL), *old;
        text[strlen(text) - 1] = 0;
        old = malloc(strlen(text) + 400);
        sprintf(old, "%s,\"rope_theta\": 500000.0, \"rope_scaling\": %s}", text, rows[i].scaling);
        tf_put_config(&f, old);
        double e = error_in(f.dir, &llm_llama, f.gold);
        if (rows[i].same ? !(e <= LG_F32) : !(e > 1e-3))
            fail_msg("%s, %s: %g", rows[i].name, rows[i].scaling, e);
        free(text);
        free(old);
        tf_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpoint_forms), cmocka_unit_test(unused_layers),
        cmocka_unit_test(comfyui_mistral), cmocka_unit_test(comfyui_ministral),
        cmocka_unit_test(tensors_refused), cmocka_unit_test(config_refused),
        cmocka_unit_test(older_configs),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
