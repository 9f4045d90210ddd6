/* test_media_tiff.c - TIFFs of every layout are read right, or refused by their tags. libtiff
 * writes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>

#include "precompute/media/media.h"
#include "precompute/media/write.h"
#include "tests/lib/ok.h"
#include "tests/precompute/media/media_clip.h"

enum { H = 45, W = 70, TILE = 32, MOST = 6 };

typedef struct variant {
    const char *name;
    uint16_t photometric, bits, samples, compression;
    const char *how;         /* letters: t tiles, p planes, b BigTIFF, m big-endian, a alpha, A that
                              * is multiplied in, x an extra sample, f floats, s signed, o a
                              * reduced page in front, O no other page, e a page behind, r 16 rows
                              * a strip, 2 a predictor */
    int tolerance;           /* to the colours that were written */
    const char *refused;     /* a part of the message; NULL: it is read */
    bool anew;               /* older versions read it wrong, or not at all */
} variant;

#define RGB PHOTOMETRIC_RGB
#define GRAY PHOTOMETRIC_MINISBLACK
#define WHITE PHOTOMETRIC_MINISWHITE
#define CMYK PHOTOMETRIC_SEPARATED
#define YCC PHOTOMETRIC_YCBCR
#define PAL PHOTOMETRIC_PALETTE
#define NONE COMPRESSION_NONE
#define LZW COMPRESSION_LZW
#define ZIP COMPRESSION_ADOBE_DEFLATE
#define PACK COMPRESSION_PACKBITS
#define JPEG COMPRESSION_JPEG

