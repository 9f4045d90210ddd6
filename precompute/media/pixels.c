/* pixels.c - a decoded frame to resized, turned RGB (see internal.h)
 *
 * Colour is converted at the stored size (planar YUV: a row at a time, when the resize asks for
 * it) and the resize works in the stored orientation: the filter is separable and symmetric, so
 * turning its small result gives the same pixels as turning the large frame. */
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/media/internal.h"

media_orient media_orient_exif(int exif)
{
    static const media_orient table[] = {
        [1] = { 0, 0, 0 }, [2] = { 0, 0, 1 }, [3] = { 0, 1, 1 }, [4] = { 0, 1, 0 },
        [5] = { 1, 0, 0 }, [6] = { 1, 1, 0 }, [7] = { 1, 1, 1 }, [8] = { 1, 0, 1 },
    };
    return table[exif >= 1 && exif <= 8 ? exif : 1];
}

/* Shown x = a*sx + c*sy, shown y = b*sx + d*sy, with a, b, c, d = matrix[0], [1], [3], [4]. */
media_orient media_orient_matrix(const int32_t matrix[9])
{
    int64_t a = matrix[0], b = matrix[1], c = matrix[3], d = matrix[4];
    media_orient o = { .transpose = llabs(b) + llabs(c) > llabs(a) + llabs(d) };
    o.flip_x = o.transpose ? b < 0 : a < 0;
    o.flip_y = o.transpose ? c < 0 : d < 0;
    return o;
}

/* The same window in the stored orientation. */
static media_fit stored_fit(const media_fit *f, media_orient o)
{
    media_fit s = *f;
    if (o.transpose)
        s = (media_fit){ .rh = f->rw, .rw = f->rh, .top = f->left, .left = f->top,
                         .h = f->w, .w = f->h, .load_h = f->load_w, .load_w = f->load_h,
                         .exact = f->exact };
    if (o.flip_y)
        s.top = s.rh - s.top - s.h;
    if (o.flip_x)
        s.left = s.rw - s.left - s.w;
    s.flip = false;
    return s;
}

/* dst [h, w] from src as stored, [w, h] if transposed, of pixels of px bytes. */
static inline void turn_pixels(uint8_t *restrict dst, const uint8_t *restrict src, int h, int w,
                               media_orient o, int px)
{
    int sh = o.transpose ? w : h, sw = o.transpose ? h : w;
    ptrdiff_t row = (ptrdiff_t)sw * px * (o.flip_y ? -1 : 1), col = o.flip_x ? -px : px;
    ptrdiff_t step_y = o.transpose ? col : row, step_x = o.transpose ? row : col;
    const uint8_t *s = src + (o.flip_y ? (ptrdiff_t)(sh - 1) * sw * px : 0) +
                       (o.flip_x ? (ptrdiff_t)(sw - 1) * px : 0);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++, dst += px)
            memcpy(dst, s + y * step_y + x * step_x, (size_t)px);
}

size_t media_pixel_bytes(const media_fit *fit)
{
    return 3 * (fit->exact ? sizeof(float) : 1);
}

static void orient(uint8_t *dst, const uint8_t *src, const media_fit *fit, media_orient o)
{
    if (fit->exact)
        turn_pixels(dst, src, fit->h, fit->w, o, 3 * (int)sizeof(float));
    else
        turn_pixels(dst, src, fit->h, fit->w, o, 3);
}

static bool same_window(const media_fit *a, const media_fit *b)
{
    return a->rh == b->rh && a->rw == b->rw && a->top == b->top && a->left == b->left &&
           a->h == b->h && a->w == b->w && a->exact == b->exact;
}

static int plan_make(media_pixels *p, int h, int w, const media_fit *fit, vc_err *err)
{
    if (p->plan && p->h == h && p->w == w && same_window(&p->fit, fit))
        return 0;
    resize_close(p->plan);
    free(p->cut);
    p->cut = NULL;
    int rc = resize_open(&p->plan, h, w, fit->rh, fit->rw, fit->top, fit->left, fit->h, fit->w,
                         err);
    if (rc)
        return rc;
    p->cut = malloc((size_t)fit->h * (size_t)fit->w * media_pixel_bytes(fit));
    if (!p->cut)
        return vc_fail(err, VC_ENOMEM, "out of memory for %dx%d pixels", fit->w, fit->h);
    p->fit = *fit;
    p->h = h;
    p->w = w;
    return 0;
}

typedef struct yuv_source {
    media_yuv *yuv;
    const AVFrame *frame;
} yuv_source;

static void yuv_row(void *arg, int y, float *r, float *g, float *b)
{
    yuv_source *s = arg;
    media_yuv_row(s->yuv, s->frame, y, r, g, b);
}

