/* test_llm.c - decoders as text encoders equal transformers' (tests/golden/llama, llama3,
 * qwen2.5-vl, qwen3): states after all layers and after fewer, types, forms of checkpoints,
 * refused files, memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "precompute/text/llm.h"
#include "tests/lib/ok.h"
#include "tests/precompute/text/text_folder.h"

enum { WIDTH = 32, MOST = 150, LAYERS = 4 };

/* The tolerances, relative to the greatest state. f32 sums some tens of terms in another order.
 * bf16 activations are rounded by 2^-9 a handful of times in each of four layers; the errors of
 * PyTorch's own states in bf16 are 1.2e-2 to 3.4e-2. */
#define F32 1e-5
#define BF16 3e-2

typedef struct model_row { const char *name; const llm_kind *kind; } model_row;
static const model_row models[] = {
    { "llama", &llm_llama }, { "llama3", &llm_llama }, { "qwen2.5-vl", &llm_qwen2_5_vl },
    { "qwen3", &llm_qwen3 },
};
enum { MODELS = sizeof models / sizeof *models };

static encoder_opts options(const char *dir, int skip, vc_dtype type)
{
    return (encoder_opts){ .dir = dir, .text = { .skip = skip }, .dtype = type,
                           .device = golden_device(), .threads = 1 };
}

static llm *open_in(const char *dir, const llm_kind *kind, int skip, vc_dtype type)
{
    encoder_opts o = options(dir, skip, type);
    vc_err err = { 0 };
    vf_key k;
    llm *m;
    assert_ok(llm_open(&m, kind, &o, &k, &err), &err);
    return m;
}

static void refused(const char *dir, const llm_kind *kind, int skip, int rc, const char *says)
{
    encoder_opts o = options(dir, skip, VC_F32);
    vc_err err = { 0 };
    vf_key k;
    llm *m = (llm *)&o;

    int have = llm_open(&m, kind, &o, &k, &err);
    assert_null(m);
    if (have != rc || !strstr(err.text, says))
        fail_msg("%s: %d, not %d; \"%s\" is missing from: %s", dir, have, rc, says, err.text);
}

static int ids_of(const vf_safetensors *gold, const char *name, int64_t id[MOST])
{
    vf_view v;
    vc_err err = { 0 };
    assert_ok(vf_safetensors_get(gold, name, &v, &err), &err);
    memcpy(id, v.data, v.bytes);
    return (int)v.dim[0];
}

/* The error of m's states for the golden's `ids`, compared with its `want`. */
static double error_of(llm *m, const vf_safetensors *gold, const char *ids, const char *want)
{
    float states[MOST * WIDTH];
    int64_t id[MOST], dim[8];
    vc_err err = { 0 };
    int n = ids_of(gold, ids, id);

    float *w = golden_values(gold, want, dim);
    assert_true(dim[0] == n && dim[1] == WIDTH && llm_width(m) == WIDTH);
    assert_ok(llm_encode(m, &(text_ids){ id, n, 0, 0 }, 1, states, &err), &err);
    double e = golden_error(states, w, (int64_t)n * WIDTH);
    free(w);
    return e;
}

static void within(double e, vc_dtype type, const char *name, const char *want)
{
    if (!(e <= (type == VC_F32 ? F32 : BF16)))
        fail_msg("%s %s, activations %s: %g", name, want, vc_dtype_name(type), e);
}

/* ---- states ---- */

