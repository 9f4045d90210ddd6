/* parts.h - the declarations that the tokenizer's files share; see tokenizer.h.
 *
 *     text -> repaired -> added tokens cut out -> normalised -> added tokens cut out
 *          -> split into words -> each word by the model -> ids
 *
 * The normaliser and the pre-tokenizer are lists of steps; spiece.model and vocab.json become the
 * same lists that tokenizer.json would have given. */
#ifndef PRECOMPUTE_TOKENIZER_PARTS_H
#define PRECOMPUTE_TOKENIZER_PARTS_H

#include "precompute/tokenizer/map.h"
#include "precompute/tokenizer/regex.h"
#include "precompute/tokenizer/text.h"
#include "precompute/tokenizer/tokenizer.h"

/* Limits against hostile files: bytes of a file and of a tree of JSON in it, of an added token
 * and of a prefix or suffix, of a piece, nodes of the trie of all pieces, special tokens of a
 * template. */
enum {
    TOK_FILE_MAX = 1 << 27, TOK_ID_MAX = 1 << 30, TOK_TREE_MAX = 1 << 23, TOK_ADDED_MAX = 1024,
    TOK_PIECE_MAX = 4096, TOK_NODES_MAX = 1 << 24,
    TOK_AFFIX_MAX = 64, TOK_TEMPLATE_MAX = 1024
};

/* ---- steps ---- */

typedef enum {
    TOK_NORMAL_FORM, TOK_LOWERCASE, TOK_REPLACE, TOK_PREPEND, TOK_CHARSMAP, TOK_STRIP,
    TOK_STRIP_ACCENTS,                                    /* change a text */
    TOK_SPLIT, TOK_METASPACE, TOK_BYTE_LEVEL              /* change or split words */
} tok_kind;

typedef enum {
    TOK_REMOVED, TOK_ISOLATED, TOK_CONTIGUOUS, TOK_MERGED_WITH_PREVIOUS, TOK_MERGED_WITH_NEXT
} tok_behavior;

typedef enum { TOK_NEVER, TOK_FIRST, TOK_ALWAYS } tok_scheme;

/* The target of a search in a word: a pattern, a text, runs of word and other characters, or single
 * characters of a class. */
typedef struct tok_pattern {
    enum { TOK_BY_CLASS, TOK_BY_REGEX, TOK_BY_TEXT, TOK_BY_WORDS } by;
    tok_class class;
    char *text;                          /* of the pattern, or the searched text */
    tok_regex *re;
} tok_pattern;

typedef struct tok_step {
    tok_kind kind;
    tok_pattern find;                    /* REPLACE, SPLIT */
    bool invert;                         /* SPLIT: the text between matches counts as match */
    tok_behavior behavior;               /* SPLIT */
    tok_form form;                       /* NORMAL_FORM */
    char *text;                          /* REPLACE: by; PREPEND; METASPACE: the mark; CHARSMAP:
                                            the blob */
    size_t n;                            /* bytes of text */
    tok_charsmap map;
    bool left, right;                    /* STRIP */
    tok_scheme scheme;                   /* METASPACE: the mark in front of words */
    bool split;                          /* METASPACE: words end before each mark */
} tok_step;

typedef struct tok_steps {
    tok_step *step;
    size_t n, cap;
} tok_steps;

tok_step *tok_steps_add(tok_steps *s, tok_kind kind);     /* NULL: out of memory */
int tok_step_text(tok_step *s, const char *text, size_t n);         /* copies; 0 or VC_ENOMEM */
int tok_step_regex(tok_step *s, const char *pattern, vc_err *err);  /* copies and compiles */
void tok_steps_free(tok_steps *s);
void tok_steps_hash(const tok_steps *s, vf_hasher *h);

/* ByteLevel's own pattern, that of GPT-2. */
extern const char *const tok_gpt2_pattern;

/* ---- a run ---- */

/* A piece of a text; hit: the piece is a match. */
typedef struct tok_span {
    size_t at, n;
    bool hit;
    bool first;                          /* the piece begins where the whole text does */
} tok_span;

typedef struct tok_spans {
    tok_span *v;
    size_t n, cap, most;                 /* most: the limit of tok_add_span */
} tok_spans;

typedef struct tok_ids {
    int64_t *v;
    size_t n, cap;
} tok_ids;

/* The state of one call of tokenizer_ids. Steps may make at most `most` bytes of a text at a
 * time, and `work` in all: small multiples of the given text, whatever the file's rules are. */
typedef struct tok_run {
    tok_matcher *matcher;
    size_t given, most;
    uint64_t work;
    vc_buf text, other;                  /* of a section: being read, being written */
    tok_spans words, next, found;
    void *scratch;                       /* the model's */
    size_t scratch_size;
    tok_ids ids;
} tok_run;

