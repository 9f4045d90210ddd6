/* sha256.h - SHA-256 (FIPS 180-4), for file names that other programs derive by this hash.
 * Thread-safe: no state. */
#ifndef COMMON_BASE_SHA256_H
#define COMMON_BASE_SHA256_H

#include <stddef.h>

enum { VC_SHA256_HEX = 65 };

/* Writes the hash of n bytes as 64 lower-case hex digits and a NUL; returns hex. */
char *vc_sha256(char hex[VC_SHA256_HEX], const void *data, size_t n);

#endif
