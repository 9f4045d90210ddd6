/* steps.c - the normalisers and pre-tokenizers of a tokenizer. See parts.h */
#include <stdlib.h>
#include <string.h>

#include "precompute/tokenizer/parts.h"

/* Limits of the steps on a text of n bytes: BASE + GROWTH * n bytes, words or matches; for the
 * work, the same for each step, in bytes written and in items of patterns tried. The greatest
 * growth of a normal form is elevenfold; common patterns try less than 50 items a byte. */
enum {
    TEXT_BASE = 1 << 16, TEXT_GROWTH = 16, SPANS_BASE = 1 << 16, SPANS_GROWTH = 4,
    WORK_BASE = 1 << 18,
    WORK_GROWTH = 512
};

const char *const tok_gpt2_pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* ---- the list ---- */

tok_step *tok_steps_add(tok_steps *s, tok_kind kind)
{
    if (tok_grow((void **)&s->step, &s->cap, s->n, sizeof *s->step))
        return NULL;
    tok_step *step = &s->step[s->n++];
    *step = (tok_step){ .kind = kind };
    return step;
}

int tok_step_text(tok_step *s, const char *text, size_t n)
{
    s->text = malloc(n + 1);
    if (!s->text)
        return VC_ENOMEM;
    memcpy(s->text, text, n);
    s->text[n] = 0;
    s->n = n;
    return 0;
}

int tok_step_regex(tok_step *s, const char *pattern, vc_err *err)
{
    s->find.by = TOK_BY_REGEX;
    s->find.text = strdup(pattern);
    if (!s->find.text)
        return vc_no_memory(err);
    return tok_regex_open(&s->find.re, pattern, err);
}

void tok_steps_free(tok_steps *s)
{
    for (size_t i = 0; i < s->n; i++) {
        free(s->step[i].text);
        free(s->step[i].find.text);
        tok_regex_close(s->step[i].find.re);
    }
    free(s->step);
    *s = (tok_steps){ 0 };
}

void tok_steps_hash(const tok_steps *s, vf_hasher *h)
{
    for (size_t i = 0; i < s->n; i++) {
        const tok_step *p = &s->step[i];
        const int32_t plain[] = { p->kind, p->find.by, p->find.class, p->invert, p->behavior,
                                  p->form, p->left, p->right, p->scheme, p->split };
        vf_hasher_bytes(h, "step", plain, sizeof plain);
        vf_hasher_str(h, "find", p->find.text ? p->find.text : "");
        vf_hasher_bytes(h, "text", p->text ? p->text : "", p->n);
    }
}

/* ---- a run ---- */

int tok_run_begin(tok_run *r, size_t steps, size_t n, vc_err *err)
{
    r->given = n;
    r->most = TEXT_BASE + TEXT_GROWTH * n;
    r->work = (steps + 1) * (WORK_BASE + (uint64_t)WORK_GROWTH * n);
    r->words.most = r->next.most = r->found.most = SPANS_BASE + SPANS_GROWTH * n;
    int rc = tok_matcher_open(&r->matcher, err);
    if (!rc)
        tok_matcher_allow(r->matcher, r->work);
    return rc;
}

void tok_run_free(tok_run *r)
{
    tok_matcher_close(r->matcher);
    vc_buf_free(&r->text);
    vc_buf_free(&r->other);
    free(r->words.v);
    free(r->next.v);
    free(r->found.v);
    free(r->scratch);
    free(r->ids.v);
}

int tok_add_span(tok_spans *s, size_t at, size_t n, bool hit, bool first)
{
    if (s->n >= s->most)
        return VC_EFULL;
    int rc = tok_grow((void **)&s->v, &s->cap, s->n, sizeof *s->v);
    if (!rc)
        s->v[s->n++] = (tok_span){ at, n, hit, first };
    return rc;
}

/* The message of a step that ran out of memory or over its limit. */
static int fail_step(const tok_run *r, int rc, vc_err *err)
{
    if (rc == VC_ENOMEM)
        return vc_fail(err, rc, "out of memory");
    return rc != VC_EFULL ? rc
         : vc_fail(err, VC_EFORMAT, "it makes too much of a text of %zu bytes: more than %zu bytes "
                   "or "
                   "%zu pieces", r->given, r->most, r->found.most);
}

/* Adds to r->other; VC_EFULL over the limit of a text. */
static int put(tok_run *r, const char *s, size_t n)
{
    if (n > r->most || r->other.n > r->most - n)
        return VC_EFULL;
    vc_buf_add(&r->other, s, n);
    return r->other.failed ? VC_ENOMEM : 0;
}

