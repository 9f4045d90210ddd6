/* test_text_prompt.c - prompt.h, which all text encoders share: templates and crops, pooled-only
 * slots, texts with a picture, and keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/lib/ok.h"
#include "precompute/text/prompt.h"

enum { WIDTH = 256 };                             /* of the built-in encoder */

/* ---- templates, with the built-in encoder: row 0 is the whole prompt, rows 1.. its words ---- */

static text_enc *open_builtin(const text_rule *rule, text_info *info)
{
    text_enc *t;
    vc_err err = { 0 };
    encoder_opts o = { .dtype = VC_F32, .device = "cpu", .text = *rule };
    assert_ok(text_open(&t, &text_builtin, &o, info, &err), &err);
    return t;
}

static void template_is_cropped(void **state)
{
    const text_rule rule = { .template = "look at {} now", .crop = 3 };
    text_info plain_info, info;
    text_result a, b;
    vc_err err = { 0 };
    (void)state;
    text_enc *plain = open_builtin(&(text_rule){ 0 }, &plain_info);
    text_enc *t = open_builtin(&rule, &info);

    assert_int_equal(info.rule.max_length, plain_info.rule.max_length);
    assert_int_equal(text_encode(plain, &(text_input){ .prompt = "look at a disc now" }, 1,
                                         &a, &err), 0);
    assert_int_equal(text_encode(t, &(text_input){ .prompt = "a disc" }, 1, &b, &err), 0);
    assert_int_equal(b.n, info.rule.max_length);
    assert_int_equal(b.length, info.rule.max_length + 3);
    assert_memory_equal(b.ids, a.ids, 6 * sizeof *b.ids);
    assert_memory_equal(b.embeds, a.embeds + 3 * WIDTH, 3 * WIDTH * sizeof *b.embeds);
    for (int i = 0; i < 8; i++)
        assert_int_equal(b.mask[i], i < 6);
    text_close(plain);
    text_close(t);
}

/* Each prompt of a batch has the values that it has alone. */
static void batches(void **state)
{
    static const text_input in[] = { { .prompt = "" }, { .prompt = "a red disc" },
                                     { .prompt = "waves" } };
    enum { N = sizeof in / sizeof *in };
    const text_rule rule = { .template = "look at {} now", .crop = 3 };
    text_info info;
    text_result r[N], one;
    vc_err err = { 0 };
    (void)state;
    text_enc *t = open_builtin(&rule, &info), *alone = open_builtin(&rule, &info);

    assert_true(info.batch >= N);
    assert_int_equal(text_encode(t, in, N, r, &err), 0);
    for (int i = 0; i < N; i++) {
        assert_int_equal(text_encode(alone, &in[i], 1, &one, &err), 0);
        assert_true(r[i].n == one.n && r[i].width == one.width && r[i].length == one.length);
        assert_memory_equal(r[i].ids, one.ids, (size_t)one.length * sizeof *one.ids);
        assert_memory_equal(r[i].mask, one.mask, (size_t)one.length * sizeof *one.mask);
        assert_memory_equal(r[i].embeds, one.embeds, (size_t)one.n * WIDTH * sizeof *one.embeds);
    }
    text_close(t);
    text_close(alone);
}

