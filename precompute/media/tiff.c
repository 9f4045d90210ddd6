/* tiff.c - TIFF stills by libtiff (see internal.h, tiff.h)
 *
 * A file is refused by its tags where its values have no known range or colour: what is read is
 * right. Of several pages the first whole one is read; reduced pictures and masks are none. */
#include "precompute/media/tiff.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PAGES = 64, MAX_SAMPLES = 64, MAX_BITS = 32 };

/* ---- libtiff's messages and reads ---- */

static void keep(media_tiff *t, const char *module, const char *fmt, va_list ap)
{
    if (*t->message)
        return;
    char line[160];
    vsnprintf(line, sizeof line, fmt, ap);
    snprintf(t->message, sizeof t->message, "%s: %s", module ? module : "libtiff", line);
    for (char *p = t->message; *p; p++)
        if ((unsigned char)*p < ' ')
            *p = ' ';
}

static int on_error(TIFF *tif, void *arg, const char *module, const char *fmt, va_list ap)
{
    (void)tif;
    keep(arg, module, fmt, ap);
    return 1;
}

/* Warnings about tags are harmless; those while pixels are read mean damage, except those about
 * old forms of compression and about JPEG's headers. */
static bool is_harmless(const char *module, const char *line)
{
    return strstr(module, "PreDecode") || strstr(module, "SetupDecode") ||
           (strcasestr(module, "JPEG") && !media_jpeg_lost(line));
}

static int on_warning(TIFF *tif, void *arg, const char *module, const char *fmt, va_list ap)
{
    (void)tif;
    media_tiff *t = arg;
    char line[160];
    va_list again;
    va_copy(again, ap);
    vsnprintf(line, sizeof line, fmt, again);
    va_end(again);
    if (t->decodes && !is_harmless(module ? module : "", line))
        keep(t, module, fmt, ap);
    return 1;
}

static tmsize_t read_bytes(thandle_t arg, void *buf, tmsize_t n)
{
    media_tiff *t = arg;
    ssize_t r = n > 0 ? media_io_at(t->io, buf, (size_t)n, t->pos) : 0;
    t->pos += r > 0 ? r : 0;
    return r;
}

static tmsize_t write_bytes(thandle_t arg, void *buf, tmsize_t n)
{
    (void)arg, (void)buf, (void)n;
    return 0;
}

static toff_t seek_bytes(thandle_t arg, toff_t offset, int whence)
{
    media_tiff *t = arg;
    int64_t base = whence == SEEK_CUR ? t->pos : whence == SEEK_END ? t->io->size : 0, to;
    if (__builtin_add_overflow(base, (int64_t)offset, &to) || to < 0)
        return (toff_t)-1;
    return (toff_t)(t->pos = to);
}

static toff_t size_of(thandle_t arg)
{
    return (toff_t)((media_tiff *)arg)->io->size;
}

static int leave_open(thandle_t arg)
{
    (void)arg;
    return 0;
}

/* m: without a map of the file, which may change. */
static int open_handle(media_tiff *t, vc_err *err)
{
    TIFFOpenOptions *o = TIFFOpenOptionsAlloc();
    if (!o)
        return vc_no_memory(err);
    TIFFOpenOptionsSetMaxSingleMemAlloc(o, (tmsize_t)1 << 30);
    TIFFOpenOptionsSetErrorHandlerExtR(o, on_error, t);
    TIFFOpenOptionsSetWarningHandlerExtR(o, on_warning, t);
    t->tif = TIFFClientOpenExt("TIFF", "rm", t, read_bytes, write_bytes, seek_bytes, leave_open,
                               size_of, NULL, NULL, o);
    TIFFOpenOptionsFree(o);
    return t->tif ? 0 : vc_fail(err, VC_EFORMAT, "damaged TIFF: %s",
                                *t->message ? t->message : "no directory of tags");
}

/* ---- tags ---- */

static uint16_t tag16(const media_tiff *t, uint32_t tag, uint16_t otherwise)
{
    uint16_t v = otherwise;
    return TIFFGetFieldDefaulted(t->tif, tag, &v) ? v : otherwise;
}