/* The golden's texts were one batch with padding and a mask; here each text is encoded alone. */
static void equals_transformers(void **state)
{
    static const struct { int skip; const char *ids, *want; } rows[] = {
        { 0, "ids_5", "states_5" },  { 0, "ids_40", "states_40" }, { 0, "ids_150", "states_150" },
        { 2, "ids_5", "skip2_5" },   { 2, "ids_40", "skip2_40" },  { 2, "ids_150", "skip2_150" },
        { LAYERS, "ids_5", "skip4_5" },
    };

    (void)state;
    for (int i = 0; i < MODELS; i++) {
        tf_fixture f = tf_open(models[i].name, VC_F32);
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            for (vc_dtype type = VC_F32; type <= VC_BF16; type++) {
                llm *m = open_in(f.dir, models[i].kind, rows[r].skip, type);
                double e = error_of(m, f.gold, rows[r].ids, rows[r].want);
                within(e, type, models[i].name, rows[r].want);
                llm_close(m);
            }
        tf_close(&f);
    }
}

/* A token has the states after several layers, in the order of the list, and the padding that a
 * mask hides has states too. */
static void taps_and_padding(void **state)
{
    static const int taps[VC_TAPS] = { 3, 1, 4 };

    (void)state;
    for (int i = 0; i < MODELS; i++) {
        tf_fixture f = tf_open(models[i].name, VC_F32);
        encoder_opts o = options(f.dir, 0, VC_F32);
        int64_t id[MOST] = { 0 }, dim[8];
        float states[MOST * 3 * WIDTH];
        vc_err err = { 0 };
        vf_key key[2];
        llm *m;
        memcpy(o.text.taps, taps, sizeof taps);
        assert_ok(llm_open(&m, models[i].kind, &o, &key[0], &err), &err);
        assert_int_equal(llm_width(m), 3 * WIDTH);
        int n = ids_of(f.gold, "ids_40", id);
        assert_ok(llm_encode(m, &(text_ids){ id, n, n, 0 }, 1, states, &err), &err);
        float *want = golden_values(f.gold, "taps_40", dim);
        within(golden_error(states, want, dim[0] * dim[1]), VC_F32, models[i].name, "taps_40");
        free(want);
        llm_close(m);

        o.text.taps[0] = 2;
        assert_ok(llm_open(&m, models[i].kind, &o, &key[1], &err), &err);
        assert_memory_not_equal(&key[0], &key[1], sizeof *key);
        llm_close(m);

        m = open_in(f.dir, models[i].kind, 2, VC_F32);
        assert_ok(llm_encode(m, &(text_ids){ id, MOST, n, 0 }, 1, states, &err), &err);
        want = golden_values(f.gold, "padded_40", dim);
        assert_int_equal(dim[0], MOST);
        within(golden_error(states, want, dim[0] * dim[1]), VC_F32, models[i].name, "padded_40");
        free(want);
        llm_close(m);

        o.text.taps[0] = LAYERS + 1;
        assert_int_equal(llm_open(&m, models[i].kind, &o, &key[1], &err), VC_EINVAL);
        assert_non_null(strstr(err.text, "states of layer 5"));
        tf_close(&f);
    }
}

/* The values of files in bf16 and f16 are used without rounding. */
static void stored_types(void **state)
{
    static const struct { const char *want; vc_dtype stored; } rows[] = {
        { "bf16_40", VC_BF16 }, { "f16_40", VC_F16 },
    };

    (void)state;
    for (int i = 0; i < MODELS; i++)
        for (int r = 0; r < 2; r++) {
            tf_fixture f = tf_open(models[i].name, rows[r].stored);
            for (vc_dtype type = VC_F32; type <= VC_BF16; type++) {
                llm *m = open_in(f.dir, models[i].kind, 2, type);
                double e = error_of(m, f.gold, "ids_40", rows[r].want);
                within(e, type, models[i].name, rows[r].want);
                llm_close(m);
            }
            tf_close(&f);
        }
}

/* A text has the same bits twice, whatever was encoded in between; no token attends to a later
 * one. */
