/* test_tokenizer.c - ids equal those of the reference libraries, with small tokenizers of every
 * kind (tests/golden/tokenizers.json, made by scripts/golden/tokenizers.py) and with four real
 * tokenizers (where VLT_TEST_DATA is set); megabytes of text take the time of n log n; damaged
 * files are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "precompute/tokenizer/parts.h"
#include "tests/lib/mutate.h"
#include "tests/lib/ok.h"
#include "tests/lib/tmp_dir.h"

static int hex_digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* The *n bytes of a string of hex digits, and a NUL after them; malloc'ed. */
static char *unhex(const char *hex, size_t *n)
{
    *n = strlen(hex) / 2;
    char *out = calloc(1, *n + 1);
    for (size_t i = 0; i < *n; i++)
        out[i] = (char)(hex_digit(hex[2 * i]) << 4 | hex_digit(hex[2 * i + 1]));
    return out;
}

static uint8_t *unbase64(const char *s, size_t *n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t *out = malloc(strlen(s) + 1);
    uint32_t bits = 0;
    int held = 0;

    *n = 0;
    for (; *s && *s != '='; s++) {
        bits = bits << 6 | (uint32_t)(strchr(digits, *s) - digits);
        if ((held += 6) >= 8)
            out[(*n)++] = (uint8_t)(bits >> (held -= 8));
    }
    return out;
}

static void check_ids(const char *name, int row, const int64_t *ids, size_t n, const cJSON *want)
{
    size_t i = 0;

    for (const cJSON *v = want->child; v; v = v->next, i++)
        if (i >= n || ids[i] != (int64_t)v->valuedouble)
            fail_msg("%s, row %d: id %zu of %zu is %lld, not %.0f", name, row, i, n,
                     i < n ? (long long)ids[i] : -1LL, v->valuedouble);
    if (i != n)
        fail_msg("%s, row %d: %zu ids, not %zu", name, row, n, i);
}

/* ---- small tokenizers ---- */

static cJSON *golden(void)
{
    char path[600];
    cJSON *o;
    vc_err err = { 0 };

    snprintf(path, sizeof path, "%s/tests/golden/tokenizers.json", getenv("VLT_SOURCE"));
    assert_ok(vf_json_read(&o, path, 1 << 24, &err), &err);
    return o;
}

/* The *n bytes of a case's file. */
static char *file_of(const cJSON *c, size_t *n)
{
    const cJSON *spiece = cJSON_GetObjectItem(c, "spiece");
    if (spiece)
        return (char *)unbase64(spiece->valuestring, n);
    char *text = vf_json_line(cJSON_GetObjectItem(c, "json"));
    *n = strlen(text);
    return text;
}

static tokenizer *open_case(const cJSON *c)
{
    vc_err err = { 0 };
    size_t n;
    char *data = file_of(c, &n);
    tokenizer *t = tok_new();

    int rc = *data == '{' ? tok_read_json(t, data, n, &err)
                          : tok_read_spiece(t, data, n, 100, &err);
    if (!rc)
        rc = tok_read_config(t, NULL, NULL, NULL, &err);
    if (!rc)
        rc = tok_finish(t, &err);
    free(data);
    if (rc)
        fail_msg("%s: %s", cJSON_GetObjectItem(c, "name")->valuestring, err.text);
    return t;
}

static void check_rows(const tokenizer *t, const char *name, const cJSON *rows)
{
    vc_err err = { 0 };
    int row = 0;

    for (const cJSON *r = rows->child; r; r = r->next, row++) {
        size_t bytes, n;
        int64_t *ids;
        char *text = unhex(r->child->valuestring, &bytes);
        if (tokenizer_ids(t, text, bytes, &ids, &n, &err))
            fail_msg("%s, row %d: %s", name, row, err.text);
        check_ids(name, row, ids, n, r->child->next);
        free(ids);
        free(text);
    }
}