static const variant variants[] = {
    { "strips", RGB, 8, 3, NONE, "", 0, NULL, false },
    { "short strips", RGB, 8, 3, LZW, "r", 0, NULL, false },
    { "deflate", RGB, 8, 3, ZIP, "r", 0, NULL, false },
    { "packbits", RGB, 8, 3, PACK, "r", 0, NULL, false },
    { "lzma", RGB, 8, 3, COMPRESSION_LZMA, "r", 0, NULL, false },
    { "big-endian", RGB, 8, 3, NONE, "m", 0, NULL, false },
    { "planes", RGB, 8, 3, LZW, "p", 0, NULL, false },
    { "alpha", RGB, 8, 4, NONE, "a", 0, NULL, false },
    { "extra sample", RGB, 8, 4, NONE, "x", 0, NULL, false },
    { "gray", GRAY, 8, 1, LZW, "", 0, NULL, false },
    { "white is 0", WHITE, 8, 1, NONE, "", 0, NULL, false },
    { "bilevel", GRAY, 1, 1, PACK, "", 0, NULL, false },
    { "fax 3", WHITE, 1, 1, COMPRESSION_CCITTFAX3, "", 0, NULL, false },
    { "fax 4", WHITE, 1, 1, COMPRESSION_CCITTFAX4, "r", 0, NULL, false },
    { "2 bits", GRAY, 2, 1, NONE, "", 0, NULL, false },
    { "4 bits", GRAY, 4, 1, LZW, "", 0, NULL, false },
    { "palette", PAL, 8, 1, LZW, "", 0, NULL, false },
    { "palette of 4 bits", PAL, 4, 1, NONE, "", 0, NULL, false },
    { "cmyk", CMYK, 8, 4, LZW, "", 1, NULL, false },
    { "16 bits", RGB, 16, 3, NONE, "", 1, NULL, false },
    { "16 bits, predictor, big-endian", RGB, 16, 3, LZW, "m2", 1, NULL, false },
    { "16 bits and alpha", RGB, 16, 4, ZIP, "a", 1, NULL, false },
    /* wrong in older versions, or refused */
    { "tiles", RGB, 8, 3, NONE, "t", 0, NULL, true },
    { "lzw tiles", RGB, 8, 3, LZW, "t", 0, NULL, true },
    { "deflate tiles of 16 bits", RGB, 16, 3, ZIP, "t2", 1, NULL, true },
    { "tiles in planes", RGB, 8, 3, ZIP, "tp", 0, NULL, true },
    { "gray tiles", GRAY, 8, 1, NONE, "t", 0, NULL, true },
    { "bilevel tiles", GRAY, 1, 1, NONE, "t", 0, NULL, true },
    { "tiles of 12 bits", RGB, 12, 3, NONE, "t", 1, NULL, true },
    { "jpeg", RGB, 8, 3, JPEG, "", 6, NULL, true },
    { "jpeg strips", RGB, 8, 3, JPEG, "r", 6, NULL, true },
    { "jpeg ycbcr", YCC, 8, 3, JPEG, "r", 12, NULL, true },
    { "jpeg ycbcr tiles", YCC, 8, 3, JPEG, "t", 12, NULL, true },
    { "gray jpeg", GRAY, 8, 1, JPEG, "", 6, NULL, true },
    { "cmyk jpeg", CMYK, 8, 4, JPEG, "", 8, NULL, true },
    { "planes of jpeg", RGB, 8, 3, JPEG, "p", 6, NULL, true },
    { "gray of 16 bits", GRAY, 16, 1, NONE, "", 1, NULL, true },
    { "white is 0 of 16 bits", WHITE, 16, 1, LZW, "", 1, NULL, true },
    { "gray of 10 bits", GRAY, 10, 1, NONE, "", 1, NULL, true },
    { "gray of 12 bits", GRAY, 12, 1, NONE, "", 1, NULL, true },
    { "gray of 32 bits", GRAY, 32, 1, LZW, "", 1, NULL, true },
    { "gray and alpha", GRAY, 8, 2, NONE, "a", 0, NULL, true },
    { "gray and alpha of 16 bits", GRAY, 16, 2, NONE, "a", 1, NULL, true },
    { "4 bits of rgb", RGB, 4, 3, NONE, "", 9, NULL, true },
    { "32 bits", RGB, 32, 3, NONE, "", 1, NULL, true },
    { "16 bits in planes", RGB, 16, 3, LZW, "p", 1, NULL, true },
    { "cmyk in planes", CMYK, 8, 4, NONE, "p", 1, NULL, true },
    { "cmyk of 16 bits", CMYK, 16, 4, LZW, "", 1, NULL, true },
    { "alpha multiplied in", RGB, 8, 4, LZW, "A", 3, NULL, true },
    { "alpha multiplied into 16 bits", RGB, 16, 4, LZW, "A", 1, NULL, true },
    { "many samples", RGB, 8, 6, LZW, "a", 0, NULL, true },
    { "BigTIFF", RGB, 8, 3, LZW, "b", 0, NULL, false },
    { "BigTIFF of tiles, big-endian", RGB, 16, 3, ZIP, "btm", 1, NULL, true },
    { "a reduced page in front", RGB, 8, 3, LZW, "o", 0, NULL, true },
    { "two pages", RGB, 8, 3, LZW, "e", 0, NULL, false },
    { "zstd", RGB, 8, 3, COMPRESSION_ZSTD, "t", 0, NULL, true },
    { "half floats", RGB, 16, 3, NONE, "f", 0, "tag 339 (SampleFormat) 3: floating", true },
    { "floats", GRAY, 32, 1, ZIP, "f", 0, "tag 339 (SampleFormat) 3: floating", true },
    { "signed", GRAY, 16, 1, NONE, "s", 0, "tag 339 (SampleFormat) 2: signed", true },
    { "raw", 32803, 8, 1, NONE, "", 0, "tag 262 (PhotometricInterpretation) 32803", true },
    { "Lab", PHOTOMETRIC_CIELAB, 8, 3, NONE, "", 0, "tag 262 (PhotometricInterpretation) 8", true },
    { "raw file", RGB, 8, 3, NONE, "O", 0, "tag 254 (NewSubfileType) 1: no page", true },
};

static bool has(const variant *v, char c)
{
    return strchr(v->how, c);
}

static uint8_t palette_of(int c, int i, int bits)
{
    return (uint8_t)((i * (c == 1 ? 7 : c == 2 ? 31 : 1) * (bits == 4 ? 17 : 1)) & 255);
}

