/* test_clip.c - CLIP's text model equals transformers' (tests/golden/clip, clip-legacy and, with a
 * projection, clip-projected): states and pooled states, types, forms of checkpoints, refused
 * files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "precompute/text/clip.h"
#include "tests/lib/ok.h"
#include "tests/precompute/text/text_folder.h"

enum { WIDTH = 32, MOST = 77 };

/* The tolerances, relative to the greatest state. f32 sums some tens of terms in another order.
 * bf16 activations are rounded by 2^-9 a handful of times in each of three layers. */
#define F32 1e-5
#define BF16 2e-2

static const char *const models[] = { "clip", "clip-legacy" };

static clip *open_in(const char *dir, vc_dtype type)
{
    encoder_opts o = tf_alone(dir, type);
    vc_err err = { 0 };
    vf_key k;
    clip *m;
    assert_ok(clip_open(&m, &o, false, &k, &err), &err);
    return m;
}

static void refused(const char *dir, int rc, const char *says)
{
    encoder_opts o = tf_alone(dir, VC_F32);
    vc_err err = { 0 };
    vf_key k;
    clip *m = (clip *)&o;

    int have = clip_open(&m, &o, false, &k, &err);
    assert_null(m);
    if (have != rc || !strstr(err.text, says))
        fail_msg("%s: %d, not %d; \"%s\" is missing from: %s", dir, have, rc, says, err.text);
}

static void ids_of(const vf_safetensors *gold, int n, int64_t id[MOST])
{
    char name[16];
    vf_view v;
    vc_err err = { 0 };
    snprintf(name, sizeof name, "ids_%d", n);
    assert_ok(vf_safetensors_get(gold, name, &v, &err), &err);
    memcpy(id, v.data, MOST * sizeof *id);
}

static void is_near(const float *have, const vf_safetensors *gold, const char *want, vc_dtype type)
{
    int64_t dim[8];
    float *w = golden_values(gold, want, dim);
    double e = golden_error(have, w, dim[1] ? dim[0] * dim[1] : dim[0]);
    free(w);
    if (!(e <= (type == VC_F32 ? F32 : BF16)))
        fail_msg("%s, activations %s: %g", want, vc_dtype_name(type), e);
}

/* ---- states ---- */

/* The pooled state is the same whether states are asked for or not. */
static void equals_transformers(void **state)
{
    static const int lengths[] = { 3, 12, 77 };
    float states[MOST * WIDTH], pooled[WIDTH], alone[WIDTH];
    int64_t id[MOST];
    vc_err err = { 0 };
    char name[32];

    (void)state;
    for (int i = 0; i < 2; i++)
        for (vc_dtype type = VC_F32; type <= VC_BF16; type++) {
            tf_fixture f = tf_open(models[i], VC_F32);
            clip *m = open_in(f.dir, type);
            for (int k = 0; k < 3; k++) {
                ids_of(f.gold, lengths[k], id);
                assert_ok(clip_encode(m, &(text_ids){ id, MOST, 0, 0 }, 1, states, pooled, &err),
                          &err);
                assert_ok(clip_encode(m, &(text_ids){ id, MOST, 0, 0 }, 1, NULL, alone, &err),
                          &err);
                snprintf(name, sizeof name, "states_%d", lengths[k]);
                is_near(states, f.gold, name, type);
                snprintf(name, sizeof name, "pooled_%d", lengths[k]);
                is_near(pooled, f.gold, name, type);
                is_near(alone, f.gold, name, type);
            }
            clip_close(m);
            tf_close(&f);
        }
}

/* With a projection the pooled state has another width; the states are those in front of the last
 * layer, without a norm. In a batch they have the same bits. */