static int refuse(vc_err *err, int tag, const char *name, unsigned value, const char *why)
{
    return vc_fail(err, VC_EFORMAT, "TIFF with tag %d (%s) %u: %s", tag, name, value, why);
}

static bool is_part(const media_tiff *t)
{
    uint32_t kind = 0;
    return TIFFGetField(t->tif, TIFFTAG_SUBFILETYPE, &kind) &&
           kind & (FILETYPE_REDUCEDIMAGE | FILETYPE_MASK);
}

/* Camera raw files are TIFFs whose picture is not among the pages, only its thumbnails. */
static int find_page(media_tiff *t, bool *first, vc_err *err)
{
    *first = true;
    for (int page = 0; is_part(t); page++) {
        *first = false;
        if (page == MAX_PAGES || !TIFFReadDirectory(t->tif))
            return refuse(err, TIFFTAG_SUBFILETYPE, "NewSubfileType", FILETYPE_REDUCEDIMAGE,
                          "no page is the whole picture, as in camera raw files: export the "
                          "picture as TIFF, PNG or JPEG");
    }
    *t->message = 0;                                /* of tags; pages behind the first */
    return 0;
}

static const struct { uint16_t photometric; tiff_colours colours; int n; } kinds[] = {
    { PHOTOMETRIC_MINISBLACK, TIFF_GRAY, 1 },   { PHOTOMETRIC_MINISWHITE, TIFF_WHITE_IS_0, 1 },
    { PHOTOMETRIC_PALETTE, TIFF_PALETTE, 1 },   { PHOTOMETRIC_RGB, TIFF_RGB, 3 },
    { PHOTOMETRIC_SEPARATED, TIFF_CMYK, 4 },    { PHOTOMETRIC_YCBCR, TIFF_BY_LIBTIFF, 3 },
};

static int find_colours(media_tiff *t, vc_err *err)
{
    static const char remedy[] = "these colours are not read: save the picture as RGB";
    size_t i = 0, n = sizeof kinds / sizeof *kinds;
    if (!TIFFGetField(t->tif, TIFFTAG_PHOTOMETRIC, &t->photometric))
        return vc_fail(err, VC_EFORMAT, "TIFF without tag 262 (PhotometricInterpretation): its "
                       "colours are not known; save the picture anew");
    while (i < n && kinds[i].photometric != t->photometric)
        i++;
    if (i == n)
        return refuse(err, TIFFTAG_PHOTOMETRIC, "PhotometricInterpretation", t->photometric,
                      remedy);
    if (t->photometric == PHOTOMETRIC_SEPARATED &&
        tag16(t, TIFFTAG_INKSET, INKSET_CMYK) != INKSET_CMYK)
        return refuse(err, TIFFTAG_INKSET, "InkSet", tag16(t, TIFFTAG_INKSET, 0), remedy);
    t->colours = kinds[i].colours;
    t->n_colours = kinds[i].n;
    if (t->compression == COMPRESSION_OJPEG)        /* only this way libtiff reads old JPEG */
        t->colours = TIFF_BY_LIBTIFF;
    else if (t->photometric == PHOTOMETRIC_YCBCR && t->compression == COMPRESSION_JPEG)
        t->colours = TIFF_RGB;
    if (t->photometric == PHOTOMETRIC_YCBCR && t->planes)
        return refuse(err, TIFFTAG_PLANARCONFIG, "PlanarConfiguration", PLANARCONFIG_SEPARATE,
                      "YCbCr in planes is not read: save the picture as RGB");
    return 0;
}

