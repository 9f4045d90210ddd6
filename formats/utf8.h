/* utf8.h - is it UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF)?
 * Thread-safe: no state. */
#ifndef VF_UTF8_H
#define VF_UTF8_H

#include <stddef.h>

/* Bytes of the valid prefix of s[0..n): n if all of it is UTF-8. */
size_t vf_utf8_prefix(const char *s, size_t n);

#endif
