/* tiff_pixels.c - strips and tiles of samples to RGBA (see tiff.h)
 *
 * The frame has four places for each pixel, of 8 bits, or of 16 where samples have more than 8. The
 * samples are first put there as they are (gray and indices into the first, alpha into the last)
 * and then become colours in place. */
#include <stdlib.h>
#include <string.h>

#include "precompute/media/tiff.h"

enum { PLACES = 4, ALPHA = 3 };
#define MAX_BLOCK ((tmsize_t)1 << 31)

static bool is_deep(const media_tiff *t)
{
    return t->bits > 8;
}

static int damaged(const media_tiff *t, vc_err *err)
{
    return vc_fail(err, VC_EFORMAT, "damaged TIFF: %s",
                   *t->message ? t->message : "its pixels end early");
}

static void *row_of(const AVFrame *f, uint32_t y)
{
    return f->data[0] + (ptrdiff_t)y * f->linesize[0];
}

/* ---- samples into their places ---- */

/* The place of a sample in a pixel; -1: it is not used. */
static int place_of(const media_tiff *t, int sample)
{
    return sample == t->alpha ? ALPHA : sample < t->n_colours ? sample : -1;
}

/* b bits, the highest first, from bit `at` on. */
static uint32_t bits_at(const uint8_t *p, uint64_t at, int b)
{
    uint64_t v = 0;
    const uint64_t first = at >> 3, last = (at + (uint64_t)b - 1) >> 3;
    for (uint64_t i = first; i <= last; i++)
        v = v << 8 | p[i];
    v >>= 7 - ((at + (uint64_t)b - 1) & 7);
    return (uint32_t)(v & ((UINT64_C(1) << b) - 1));
}

/* Sample i of a row; libtiff gives those of whole bytes in the machine's order. */
static uint32_t sample_at(const uint8_t *row, uint64_t i, int bits)
{
    uint16_t v16;
    uint32_t v32;
    switch (bits) {
    case 8:
        return row[i];
    case 16:
        memcpy(&v16, row + 2 * i, sizeof v16);
        return v16;
    case 24:
        return row[3 * i] | (uint32_t)row[3 * i + 1] << 8 | (uint32_t)row[3 * i + 2] << 16;
    case 32:
        memcpy(&v32, row + 4 * i, sizeof v32);
        return v32;
    default:
        return bits_at(row, i * (uint64_t)bits, bits);
    }
}

/* From 0..2^bits-1 to 0..255 or, of more than 8 bits, to 0..65535. */
static uint32_t scaled(uint32_t v, int bits)
{
    if (bits == 8 || bits == 16)
        return v;
    if (bits > 16)
        return v >> (bits - 16);
    const uint32_t most = (1u << bits) - 1, to = bits < 8 ? 255 : 65535;
    return (v * to + most / 2) / most;
}

/* Every step-th sample of n from `src` on becomes place `to` of a pixel from x on. */
static void put_row(const media_tiff *t, void *row, uint32_t x, uint32_t n, const uint8_t *src,
                    int sample, int step, int to)
{
    const bool index = t->colours == TIFF_PALETTE && to == 0;
    uint8_t *p8 = (uint8_t *)row + (size_t)x * PLACES + to;
    uint16_t *p16 = (uint16_t *)row + (size_t)x * PLACES + to;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t v = sample_at(src, (uint64_t)i * (uint64_t)step + (uint64_t)sample, t->bits);
        v = index ? v : scaled(v, t->bits);
        if (is_deep(t))
            p16[(size_t)i * PLACES] = (uint16_t)v;
        else
            p8[(size_t)i * PLACES] = (uint8_t)v;
    }
}