/* The colours that a reader should see at (y, x), of one byte each. */
static void colour_at(const variant *v, int y, int x, double rgb[3])
{
    const double smooth[3] = { 20 + 200. * x / W, 230 - 180. * y / H,
                               60 + 120. * ((x + 2 * y) % (W + 2 * H)) / (W + 2 * H) };
    const int levels = v->bits >= 8 ? 255 : (1 << v->bits) - 1;
    for (int c = 0; c < 3; c++) {
        double g = v->photometric == RGB || v->photometric == YCC || v->photometric == CMYK
                       ? smooth[c] : smooth[0];
        int level = (int)(g / 255 * levels + 0.5);
        rgb[c] = v->bits == 16 && v->compression != JPEG ? g : level * 255. / levels;
        if (v->photometric == PAL)
            rgb[c] = palette_of(c, level, v->bits);
    }
}

static double alpha_at(int y, int x)
{
    return 0.25 + 0.7 * ((x + y) % 50) / 50;
}

/* Sample s of pixel (y, x), as 0..2^bits-1. */
static uint32_t sample_at(const variant *v, int y, int x, int s)
{
    const double most = (double)((UINT64_C(1) << v->bits) - 1);
    const int colours = v->photometric == CMYK ? 4 : v->samples < 3 ? 1 : 3;
    double rgb[3], value;
    if (v->photometric == PAL)
        return (uint32_t)((20 + 200. * x / W) / 255 * most + 0.5);
    colour_at(v, y, x, rgb);
    if (s == colours)
        value = alpha_at(y, x);
    else if (s > colours)
        value = 0.3;
    else if (v->photometric == CMYK)
        value = s == 3 ? 0 : 1 - rgb[s] / 255;
    else
        value = rgb[s] / 255 * (has(v, 'A') ? alpha_at(y, x) : 1);
    if (v->photometric == WHITE)
        value = 1 - value;
    return (uint32_t)(value * most + 0.5);
}

static void put_sample(uint8_t *row, size_t i, int bits, uint32_t value)
{
    if (bits == 16)
        ((uint16_t *)(void *)row)[i] = (uint16_t)value;
    else if (bits == 32)
        ((uint32_t *)(void *)row)[i] = value;
    else
        for (int b = 0; b < bits; b++) {
            size_t at = i * (size_t)bits + (size_t)b;
            if (value >> (bits - 1 - b) & 1)
                row[at / 8] |= (uint8_t)(0x80 >> at % 8);
        }
}

/* A block of h rows of w pixels from (y0, x0) on; plane -1: all samples. */
static uint8_t *block(const variant *v, int y0, int x0, int h, int w, int plane, size_t row_bytes)
{
    uint8_t *p = test_calloc((size_t)h + 1, row_bytes + 8);
    const int step = plane < 0 ? v->samples : 1;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            for (int s = 0; s < step; s++) {
                int sy = y0 + y < H ? y0 + y : H - 1, sx = x0 + x < W ? x0 + x : W - 1;
                put_sample(p + (size_t)y * row_bytes, (size_t)(x * step + s), v->bits,
                           sample_at(v, sy, sx, plane < 0 ? s : plane));
            }
    return p;
}

static void write_strips(TIFF *t, const variant *v, int plane)
{
    const int rows = has(v, 'r') ? 16 : H;
    const size_t row = (size_t)TIFFScanlineSize(t);
    for (int y = 0; y < H; y += rows) {
        int h = y + rows < H ? rows : H - y;
        uint8_t *p = block(v, y, 0, h, W, plane, row);
        uint32_t strip = TIFFComputeStrip(t, (uint32_t)y, (uint16_t)(plane < 0 ? 0 : plane));
        assert_true(TIFFWriteEncodedStrip(t, strip, p, (tmsize_t)(row * (size_t)h)) > 0);
        test_free(p);
    }
}

static void write_tiles(TIFF *t, const variant *v, int plane)
{
    const size_t row = (size_t)TIFFTileRowSize(t);
    for (int y = 0; y < H; y += TILE)
        for (int x = 0; x < W; x += TILE) {
            uint8_t *p = block(v, y, x, TILE, TILE, plane, row);
            uint32_t tile = TIFFComputeTile(t, (uint32_t)x, (uint32_t)y, 0,
                                            (uint16_t)(plane < 0 ? 0 : plane));
            assert_true(TIFFWriteEncodedTile(t, tile, p, (tmsize_t)(row * TILE)) > 0);
            test_free(p);
        }
}