static void repeats(void **state)
{
    tf_fixture f = tf_open("llama", VC_BF16);
    llm *m = open_in(f.dir, &llm_llama, 2, VC_F32);
    float a[3 * WIDTH], b[3 * WIDTH], all[MOST * WIDTH];
    int64_t id[MOST];
    vc_err err = { 0 };

    (void)state;
    ids_of(f.gold, "ids_150", id);
    assert_ok(llm_encode(m, &(text_ids){ id, 3, 0, 0 }, 1, a, &err), &err);
    assert_ok(llm_encode(m, &(text_ids){ id, MOST, 0, 0 }, 1, all, &err), &err);
    assert_ok(llm_encode(m, &(text_ids){ id, 3, 0, 0 }, 1, b, &err), &err);
    assert_memory_equal(a, b, sizeof a);
    assert_true(golden_error(a, all, 3 * WIDTH) <= F32);
    assert_ok(llm_encode(m, &(text_ids){ id, 1, 0, 0 }, 1, b, &err), &err);
    llm_close(m);
    tf_close(&f);
}

/* Texts of any lengths in a batch do not change each other: where a batch is used, not in a single
 * bit. */
static void batch_equals_single(void **state)
{
    enum { TEXTS = 3, TOTAL = MOST + TEXT_FEW + 40 };
    float all[TOTAL * WIDTH], one[MOST * WIDTH];
    int64_t ids[TOTAL];
    vc_err err = { 0 };

    (void)state;
    for (int i = 0; i < TOTAL; i++)
        ids[i] = i * 37 % 61 + 1;
    const text_ids texts[TEXTS] = { { ids, MOST, 0, 0 }, { ids + MOST, TEXT_FEW, 0, 0 },
                                    { ids + MOST + TEXT_FEW, 40, 0, 0 } };
    for (int k = 0; k < 2 * MODELS; k++) {
        const vc_dtype type = k % 2 ? VC_BF16 : VC_F32;
        tf_fixture f = tf_open(models[k / 2].name, VC_BF16);
        llm *m = open_in(f.dir, models[k / 2].kind, 2, type);
        const float *have = all;
        assert_ok(llm_encode(m, texts, TEXTS, all, &err), &err);
        for (int i = 0; i < TEXTS; have += texts[i++].n * WIDTH) {
            assert_ok(llm_encode(m, &texts[i], 1, one, &err), &err);
            assert_true(golden_error(have, one, texts[i].n * WIDTH) <= F32);
            if (llm_batch(m) > 1)
                assert_memory_equal(have, one, (size_t)texts[i].n * WIDTH * sizeof *one);
        }
        llm_close(m);
        tf_close(&f);
    }
}

/* Where texts begin with the tokens of a template, these are computed once. The states of the other
 * tokens are those of a model that knows of no template. */
static void template_is_computed_once(void **state)
{
    enum { CROP = 12, TEXTS = 4, TOTAL = MOST + 13 + 40 + 30 };
    static const int length[TEXTS] = { 40, 13, MOST, 30 };
    float want[MOST * WIDTH], have[TOTAL * WIDTH];
    int64_t ids[TOTAL];
    text_ids texts[TEXTS];
    vc_err err = { 0 };

    (void)state;
    for (int i = 0, at = 0; i < TEXTS; at += length[i++]) {
        texts[i] = (text_ids){ ids + at, length[i], 0, 0 };
        for (int k = 0; k < length[i]; k++)      /* the last text begins otherwise */
            ids[at + k] = (k < CROP ? k * 7 + (i == TEXTS - 1) : (i + 1) * k * 37) % 61 + 1;
    }
    for (int k = 0; k < 2 * MODELS; k++) {
        const vc_dtype type = k % 2 ? VC_BF16 : VC_F32;
        tf_fixture f = tf_open(models[k / 2].name, VC_BF16);
        encoder_opts o = options(f.dir, 2, type);
        llm *whole = open_in(f.dir, models[k / 2].kind, 2, type), *m;
        vf_key key;
        o.text.crop = CROP;
        assert_ok(llm_open(&m, models[k / 2].kind, &o, &key, &err), &err);
        const float *at = have + CROP * WIDTH, *from = want + CROP * WIDTH;
        assert_ok(llm_encode(m, texts, TEXTS, have, &err), &err);
        for (int i = 0; i < TEXTS; at += length[i++] * WIDTH) {
            const int n = (length[i] - CROP) * WIDTH;
            assert_ok(llm_encode(whole, &texts[i], 1, want, &err), &err);
            assert_true(golden_error(at, from, n) <= (type == VC_F32 ? F32 : BF16));
            if (llm_batch(m) > 1)
                assert_memory_equal(at, from, (size_t)n * sizeof *at);
            assert_ok(llm_encode(m, &texts[i], 1, want, &err), &err);
            assert_true(golden_error(at, from, n) <= F32);
            if (llm_batch(m) > 1)
                assert_memory_equal(at, from, (size_t)n * sizeof *at);
            assert_true(i == TEXTS - 1 || llm_usage(m).flops < llm_usage(whole).flops);
        }
        ids[CROP + 3] = 64;
        assert_fails(llm_encode(m, texts, TEXTS, have, &err), VC_EINVAL, &err,
                     "token 15 has id 64");
        ids[CROP + 3] = 1;
        llm_close(m);
        llm_close(whole);
        tf_close(&f);
    }
}

