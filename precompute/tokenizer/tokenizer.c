/* tokenizer.c - text to ids: added tokens, sections, prompts. See tokenizer.h */
#include "precompute/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/utf8.h"
#include "precompute/tokenizer/parts.h"

tokenizer *tok_new(void)
{
    tokenizer *t = calloc(1, sizeof *t);

    if (t) {
        t->pad = -1;
        t->unigram.unk = t->bpe.unk = -1;
    }
    return t;
}

void tokenizer_close(tokenizer *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_added; i++)
        free(t->added[i].text);
    free(t->added);
    tok_steps_free(&t->normalizer);
    tok_steps_free(&t->splits);
    tok_trie_free(&t->before_normal);
    tok_trie_free(&t->after_normal);
    tok_vocab_free(&t->vocab);
    tok_vocab_free(&t->places);
    tok_unigram_free(&t->unigram);
    tok_bpe_free(&t->bpe);
    free(t->front.v);
    free(t->back.v);
    free(t);
}

vf_key tokenizer_fingerprint(const tokenizer *t)
{
    return t->key;
}

size_t tokenizer_specials(const tokenizer *t)
{
    return t->front.n + t->back.n;
}

int64_t tokenizer_pad(const tokenizer *t)
{
    return t->pad;
}

tokenizer_side tokenizer_padding_side(const tokenizer *t)
{
    return t->side;
}

/* ---- added tokens ---- */

/* The next added token in s[0..n) from *at on, with its begin and its end, including blanks that
 * belong to the token. NULL: there are no more. */
static const tok_added *next_token(const tokenizer *t, const tok_trie *trie, const char *s,
                                   size_t n, size_t *at, size_t *from, size_t *to)
{
    size_t len, skip;

    while (trie->n && *at < n) {
        int32_t place = tok_trie_longest(trie, s + *at, n - *at, &len);
        if (place < 0) {
            (*at)++;
            continue;
        }
        const tok_added *a = &t->added[place];
        *from = *at;
        *to = *at += len;
        if (a->single_word && ((*from && tok_is(tok_last_char(s, *from), TOK_IS_WORD))
                               || (*to < n && tok_is(tok_char(s + *to, &skip), TOK_IS_WORD))))
            continue;
        while (a->lstrip && *from && tok_is(tok_last_char(s, *from), TOK_IS_SPACE))
            do
                (*from)--;
            while (((uint8_t)s[*from] & 0xc0) == 0x80);
        while (a->rstrip && *to < n && tok_is(tok_char(s + *to, &skip), TOK_IS_SPACE))
            *to += skip;
        return a;
    }
    return NULL;
}

typedef int section_fn(const tokenizer *t, tok_run *r, const char *s, size_t n, bool first,
                       vc_err *err);

/* Cuts s[0..n) at the added tokens of a trie: adds their ids, and calls fn for the texts
 * between. */
static int cut(const tokenizer *t, tok_run *r, const tok_trie *trie, const char *s, size_t n,
               bool first, section_fn *fn, vc_err *err)
{
    size_t done = 0, at = 0, from, to;
    const tok_added *a;
    int rc = 0;

    while (!rc && (a = next_token(t, trie, s, n, &at, &from, &to))) {
        if (from > done)
            rc = fn(t, r, s + done, from - done, first && !done, err);
        if (!rc && tok_add_id(&r->ids, a->id))
            rc = vc_no_memory(err);
        done = to;
    }
    if (!rc && done < n)
        rc = fn(t, r, s + done, n - done, first && !done, err);
    return rc;
}

/* ---- sections ---- */

static int put_words(const tokenizer *t, tok_run *r, const char *s, size_t n, bool first,
                     vc_err *err)
{
    r->text.n = 0;
    vc_buf_add(&r->text, s, n);
    if (r->text.failed)
        return vc_no_memory(err);
    int rc = tok_run_splits(&t->splits, r, first, err);
    for (size_t i = 0; !rc && i < r->words.n; i++) {
        const char *w = r->text.data + r->words.v[i].at;
        rc = t->model == TOK_UNIGRAM ? tok_unigram_word(t, r, w, r->words.v[i].n)
                                     : tok_bpe_word(t, r, w, r->words.v[i].n);
        if (rc)
            vc_fail(err, rc, "out of memory");
    }
    return rc;
}