/* Resizes from rgb or, if rgb is NULL, from yuv (then not exact). */
static int fit_picture(media_pixels *p, void *dst, const uint8_t *rgb, int stride,
                       yuv_source *yuv, int h, int w, media_orient o, const media_fit *fit,
                       vc_err *err)
{
    media_fit f = stored_fit(fit, o);
    if (fit->flip) {                                /* after the cut, so the window stays */
        o.flip_x ^= !o.transpose;
        o.flip_y ^= o.transpose;
    }
    int rc = plan_make(p, h, w, &f, err);
    if (rc)
        return rc;
    bool turned = o.transpose || o.flip_y || o.flip_x;
    void *out = turned ? p->cut : dst;
    if (!rgb)
        resize_run_rows(p->plan, out, yuv_row, yuv);
    else if (fit->exact)
        resize_run_f32(p->plan, out, rgb, stride);
    else
        resize_run(p->plan, out, rgb, stride);
    if (turned)
        orient(dst, p->cut, fit, o);
    return 0;
}

/* Fills the part of a cut that lies outside the resized picture with black. */
static int rgb_in_black(media_pixels *p, uint8_t *dst, const uint8_t *rgb, int h, int w, int stride,
                        media_orient o, const media_fit *fit, vc_err *err)
{
    media_fit in = *fit;
    const size_t px = media_pixel_bytes(fit);

    in.black = false;
    in.h = fit->top + fit->h > fit->rh ? fit->rh - fit->top : fit->h;
    in.w = fit->left + fit->w > fit->rw ? fit->rw - fit->left : fit->w;
    if (in.h < 1 || in.w < 1)
        return vc_fail(err, VC_EINVAL, "a cut at %d,%d of a picture of %dx%d", fit->top, fit->left,
                       fit->rw, fit->rh);
    uint8_t *part = malloc((size_t)in.h * (size_t)in.w * px);
    if (!part)
        return vc_fail(err, VC_ENOMEM, "out of memory for %dx%d pixels", in.w, in.h);
    int rc = media_pixels_rgb(p, part, rgb, h, w, stride, o, &in, err);
    memset(dst, 0, (size_t)fit->h * (size_t)fit->w * px);
    for (int y = 0; !rc && y < in.h; y++)
        memcpy(dst + (size_t)y * (size_t)fit->w * px, part + (size_t)y * (size_t)in.w * px,
               (size_t)in.w * px);
    free(part);
    return rc;
}

/* The first of two resizes: rgb, h, w and stride become those of the smaller picture. */
static int load(media_pixels *p, const media_fit *fit, const uint8_t **rgb, int *h, int *w,
                int *stride, vc_err *err)
{
    if (fit->load_h < 1 || fit->load_w < 1 || fit->load_h > RESIZE_MAX_SIDE ||
        fit->load_w > RESIZE_MAX_SIDE)
        return vc_fail(err, VC_EINVAL, "a first resize to %dx%d", fit->load_w, fit->load_h);
    size_t room = (size_t)fit->load_h * (size_t)fit->load_w * 3;
    if (room > p->loaded_room) {
        free(p->loaded);
        p->loaded = malloc(room);
        p->loaded_room = p->loaded ? room : 0;
        if (!p->loaded)
            return vc_fail(err, VC_ENOMEM, "out of memory for %dx%d pixels", fit->load_w,
                           fit->load_h);
    }
    resize_bilinear(p->loaded, fit->load_h, fit->load_w, *rgb, *h, *w, *stride);
    *rgb = p->loaded;
    *h = fit->load_h;
    *w = fit->load_w;
    *stride = 3 * fit->load_w;
    return 0;
}

int media_pixels_rgb(media_pixels *p, void *dst, const uint8_t *rgb, int h, int w, int stride,
                     media_orient o, const media_fit *fit, vc_err *err)
{
    if (fit->black && (fit->top + fit->h > fit->rh || fit->left + fit->w > fit->rw))
        return rgb_in_black(p, dst, rgb, h, w, stride, o, fit, err);

    media_fit f = stored_fit(fit, o);
    int rc = f.load_h ? load(p, &f, &rgb, &h, &w, &stride, err) : 0;
    return rc ? rc : fit_picture(p, dst, rgb, stride, NULL, h, w, o, fit, err);
}