static bool poison(vf_view *v, const void *name)
{
    static float row[WIDTH];
    if (strcmp(v->name, name))
        return true;
    for (int i = 0; i < WIDTH; i++)
        row[i] = strtof("nan", NULL);
    v->data = row;
    return true;
}

static void nan_is_an_error(void **state)
{
    tf_fixture f = tf_open("llama", VC_F32);
    char dir[600];
    float states[WIDTH];
    vc_err err = { 0 };

    (void)state;
    snprintf(dir, sizeof dir, "%s/nan", f.dir);
    tf_write(&f, dir, NULL, poison, "layers.1.post_attention_layernorm.weight", 1, NULL, 0);
    llm *m = open_in(dir, &llm_llama, 2, VC_F32);
    const text_ids one = { (int64_t[]){ 1 }, 1, 0, 0 };
    assert_int_equal(llm_encode(m, &one, 1, states, &err), VC_ENUMERIC);
    llm_close(m);
    tf_close(&f);
}

/* ---- checkpoints ---- */

static bool used_by_two_layers(vf_view *v, const void *arg)
{
    (void)arg;
    return strncmp(v->name, "layers.2.", 9) && strncmp(v->name, "layers.3.", 9) &&
           strcmp(v->name, "norm.weight");
}

static bool below(vf_view *v, const void *prefix)
{
    static char name[TF_TENSORS][80];
    static int next;

    next = (next + 1) % TF_TENSORS;
    snprintf(name[next], sizeof *name, "%s%s", (const char *)prefix, v->name);
    v->name = name[next];
    return true;
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
    llm *m = open_in(dir, kind, 2, VC_F32);
    double e = error_of(m, gold, "ids_40", "skip2_40");
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
        tf_write(&f, dir, NULL, below, prefixes[i], 2, others, i ? 2 : 1);
        assert_true(error_in(dir, &llm_llama, f.gold) <= F32);
    }
    snprintf(dir, sizeof dir, "%s/older", f.dir);
    tf_write(&f, dir, NULL, NULL, NULL, 1, &older, 1);
    assert_true(error_in(dir, &llm_llama, f.gold) <= F32);
    tf_close(&f);
    f = tf_open("qwen2.5-vl", VC_F32);
    snprintf(dir, sizeof dir, "%s/released", f.dir);
    tf_write(&f, dir, NULL, as_released, NULL, 1, &others[1], 1);
    assert_true(error_in(dir, &llm_qwen2_5_vl, f.gold) <= F32);
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
    assert_true(error_in(dir, &llm_llama, f.gold) <= F32);
    refused(dir, &llm_llama, 0, VC_ENOENT, "\"norm.weight\" is missing");
    refused(dir, &llm_llama, 1, VC_ENOENT, "layers.2.input_layernorm.weight");
    refused(f.dir, &llm_llama, 5, VC_EINVAL, "4, of which the last 5 layers cannot be left out");
    refused(f.dir, &llm_llama, -1, VC_EINVAL, "cannot be left out");
    tf_close(&f);
}

