/* mutate.c - see mutate.h */
#include "tests/lib/mutate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"

/* Moves the bytes from `at` on by `gap`, or by the room that is left; returns the gap's size. The
 * bytes in the gap stay as they were. */
static size_t widen(uint8_t *buf, size_t *n, size_t cap, size_t at, size_t gap)
{
    if (gap > cap - *n)
        gap = cap - *n;
    memmove(buf + at + gap, buf + at, *n - at);
    *n += gap;
    return gap;
}

static void change_byte(vc_draws *d, uint8_t *p)
{
    static const uint8_t edge[] = { 0, 1, 0x7f, 0x80, 0xff, '"', '\\', '{', '}', '[', ']', ',', ':',
                                    '-', '0', '9', '\n', '\r', 'e', '.', 0xed, 0xf4, 0xc0 };
    switch (vc_draw_int(d, 3)) {
    case 0: *p ^= (uint8_t)(1u << vc_draw_int(d, 8)); break;
    case 1: *p = (uint8_t)vc_draw_int(d, 256); break;
    default: *p = edge[vc_draw_int(d, sizeof edge)]; break;
    }
}

/* Replaces the first digit at or after `at`, which belongs to a length, an offset or a size. */
static void change_digit(vc_draws *d, uint8_t *buf, size_t n, size_t at)
{
    for (size_t i = at; i < n; i++)
        if (buf[i] >= '0' && buf[i] <= '9') {
            buf[i] = (uint8_t)('0' + vc_draw_int(d, 10));
            return;
        }
}

static size_t change(vc_draws *d, uint8_t *buf, size_t n, size_t cap)
{
    static const char *const words[] = { "18446744073709551615", "9223372036854775807", "-1",
                                         "null", "[[[[[[[[", "\\u0000", "\\ud800", "1e999",
                                         "\"\"", "{}" };
    if (n == 0)
        return n;
    size_t at = vc_draw_int(d, (uint32_t)n), len = 1 + vc_draw_int(d, 1 + (uint32_t)(n - at) / 4);

    switch (vc_draw_int(d, 8)) {
    case 0: return at;
    case 1:                                                   /* remove a piece */
        len = len > n - at ? n - at : len;
        memmove(buf + at, buf + at + len, n - at - len);
        return n - len;
    case 2: {                                                 /* repeat a piece elsewhere */
        size_t to = vc_draw_int(d, (uint32_t)n), gap = widen(buf, &n, cap, to, len);
        memmove(buf + to, buf + (at + gap <= n ? at : 0), gap);
        return n;
    }
    case 3: {                                                 /* insert an edge value */
        const char *w = words[vc_draw_int(d, sizeof words / sizeof *words)];
        size_t gap = widen(buf, &n, cap, at, strlen(w));
        memcpy(buf + at, w, gap);
        return n;
    }
    case 4:
    case 5: change_digit(d, buf, n, at); return n;
    default: change_byte(d, buf + at); return n;
    }
}

size_t mutate(uint8_t *buf, size_t n, size_t cap, uint32_t seed, uint32_t round)
{
    vc_draws d = vc_draws_of(seed, round, 0, 0);
    uint32_t times = 1 + vc_draw_int(&d, 4);
    for (uint32_t i = 0; i < times; i++)
        n = change(&d, buf, n, cap);
    return n;
}

/* Writes data into the folder that VLT_SEEDS names, under a name that depends on it alone. */
static void keep_seed(const void *data, size_t n)
{
    const char *folder = getenv("VLT_SEEDS");
    uint64_t name = n;
    char path[4096];
    if (!folder)
        return;
    for (size_t i = 0; i < n; i++)
        name = name * 0x100000001b3u + ((const uint8_t *)data)[i];
    snprintf(path, sizeof path, "%s/%016llx", folder, (unsigned long long)name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f))
        abort();
}

void mutate_run(const void *data, size_t n, uint32_t seed, uint32_t rounds,
                int (*fn)(const uint8_t *data, size_t size))
{
    size_t cap = n * 2 + 64;
    uint8_t *buf = malloc(cap);
    keep_seed(data, n);
    for (uint32_t r = 0; buf && r < rounds; r++) {
        memcpy(buf, data, n);
        size_t m = mutate(buf, n, cap, seed, r);
        uint8_t *exact = malloc(m ? m : 1);
        if (!exact)
            break;
        memcpy(exact, buf, m);
        fn(exact, m);
        free(exact);
    }
    free(buf);
}
