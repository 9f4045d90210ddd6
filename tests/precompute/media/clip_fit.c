/* clip_fit.c - the last picture of a transport stream fills its last packet (see clip_fit.h) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tests/precompute/media/clip_fit.h"
#include "tests/precompute/media/media_clip.h"

/* The first byte of the data of a packet at p. */
static uint8_t *data_of(uint8_t *p)
{
    return p + 4 + (p[3] & 0x20 ? 1 + p[4] : 0);
}

/* Moves the stuffing of the last picture's last packet, and the room of its last `bytes` bytes,
 * into the header in front of its data, where the packets begin at `first` and end at `last`. */
static void move_stuffing(uint8_t *first, uint8_t *last, size_t packet, size_t bytes)
{
    enum { MOST = 1 << 16 };
    uint8_t *all = malloc(MOST);
    size_t n = 0, at = 0;

    assert_non_null(all);
    for (uint8_t *p = first; p <= last; p += packet) {
        const size_t k = (size_t)(p + 188 - data_of(p));
        assert_true(n + k + 188 < MOST);
        memcpy(all + n, data_of(p), k);
        n += k;
    }
    const bool field = last[3] & 0x20, clock = field && last[4] && last[5] & 0x10;
    const size_t header = 9 + all[8], before = (size_t)(data_of(last) - last);
    assert_true((!field || !last[4] || !(last[5] & 0xf)) && header + bytes < n);
    if (clock)
        last[4] = 7;
    else
        last[3] &= 0xdf;
    const size_t more = before - (size_t)(data_of(last) - last) + bytes;
    assert_true(all[8] + more < 256);
    n -= bytes;
    all[8] += (uint8_t)more;
    memmove(all + header + more, all + header, n - header);
    memset(all + header, 0xff, more);
    for (uint8_t *p = first; p <= last; p += packet) {
        const size_t k = (size_t)(p + 188 - data_of(p));
        memcpy(data_of(p), all + at, k);
        at += k;
    }
    assert_true(at == n + more);
    free(all);
}

void clip_fit_last(const char *in, size_t packet, size_t less, size_t bytes, const char *out)
{
    size_t n;
    uint8_t *p = clip_load(clip_path(in), &n), *last = p + n - 188, *first;
    for (; last[1] == 0x1f && last[2] == 0xff; last -= packet)
        n -= packet;
    for (first = last; !(first[1] & 0x40); first -= packet)
        assert_true(first[0] == 0x47 && (first[1] & 0x1f) == (last[1] & 0x1f) &&
                    first[2] == last[2]);
    move_stuffing(first, last, packet, bytes);
    if (less && ((last - less * packet)[3] & 15) == 15)
        less++;
    clip_save(clip_path(out), p, n - less * packet);
    free(p);
}

void clip_join(const char *a, const char *b, const char *out)
{
    size_t n, more;
    uint8_t *p = clip_load(clip_path(a), &n), *q = clip_load(clip_path(b), &more);
    p = realloc(p, n + more);
    assert_non_null(p);
    memcpy(p + n, q, more);
    clip_save(clip_path(out), p, n + more);
    free(p);
    free(q);
}
