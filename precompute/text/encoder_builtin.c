/* encoder_builtin.c - the weight-free text encoder: hashed word n-grams.
 *
 * Words are runs of letters, digits and bytes above 127, in ASCII lower case. Every n-gram has a
 * fixed Gaussian vector, drawn by Philox from its XXH3-64. Row 0 is the whole prompt (all words and
 * pairs of words, divided by the root of their number), rows 1.. are the words in order, each
 * with half of the pair it ends. What is left is zero. */
#include "precompute/encoder.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "common/base/rng.h"

enum { TOKENS = 32, WIDTH = 256 };

struct text_enc {
    float embeds[TOKENS * WIDTH];
    int64_t ids[TOKENS], mask[TOKENS];
};

static int builtin_open(text_enc **out, const encoder_opts *o, text_info *info, vc_err *err)
{
    (void)o;
    *out = calloc(1, sizeof **out);
    if (!*out)
        return vc_fail(err, VC_ENOMEM, "built-in text encoder: out of memory");
    *info = (text_info){ .class = "BuiltinTextEncoder", .max_length = TOKENS, .width = WIDTH };
    info->fingerprint = vf_hash("hashed word n-grams 1", 21);
    info->tokenizer = vf_hash("ascii lower-case words 1", 24);
    return 0;
}

static void builtin_close(text_enc *t)
{
    free(t);
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

/* The next word at *s: its hash in *h and true, or false at the end. */
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

static int builtin_encode(text_enc *t, const char *prompt, text_result *r, vc_err *err)
{
    (void)err;
    memset(t, 0, sizeof *t);

    uint64_t word, last = 0;
    int words = 0, grams = 0;
    for (const char *s = prompt; next_word(&s, &word); last = word, words++) {
        uint64_t pair[2] = { last, word };
        uint64_t both = XXH3_64bits(pair, sizeof pair);
        add_vector(t->embeds, word, 1);
        grams++;
        if (words) {
            add_vector(t->embeds, both, 1);
            grams++;
        }
        if (words + 1 < TOKENS) {
            float *row = t->embeds + (size_t)(words + 1) * WIDTH;
            add_vector(row, word, 1);
            if (words)
                add_vector(row, both, 0.5f);
            t->ids[words + 1] = (int64_t)(word & 0x7fffffff);
            t->mask[words + 1] = 1;
        }
    }
    if (!grams)
        add_vector(t->embeds, XXH3_64bits("", 0), 1);
    else
        for (int i = 0; i < WIDTH; i++)
            t->embeds[i] /= sqrtf((float)grams);
    t->mask[0] = 1;

    *r = (text_result){ .n = TOKENS, .width = WIDTH, .embeds = t->embeds, .length = TOKENS,
                        .ids = t->ids, .mask = t->mask };
    return 0;
}

const text_class text_builtin = { "BuiltinTextEncoder", builtin_open, builtin_close,
                                  builtin_encode };