static void projected(void **state)
{
    enum { TEXTS = 3, POOLED = 24 };
    static const int lengths[TEXTS] = { 3, 12, 77 };
    static float states[TEXTS * MOST * WIDTH];
    float pooled[TEXTS * POOLED], alone[POOLED];
    int64_t id[TEXTS][MOST];
    text_ids texts[TEXTS];
    char name[32];
    vf_key k;
    clip *m;
    vc_err err = { 0 };

    (void)state;
    for (vc_dtype type = VC_F32; type <= VC_BF16; type++) {
        tf_fixture f = tf_open("clip-projected", VC_F32);
        encoder_opts o = tf_alone(f.dir, type);
        o.text.skip = 1;
        assert_ok(clip_open(&m, &o, true, &k, &err), &err);
        assert_true(clip_width(m) == WIDTH && clip_pooled(m) == POOLED);
        for (int i = 0; i < TEXTS; i++) {
            ids_of(f.gold, lengths[i], id[i]);
            texts[i] = (text_ids){ id[i], MOST, 0, 0 };
        }
        assert_ok(clip_encode(m, texts, TEXTS, states, pooled, &err), &err);
        for (int i = 0; i < TEXTS; i++) {
            snprintf(name, sizeof name, "states_%d", lengths[i]);
            is_near(states + i * MOST * WIDTH, f.gold, name, type);
            snprintf(name, sizeof name, "pooled_%d", lengths[i]);
            is_near(pooled + i * POOLED, f.gold, name, type);
            assert_ok(clip_encode(m, &texts[i], 1, NULL, alone, &err), &err);
            is_near(alone, f.gold, name, type);
        }
        clip_close(m);
        o.text.skip = 3;
        assert_fails(clip_open(&m, &o, true, &k, &err), VC_EFORMAT, &err, "num_hidden_layers: 3");
        tf_close(&f);
    }
}

/* Texts in a batch do not change each other: where a batch is used, not in a single bit. */
static void batch_equals_single(void **state)
{
    enum { TEXTS = 3 };
    static const int lengths[TEXTS] = { 3, 12, 77 };
    float states[TEXTS * MOST * WIDTH], pooled[TEXTS * WIDTH], ends[TEXTS * WIDTH];
    float one[MOST * WIDTH], end[WIDTH], alone[WIDTH];
    int64_t id[TEXTS][MOST];
    text_ids texts[TEXTS];
    vc_err err = { 0 };

    (void)state;
    for (int k = 0; k < 4; k++) {
        const vc_dtype type = k % 2 ? VC_BF16 : VC_F32;
        tf_fixture f = tf_open(models[k / 2], VC_F32);
        clip *m = open_in(f.dir, type);
        const size_t bits = clip_batch(m) > 1;
        for (int i = 0; i < TEXTS; i++) {
            ids_of(f.gold, lengths[i], id[i]);
            texts[i] = (text_ids){ id[i], MOST, 0, 0 };
        }
        assert_ok(clip_encode(m, texts, TEXTS, states, pooled, &err), &err);
        assert_ok(clip_encode(m, texts, TEXTS, NULL, ends, &err), &err);
        for (int i = 0; i < TEXTS; i++) {
            assert_ok(clip_encode(m, &texts[i], 1, one, end, &err), &err);
            assert_ok(clip_encode(m, &texts[i], 1, NULL, alone, &err), &err);
            assert_true(golden_error(states + i * MOST * WIDTH, one, MOST * WIDTH) <= F32);
            assert_true(golden_error(pooled + i * WIDTH, end, WIDTH) <= F32);
            assert_true(golden_error(ends + i * WIDTH, alone, WIDTH) <= F32);
            assert_memory_equal(states + i * MOST * WIDTH, one, bits * sizeof one);
            assert_memory_equal(pooled + i * WIDTH, end, bits * sizeof end);
            assert_memory_equal(ends + i * WIDTH, alone, bits * sizeof alone);
        }
        clip_close(m);
        tf_close(&f);
    }
}

static void stored_types(void **state)
{
    static const struct { const char *want; vc_dtype stored; } rows[] = {
        { "bf16_12", VC_BF16 }, { "f16_12", VC_F16 },
    };
    float pooled[WIDTH];
    int64_t id[MOST];
    vc_err err = { 0 };

    (void)state;
    for (int i = 0; i < 2; i++)
        for (int r = 0; r < 2; r++)
            for (vc_dtype type = VC_F32; type <= VC_BF16; type++) {
                tf_fixture f = tf_open(models[i], rows[r].stored);
                clip *m = open_in(f.dir, type);
                ids_of(f.gold, 12, id);
                assert_ok(clip_encode(m, &(text_ids){ id, MOST, 0, 0 }, 1, NULL, pooled, &err),
                          &err);
                is_near(pooled, f.gold, rows[r].want, type);
                clip_close(m);
                tf_close(&f);
            }
}

/* The first token with eos_token_id ends a text; by the legacy rule, the first token with the
 * largest id. */
