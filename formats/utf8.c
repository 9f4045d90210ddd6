/* utf8.c - see utf8.h */
#include "formats/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Length of the sequence at p, or 0. Only the second byte's range depends on the first
 * (table 3-7 of the Unicode standard). */
static size_t sequence(const uint8_t *p, size_t n)
{
    uint8_t a = p[0], lo = 0x80, hi = 0xbf;
    size_t len = a < 0x80 ? 1 : a < 0xc2 ? 0 : a < 0xe0 ? 2 : a < 0xf0 ? 3 : a < 0xf5 ? 4 : 0;

    if (len < 2 || len > n)
        return len > n ? 0 : len;
    if (a == 0xe0) lo = 0xa0;
    if (a == 0xed) hi = 0x9f;
    if (a == 0xf0) lo = 0x90;
    if (a == 0xf4) hi = 0x8f;
    if (p[1] < lo || p[1] > hi)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

/* Eight bytes at a time where the text is ASCII. */
static bool ascii8(const uint8_t *p)
{
    uint64_t w;
    memcpy(&w, p, sizeof w);
    return (w & 0x8080808080808080u) == 0;
}

size_t vf_utf8_prefix(const char *s, size_t n)
{
    const uint8_t *p = (const uint8_t *)s;

    for (size_t i = 0; i < n;) {
        if (n - i >= 8 && ascii8(p + i)) {
            i += 8;
            continue;
        }
        size_t len = sequence(p + i, n - i);
        if (!len)
            return i;
        i += len;
    }
    return n;
}
