/* cut.c - see cut.h */
#include "precompute/text/cut.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "common/base/buf.h"
#include "precompute/text/prompt.h"
#include "precompute/tokenizer/tokenizer.h"

enum { NEAR = 32, TOKEN_BYTES = 16,               /* of a long token, about: characters, bytes */
       SLACK = 8 };                               /* tokens that a text may have more or less than
                                                   * its words, beside one in 16 */

struct text_cut {
    tokenizer *tok, *scenes;                      /* scenes: NULL where the rule has none */
    text_rule rule;
    size_t room, front;                           /* tokens for the template's begin and the text;
                                                   * of the begin */
};

void text_cut_close(text_cut *c)
{
    if (!c)
        return;
    tokenizer_close(c->tok);
    tokenizer_close(c->scenes);
    free(c);
}

/* Makes the tokens of the begin of the template and of the first n bytes of a text. */
static int tokens_of(const text_cut *c, const char *text, size_t n, int64_t **ids, size_t *tokens,
                     vc_err *err)
{
    const char *at = c->rule.template ? strstr(c->rule.template, "{}") : NULL;
    const tokenizer *tok = c->scenes && text_has_scenes(&c->rule, text) ? c->scenes : c->tok;
    vc_buf b = { 0 };

    *ids = NULL;
    *tokens = 0;
    vc_buf_add(&b, c->rule.template, at ? (size_t)(at - c->rule.template) : 0);
    vc_buf_add(&b, text, n);
    int rc = b.failed ? vc_no_memory(err) : tokenizer_ids(tok, b.data, b.n, ids, tokens, err);
    vc_buf_free(&b);
    return rc;
}

int text_cut_open(text_cut **out, const encoder_opts *o, const text_rule *rule, vc_err *err)
{
    *out = NULL;
    text_cut *c = calloc(1, sizeof *c);
    if (!c)
        return vc_no_memory(err);

    c->rule = *rule;
    int rc = tokenizer_open(&c->tok, o->tokenizer, err);
    if (!rc && rule->scenes)
        rc = tokenizer_open_with(&c->scenes, o->tokenizer, text_scene_tokens, err);
    int64_t *ids = NULL;
    if (!rc)
        rc = tokens_of(c, "", 0, &ids, &c->front, err);
    free(ids);
    if (rc) {
        text_cut_close(c);
        return rc;
    }
    const size_t all = (size_t)(rule->max_length + rule->crop);
    const size_t own = rule->chat ? 0 : tokenizer_specials(c->tok);
    c->room = all > own ? all - own : 0;
    *out = c;
    return 0;
}

int text_cut_tokens(const text_cut *c, const char *prompt, size_t *lost, vc_err *err)
{
    char *text = text_of_prompt(&c->rule, prompt);
    int64_t *ids = NULL;
    size_t n = 0;
    int rc = text ? tokens_of(c, text, strlen(text), &ids, &n, err) : vc_no_memory(err);

    *lost = n <= c->room ? 0 : n - c->room;
    free(ids);
    free(text);
    return rc;
}

/* ---- words ---- */

void text_words_free(text_words *w)
{
    tok_map_free(&w->tokens);
}

/* Whether a text is words of ASCII with a blank between two, and has no special tokens: then each
 * word has its own tokens in all tokenizers that split texts into words. */
static bool is_common(const char *text)
{
    const char *s = text;

    for (; *s > ' ' && *s < 0x7F && *s != '<' && *s != '|' && *s != '['; s++)
        s += s[1] == ' ';
    return s > text && !*s && s[-1] != ' ';
}

/* The tokens of a word behind another, or of the first word; 0: they are not known. */
static size_t tokens_of_word(const text_cut *c, text_words *w, const char *word, size_t n,
                             bool first)
{
    const uint64_t hash = XXH3_64bits_withSeed(word, n, first) >> 1;
    uint64_t known;
    vc_buf b = { 0 };
    int64_t *ids[2] = { NULL, NULL };
    size_t with = 0, without = 0;

    if (tok_map_get(&w->tokens, hash, &known))
        return known;
    vc_buf_str(&b, first ? "" : "a ");
    vc_buf_add(&b, word, n);
    if (b.failed || tokenizer_ids(c->tok, b.data, b.n, &ids[0], &with, NULL) ||
        (!first && tokenizer_ids(c->tok, "a", 1, &ids[1], &without, NULL)))
        with = without = 0;
    free(ids[0]);
    free(ids[1]);
    vc_buf_free(&b);
    with = with > without ? with - without : 0;
    return tok_map_put(&w->tokens, hash, with) ? 0 : with;
}

