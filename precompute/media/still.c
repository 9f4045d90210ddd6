/* still.c - JPEG by TurboJPEG (see internal.h)
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
#define STILL_MAX_BYTES (1 << 30)

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
static bool tidy(media_still *s)
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

/* 0: TurboJPEG can read the file; 1: FFmpeg has to; < 0: error. */
static int read_header(media_still *s, vc_err *err)
{
    tjhandle tj = tjInitDecompress();
    if (!tj)
        return vc_fail(err, VC_ENOMEM, "TurboJPEG: %s", tjGetErrorStr2(NULL));
    int subsampling, space, rc = 0;
    if (tjDecompressHeader3(tj, s->data, (unsigned long)s->size, &s->w, &s->h, &subsampling,
                            &space)) {
        const char *why = tjGetErrorStr2(tj);
        rc = strstr(why, "subsampling") ? 1 : vc_fail(err, VC_EFORMAT, "damaged JPEG: %s", why);
    } else {
        s->cmyk = space == TJCS_CMYK || space == TJCS_YCCK;
    }
    tjDestroy(tj);
    if (!rc && (int64_t)s->w * s->h > MEDIA_MAX_PIXELS)
        rc = vc_fail(err, VC_EFORMAT, "%dx%d pixels, more than the %lld allowed", s->w, s->h,
                     (long long)MEDIA_MAX_PIXELS);
    return rc;
}

static int read_file(media_still *s, media_io *io, vc_err *err)
{
    if (io->size > STILL_MAX_BYTES)
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

int media_still_open(media_still *s, bool *is_jpeg, media_io *io, vc_err *err)
{
    *s = (media_still){ 0 };
    uint8_t head[3] = { 0 };
    avio_seek(io->avio, 0, SEEK_SET);
    *is_jpeg = avio_read(io->avio, head, 3) == 3 && !memcmp(head, "\xff\xd8\xff", 3);
    if (!*is_jpeg)
        return 0;

    int rc = read_file(s, io, err);
    if (!rc && (s->size < 4 || !tidy(s)))
        rc = vc_fail(err, VC_EFORMAT, "damaged JPEG: it ends before its end marker");
    if (!rc)
        rc = read_header(s, err);
    if (rc)
        media_still_close(s);
    if (rc <= 0)
        return rc;
    *is_jpeg = false;
    return 0;
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
static bool lost_data(const char *warning)
{
    enum { PADDING = 16 };
    unsigned n, marker;
    if (sscanf(warning, "Corrupt JPEG data: %u extraneous bytes before marker 0x%x", &n,
               &marker) == 2)
        return marker != EOI || n > PADDING;
    return (strstr(warning, "Corrupt JPEG data") && !strstr(warning, "ICC")) ||
           strstr(warning, "Premature end");
}

int media_still_decode(const media_still *s, uint8_t *rgb, vc_err *err)
{
    size_t n = (size_t)s->w * s->h;
    uint8_t *cmyk = s->cmyk ? malloc(n * 4) : NULL;
    if (s->cmyk && !cmyk)
        return vc_fail(err, VC_ENOMEM, "out of memory for %dx%d pixels", s->w, s->h);
    tjhandle tj = tjInitDecompress();
    int rc = 0;
    if (!tj)
        rc = vc_fail(err, VC_ENOMEM, "TurboJPEG: %s", tjGetErrorStr2(NULL));
    else if (tjDecompress2(tj, s->data, (unsigned long)s->size, cmyk ? cmyk : rgb, s->w, 0, s->h,
                           cmyk ? TJPF_CMYK : TJPF_RGB, TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS) &&
             (tjGetErrorCode(tj) != TJERR_WARNING || lost_data(tjGetErrorStr2(tj))))
        rc = vc_fail(err, VC_EFORMAT, "damaged JPEG: %s", tjGetErrorStr2(tj));
    if (!rc && cmyk)
        cmyk_to_rgb(rgb, cmyk, n);
    if (tj)
        tjDestroy(tj);
    free(cmyk);
    return rc;
}

void media_still_close(media_still *s)
{
    free(s->data);
    s->data = NULL;
}