int tok_add_id(tok_ids *ids, int64_t id)
{
    int rc = tok_grow((void **)&ids->v, &ids->cap, ids->n, sizeof *ids->v);
    if (!rc)
        ids->v[ids->n++] = id;
    return rc;
}

void *tok_scratch(tok_run *r, size_t bytes)
{
    if (bytes > r->scratch_size) {
        free(r->scratch);
        r->scratch = malloc(bytes);
        r->scratch_size = r->scratch ? bytes : 0;
    }
    return r->scratch;
}

/* ---- search ---- */

/* Cuts s[0..n) into matches and the texts between them, in order and without gaps. */
static int add_hit(tok_spans *out, size_t *done, size_t from, size_t to)
{
    int rc = from > *done ? tok_add_span(out, *done, from - *done, false, false) : 0;
    *done = to;
    return rc ? rc : tok_add_span(out, from, to - from, true, false);
}

static int find_regex(const tok_regex *re, tok_run *r, const char *s, size_t n, size_t *done,
                      vc_err *err)
{
    size_t at = 0, start, end, last = SIZE_MAX, len;
    bool found;

    while (at <= n) {
        int rc = tok_regex_find(re, r->matcher, s, n, at, &found, &start, &end, err);
        if (rc || !found)
            return rc;
        at = end;
        if (start == end) {              /* an empty match right after a match does not count */
            len = 1;
            if (end < n)
                tok_char(s + end, &len);
            at = end + len;
            if (end == last)
                continue;
        }
        last = end;
        if ((rc = add_hit(&r->found, done, start, end)))
            return rc;
    }
    return 0;
}

static int find_class(const tok_pattern *p, tok_run *r, const char *s, size_t n, size_t *done)
{
    int rc = 0;
    for (size_t i = 0, len; !rc && i < n; i += len)
        if (tok_is(tok_char(s + i, &len), p->class))
            rc = add_hit(&r->found, done, i, i + len);
    return rc;
}

static int find_text(const tok_pattern *p, tok_run *r, const char *s, size_t n, size_t *done)
{
    size_t len = strlen(p->text);
    int rc = 0;

    for (const char *at = s, *hit;
         !rc && (hit = memmem(at, n - (size_t)(at - s), p->text, len)); at = hit + len)
        rc = add_hit(&r->found, done, (size_t)(hit - s), (size_t)(hit - s) + len);
    return rc;
}

/* Runs of word characters, and runs of characters that are neither word nor space. */
static int find_words(tok_run *r, const char *s, size_t n, size_t *done)
{
    size_t from = 0, len;
    int before = 0, rc = 0;              /* before: 0 space, 1 word, 2 other */

    for (size_t i = 0; !rc && i <= n; i += len) {
        len = 1;
        uint32_t c = i < n ? tok_char(s + i, &len) : ' ';
        int kind = tok_is(c, TOK_IS_WORD) ? 1 : tok_is(c, TOK_IS_SPACE) ? 0 : 2;
        if (kind == before)
            continue;
        if (before)
            rc = add_hit(&r->found, done, from, i);
        from = i;
        before = kind;
    }
    return rc;
}

static int find(const tok_pattern *p, tok_run *r, const char *s, size_t n, vc_err *err)
{
    size_t done = 0;
    int rc = 0;

    r->found.n = 0;
    switch (p->by) {
    case TOK_BY_CLASS: rc = find_class(p, r, s, n, &done); break;
    case TOK_BY_REGEX: rc = find_regex(p->re, r, s, n, &done, err); break;
    case TOK_BY_TEXT: rc = find_text(p, r, s, n, &done); break;
    case TOK_BY_WORDS: rc = find_words(r, s, n, &done); break;
    }
    if (!rc && done < n)
        rc = tok_add_span(&r->found, done, n - done, false, false);
    return rc;
}

/* ---- steps that change texts ---- */

static int replace(const tok_step *s, tok_run *r, vc_err *err)
{
    int rc = find(&s->find, r, r->text.data, r->text.n, err);

    for (size_t i = 0; !rc && i < r->found.n; i++) {
        const tok_span *f = &r->found.v[i];
        rc = f->hit ? put(r, s->text, s->n) : put(r, r->text.data + f->at, f->n);
    }
    return rc;
}