/* Opens r->matcher and sets the limits of a run of `steps` steps on n bytes of text. */
int tok_run_begin(tok_run *r, size_t steps, size_t n, vc_err *err);
void tok_run_free(tok_run *r);
/* Add a span, an id. VC_ENOMEM; VC_EFULL: s has s->most spans already. */
int tok_add_span(tok_spans *s, size_t at, size_t n, bool hit, bool first);
int tok_add_id(tok_ids *ids, int64_t id);
void *tok_scratch(tok_run *r, size_t bytes);              /* the old contents are lost; NULL */

/* Applies the steps that change texts to r->text. */
int tok_run_normalizer(const tok_steps *s, tok_run *r, vc_err *err);
/* Fills r->words with the words of r->text; splitting may change r->text. */
int tok_run_splits(const tok_steps *s, tok_run *r, bool first, vc_err *err);

/* ---- models ---- */

typedef struct tok_unigram {
    tok_trie pieces;                     /* value: id */
    double *score;                       /* [n] */
    size_t n, cap;
    int32_t unk;                         /* -1: none */
    double unk_score;
    bool byte_fallback;
} tok_unigram;

typedef struct tok_bpe {
    tok_map merges;                      /* left << 32 | right -> rank << 32 | id */
    int32_t unk;                         /* -1: none */
    char *prefix, *suffix;               /* of all characters but a word's first; of its last */
    bool fuse_unk, byte_fallback, ignore_merges;
} tok_bpe;

typedef struct tok_added {
    char *text;
    int32_t id;
    bool single_word, lstrip, rstrip, normalized;
} tok_added;

struct tokenizer {
    tok_steps normalizer, splits;
    tok_added *added;
    size_t n_added, cap_added;
    tok_vocab places;                            /* in added, by text */
    tok_trie before_normal, after_normal;        /* value: place in added */
    enum { TOK_UNIGRAM, TOK_BPE } model;
    tok_vocab vocab;
    tok_unigram unigram;
    tok_bpe bpe;
    int32_t byte_id[256];          /* with byte_fallback, of "<0x00>" ...; -1: none */
    tok_ids front, back;                         /* of a prompt */
    int64_t pad;
    tokenizer_side side;
    vf_key key;
};

/* Returns true if all bytes of s[0..n) have tokens of their own. */
bool tok_has_bytes(const tokenizer *t, const char *s, size_t n);

/* Adds the piece of the next id. */
int tok_unigram_add(tokenizer *t, const char *s, size_t n, double score, vc_err *err);
/* Called after the last piece: checks unk and completes the scores. */
int tok_unigram_done(tokenizer *t, vc_err *err);
int tok_unigram_word(const tokenizer *t, tok_run *r, const char *s, size_t n);
void tok_unigram_free(tok_unigram *u);

/* Adds the merge of a given rank. VC_EFORMAT names a part that is not in the vocabulary. */
int tok_bpe_merge(tokenizer *t, uint32_t rank, const char *a, size_t na, const char *b, size_t nb,
                  vc_err *err);
int tok_bpe_word(const tokenizer *t, tok_run *r, const char *s, size_t n);
void tok_bpe_free(tok_bpe *b);

/* ---- reading ---- */

/* Read the bytes of a file; tok_finish comes later. */
int tok_read_json(tokenizer *t, const char *text, size_t n, vc_err *err);
int tok_read_spiece(tokenizer *t, const void *data, size_t n, int extra_ids, vc_err *err);
int tok_read_vocab(tokenizer *t, const char *vocab, size_t n_vocab, const char *merges,
                   size_t n_merges, vc_err *err);
/* ByT5's, which has no vocabulary; has_added: files beside list the added tokens. */
int tok_read_bytes(tokenizer *t, const cJSON *config, bool has_added, vc_err *err);
int tok_class_steps(tokenizer *t, const char *class, vc_err *err);    /* CLIP, Qwen2 */

/* Read the parts of tokenizer.json that become steps. */
int tok_json_normalizer(tok_steps *s, const cJSON *o, vc_err *err);
int tok_json_splits(tok_steps *s, const cJSON *o, vc_err *err);

tok_added *tok_find_added(const tokenizer *t, const char *text);     /* NULL: there is none */
/* Adds a token that is cut out of texts, and replaces an added token of the same text. The
 * vocabulary's id of that text takes precedence over a->id. */
int tok_add_token(tokenizer *t, const tok_added *a, vc_err *err);
/* Returns the id of an added token or of a piece, or -1. */
int32_t tok_id_of(const tokenizer *t, const char *s);
/* Sets the template BOS, text, EOS; -1: the template lacks this token. */
int tok_set_template(tokenizer *t, int64_t front, int64_t back);

/* Reads the files beside the vocabulary: flags of added tokens, the pad token, BOS and EOS. */
int tok_read_config(tokenizer *t, const cJSON *config, const cJSON *map, const cJSON *added,
                    vc_err *err);
/* Builds the derived tables: tries, byte ids, fingerprint. */
int tok_finish(tokenizer *t, vc_err *err);
tokenizer *tok_new(void);

#endif