/* Checks prompts, each [text, max_length, ids, n]. */
static void check_prompts(const tokenizer *t, const char *name, const cJSON *prompts)
{
    vc_err err = { 0 };
    int row = 0;

    for (const cJSON *r = prompts ? prompts->child : NULL; r; r = r->next, row++) {
        const cJSON *length = r->child->next, *want = length->next;
        int64_t ids[64], mask[64];
        size_t bytes;
        int n;
        char *text = unhex(r->child->valuestring, &bytes);
        if (tokenizer_prompt(t, text, length->valueint, ids, mask, &n, &err))
            fail_msg("%s, prompt %d: %s", name, row, err.text);
        check_ids(name, row, ids, (size_t)length->valueint, want);
        assert_int_equal(n, want->next->valueint);
        for (int i = 0; i < length->valueint; i++)
            assert_int_equal(mask[i], i < n);
        free(text);
    }
}

static void small_tokenizers(void **state)
{
    cJSON *o = golden();
    int cases = 0;
    (void)state;

    for (const cJSON *c = cJSON_GetObjectItem(o, "cases")->child; c; c = c->next, cases++) {
        const char *name = cJSON_GetObjectItem(c, "name")->valuestring;
        tokenizer *t = open_case(c);
        check_rows(t, name, cJSON_GetObjectItem(c, "rows"));
        check_prompts(t, name, cJSON_GetObjectItem(c, "prompts"));
        tokenizer_close(t);
    }
    assert_true(cases > 40);
    cJSON_Delete(o);
}

/* ---- real tokenizers ---- */

static bool data_path(char *path, size_t size, const char *name)
{
    const char *data = getenv("VLT_TEST_DATA");
    if (!data)
        return false;
    snprintf(path, size, "%s/tokenizers/%s", data, name);
    return vc_file_exists(path);
}

static tokenizer *open_path(const char *path)
{
    tokenizer *t;
    vc_err err = { 0 };
    assert_ok(tokenizer_open(&t, path, &err), &err);
    return t;
}

enum { NUL_MARK = 1 };                       /* replaces U+0000, which ends cJSON's strings */

/* Checks a row as a prompt cut to exactly the row's length with special tokens, and as a prompt of
 * one token more, which is padded. */
static void check_real_row(const tokenizer *t, const char *name, int row, cJSON *r)
{
    char *text = cJSON_GetObjectItem(r, "text")->valuestring;
    size_t bytes = strlen(text), k;
    const cJSON *full = cJSON_GetObjectItem(r, "ids_with_special");
    int length = cJSON_GetArraySize(full), n;
    int64_t *ids, *mask = calloc((size_t)length + 1, sizeof *mask);
    vc_err err = { 0 };

    for (size_t i = 0; i < bytes; i++)
        if (text[i] == NUL_MARK)
            text[i] = 0;
    if (tokenizer_ids(t, text, bytes, &ids, &k, &err))
        fail_msg("%s, row %d: %s", name, row, err.text);
    check_ids(name, row, ids, k, cJSON_GetObjectItem(r, "ids"));
    free(ids);
    ids = calloc((size_t)length + 1, sizeof *ids);
    bool whole = strlen(text) == bytes;      /* a prompt ends at its first NUL */
    if (whole && length && tokenizer_prompt(t, text, length, ids, mask, &n, &err))
        fail_msg("%s, row %d: %s", name, row, err.text);
    if (whole)
        check_ids(name, row, ids, (size_t)length, full);
    if (whole && tokenizer_pad(t) >= 0) {
        assert_int_equal(tokenizer_prompt(t, text, length + 1, ids, mask, &n, &err), 0);
        assert_int_equal(n, length);
        assert_int_equal(ids[length], tokenizer_pad(t));
        assert_int_equal(mask[length], 0);
    }
    free(ids);
    free(mask);
}

