/* near.c - see near.h */
#include "common/base/near.h"

#include <string.h>

enum { LONGEST = 64, MOST_SLIPS = 3, MOST_WORDS = 8, BY_WORDS = 10, NOT_NEAR = 100 };

/* ---- letters ---- */

static char plain(char c)
{
    return c == '-' ? '_' : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same_letters(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (plain(a[i]) != plain(b[i]))
            return false;
    return true;
}

/* Edit distance with neighbours swapped as one edit (optimal string alignment); a large number for
 * names too long to be one, and where the lengths alone need more edits than are slips. */
static int distance(const char *a, size_t n, const char *b, size_t m)
{
    int row[3][LONGEST + 1], *two = row[0], *one = row[1], *now = row[2];
    if (n > LONGEST || m > LONGEST || n > m + MOST_SLIPS || m > n + MOST_SLIPS)
        return NOT_NEAR;

    for (size_t j = 0; j <= m; j++)
        one[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        now[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int d = one[j - 1] + (plain(a[i - 1]) != plain(b[j - 1]));
            d = one[j] + 1 < d ? one[j] + 1 : d;
            d = now[j - 1] + 1 < d ? now[j - 1] + 1 : d;
            bool swapped = i > 1 && j > 1 && plain(a[i - 1]) == plain(b[j - 2]) &&
                           plain(a[i - 2]) == plain(b[j - 1]);
            now[j] = swapped && two[j - 2] + 1 < d ? two[j - 2] + 1 : d;
        }
        int *t = two;
        two = one;
        one = now;
        now = t;
    }
    return one[m];
}

/* Number of edits that are a slip of the finger: one, in long names two or three. */
static int slips(size_t len)
{
    return len < 3 ? -1 : len < 9 ? 1 : len < 18 ? 2 : MOST_SLIPS;
}

/* Whether two names have the same digits; others are different flags: text_encoder_2,
 * adam_beta1. */
static bool same_digits(const char *a, size_t n, const char *b, size_t m)
{
    static const char digits[] = "0123456789";
    size_t i = 0, j = 0;

    for (;; i++, j++) {
        while (i < n && !memchr(digits, a[i], 10))
            i++;
        while (j < m && !memchr(digits, b[j], 10))
            j++;
        if (i == n || j == m)
            return i == n && j == m;
        if (a[i] != b[j])
            return false;
    }
}

/* ---- words ---- */

typedef struct words {
    const char *at[MOST_WORDS];
    size_t len[MOST_WORDS];
    int n;
} words;

static words words_of(const char *s, size_t len)
{
    words w = { .n = 0 };
    for (size_t i = 0; i < len && w.n < MOST_WORDS;) {
        size_t from = i;
        while (i < len && plain(s[i]) != '_' && s[i] != '.')
            i++;
        if (i > from) {
            w.at[w.n] = s + from;
            w.len[w.n++] = i - from;
        }
        i++;
    }
    return w;
}

/* Words that flags use for one another. */
static const char *const alike[][2] = {
    { "every", "steps" }, { "interval", "steps" }, { "freq", "steps" }, { "frequency", "steps" },
    { "dir", "folder" }, { "dir", "directory" }, { "num", "n" }, { "path", "dir" },
    { "ckpt", "checkpoint" }, { "lr", "learning" }, { "wd", "decay" }, { "prob", "p" },
    { "probability", "p" }, { "encoder", "enc" }, { "step", "steps" },
    { "val", "validation" }, { "out", "output" }, { "img", "image" }, { "vid", "video" },
    { "acc", "accumulation" }, { "opt", "optimizer" },
};

static bool is_word(const char *a, size_t n, const char *word)
{
    return strlen(word) == n && same_letters(a, word, n);
}

/* Cost of taking the word a for the word b: 0 for the same word, 1 for its beginning ("accum"), for
 * another ending ("captions") and for words that are used alike; else NOT_NEAR. */
static int word_cost(const char *a, size_t n, const char *b, size_t m)
{
    enum { ENDING = 3 };
    size_t less = n < m ? n : m;
    if (n == m && same_letters(a, b, n))
        return 0;
    if (less >= 4 && (n < m || n - m <= ENDING) && same_letters(a, b, less))
        return 1;
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
        if ((is_word(a, n, alike[i][0]) && is_word(b, m, alike[i][1])) ||
            (is_word(a, n, alike[i][1]) && is_word(b, m, alike[i][0])))
            return 1;
    return NOT_NEAR;
}

/* Number of words of b that stand for no word of a, or -1 if a word of a is not in b. *cost grows
 * by the costs of the words that are not the same. */
static int further_words(const words *a, const words *b, int *cost)
{
    bool used[MOST_WORDS] = { false };
    for (int i = 0; i < a->n; i++) {
        int best = NOT_NEAR, at = 0;
        for (int k = 0; k < b->n; k++) {
            int c = used[k] ? NOT_NEAR : word_cost(a->at[i], a->len[i], b->at[k], b->len[k]);
            if (c < best) {
                best = c;
                at = k;
            }
        }
        if (best == NOT_NEAR)
            return -1;
        used[at] = true;
        *cost += best;
    }
    return b->n - a->n;
}

/* Words that say too little to find a flag by them alone. */
static bool is_vague(const words *w)
{
    static const char *const vague[] = {
        "type", "path", "dir", "name", "size", "num", "use", "max", "min", "mode", "file", "id",
        "scale", "base", "first", "enable", "all", "no", "data", "train", "step", "steps",
    };
    for (size_t i = 0; w->n == 1 && i < sizeof vague / sizeof *vague; i++)
        if (is_word(w->at[0], w->len[0], vague[i]))
            return true;
    return !w->n;
}

/* Cost of a known name that has the words of the other and a few more, or a few less. */
static int cost_by_words(const char *name, size_t n, const char *known, size_t m)
{
    words a = words_of(name, n), b = words_of(known, m);
    int cost = BY_WORDS, more = is_vague(&a) ? -1 : further_words(&a, &b, &cost);
    if (more >= 0 && more <= (a.n == 1 ? 1 : 2))
        return cost + 4 * more;
    cost = BY_WORDS + 6;
    int less = b.n > 1 ? further_words(&b, &a, &cost) : -1;
    return less == 1 ? cost : NOT_NEAR;
}

/* ---- the nearest ---- */

vc_near vc_near_begin(const char *name, size_t len)
{
    return (vc_near){ .name = name, .len = len, .cost = NOT_NEAR };
}

void vc_near_try(vc_near *g, const char *known, size_t len, const char *shown, size_t shown_len,
                 bool by_words)
{
    if (!same_digits(known, len, g->name, g->len))
        return;
    int cost = distance(known, len, g->name, g->len);
    if (cost > slips(g->len) - (!by_words && g->len >= 9))
        cost = by_words ? cost_by_words(g->name, g->len, known, len) : NOT_NEAR;
    if (cost < g->cost) {
        g->cost = cost;
        g->best = shown;
        g->best_len = shown_len;
    }
}

const char *vc_near_choice(const char *choices, const char *text, size_t *len)
{
    vc_near g = vc_near_begin(text, strlen(text));
    for (const char *s = choices; *s; s += *len + strspn(s + *len, "|, ")) {
        *len = strcspn(s, "|, ");
        vc_near_try(&g, s, *len, s, *len, true);
    }
    *len = g.best_len;
    return g.best;
}