static void rules_refused(void **state)
{
    static const struct { text_rule rule; const char *says; } rows[] = {
        { { .template = "look at {} now", .crop = 2 }, "makes 3 tokens of the template in front" },
        { { .template = "look at {} now", .crop = 4 }, "not 4" },
        { { .crop = 2 }, "makes 1 tokens" },
        { { .pooled_only = true }, "no pooled state" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        encoder_opts o = { .dtype = VC_F32, .device = "cpu", .text = rows[i].rule };
        text_enc *t;
        text_info info;
        vc_err err = { 0 };
        assert_int_not_equal(text_open(&t, &text_builtin, &o, &info, &err), 0);
        assert_null(t);
        if (!strstr(err.text, rows[i].says))
            fail_msg("%d: %s", (int)i, err.text);
    }
}

/* ---- an encoder that reads a picture, and makes states and a pooled state ---- */

static int open_reader(void **model, const void *kind, const encoder_opts *o, text_info *info,
                       vc_err *err)
{
    (void)kind;
    (void)o, (void)err;
    *model = NULL;
    info->rule.max_length = 4;
    info->width = 1;
    info->pooled = 2;
    return 0;
}

static void close_reader(void *model) { (void)model; }

static void letters(const char *text, int length, int64_t *ids, int64_t *mask)
{
    for (int i = 0; i < length; i++) {
        mask[i] = *text != 0;
        ids[i] = *text ? *text++ : 0;
    }
}

static int read_picture(void *model, const text_tokens *t, float *states, float *pooled,
                        vc_err *err)
{
    (void)model, (void)err;
    for (int i = 0; i < t->ids->n; i++)
        states[i] = (float)t->ids->id[i];
    pooled[0] = (float)t->ids->n;
    pooled[1] = t->picture ? t->picture->rgb[0] : -2;
    return 0;
}

static void reads_a_picture(void **state)
{
    static const text_model reader = {
        .class = "Reader", .masked = true, .open = open_reader, .close = close_reader,
        .words = letters, .encode = read_picture,
    };
    const uint8_t rgb[3] = { 7, 0, 0 };
    const text_picture picture = { .h = 1, .w = 1, .rgb = rgb };
    encoder_opts o = { .dtype = VC_F32 };
    text_enc *t;
    text_info info;
    text_result r;
    vc_err err = { 0 };
    (void)state;

    assert_int_equal(text_prompt_open(&t, &reader, &o, &info, &err), 0);
    assert_int_equal(text_encode(t, &(text_input){ "ab", &picture, 1 }, 1, &r, &err), 0);
    assert_true(r.n == 2 && r.width == 1 && r.embeds[1] == 'b' && r.length == 4);
    assert_true(r.pooled_width == 2 && r.pooled[0] == 2 && r.pooled[1] == 7);
    assert_int_equal(text_encode(t, &(text_input){ "abcdefg", NULL, 0 }, 1, &r, &err), 0);
    assert_true(r.n == 4 && r.pooled[1] == -2);
    assert_int_equal(text_encode(t, &(text_input){ "", NULL, 0 }, 1, &r, &err), VC_EINVAL);
    text_close(t);

    o.text.pooled_only = true;
    assert_int_equal(text_prompt_open(&t, &reader, &o, &info, &err), 0);
    assert_int_equal(text_encode(t, &(text_input){ "ab", NULL, 0 }, 1, &r, &err), 0);
    assert_true(r.n == 0 && !r.embeds && r.pooled[0] == 2);
    text_close(t);
}

/* ---- groups of a batch ---- */

enum { LONG = 1950, MANY = 6 };
static int group[MANY], groups;                   /* prompts of each call of note_groups */

static int open_many(void **model, const void *kind, const encoder_opts *o, text_info *info,
                     vc_err *err)
{
    int rc = open_reader(model, kind, o, info, err);
    info->rule.max_length = LONG;
    info->pooled = 1;
    info->batch = MANY;
    return rc;
}

/* A state is its token's id; the pooled state is the number of tokens. */
static int note_groups(void *model, const text_tokens *t, float *states, float *pooled, vc_err *err)
{
    (void)model, (void)err;
    for (int i = 0; i < t->prompts; i++) {
        for (int k = 0; k < t->ids[i].n; k++)
            *states++ = (float)t->ids[i].id[k];
        *pooled++ = (float)t->ids[i].n;
    }
    group[groups++] = t->prompts;
    return 0;
}

/* A model gets prompts together up to 2048 tokens, and those of fewer than 8 tokens alone. */
static void groups_of_prompts(void **state)
{
    static const text_model many = {
        .class = "Many", .masked = true, .open = open_many, .close = close_reader,
        .words = letters, .encode = note_groups,
    };
    static const int length[MANY] = { 98, LONG, 7, 8, LONG, 200 }, want[] = { 2, 1, 2, 1 };
    char text[MANY][LONG + 1] = { 0 };
    text_input in[MANY];
    text_result r[MANY];
    encoder_opts o = { .dtype = VC_F32 };
    text_enc *t;
    text_info info;
    vc_err err = { 0 };
    (void)state;

    for (int i = 0; i < MANY; i++) {
        memset(text[i], 'a' + i, (size_t)length[i]);
        in[i] = (text_input){ text[i], NULL, 0 };
    }
    assert_int_equal(text_prompt_open(&t, &many, &o, &info, &err), 0);
    assert_int_equal(text_encode(t, in, MANY, r, &err), 0);
    assert_int_equal(groups, 4);
    assert_memory_equal(group, want, sizeof want);
    for (int i = 0; i < MANY; i++) {
        assert_true(r[i].n == length[i] && *r[i].pooled == (float)length[i]);
        assert_true(r[i].embeds[0] == (float)('a' + i));
        assert_true(r[i].embeds[length[i] - 1] == (float)('a' + i));
    }
    text_close(t);
}

/* ---- keys ---- */

static const char *key_of(const text_info *info, const text_input *in)
{
    static char hex[16][VF_KEY_HEX];
    static int next;

    return vf_key_hex(hex[next++ % 16], text_prompt_key(info, VC_BF16, VC_F16, in));
}

/* Keys are in datasets: the first must stay the key of all earlier versions of vprep. */
static void keys(void **state)
{
    text_info info = { .fingerprint = vf_hash("e", 1), .tokenizer = vf_hash("t", 1),
                       .rule = { .max_length = 226 } };
    const text_picture one = { .key = vf_hash("1", 1) }, same = one;
    const text_picture two = { .key = vf_hash("2", 1) };
    const text_input in = { "a cat", NULL, 0 };
    const char *plain = key_of(&info, &in);
    const char *seen = key_of(&info, &(text_input){ "a cat", &one, 1 });
    (void)state;

    assert_string_equal(plain, "9512b790493586725c723e34b9eef266");
    assert_string_not_equal(plain, seen);
    assert_string_equal(seen, key_of(&info, &(text_input){ "a cat", &same, 1 }));
    assert_string_not_equal(seen, key_of(&info, &(text_input){ "a cat", &two, 1 }));
    assert_string_not_equal(seen, key_of(&info, &(text_input){ "a dog", &one, 1 }));
    info.rule.template = "x {}";
    const char *in_template = key_of(&info, &in);
    assert_string_not_equal(plain, in_template);
    info.rule.crop = 1;
    assert_string_not_equal(in_template, key_of(&info, &in));
    info.rule = (text_rule){ .max_length = 226, .pooled_only = true };
    assert_string_not_equal(plain, key_of(&info, &in));
    info.rule = (text_rule){ .max_length = 77 };
    assert_string_not_equal(plain, key_of(&info, &in));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(template_is_cropped), cmocka_unit_test(batches),
        cmocka_unit_test(rules_refused),
        cmocka_unit_test(reads_a_picture), cmocka_unit_test(groups_of_prompts),
        cmocka_unit_test(keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