static bool drop(vf_view *v, const void *name) { return strcmp(v->name, name) != 0; }

static bool cut_rows(vf_view *v, const void *name)
{
    if (!strcmp(v->name, name)) {
        v->bytes -= v->bytes / (size_t)v->dim[0];
        v->dim[0]--;
    }
    return true;
}

static void tensors_refused(void **state)
{
    static const struct { const char *tensor; tf_edit *edit; int rc; const char *says; } rows[] = {
        { "embed_tokens.weight", drop, VC_ENOENT, "\"embed_tokens.weight\" is missing" },
        { "embed_tokens.weight", cut_rows, VC_EMISMATCH, "is [63,32], [64,32] was expected" },
        { "layers.1.self_attn.k_proj.weight", drop, VC_ENOENT, "it should be [32,32]" },
        { "layers.1.self_attn.k_proj.bias", drop, VC_ENOENT, "it should be [32]" },
        { "layers.0.mlp.down_proj.bias", drop, VC_ENOENT, "layers.0.mlp.down_proj.bias" },
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
        refused(dir, &llm_llama, 2, rows[i].rc, rows[i].says);
    }
    tf_write(&f, dir, NULL, NULL, NULL, 1, &left, 1);
    refused(dir, &llm_llama, 2, VC_EMISMATCH, "layers.4.input_layernorm.weight is not used");
    tf_put_config(&f, text = tf_changed(&f, "attention_bias", "false"));
    free(text);
    refused(f.dir, &llm_llama, 2, VC_EMISMATCH, "_proj.bias is not used");
    tf_close(&f);
}

/* ---- config.json ---- */

static void config_refused(void **state)
{
    static const struct { const char *field, *value; int rc; const char *says; } rows[] = {
        { "model_type", "\"mistral\"", VC_EFORMAT, "model_type: \"mistral\"; only \"llama\"" },
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
        { "rope_parameters", "{\"rope_type\": \"yarn\"}", VC_EFORMAT,
          "rope_parameters: rope_type: \"yarn\"" },
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
        refused(dir, &llm_llama, 2, rows[i].rc, rows[i].says);
        free(text);
    }
    tf_put_config(&f, "[]");
    refused(f.dir, &llm_llama, 2, VC_EFORMAT, "config.json");
    refused("/nowhere", &llm_llama, 2, VC_ENOENT, "/nowhere/config.json");
    refused(NULL, &llm_llama, 2, VC_EINVAL, "folder");
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
        if (rows[i].same ? !(e <= F32) : !(e > 1e-3))
            fail_msg("%s, %s: %g", rows[i].name, rows[i].scaling, e);
        free(text);
        free(old);
        tf_close(&f);
    }
}

static void inputs_refused(void **state)
{
    tf_fixture f = tf_open("llama", VC_F32);
    encoder_opts o = options(f.dir, 2, VC_F16);
    float states[2 * WIDTH];
    int64_t ids[2] = { 5, 64 };
    vc_err err = { 0 };
    vf_key k;
    llm *m;

    (void)state;
    assert_fails(llm_open(&m, &llm_llama, &o, &k, &err), VC_EINVAL, &err, "f16");
    m = open_in(f.dir, &llm_llama, 2, VC_F32);
    assert_fails(llm_encode(m, &(text_ids){ ids, 2, 0, 0 }, 1, states, &err), VC_EINVAL, &err,
                 "token 1 has id 64, and the text encoder has ids 0..63");
    ids[1] = -1;
    assert_int_equal(llm_encode(m, &(text_ids){ ids, 2, 0, 0 }, 1, states, &err), VC_EINVAL);
    assert_int_equal(llm_encode(m, &(text_ids){ ids, 0, 0, 0 }, 1, states, &err), VC_EINVAL);
    llm_close(m);
    llm_close(NULL);
    tf_close(&f);
}

