/* text.c - see text.h */
#include "precompute/tokenizer/text.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "common/base/utf8.h"

uint32_t tok_char(const char *s, size_t *n)
{
    const uint8_t *p = (const uint8_t *)s;

    if (p[0] < 0x80) {
        *n = 1;
        return p[0];
    }
    *n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    uint32_t c = p[0] & (0xffu >> (*n + 1));
    for (size_t i = 1; i < *n; i++)
        c = c << 6 | (p[i] & 0x3f);
    return c;
}

uint32_t tok_last_char(const char *s, size_t n)
{
    size_t at = n - 1, len;

    while (at && ((uint8_t)s[at] & 0xc0) == 0x80)
        at--;
    return tok_char(s + at, &len);
}

void tok_put_char(vc_buf *b, uint32_t c)
{
    char *p = vc_buf_room(b, 4);
    if (p)
        b->n += (size_t)utf8proc_encode_char((utf8proc_int32_t)c, (utf8proc_uint8_t *)p);
}

/* Bytes of the longest start of a character that p[0..n), not valid UTF-8, begins with; at least
 * 1 (Unicode 15.0, table 3-7 and "U+FFFD substitution of maximal subparts"). */
static size_t broken_part(const uint8_t *p, size_t n)
{
    uint8_t a = p[0], lo = 0x80, hi = 0xbf;
    size_t want = a < 0xc2 ? 1 : a < 0xe0 ? 2 : a < 0xf0 ? 3 : a < 0xf5 ? 4 : 1, i = 1;

    if (a == 0xe0)
        lo = 0xa0;
    if (a == 0xed)
        hi = 0x9f;
    if (a == 0xf0)
        lo = 0x90;
    if (a == 0xf4)
        hi = 0x8f;
    for (; i < want && i < n && p[i] >= lo && p[i] <= hi; i++) {
        lo = 0x80;
        hi = 0xbf;
    }
    return i;
}

void tok_repair(vc_buf *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t good = vc_utf8_prefix(s + i, n - i);
        vc_buf_add(out, s + i, good);
        i += good;
        if (i < n) {
            vc_buf_str(out, "\xef\xbf\xbd");
            i += broken_part((const uint8_t *)s + i, n - i);
        }
    }
}

/* ---- classes ---- */

static bool is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680
           || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f
           || c == 0x205f || c == 0x3000;
}

/* Other_Alphabetic outside of the marks: circled and squared letters. */
static bool is_other_alphabetic(uint32_t c)
{
    return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149)
           || (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
}

bool tok_is(uint32_t c, tok_class k)
{
    if (k == TOK_IS_SPACE)
        return is_space(c);

    utf8proc_category_t g = utf8proc_category((utf8proc_int32_t)c);
    bool mark = g >= UTF8PROC_CATEGORY_MN && g <= UTF8PROC_CATEGORY_ME;
    bool letter = g >= UTF8PROC_CATEGORY_LU && g <= UTF8PROC_CATEGORY_LO;
    switch (k) {
    case TOK_IS_LETTER: return letter;
    case TOK_IS_NUMBER: return g >= UTF8PROC_CATEGORY_ND && g <= UTF8PROC_CATEGORY_NO;
    case TOK_IS_MARK: return mark;
    case TOK_IS_PUNCT:
        return (g >= UTF8PROC_CATEGORY_PC && g <= UTF8PROC_CATEGORY_PO)
               || (c < 0x80 && c && strchr("$+<=>^`|~", (int)c));
    default:
        return letter || mark || g == UTF8PROC_CATEGORY_ND || g == UTF8PROC_CATEGORY_NL
               || g == UTF8PROC_CATEGORY_PC || c == 0x200c || c == 0x200d
               || is_other_alphabetic(c);
    }
}

/* ---- normal forms ---- */

/* Whether the bytes show that a text is in the form already: characters below U+0300 are in NFC,
 * and ASCII is in all forms. */
static bool normal_already(const char *s, size_t n, tok_form form)
{
    uint8_t limit = form == TOK_NFC ? 0xcc : 0x80;

    for (size_t i = 0; i < n; i++)
        if ((uint8_t)s[i] >= limit)
            return false;
    return true;
}

static int combining(int32_t c)
{
    return c < 0x300 ? 0 : utf8proc_get_property(c)->combining_class;
}

/* Sorts c[0..n), a run of combining characters, by class and stably; in time n: prompts may be
 * megabytes of them. tmp has room for n. */
static void order_run(int32_t *c, size_t n, int32_t *tmp)
{
    size_t at[257] = { 0 };

    for (size_t i = 0; i < n; i++)
        at[combining(c[i]) + 1]++;
    for (int k = 1; k < 257; k++)
        at[k] += at[k - 1];
    for (size_t i = 0; i < n; i++)
        tmp[at[combining(c[i])]++] = c[i];
    memcpy(c, tmp, n * sizeof *c);
}

static void order(int32_t *c, size_t n, int32_t *tmp)
{
    for (size_t i = 0, end; i < n; i = end + 1) {
        for (end = i; end < n && combining(c[end]); end++)
            ;
        if (end - i > 1)
            order_run(c + i, end - i, tmp);
    }
}

typedef struct chars {
    int32_t *c;
    size_t n, cap;
} chars;

enum { MOST_PARTS = 32 };                /* characters of a decomposition; the longest is 18 */