static void find_alpha(media_tiff *t)
{
    uint16_t n = 0, *kind = NULL;
    t->alpha = -1;
    if (t->colours == TIFF_BY_LIBTIFF || t->colours == TIFF_CMYK ||
        !TIFFGetField(t->tif, TIFFTAG_EXTRASAMPLES, &n, &kind))
        return;
    for (int i = 0; i < n && t->n_colours + i < t->samples && t->alpha < 0; i++)
        if (kind[i] == EXTRASAMPLE_ASSOCALPHA || kind[i] == EXTRASAMPLE_UNASSALPHA) {
            t->alpha = t->n_colours + i;
            t->associated = kind[i] == EXTRASAMPLE_ASSOCALPHA;
        }
}

/* Values of a known range: whole numbers without a sign. */
static int check_values(const media_tiff *t, vc_err *err)
{
    const uint16_t format = tag16(t, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
    if (format == SAMPLEFORMAT_IEEEFP)
        return refuse(err, TIFFTAG_SAMPLEFORMAT, "SampleFormat", format,
                      "floating-point values, of which the file does not say what is white: save "
                      "the picture with whole numbers of 8 or 16 bits");
    if (format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_VOID)
        return refuse(err, TIFFTAG_SAMPLEFORMAT, "SampleFormat", format,
                      "signed or complex values, of which the file does not say what is black and "
                      "white: save the picture with unsigned numbers of 8 or 16 bits");
    if (t->bits < 1 || t->bits > MAX_BITS || (t->colours == TIFF_PALETTE && t->bits > 8))
        return refuse(err, TIFFTAG_BITSPERSAMPLE, "BitsPerSample", t->bits,
                      "save the picture with 8 or 16 bits");
    if (t->samples < t->n_colours || t->samples > MAX_SAMPLES)
        return refuse(err, TIFFTAG_SAMPLESPERPIXEL, "SamplesPerPixel", t->samples,
                      "save the picture as RGB");
    return 0;
}

static int check_size(const media_tiff *t, vc_err *err)
{
    uint32_t tw = 0, th = 0, depth = 1;
    if (!t->w || !t->h || (uint64_t)t->w * t->h > MEDIA_MAX_PIXELS)
        return vc_fail(err, VC_EFORMAT, "%ux%u pixels, more than the %lld allowed", t->w, t->h,
                       (long long)MEDIA_MAX_PIXELS);
    if (TIFFGetField(t->tif, TIFFTAG_IMAGEDEPTH, &depth) && depth > 1)
        return refuse(err, TIFFTAG_IMAGEDEPTH, "ImageDepth", depth, "save one slice as a picture");
    if (!t->tiled)
        return 0;
    if (!TIFFGetField(t->tif, TIFFTAG_TILEWIDTH, &tw) ||
        !TIFFGetField(t->tif, TIFFTAG_TILELENGTH, &th) || !tw || !th ||
        (uint64_t)tw * th > MEDIA_MAX_PIXELS)
        return vc_fail(err, VC_EFORMAT, "TIFF with tags 322, 323 (TileWidth, TileLength) %u, %u: "
                       "save the picture in strips", tw, th);
    return 0;
}

static int read_tags(media_tiff *t, vc_err *err)
{
    if (!TIFFGetField(t->tif, TIFFTAG_IMAGEWIDTH, &t->w) ||
        !TIFFGetField(t->tif, TIFFTAG_IMAGELENGTH, &t->h))
        return vc_fail(err, VC_EFORMAT, "damaged TIFF: no size");
    t->bits = tag16(t, TIFFTAG_BITSPERSAMPLE, 1);
    t->samples = tag16(t, TIFFTAG_SAMPLESPERPIXEL, 1);
    t->compression = tag16(t, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
    t->orientation = tag16(t, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
    t->tiled = TIFFIsTiled(t->tif);
    t->planes = t->samples > 1 &&
                tag16(t, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) == PLANARCONFIG_SEPARATE;
    int rc = check_size(t, err);
    if (!rc && !TIFFIsCODECConfigured(t->compression))
        rc = refuse(err, TIFFTAG_COMPRESSION, "Compression", t->compression,
                    "this libtiff does not read it: save the picture with LZW, Deflate or no "
                    "compression");
    if (!rc)
        rc = find_colours(t, err);
    if (!rc)
        rc = check_values(t, err);
    if (!rc)
        find_alpha(t);
    return rc;
}

/* ---- pixels of older versions ---- */

/* Older versions read TIFFs through FFmpeg 5.1, and these of them right. */
static bool was_right(const media_tiff *t)
{
    static const uint16_t compressions[] = {
        COMPRESSION_NONE, COMPRESSION_CCITTRLE, COMPRESSION_CCITTFAX3, COMPRESSION_CCITTFAX4,
        COMPRESSION_LZW, COMPRESSION_ADOBE_DEFLATE, COMPRESSION_DEFLATE, COMPRESSION_PACKBITS,
        COMPRESSION_LZMA,
    };
    size_t i = 0, n = sizeof compressions / sizeof *compressions;
    while (i < n && compressions[i] != t->compression)
        i++;
    if (i == n || t->tiled || t->associated)
        return false;
    switch (t->colours) {
    case TIFF_GRAY:
    case TIFF_WHITE_IS_0:
    case TIFF_PALETTE:
        return t->samples == 1 && (t->bits == 1 || t->bits == 2 || t->bits == 4 || t->bits == 8);
    case TIFF_RGB:
        return t->planes ? t->samples == 3 && t->bits == 8
                         : (t->samples == 3 || t->samples == 4) && (t->bits == 8 || t->bits == 16);
    case TIFF_CMYK:
        return !t->planes && t->bits == 8;
    case TIFF_BY_LIBTIFF:
        break;
    }
    return false;
}

/* They looked for the orientation in the first 64 KiB of a file, where libtiff does not write
 * it. */
static bool was_turned(const media_tiff *t)
{
    enum { SEEN = 1 << 16, ENTRIES = 256 * 12 };
    return t->orientation <= ORIENTATION_TOPLEFT ||
           TIFFCurrentDirOffset(t->tif) < SEEN - ENTRIES;
}

/* ---- the kind ---- */

static bool is_tiff(media_io *io)
{
    uint8_t p[4];
    return media_io_at(io, p, 4, 0) == 4 &&
           (!memcmp(p, "II*\0", 4) || !memcmp(p, "MM\0*", 4) ||
            !memcmp(p, "II+\0", 4) || !memcmp(p, "MM\0+", 4));
}

static int tiff_open(media_still *s, media_io *io, vc_err *err)
{
    if (!is_tiff(io))
        return MEDIA_NOT_MINE;
    media_tiff *t = s->tiff = calloc(1, sizeof *t);
    if (!t)
        return vc_no_memory(err);
    t->io = io;
    bool first;
    int rc = open_handle(t, err);
    if (!rc)
        rc = find_page(t, &first, err);
    if (!rc)
        rc = read_tags(t, err);
    if (rc)
        return rc;
    t->page = TIFFCurrentDirectory(t->tif);
    s->w = (int)t->w;
    s->h = (int)t->h;
    s->orient = media_orient_exif(t->orientation);
    s->anew = first && was_right(t) && was_turned(t) ? NULL : "libtiff";
    snprintf(s->codec, sizeof s->codec, "tiff");
    return 0;
}

static int tiff_decode(media_still *s, AVFrame *f, vc_err *err)
{
    media_tiff *t = s->tiff;
    if (t->used && !TIFFSetDirectory(t->tif, t->page))  /* not every decoder begins anew */
        return vc_fail(err, VC_EFORMAT, "damaged TIFF: %s", t->message);
    t->used = true;
    if (t->photometric == PHOTOMETRIC_YCBCR && t->colours == TIFF_RGB)
        TIFFSetField(t->tif, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    *t->message = 0;
    t->decodes = true;
    int rc = media_tiff_pixels(t, f, err);
    t->decodes = false;
    return rc;
}

static void tiff_close(media_still *s)
{
    if (s->tiff && s->tiff->tif)
        TIFFClose(s->tiff->tif);
    free(s->tiff);
    s->tiff = NULL;
}

const media_still_kind media_still_tiff = { true, tiff_open, tiff_decode, tiff_close };