/* Whether swscale knows the matrix; for an unknown one it would use BT.601. */
static bool known_matrix(enum AVColorSpace space)
{
    switch (space) {
    case AVCOL_SPC_RGB:
    case AVCOL_SPC_BT709:
    case AVCOL_SPC_UNSPECIFIED:
    case AVCOL_SPC_RESERVED:
    case AVCOL_SPC_FCC:
    case AVCOL_SPC_BT470BG:
    case AVCOL_SPC_SMPTE170M:
    case AVCOL_SPC_SMPTE240M:
    case AVCOL_SPC_BT2020_NCL:
    case AVCOL_SPC_BT2020_CL:
        return true;
    default:
        return false;
    }
}

/* Makes the buffer of a whole frame in RGB, or with alpha. */
static int rgb_make(media_pixels *p, const AVFrame *f, int pixel_bytes, vc_err *err)
{
    /* the scaler's vector code may write some bytes behind a row */
    p->stride = (f->width * pixel_bytes + 127) & ~63;
    p->rgb = av_malloc((size_t)p->stride * (size_t)f->height + 64);
    if (!p->rgb)
        return vc_fail(err, VC_ENOMEM, "out of memory for %dx%d pixels", f->width, f->height);
    return 0;
}

/* RGB to RGB may go through YUV inside: there and back by one matrix. */
static int scaler_make(media_pixels *p, const AVFrame *f, enum AVPixelFormat to, bool full_range,
                       vc_err *err)
{
    bool rgb = av_pix_fmt_desc_get(f->format)->flags & AV_PIX_FMT_FLAG_RGB;
    int matrix = rgb ? SWS_CS_DEFAULT : (int)f->colorspace;
    p->sws = sws_getContext(f->width, f->height, f->format, f->width, f->height, to,
                            SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT, NULL, NULL, NULL);
    if (!p->sws)
        return media_av_fail(err, AVERROR(EINVAL), "no conversion from %s %dx%d",
                             av_get_pix_fmt_name(f->format), f->width, f->height);
    sws_setColorspaceDetails(p->sws, sws_getCoefficients(matrix), full_range,
                             sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
    return rgb_make(p, f, to == AV_PIX_FMT_RGBA ? 4 : 3, err);
}

bool media_pixels_has_alpha(const AVFrame *f)
{
    const AVPixFmtDescriptor *desc = av_pix_fmt_desc_get(f->format);
    return desc && desc->flags & AV_PIX_FMT_FLAG_ALPHA;
}

static media_look look_of(const AVFrame *f, media_tonemap tonemap, bool alpha)
{
    return (media_look){ f->width, f->height, f->format, (int)f->colorspace, (int)f->color_range,
                         (int)f->color_trc, (int)f->color_primaries, (int)f->chroma_location,
                         media_tone_is_hdr(f) ? (int)tonemap : MEDIA_TONEMAP_NONE,
                         alpha && media_pixels_has_alpha(f) };
}

static int converter_make(media_pixels *p, const AVFrame *f, const media_look *look, vc_err *err)
{
    const AVPixFmtDescriptor *desc = av_pix_fmt_desc_get(f->format);
    const char *name = desc ? desc->name : "unknown";
    bool full_range = f->color_range == AVCOL_RANGE_JPEG || !strncmp(name, "yuvj", 4);
    bool yuv = desc && !(desc->flags & AV_PIX_FMT_FLAG_RGB) && desc->nb_components >= 3;
    if (desc && look->tonemap) {
        int rc = media_tone_open(&p->tone, f, full_range, (media_tonemap)look->tonemap, p->peak,
                                 err);
        return rc ? rc : rgb_make(p, f, 3, err);
    }
    if (!desc || !sws_isSupportedInput(f->format))
        return vc_fail(err, VC_EFORMAT, "no conversion from the pixel format %s", name);
    if (yuv && !known_matrix(f->colorspace))
        return vc_fail(err, VC_EFORMAT, "no conversion for the colour matrix %s",
                       av_color_space_name(f->colorspace) ? av_color_space_name(f->colorspace)
                                                          : "of this file");
    if (look->alpha)
        return scaler_make(p, f, AV_PIX_FMT_RGBA, full_range, err);
    return media_yuv_can(f) ? media_yuv_open(&p->yuv, f, full_range, err)
                            : scaler_make(p, f, AV_PIX_FMT_RGB24, full_range, err);
}

static void converter_close(media_pixels *p)
{
    sws_freeContext(p->sws);
    media_yuv_close(p->yuv);
    media_tone_close(p->tone);
    p->sws = NULL;
    p->yuv = NULL;
    p->tone = NULL;
    p->look = (media_look){ 0 };
    av_freep(&p->rgb);
}

/* Converts the whole frame into p->rgb, for a frame that is resized twice. */
static int yuv_to_rgb(media_pixels *p, const AVFrame *f, vc_err *err)
{
    const size_t w = (size_t)f->width;
    float *row = malloc(3 * w * sizeof *row);

    if (!p->rgb)
        p->rgb = av_malloc(3 * w * (size_t)f->height);
    if (!row || !p->rgb) {
        free(row);
        return vc_fail(err, VC_ENOMEM, "out of memory for %dx%d pixels", f->width, f->height);
    }
    p->stride = 3 * f->width;
    for (int y = 0; y < f->height; y++) {
        uint8_t *out = p->rgb + (size_t)y * 3 * w;
        media_yuv_row(p->yuv, f, y, row, row + w, row + 2 * w);
        for (size_t x = 0; x < w; x++)
            for (size_t c = 0; c < 3; c++)
                out[3 * x + c] = (uint8_t)row[c * w + x];
    }
    free(row);
    return 0;
}

static int scaled_to_rgb(media_pixels *p, const AVFrame *f, vc_err *err)
{
    int rows = sws_scale(p->sws, (const uint8_t *const *)f->data, f->linesize, 0, f->height,
                         &(uint8_t *){ p->rgb }, &p->stride);
    if (rows == f->height)
        return 0;
    return media_av_fail(err, rows < 0 ? rows : AVERROR_EXTERNAL, "colour conversion failed");
}

/* RGBA in p->rgb becomes RGB, in place. */
static void weigh_by_alpha(media_pixels *p, int h, int w)
{
    for (int y = 0; y < h; y++) {
        uint8_t *to = p->rgb + (size_t)y * (size_t)p->stride;
        const uint8_t *from = to;
        for (int x = 0; x < w; x++, to += 3, from += 4) {
            const unsigned a = from[3];
            for (int c = 0; c < 3; c++)
                to[c] = (uint8_t)((from[c] * a + 127) / 255);
        }
    }
}

/* Makes the converter that frames of this look need, unless p has it. */
static int converter_for(media_pixels *p, const AVFrame *f, const media_look *look, vc_err *err)
{
    if (!memcmp(look, &p->look, sizeof *look))
        return 0;
    converter_close(p);
    int rc = converter_make(p, f, look, err);
    if (!rc)
        p->look = *look;
    return rc;
}

int media_pixels_alpha(const AVFrame *f, bool *opaque, bool *black, vc_err *err)
{
    media_pixels p = { 0 };
    const media_look look = look_of(f, MEDIA_TONEMAP_NONE, true);
    *opaque = *black = true;
    if (!look.alpha)
        return 0;
    int rc = converter_for(&p, f, &look, err);
    if (!rc)
        rc = scaled_to_rgb(&p, f, err);
    for (int y = 0; !rc && y < f->height; y++) {
        const uint8_t *px = p.rgb + (size_t)y * (size_t)p.stride;
        for (int x = 0; x < f->width; x++, px += 4) {
            *opaque &= px[3] == 255;
            *black &= !px[3] || !(px[0] | px[1] | px[2]);
        }
    }
    media_pixels_close(&p);
    return rc;
}

int media_pixels_frame(media_pixels *p, void *dst, const AVFrame *f, media_orient o,
                       const media_fit *fit, vc_err *err)
{
    const media_look look = look_of(f, fit->tonemap, fit->alpha);
    int rc = converter_for(p, f, &look, err);
    if (!rc && p->yuv && !fit->exact && !fit->load_h && !fit->black)
        return fit_picture(p, dst, NULL, 0, &(yuv_source){ p->yuv, f }, f->height, f->width, o,
                           fit, err);
    if (!rc)
        rc = p->yuv ? yuv_to_rgb(p, f, err)
             : p->tone ? media_tone_run(p->tone, p->rgb, p->stride, f, err)
                       : scaled_to_rgb(p, f, err);
    if (!rc && look.alpha)
        weigh_by_alpha(p, f->height, f->width);
    return rc ? rc : media_pixels_rgb(p, dst, p->rgb, f->height, f->width, p->stride, o, fit, err);
}

void media_pixels_close(media_pixels *p)
{
    converter_close(p);
    resize_close(p->plan);
    free(p->cut);
    free(p->loaded);
    *p = (media_pixels){ 0 };
}

int media_still_frame(AVFrame *f, enum AVPixelFormat format, int w, int h, vc_err *err)
{
    f->format = format;
    f->width = w;
    f->height = h;
    f->color_range = AVCOL_RANGE_JPEG;
    int r = av_frame_get_buffer(f, 0);
    if (r < 0)
        return vc_fail(err, r == AVERROR(ENOMEM) ? VC_ENOMEM : VC_EFORMAT,
                       "out of memory for %dx%d pixels", w, h);
    return 0;
}