/* A block's h rows of w pixels go to (y, x). plane: the sample that it has; -1: it has all. */
static void put_block(const media_tiff *t, AVFrame *f, uint32_t y, uint32_t x, uint32_t h,
                      uint32_t w, const uint8_t *src, tmsize_t row_bytes, int plane)
{
    for (uint32_t i = 0; i < h; i++, src += row_bytes)
        for (int s = 0; s < (plane < 0 ? t->samples : 1); s++) {
            int to = place_of(t, plane < 0 ? s : plane);
            if (to >= 0)
                put_row(t, row_of(f, y + i), x, w, src, s, plane < 0 ? t->samples : 1, to);
        }
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static int read_strips(media_tiff *t, AVFrame *f, uint8_t *buf, tmsize_t row_bytes, int plane,
                       vc_err *err)
{
    uint32_t rows = 0;
    TIFFGetFieldDefaulted(t->tif, TIFFTAG_ROWSPERSTRIP, &rows);
    rows = rows ? least(rows, t->h) : t->h;
    for (uint32_t y = 0; y < t->h; y += rows) {
        const uint32_t h = least(rows, t->h - y);
        uint32_t strip = TIFFComputeStrip(t->tif, y, (uint16_t)(plane < 0 ? 0 : plane));
        tmsize_t got = TIFFReadEncodedStrip(t->tif, strip, buf, row_bytes * (tmsize_t)h);
        if (got < row_bytes * (tmsize_t)h || *t->message)
            return damaged(t, err);
        put_block(t, f, y, 0, h, t->w, buf, row_bytes, plane);
    }
    return 0;
}

static int read_tiles(media_tiff *t, AVFrame *f, uint8_t *buf, tmsize_t bytes, int plane,
                      vc_err *err)
{
    uint32_t tw = 0, th = 0;
    const tmsize_t row_bytes = TIFFTileRowSize(t->tif);
    TIFFGetField(t->tif, TIFFTAG_TILEWIDTH, &tw);
    TIFFGetField(t->tif, TIFFTAG_TILELENGTH, &th);
    for (uint32_t y = 0; y < t->h; y += th)
        for (uint32_t x = 0; x < t->w; x += tw) {
            uint32_t tile = TIFFComputeTile(t->tif, x, y, 0, (uint16_t)(plane < 0 ? 0 : plane));
            if (TIFFReadEncodedTile(t->tif, tile, buf, bytes) < bytes || *t->message)
                return damaged(t, err);
            put_block(t, f, y, x, least(th, t->h - y), least(tw, t->w - x), buf, row_bytes, plane);
        }
    return 0;
}

/* The bytes of the largest block; 0: they are more than allowed. *row_bytes: of a strip's row. */
static tmsize_t block_size(const media_tiff *t, tmsize_t *row_bytes)
{
    uint32_t rows = 0;
    *row_bytes = TIFFScanlineSize(t->tif);
    TIFFGetFieldDefaulted(t->tif, TIFFTAG_ROWSPERSTRIP, &rows);
    rows = rows ? least(rows, t->h) : t->h;
    tmsize_t size = t->tiled ? TIFFTileSize(t->tif) : TIFFVStripSize(t->tif, rows);
    return *row_bytes < 1 || size < 1 || size > MAX_BLOCK ? 0 : size;
}

static int read_samples(media_tiff *t, AVFrame *f, vc_err *err)
{
    tmsize_t row_bytes, size = block_size(t, &row_bytes);
    if (!size)
        return vc_fail(err, VC_EFORMAT, "damaged TIFF: strips or tiles that no picture has");
    uint8_t *buf = calloc(1, (size_t)size + 8);
    if (!buf)
        return vc_fail(err, VC_ENOMEM, "out of memory for %ux%u pixels", t->w, t->h);
    int rc = 0;
    for (int s = 0; !rc && s < (t->planes ? t->samples : 1); s++) {
        const int plane = t->planes ? s : -1;
        if (plane >= 0 && place_of(t, plane) < 0)
            continue;
        rc = t->tiled ? read_tiles(t, f, buf, size, plane, err)
                      : read_strips(t, f, buf, row_bytes, plane, err);
    }
    free(buf);
    return rc;
}

/* ---- samples to colours, in place ---- */

/* As FFmpeg rounds. */
static uint32_t without_ink(uint32_t ink, uint32_t black, uint32_t most)
{
    const uint64_t v = (uint64_t)(most - ink) * (most - black);
    return (uint32_t)(most == 255 ? v * 257 >> 16 : (v + most / 2) / most);
}

static uint32_t unmultiplied(uint32_t c, uint32_t a, uint32_t most)
{
    return a ? least((uint32_t)(((uint64_t)c * most + a / 2) / a), most) : c;
}

static void to_colour(const media_tiff *t, uint32_t p[PLACES], uint16_t *const map[3],
                      bool map_of_bytes)
{
    const uint32_t most = is_deep(t) ? 65535 : 255, first = p[0], black = p[3];
    for (int c = 0; c < 3; c++)
        if (t->colours == TIFF_CMYK)
            p[c] = without_ink(p[c], black, most);
        else if (t->colours == TIFF_PALETTE)
            p[c] = map[c][first] >> (map_of_bytes ? 0 : 8);
        else if (t->n_colours == 1)
            p[c] = t->colours == TIFF_WHITE_IS_0 ? most - first : first;
    if (t->alpha < 0)
        p[ALPHA] = most;
    for (int c = 0; c < 3 && t->associated; c++)
        p[c] = unmultiplied(p[c], p[ALPHA], most);
}

/* Some writers made palettes of bytes, where the standard has 16 bits. */
static bool is_map_of_bytes(uint16_t *const map[3], int bits)
{
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 1 << bits; i++)
            if (map[c][i] > 255)
                return false;
    return true;
}