static void set_tags(TIFF *t, const variant *v, int orientation)
{
    const int colours = v->photometric == CMYK ? 4 : v->samples < 3 ? 1 : 3;
    uint16_t map[3][256], extra[MOST] = { has(v, 'A') ? EXTRASAMPLE_ASSOCALPHA
                                          : has(v, 'a') ? EXTRASAMPLE_UNASSALPHA : 0 };
    TIFFSetField(t, TIFFTAG_IMAGEWIDTH, W);
    TIFFSetField(t, TIFFTAG_IMAGELENGTH, H);
    TIFFSetField(t, TIFFTAG_BITSPERSAMPLE, v->bits);
    TIFFSetField(t, TIFFTAG_SAMPLESPERPIXEL, v->samples);
    TIFFSetField(t, TIFFTAG_COMPRESSION, v->compression);
    TIFFSetField(t, TIFFTAG_PHOTOMETRIC, v->photometric);
    TIFFSetField(t, TIFFTAG_PLANARCONFIG,
                 has(v, 'p') ? PLANARCONFIG_SEPARATE : PLANARCONFIG_CONTIG);
    if (orientation)
        TIFFSetField(t, TIFFTAG_ORIENTATION, orientation);
    if (v->samples > colours)
        TIFFSetField(t, TIFFTAG_EXTRASAMPLES, v->samples - colours, extra);
    if (has(v, 'f') || has(v, 's'))
        TIFFSetField(t, TIFFTAG_SAMPLEFORMAT, has(v, 'f') ? 3 : 2);
    if (has(v, '2'))
        TIFFSetField(t, TIFFTAG_PREDICTOR, PREDICTOR_HORIZONTAL);
    if (v->compression == JPEG) {
        TIFFSetField(t, TIFFTAG_JPEGQUALITY, 98);
        if (v->photometric == YCC)
            TIFFSetField(t, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    }
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 1 << (v->bits < 8 ? v->bits : 8); i++)
            map[c][i] = (uint16_t)(palette_of(c, i, v->bits) * 257);
    if (v->photometric == PAL)
        TIFFSetField(t, TIFFTAG_COLORMAP, map[0], map[1], map[2]);
    if (has(v, 't')) {
        TIFFSetField(t, TIFFTAG_TILEWIDTH, TILE);
        TIFFSetField(t, TIFFTAG_TILELENGTH, TILE);
    } else {
        TIFFSetField(t, TIFFTAG_ROWSPERSTRIP, has(v, 'r') ? 16 : H);
    }
}

/* A page of 8x8 black pixels. */
static void write_small(TIFF *t, uint32_t kind)
{
    const uint8_t row[8 * 3] = { 0 };
    TIFFSetField(t, TIFFTAG_SUBFILETYPE, kind);
    TIFFSetField(t, TIFFTAG_IMAGEWIDTH, 8);
    TIFFSetField(t, TIFFTAG_IMAGELENGTH, 8);
    TIFFSetField(t, TIFFTAG_BITSPERSAMPLE, 8);
    TIFFSetField(t, TIFFTAG_SAMPLESPERPIXEL, 3);
    TIFFSetField(t, TIFFTAG_PHOTOMETRIC, RGB);
    TIFFSetField(t, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
    for (uint32_t y = 0; y < 8; y++)
        TIFFWriteScanline(t, (void *)(uintptr_t)row, y, 0);
    assert_true(TIFFWriteDirectory(t));
}

static void write_tiff(const char *path, const variant *v, int orientation)
{
    char mode[8];
    snprintf(mode, sizeof mode, "w%s%s", has(v, 'b') ? "8" : "", has(v, 'm') ? "b" : "l");
    TIFF *t = TIFFOpen(path, mode);
    assert_non_null(t);
    if (has(v, 'o') || has(v, 'O'))
        write_small(t, FILETYPE_REDUCEDIMAGE);
    if (!has(v, 'O')) {
        set_tags(t, v, orientation);
        for (int s = 0; s < (has(v, 'p') ? v->samples : 1); s++)
            (has(v, 't') ? write_tiles : write_strips)(t, v, has(v, 'p') ? s : -1);
        assert_true(TIFFWriteDirectory(t));
    }
    if (has(v, 'e'))
        write_small(t, 0);
    TIFFClose(t);
}

static uint8_t *read_tiff(const char *path, media_info *info, vc_err *err)
{
    media *m;
    if (media_open(&m, path, info, err))
        return NULL;
    media_fit fit = { .rh = info->h, .rw = info->w, .h = info->h, .w = info->w };
    uint8_t *rgb = malloc((size_t)info->h * (size_t)info->w * 3);
    for (int again = 0; again < 2; again++)         /* a second read has equal pixels */
        if (media_read(m, rgb, (int64_t[]){ 0 }, 1, &fit, NULL, err)) {
            free(rgb);
            rgb = NULL;
            break;
        }
    media_close(m);
    return rgb;
}

static void check_pixels(const variant *v, const uint8_t *rgb, int orientation)
{
    const bool turned = orientation >= 5;
    const int h = turned ? W : H, w = turned ? H : W;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            const int o = orientation, low = H - 1, right = W - 1;
            int sy = o == 3 || o == 4 ? low - y : y, sx = o == 2 || o == 3 ? right - x : x;
            if (turned) {
                sy = o == 6 || o == 7 ? low - x : x;
                sx = o == 7 || o == 8 ? right - y : y;
            }
            double want[3];
            colour_at(v, sy, sx, want);
            for (int c = 0; c < 3; c++) {
                double off = rgb[(y * w + x) * 3 + c] - want[c];
                if (off > v->tolerance + 0.51 || off < -v->tolerance - 0.51)
                    fail_msg("%s: orientation %d: pixel %d,%d is off by %g", v->name, o, y, x, off);
            }
        }
}

