/* repair.c - see repair.h */
#include "precompute/text/repair.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/text/entities.h"
#include "precompute/text/mojibake.h"
#include "precompute/tokenizer/text.h"

enum { MOST_CHARS = 1000000, MOST_NAME = 24, ROUNDS = 16, WORK = 1 << 23 };

/* ---- characters ---- */

/* The letters of a ligature, or of a digraph that is one character for the sake of old encodings;
 * NULL: c is neither. */
static const char *ligature(uint32_t c)
{
    static const struct { uint32_t c; const char *letters; } all[] = {
        { 0x0132, "IJ" }, { 0x0133, "ij" }, { 0x0149, "\u02BCn" }, { 0x01F1, "DZ" },
        { 0x01F2, "Dz" }, { 0x01F3, "dz" }, { 0x01C4, "D\u017D" }, { 0x01C5, "D\u017E" },
        { 0x01C6, "d\u017E" }, { 0x01C7, "LJ" }, { 0x01C8, "Lj" }, { 0x01C9, "lj" },
        { 0x01CA, "NJ" }, { 0x01CB, "Nj" }, { 0x01CC, "nj" }, { 0xFB00, "ff" }, { 0xFB01, "fi" },
        { 0xFB02, "fl" }, { 0xFB03, "ffi" }, { 0xFB04, "ffl" }, { 0xFB05, "\u017Ft" },
        { 0xFB06, "st" }
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].c == c)
            return all[i].letters;
    return NULL;
}

/* Adds character c, the n bytes at s, with its common width and without curls. */
static int add_wide(vc_buf *out, uint32_t c, const char *s, size_t n)
{
    if (c == 0x3000)
        vc_buf_str(out, " ");
    else if (c == 0x02BC || (c >= 0x2018 && c <= 0x201B))
        vc_buf_str(out, "'");
    else if (c >= 0x201C && c <= 0x201F)
        vc_buf_str(out, "\"");
    else if (c > 0xFF00 && c < 0xFFF0)
        return tok_normalize(out, s, n, TOK_NFKC, NULL);
    else
        tok_put_char(out, c);
    return 0;
}

/* Adds the character c, the n bytes at s, as one or more that people write. */
static int add_char(vc_buf *out, uint32_t c, const char *s, size_t n)
{
    const char *letters = ligature(c);
    int rc = 0;

    if (c >= 0x80 && c <= 0x9F)
        c = text_windows_1252(c - 0x80);
    if (!letters)
        return add_wide(out, c, s, n);
    for (; !rc && *letters; letters += n) {
        c = tok_char(letters, &n);
        rc = add_wide(out, c, letters, n);
    }
    return rc;
}

/* The characters that nobody means to write. C1's are windows-1252 by now. */
static bool is_control(uint32_t c)
{
    return c < 0x09 || c == 0x0B || (c >= 0x0E && c < 0x20) || c == 0x7F ||
           (c >= 0x206A && c <= 0x206F) || c == 0xFEFF || (c >= 0xFFF9 && c <= 0xFFFC);
}

static bool is_break(uint32_t c) { return c == '\r' || c == 0x2028 || c == 0x2029; }

/* The bytes of a terminal's escape, such as the choice of a colour, at s; 0: there is none. */
static size_t escape(const char *s)
{
    size_t n = 2;

    if (s[0] != '\033' || s[1] != '[')
        return 0;
    n += strspn(s + n, "0123456789;");
    return (s[n] | 32) >= 'a' && (s[n] | 32) <= 'z' ? n + 1 : 0;
}

/* Removes controls and escapes, and makes line feeds of all line ends. */
static void add_plain(vc_buf *out, const char *s)
{
    size_t n;

    for (; *s; s += n) {
        uint32_t c = tok_char(s, &n);
        const size_t skip = escape(s);
        if (skip) {
            n = skip;
        } else if (is_break(c)) {
            n += c == '\r' && s[1] == '\n';
            vc_buf_str(out, "\n");
        } else if (!is_control(c)) {
            vc_buf_add(out, s, n);
        }
    }
}

/* ---- HTML ---- */

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* Adds c in upper case; letters that then are several come from HTML's names alone. */
static void add_upper(vc_buf *out, uint32_t c)
{
    const char *letters = c == 0xDF ? "ss" : ligature(c);
    size_t n;

    for (; letters && *letters; letters += n)
        tok_put_char(out, tok_upper(tok_char(letters, &n)));
    if (c != 0xDF && !ligature(c))
        tok_put_char(out, tok_upper(c));
}

/* Adds the character of a name in capitals that HTML does not know (&EACUTE;): that of the name in
 * small letters, in upper case. s: the n bytes of the name, and a semicolon. */
