/* jpeg.c - JPEG stills by TurboJPEG (see internal.h)
 *
 * TurboJPEG reports only the first warning of a picture. Stray bytes between headers, which are
 * harmless, would cause the first warning and hide a later one about lost data, so the bytes are
 * removed before TurboJPEG reads the picture. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>

#include "precompute/media/internal.h"

enum { SOI = 0xd8, EOI = 0xd9, SOS = 0xda, APP1 = 0xe1, RST0 = 0xd0, RST7 = 0xd7, TEM = 0x01 };
#define JPEG_MAX_BYTES (1 << 30)

/* The code of the next marker at or after *at; *at then lies behind the marker. -1: there is
 * none. */
static int next_marker(const uint8_t *p, size_t n, size_t *at)
{
    for (size_t i = *at; i + 1 < n; i++)
        if (p[i] == 0xff && p[i + 1] != 0xff && p[i + 1] != 0) {
            *at = i + 2;
            return p[i + 1];
        }
    return -1;
}

static bool stands_alone(int marker)
{
    return (marker >= RST0 && marker <= RST7) || marker == SOI || marker == TEM;
}

/* The end of the entropy-coded data that begins at `at`: a marker that is no restart. */
static size_t scan_end(const uint8_t *p, size_t n, size_t at)
{
    for (size_t i = at; i + 1 < n; i++)
        if (p[i] == 0xff && p[i + 1] != 0 && p[i + 1] != 0xff && !stands_alone(p[i + 1]))
            return i;
    return n;
}

/* Moves the segments together and finds the orientation. false: there is no end marker. */
static bool tidy(media_jpeg_file *s)
{
    uint8_t *p = s->data;
    size_t n = s->size, in = 2, out = 2;
    for (int m; (m = next_marker(p, n, &in)) >= 0;) {
        size_t from = in - 2, end = in;
        if (!stands_alone(m) && m != EOI) {
            if (n - in < 2)
                return false;
            end = in + ((size_t)p[in] << 8 | p[in + 1]);
            if (end > n)
                return false;
            if (m == APP1 && !s->exif && end - in > 8 && !memcmp(p + in + 2, "Exif\0\0", 6))
                s->exif = media_exif_tiff(p + in + 8, end - in - 8);
            if (m == SOS)
                end = scan_end(p, n, end);
        }
        memmove(p + out, p + from, end - from);
        out += end - from;
        in = end;
        if (m == EOI) {
            s->size = out;
            return true;
        }
    }
    return false;
}

/* 0: TurboJPEG can read the file; MEDIA_NOT_MINE: FFmpeg has to. */
static int read_header(media_jpeg_file *s, vc_err *err)
{
    tjhandle tj = tjInitDecompress();
    if (!tj)
        return vc_fail(err, VC_ENOMEM, "TurboJPEG: %s", tjGetErrorStr2(NULL));
    int subsampling, space, rc = 0;
    if (tjDecompressHeader3(tj, s->data, (unsigned long)s->size, &s->w, &s->h, &subsampling,
                            &space)) {
        const char *why = tjGetErrorStr2(tj);
        rc = strstr(why, "subsampling") ? MEDIA_NOT_MINE
                                        : vc_fail(err, VC_EFORMAT, "damaged JPEG: %s", why);
    } else {
        s->cmyk = space == TJCS_CMYK || space == TJCS_YCCK;
    }
    tjDestroy(tj);
    if (!rc && (int64_t)s->w * s->h > MEDIA_MAX_PIXELS)
        rc = vc_fail(err, VC_EFORMAT, "%dx%d pixels, more than the %lld allowed", s->w, s->h,
                     (long long)MEDIA_MAX_PIXELS);
    return rc;
}

static int read_file(media_jpeg_file *s, media_io *io, vc_err *err)
{
    if (io->size > JPEG_MAX_BYTES)
        return vc_fail(err, VC_EFORMAT, "a JPEG of %lld bytes", (long long)io->size);
    s->size = (size_t)io->size;
    s->data = malloc(s->size);
    if (!s->data)
        return vc_fail(err, VC_ENOMEM, "out of memory for %zu bytes", s->size);
    avio_seek(io->avio, 0, SEEK_SET);
    int r = avio_read(io->avio, s->data, (int)s->size);
    if (r < 0 || (size_t)r < s->size)
        return media_av_fail(err, r < 0 ? r : AVERROR(EIO), "cannot read");
    return 0;
}

