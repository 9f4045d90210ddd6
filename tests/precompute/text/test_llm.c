/* test_llm.c - decoders as text encoders equal transformers' (tests/golden/llama, llama3,
 * qwen2.5-vl, qwen3, ministral3): states after all layers and after fewer, types, batches, memory.
 * test_llm_files.c has the forms of their files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/ok.h"
#include "tests/precompute/text/llm_golden.h"

typedef struct model_row { const char *name; const llm_kind *kind; } model_row;
static const model_row models[] = {
    { "llama", &llm_llama }, { "llama3", &llm_llama }, { "qwen2.5-vl", &llm_qwen2_5_vl },
    { "qwen3", &llm_qwen3 }, { "qwen3-vl", &llm_qwen3_vl }, { "ministral3", &llm_ministral3 },
};
enum { MODELS = sizeof models / sizeof *models };

static void within(double e, vc_dtype type, const char *name, const char *want)
{
    if (!(e <= (type == VC_F32 ? LG_F32 : LG_BF16)))
        fail_msg("%s %s, activations %s: %g", name, want, vc_dtype_name(type), e);
}

/* ---- states ---- */

/* The golden's texts were one batch with padding and a mask; here each text is encoded alone. */
static void equals_transformers(void **state)
{
    static const struct { int skip; const char *ids, *want; } rows[] = {
        { 0, "ids_5", "states_5" },  { 0, "ids_40", "states_40" }, { 0, "ids_150", "states_150" },
        { 2, "ids_5", "skip2_5" },   { 2, "ids_40", "skip2_40" },  { 2, "ids_150", "skip2_150" },
        { LG_LAYERS, "ids_5", "skip4_5" },
    };

    (void)state;
    for (int i = 0; i < MODELS; i++) {
        tf_fixture f = tf_open(models[i].name, VC_F32);
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            for (vc_dtype type = VC_F32; type <= VC_BF16; type++) {
                llm *m = lg_open(f.dir, models[i].kind, rows[r].skip, type);
                double e = lg_error(m, f.gold, rows[r].ids, rows[r].want);
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
        encoder_opts o = lg_options(f.dir, 0, VC_F32);
        int64_t id[LG_MOST] = { 0 }, dim[8];
        float states[LG_MOST * 3 * LG_WIDTH];
        vc_err err = { 0 };
        vf_key key[2];
        llm *m;
        memcpy(o.text.taps, taps, sizeof taps);
        assert_ok(llm_open(&m, models[i].kind, &o, &key[0], &err), &err);
        assert_int_equal(llm_width(m), 3 * LG_WIDTH);
        int n = lg_ids(f.gold, "ids_40", id);
        assert_ok(llm_encode(m, &(text_ids){ id, n, n, 0 }, 1, states, &err), &err);
        float *want = golden_values(f.gold, "taps_40", dim);
        within(golden_error(states, want, dim[0] * dim[1]), VC_F32, models[i].name, "taps_40");
        free(want);
        llm_close(m);

        o.text.taps[0] = 2;
        assert_ok(llm_open(&m, models[i].kind, &o, &key[1], &err), &err);
        assert_memory_not_equal(&key[0], &key[1], sizeof *key);
        llm_close(m);

        m = lg_open(f.dir, models[i].kind, 2, VC_F32);
        assert_ok(llm_encode(m, &(text_ids){ id, LG_MOST, n, 0 }, 1, states, &err), &err);
        want = golden_values(f.gold, "padded_40", dim);
        assert_int_equal(dim[0], LG_MOST);
        within(golden_error(states, want, dim[0] * dim[1]), VC_F32, models[i].name, "padded_40");
        free(want);
        llm_close(m);

        o.text.taps[0] = LG_LAYERS + 1;
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
                llm *m = lg_open(f.dir, models[i].kind, 2, type);
                double e = lg_error(m, f.gold, "ids_40", rows[r].want);
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
    llm *m = lg_open(f.dir, &llm_llama, 2, VC_F32);
    float a[3 * LG_WIDTH], b[3 * LG_WIDTH], all[LG_MOST * LG_WIDTH];
    int64_t id[LG_MOST];
    vc_err err = { 0 };

    (void)state;
    lg_ids(f.gold, "ids_150", id);
    assert_ok(llm_encode(m, &(text_ids){ id, 3, 0, 0 }, 1, a, &err), &err);
    assert_ok(llm_encode(m, &(text_ids){ id, LG_MOST, 0, 0 }, 1, all, &err), &err);
    assert_ok(llm_encode(m, &(text_ids){ id, 3, 0, 0 }, 1, b, &err), &err);
    assert_memory_equal(a, b, sizeof a);
    assert_true(golden_error(a, all, 3 * LG_WIDTH) <= LG_F32);
    assert_ok(llm_encode(m, &(text_ids){ id, 1, 0, 0 }, 1, b, &err), &err);
    llm_close(m);
    tf_close(&f);
}

/* Texts of any lengths in a batch do not change each other: where a batch is used, not in a single
 * bit. */
static void batch_equals_single(void **state)
{
    enum { TEXTS = 3, TOTAL = LG_MOST + TEXT_FEW + 40 };
    float all[TOTAL * LG_WIDTH], one[LG_MOST * LG_WIDTH];
    int64_t ids[TOTAL];
    vc_err err = { 0 };

    (void)state;
    for (int i = 0; i < TOTAL; i++)
        ids[i] = i * 37 % 61 + 1;
    const text_ids texts[TEXTS] = { { ids, LG_MOST, 0, 0 }, { ids + LG_MOST, TEXT_FEW, 0, 0 },
                                    { ids + LG_MOST + TEXT_FEW, 40, 0, 0 } };
    for (int k = 0; k < 2 * MODELS; k++) {
        const vc_dtype type = k % 2 ? VC_BF16 : VC_F32;
        tf_fixture f = tf_open(models[k / 2].name, VC_BF16);
        llm *m = lg_open(f.dir, models[k / 2].kind, 2, type);
        const float *have = all;
        assert_ok(llm_encode(m, texts, TEXTS, all, &err), &err);
        for (int i = 0; i < TEXTS; have += texts[i++].n * LG_WIDTH) {
            assert_ok(llm_encode(m, &texts[i], 1, one, &err), &err);
            assert_true(golden_error(have, one, texts[i].n * LG_WIDTH) <= LG_F32);
            if (llm_batch(m) > 1)
                assert_memory_equal(have, one, (size_t)texts[i].n * LG_WIDTH * sizeof *one);
        }
        llm_close(m);
        tf_close(&f);
    }
}

/* Where texts begin with the tokens of a template, these are computed once. The states of the other
 * tokens are those of a model that knows of no template. */
static void template_is_computed_once(void **state)
{
    enum { CROP = 12, TEXTS = 4, TOTAL = LG_MOST + 13 + 40 + 30 };
    static const int length[TEXTS] = { 40, 13, LG_MOST, 30 };
    float want[LG_MOST * LG_WIDTH], have[TOTAL * LG_WIDTH];
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
        encoder_opts o = lg_options(f.dir, 2, type);
        llm *whole = lg_open(f.dir, models[k / 2].kind, 2, type), *m;
        vf_key key;
        o.text.crop = CROP;
        assert_ok(llm_open(&m, models[k / 2].kind, &o, &key, &err), &err);
        const float *at = have + CROP * LG_WIDTH, *from = want + CROP * LG_WIDTH;
        assert_ok(llm_encode(m, texts, TEXTS, have, &err), &err);
        for (int i = 0; i < TEXTS; at += length[i++] * LG_WIDTH) {
            const int n = (length[i] - CROP) * LG_WIDTH;
            assert_ok(llm_encode(whole, &texts[i], 1, want, &err), &err);
            assert_true(golden_error(at, from, n) <= (type == VC_F32 ? LG_F32 : LG_BF16));
            if (llm_batch(m) > 1)
                assert_memory_equal(at, from, (size_t)n * sizeof *at);
            assert_ok(llm_encode(m, &texts[i], 1, want, &err), &err);
            assert_true(golden_error(at, from, n) <= LG_F32);
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

static void nan_is_an_error(void **state)
{
    tf_fixture f = tf_open("llama", VC_F32);
    char dir[600];
    float states[LG_WIDTH];
    vc_err err = { 0 };

    (void)state;
    snprintf(dir, sizeof dir, "%s/nan", f.dir);
    tf_write(&f, dir, NULL, tf_poison, "layers.1.post_attention_layernorm.weight", 1, NULL, 0);
    llm *m = lg_open(dir, &llm_llama, 2, VC_F32);
    const text_ids one = { (int64_t[]){ 1 }, 1, 0, 0 };
    assert_int_equal(llm_encode(m, &one, 1, states, &err), VC_ENUMERIC);
    llm_close(m);
    tf_close(&f);
}

static void inputs_refused(void **state)
{
    tf_fixture f = tf_open("llama", VC_F32);
    encoder_opts o = lg_options(f.dir, 2, VC_F16);
    float states[2 * LG_WIDTH];
    int64_t ids[2] = { 5, 64 };
    vc_err err = { 0 };
    vf_key k;
    llm *m;

    (void)state;
    assert_fails(llm_open(&m, &llm_llama, &o, &k, &err), VC_EINVAL, &err, "f16");
    m = lg_open(f.dir, &llm_llama, 2, VC_F32);
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
    const int64_t ids[LG_MOST] = { 7, 9 };
    float states[LG_MOST * LG_WIDTH];
    vc_err err = { 0 };
    llm *m = lg_open(dir, kind, skip, VC_F32);
    assert_ok(llm_encode(m, &(text_ids){ ids, LG_MOST, 0, 0 }, 1, states, &err), &err);
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
        size_t most = 5 * LG_WIDTH + (heads > 4 * HIDDEN ? heads : 4 * HIDDEN) + head;
        tf_fixture f = tf_open(rows[i].name, VC_F32);
        size_t one = peak_of(f.dir, rows[i].kind, 3), three = peak_of(f.dir, rows[i].kind, 1);
        if (three > one || three > 4 * LG_MOST * most + SLACK)
            fail_msg("%s: one layer %zu bytes, three %zu, bound %zu", rows[i].name, one, three,
                     4 * LG_MOST * most + SLACK);
        tf_close(&f);
    }
}

static vf_key fingerprint(const char *dir, int skip, unsigned char weights)
{
    encoder_opts o = lg_options(dir, skip, VC_F32);
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
        cmocka_unit_test(inputs_refused),
        cmocka_unit_test(memory_is_of_one_layer), cmocka_unit_test(fingerprints),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