static void strip(const tok_step *s, tok_run *r)
{
    const char *p = r->text.data;
    size_t from = 0, to = r->text.n, len;

    while (s->left && from < to && tok_is(tok_char(p + from, &len), TOK_IS_SPACE))
        from += len;
    while (s->right && to > from && tok_is(tok_last_char(p, to), TOK_IS_SPACE))
        do
            to--;
        while (((uint8_t)p[to] & 0xc0) == 0x80);
    vc_buf_add(&r->other, p + from, to - from);
}

static void strip_accents(tok_run *r)
{
    for (size_t i = 0, len; i < r->text.n; i += len)
        if (!tok_is(tok_char(r->text.data + i, &len), TOK_IS_MARK))
            vc_buf_add(&r->other, r->text.data + i, len);
}

/* r->text -> r->other */
static int change(const tok_step *s, tok_run *r, vc_err *err)
{
    switch (s->kind) {
    case TOK_NORMAL_FORM:
        return tok_normalize(&r->other, r->text.data, r->text.n, s->form, err);
    case TOK_LOWERCASE: tok_lower(&r->other, r->text.data, r->text.n); return 0;
    case TOK_REPLACE: return replace(s, r, err);
    case TOK_CHARSMAP:
        return tok_charsmap_apply(&s->map, &r->other, r->most, r->text.data, r->text.n);
    case TOK_STRIP: strip(s, r); return 0;
    case TOK_STRIP_ACCENTS: strip_accents(r); return 0;
    default: {
        int rc = put(r, s->text, s->n);
        return rc ? rc : put(r, r->text.data, r->text.n);
    }
    }
}

/* The written text becomes the text that the next step reads. */
static int swap_texts(tok_run *r)
{
    vc_buf b = r->text;

    r->text = r->other;
    r->other = b;
    r->other.n = 0;
    if (r->text.failed)
        return VC_ENOMEM;
    if (r->text.n > r->most || r->text.n > r->work)
        return VC_EFULL;
    r->work -= r->text.n;
    return 0;
}

static const char *const names[] = {
    [TOK_NORMAL_FORM] = "a normal form", [TOK_LOWERCASE] = "Lowercase", [TOK_REPLACE] = "Replace",
    [TOK_PREPEND] = "Prepend", [TOK_CHARSMAP] = "Precompiled", [TOK_STRIP] = "Strip",
    [TOK_STRIP_ACCENTS] = "StripAccents", [TOK_SPLIT] = "Split", [TOK_METASPACE] = "Metaspace",
    [TOK_BYTE_LEVEL] = "ByteLevel"
};

/* "normalizer: step 3, Replace "a": it makes too much ..." */
static int name_step(const tok_run *r, const char *list, const tok_steps *s, size_t i, int rc,
                     vc_err *err)
{
    const tok_step *p = &s->step[i];
    const char *what = p->find.text ? p->find.text : "";

    rc = fail_step(r, rc, err);
    return vc_context(err, rc, "%s: step %zu, %s%s%.60s%s", list, i + 1, names[p->kind],
                      *what ? " \"" : "", what, *what ? "\"" : "");
}

int tok_run_normalizer(const tok_steps *s, tok_run *r, vc_err *err)
{
    for (size_t i = 0; i < s->n; i++) {
        if (!r->text.n)
            return 0;                    /* an empty text stays empty */
        r->other.n = 0;
        int rc = change(&s->step[i], r, err);
        if (!rc)
            rc = swap_texts(r);
        if (rc)
            return name_step(r, "normalizer", s, i, rc, err);
    }
    return 0;
}

/* ---- steps that change words ---- */

static bool is_hit(const tok_step *s, const tok_span *f)
{
    return f->hit != s->invert;
}

/* Whether the i-th part of a word belongs to the word before it, under the rules that look back. */
static bool joins(const tok_step *s, const tok_spans *f, size_t i)
{
    bool hit = is_hit(s, &f->v[i]), before = i && is_hit(s, &f->v[i - 1]);

    if (s->behavior == TOK_CONTIGUOUS)
        return i && hit == before;
    return s->behavior == TOK_MERGED_WITH_PREVIOUS && i && hit && !before;
}

/* Whether the i-th part goes in front of the next part: a match that no match follows. */
static bool leads(const tok_step *s, const tok_spans *f, size_t i)
{
    return s->behavior == TOK_MERGED_WITH_NEXT && i + 1 < f->n && is_hit(s, &f->v[i])
           && !is_hit(s, &f->v[i + 1]);
}

