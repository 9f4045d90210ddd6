/* mojibake.c - see mojibake.h.
 *
 * A text that looks bad (`rules`) and fits an encoding is turned into the bytes that it was decoded
 * from, which are decoded as UTF-8. If that fails for all encodings, parts of the text that look
 * like UTF-8 are tried alone. This is repeated until nothing changes. */
#include "precompute/text/mojibake.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/utf8.h"
#include "precompute/tokenizer/text.h"

enum { PAGE_CHARS = 128, LOST = 0xFFFD, LOST_BYTE = 0x1A, MOST_DEPTH = 16, MOST_PARTS = 7 };

/* ---- the characters ---- */

/* Classes of characters, as far as they tell of wrong decoding. */
enum {
    COMMON = 1 << 0, C1 = 1 << 1, BAD = 1 << 2, LAW = 1 << 3, CURRENCY = 1 << 4, START = 1 << 5,
    END = 1 << 6, NUMERIC = 1 << 7, FACE = 1 << 8, UPPER = 1 << 9, LOWER = 1 << 10,
    CAPITAL = 1 << 11, SMALL = 1 << 12, BOX = 1 << 13,
    A_Z = 1 << 14, a_z = 1 << 15, BLANK = 1 << 16, OTHER = 1 << 17,     /* OTHER: not of A-Z, a-z */
    SPACE = 1 << 18, WORD = 1 << 19, IN_LINE = 1 << 20,
    TELLING = A_Z - 1                            /* all classes of `ranges` */
};

static const struct range {
    uint32_t first, last, of;
} ranges[] = {
#define RANGE(first_, last_, of_) { first_, last_, of_ },
#include "precompute/text/mojibake.def"
#undef RANGE
};

/* The bytes of a page from 128 on. sloppy: an unused byte is the character of its number, and
 * LOST_BYTE is LOST. clue: its letters hint at UTF-8. blanks: a blank may stand for the byte A0. */
static const struct page {
    bool sloppy, clue, blanks;
    uint16_t of[PAGE_CHARS];
} pages[] = {
#define PAGE(name_, sloppy_, clue_, blanks_, ...) { sloppy_, clue_, blanks_, { __VA_ARGS__ } },
#include "precompute/text/mojibake.def"
#undef PAGE
};
enum { LATIN_1, WINDOWS_1252, PAGES = sizeof pages / sizeof *pages };

uint32_t text_windows_1252(unsigned i)
{
    return pages[WINDOWS_1252].of[i];
}

static bool is_among(uint32_t c, uint32_t first, uint32_t last) { return c >= first && c <= last; }

static uint32_t classes_of(uint32_t c)
{
    size_t lo = 0, hi = sizeof ranges / sizeof *ranges;
    const bool space = tok_is(c, TOK_IS_SPACE) || is_among(c, 0x1C, 0x1F);
    const uint32_t letter = is_among(c, 'A', 'Z') ? A_Z : is_among(c, 'a', 'z') ? a_z : OTHER;
    uint32_t of = letter | (space ? SPACE : 0) | (c == ' ' ? BLANK : 0) | (c == '\n' ? 0 : IN_LINE);

    if (c == '_' || tok_is(c, TOK_IS_LETTER) || tok_is(c, TOK_IS_NUMBER))
        of |= WORD;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (c > ranges[mid].last)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < sizeof ranges / sizeof *ranges && c >= ranges[lo].first ? of | ranges[lo].of : of;
}

/* ---- what looks bad ---- */

/* A character of one of the classes, or one of those listed. */
typedef struct place {
    uint32_t of;
    const char *or;
} place;

/* Characters that follow each other where text was decoded wrongly. */
typedef struct rule {
    place part[MOST_PARTS];                      /* ended by an empty one */
    bool first;                                  /* only where the text begins */
} rule;

#define SIGNS (START | END | CURRENCY | NUMERIC | LAW)
#define MIXED (COMMON | CURRENCY | BAD | NUMERIC | START)
#define HIGH (C1 | BAD | START | END | CURRENCY)

#define IS(classes) { .of = classes }
#define LIST(chars) { .or = chars }
#define RULE(...) { .part = { __VA_ARGS__ } },
#define FIRST(...) { .part = { __VA_ARGS__ }, .first = true },

