/* sha256.h - SHA-256 (FIPS 180-4), for names of files that others made by it. Pure. */
#ifndef COMMON_BASE_SHA256_H
#define COMMON_BASE_SHA256_H

#include <stddef.h>

enum { VC_SHA256_HEX = 65 };

/* Of n bytes as 64 lower-case hex digits; returns hex. */
char *vc_sha256(char hex[VC_SHA256_HEX], const void *data, size_t n);

#endif
