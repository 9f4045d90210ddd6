/* utf8.c - strict UTF-8; see utf8.h */
#include "common/base/utf8.h"

#include <string.h>

/* Returns true if eight bytes are all ASCII, for which a text is checked eight bytes at a time. */
static bool ascii8(const char *p)
{
    uint64_t w;
    memcpy(&w, p, sizeof w);
    return (w & 0x8080808080808080u) == 0;
}

size_t vc_utf8_prefix(const char *s, size_t n)
{
    uint32_t c;

    for (size_t i = 0; i < n;) {
        if (n - i >= 8 && ascii8(s + i)) {
            i += 8;
            continue;
        }
        size_t len = vc_utf8_in(s + i, n - i, &c);
        if (!len)
            return i;
        i += len;
    }
    return n;
}