static bool add_capital(vc_buf *out, const char *s, size_t n)
{
    char low[MOST_NAME];
    vc_buf known = { 0 };
    size_t len;

    for (size_t i = 0; i < n; i++) {
        if (s[i] >= 'a' && s[i] <= 'z')
            return false;
        low[i] = s[i] >= 'A' && s[i] <= 'Z' ? (char)(s[i] | 32) : s[i];
    }
    const char *text = text_entity(low, n);
    const bool is_html = text_named(&known, s) > 0;
    vc_buf_free(&known);
    if (!text || is_html)
        return false;
    for (; *text; text += len)
        add_upper(out, tok_char(text, &len));
    return true;
}

/* Adds the character of a number, if the number is all that stands before the n bytes' semicolon,
 * and the character is no semicolon itself. */
static bool add_number(vc_buf *out, const char *s, size_t n)
{
    vc_buf one = { 0 };
    bool done = text_numbered(&one, s) == n + 1 && !(one.n == 1 && *one.data == ';');

    if (done)
        vc_buf_add(out, one.data, one.n);
    out->failed |= one.failed;
    vc_buf_free(&one);
    return done;
}

/* Replaces the references that end in a semicolon; NULL: out of memory. */
static char *unescape(const char *s)
{
    vc_buf out = { 0 };

    while (*s) {
        const bool number = s[0] == '&' && s[1] == '#';
        const char *name = s + 1 + number, *text;
        size_t n = 0;
        while (*s == '&' && n <= MOST_NAME && is_alnum(name[n]))
            n++;
        bool done = n && n <= MOST_NAME && name[n] == ';';
        if (done && number) {
            done = add_number(&out, name, n);
        } else if (done && (text = text_entity(name, n))) {
            vc_buf_str(&out, text);
        } else if (done) {
            done = add_capital(&out, name, n);
        }
        if (!done)
            vc_buf_add(&out, s, 1);
        s = done ? name + n + 1 : s + 1;
    }
    return vc_buf_take(&out);
}

/* ---- a line ---- */

/* Makes each character one that people write; NULL: out of memory. */
static char *settle(const char *s)
{
    vc_buf chars = { 0 }, plain = { 0 }, out = { 0 };
    int rc = 0;

    for (size_t n; !rc && *s; s += n) {
        uint32_t c = tok_char(s, &n);
        rc = add_char(&chars, c, s, n);
    }
    char *text = vc_buf_take(&chars);
    if (text && !rc)
        add_plain(&plain, text);
    free(text);
    text = rc ? NULL : vc_buf_take(&plain);
    out.failed = !text || tok_normalize(&out, text, strlen(text), TOK_NFC, NULL);
    free(text);
    vc_buf_free(&plain);
    return vc_buf_take(&out);
}

/* Makes one round of repairs; NULL: out of memory. */
static char *round_of(const char *s, bool html)
{
    char *names = html ? unescape(s) : strdup(s);
    char *decoded = names ? text_decode_again(names) : NULL;
    char *out = decoded ? settle(decoded) : NULL;

    free(names);
    free(decoded);
    return out;
}

/* Repairs a line until nothing changes, and takes it; NULL: out of memory. A megabyte of names in
 * names (&amp;amp;amp;) would take days: the rounds of long lines are limited. */
static char *repair_line(char *s, bool html)
{
    const size_t most = s ? ROUNDS + WORK / (strlen(s) + 1) : 0;

    for (size_t i = 0; s && i < most && text_needs_repair(s); i++) {
        char *next = round_of(s, html);
        const bool same = next && !strcmp(next, s);
        free(s);
        s = next;
        if (same)
            break;
    }
    return s;
}

/* The bytes of the line at s with its end, or of MOST_CHARS characters. */
static size_t line_of(const char *s)
{
    size_t n = 0, len;

    for (size_t chars = 0; s[n] && chars < MOST_CHARS; chars++) {
        tok_char(s + n, &len);
        n += len;
        if (s[n - len] == '\n')
            break;
    }
    return n;
}

bool text_needs_repair(const char *text)
{
    for (const char *s = text; *s; s++)
        if ((uint8_t)*s >= 0x7F || *s == '&' || (*s < ' ' && *s != '\t' && *s != '\n' &&
                                                 *s != '\f'))
            return true;
    return false;
}

char *text_repair(const char *text)
{
    vc_buf out = { 0 };
    bool html = true;

    if (!text_needs_repair(text))
        return strdup(text);
    for (size_t n; *text; text += n) {
        n = line_of(text);
        html = html && !memchr(text, '<', n);
        char *line = repair_line(strndup(text, n), html);
        if (line)
            vc_buf_str(&out, line);
        out.failed |= !line;
        free(line);
    }
    return vc_buf_take(&out);
}
