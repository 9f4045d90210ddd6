/* fuzz_tokenizer_config.c - any bytes are the files beside a vocabulary: tokenizer_config.json,
 * special_tokens_map.json and added_tokens.json, with NULs between them. An error, or a tokenizer
 * that gives ids for any text. */
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* The double of the compiler of patterns, whose work for a class's pattern exceeds all other work:
 * a pattern is compiled once. */
static pcre2_code *compile_once(PCRE2_SPTR pattern, PCRE2_SIZE n, uint32_t options, int *code,
                                PCRE2_SIZE *at, pcre2_compile_context *ctx);
static void keep_code(pcre2_code *code);
#undef pcre2_compile
#undef pcre2_code_free
#define pcre2_compile compile_once
#define pcre2_code_free keep_code
#include "precompute/tokenizer/regex.c"
#include "precompute/tokenizer/parts.h"
#include "tests/lib/mutate.h"

enum { MOST = 12 };                          /* tokens of a prompt */
static const char vocab[] = "{\"a</w>\": 0, \"c\": 1, \"at</w>\": 2, \"<|startoftext|>\": 3, "
                            "\"<|endoftext|>\": 4, \"a\": 5, \"t</w>\": 6, \"!\": 7}";
static const char merges[] = "#version: 0.2\na t</w>\n";
static const char text[] = "a Cat\xcc\x81 <|endoftext|> <mark>\xff [PAD] aaaa";

static pcre2_code *compile_once(PCRE2_SPTR pattern, PCRE2_SIZE n, uint32_t options, int *code,
                                PCRE2_SIZE *at, pcre2_compile_context *ctx)
{
    static struct { char text[1024]; size_t n; pcre2_code *code; } kept[8];
    const size_t k = sizeof kept / sizeof *kept;
    size_t i = 0;

    while (i < k && kept[i].code && (kept[i].n != n || memcmp(kept[i].text, pattern, n)))
        i++;
    if (i == k || n > sizeof kept->text)
        abort();                             /* the target's classes have fewer and shorter ones */
    if (!kept[i].code) {
        memcpy(kept[i].text, pattern, n);
        kept[i].n = n;
        kept[i].code = pcre2_compile_8(pattern, n, options, code, at, ctx);
    }
    return kept[i].code;
}

static void keep_code(pcre2_code *code)
{
    (void)code;
}

/* Parses up to three texts; where one is no JSON, the others are still read. */
static void parse(cJSON *o[3], const char *at, size_t n)
{
    for (int i = 0; i < 3 && n; i++) {
        const char *end = memchr(at, 0, n);
        size_t k = end ? (size_t)(end - at) : n;
        if (k && vf_json_parse(&o[i], at, k, NULL))
            o[i] = NULL;
        at += k + (end != NULL);
        n -= k + (end != NULL);
    }
}

static void check_ids(const int64_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cJSON *o[3] = { NULL };
    int64_t *ids, row[MOST], mask[MOST];
    vc_err err = { 0 };
    size_t n = 0;
    int used;

    tokenizer *t = tok_new();
    if (!t || tok_read_vocab(t, vocab, sizeof vocab - 1, merges, sizeof merges - 1, &err) ||
        tok_class_steps(t, "CLIPTokenizer", &err))
        abort();
    parse(o, (const char *)data, size);
    int rc = tok_read_config(t, o[0], o[1], o[2], &err);
    if (rc && !*err.text)
        abort();                             /* a failure without a message */
    if (!rc && !tok_finish(t, &err)) {
        if (!tokenizer_prompt(t, text, MOST, row, mask, &used, &err)) {
            check_ids(row, MOST);
            if (used < 0 || used > MOST)
                abort();
        } else if (!tokenizer_ids(t, text, sizeof text - 1, &ids, &n, &err)) {
            check_ids(ids, n);               /* it has no pad token, or too many of its own */
            free(ids);
        }
    }
    for (int i = 0; i < 3; i++)
        cJSON_Delete(o[i]);
    tokenizer_close(t);
    return 0;
}
