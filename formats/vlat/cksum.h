/* cksum.h - the checksum that the POSIX command cksum prints, by which a file on another machine is
 * compared with the bytes that were sent there. An all-zero vlat_cksum has no bytes yet. */
#ifndef FORMATS_VLAT_CKSUM_H
#define FORMATS_VLAT_CKSUM_H

#include <stddef.h>
#include <stdint.h>

typedef struct vlat_cksum {
    uint32_t crc;
    uint64_t n;                              /* bytes so far */
} vlat_cksum;

void vlat_cksum_add(vlat_cksum *c, const void *data, size_t n);
/* Returns the checksum of the bytes so far; more may follow. */
uint32_t vlat_cksum_end(const vlat_cksum *c);

#endif