static void check_real(const char *folder, const char *file)
{
    char path[1200], expected[300];
    cJSON *o;
    vc_err err = { 0 };
    int row = 0;

    snprintf(expected, sizeof expected, "%s/expected_tokens.json", folder);
    if (!data_path(path, sizeof path, expected))
        skip();
    char *text;
    size_t n;
    assert_int_equal(vc_file_read(&text, &n, path, 1 << 24, &err), 0);
    for (char *at; (at = strstr(text, "\\u0000"));)
        at[5] = '0' + NUL_MARK;
    o = cJSON_Parse(text);
    assert_non_null(o);
    free(text);
    snprintf(expected, sizeof expected, "%s/%s", folder, file);
    assert_true(data_path(path, sizeof path, expected));
    tokenizer *t = open_path(path);
    for (cJSON *r = cJSON_GetObjectItem(o, "rows")->child; r; r = r->next, row++)
        check_real_row(t, path, row, r);
    assert_int_equal(row, 40);
    tokenizer_close(t);
    cJSON_Delete(o);
}

static void t5_spiece(void **state) { (void)state; check_real("t5-v1_1-xxl", "spiece.model"); }
static void t5_json(void **state) { (void)state; check_real("t5-v1_1-xxl", "tokenizer.json"); }
static void llama(void **state) { (void)state; check_real("llama-3", "tokenizer.json"); }
static void qwen(void **state) { (void)state; check_real("qwen2.5", ""); }
static void qwen_vocab(void **state) { (void)state; check_real("qwen2.5", "vocab.json"); }
static void clip(void **state) { (void)state; check_real("clip-l", ""); }
static void clip_vocab(void **state) { (void)state; check_real("clip-l", "merges.txt"); }

/* Tokens that are added to T5's get the ids behind its own: rows of transformers 5.17. */
static void added_tokens(void **state)
{
    (void)state;
    static const char *const added[] = { "<end_scene>", "<start_scene>", NULL };
    static const char *const files[] = { "spiece.model", "tokenizer.json" };
    static const struct { const char *text; int64_t ids[8]; } want[] = {
        { "Tom runs.", { 3059, 3154, 5, 1, 0, 0, 0, 0 } },
        { "<start_scene>Tom runs.", { 32101, 3059, 3154, 5, 1, 0, 0, 0 } },
        { "Tom runs.<end_scene>", { 3059, 3154, 5, 32100, 1, 0, 0, 0 } },
        { "<start_scene>Tom runs.<end_scene>", { 32101, 3059, 3154, 5, 32100, 1, 0, 0 } },
        { "<start_scene> Tom runs. <end_scene>", { 32101, 3059, 3154, 5, 32100, 1, 0, 0 } },
    };
    for (int f = 0; f < 2; f++) {
        char path[1200], file[300];
        tokenizer *t;
        vc_err err = { 0 };
        snprintf(file, sizeof file, "t5-v1_1-xxl/%s", files[f]);
        if (!data_path(path, sizeof path, file))
            skip();
        assert_ok(tokenizer_open_with(&t, path, added, &err), &err);
        for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
            int64_t ids[8], mask[8];
            int n;
            assert_ok(tokenizer_prompt(t, want[i].text, 8, ids, mask, &n, &err), &err);
            assert_memory_equal(ids, want[i].ids, sizeof ids);
        }
        tokenizer_close(t);
    }
}

static void one_fingerprint(void **state)
{
    static const char *const twins[][2] = {
        { "t5-v1_1-xxl/spiece.model", "t5-v1_1-xxl/tokenizer.json" },
        { "qwen2.5/vocab.json", "qwen2.5/tokenizer.json" },
    };
    char path[1200];
    (void)state;

    for (int i = 0; i < 2; i++) {
        vf_key key[2];
        for (int k = 0; k < 2; k++) {
            if (!data_path(path, sizeof path, twins[i][k]))
                skip();
            tokenizer *t = open_path(path);
            key[k] = tokenizer_fingerprint(t);
            tokenizer_close(t);
        }
        assert_memory_equal(&key[0], &key[1], sizeof key[0]);
    }
}

/* ---- megabytes ---- */

