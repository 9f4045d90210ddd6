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

/* Returns true for text of UTF-16: its mark, or every other one of the first bytes is a NUL. */
static bool is_utf16(const char *s, size_t n)
{
    if (n >= 2 && (!memcmp(s, "\xff\xfe", 2) || !memcmp(s, "\xfe\xff", 2)))
        return true;
    for (size_t odd = 0; odd < 2; odd++)
        if (n >= 4 && !s[odd] && !s[odd + 2] && s[1 - odd] && s[3 - odd])
            return true;
    return false;
}

int vc_utf16_check(const char *s, size_t n, vc_err *err)
{
    return is_utf16(s, n) ? vc_fail(err, VC_EFORMAT, "UTF-16: save it as UTF-8") : 0;
}

int vc_utf8_check(const char *s, size_t n, vc_err *err)
{
    size_t good = vc_utf8_prefix(s, n);
    const char *nul = good ? memchr(s, 0, good) : NULL;

    if (good == n && !nul)
        return 0;
    int rc = vc_utf16_check(s, n, err);
    if (rc)
        return rc;
    if (nul)
        return vc_fail(err, VC_EFORMAT, "byte %zu is a NUL", (size_t)(nul - s) + 1);
    return vc_fail(err, VC_EFORMAT, "byte %zu is not UTF-8 (0x%02x): " VC_UTF8_REMEDY, good + 1,
                   (uint8_t)s[good]);
}

int vc_utf8_check_lines(const char *s, size_t n, vc_err *err)
{
    int rc = vc_utf16_check(s, n, err);

    for (size_t line = 1, at = 0; !rc && at < n; line++) {
        const char *nl = memchr(s + at, '\n', n - at);
        const size_t length = nl ? (size_t)(nl - s) - at : n - at;
        rc = vc_context(err, vc_utf8_check(s + at, length, err), "line %zu", line);
        at += length + 1;
    }
    return rc;
}
