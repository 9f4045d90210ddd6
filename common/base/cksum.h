/* cksum.h - the checksum that the POSIX command cksum prints, by which a file on another machine is
 * compared with the bytes that were sent there. An all-zero vc_cksum has no bytes yet. */
#ifndef COMMON_BASE_CKSUM_H
#define COMMON_BASE_CKSUM_H

#include <stddef.h>
#include <stdint.h>

typedef struct vc_cksum {
    uint32_t crc;
    uint64_t n;                              /* bytes so far */
} vc_cksum;

void vc_cksum_add(vc_cksum *c, const void *data, size_t n);
/* Returns the checksum of the bytes so far; more may follow. */
uint32_t vc_cksum_end(const vc_cksum *c);

#endif