/* ---- memory, fingerprints ---- */

static size_t peak_of(const char *dir, const llm_kind *kind, int skip)
{
    const int64_t ids[MOST] = { 7, 9 };
    float states[MOST * WIDTH];
    vc_err err = { 0 };
    llm *m = open_in(dir, kind, skip, VC_F32);
    assert_ok(llm_encode(m, &(text_ids){ ids, MOST, 0, 0 }, 1, states, &err), &err);
    size_t peak = llm_usage(m).pool_peak;
    llm_close(m);
    return peak;
}

/* Three layers take the temporary memory of one, within the bound that llm.h names. */
static void memory_is_of_one_layer(void **state)
{
    enum { HIDDEN = 64, SLACK = 4096 };                        /* each buffer is rounded up */
    static const struct { const char *name; const llm_kind *kind; size_t head, each; } rows[] = {
        { "llama", &llm_llama, 8, 3 }, { "llama3", &llm_llama, 16, 3 },
        { "qwen3", &llm_qwen3, 16, 4 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t head = rows[i].head, heads = rows[i].each * (4 + 2) * head;
        size_t most = 5 * WIDTH + (heads > 4 * HIDDEN ? heads : 4 * HIDDEN) + head;
        tf_fixture f = tf_open(rows[i].name, VC_F32);
        size_t one = peak_of(f.dir, rows[i].kind, 3), three = peak_of(f.dir, rows[i].kind, 1);
        if (three > one || three > 4 * MOST * most + SLACK)
            fail_msg("%s: one layer %zu bytes, three %zu, bound %zu", rows[i].name, one, three,
                     4 * MOST * most + SLACK);
        tf_close(&f);
    }
}

static vf_key fingerprint(const char *dir, int skip, unsigned char weights)
{
    encoder_opts o = options(dir, skip, VC_F32);
    vc_err err = { 0 };
    vf_key k;
    llm *m;
    o.weights.b[3] = weights;
    assert_ok(llm_open(&m, &llm_llama, &o, &k, &err), &err);
    llm_close(m);
    return k;
}

static void fingerprints(void **state)
{
    tf_fixture f = tf_open("llama", VC_F32);
    char *text;

    (void)state;
    vf_key a = fingerprint(f.dir, 2, 0), b = fingerprint(f.dir, 1, 0);
    assert_memory_not_equal(a.b, b.b, sizeof a.b);
    b = fingerprint(f.dir, 2, 1);
    assert_memory_not_equal(a.b, b.b, sizeof a.b);
    tf_put_config(&f, text = tf_changed(&f, "attention_dropout", "0.5"));
    free(text);
    b = fingerprint(f.dir, 2, 0);
    assert_memory_equal(a.b, b.b, sizeof a.b);
    tf_put_config(&f, text = tf_changed(&f, "rope_parameters", "{\"rope_theta\": 10000.0}"));
    free(text);
    b = fingerprint(f.dir, 2, 0);
    assert_memory_not_equal(a.b, b.b, sizeof a.b);
    tf_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_transformers), cmocka_unit_test(taps_and_padding),
        cmocka_unit_test(stored_types),
        cmocka_unit_test(repeats), cmocka_unit_test(batch_equals_single),
        cmocka_unit_test(template_is_computed_once),
        cmocka_unit_test(nan_is_an_error),
        cmocka_unit_test(checkpoint_forms), cmocka_unit_test(unused_layers),
        cmocka_unit_test(tensors_refused), cmocka_unit_test(config_refused),
        cmocka_unit_test(older_configs), cmocka_unit_test(inputs_refused),
        cmocka_unit_test(memory_is_of_one_layer), cmocka_unit_test(fingerprints),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
