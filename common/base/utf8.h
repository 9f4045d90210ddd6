/* utf8.h - strict UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
 * Thread-safe: no state. */
#ifndef COMMON_BASE_UTF8_H
#define COMMON_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

/* Returns the number of bytes of the first character of s[0..n), and its code point in *c, or 0 if
 * the character is invalid or incomplete. */
static inline size_t vc_utf8_in(const char *s, size_t n, uint32_t *c)
{
    static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char *p = (const unsigned char *)s;
    if (!n)
        return 0;
    size_t len = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3
                 : p[0] < 0xf5 ? 4 : 0;

    *c = len < 2 ? p[0] : p[0] & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        if (i == n || (p[i] & 0xc0) != 0x80)
            return 0;
        *c = *c << 6 | (p[i] & 0x3f);
    }
    return len && *c >= least[len] && *c <= 0x10ffff && (*c < 0xd800 || *c > 0xdfff) ? len : 0;
}

/* The same for a NUL-ended text; returns 0 at its end. */
static inline size_t vc_utf8(const char *s, uint32_t *c)
{
    size_t len = vc_utf8_in(s, 4, c);
    return *s ? len : 0;
}

/* Returns the number of bytes of the valid prefix of s[0..n): n if all of it is UTF-8. */
size_t vc_utf8_prefix(const char *s, size_t n);

/* Fails with VC_EFORMAT and the remedy if s[0..n) is no UTF-8 text, or holds a NUL: "byte 12 is not
 * UTF-8: save it as UTF-8 ...". A text of UTF-16, with or without its mark, is recognized. */
int vc_utf8_check(const char *s, size_t n, vc_err *err);

/* The remedy for a text in another encoding. */
#define VC_UTF8_REMEDY "save it as UTF-8, as with iconv -f WINDOWS-1252 -t UTF-8"
/* The same for a file of lines, with the number of the line: "line 3: byte 12 is not UTF-8 ...". */
int vc_utf8_check_lines(const char *s, size_t n, vc_err *err);
/* Fails with VC_EFORMAT and the remedy if s[0..n) is a text of UTF-16. */
int vc_utf16_check(const char *s, size_t n, vc_err *err);

/* Returns true if a character may be printed on a terminal unescaped: it is no control character,
 * no line separator and no control of text direction. */
static inline bool vc_utf8_plain(uint32_t c)
{
    return c >= 0x20 && (c < 0x7f || c > 0x9f) && (c < 0x2028 || c > 0x202e)
           && (c < 0x2066 || c > 0x2069);
}

#endif
