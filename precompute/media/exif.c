/* exif.c - the EXIF orientation (see internal.h) */
#include <string.h>

#include "precompute/media/internal.h"

enum { TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3, TYPE_LONG = 4, EXIF_MAX = 1 << 16 };

static uint32_t get(const uint8_t *p, int bytes, bool little)
{
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++)
        v = v << 8 | p[little ? bytes - 1 - i : i];
    return v;
}

/* "II" or "MM", 42, offset of the first directory; a directory is a count and entries of 12
 * bytes: tag, type, count, value. */
int media_exif_tiff(const uint8_t *p, size_t n)
{
    if (n < 8 || (memcmp(p, "II*\0", 4) && memcmp(p, "MM\0*", 4)))
        return 0;
    bool little = p[0] == 'I';
    size_t at = get(p + 4, 4, little);
    if (at > n - 2)
        return 0;

    uint32_t count = get(p + at, 2, little);
    at += 2;
    for (uint32_t i = 0; i < count && n - at >= 12; i++, at += 12) {
        const uint8_t *e = p + at;
        if (get(e, 2, little) != TAG_ORIENTATION)
            continue;
        uint32_t type = get(e + 2, 2, little);
        uint32_t v = type == TYPE_SHORT ? get(e + 8, 2, little)
                   : type == TYPE_LONG ? get(e + 8, 4, little) : 0;
        return v >= 1 && v <= 8 ? (int)v : 0;
    }
    return 0;
}

static bool read_at(media_io *io, void *buf, size_t n, int64_t at)
{
    return media_io_at(io, buf, n, at) == (ssize_t)n;
}

static int exif_block(media_io *io, int64_t at, uint32_t size)
{
    uint8_t buf[EXIF_MAX];
    ssize_t n = media_io_at(io, buf, size < sizeof buf ? size : sizeof buf, at);
    if (n >= 6 && !memcmp(buf, "Exif\0\0", 6))      /* WebP writers disagree about this prefix */
        return media_exif_tiff(buf + 6, (size_t)n - 6);
    return n > 0 ? media_exif_tiff(buf, (size_t)n) : 0;
}

/* Chunks of PNG (size, name, data, crc; big endian) and of RIFF (name, size, data, padding). */
static int exif_chunk(media_io *io, bool png)
{
    int64_t at = png ? 8 : 12;
    uint8_t head[8];
    for (int i = 0; i < 4096 && read_at(io, head, sizeof head, at); i++) {
        const uint8_t *name = png ? head + 4 : head;
        uint32_t size = png ? get(head, 4, false) : get(head + 4, 4, true);
        if (!memcmp(name, png ? "eXIf" : "EXIF", 4))
            return exif_block(io, at + 8, size);
        at += 8 + (int64_t)size + (png ? 4 : size & 1);
    }
    return 0;
}

int media_exif_file(media_io *io)
{
    uint8_t head[12];
    if (!read_at(io, head, sizeof head, 0))
        return 0;
    if (!memcmp(head, "\x89PNG\r\n\x1a\n", 8))
        return exif_chunk(io, true);
    if (!memcmp(head, "RIFF", 4) && !memcmp(head + 8, "WEBP", 4))
        return exif_chunk(io, false);
    return 0;
}

bool media_is_animated_webp(media_io *io)
{
    uint8_t head[21];
    return read_at(io, head, sizeof head, 0) && !memcmp(head, "RIFF", 4) &&
           !memcmp(head + 8, "WEBPVP8X", 8) && head[20] & 2;
}