/* Texts that make quadratic programs hang are encoded in the time of n log n. */
static void long_texts(void **state)
{
    static const char *const unit[] = { "a", " ", "\n", "the cat ", "\xe5\xa5\xbd", "-",
                                        "\xcc\x81\xcc\x96",
                                        "\xf0\x9f\x98\x80", "1", "\xff", "e\xcc\x81", "<s>" };
    enum { BYTES = 1 << 17, MOST = 1 << 20 };
    /* All texts take about one second; a quadratic step would take minutes. */
    const double SECONDS = 20;
    char *text = malloc(MOST);
    cJSON *o = golden();
    vc_err err = { 0 };
    (void)state;

    clock_t began = clock();
    for (const cJSON *c = cJSON_GetObjectItem(o, "cases")->child; c; c = c->next) {
        if (!cJSON_GetObjectItem(c, "prompts"))
            continue;
        tokenizer *t = open_case(c);
        for (size_t u = 0; u < sizeof unit / sizeof *unit; u++) {
            size_t len = strlen(unit[u]), bytes = u ? BYTES : MOST, n;
            int64_t *ids;
            for (size_t i = 0; i < bytes; i++)
                text[i] = unit[u][i % len];
            if (tokenizer_ids(t, text, bytes, &ids, &n, &err))
                fail_msg("%s of \"%s\": %s", cJSON_GetObjectItem(c, "name")->valuestring, unit[u],
                         err.text);
            free(ids);
        }
        tokenizer_close(t);
    }
    double took = (double)(clock() - began) / CLOCKS_PER_SEC;
    if (took > SECONDS)
        fail_msg("the texts took %.1f s of CPU time", took);
    free(text);
    cJSON_Delete(o);
}

/* ---- refusals ---- */

typedef struct refusal {
    const char *json, *says;
} refusal;

#define MODEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2}," \
              "\"merges\":[\"a b\"]}"

static void refusals(void **state)
{
    static const refusal rows[] = {
        { "{" MODEL "}", NULL },
        { "{}", "model: missing" },
        { "{\"model\":{\"type\":\"BPE\"}}", "vocab: missing" },
        { "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}", "WordPiece is not known here" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}", "no pieces" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", "out of range" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}",
          "\"b\" is not in" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"aa\"]}}", "two parts" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"unk_token\":\"x\"}}", "unk_token" },
        { "{\"model\":{\"type\":\"Unigram\",\"vocab\":[],\"unk_id\":0}}", "without pieces" },
        { "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]],\"unk_id\":1}}", "unk_id" },
        { "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",1e999]],\"unk_id\":0}}", "finite" },
        { "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",true]],\"unk_id\":0}}", "number" },
        { "{" MODEL ",\"normalizer\":{\"type\":\"Nmt\"}}", "normalizer: Nmt is not known here" },
        { "{" MODEL ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"!!\"}}",
          "base64" },
        { "{" MODEL ",\"normalizer\":{\"type\":\"Precompiled\","
                    "\"precompiled_charsmap\":\"/////wAA\"}}", "trie of" },
        { "{" MODEL ",\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}}",
          "BertPreTokenizer is not" },
        { "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},"
          "\"behavior\":\"Isolated\"}}", "pattern" },
        { "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"},"
          "\"behavior\":\"Isolated\"}}", "in a class" },
        { "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},"
          "\"behavior\":\"Sideways\"}}", "Sideways" },
        { "{" MODEL ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[],"
          "\"special_tokens\":{}}}", "the text once" },
        { "{" MODEL ",\"added_tokens\":[{\"id\":-4,\"content\":\"x\"}]}", "added_tokens[0]" },
        { "{" MODEL ",\"added_tokens\":[{\"id\":7,\"content\":\"<x>\"}]}", "has id 7" },
        { "{" MODEL ",\"added_tokens\":[{\"id\":3,\"content\":\"<x>\"}]}", NULL },
        { "{" MODEL "} x", "after the end" },
        { "{" MODEL "," MODEL "}", NULL },
    };
    (void)state;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vc_err err = { 0 };
        tokenizer *t = tok_new();
        int rc = tok_read_json(t, rows[i].json, strlen(rows[i].json), &err);
        if (!rc)
            rc = tok_finish(t, &err);
        tokenizer_close(t);
        if (!rows[i].says != !rc || (rc && !strstr(err.text, rows[i].says)))
            fail_msg("%s: %d %s", rows[i].json, rc, err.text);
    }
}