/* The tokens of a common text, by those of its words; 0: they are not known. */
static size_t tokens_by_words(const text_cut *c, text_words *w, const char *text)
{
    size_t all = 0;

    if (!is_common(text))
        return 0;
    for (const char *s = text, *end; *s; s = *end ? end + 1 : end) {
        end = s + strcspn(s, " ");
        const size_t n = tokens_of_word(c, w, s, (size_t)(end - s), s == text);
        if (!n)
            return 0;
        all += n;
    }
    return all;
}

bool text_cut_is_longer(const text_cut *c, text_words *w, const char *prompt)
{
    char *text = text_of_prompt(&c->rule, prompt);
    const size_t n = text ? tokens_by_words(c, w, text) : 0, all = c->front + n;
    const size_t slack = SLACK + n / 16;
    size_t lost = 0;

    free(text);
    if (n && (all + slack < c->room || all > c->room + slack))
        return all > c->room;
    return !text_cut_tokens(c, prompt, &lost, NULL) && lost;
}

/* ---- the lost text ---- */

/* Of a text whose tokens have no room, the ids that have. */
typedef struct kept {
    const text_cut *c;
    const char *text;
    int64_t *ids;                                 /* [c->room] */
} kept;

/* The begin of the character that byte `at` belongs to, or of one that is `by` characters on. */
static size_t character(const char *text, size_t at, int by)
{
    while (at && ((uint8_t)text[at] & 0xC0) == 0x80)
        at--;
    for (; by < 0 && at; by++)
        do
            at--;
        while (at && ((uint8_t)text[at] & 0xC0) == 0x80);
    for (; by > 0 && text[at]; by--)
        do
            at++;
        while (((uint8_t)text[at] & 0xC0) == 0x80);
    return at;
}

/* Compares the first n bytes of the text with the kept ids: 0: they are these; -1: they have room
 * and are others; 1: they have no room. */
static int compare(const kept *k, size_t n, int *order, vc_err *err)
{
    int64_t *ids;
    size_t tokens;
    int rc = tokens_of(k->c, k->text, n, &ids, &tokens, err);

    *order = tokens > k->c->room ? 1
             : tokens == k->c->room && !memcmp(ids, k->ids, tokens * sizeof *ids) ? 0 : -1;
    free(ids);
    return rc;
}

/* Sets *hi to the length of a begin of the text that has no room: a short one of a long text. */
static int find_limit(const kept *k, size_t *hi, vc_err *err)
{
    const size_t all = strlen(k->text);
    int order = -1, rc = 0;

    *hi = TOKEN_BYTES * (k->c->room + 1);
    for (; !rc && *hi < all; *hi *= 2) {
        *hi = character(k->text, *hi, 0);
        rc = compare(k, *hi, &order, err);
        if (order > 0)
            return rc;
    }
    *hi = all;
    return rc;
}

/* Sets *at to the place behind the kept text. More bytes make more tokens, but for those of one
 * word: so the place is looked for by halves, and then among its neighbours. */
static int find_end(const kept *k, size_t *at, vc_err *err)
{
    size_t lo = 0, hi;
    int order, rc = find_limit(k, &hi, err);

    while (!rc && lo < hi) {
        size_t mid = character(k->text, lo + (hi - lo) / 2, 0);
        if (mid <= lo)
            mid = character(k->text, lo, 1);
        if (mid >= hi)
            break;
        rc = compare(k, mid, &order, err);
        if (order > 0)
            hi = mid;
        else
            lo = mid;
    }
    *at = lo;
    order = 1;
    for (int by = NEAR; !rc && order && by > -NEAR; by--) {
        const size_t near = character(k->text, lo, by);
        rc = compare(k, near, &order, err);
        if (!order)
            *at = near;
    }
    return rc;
}

int text_cut_end(const text_cut *c, const char *prompt, char **end, vc_err *err)
{
    char *text = text_of_prompt(&c->rule, prompt);
    kept k = { .c = c, .text = text };
    size_t at = 0, n = 0;

    *end = NULL;
    int rc = text ? tokens_of(c, text, strlen(text), &k.ids, &n, err) : vc_no_memory(err);
    if (!rc && n <= c->room)
        at = strlen(text);
    else if (!rc)
        rc = find_end(&k, &at, err);
    if (!rc && !(*end = strdup(text + at)))
        rc = vc_no_memory(err);
    free(k.ids);
    free(text);
    return rc;
}