static void check_reading(const variant *v, const char *path, bool anew)
{
    const char *name;
    vc_err err = { 0 };
    assert_ok(media_reading(&name, &(vf_part){ .name = path, .file = path }, &err), &err);
    if (!name != !anew)
        fail_msg("%s: its key is %s", v->name, name ? name : "the old one");
}

static void test_variants(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        const variant *v = &variants[i];
        media_info info;
        vc_err err = { 0 };
        if (!TIFFIsCODECConfigured(v->compression)) {
            print_message("%s: skipped, since libtiff lacks the compression\n", v->name);
            continue;
        }
        write_tiff(clip_path("v.tif"), v, 0);
        uint8_t *rgb = read_tiff(clip_path("v.tif"), &info, &err);
        if (v->refused && (rgb || err.code != VC_EFORMAT || !strstr(err.text, v->refused)))
            fail_msg("%s: %s", v->name, rgb ? "is read" : err.text);
        if (!v->refused && !rgb)
            fail_msg("%s: %s", v->name, err.text);
        if (!v->refused) {
            assert_true(info.h == H && info.w == W && info.frames == 1 && !info.is_video);
            check_pixels(v, rgb, 1);
            check_reading(v, clip_path("v.tif"), v->anew);
        }
        free(rgb);
    }
}

/* Of strips and of tiles; also where the tag lies behind 64 KiB of pixels. */
static void test_orientation(void **state)
{
    (void)state;
    static const variant rows[] = {
        { "strips", RGB, 8, 3, NONE, "", 0, NULL, false },
        { "tiles", RGB, 16, 3, LZW, "t", 1, NULL, true },
        { "behind the pixels", RGB, 32, 6, NONE, "", 1, NULL, true },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int o = 1; o <= 8; o++) {
            media_info info;
            vc_err err = { 0 };
            write_tiff(clip_path("o.tif"), &rows[i], o);
            uint8_t *rgb = read_tiff(clip_path("o.tif"), &info, &err);
            assert_ok(!rgb, &err);
            assert_int_equal(info.h, o >= 5 ? W : H);
            assert_int_equal(info.coded_h, H);
            check_pixels(&rows[i], rgb, o);
            check_reading(&rows[i], clip_path("o.tif"), rows[i].anew);
            free(rgb);
        }
}