static void costly_pattern(void **state)
{
    static const char json[] = "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":"
                               "{\"Regex\":\"(a+)+$x\"},\"behavior\":\"Isolated\"}}";
    static const char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";
    vc_err err = { 0 };
    int64_t *ids;
    size_t n;
    tokenizer *t = tok_new();
    (void)state;

    assert_int_equal(tok_read_json(t, json, sizeof json - 1, &err), 0);
    assert_int_equal(tok_finish(t, &err), 0);
    int rc = tokenizer_ids(t, text, sizeof text - 1, &ids, &n, &err);
    assert_true(rc == 0 || (rc == VC_EFORMAT && strstr(err.text, "gives up")));
    free(ids);
    tokenizer_close(t);
}

static void no_files(void **state)
{
    tokenizer *t;
    vc_err err = { 0 };
    (void)state;

    assert_int_equal(tokenizer_open(&t, "/nonexistent/tokenizer", &err), VC_ENOENT);
    assert_null(t);
    assert_fails(tokenizer_open(&t, "/proc/self/fdinfo", &err), VC_ENOENT, &err, "spiece.model");
}

/* Mistral's own file, alone in a folder or given itself. */
static void tekken_alone(void **state)
{
    char *file = vc_path_join(*state, "tekken.json");
    const char *const given[] = { *state, file };
    tokenizer *t;
    vc_err err = { 0 };

    assert_ok(vc_file_write(file, "{}", 2, &err), &err);
    for (int i = 0; i < 2; i++)
        assert_fails(tokenizer_open(&t, given[i], &err), VC_ENOENT, &err,
                     "tekken.json, Mistral's own file, is not read: give the tokenizer's folder");
    free(file);
}

static void prompt_limits(void **state)
{
    static const char json[] = "{" MODEL "}";
    int64_t ids[4], mask[4];
    vc_err err = { 0 };
    int n;
    tokenizer *t = tok_new();
    (void)state;

    assert_int_equal(tok_read_json(t, json, sizeof json - 1, &err), 0);
    assert_int_equal(tok_finish(t, &err), 0);
    assert_int_equal(tokenizer_prompt(t, "ab", 0, ids, mask, &n, &err), VC_EINVAL);
    assert_int_equal(tokenizer_prompt(t, "ab", 1, ids, mask, &n, &err), 0);
    assert_int_equal(ids[0], 2);
    assert_fails(tokenizer_prompt(t, "ab", 2, ids, mask, &n, &err), VC_EINVAL, &err, "pad");
    tokenizer_close(t);
}

/* ---- damage ---- */

static void damaged(void **state)
{
    cJSON *o = golden();
    uint32_t seed = 0;
    (void)state;

    for (const cJSON *c = cJSON_GetObjectItem(o, "cases")->child; c; c = c->next) {
        size_t n;
        char *data = file_of(c, &n);
        mutate_run(data, n, ++seed, *data == '{' ? 12 : 400, LLVMFuzzerTestOneInput);
        free(data);
    }
    cJSON_Delete(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_tokenizers), cmocka_unit_test(t5_spiece), cmocka_unit_test(t5_json),
        cmocka_unit_test(llama), cmocka_unit_test(qwen), cmocka_unit_test(qwen_vocab),
        cmocka_unit_test(clip), cmocka_unit_test(clip_vocab), cmocka_unit_test(added_tokens),
        cmocka_unit_test(one_fingerprint),
        cmocka_unit_test(long_texts), cmocka_unit_test(refusals),
        cmocka_unit_test(costly_pattern), cmocka_unit_test(no_files),
        cmocka_unit_test_setup_teardown(tekken_alone, tmp_dir_setup, tmp_dir_teardown),
        cmocka_unit_test(prompt_limits), cmocka_unit_test(damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