static int put_section(const tokenizer *t, tok_run *r, const char *s, size_t n, bool first,
                       vc_err *err)
{
    r->text.n = 0;
    vc_buf_add(&r->text, s, n);
    if (r->text.failed)
        return vc_no_memory(err);
    int rc = tok_run_normalizer(&t->normalizer, r, err);
    if (rc || !r->text.n)
        return rc;

    size_t len = r->text.n;              /* the text leaves r->text, where words are made */
    char *text = vc_buf_take(&r->text);
    if (!text)
        return vc_no_memory(err);
    rc = cut(t, r, &t->after_normal, text, len, first, put_words, err);
    free(text);
    return rc;
}

int tokenizer_ids(const tokenizer *t, const char *text, size_t bytes, int64_t **ids, size_t *n,
                  vc_err *err)
{
    vc_buf repaired = { 0 };
    tok_run r = { 0 };

    *ids = NULL;
    *n = 0;
    if (bytes > TOKENIZER_TEXT_MAX)
        return vc_fail(err, VC_EINVAL, "a text of %zu bytes; the most is %d", bytes,
                       TOKENIZER_TEXT_MAX);
    int rc = tok_run_begin(&r, t->normalizer.n + t->splits.n, bytes, err);
    if (!rc && vc_utf8_prefix(text, bytes) < bytes) {
        tok_repair(&repaired, text, bytes);
        text = repaired.data;
        bytes = repaired.n;
        if (repaired.failed)
            rc = vc_no_memory(err);
    }
    if (!rc)
        rc = cut(t, &r, &t->before_normal, text, bytes, true, put_section, err);
    if (!rc && !r.ids.v && !(r.ids.v = malloc(sizeof *r.ids.v)))
        rc = vc_no_memory(err);
    if (!rc) {
        *ids = r.ids.v;
        *n = r.ids.n;
        r.ids.v = NULL;
    }
    tok_run_free(&r);
    vc_buf_free(&repaired);
    return rc;
}

/* ---- prompts ---- */

/* The text's tokens between those of front and back, cut and padded to max_length. */
static int fill_prompt(const tokenizer *t, const tok_ids *front, const tok_ids *back,
                       const char *text, int max_length, int64_t *ids, int64_t *mask, int *n,
                       vc_err *err)
{
    size_t own = front->n + back->n, most = max_length < 0 ? 0 : (size_t)max_length, k;
    int64_t *body;

    *n = 0;
    if (own > most || !most)
        return vc_fail(err, VC_EINVAL, "max_length %d does not hold the %zu special tokens of a "
                       "prompt", max_length, own);
    int rc = tokenizer_ids(t, text, strlen(text), &body, &k, err);
    if (rc)
        return rc;
    if (k > most - own)
        k = most - own;
    if (k + own < most && t->pad < 0) {
        free(body);
        return vc_fail(err, VC_EINVAL, "the tokenizer names no pad token: add pad_token to its "
                       "tokenizer_config.json");
    }

    for (size_t i = 0; i < most; i++) {
        size_t first = front->n, end = first + k;
        mask[i] = i < k + own;
        ids[i] = i < first ? front->v[i] : i < end ? body[i - first]
               : mask[i] ? back->v[i - end] : t->pad;
    }
    free(body);
    *n = (int)(k + own);
    return 0;
}

int tokenizer_prompt(const tokenizer *t, const char *text, int max_length, int64_t *ids,
                     int64_t *mask, int *n, vc_err *err)
{
    return fill_prompt(t, &t->front, &t->back, text, max_length, ids, mask, n, err);
}

int tokenizer_chat(const tokenizer *t, const char *text, int max_length, int64_t *ids,
                   int64_t *mask, int *n, vc_err *err)
{
    const tok_ids none = { 0 };
    return fill_prompt(t, &none, &none, text, max_length, ids, mask, n, err);
}
