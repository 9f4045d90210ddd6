/* cksum.c - see cksum.h. The CRC of ISO/IEC 8802-3, over the bytes and then over their number,
 * lowest byte first (POSIX.1-2017, cksum). */
#include "common/base/cksum.h"

#include <pthread.h>

#define POLYNOMIAL UINT32_C(0x04c11db7)

static uint32_t table[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i << 24;
        for (int bit = 0; bit < 8; bit++)
            c = c << 1 ^ (c >> 31 ? POLYNOMIAL : 0);
        table[i] = c;
    }
}

static uint32_t step(uint32_t crc, uint8_t byte)
{
    return crc << 8 ^ table[crc >> 24 ^ byte];
}

void vc_cksum_add(vc_cksum *c, const void *data, size_t n)
{
    const uint8_t *p = data;
    pthread_once(&once, make_table);
    uint32_t crc = c->crc;
    for (size_t i = 0; i < n; i++)
        crc = step(crc, p[i]);
    c->crc = crc;
    c->n += n;
}

uint32_t vc_cksum_end(const vc_cksum *c)
{
    uint32_t crc = c->crc;
    pthread_once(&once, make_table);
    for (uint64_t n = c->n; n; n >>= 8)
        crc = step(crc, (uint8_t)n);
    return ~crc;
}
