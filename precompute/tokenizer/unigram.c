/* unigram.c - the best path of a word through pieces with scores (Kudo 2018). See
 * parts.h */
#include <math.h>
#include <stdlib.h>

#include "precompute/tokenizer/parts.h"

static const double UNK_PENALTY = 10;    /* of an unknown character, below the worst piece */

int tok_unigram_add(tokenizer *t, const char *s, size_t n, double score, vc_err *err)
{
    tok_unigram *u = &t->unigram;
    int32_t id = (int32_t)u->n;

    if (n > TOK_PIECE_MAX || u->pieces.n > TOK_NODES_MAX)
        return vc_fail(err, VC_EFORMAT, "piece %zu has %zu bytes, and the trie of earlier pieces "
                       "%zu "
                       "nodes: at most %d and %d are expected", u->n, n, u->pieces.n, TOK_PIECE_MAX,
                       TOK_NODES_MAX);
    if (u->n >= TOK_ID_MAX || tok_grow((void **)&u->score, &u->cap, u->n, sizeof *u->score)
        || tok_vocab_add(&t->vocab, s, n, id)
        || (n && tok_trie_add(&u->pieces, s, n, id)))
        return vc_no_memory(err);
    u->score[u->n++] = score;
    return 0;
}

int tok_unigram_done(tokenizer *t, vc_err *err)
{
    tok_unigram *u = &t->unigram;

    if (!u->n)
        return vc_fail(err, VC_EFORMAT, "a vocabulary without pieces");
    if (u->unk < 0 || (size_t)u->unk >= u->n)
        return vc_fail(err, VC_EFORMAT, "unk_id %d of %zu pieces", u->unk, u->n);
    double least = u->score[0];
    for (size_t i = 0; i < u->n; i++) {
        if (!isfinite(u->score[i]))
            return vc_fail(err, VC_EFORMAT, "piece %zu: its score is not finite", i);
        least = fmin(least, u->score[i]);
    }
    u->unk_score = least - UNK_PENALTY;
    return 0;
}

void tok_unigram_free(tok_unigram *u)
{
    tok_trie_free(&u->pieces);
    free(u->score);
}

/* A place in the word: the best path that ends at the place, and the piece of the whole word's best
 * path that begins at the place. */
typedef struct node {
    double score;
    int32_t from, id;                    /* the path's last piece; from -1: no path yet */
    int32_t to, piece;
} node;

static void offer(node *to, double score, size_t from, int32_t id)
{
    if (to->from < 0 || score > to->score) {
        to->score = score;
        to->from = (int32_t)from;
        to->id = id;
    }
}

static void best_paths(const tok_unigram *u, node *end, const char *s, size_t n)
{
    for (size_t i = 0; i <= n; i++)
        end[i].from = -1;
    end[0].score = 0;

    for (size_t at = 0, len; at < n; at += len) {
        double before = end[at].score;
        size_t in = 0;
        bool single = false;
        tok_char(s + at, &len);
        for (size_t i = at; i < n && (in = tok_trie_step(&u->pieces, in, s[i])); i++) {
            int32_t id = u->pieces.value[in];
            if (id < 0)
                continue;
            offer(&end[i + 1], before + u->score[id], at, id);
            single = single || i + 1 == at + len;
        }
        if (!single)
            offer(&end[at + len], before + u->unk_score, at, u->unk);
    }
}

/* Reverses the links, which lead from the end to the start; consecutive unknowns become one. */
static void turn_round(node *end, size_t n, int32_t unk)
{
    int32_t to = (int32_t)n;

    for (int32_t at = to, from; at > 0; at = from) {
        from = end[at].from;
        end[from].to = to;
        end[from].piece = end[at].id;
        if (end[at].id != unk || !from || end[from].id != unk)
            to = from;
    }
}

/* Ids of a piece of the path: known, spelled in bytes, or unknown. */
static int put_piece(const tokenizer *t, tok_run *r, const char *s, size_t n, int32_t id)
{
    int rc = 0;

    if (id == t->unigram.unk)
        id = tok_vocab_id(&t->vocab, s, n);      /* consecutive unknowns may spell a piece */
    if (id >= 0)
        return tok_add_id(&r->ids, id);
    if (!t->unigram.byte_fallback || !tok_has_bytes(t, s, n))
        return tok_add_id(&r->ids, t->unigram.unk);
    for (size_t i = 0; !rc && i < n; i++)
        rc = tok_add_id(&r->ids, t->byte_id[(uint8_t)s[i]]);
    return rc;
}

int tok_unigram_word(const tokenizer *t, tok_run *r, const char *s, size_t n)
{
    node *end = tok_scratch(r, (n + 1) * sizeof *end);
    int rc = 0;

    if (!end)
        return VC_ENOMEM;
    best_paths(&t->unigram, end, s, n);
    turn_round(end, n, t->unigram.unk);
    for (size_t at = 0; !rc && at < n; at = (size_t)end[at].to)
        rc = put_piece(t, r, s + at, (size_t)end[at].to - at, end[at].piece);
    return rc;
}
