/* mutate.h - damages bytes as files get damaged or forged: flipped bits, edge values, cut, doubled
 * or swapped pieces, changed digits. Round r of a seed always does the same damage.
 *
 * The fuzz targets have libFuzzer's entry point (LLVMFuzzerTestOneInput) and are linked into the
 * unit tests too, so that thousands of damaged inputs run under the sanitizers without clang. */
#ifndef TESTS_LIB_MUTATE_H
#define TESTS_LIB_MUTATE_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads every byte, so that a sanitizer reports a byte outside of an allocation. */
static inline void mutate_touch(const void *data, size_t n)
{
    const volatile uint8_t *p = data;
    for (size_t i = 0; i < n; i++)
        (void)p[i];
}

/* Changes buf[0..n), which has room for cap bytes; returns the new length, at most cap. */
size_t mutate(uint8_t *buf, size_t n, size_t cap, uint32_t seed, uint32_t round);

/* Calls fn with `rounds` damaged copies of data, each in memory of exactly its size, so that the
 * address sanitizer reports every read past the end. If VLT_SEEDS names a folder, data becomes a
 * file there too, as a seed for scripts/fuzz. */
void mutate_run(const void *data, size_t n, uint32_t seed, uint32_t rounds,
                int (*fn)(const uint8_t *data, size_t size));

#endif
