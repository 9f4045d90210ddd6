/* scan.c - a strict cursor over JSON text. See scan.h */
#include "formats/json/scan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/utf8.h"

vf_scan vf_scan_of(const char *text, size_t n)
{
    return (vf_scan){ .text = text, .at = text, .end = text + n };
}

int vf_scan_fail(const vf_scan *s, vc_err *err, const char *fmt, ...)
{
    size_t line = 1 + s->before;
    const char *from = s->text;
    for (const char *p; from < s->at && (p = memchr(from, '\n', (size_t)(s->at - from)));) {
        line++;
        from = p + 1;
    }

    char what[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    size_t column = (size_t)(s->at - from) + 1;
    return s->one_line ? vc_fail(err, VC_EFORMAT, "column %zu: %s", column, what)
                       : vc_fail(err, VC_EFORMAT, "line %zu, column %zu: %s", line, column, what);
}

char vf_scan_peek(vf_scan *s)
{
    while (s->at < s->end
           && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
        s->at++;
    return s->at < s->end ? *s->at : 0;
}

bool vf_scan_take(vf_scan *s, char c)
{
    if (vf_scan_peek(s) != c || s->at == s->end)
        return false;
    s->at++;
    return true;
}

int vf_scan_expect(vf_scan *s, char c, vc_err *err)
{
    if (vf_scan_take(s, c))
        return 0;
    return vf_scan_fail(s, err, s->at == s->end ? "ends where '%c' was expected"
                                                : "expected '%c'", c);
}

int vf_scan_more(vf_scan *s, char close, bool first, bool *more, vc_err *err)
{
    *more = false;
    if (vf_scan_take(s, close))
        return 0;
    if (!first && !vf_scan_take(s, ','))
        return vf_scan_fail(s, err, "expected ',' or '%c'", close);
    if (!first && vf_scan_peek(s) == close)
        return vf_scan_fail(s, err, "a value is missing between ',' and '%c'", close);
    *more = true;
    return 0;
}

/* Returns the value of four hexadecimal digits, or -1. */
static int hex4(const char *p, const char *end)
{
    int v = 0;

    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int d = c >= '0' && c <= '9' ? c - '0'
              : c >= 'a' && c <= 'f' ? c - 'a' + 10
              : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

/* Returns the length of the escape that begins with the backslash at p, and sets *code; 0: the
 * escape is not allowed. */
static size_t escape(const char *p, const char *end, uint32_t *code)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";

    if (end - p < 2)
        return 0;
    if (p[1] != 'u') {
        const char *at = p[1] ? strchr(from, p[1]) : NULL;
        if (!at)
            return 0;
        *code = (uint8_t)to[at - from];
        return 2;
    }
    int hi = hex4(p + 2, end), lo = 0;
    if (hi <= 0 || (hi >= 0xdc00 && hi <= 0xdfff))
        return 0;
    *code = (uint32_t)hi;
    if (hi < 0xd800 || hi > 0xdfff)
        return 6;
    if (end - p < 12 || p[6] != '\\' || p[7] != 'u' || (lo = hex4(p + 8, end)) < 0xdc00
        || lo > 0xdfff)
        return 0;
    *code = 0x10000 + ((uint32_t)(hi - 0xd800) << 10) + (uint32_t)(lo - 0xdc00);
    return 12;
}

int vf_scan_string(vf_scan *s, vf_span *v, vc_err *err)
{
    if (!vf_scan_take(s, '"'))
        return vf_scan_fail(s, err, "expected a string");

    v->p = s->at;
    while (s->at < s->end && *s->at != '"') {
        uint32_t code;
        size_t n = 1;
        if (*s->at == '\\')
            n = escape(s->at, s->end, &code);
        else if ((uint8_t)*s->at < 0x20)
            return vf_scan_fail(s, err, "control character 0x%02x in a string", *s->at);
        if (!n)
            return vf_scan_fail(s, err, "escape that is not allowed in a string");
        s->at += n;
    }
    if (s->at == s->end)
        return vf_scan_fail(s, err, "ends within a string");
    v->n = (size_t)(s->at - v->p);

    size_t good = vc_utf8_prefix(v->p, v->n);
    if (good < v->n) {
        s->at = v->p + good;
        return vf_scan_fail(s, err, "byte 0x%02x is not UTF-8: " VC_UTF8_REMEDY, (uint8_t)*s->at);
    }
    s->at++;
    return 0;
}

static size_t put_utf8(char *dst, uint32_t c)
{
    uint8_t *p = (uint8_t *)dst;

    if (c < 0x80) {
        p[0] = (uint8_t)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; --i > 0; c >>= 6)
        p[i] = (uint8_t)(0x80 | (c & 0x3f));
    p[0] = (uint8_t)(c | (n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0));
    return n;
}

size_t vf_scan_unescape(char *dst, vf_span v)
{
    const char *p = v.p, *end = v.p + v.n;
    char *to = dst;

    while (p < end) {
        uint32_t code = 0;
        if (*p != '\\') {
            *to++ = *p++;
            continue;
        }
        p += escape(p, end, &code);
        to += put_utf8(to, code);
    }
    return (size_t)(to - dst);
}

static bool digits(vf_scan *s)
{
    const char *from = s->at;

    while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
        s->at++;
    return s->at > from;
}

static bool next_is(const vf_scan *s, const char *set)
{
    return s->at < s->end && *s->at && strchr(set, *s->at);
}

/* Scans -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)? and sets *integer if the number has neither
 * fraction nor exponent. */
static int number(vf_scan *s, bool *integer, vc_err *err)
{
    const char *from = s->at;

    *integer = true;
    if (next_is(s, "-"))
        s->at++;
    bool zero = next_is(s, "0"), ok = digits(s);
    if (ok && zero && s->at - from > 1 + (*from == '-'))
        ok = false;
    if (ok && next_is(s, ".")) {
        *integer = false;
        s->at++;
        ok = digits(s);
    }
    if (ok && next_is(s, "eE")) {
        *integer = false;
        s->at++;
        if (next_is(s, "+-"))
            s->at++;
        ok = digits(s);
    }
    if (!ok || s->at - from > VF_JSON_NUMBER) {
        s->at = from;
        return vf_scan_fail(s, err, ok ? "number of more than %d characters"
                                       : "not a number", VF_JSON_NUMBER);
    }
    return 0;
}

int vf_scan_int(vf_scan *s, int64_t *v, vc_err *err)
{
    bool integer;

    vf_scan_peek(s);
    const char *from = s->at, *p = from;
    int rc = number(s, &integer, err);
    if (rc)
        return rc;

    bool minus = *p == '-', ok = integer;
    int64_t x = 0;
    for (p += minus; ok && p < s->at; p++)
        ok = !__builtin_mul_overflow(x, 10, &x)
             && !__builtin_add_overflow(x, minus ? '0' - *p : *p - '0', &x);
    if (!ok) {
        s->at = from;
        return vf_scan_fail(s, err, integer ? "integer out of range" : "expected an integer");
    }
    *v = x;
    return 0;
}

static int literal(vf_scan *s, const char *word, vc_err *err)
{
    size_t n = strlen(word);

    if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n))
        return vf_scan_fail(s, err, "expected a value");
    s->at += n;
    return 0;
}