/* A file of old JPEG: a whole JPEG at tags 513 and 514. */
static void test_old_jpeg(void **state)
{
    (void)state;
    enum { TAGS = 12, DIR = 8, DATA = 256 };
    const variant like = { "old JPEG", YCC, 8, 3, JPEG, "", 14, NULL, true };
    uint8_t *rgb = malloc(H * W * 3), *jpeg, *file;
    size_t n;
    for (int i = 0; i < H * W; i++) {
        double c[3];
        colour_at(&like, i / W, i % W, c);
        for (int k = 0; k < 3; k++)
            rgb[i * 3 + k] = (uint8_t)(c[k] + 0.5);
    }
    assert_int_equal(media_jpeg(&jpeg, &n, rgb, H, W, 95, NULL), 0);
    const uint32_t tags[TAGS][4] = {                /* tag, type, count, value */
        { 256, 3, 1, W }, { 257, 3, 1, H }, { 258, 3, 3, 200 }, { 259, 3, 1, 6 }, { 262, 3, 1, 6 },
        { 273, 4, 1, DATA }, { 277, 3, 1, 3 }, { 278, 3, 1, H }, { 279, 4, 1, (uint32_t)n },
        { 513, 4, 1, DATA }, { 514, 4, 1, (uint32_t)n }, { 530, 3, 2, 2 | 2 << 16 },
    };
    file = calloc(1, DATA + n);
    memcpy(file, "II*\0\x08\0\0\0\x0c\0", 10);
    for (int i = 0; i < TAGS; i++) {
        uint8_t *e = file + DIR + 2 + i * 12;
        const uint16_t head[2] = { (uint16_t)tags[i][0], (uint16_t)tags[i][1] };
        memcpy(e, head, 4);
        memcpy(e + 4, &tags[i][2], 8);
    }
    memcpy(file + 200, "\x08\0\x08\0\x08\0", 6);
    memcpy(file + DATA, jpeg, n);
    clip_save(clip_path("old.tif"), file, DATA + n);

    media_info info;
    vc_err err = { 0 };
    uint8_t *back = read_tiff(clip_path("old.tif"), &info, &err);
    assert_ok(!back, &err);
    check_pixels(&like, back, 1);
    check_reading(&like, clip_path("old.tif"), true);
    free(back);
    free(file);
    free(jpeg);
    free(rgb);
}

/* clip_save waits for the disk. */
static void save(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_true(f && fwrite(p, 1, n, f) == n);
    assert_int_equal(fclose(f), 0);
}

/* A file that is cut, or has a damaged byte, is refused or read whole; nothing is printed. */
static void test_damage(void **state)
{
    (void)state;
    static const variant rows[] = {
        { "lzw", RGB, 8, 3, LZW, "r", 0, NULL, false },
        { "deflate", RGB, 16, 3, ZIP, "t2", 1, NULL, false },
        { "jpeg", YCC, 8, 3, JPEG, "r", 12, NULL, false },
        { "fax 4", WHITE, 1, 1, COMPRESSION_CCITTFAX4, "", 0, NULL, false },
        { "plain", RGB, 8, 3, NONE, "p", 0, NULL, false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t n;
        media_info info;
        write_tiff(clip_path("d.tif"), &rows[i], 0);
        uint8_t *p = clip_load(clip_path("d.tif"), &n);
        for (size_t cut = 4; cut < n; cut += n / 30 + 1) {
            vc_err err = { 0 };
            save(clip_path("cut.tif"), p, cut);
            uint8_t *rgb = read_tiff(clip_path("cut.tif"), &info, &err);
            if (rgb)
                check_pixels(&rows[i], rgb, 1);     /* the last bytes may be no pixels */
            else if (err.code != VC_EFORMAT)
                fail_msg("%s cut to %zu of %zu bytes: %s", rows[i].name, cut, n, err.text);
            free(rgb);
        }
        for (size_t at = 4; at < n; at += at + 300 > n ? 1 : n / 40 + 1)
            for (int v = 0; v < 2; v++) {
                const uint8_t was = p[at];
                vc_err err = { 0 };
                p[at] = (uint8_t)(v ? was ^ 0x80 : 0xff);
                save(clip_path("bad.tif"), p, n);
                uint8_t *rgb = read_tiff(clip_path("bad.tif"), &info, &err);
                if (!rgb && !err.code)
                    fail_msg("%s, byte %zu: no reason", rows[i].name, at);
                free(rgb);
                p[at] = was;
            }
        free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variants), cmocka_unit_test(test_orientation),
        cmocka_unit_test(test_old_jpeg), cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, clip_setup, clip_teardown);
}
