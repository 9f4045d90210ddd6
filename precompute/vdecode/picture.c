/* picture.c - see picture.h */
#include "precompute/vdecode/picture.h"

#include <stdlib.h>

#include "common/os/file.h"
#include "precompute/vdecode/wave.h"

int picture_begin(picture *p, vc_err *err)
{
    char *path;
    int rc = 0;

    p->strip.n = p->small.n = p->n;
    p->small.side = SHEET_SIDE;
    if (p->format != PICTURE_MP4 && (p->format != PICTURE_AUTO || p->n == 1))
        return 0;
    path = vc_format("%s.mp4", p->stem);
    rc = path ? media_mp4_open(&p->mp4, path, p->h, p->w, p->fps, p->sound, err)
              : vc_no_memory(err);
    free(path);
    return rc;
}

/* Writes STEM.png, or STEM-000.png ..., or the same as JPEG. */
static int write_frame(const picture *p, int t, const uint8_t *rgb, vc_err *err)
{
    const bool png = p->format == PICTURE_PNG;
    const char *end = png ? "png" : "jpg";
    char *path = p->n > 1 ? vc_format("%s-%03d.%s", p->stem, t, end)
                          : vc_format("%s.%s", p->stem, end);
    int rc = !path ? vc_no_memory(err) : png ? media_write_png(path, rgb, p->h, p->w, err)
                                             : media_write_jpeg(path, rgb, p->h, p->w, 95, err);

    free(path);
    return rc;
}

static int put_frame(picture *p, int t, const uint8_t *rgb, vc_err *err)
{
    int rc = p->mp4 ? media_mp4_put(p->mp4, rgb, err) : 0;

    if (!rc && (p->format == PICTURE_PNG || p->format == PICTURE_JPG))
        rc = write_frame(p, t, rgb, err);
    if (!rc && p->format == PICTURE_AUTO)
        rc = strip_put(&p->strip, t, rgb, p->h, p->w, err);
    if (!rc && p->on_sheet)
        rc = strip_put(&p->small, t, rgb, p->h, p->w, err);
    return rc;
}

int picture_take(void *arg, const uint8_t *rgb, int first, int n, vc_err *err)
{
    picture *p = arg;
    const size_t frame = (size_t)p->h * (size_t)p->w * 3;
    int rc = 0;

    for (int i = 0; !rc && i < n; i++, rgb += frame)
        if (first + i >= p->skip && first + i < p->skip + p->n)
            rc = put_frame(p, first + i - p->skip, rgb, err);
    return rc;
}

/* Writes STEM-sound.png. */
static int write_wave(const picture *p, vc_err *err)
{
    char *path = vc_format("%s-sound.png", p->stem);
    const int rc = path ? wave_write(path, p->sound, err) : vc_no_memory(err);
    free(path);
    return rc;
}

int picture_end(picture *p, sheet *s, int rc, vc_err *err)
{
    const bool heard = p->mp4 && p->sound;
    rc = media_mp4_close(p->mp4, rc, err);
    if (!rc && heard)
        rc = write_wave(p, err);
    if (!rc && p->strip.rgb) {
        char *path = vc_format("%s.png", p->stem);
        rc = path ? media_write_png(path, p->strip.rgb, p->strip.h, p->strip.w, err)
                  : vc_no_memory(err);
        free(path);
    }
    if (!rc && s)
        sheet_add(s, &p->small);
    strip_free(&p->strip);
    strip_free(&p->small);
    return rc;
}