static int jpeg_open(media_still *s, media_io *io, vc_err *err)
{
    uint8_t head[3];
    if (media_io_at(io, head, 3, 0) != 3 || memcmp(head, "\xff\xd8\xff", 3))
        return MEDIA_NOT_MINE;
    media_jpeg_file *j = s->jpeg = calloc(1, sizeof *j);
    if (!j)
        return vc_no_memory(err);
    int rc = read_file(j, io, err);
    if (!rc && (j->size < 4 || !tidy(j)))
        rc = vc_fail(err, VC_EFORMAT, "damaged JPEG: it ends before its end marker");
    if (!rc)
        rc = read_header(j, err);
    s->w = j->w;
    s->h = j->h;
    s->orient = media_orient_exif(j->exif);
    snprintf(s->codec, sizeof s->codec, "jpeg");
    return rc;
}

/* Adobe's programs, and readers of their files, store CMYK inverted: 255 is no ink. */
static void cmyk_to_rgb(uint8_t *rgb, const uint8_t *cmyk, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < 3; c++)
            rgb[3 * i + c] = (uint8_t)((cmyk[4 * i + c] * cmyk[4 * i + 3] + 127) / 255);
}

/* Whether a warning means damage to the picture; some warnings concern headers. TurboJPEG's fast
 * path accepts any bits as codes, so damage shows as data left over at the end. A few bytes left
 * over are the padding of some encoders. */
bool media_jpeg_lost(const char *warning)
{
    enum { PADDING = 16 };
    unsigned n, marker;
    if (sscanf(warning, "Corrupt JPEG data: %u extraneous bytes before marker 0x%x", &n,
               &marker) == 2)
        return marker != EOI || n > PADDING;
    return (strstr(warning, "Corrupt JPEG data") && !strstr(warning, "ICC")) ||
           strstr(warning, "Premature end");
}

/* rgb: rows of `stride` bytes. */
static int decompress(const media_jpeg_file *s, uint8_t *rgb, int stride, vc_err *err)
{
    tjhandle tj = tjInitDecompress();
    if (!tj)
        return vc_fail(err, VC_ENOMEM, "TurboJPEG: %s", tjGetErrorStr2(NULL));
    int rc = 0;
    if (tjDecompress2(tj, s->data, (unsigned long)s->size, rgb, s->w, stride, s->h,
                      s->cmyk ? TJPF_CMYK : TJPF_RGB, TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS) &&
        (tjGetErrorCode(tj) != TJERR_WARNING || media_jpeg_lost(tjGetErrorStr2(tj))))
        rc = vc_fail(err, VC_EFORMAT, "damaged JPEG: %s", tjGetErrorStr2(tj));
    tjDestroy(tj);
    return rc;
}

static int decompress_cmyk(const media_jpeg_file *s, AVFrame *f, vc_err *err)
{
    const size_t row = (size_t)s->w * 4;
    uint8_t *cmyk = malloc(row * (size_t)s->h);
    if (!cmyk)
        return vc_fail(err, VC_ENOMEM, "out of memory for %dx%d pixels", s->w, s->h);
    int rc = decompress(s, cmyk, (int)row, err);
    for (int y = 0; !rc && y < s->h; y++)
        cmyk_to_rgb(f->data[0] + (ptrdiff_t)y * f->linesize[0], cmyk + (size_t)y * row,
                    (size_t)s->w);
    free(cmyk);
    return rc;
}

static int jpeg_decode(media_still *s, AVFrame *f, vc_err *err)
{
    const media_jpeg_file *j = s->jpeg;
    int rc = media_still_frame(f, AV_PIX_FMT_RGB24, j->w, j->h, err);
    if (rc)
        return rc;
    return j->cmyk ? decompress_cmyk(j, f, err)
                   : decompress(j, f->data[0], f->linesize[0], err);
}

static void jpeg_close(media_still *s)
{
    if (s->jpeg)
        free(s->jpeg->data);
    free(s->jpeg);
    s->jpeg = NULL;
}

const media_still_kind media_still_jpeg = { false, jpeg_open, jpeg_decode, jpeg_close };