static int to_colours(media_tiff *t, AVFrame *f, vc_err *err)
{
    uint16_t *map[3] = { 0 };
    uint32_t p[PLACES];
    if (t->colours == TIFF_PALETTE &&
        !TIFFGetField(t->tif, TIFFTAG_COLORMAP, &map[0], &map[1], &map[2]))
        return vc_fail(err, VC_EFORMAT, "damaged TIFF: no palette (tag 320, ColorMap)");
    const bool bytes = t->colours == TIFF_PALETTE && is_map_of_bytes(map, t->bits);
    for (uint32_t y = 0; y < t->h; y++) {
        uint8_t *p8 = row_of(f, y);
        uint16_t *p16 = row_of(f, y);
        for (uint32_t x = 0; x < t->w; x++, p8 += PLACES, p16 += PLACES) {
            for (int i = 0; i < PLACES; i++)
                p[i] = is_deep(t) ? p16[i] : p8[i];
            to_colour(t, p, map, bytes);
            for (int i = 0; i < PLACES; i++)
                if (is_deep(t))
                    p16[i] = (uint16_t)p[i];
                else
                    p8[i] = (uint8_t)p[i];
        }
    }
    return 0;
}

/* ---- the picture ---- */

/* libtiff's own conversion, as stored: it turns nothing where the wanted orientation is the
 * file's. */
static int read_by_libtiff(media_tiff *t, AVFrame *f, vc_err *err)
{
    uint32_t *raster = malloc((size_t)t->w * t->h * sizeof *raster);
    if (!raster)
        return vc_fail(err, VC_ENOMEM, "out of memory for %ux%u pixels", t->w, t->h);
    int ok = TIFFReadRGBAImageOriented(t->tif, t->w, t->h, raster, t->orientation, 1);
    for (uint32_t y = 0; ok && y < t->h; y++) {
        uint8_t *p = row_of(f, y);
        const uint32_t *from = raster + (size_t)y * t->w;
        for (uint32_t x = 0; x < t->w; x++, p += PLACES) {
            p[0] = (uint8_t)TIFFGetR(from[x]);
            p[1] = (uint8_t)TIFFGetG(from[x]);
            p[2] = (uint8_t)TIFFGetB(from[x]);
            p[ALPHA] = 255;
        }
    }
    free(raster);
    return ok && !*t->message ? 0 : damaged(t, err);
}

int media_tiff_pixels(media_tiff *t, AVFrame *f, vc_err *err)
{
    const bool eight = !is_deep(t) || t->colours == TIFF_BY_LIBTIFF;
    const enum AVPixelFormat format = !eight ? AV_PIX_FMT_RGBA64
                                      : t->alpha < 0 ? AV_PIX_FMT_RGB0 : AV_PIX_FMT_RGBA;
    int rc = media_still_frame(f, format, (int)t->w, (int)t->h, err);
    if (rc)
        return rc;
    if (t->colours == TIFF_BY_LIBTIFF)
        return read_by_libtiff(t, f, err);
    rc = read_samples(t, f, err);
    return rc ? rc : to_colours(t, f, err);
}
