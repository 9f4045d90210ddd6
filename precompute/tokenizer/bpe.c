/* bpe.c - byte-pair merges of a word by rank (Sennrich et al. 2016). See parts.h
 *
 * The pairs of a word wait in a heap by rank, then place; the symbols are a linked list. A word of
 * n symbols takes n log n. */
#include <stdlib.h>
#include <string.h>

#include "precompute/tokenizer/parts.h"

void tok_bpe_free(tok_bpe *b)
{
    tok_map_free(&b->merges);
    free(b->prefix);
    free(b->suffix);
}

static int32_t part_id(const tokenizer *t, const char *s, size_t n, uint32_t rank, int *rc,
                       vc_err *err)
{
    int32_t id = tok_vocab_id(&t->vocab, s, n);
    if (id < 0 && !*rc)
        *rc = vc_fail(err, VC_EFORMAT, "merge %u: \"%.*s\" is not in the vocabulary",
                      (unsigned)rank, (int)(n < 100 ? n : 100), s);
    return id;
}

int tok_bpe_merge(tokenizer *t, uint32_t rank, const char *a, size_t na, const char *b, size_t nb,
                  vc_err *err)
{
    size_t skip = t->bpe.prefix ? strlen(t->bpe.prefix) : 0;
    vc_buf both = { 0 };
    int rc = 0;

    if (skip > nb)
        skip = nb;
    vc_buf_add(&both, a, na);
    vc_buf_add(&both, b + skip, nb - skip);
    if (both.failed)
        return vc_no_memory(err);
    uint64_t left = (uint32_t)part_id(t, a, na, rank, &rc, err);
    uint64_t right = (uint32_t)part_id(t, b, nb, rank, &rc, err);
    uint64_t whole = (uint32_t)part_id(t, both.data ? both.data : "", both.n, rank, &rc, err);
    vc_buf_free(&both);
    if (!rc && tok_map_put(&t->bpe.merges, left << 32 | right, (uint64_t)rank << 32 | whole))
        rc = vc_no_memory(err);
    return rc;
}

/* ---- a word ---- */

typedef struct symbol {
    int32_t id;                          /* -1: merged into the symbol before */
    int32_t before, after;               /* -1: none */
} symbol;

typedef struct pair {
    uint64_t order;                      /* rank << 32 | place of the left symbol */
    int32_t id;                          /* of the merged symbol */
} pair;

typedef struct merging {
    symbol *v;
    pair *heap;
    size_t n, waiting;
} merging;

static void push(merging *w, pair p)
{
    size_t i = w->waiting++;

    for (size_t up; i && p.order < w->heap[up = (i - 1) / 2].order; i = up)
        w->heap[i] = w->heap[up];
    w->heap[i] = p;
}

static pair pop(merging *w)
{
    pair top = w->heap[0], last = w->heap[--w->waiting];
    size_t i = 0;

    for (size_t down; (down = 2 * i + 1) < w->waiting; i = down) {
        if (down + 1 < w->waiting && w->heap[down + 1].order < w->heap[down].order)
            down++;
        if (last.order <= w->heap[down].order)
            break;
        w->heap[i] = w->heap[down];
    }
    w->heap[i] = last;
    return top;
}

/* Puts the pair of symbol i and the one after it into the heap, if the two merge. */
static void consider(const tok_bpe *b, merging *w, int32_t i)
{
    uint64_t to;

    if (i < 0 || w->v[i].after < 0)
        return;
    uint64_t left = (uint32_t)w->v[i].id, right = (uint32_t)w->v[w->v[i].after].id;
    if (tok_map_get(&b->merges, left << 32 | right, &to))
        push(w, (pair){ (to & 0xffffffff00000000u) | (uint32_t)i, (int32_t)(uint32_t)to });
}

