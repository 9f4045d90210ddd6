/* spiece.c - spiece.model: SentencePiece's ModelProto, unigram, as the T5 tokenizer of
 * transformers uses it: every piece is in the trie, control and user-defined pieces are added
 * tokens, <extra_id_N> come after the last piece in falling order. See parts.h */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/utf8.h"
#include "precompute/tokenizer/parts.h"

/* ---- the wire format of protocol buffers ---- */

typedef struct wire {
    const uint8_t *at, *end;
} wire;

typedef struct field {
    uint64_t number;
    int type;                            /* 0 varint, 1 64 bits, 2 bytes, 5 32 bits */
    uint64_t value;                      /* of 0, 1, 5 */
    wire bytes;                          /* of 2 */
} field;

static bool varint(wire *w, uint64_t *v)
{
    *v = 0;
    for (int shift = 0; w->at < w->end && shift < 64; shift += 7) {
        uint8_t b = *w->at++;
        *v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return true;
    }
    return false;
}

static bool fixed(wire *w, int n, uint64_t *v)
{
    if (w->end - w->at < n)
        return false;
    *v = 0;
    for (int i = 0; i < n; i++)
        *v |= (uint64_t)*w->at++ << 8 * i;
    return true;
}

/* The next field of a message; *more false: its end. */
static int next_field(wire *w, field *f, bool *more, vc_err *err)
{
    uint64_t key = 0, n = 0;

    *more = w->at < w->end;
    if (!*more)
        return 0;
    bool ok = varint(w, &key);
    f->number = key >> 3;
    f->type = (int)(key & 7);
    f->value = 0;
    f->bytes = (wire){ 0 };
    switch (f->type) {
    case 0: ok = ok && varint(w, &f->value); break;
    case 1: ok = ok && fixed(w, 8, &f->value); break;
    case 5: ok = ok && fixed(w, 4, &f->value); break;
    case 2:
        ok = ok && varint(w, &n) && n <= (uint64_t)(w->end - w->at);
        if (ok) {
            f->bytes = (wire){ w->at, w->at + n };
            w->at += n;
        }
        break;
    default: ok = false;
    }
    return ok && f->number ? 0 : vc_fail(err, VC_EFORMAT, "damaged, or no SentencePiece model");
}

/* ---- ModelProto ---- */

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

typedef struct spec {
    uint64_t model_type, unk_id;
    bool byte_fallback, dummy_prefix, trim, escape;
    wire charsmap;
} spec;

static int read_piece(tokenizer *t, wire w, spec *s, vc_err *err)
{
    wire text = { 0 };
    uint64_t type = NORMAL;
    uint32_t bits = 0;
    float score;
    field f;
    bool more = true;
    int rc = 0;

    while (!rc && more && !(rc = next_field(&w, &f, &more, err)) && more) {
        if (f.number == 1 && f.type == 2)
            text = f.bytes;
        else if (f.number == 2 && f.type == 5)
            bits = (uint32_t)f.value;
        else if (f.number == 3 && f.type == 0)
            type = f.value;
    }
    if (rc)
        return rc;
    memcpy(&score, &bits, sizeof score);
    const char *p = text.at ? (const char *)text.at : "";
    size_t n = (size_t)(text.end - text.at), id = t->unigram.n;
    if (vc_utf8_prefix(p, n) < n || memchr(p, 0, n) || type < NORMAL || type > BYTE)
        return vc_fail(err, VC_EFORMAT, "piece %zu: its text or type is damaged", id);
    if (!isfinite(score))
        return vc_fail(err, VC_EFORMAT, "piece %zu: its score is not finite", id);
    if (type == UNKNOWN)
        s->unk_id = id;
    int added = tok_unigram_add(t, p, n, score, err);
    if (added)
        return added;
    if (type != UNKNOWN && type != CONTROL && type != USER_DEFINED)
        return 0;

    char name[256];
    if (n >= sizeof name)
        return vc_fail(err, VC_EFORMAT, "piece %zu: a special token of %zu bytes", id, n);
    memcpy(name, p, n);
    name[n] = 0;
    return tok_add_token(t, &(tok_added){ .text = name, .id = (int32_t)id }, err);
}

static int read_trainer(wire w, spec *s, vc_err *err)
{
    field f;
    bool more = true;
    int rc = 0;

    while (!rc && more && !(rc = next_field(&w, &f, &more, err)) && more) {
        if (f.type == 0 && f.number == 3)
            s->model_type = f.value;
        if (f.type == 0 && f.number == 35)
            s->byte_fallback = f.value;
    }
    return rc;
}

