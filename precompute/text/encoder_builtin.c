/* encoder_builtin.c - text encoders without weights: hashed word n-grams, and none at all.
 *
 * Words are runs of letters, digits and bytes above 127, in ASCII lower case. Every n-gram has a
 * fixed Gaussian vector, which Philox draws with the n-gram's XXH3-64 as seed. Row 0 describes the
 * whole prompt: the sum of the vectors of all words and all pairs of neighbours, divided by the
 * root of their number. Rows 1.. describe the words in order: the word's vector plus half of the
 * vector of the pair that ends with the word. All other rows are zero. */
#include "precompute/text/prompt.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include <xxhash.h>

#include "common/base/rng.h"

enum { TOKENS = 32, WIDTH = 256, BATCH = 4 };

static int open_words(void **model, const void *kind, const encoder_opts *o, text_info *info,
                      vc_err *err)
{
    (void)kind, (void)o, (void)err;
    *model = NULL;
    info->rule.max_length = TOKENS;
    info->width = WIDTH;
    info->batch = BATCH;
    info->fingerprint = vf_hash("hashed word n-grams 1", 21);
    info->tokenizer = vf_hash("ascii lower-case words 1", 24);
    return 0;
}

static void close_words(void *model)
{
    (void)model;
}

static void add_vector(float *row, uint64_t ngram, float scale)
{
    float z[WIDTH];
    vc_draw_normals(z, WIDTH, ngram, 0, 0, 0);
    for (int i = 0; i < WIDTH; i++)
        row[i] += scale * z[i];
}

static bool in_word(unsigned char c)
{
    return isalnum(c) || c > 127;
}

/* Reads the next word at *s and sets *h to its hash. False: the text has no more words. */
static bool next_word(const char **s, uint64_t *h)
{
    char word[64];
    size_t n = 0;

    while (**s && !in_word((unsigned char)**s))
        ++*s;
    for (; **s && in_word((unsigned char)**s); ++*s)
        if (n < sizeof word)
            word[n++] = (char)tolower((unsigned char)**s);
    *h = XXH3_64bits(word, n);
    return n > 0;
}

/* Token 0 describes the whole prompt; tokens 1.. are the words, as many as have a row. */
static void words(const char *text, int length, int64_t *ids, int64_t *mask)
{
    uint64_t word;
    int n = 1;

    memset(ids, 0, (size_t)length * sizeof *ids);
    memset(mask, 0, (size_t)length * sizeof *mask);
    for (mask[0] = 1; n < length && next_word(&text, &word); n++) {
        ids[n] = (int64_t)(word & 0x7fffffff);
        mask[n] = 1;
    }
}

/* Adds a text to states [rows,WIDTH]. */
static void encode_one(const char *text, int rows, float *states)
{
    uint64_t word, last = 0;
    int n = 0, grams = 0;

    for (const char *s = text; next_word(&s, &word); last = word, n++) {
        uint64_t pair[2] = { last, word };
        uint64_t both = XXH3_64bits(pair, sizeof pair);
        add_vector(states, word, 1);
        grams++;
        if (n) {
            add_vector(states, both, 1);
            grams++;
        }
        if (n + 1 < rows) {
            float *row = states + (size_t)(n + 1) * WIDTH;
            add_vector(row, word, 1);
            if (n)
                add_vector(row, both, 0.5f);
        }
    }
    if (!grams)
        add_vector(states, XXH3_64bits("", 0), 1);
    else
        for (int i = 0; i < WIDTH; i++)
            states[i] /= sqrtf((float)grams);
}

static int encode(void *model, const text_tokens *t, float *states, float *pooled, vc_err *err)
{
    (void)model, (void)pooled, (void)err;
    for (int i = 0; i < t->prompts; i++) {
        const size_t n = (size_t)t->ids[i].n * WIDTH;
        memset(states, 0, n * sizeof *states);
        encode_one(t->text[i], t->ids[i].n, states);
        states += n;
    }
    return 0;
}

static const text_model model = {
    .class = "BuiltinTextEncoder", .open = open_words, .close = close_words, .words = words,
    .encode = encode
};

const text_class text_builtin = { "BuiltinTextEncoder", &model, NULL };

/* ---- none at all ---- */

/* Where an encoder was left out, each prompt is one row of zeros, as wide as the transformer's
 * tokens (families.h: vc_text.optional). */
static int open_absent(void **m, const void *kind, const encoder_opts *o, text_info *info,
                       vc_err *err)
{
    vf_hasher h;

    (void)kind, (void)err;
    *m = NULL;
    info->width = o->text.absent;
    info->rows = 1;
    vf_hasher_begin(&h, "no text encoder 1");
    vf_hasher_int(&h, "width", o->text.absent);
    info->fingerprint = vf_hasher_end(&h);
    info->tokenizer = vf_hash("no tokenizer 1", 14);
    return 0;
}

/* The row is the state of one token, the same for every prompt. */
static void one_word(const char *text, int length, int64_t *ids, int64_t *mask)
{
    (void)text;
    memset(ids, 0, (size_t)length * sizeof *ids);
    memset(mask, 0, (size_t)length * sizeof *mask);
    mask[0] = 1;
}

/* The areas of states begin as zeros, and nothing writes to them. */
static int encode_zeros(void *m, const text_tokens *t, float *states, float *pooled, vc_err *err)
{
    (void)m, (void)t, (void)states, (void)pooled, (void)err;
    return 0;
}

static const text_model absent = {
    .class = VC_NO_TEXT, .masked = true, .open = open_absent, .close = close_words,
    .words = one_word, .encode = encode_zeros
};

const text_class text_absent = { VC_NO_TEXT, &absent, NULL };