static int value(vf_scan *s, int depth, vc_err *err);

static int members(vf_scan *s, char close, int depth, vc_err *err)
{
    if (depth == VF_JSON_DEPTH)
        return vf_scan_fail(s, err, "more than %d levels deep", VF_JSON_DEPTH);
    s->at++;
    for (bool first = true, more;; first = false) {
        int rc = vf_scan_more(s, close, first, &more, err);
        if (rc || !more)
            return rc;
        vf_span key;
        if (close == '}' && ((rc = vf_scan_string(s, &key, err))
                             || (rc = vf_scan_expect(s, ':', err))))
            return rc;
        if ((rc = value(s, depth + 1, err)))
            return rc;
    }
}

static int value(vf_scan *s, int depth, vc_err *err)
{
    vf_span str;
    bool integer;

    switch (vf_scan_peek(s)) {
    case '{': return members(s, '}', depth, err);
    case '[': return members(s, ']', depth, err);
    case '"': return vf_scan_string(s, &str, err);
    case 't': return literal(s, "true", err);
    case 'f': return literal(s, "false", err);
    case 'n': return literal(s, "null", err);
    case '-': case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7':
    case '8': case '9': return number(s, &integer, err);
    default:
        return vf_scan_fail(s, err, s->at == s->end ? "ends where a value was expected"
                                                    : "expected a value");
    }
}

int vf_scan_skip(vf_scan *s, vc_err *err)
{
    return value(s, 0, err);
}

int vf_scan_done(vf_scan *s, vc_err *err)
{
    vf_scan_peek(s);
    return s->at == s->end ? 0 : vf_scan_fail(s, err, "text after the end of the value");
}