static int read_normalizer(wire w, spec *s, vc_err *err)
{
    field f;
    bool more = true;
    int rc = 0;

    while (!rc && more && !(rc = next_field(&w, &f, &more, err)) && more) {
        if (f.type == 2 && f.number == 2)
            s->charsmap = f.bytes;
        if (f.type == 0 && f.number == 3)
            s->dummy_prefix = f.value;
        if (f.type == 0 && f.number == 4)
            s->trim = f.value;
        if (f.type == 0 && f.number == 5)
            s->escape = f.value;
    }
    return rc;
}

static int read_proto(tokenizer *t, wire w, spec *s, vc_err *err)
{
    field f;
    bool more = true;
    int rc = 0;

    while (!rc && more && !(rc = next_field(&w, &f, &more, err)) && more) {
        if (f.type != 2)
            continue;
        if (f.number == 1)
            rc = read_piece(t, f.bytes, s, err);
        else if (f.number == 2)
            rc = vc_context(err, read_trainer(f.bytes, s, err), "trainer_spec");
        else if (f.number == 3)
            rc = vc_context(err, read_normalizer(f.bytes, s, err), "normalizer_spec");
    }
    return rc;
}

/* ---- the tokenizer of the model ---- */

static int make_steps(tokenizer *t, const spec *s, vc_err *err)
{
    size_t n = (size_t)(s->charsmap.end - s->charsmap.at);
    tok_step *p;

    if (n) {
        if (!(p = tok_steps_add(&t->normalizer, TOK_CHARSMAP))
            || tok_step_text(p, (const char *)s->charsmap.at, n))
            return vc_no_memory(err);
        int rc = tok_charsmap_of(&p->map, p->text, p->n, err);
        if (rc)
            return rc;
    }
    if (s->trim) {
        if (!(p = tok_steps_add(&t->splits, TOK_SPLIT)))
            return vc_no_memory(err);
        p->find.class = TOK_IS_SPACE;
        p->behavior = TOK_REMOVED;
    }
    if (!(p = tok_steps_add(&t->splits, TOK_METASPACE)) || tok_step_text(p, "\xe2\x96\x81", 3))
        return vc_no_memory(err);
    p->split = s->trim;                  /* blanks that count may be inside of pieces */
    p->scheme = s->dummy_prefix ? TOK_ALWAYS : TOK_NEVER;
    return 0;
}

static int add_extra_ids(tokenizer *t, int n, vc_err *err)
{
    char name[32];

    for (int i = n; i-- > 0;) {
        int len = snprintf(name, sizeof name, "<extra_id_%d>", i);
        if (tok_vocab_id(&t->vocab, name, (size_t)len) >= 0)
            continue;
        tok_added a = { .text = name, .id = (int32_t)t->unigram.n };
        int rc = tok_unigram_add(t, name, (size_t)len, 0, err);
        if (!rc)
            rc = tok_add_token(t, &a, err);
        if (rc)
            return rc;
    }
    return 0;
}

int tok_read_spiece(tokenizer *t, const void *data, size_t n, int extra_ids, vc_err *err)
{
    const uint8_t *p = data;
    spec s = { .model_type = 1, .dummy_prefix = true, .trim = true, .escape = true };

    t->model = TOK_UNIGRAM;
    int rc = read_proto(t, (wire){ p, p + n }, &s, err);
    if (rc)
        return rc;
    if (s.model_type != 1)
        return vc_fail(err, VC_EFORMAT, "model_type %llu: only unigram (1) is known here",
                       (unsigned long long)s.model_type);
    if (!s.escape)
        return vc_fail(err, VC_EFORMAT, "escape_whitespaces false is not known here");
    t->unigram.unk = s.unk_id < t->unigram.n ? (int32_t)s.unk_id : -1;
    t->unigram.byte_fallback = s.byte_fallback;
    if ((rc = add_extra_ids(t, extra_ids, err)) || (rc = tok_unigram_done(t, err))
        || (rc = make_steps(t, &s, err)))
        return rc;
    int32_t eos = tok_id_of(t, "</s>");
    if (eos < 0)
        return vc_fail(err, VC_EFORMAT, "it has no piece </s>");
    return tok_set_template(t, -1, eos) ? vc_no_memory(err) : 0;
}
