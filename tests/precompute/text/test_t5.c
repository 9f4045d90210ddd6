/* test_t5.c - the T5 and UMT5 encoders equal transformers' (tests/golden/t5, t5-relu, umt5):
 * states, types of files and of activations, memory, fingerprints, the classes of encoders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/tensors/model.h"
#include "tests/lib/ok.h"
#include "tests/precompute/text/t5_model.h"

/* ---- states ---- */

static void equals_transformers(void **state)
{
    static const struct { const char *name, *type, *ids, *want; } rows[] = {
        { "t5", "t5", "ids_40", "states_40" }, { "t5", "t5", "ids_150", "states_150" },
        { "t5-relu", "t5", "ids_40", "states_40" }, { "t5-relu", "t5", "ids_150", "states_150" },
        { "umt5", "umt5", "ids_40", "states_40" }, { "umt5", "umt5", "ids_150", "states_150" },
        { "umt5", "umt5", "ids_40", "masked_40" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (vc_dtype type = VC_F32; type <= VC_BF16; type++) {
            tf_fixture f = tt_open(rows[i].name, VC_F32);
            t5 *m = tt_model(f.dir, rows[i].type, type);
            double e = tt_error(m, f.gold, rows[i].ids, rows[i].want);
            if (!(e <= (type == VC_F32 ? TT_F32 : TT_BF16)))
                fail_msg("%s %s, activations %s: %g", rows[i].name, rows[i].want,
                         vc_dtype_name(type), e);
            t5_close(m);
            tf_close(&f);
        }
}

/* The values of files in bf16 and f16 are used without rounding. */
static void stored_types(void **state)
{
    static const struct { const char *name, *want; vc_dtype stored; } rows[] = {
        { "t5", "bf16_40", VC_BF16 }, { "t5", "f16_40", VC_F16 },
        { "umt5", "bf16_40", VC_BF16 }, { "umt5", "f16_40", VC_F16 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (vc_dtype type = VC_F32; type <= VC_BF16; type++) {
            tf_fixture f = tt_open(rows[i].name, rows[i].stored);
            t5 *m = tt_model(f.dir, rows[i].name, type);
            double e = tt_error(m, f.gold, "ids_40", rows[i].want);
            if (!(e <= (type == VC_F32 ? TT_F32 : TT_BF16)))
                fail_msg("%s %s, activations %s: %g", rows[i].name, rows[i].want,
                         vc_dtype_name(type), e);
            t5_close(m);
            tf_close(&f);
        }
}

/* A text has the same bits twice, whatever was encoded in between. */
static void repeats(void **state)
{
    tf_fixture f = tt_open("t5", VC_BF16);
    t5 *m = tt_model(f.dir, "t5", VC_F32);
    float a[3 * TT_WIDTH], b[3 * TT_WIDTH], other[TT_MOST * TT_WIDTH];
    const int64_t ids[3] = { 5, 63, 1 }, many[TT_MOST] = { 7, 9 };
    vc_err err;

    (void)state;
    assert_int_equal(t5_encode(m, &(text_ids){ ids, 3, 0, 0 }, 1, a, &err), 0);
    assert_int_equal(t5_encode(m, &(text_ids){ many, TT_MOST, 0, 0 }, 1, other, &err), 0);
    assert_int_equal(t5_encode(m, &(text_ids){ ids, 3, 0, 0 }, 1, b, &err), 0);
    assert_memory_equal(a, b, sizeof a);
    /* One token has one distance. */
    assert_int_equal(t5_encode(m, &(text_ids){ ids, 1, 0, 0 }, 1, b, &err), 0);
    t5_close(m);
    tf_close(&f);
}

/* Texts of any lengths in a batch do not change each other: where a batch is used, not in a single
 * bit. */
static void batch_equals_single(void **state)
{
    enum { TEXTS = 4, TOTAL = 40 + 9 + TT_MOST + TEXT_FEW };
    static const char *const types[] = { "t5", "umt5" };
    float all[TOTAL * TT_WIDTH], one[TT_MOST * TT_WIDTH];
    int64_t ids[TOTAL];
    vc_err err = { 0 };

    (void)state;
    for (int i = 0; i < TOTAL; i++)
        ids[i] = i * 37 % 61 + 1;
    const text_ids texts[TEXTS] = { { ids, 40, 0, 0 }, { ids + 40, 9, 0, 0 },
                                    { ids + 49, TT_MOST, 0, 0 },
                                    { ids + 49 + TT_MOST, TEXT_FEW, 0, 0 } };
    for (int k = 0; k < 4; k++) {
        const vc_dtype type = k % 2 ? VC_BF16 : VC_F32;
        tf_fixture f = tt_open(types[k / 2], VC_BF16);
        t5 *m = tt_model(f.dir, types[k / 2], type);
        const float *have = all;
        assert_ok(t5_encode(m, texts, TEXTS, all, &err), &err);
        for (int i = 0; i < TEXTS; have += texts[i++].n * TT_WIDTH) {
            assert_ok(t5_encode(m, &texts[i], 1, one, &err), &err);
            assert_true(golden_error(have, one, texts[i].n * TT_WIDTH) <= TT_F32);
            if (t5_batch(m) > 1)
                assert_memory_equal(have, one, (size_t)texts[i].n * TT_WIDTH * sizeof *one);
        }
        t5_close(m);
        tf_close(&f);
    }
}

static void nan_is_an_error(void **state)
{
    tf_fixture f = tt_open("t5", VC_F32);
    char dir[600];
    float states[TT_WIDTH];
    vc_err err = { 0 };

    (void)state;
    snprintf(dir, sizeof dir, "%s/nan", f.dir);
    tf_write(&f, dir, NULL, tf_poison, "encoder.block.1.layer.1.layer_norm.weight", 1, NULL, 0);
    t5 *m = tt_model(dir, "t5", VC_F32);
    const text_ids one = { (int64_t[]){ 1 }, 1, 0, 0 };
    assert_int_equal(t5_encode(m, &one, 1, states, &err), VC_ENUMERIC);
    t5_close(m);
    tf_close(&f);
}

/* ---- memory, fingerprints ---- */

static bool below(vf_view *v, const void *prefix)
{
    return strncmp(v->name, prefix, strlen(prefix)) != 0;
}

/* The peak of the pool, in bytes, while TT_MOST tokens are encoded. */
static size_t peak_of(const char *dir, const char *type)
{
    const int64_t ids[TT_MOST] = { 7, 9 };
    float states[TT_MOST * TT_WIDTH];
    vc_err err = { 0 };
    t5 *m = tt_model(dir, type, VC_F32);
    assert_ok(t5_encode(m, &(text_ids){ ids, TT_MOST, 0, 0 }, 1, states, &err), &err);
    size_t peak = t5_usage(m).pool_peak;
    t5_close(m);
    return peak;
}

/* Two layers take the temporary memory of one, within the bound that t5.h names. */
static void memory_is_of_one_layer(void **state)
{
    enum { HIDDEN = 64, HEADS = 4, SLACK = 4096 };             /* each buffer is rounded up */
    size_t bound = 4 * (TT_MOST * 4 * (TT_WIDTH + HIDDEN) + 6 * HEADS * (2 * TT_MOST - 1)) + SLACK;

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *type = i ? "umt5" : "t5";
        tf_fixture f = tt_open(type, VC_F32);
        char dir[600], *one = tf_changed(&f, "num_layers", "1");
        snprintf(dir, sizeof dir, "%s/one", f.dir);
        tf_write(&f, dir, one, below, "encoder.block.1.", 1, NULL, 0);
        size_t one_layer = peak_of(dir, type), two_layers = peak_of(f.dir, type);
        /* In UMT5 the second layer's bias is made while the first layer's is still held. */
        size_t more = i ? 3 * HEADS * (2 * TT_MOST - 1) * 4 : 0;
        if (two_layers > one_layer + more + SLACK || two_layers > bound)
            fail_msg("%s: one layer %zu bytes, two %zu, bound %zu", type, one_layer, two_layers,
                     bound);
        free(one);
        tf_close(&f);
    }
}

static vf_key fingerprint(const char *dir, const encoder_opts *o, const char *type)
{
    encoder_opts mine = *o;
    vc_err err = { 0 };
    vf_key k;
    t5 *m;
    mine.dir = dir;
    assert_ok(t5_open(&m, &mine, type, &k, &err), &err);
    t5_close(m);
    return k;
}

static void fingerprints(void **state)
{
    tf_fixture f = tt_open("t5", VC_F32);
    encoder_opts o = tt_opts(f.dir, VC_F32);
    char *text;

    (void)state;
    vf_key a = fingerprint(f.dir, &o, "t5"), b;
    o.threads = 2;
    tf_put_config(&f, text = tf_changed(&f, "dropout_rate", "0.5"));
    free(text);
    b = fingerprint(f.dir, &o, "t5");
    assert_memory_equal(a.b, b.b, sizeof a.b);
    tf_put_config(&f, text = tf_changed(&f, "layer_norm_epsilon", "1e-5"));
    free(text);
    b = fingerprint(f.dir, &o, "t5");
    assert_memory_not_equal(a.b, b.b, sizeof a.b);
    tf_put_config(&f, vf_safetensors_meta(f.gold, "config"));
    o.weights.b[3] ^= 1;
    b = fingerprint(f.dir, &o, "t5");
    assert_memory_not_equal(a.b, b.b, sizeof a.b);
    tf_close(&f);
}

/* ---- the classes ---- */

/* Writes a prompt of the golden's first ids. */
static void prompt_of(char *text, size_t size, const vf_safetensors *gold, int words)
{
    float *ids = golden_values(gold, "ids_40", NULL);
    size_t n = 0;
    for (int i = 0; i < words; i++)
        n += (size_t)snprintf(text + n, size - n, "%d ", (int)ids[i]);
    free(ids);
}

static void class_gives(const char *name, const text_class *class, const char *want, int n)
{
    tf_fixture f = tt_open(name, VC_F32);
    encoder_opts o = tt_opts(f.dir, VC_F32);
    vc_err err = { 0 };
    char prompt[400];
    text_enc *t;
    text_info info;
    text_result r;

    o.threads = 2;
    prompt_of(prompt, sizeof prompt, f.gold, 30);
    assert_ok(text_open(&t, class, &o, &info, &err), &err);
    assert_string_equal(info.class, class->name);
    assert_int_equal(info.width, TT_WIDTH);
    assert_int_equal(info.rule.max_length, 40);
    assert_ok(text_encode(t, &(text_input){ .prompt = prompt }, 1, &r, &err), &err);
    assert_int_equal(r.n, n);
    assert_int_equal(r.length, 40);
    assert_int_equal(r.ids[30], 1);
    assert_true(r.mask[30] == 1 && r.mask[31] == 0 && r.pooled_width == 0);
    float *w = golden_values(f.gold, want, NULL);
    assert_true(golden_error(r.embeds, w, (int64_t)n * TT_WIDTH) <= TT_F32);
    free(w);
    assert_ok(text_encode(t, &(text_input){ .prompt = "" }, 1, &r, &err), &err);
    assert_int_equal(r.n, n == 40 ? 40 : 1);
    assert_int_equal(text_encode(t, &(text_input){ .prompt = "99" }, 1, &r, &err), VC_EINVAL);
    text_close(t);
    text_close(NULL);

    o.tokenizer = "nowhere";
    assert_int_equal(text_open(&t, class, &o, &info, &err), VC_ENOENT);
    assert_null(t);
    o.tokenizer = NULL;
    assert_int_equal(text_open(&t, class, &o, &info, &err), VC_EINVAL);
    o = tt_opts(f.dir, VC_F32);
    o.text.max_length = 0;
    assert_int_equal(text_open(&t, class, &o, &info, &err), VC_EINVAL);
    o.text = (text_rule){ .max_length = 40, .template = "99 {}" };
    assert_fails(text_open(&t, class, &o, &info, &err), VC_EINVAL, &err,
                 "double: token 0 has id 99");
    tf_close(&f);
}

static void t5_class(void **state)
{
    (void)state;
    class_gives("t5", &text_t5, "states_40", 40);
}

static void umt5_class(void **state)
{
    (void)state;
    class_gives("umt5", &text_umt5, "masked_40", 31);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_transformers), cmocka_unit_test(stored_types),
        cmocka_unit_test(repeats), cmocka_unit_test(batch_equals_single),
        cmocka_unit_test(nan_is_an_error),
        cmocka_unit_test(memory_is_of_one_layer), cmocka_unit_test(fingerprints),
        cmocka_unit_test(t5_class), cmocka_unit_test(umt5_class),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