static const rule rules[] = {
    RULE(IS(C1))
    RULE(IS(BAD | LOWER | UPPER | BOX | SIGNS), IS(BAD))
    RULE(IS(A_Z | a_z), IS(SMALL | CAPITAL), IS(BAD))
    RULE(IS(BAD), IS(LOWER | UPPER | BOX | SIGNS))
    RULE(IS(LOWER | SMALL | BOX | END | CURRENCY | NUMERIC), IS(UPPER))
    RULE(IS(BOX | END | CURRENCY | NUMERIC), IS(LOWER))
    RULE(IS(LOWER | BOX | END), IS(CURRENCY))
    RULE(IS(SPACE), IS(UPPER), IS(CURRENCY))
    RULE(IS(UPPER | BOX), IS(NUMERIC | LAW))
    RULE(IS(LOWER | UPPER | BOX | CURRENCY | END), IS(START), IS(NUMERIC))
    RULE(IS(LOWER | UPPER | CURRENCY | NUMERIC | BOX | LAW), IS(END), IS(START))
    RULE(IS(CURRENCY | NUMERIC | BOX), IS(START))
    RULE(IS(a_z), IS(UPPER), IS(START | CURRENCY))
    RULE(IS(BOX), IS(FACE | END))
    RULE(IS(LOWER | UPPER | SIGNS), IS(BOX))
    RULE(IS(LOWER | UPPER), IS(START | END), IS(WORD))
    RULE(LIST("Œœ"), IS(OTHER))
    RULE(IS(UPPER), LIST("°"))
    RULE(LIST("ÂÃÎÐ"), { START | END, "€œŠš¢£Ÿž\u00A0\u00AD®©°·»–—´" })
    RULE(LIST("×"), LIST("²³"))
    RULE(LIST("ØÙ"), { MIXED, "ŸŠ®°µ»" }, LIST("ØÙ"), { MIXED, "ŸŠ®°µ»" })   /* Arabic */
    RULE(LIST("à"), LIST("²µ¹¼½¾"))                                  /* South Asian letters */
    RULE(LIST("√"), LIST("±∂†≠®™´≤≥¥µø"))                            /* macroman */
    RULE(LIST("≈"), LIST("°¢"))
    RULE(LIST("‚"), LIST("Ä"), LIST("ìîïòôúùû†°¢π"))
    RULE(LIST("‚"), LIST("âó"), LIST("àä°ê"))
    RULE(LIST("в"), LIST("Ђ"))                                       /* cp1251 */
    RULE(LIST("ВГРС"), { HIGH, "°µ" }, LIST("ВГРС"))
    RULE(LIST("Г"), LIST("ў"), LIST("В"), LIST("Ђ"), LIST("В"), IS(IN_LINE),
         IS(A_Z | a_z | BLANK))
    RULE(LIST("Ã"), LIST("\u00A0¡"))
    RULE(IS(a_z), LIST("ÃÂ"), IS(BLANK))
    RULE(IS(a_z), IS(SPACE), LIST("ÃÂ"), IS(BLANK))
    FIRST(LIST("ÃÂ"), IS(BLANK))
    RULE({ a_z | END, ".,?!" }, LIST("Â"), IS(BLANK | START | END))
    RULE(LIST("β"), LIST("€"), LIST("™\u00A0Ά\u00AD®°"))              /* cp1253 */
    RULE(LIST("ΒΓΞΟ"), { HIGH, "°" }, LIST("ΒΓΞΟ"))
    RULE(LIST("ā"), LIST("€"))                                       /* cp1257 */
};

/* A text of characters; failed: out of memory. */
typedef struct chars {
    uint32_t *c;
    size_t n, room;
    bool failed;
} chars;

static void put(chars *t, uint32_t c)
{
    if (t->n == t->room) {
        size_t room = t->room ? 2 * t->room : 64;
        uint32_t *more = realloc(t->c, room * sizeof *more);
        t->failed |= !more;
        if (!more)
            return;
        t->c = more;
        t->room = room;
    }
    t->c[t->n++] = c;
}

static void put_all(chars *t, const uint32_t *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put(t, c[i]);
}

static bool is_listed(const char *list, uint32_t c)
{
    uint32_t x;

    for (size_t n; list && (n = vc_utf8(list, &x)); list += n)
        if (x == c)
            return true;
    return false;
}