static int decompose(chars *out, const char *s, size_t n, utf8proc_option_t how)
{
    int bound = 0;

    for (size_t i = 0, len; i < n; i += len) {
        uint32_t c = tok_char(s + i, &len);
        if (out->cap - out->n < MOST_PARTS) {
            size_t cap = out->cap + out->cap / 2 + n / 2 + MOST_PARTS;
            int32_t *p = realloc(out->c, cap * sizeof *p);
            if (!p)
                return VC_ENOMEM;
            out->c = p;
            out->cap = cap;
        }
        utf8proc_ssize_t k = utf8proc_decompose_char((utf8proc_int32_t)c, out->c + out->n,
                                                     MOST_PARTS, how, &bound);
        if (k < 0 || k > MOST_PARTS)
            out->c[out->n++] = (int32_t)c;
        else
            out->n += (size_t)k;
    }
    return 0;
}

int tok_normalize(vc_buf *out, const char *s, size_t n, tok_form form, vc_err *err)
{
    if (normal_already(s, n, form)) {
        vc_buf_add(out, s, n);
        return 0;
    }
    bool compat = form == TOK_NFKC || form == TOK_NFKD;
    bool compose = form == TOK_NFC || form == TOK_NFKC;
    chars d = { 0 };
    int rc = decompose(&d, s, n, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE
                                 | (compat ? UTF8PROC_COMPAT : 0));
    int32_t *tmp = rc ? NULL : malloc((d.n + 1) * sizeof *tmp);
    if (!tmp) {
        free(d.c);
        return vc_no_memory(err);
    }
    order(d.c, d.n, tmp);
    free(tmp);
    if (compose) {
        utf8proc_ssize_t k = utf8proc_normalize_utf32(d.c, (utf8proc_ssize_t)d.n,
                                                      UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        d.n = k < 0 ? 0 : (size_t)k;
    }
    for (size_t i = 0; i < d.n; i++)
        tok_put_char(out, (uint32_t)d.c[i]);
    free(d.c);
    return 0;
}

void tok_lower(vc_buf *out, const char *s, size_t n)
{
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t c = tok_char(s + i, &len);
        if (c == 0x130)                                  /* it alone becomes two characters */
            vc_buf_str(out, "i\xcc\x87");
        else
            tok_put_char(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
    }
}

uint32_t tok_upper(uint32_t c) { return (uint32_t)utf8proc_toupper((utf8proc_int32_t)c); }

/* ---- SentencePiece's character map ---- */

static uint32_t little32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

int tok_charsmap_of(tok_charsmap *m, const void *blob, size_t n, vc_err *err)
{
    const uint8_t *p = blob;
    uint32_t bytes = n < 4 ? 0 : little32(p);

    *m = (tok_charsmap){ 0 };
    if (n < 8 || bytes > n - 4 || bytes % 4 || !bytes)
        return vc_fail(err, VC_EFORMAT, "precompiled_charsmap: a trie of %u bytes in %zu",
                       (unsigned)bytes, n);
    m->units = p + 4;
    m->n_units = bytes / 4;
    m->strings = (const char *)p + 4 + bytes;
    m->n_strings = n - 4 - bytes;
    if (vc_utf8_prefix(m->strings, m->n_strings) != m->n_strings)
        return vc_fail(err, VC_EFORMAT, "precompiled_charsmap: its strings are not UTF-8");
    return 0;
}

/* The value of the shortest prefix of s[0..n) in the map; NULL: none. A unit holds a label
 * (bits 0-7, and 31 for a value), whether a value hangs below (8), and the offset to its children
 * (10-30, times 256 with bit 9). */
static const char *lookup(const tok_charsmap *m, const char *s, size_t n, size_t *len)
{
    uint32_t unit = little32(m->units);
    size_t at = unit >> 10 << ((unit & 0x200) >> 6);

    for (size_t i = 0; i < n && s[i]; i++) {
        at ^= (uint8_t)s[i];
        if (at >= m->n_units)
            return NULL;
        unit = little32(m->units + 4 * at);
        if ((unit & 0x800000ffu) != (uint8_t)s[i])
            return NULL;
        at ^= unit >> 10 << ((unit & 0x200) >> 6);
        if (!(unit & 0x100))
            continue;
        size_t to = at < m->n_units ? little32(m->units + 4 * at) & 0x7fffffff : m->n_strings;
        if (to >= m->n_strings || ((uint8_t)m->strings[to] & 0xc0) == 0x80)
            return NULL;
        *len = strnlen(m->strings + to, m->n_strings - to);
        return m->strings + to;
    }
    return NULL;
}

/* One cluster, or one character of a cluster. */
static bool map_part(const tok_charsmap *m, vc_buf *out, const char *s, size_t n)
{
    size_t len;
    const char *to = lookup(m, s, n, &len);
    if (to)
        vc_buf_add(out, to, len);
    return to != NULL;
}

static void map_cluster(const tok_charsmap *m, vc_buf *out, size_t most, const char *s, size_t n)
{
    if (n < 6 && map_part(m, out, s, n))
        return;
    for (size_t i = 0, len; i < n && out->n <= most; i += len) {
        tok_char(s + i, &len);
        if (!map_part(m, out, s + i, len))
            vc_buf_add(out, s + i, len);
    }
}

int tok_charsmap_apply(const tok_charsmap *m, vc_buf *out, size_t most, const char *s, size_t n)
{
    utf8proc_int32_t state = 0;
    size_t from = 0, len;
    uint32_t before = 0;

    for (size_t i = 0; i < n && out->n <= most; i += len) {
        uint32_t c = tok_char(s + i, &len);
        if (i && utf8proc_grapheme_break_stateful((utf8proc_int32_t)before,
                                                  (utf8proc_int32_t)c, &state)) {
            map_cluster(m, out, most, s + from, i - from);
            from = i;
        }
        before = c;
    }
    if (n && out->n <= most)
        map_cluster(m, out, most, s + from, n - from);
    return out->n > most ? VC_EFULL : 0;
}