static void end_of_text(void **state)
{
    static const struct { const char *name; int64_t ids[6]; int end; } rows[] = {
        { "clip", { 98, 5, 99, 99, 99, 99 }, 2 }, { "clip", { 99, 5, 99, 0, 0, 0 }, 0 },
        { "clip", { 98, 5, 7, 9, 11, 99 }, 5 },   { "clip", { 98, 5, 7, 9, 11, 12 }, -1 },
        { "clip-legacy", { 98, 5, 99, 0, 0, 0 }, 2 },
        { "clip-legacy", { 98, 5, 99, 99, 99, 99 }, 2 },
        { "clip-legacy", { 3, 2, 1, 0, 0, 0 }, 0 },
        { "clip-legacy", { 3, 2, 97, 98, 98, 0 }, 3 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tf_fixture f = tf_open(rows[i].name, VC_F32);
        clip *m = open_in(f.dir, VC_F32);
        vc_err err = { 0 };
        int end = -1;
        int rc = clip_end(m, &(text_ids){ rows[i].ids, 6, 0, 0 }, &end, &err);
        assert_int_equal(end, rows[i].end);
        assert_int_equal(rc, rows[i].end < 0 ? VC_EINVAL : 0);
        if (rc)
            assert_says(&err, "no token of the text has id 99");
        clip_close(m);
        tf_close(&f);
    }
}

/* ---- checkpoints and configs ---- */

/* Files may have all names below text_model., and older files the position ids too. */
static void checkpoint_forms(void **state)
{
    const int64_t place[2] = { 0, 1 };
    const float extra[6] = { 0 };
    const vf_view more[] = {
        { "text_model.embeddings.position_ids", VC_I64, 2, { 1, 2 }, place, sizeof place },
        { "text_projection.weight", VC_F32, 2, { 2, 3 }, extra, sizeof extra },
    };
    const vf_view left = { "text_model.encoder.layers.3.layer_norm1.bias", VC_F32, 1, { 6 }, extra,
                           sizeof extra };
    tf_fixture f = tf_open("clip", VC_F32);
    float pooled[WIDTH];
    int64_t id[MOST];
    char dir[600];
    vc_err err = { 0 };

    (void)state;
    snprintf(dir, sizeof dir, "%s/released", f.dir);
    tf_write(&f, dir, NULL, tf_below, "text_model.", 1, more, 2);
    clip *m = open_in(dir, VC_F32);
    ids_of(f.gold, 12, id);
    assert_ok(clip_encode(m, &(text_ids){ id, MOST, 0, 0 }, 1, NULL, pooled, &err), &err);
    is_near(pooled, f.gold, "pooled_12", VC_F32);
    clip_close(m);
    tf_write(&f, dir, NULL, tf_below, "text_model.", 1, &left, 1);
    refused(dir, VC_EMISMATCH, "layers.3.layer_norm1.bias is not used");
    tf_write(&f, dir, NULL, tf_without, "encoder.layers.2.mlp.fc1.bias", 1, NULL, 0);
    refused(dir, VC_ENOENT, "\"encoder.layers.2.mlp.fc1.bias\" is missing");
    tf_close(&f);
}

static void config_refused(void **state)
{
    static const struct { const char *field, *value; int rc; const char *says; } rows[] = {
        { "model_type", "\"clip\"", VC_EFORMAT, "model_type: \"clip\"; only \"clip_text_model\"" },
        { "hidden_act", "\"gelu_new\"", VC_EFORMAT, "hidden_act: \"gelu_new\"" },
        { "hidden_size", "64", VC_EMISMATCH, "was expected" },
        { "num_attention_heads", "3", VC_EFORMAT, "hidden_size: 32 for num_attention_heads: 3" },
        { "num_attention_heads", "8", VC_EFORMAT, "a multiple of 8" },
        { "num_hidden_layers", "2", VC_EMISMATCH, "encoder.layers.2." },
        { "max_position_embeddings", "76", VC_EMISMATCH, "is [77,32], [76,32] was expected" },
        { "vocab_size", "99", VC_EMISMATCH, "[99,32] was expected" },
        { "eos_token_id", "[99]", VC_EFORMAT, "eos_token_id" },
        { "quantization_config", "{}", VC_EFORMAT, "quantization_config" },
    };
    tf_fixture f = tf_open("clip", VC_F32);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = tf_changed(&f, rows[i].field, rows[i].value);
        tf_put_config(&f, text);
        refused(f.dir, rows[i].rc, rows[i].says);
        free(text);
    }
    refused("/nowhere", VC_ENOENT, "/nowhere/config.json");
    refused(NULL, VC_EINVAL, "folder");
    tf_close(&f);
}