static bool follows(const rule *r, const uint32_t *c, const uint32_t *of, size_t n)
{
    size_t i = 0;

    for (; i < MOST_PARTS && (r->part[i].of || r->part[i].or); i++)
        if (i == n || !(of[i] & r->part[i].of || is_listed(r->part[i].or, c[i])))
            return false;
    return true;
}

/* Whether the text looks as if it had been decoded wrongly. ASCII never does: each rule has a
 * telling character among its first three. */
static bool looks_bad(const uint32_t *c, size_t n)
{
    uint32_t of[MOST_PARTS];
    size_t known = 0;                            /* of[0..known) are of c[i], c[i + 1], ... */

    for (size_t i = 0; i < n; i++) {
        size_t most = n - i < MOST_PARTS ? n - i : MOST_PARTS;
        for (; known < most; known++)
            of[known] = classes_of(c[i + known]);
        const bool telling = (of[0] | of[1 % most] | of[2 % most]) & TELLING;
        for (size_t k = 0; telling && k < sizeof rules / sizeof *rules; k++)
            if ((!rules[k].first || !i) && follows(&rules[k], c + i, of, most))
                return true;
        memmove(of, of + 1, --known * sizeof *of);
    }
    return false;
}

/* ---- bytes ---- */

/* The byte that is decoded as c; -1: none is. */
static int byte_of(const struct page *p, uint32_t c)
{
    if (p->sloppy && (c == LOST || c == LOST_BYTE))
        return c == LOST ? LOST_BYTE : -1;
    if (c < 0x80)
        return (int)c;
    for (int i = 0; i < PAGE_CHARS; i++)
        if (p->of[i] == c)
            return PAGE_CHARS + i;
    return -1;
}

/* Fills b with the bytes of a text; false: a character has none. */
static bool encode(vc_buf *b, const struct page *p, const chars *t)
{
    b->n = 0;
    char *to = vc_buf_room(b, t->n);
    if (!to)
        return false;
    for (size_t i = 0; i < t->n; i++) {
        const int byte = byte_of(p, t->c[i]);
        if (byte < 0)
            return false;
        to[i] = (char)byte;
    }
    b->n = t->n;
    return true;
}

/* A byte of UTF-8 behind the first of a character. */
static bool is_tail(uint8_t c) { return (c & 0xC0) == 0x80; }

/* The length of UTF-8 at s[0..n) in which a blank stands for the byte A0, so that a character
 * results that people write; 0: there is none. */
static size_t blanked(const uint8_t *s, size_t n)
{
    const size_t len = n < 2 ? 0 : s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    const size_t first = s[0] == 0xE0 || s[0] == 0xE1 ? 2 : 1;          /* place of a blank */
    size_t blanks = 0;

    if (!len || n < len || s[0] > 0xF0 || (len == 3 && s[0] > 0xE3) ||
        (len == 2 && !memchr("\xC2\xC3\xC5\xCE\xD0\xD9", s[0], 6)))
        return 0;
    for (size_t i = 1; i < len; i++) {
        const bool blank = s[i] == ' ' && i >= first;
        if (!blank && (!is_tail(s[i]) || (len == 3 && (s[i] == 0x85 || s[i] == 0xA0))))
            return 0;
        blanks += blank;
    }
    return blanks == 1 ? len : 0;
}

static bool has_blanked(const vc_buf *b)
{
    size_t i = 0;

    while (i < b->n && !blanked((const uint8_t *)b->data + i, b->n - i))
        i++;
    return i < b->n;
}

static bool begins(const char *s, size_t n, const char *with)
{
    return n >= strlen(with) && !memcmp(s, with, strlen(with));
}

/* Whether C3 and a blank at s[0..n) are a word "a" with grave accent: the blank is one too. Words
 * of Portuguese begin with the same letter. */
static bool is_a_grave(const char *s, size_t n)
{
    return begins(s, n, "\xC3 ") && !begins(s + 2, n - 2, " ") && !begins(s + 2, n - 2, "s ") &&
           !begins(s + 2, n - 2, "quele") && !begins(s + 2, n - 2, "quela") &&
           !begins(s + 2, n - 2, "quilo");
}

