/* test_tokenizer_limits.c - tokenizer files whose work would be far larger than the files and the
 * text end in an error that names the rule, within 1 GiB of memory. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "precompute/tokenizer/parts.h"
#include "tests/lib/ok.h"

#define MODEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}"

/* Appends `text` n times, with `between` after each but the last. */
static void repeat(vc_buf *b, const char *text, int n, const char *between)
{
    for (int i = 0; i < n; i++) {
        if (i)
            vc_buf_str(b, between);
        vc_buf_str(b, text);
    }
}

/* The tokenizer's file is `before`, n times `part`, `after`; its text is `bytes` times `c`. */
typedef struct bomb {
    const char *before, *part;
    int n;
    const char *between, *after;
    const char *text;
    int times;
    const char *says;                        /* NULL: no error */
} bomb;

#define REPLACE(kind, from, to) \
    "{\"type\":\"Replace\",\"pattern\":{\"" kind "\":\"" from "\"},\"content\":\"" to "\"}"
#define STEPS "{" MODEL ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":["
#define SPLITS "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
#define SPLIT(regex) \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"},\"behavior\":\"Isolated\"}"
#define LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"

static const bomb bombs[] = {
    /* steps that make a text grow */
    { STEPS, REPLACE("String", "a", "aa"), 60, ",", "]}}", "a", 5,
      "Replace \"a\": it makes too much" },
    { STEPS, REPLACE("Regex", "", "aaaaaaaaaaaaaaaaaaaa"), 12, ",", "]}}", "a", 5,
      "normalizer: step 4, Replace" },
    { STEPS, REPLACE("Regex", "a|", "aaa"), 60, ",", "]}}", "a", 5, "Replace \"a|\"" },
    { STEPS "{\"type\":\"Prepend\",\"prepend\":\"", "aaaaaaaaaa", 100000, "", "\"}]}}", "a", 1,
      "step 1, Prepend: it makes" },
    { STEPS "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"", "aaaaaaaaaa",
      1000, "",
      "\"}]}}", "a", 500, "step 1, Replace \"a\"" },
    { SPLITS "{\"type\":\"Metaspace\",\"replacement\":\"", "aaaaaaaaaa", 1000, "", "\"}]}}", " ",
      500,
      "pre_tokenizer: step 1, Metaspace" },
    { SPLITS, LEVEL, 60, ",", "]}}", "\xc3\xa9", 5, "ByteLevel: it makes" },
    { STEPS "{\"type\":\"NFKD\"}],\"x\":[", "0", 1, ",", "]}}", "\xef\xb7\xba", 3000, NULL },
    /* patterns that backtrack */
    { SPLITS, SPLIT("(a+)+[xy]"), 1, ",", "]}}", "a", 60, "gives up" },
    { SPLITS, SPLIT("(a|aa)+[bc]"), 1, ",", "]}}", "a", 60, "step 1, Split \"(a|aa)+[bc]\"" },
    { SPLITS, SPLIT("[^x]*[yz]"), 1, ",", "]}}", "a", 100000, "gives up" },
    { SPLITS, SPLIT("(((a?){9}){9}){9}[bc]"), 60, ",", "]}}", "a", 1000, "gives up" },
    { STEPS, REPLACE("Regex", "(?=(a+)*[bc])", "x"), 1, ",", "]}}", "a", 100, "gives up" },
    { SPLITS, SPLIT("a+|b+|\\\\s+(?!\\\\S)|\\\\s+"), 60, ",", "]}}", "ab  ", 20000, NULL },
    /* large files */
    { "{" MODEL ",\"added_tokens\":[{\"id\":2,\"content\":\"", "a", 2000, "", "\"}]}", "a", 1,
      "longer than 1024" },
    { "{" MODEL ",\"normalizer\":" REPLACE("String", "z",
                                           "zzzzzzzzzzzzzzzzzzzz") ",\"added_tokens\":[{\"id\":2,"
      "\"content\":\"", "z", 1000, "", "\"}]}", "a", 1, "normalised spelling has 20000 bytes" },
    { "{" MODEL ",\"other\":[", "0", 5000000, ",", "]}", "a", 1, "other: 10000001 bytes" },
    { "{" MODEL ",", "\"x\":0", 200, ",", "}", "a", 1, "there twice" },
    { "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"", "a", 5000, "", "\",0]]}}",
      "a", 1,
      "piece 0 has 5000 bytes" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],"
      "\"continuing_subword_prefix\":\"", "#", 100,
      "", "\"}}", "a", 1, "longer than 64" },
    { "{" MODEL ",\"post_processor\":{\"type\":\"TemplateProcessing\","
                "\"special_tokens\":{\"b\":{\"ids\":[1,1,1,1]}},"
      "\"single\":[{\"Sequence\":{\"id\":\"A\"}},", "{\"SpecialToken\":{\"id\":\"b\"}}", 1000, ",",
      "]}}", "a", 1,
      "more than 1024" },
};