static void merge_all(const tok_bpe *b, merging *w)
{
    uint64_t to;

    for (size_t i = 0; i < w->n; i++)
        consider(b, w, (int32_t)i);
    while (w->waiting) {
        pair p = pop(w);
        symbol *left = &w->v[(uint32_t)p.order];
        if (left->id < 0 || left->after < 0)
            continue;
        symbol *right = &w->v[left->after];
        if (!tok_map_get(&b->merges, (uint64_t)(uint32_t)left->id << 32 | (uint32_t)right->id,
                         &to)
            || (int32_t)(uint32_t)to != p.id)
            continue;                    /* one of the two has merged with another symbol since */
        left->id = p.id;
        left->after = right->after;
        right->id = -1;
        if (left->after >= 0)
            w->v[left->after].before = (int32_t)(uint32_t)p.order;
        consider(b, w, left->before);
        consider(b, w, (int32_t)(uint32_t)p.order);
    }
}

static void put_symbol(merging *w, int32_t id)
{
    int32_t i = (int32_t)w->n++;

    w->v[i] = (symbol){ id, i - 1, -1 };
    if (i)
        w->v[i - 1].after = i;
}

/* The id of one character, with the prefix or suffix of its place in the word. */
static int32_t char_id(const tokenizer *t, const char *s, size_t n, bool begins, bool ends,
                       vc_buf *spelled)
{
    const char *prefix = begins ? NULL : t->bpe.prefix, *suffix = ends ? t->bpe.suffix : NULL;

    spelled->n = 0;
    if (prefix)
        vc_buf_str(spelled, prefix);
    vc_buf_add(spelled, s, n);
    if (suffix)
        vc_buf_str(spelled, suffix);
    return spelled->failed ? -1 : tok_vocab_id(&t->vocab, spelled->data, spelled->n);
}

/* The word's characters as symbols. A character outside the vocabulary is spelled in bytes if the
 * vocabulary has them all, else it is unknown; a run of unknowns may be one symbol, and without an
 * unknown token they are left out. An unknown is added at the next known character, as in the
 * reference. */
static void put_symbols(const tokenizer *t, merging *w, const char *s, size_t n, vc_buf *spelled)
{
    const tok_bpe *b = &t->bpe;
    bool unknown = false;

    for (size_t i = 0, len; i < n; i += len) {
        tok_char(s + i, &len);
        int32_t id = char_id(t, s + i, len, i == 0, i + len == n, spelled);
        if (id >= 0) {
            if (unknown)
                put_symbol(w, b->unk);
            unknown = false;
            put_symbol(w, id);
        } else if (b->byte_fallback && tok_has_bytes(t, spelled->data, spelled->n)) {
            for (size_t k = 0; k < spelled->n; k++)
                put_symbol(w, t->byte_id[(uint8_t)spelled->data[k]]);
        } else if (b->unk >= 0) {
            if (unknown && !b->fuse_unk)
                put_symbol(w, b->unk);
            unknown = true;
        }
    }
    if (unknown)
        put_symbol(w, b->unk);
}

int tok_bpe_word(const tokenizer *t, tok_run *r, const char *s, size_t n)
{
    const tok_bpe *b = &t->bpe;
    int rc = 0;

    int32_t whole = b->ignore_merges ? tok_vocab_id(&t->vocab, s, n) : -1;
    if (whole >= 0)
        return tok_add_id(&r->ids, whole);

    /* at most one symbol for each byte, prefixes and suffixes included; a merge adds one pair on
     * its left and one on its right to the heap */
    size_t worn = (b->prefix ? strlen(b->prefix) * n : 0) + (b->suffix ? strlen(b->suffix) : 0);
    size_t most = n + worn;
    merging w = { 0 };
    w.heap = tok_scratch(r, most * (3 * sizeof *w.heap + sizeof *w.v));
    if (!w.heap)
        return VC_ENOMEM;
    w.v = (symbol *)(void *)(w.heap + 3 * most);
    r->other.n = 0;
    put_symbols(t, &w, s, n, &r->other);
    if (r->other.failed)
        return VC_ENOMEM;
    merge_all(b, &w);
    for (size_t i = 0; !rc && i < w.n; i++)
        if (w.v[i].id >= 0)
            rc = tok_add_id(&r->ids, w.v[i].id);
    return rc;
}