/* Puts bytes A0 back where blanks stand for them. */
static void restore_blanks(vc_buf *b)
{
    vc_buf out = { 0 };

    for (size_t i = 0; i < b->n; i++) {
        const bool word = is_a_grave(b->data + i, b->n - i);
        vc_buf_add(&out, word ? "\xC3\xA0" : b->data + i, word ? 2 : 1);
    }
    for (size_t i = 0, len; i < out.n; i += len ? len : 1) {
        len = blanked((const uint8_t *)out.data + i, out.n - i);
        for (size_t k = i; k < i + len; k++)
            if (out.data[k] == ' ')
                out.data[k] = '\xA0';
    }
    out.failed |= b->failed;
    vc_buf_free(b);
    *b = out;
}

static bool is_lost(uint8_t c) { return c == LOST_BYTE || c == '?'; }

/* The length of UTF-8 at s[0..n), or of two surrogates as UTF-8, of which bytes are lost; 0: there
 * is none. */
static size_t lossy(const uint8_t *s, size_t n)
{
    const size_t len = s[0] < 0xC2 || s[0] > 0xF4 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    size_t lost = 0, asked = 0, i = 1;

    if (s[0] == LOST_BYTE)
        return 1;
    if (n >= 6 && s[0] == 0xED && is_among(s[1], 0xA0, 0xAF) && s[3] == 0xED &&
        is_among(s[4], 0xB0, 0xBF) && (is_lost(s[2]) || is_lost(s[5])) &&
        (is_lost(s[2]) || is_tail(s[2])) && (is_lost(s[5]) || is_tail(s[5])))
        return 6;
    for (; i < len && i < n && (is_lost(s[i]) || is_tail(s[i])); i++) {
        lost += is_lost(s[i]);
        asked += s[i] == '?';
    }
    return len && i == len && lost && asked <= (len > 2 || s[0] <= 0xC3) ? len : 0;
}

/* Puts U+FFFD in place of characters of which bytes are lost. */
static void replace_lossy(vc_buf *b)
{
    vc_buf out = { 0 };

    for (size_t i = 0, len; i < b->n; i += len ? len : 1) {
        len = lossy((const uint8_t *)b->data + i, b->n - i);
        vc_buf_add(&out, len ? "\xEF\xBF\xBD" : b->data + i, len ? 3 : 1);
    }
    out.failed |= b->failed;
    vc_buf_free(b);
    *b = out;
}

/* The character of two surrogates, each as UTF-8, at s[0..n); 0: there is none. */
static uint32_t surrogates(const uint8_t *s, size_t n)
{
    if (n < 6 || s[0] != 0xED || !is_among(s[1], 0xA0, 0xAF) || !is_tail(s[2]) || s[3] != 0xED ||
        !is_among(s[4], 0xB0, 0xBF) || !is_tail(s[5]))
        return 0;
    return 0x10000 + ((s[1] & 0x0Fu) << 16 | (s[2] & 0x3Fu) << 10 | (s[4] & 0x0Fu) << 6 |
                      (s[5] & 0x3Fu));
}

/* Appends the characters of UTF-8, of which C0 80 is none (Java's NUL) and two surrogates are one;
 * false: it is no UTF-8. */
static bool decode(chars *t, const vc_buf *b)
{
    size_t len;
    uint32_t c;

    for (size_t i = 0; i < b->n; i += len) {
        if (begins(b->data + i, b->n - i, "\xC0\x80")) {
            len = 2;
            continue;
        }
        c = surrogates((const uint8_t *)b->data + i, b->n - i);
        len = c ? 6 : vc_utf8_in(b->data + i, b->n - i, &c);
        if (!len)
            return false;
        put(t, c);
    }
    return true;
}

/* ---- a step ---- */

/* Decodes the bytes of the text in a page as UTF-8; false: the page lacks a character, or they are
 * no UTF-8. *fits: the page has all characters. */
static bool try_page(chars *out, const struct page *p, const chars *t, bool *fits)
{
    vc_buf b = { 0 };

    out->n = 0;
    *fits = encode(&b, p, t);
    if (*fits && p->blanks && has_blanked(&b))
        restore_blanks(&b);
    if (*fits && p->sloppy)
        replace_lossy(&b);
    bool done = *fits && decode(out, &b);
    out->failed |= b.failed;
    vc_buf_free(&b);
    return done;
}