static void inputs_refused(void **state)
{
    tf_fixture f = tf_open("clip", VC_F32);
    clip *m = open_in(f.dir, VC_F32);
    float pooled[WIDTH];
    int64_t ids[MOST + 1] = { 98, 99 };
    vc_err err = { 0 };

    (void)state;
    assert_fails(clip_encode(m, &(text_ids){ ids, MOST + 1, 0, 0 }, 1, NULL, pooled, &err),
                 VC_EINVAL, &err, "a text of 78 tokens; the text encoder has positions for 77");
    ids[5] = 100;                                 /* an unknown id after the end */
    assert_fails(clip_encode(m, &(text_ids){ ids, MOST, 0, 0 }, 1, NULL, pooled, &err), VC_EINVAL,
                 &err, "token 5 has id 100");
    assert_int_equal(clip_encode(m, &(text_ids){ ids, 0, 0, 0 }, 1, NULL, pooled, &err), VC_EINVAL);
    assert_int_equal(clip_encode(m, &(text_ids){ ids, 2, 0, 0 }, 1, NULL, pooled, &err), 0);
    clip_close(m);
    clip_close(NULL);
    tf_close(&f);
}

/* ---- memory, fingerprints ---- */

static bool of_one_layer(vf_view *v, const void *arg)
{
    (void)arg;
    return !strstr(v->name, "layers.1.") && !strstr(v->name, "layers.2.");
}

static size_t peak_of(const char *dir)
{
    int64_t ids[MOST] = { 98, [MOST - 1] = 99 };
    float pooled[WIDTH];
    vc_err err = { 0 };
    clip *m = open_in(dir, VC_F32);
    assert_ok(clip_encode(m, &(text_ids){ ids, MOST, 0, 0 }, 1, NULL, pooled, &err), &err);
    size_t peak = clip_usage(m).pool_peak;
    clip_close(m);
    return peak;
}

/* Three layers take the temporary memory of one. */
static void memory_is_of_one_layer(void **state)
{
    tf_fixture f = tf_open("clip", VC_F32);
    char dir[600], *one = tf_changed(&f, "num_hidden_layers", "1");

    (void)state;
    snprintf(dir, sizeof dir, "%s/one", f.dir);
    tf_write(&f, dir, one, of_one_layer, NULL, 1, NULL, 0);
    size_t of_one = peak_of(dir), of_three = peak_of(f.dir);
    if (of_three > of_one || of_three > 4 * MOST * (5 * WIDTH + 4 * 64) + 4096)
        fail_msg("one layer takes %zu bytes, three take %zu", of_one, of_three);
    free(one);
    tf_close(&f);
}

static vf_key fingerprint(const char *dir, unsigned char weights)
{
    encoder_opts o = tf_alone(dir, VC_F32);
    vc_err err = { 0 };
    vf_key k;
    clip *m;
    o.weights.b[3] = weights;
    assert_ok(clip_open(&m, &o, false, &k, &err), &err);
    clip_close(m);
    return k;
}

static void fingerprints(void **state)
{
    static const struct { const char *field, *value; bool same; } rows[] = {
        { "attention_dropout", "0.5", true }, { "eos_token_id", "2", false },
        { "hidden_act", "\"gelu\"", false }, { "layer_norm_eps", "1e-4", false },
    };
    tf_fixture f = tf_open("clip", VC_F32);

    (void)state;
    vf_key a = fingerprint(f.dir, 0), b = fingerprint(f.dir, 1);
    assert_memory_not_equal(a.b, b.b, sizeof a.b);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = tf_changed(&f, rows[i].field, rows[i].value);
        tf_put_config(&f, text);
        b = fingerprint(f.dir, 0);
        assert_int_equal(!memcmp(a.b, b.b, sizeof a.b), rows[i].same);
        free(text);
    }
    tf_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_transformers), cmocka_unit_test(projected),
        cmocka_unit_test(batch_equals_single),
        cmocka_unit_test(stored_types), cmocka_unit_test(end_of_text),
        cmocka_unit_test(checkpoint_forms),
        cmocka_unit_test(config_refused), cmocka_unit_test(inputs_refused),
        cmocka_unit_test(memory_is_of_one_layer), cmocka_unit_test(fingerprints),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
