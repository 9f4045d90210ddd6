/* entities.c - see entities.h. The rules for names and numbers are those of HTML 5, section
 * 13.2.5.72 and the next. */
#include "precompute/text/entities.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "precompute/tokenizer/text.h"

enum { LONGEST = 31, UNKNOWN = 0xFFFD, LAST = 0x10FFFF };

typedef struct entity {
    const char *name, *text;
    bool bare;                       /* the name counts without a semicolon, too */
} entity;

#define E(name_, text_) { #name_, text_, false },
#define L(name_, text_) { #name_, text_, true },
static const entity entities[] = {
#include "precompute/text/entities.def"
};
#undef E
#undef L

/* ---- one reference ---- */

typedef struct word {
    const char *s;
    size_t n;
} word;

static int compare(const void *key, const void *row)
{
    const word *w = key;
    const char *name = ((const entity *)row)->name;
    int order = strncmp(w->s, name, w->n);

    return order ? order : name[w->n] ? -1 : 0;
}

static const entity *find(const char *s, size_t n)
{
    const word w = { s, n };

    return bsearch(&w, entities, sizeof entities / sizeof *entities, sizeof *entities, compare);
}

const char *text_entity(const char *s, size_t n)
{
    const entity *e = find(s, n);

    return e ? e->text : NULL;
}

size_t text_named(vc_buf *out, const char *s)
{
    size_t n = 0;

    while (n <= LONGEST && ((s[n] | 32) >= 'a' ? (s[n] | 32) <= 'z' : s[n] >= '0' && s[n] <= '9'))
        n++;
    const entity *e = s[n] == ';' ? find(s, n) : NULL;
    if (e) {
        vc_buf_str(out, e->text);
        return n + 1;
    }
    for (; n >= 2; n--)
        if ((e = find(s, n)) && e->bare) {
            vc_buf_str(out, e->text);
            return n;
        }
    return 0;
}

/* Whether a number of HTML stands for no character. */
static bool is_control(uint32_t c)
{
    return (c < 0x20 && c != '\t' && c != '\n' && c != '\f' && c != '\r') || c == 0x7F ||
           (c >= 0xFDD0 && c <= 0xFDEF) || (c & 0xFFFE) == 0xFFFE;
}

/* Adds character c. HTML reads the numbers of control characters from 128 on as windows-1252. */
static void add_number(vc_buf *out, uint32_t c)
{
    static const uint16_t windows[32] = {
        0x20AC, 0x81, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160,
        0x2039, 0x0152, 0x8D, 0x017D, 0x8F, 0x90, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013,
        0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x9D, 0x017E, 0x0178
    };

    if (c >= 0x80 && c < 0xA0)
        tok_put_char(out, windows[c - 0x80]);
    else if (!c || (c >= 0xD800 && c < 0xE000) || c > LAST)
        tok_put_char(out, UNKNOWN);
    else if (!is_control(c))
        tok_put_char(out, c);
}

static int digit(char c, uint32_t base)
{
    int v = c >= '0' && c <= '9' ? c - '0'
            : base == 16 && (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;

    return v;
}

size_t text_numbered(vc_buf *out, const char *s)
{
    uint32_t base = (*s | 32) == 'x' ? 16 : 10, c = 0;
    size_t first = base == 16, n = first;

    for (; digit(s[n], base) >= 0; n++)
        c = c > LAST ? c : c * base + (uint32_t)digit(s[n], base);
    if (n == first)
        return 0;
    add_number(out, c);
    return n + (s[n] == ';');
}