/* Whether c is the character of a byte first..last in a page whose letters hint at UTF-8. */
static bool hints(uint32_t c, int first, int last)
{
    if (c < 0x80)                            /* those of the pages are beyond ASCII */
        return false;
    for (const struct page *p = pages; p < pages + PAGES; p++)
        for (int i = first; p->clue && i <= last; i++)
            if (p->of[i - PAGE_CHARS] == c)
                return true;
    return false;
}

static bool hints_tail(uint32_t c) { return c == ' ' || hints(c, 0x80, 0xBF); }

/* The same, but not a character that stands beside letters for itself: a dash, a quotation mark. */
static bool hints_tail_surely(uint32_t c)
{
    return !is_listed(" –—―‘’‚“”„•…", c) && hints(c, 0x80, 0xBF);
}

/* The characters of c[0..n) that look like one of UTF-8; 0: none do. */
static size_t like_utf8(const uint32_t *c, size_t n)
{
    static const struct { int first, last; size_t tails; } kinds[] = {
        { 0xC2, 0xDF, 1 }, { 0xE0, 0xEF, 2 }, { 0xF0, 0xF0, 3 }, { 0xF3, 0xF3, 3 }
    };

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        size_t i = 1;
        if (n <= kinds[k].tails || !hints(c[0], kinds[k].first, kinds[k].last))
            continue;
        while (i <= kinds[k].tails && hints_tail(c[i]))
            i++;
        if (i > kinds[k].tails)
            return i;
    }
    return 0;
}

static bool fix(chars *t, int depth);

/* Fixes the parts of a text that look like UTF-8, each alone. */
static void fix_parts(chars *out, const chars *t, int depth)
{
    bool after = false;                          /* the character before hints at a tail */

    out->n = 0;
    for (size_t i = 0, n, more; i < t->n; i += n) {
        for (n = 0; !after && (more = like_utf8(t->c + i + n, t->n - i - n)); n += more)
            ;
        chars part = { 0 };
        put_all(&part, t->c + i, n);
        if (n && n < t->n && depth < MOST_DEPTH && looks_bad(part.c, n))
            fix(&part, depth + 1);
        n = n ? n : 1;
        put_all(out, part.n ? part.c : t->c + i, part.n ? part.n : n);
        out->failed |= part.failed;
        free(part.c);
        after = hints_tail_surely(t->c[i + n - 1]);
    }
}

/* Makes windows-1252 of the control characters from 128 on; strict: fails at those it lacks. */
static bool fix_controls(chars *out, const chars *t, bool strict)
{
    bool known = true;

    out->n = 0;
    for (size_t i = 0; i < t->n; i++) {
        const bool control = is_among(t->c[i], 0x80, 0x9F);
        put(out, control ? text_windows_1252(t->c[i] - 0x80) : t->c[i]);
        known = known && !(control && out->c && out->c[out->n - 1] == t->c[i]);
    }
    return known || !strict;
}

static bool is_same(const chars *a, const chars *b)
{
    return a->n == b->n && !memcmp(a->c, b->c, a->n * sizeof *a->c);
}

/* Makes *out of the text *t; false: there is nothing to fix. */
static bool step(chars *out, const chars *t, int depth)
{
    bool latin = false, fits;

    if (!looks_bad(t->c, t->n))
        return false;
    for (size_t i = 0; i < PAGES; i++) {
        if (try_page(out, &pages[i], t, &fits))
            return !is_same(out, t);
        latin |= fits && i == LATIN_1;
    }
    fix_parts(out, t, depth);
    if (!is_same(out, t))
        return true;
    return (latin && fix_controls(out, t, true) && !is_same(out, t)) ||
           (fix_controls(out, t, false) && !is_same(out, t));
}

/* Fixes *t; false: out of memory. */
static bool fix(chars *t, int depth)
{
    chars out = { 0 };

    while (!t->failed && !out.failed && step(&out, t, depth)) {
        const chars was = *t;
        *t = out;
        out = was;
    }
    t->failed |= out.failed;
    free(out.c);
    return !t->failed;
}

char *text_decode_again(const char *s)
{
    chars t = { 0 };
    vc_buf out = { 0 };
    uint32_t c;

    for (size_t n; (n = vc_utf8(s, &c)); s += n)
        put(&t, c);
    out.failed = !fix(&t, 0);
    for (size_t i = 0; i < t.n; i++)
        tok_put_char(&out, t.c[i]);
    free(t.c);
    return vc_buf_take(&out);
}
