/* utf8.h - one character of UTF-8 text, strictly: no overlong forms, no surrogates. No state. */
#ifndef VC_UTF8_H
#define VC_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The bytes of the character that s, a NUL-ended text, begins with, and its number in *c.
 * 0 if that is no valid character, or the end. */
static inline size_t vc_utf8(const char *s, uint32_t *c)
{
    static const uint32_t least[5] = { 0, 1, 0x80, 0x800, 0x10000 };
    const unsigned char *p = (const unsigned char *)s;
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

    *c = n < 2 ? p[0] : p[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        *c = *c << 6 | (p[i] & 0x3f);
    }
    return n && *c >= least[n] && *c <= 0x10ffff && (*c < 0xd800 || *c > 0xdfff) ? n : 0;
}

#endif