/* Puts the parts of r->found, of the word at `at`, into r->next. */
static int put_parts(const tok_step *s, tok_run *r, size_t at, bool first)
{
    const tok_spans *f = &r->found;
    size_t begun = r->next.n;
    int rc = 0;

    for (size_t i = 0; !rc && i < f->n; i++) {
        const tok_span *p = &f->v[i];
        size_t n = p->n;
        if (s->behavior == TOK_REMOVED && is_hit(s, p))
            continue;
        if (joins(s, f, i) && r->next.n > begun) {
            r->next.v[r->next.n - 1].n += n;
            continue;
        }
        if (leads(s, f, i))
            n += f->v[++i].n;
        if (n)
            rc = tok_add_span(&r->next, at + p->at, n, false, first && p->at == 0);
    }
    return rc;
}

static int split(const tok_step *s, tok_run *r, vc_err *err)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < r->words.n; i++) {
        tok_span w = r->words.v[i];
        rc = find(&s->find, r, r->text.data + w.at, w.n, err);
        if (!rc)
            rc = put_parts(s, r, w.at, w.first);
    }
    return rc;
}

/* A word with marks for its blanks, and a mark in front if `lead`. */
static int put_marked(const tok_step *s, tok_run *r, const char *p, size_t n, bool lead)
{
    int rc = lead ? put(r, s->text, s->n) : 0;

    for (size_t k = 0, from = 0; !rc && k <= n; k++)
        if (k == n || p[k] == ' ') {
            rc = put(r, p + from, k - from);
            if (!rc && k < n)
                rc = put(r, s->text, s->n);
            from = k + 1;
        }
    return rc;
}

/* Blanks become the mark, one may be put in front, and words end before each mark. */
static int metaspace(const tok_step *s, tok_run *r, vc_err *err)
{
    tok_step marks = { .kind = TOK_SPLIT, .find = { .by = TOK_BY_TEXT, .text = s->text },
                       .behavior = TOK_MERGED_WITH_NEXT };
    int rc = 0;

    for (size_t i = 0; !rc && i < r->words.n; i++) {
        tok_span w = r->words.v[i];
        const char *p = r->text.data + w.at;
        size_t at = r->other.n;
        bool marked = *p == ' ' || (w.n >= s->n && !memcmp(p, s->text, s->n));
        rc = put_marked(s, r, p, w.n,
                        !marked && (s->scheme == TOK_ALWAYS ||
                                    (s->scheme == TOK_FIRST && w.first)));
        if (!rc && s->split)
            rc = find(&marks.find, r, r->other.data + at, r->other.n - at, err);
        if (!rc)
            rc = s->split ? put_parts(&marks, r, at, w.first)
                          : tok_add_span(&r->next, at, r->other.n - at, false, w.first);
    }
    return rc ? rc : swap_texts(r);
}

/* GPT-2's letters for bytes: printable bytes of Latin 1 stand for themselves, the others, in order,
 * are U+0100 and up. */
static uint32_t byte_letter(uint8_t b)
{
    if ((b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae)
        return b;
    return b <= ' ' ? 0x100u + b : b <= 0xa0 ? 0x121u + (b - 0x7fu) : 0x143u;
}

static int byte_level(tok_run *r)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < r->words.n; i++) {
        tok_span w = r->words.v[i];
        size_t at = r->other.n;
        for (size_t k = 0; k < w.n; k++)
            tok_put_char(&r->other, byte_letter((uint8_t)r->text.data[w.at + k]));
        rc = tok_add_span(&r->next, at, r->other.n - at, false, w.first);
    }
    return rc ? rc : swap_texts(r);
}

int tok_run_splits(const tok_steps *s, tok_run *r, bool first, vc_err *err)
{
    r->words.n = 0;
    if (r->text.n && tok_add_span(&r->words, 0, r->text.n, false, first))
        return vc_no_memory(err);

    for (size_t i = 0; i < s->n && r->words.n; i++) {
        const tok_step *step = &s->step[i];
        r->next.n = r->other.n = 0;
        int rc = step->kind == TOK_SPLIT ? split(step, r, err)
               : step->kind == TOK_METASPACE ? metaspace(step, r, err)
                                             : byte_level(r);
        if (rc)
            return name_step(r, "pre_tokenizer", s, i, rc, err);
        tok_spans words = r->words;
        r->words = r->next;
        r->next = words;
    }
    return 0;
}
