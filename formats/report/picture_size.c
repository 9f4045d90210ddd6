/* picture_size.c - see picture_size.h */
#include "formats/report/picture_size.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_PARTS = 4096 };               /* segments or boxes that are read */

typedef struct source {
    const uint8_t *data;                 /* NULL: the file is read */
    int fd;
    int64_t n;
    int parts;                           /* read so far */
} source;

/* Reads n bytes from `at`; false if they are not there. */
static bool get(source *s, int64_t at, void *to, size_t n)
{
    if (at < 0 || at > s->n || s->n - at < (int64_t)n)
        return false;
    if (!s->data)
        return pread(s->fd, to, n, at) == (ssize_t)n;
    memcpy(to, s->data + at, n);
    return true;
}

static uint32_t be16(const uint8_t *b)
{
    return (uint32_t)b[0] << 8 | b[1];
}

static uint32_t be32(const uint8_t *b)
{
    return be16(b) << 16 | be16(b + 2);
}

static vf_picture_size size_of(uint32_t w, uint32_t h)
{
    const bool good = w && h && w <= 65535 && h <= 65535;
    return good ? (vf_picture_size){ (int)w, (int)h } : (vf_picture_size){ 0, 0 };
}

static vf_picture_size png_size(source *s)
{
    uint8_t b[8];
    return get(s, 16, b, sizeof b) ? size_of(be32(b), be32(b + 4)) : size_of(0, 0);
}

/* A frame header, SOF0 to SOF15 but for DHT, JPG and DAC, has the size. */
static vf_picture_size jpeg_size(source *s)
{
    uint8_t b[9];
    for (int64_t at = 2; s->parts++ < MAX_PARTS && get(s, at, b, 4) && b[0] == 0xff;) {
        const bool frame = b[1] >= 0xc0 && b[1] <= 0xcf && b[1] != 0xc4 && b[1] != 0xc8 &&
                           b[1] != 0xcc;
        if (frame)
            return get(s, at, b, sizeof b) ? size_of(be16(b + 7), be16(b + 5)) : size_of(0, 0);
        at += b[1] == 0xff ? 1 : 2 + (int64_t)be16(b + 2);     /* 0xff fills up */
    }
    return size_of(0, 0);
}

/* ---- MP4 ---- */

/* The size at the end of a track header, in 16.16 fixed point; its matrix, of 36 bytes, stands in
 * front. Without values on the matrix's diagonal the track is turned by a quarter. */
static vf_picture_size track_size(source *s, int64_t end)
{
    uint8_t b[44];
    if (!get(s, end - 44, b, sizeof b))
        return size_of(0, 0);
    const uint32_t w = be32(b + 36) >> 16, h = be32(b + 40) >> 16;
    const bool turned = !be32(b) && !be32(b + 16) && be32(b + 4);
    return turned ? size_of(h, w) : size_of(w, h);
}

/* Looks for a track's size in the boxes from `at` to `end`, which stand in `depth` others: moov
 * holds trak, which holds tkhd. */
static vf_picture_size boxes_size(source *s, int64_t at, int64_t end, int depth)
{
    uint8_t b[16];
    vf_picture_size found = { 0, 0 };
    while (!found.w && s->parts++ < MAX_PARTS && end - at >= 8 && get(s, at, b, 8)) {
        int64_t head = 8, n = be32(b);
        if (n == 1 && get(s, at, b, 16)) {
            const uint64_t wide = (uint64_t)be32(b + 8) << 32 | be32(b + 12);
            head = 16;
            n = wide <= INT64_MAX ? (int64_t)wide : 0;
        } else if (n == 0) {
            n = end - at;
        }
        if (n < head || n > end - at)
            break;
        if (depth < 2 && !memcmp(b + 4, depth ? "trak" : "moov", 4))
            found = boxes_size(s, at + head, at + n, depth + 1);
        else if (!memcmp(b + 4, "tkhd", 4) && n - head >= 44)
            found = track_size(s, at + n);
        at += n;
    }
    return found;
}

static vf_picture_size find_size(source *s)
{
    uint8_t b[8];
    if (!get(s, 0, b, sizeof b))
        return size_of(0, 0);
    if (!memcmp(b, "\x89PNG\r\n\x1a\n", 8))
        return png_size(s);
    if (!memcmp(b, "\xff\xd8\xff", 3))
        return jpeg_size(s);
    return memcmp(b + 4, "ftyp", 4) ? size_of(0, 0) : boxes_size(s, 0, s->n, 0);
}

vf_picture_size vf_picture_size_of(const void *data, size_t n)
{
    source s = { .data = data, .n = (int64_t)n };
    return find_size(&s);
}

vf_picture_size vf_picture_size_of_file(int fd)
{
    struct stat st;
    source s = { .fd = fd, .n = fstat(fd, &st) ? 0 : (int64_t)st.st_size };
    return find_size(&s);
}