static int run(const char *json, size_t n, const char *text, size_t bytes, vc_err *err)
{
    tokenizer *t = tok_new();
    int64_t *ids = NULL;
    size_t count;

    assert_non_null(t);
    int rc = tok_read_json(t, json, n, err);
    if (!rc)
        rc = tok_finish(t, err);
    if (!rc)
        rc = tokenizer_ids(t, text, bytes, &ids, &count, err);
    free(ids);
    tokenizer_close(t);
    return rc;
}

static void test_bombs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++) {
        const bomb *p = &bombs[i];
        vc_buf json = { 0 }, text = { 0 };
        vc_err err = { 0 };
        vc_buf_str(&json, p->before);
        repeat(&json, p->part, p->n, p->between);
        vc_buf_str(&json, p->after);
        repeat(&text, p->text, p->times, "");
        assert_false(json.failed || text.failed);
        int rc = run(json.data, json.n, text.data, text.n, &err);
        vc_buf_free(&json);
        vc_buf_free(&text);
        if (p->says ? rc != VC_EFORMAT || !strstr(err.text, p->says) : rc != 0)
            fail_msg("%s%s...: %d %s", p->before, p->part, rc, err.text);
    }
}

/* 2^17 added tokens are found by their hash. */
static void test_many_added(void **state)
{
    vc_buf json = { 0 };
    vc_err err = { 0 };
    (void)state;

    vc_buf_str(&json, "{" MODEL ",\"added_tokens\":[");
    for (int i = 0; i < 1 << 17; i++)
        vc_buf_printf(&json, "%s{\"id\":%d,\"content\":\"<%d>\"}", i ? "," : "", i + 2, i);
    vc_buf_str(&json, "]}");
    assert_false(json.failed);
    int rc = run(json.data, json.n, "a<77>b", 6, &err);
    vc_buf_free(&json);
    assert_ok(rc, &err);
}

/* A character map that makes 100,000 bytes of each "a". */
static void test_charsmap(void **state)
{
    enum { UNITS = 0x400, LONG = 100000 };
    static uint32_t blob[1 + UNITS + LONG / 4];
    vc_err err = { 0 };
    char text[500];
    tok_run r = { 0 };
    tok_steps steps = { 0 };
    (void)state;

    blob[0] = 4 * UNITS;
    blob[1] = 0x100u << 10;                              /* the root's children begin at 0x100 */
    /* The child 'a' of the root is at 0x100 ^ 'a' = 0x161; its value is at 0x161 ^ 0x200. */
    blob[1 + 0x161] = 'a' | 0x100 | 0x200u << 10;
    blob[1 + 0x361] = 0x80000000u;                       /* the string at 0 */
    memset(&blob[1 + UNITS], 'a', LONG - 1);
    memset(text, 'a', sizeof text);
    tok_step *s = tok_steps_add(&steps, TOK_CHARSMAP);
    assert_non_null(s);
    assert_int_equal(tok_step_text(s, (const char *)blob, sizeof blob), 0);
    assert_int_equal(tok_charsmap_of(&s->map, s->text, s->n, &err), 0);
    assert_int_equal(tok_run_begin(&r, 1, sizeof text, &err), 0);
    vc_buf_add(&r.text, text, sizeof text);
    assert_fails(tok_run_normalizer(&steps, &r, &err), VC_EFORMAT, &err,
                 "step 1, Precompiled: it makes too much");
    assert_true(r.other.cap < 1 << 20);
    tok_run_free(&r);
    tok_steps_free(&steps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bombs), cmocka_unit_test(test_many_added),
        cmocka_unit_test(test_charsmap),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    if (used.ru_maxrss > 1 << 20) {                      /* KiB */
        printf("the test took %ld KiB of memory\n", used.ru_maxrss);
        failed++;
    }
    return failed;
}
