/* tonemap.c - HDR frames to 8-bit RGB of BT.709 (see internal.h)
 *
 * zimg, the library in FFmpeg's filter zscale, makes linear light of BT.709's primaries, in which 1
 * is the white of SDR, 100 cd/m2: it brings chroma to full size, and applies the matrix, the EOTF
 * of SMPTE ST 2084 (PQ) or the inverse OETF and the OOTF of BT.2100 for a display of 1000 cd/m2
 * (HLG), and the primaries. Then the curve changes the brightest component of each pixel and the
 * others by the same factor, which keeps the hue, and the gamma of BT.1886 follows. FFmpeg's
 * filters zscale, tonemap=desat=0 and zscale do the same; zimg is the one of their libraries that
 * is needed, and depends on no other. Its plain C code is used, since its vector code rounds
 * differently on each kind of processor. */
#include <libavutil/pixdesc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zimg.h>

#include "precompute/media/internal.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off")     /* the same bits on every machine */
#endif

enum { ALIGN = 64, WHITE = 100, USUAL_PEAK = 1000 };    /* bytes; cd/m2 of SDR and of most films */

const char *const media_tonemap_names[MEDIA_TONEMAPS] = {
    [MEDIA_TONEMAP_NONE] = "none",     [MEDIA_TONEMAP_CLIP] = "clip",
    [MEDIA_TONEMAP_REINHARD] = "reinhard", [MEDIA_TONEMAP_MOBIUS] = "mobius",
    [MEDIA_TONEMAP_HABLE] = "hable",
};

/* ---- the curves: 0..peak becomes 0..1; brighter light may become more ---- */

static float clip(float x, float peak)
{
    (void)peak;
    return fminf(x, 1);
}

/* Reinhard et al. 2002, scaled so that the peak becomes 1. */
static float reinhard(float x, float peak)
{
    return x / (x + 1) * (peak + 1) / peak;
}

/* The identity up to `knee`, then the Moebius transform that continues its value and slope there
 * and reaches 1 at the peak, as mpv has it. */
static float mobius(float x, float peak)
{
    const float knee = 0.3f;
    if (x <= knee || peak <= 1)
        return x;
    float a = -knee * knee * (peak - 1) / (knee * knee - 2 * knee + peak);
    float b = (knee * knee - 2 * knee * peak + peak) / (peak - 1);
    return (b + knee) * (b + knee) / (b - a) * (x + a) / (x + b);
}

/* The film curve of Hable 2010, and the same scaled so that the peak becomes 1. */
static float film(float x)
{
    const float shoulder = 0.15f, linear = 0.50f, angle = 0.10f;
    const float toe = 0.20f, top = 0.02f, bottom = 0.30f;
    return (x * (shoulder * x + angle * linear) + toe * top) /
           (x * (shoulder * x + linear) + toe * bottom) - top / bottom;
}

static float hable(float x, float peak)
{
    return film(x) / film(peak);
}

typedef float curve(float x, float peak);
static curve *const curves[MEDIA_TONEMAPS] = {
    [MEDIA_TONEMAP_CLIP] = clip, [MEDIA_TONEMAP_REINHARD] = reinhard,
    [MEDIA_TONEMAP_MOBIUS] = mobius, [MEDIA_TONEMAP_HABLE] = hable,
};

/* ---- HDR frames ---- */

bool media_tone_is_hdr(const AVFrame *f)
{
    return f->color_trc == AVCOL_TRC_SMPTE2084 || f->color_trc == AVCOL_TRC_ARIB_STD_B67;
}

double media_tone_peak(const AVFrame *f, const AVContentLightMetadata *light,
                       const AVMasteringDisplayMetadata *display)
{
    double peak = USUAL_PEAK;

    if (f->color_trc != AVCOL_TRC_SMPTE2084)         /* HLG is shown on a display of this peak */
        return peak / WHITE;
    if (light && light->MaxCLL)
        peak = light->MaxCLL;
    else if (display && display->has_luminance && display->max_luminance.num > 0 &&
             display->max_luminance.den > 0)
        peak = av_q2d(display->max_luminance);
    return fmin(fmax(peak, WHITE), 10000) / WHITE;   /* ST 2084 ends at 10000 */
}

/* ---- a conversion ---- */

struct media_tone {
    zimg_filter_graph *graph;
    curve *map;
    float peak;
    unsigned mask;                  /* rows [mask + 1], of which zimg has few at a time */
    float *rows[3];                 /* R, G, B [mask + 1, stride] */
    size_t stride;
    void *tmp;
    AVFrame *whole;                 /* a copy with whole chroma samples, of frames of odd sizes */
    uint8_t *rgb;                   /* of the run: [h, rgb_stride] */
    int w, h, rgb_stride;
};

static bool is_planar_rgb(const AVPixFmtDescriptor *d)
{
    const uint64_t other = AV_PIX_FMT_FLAG_FLOAT | AV_PIX_FMT_FLAG_BE | AV_PIX_FMT_FLAG_BITSTREAM |
                           AV_PIX_FMT_FLAG_HWACCEL | AV_PIX_FMT_FLAG_PAL;
    const uint64_t both = AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_PLANAR;
    return d->nb_components >= 3 && (d->flags & both) == both && !(d->flags & other) &&
           !d->comp[0].shift && d->comp[0].depth >= 8 && d->comp[0].depth <= 16;
}

/* zimg's numbers are those of ITU-T H.273, as FFmpeg's are. Untagged is as BT.2100 has it. */
static zimg_image_format format_of(const AVFrame *f, const AVPixFmtDescriptor *d, bool full_range)
{
    const bool rgb = d->flags & AV_PIX_FMT_FLAG_RGB;
    zimg_image_format z;

    zimg_image_format_default(&z, ZIMG_API_VERSION);
    z.width = (unsigned)f->width;
    z.height = (unsigned)f->height;
    z.depth = (unsigned)d->comp[0].depth;
    z.pixel_type = z.depth > 8 ? ZIMG_PIXEL_WORD : ZIMG_PIXEL_BYTE;
    z.subsample_w = d->log2_chroma_w;
    z.subsample_h = d->log2_chroma_h;
    z.color_family = rgb ? ZIMG_COLOR_RGB : ZIMG_COLOR_YUV;
    z.matrix_coefficients = rgb ? ZIMG_MATRIX_RGB
                            : f->colorspace == AVCOL_SPC_UNSPECIFIED ? ZIMG_MATRIX_2020_NCL
                            : (zimg_matrix_coefficients_e)f->colorspace;
    z.transfer_characteristics = (zimg_transfer_characteristics_e)f->color_trc;
    z.color_primaries = f->color_primaries == AVCOL_PRI_UNSPECIFIED
                            ? ZIMG_PRIMARIES_2020 : (zimg_color_primaries_e)f->color_primaries;
    z.pixel_range = full_range || rgb ? ZIMG_RANGE_FULL : ZIMG_RANGE_LIMITED;
    if (f->chroma_location > AVCHROMA_LOC_UNSPECIFIED)
        z.chroma_location = (zimg_chroma_location_e)(f->chroma_location - 1);
    return z;
}

static zimg_filter_graph *build(const zimg_image_format *from)
{
    zimg_image_format to;
    zimg_graph_builder_params o;

    zimg_image_format_default(&to, ZIMG_API_VERSION);
    to.width = from->width;
    to.height = from->height;
    to.pixel_type = ZIMG_PIXEL_FLOAT;
    to.color_family = ZIMG_COLOR_RGB;
    to.matrix_coefficients = ZIMG_MATRIX_RGB;
    to.transfer_characteristics = ZIMG_TRANSFER_LINEAR;
    to.color_primaries = ZIMG_PRIMARIES_709;
    to.pixel_range = ZIMG_RANGE_FULL;
    zimg_graph_builder_params_default(&o, ZIMG_API_VERSION);
    o.resample_filter_uv = ZIMG_RESIZE_BICUBIC;      /* the cubic of yuv.c */
    o.filter_param_a_uv = 0;
    o.filter_param_b_uv = 0.6;
    o.cpu_type = ZIMG_CPU_NONE;
    o.nominal_peak_luminance = WHITE;
    o.allow_approximate_gamma = 0;
    return zimg_filter_graph_build(from, &to, &o);
}

static int zimg_fail(vc_err *err, const AVFrame *f)
{
    char why[256] = "";
    zimg_error_code_e code = zimg_get_last_error(why, sizeof why);
    zimg_clear_last_error();
    if (code == ZIMG_ERROR_OUT_OF_MEMORY)
        return vc_fail(err, VC_ENOMEM, "out of memory for %dx%d pixels", f->width, f->height);
    return vc_fail(err, VC_EFORMAT, "no tone mapping of its colours: %s; --tonemap none converts "
                   "them as SDR", why);
}

/* A frame of odd size is copied, with its last column and row repeated. */
static int make_whole(media_tone *t, const AVFrame *f, const AVPixFmtDescriptor *d)
{
    const int w = AV_CEIL_RSHIFT(f->width, d->log2_chroma_w) << d->log2_chroma_w;
    const int h = AV_CEIL_RSHIFT(f->height, d->log2_chroma_h) << d->log2_chroma_h;

    if (w == f->width && h == f->height)
        return 0;
    t->whole = av_frame_alloc();
    if (!t->whole)
        return AVERROR(ENOMEM);
    t->whole->format = f->format;
    t->whole->width = w;
    t->whole->height = h;
    int r = av_frame_get_buffer(t->whole, ALIGN);
    return r < 0 ? r : av_frame_copy_props(t->whole, f);
}

static const AVFrame *fill_whole(media_tone *t, const AVFrame *f)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f->format);
    const size_t px = d->comp[0].depth > 8 ? 2 : 1;

    for (int p = 0; p < 3 && t->whole; p++) {
        const int w = p ? AV_CEIL_RSHIFT(f->width, d->log2_chroma_w) : f->width;
        const int h = p ? AV_CEIL_RSHIFT(f->height, d->log2_chroma_h) : f->height;
        const int rows = p ? h : t->whole->height, columns = p ? w : t->whole->width;
        for (int y = 0; y < rows; y++) {
            const uint8_t *from = f->data[p] + (ptrdiff_t)(y < h ? y : h - 1) * f->linesize[p];
            uint8_t *to = t->whole->data[p] + (ptrdiff_t)y * t->whole->linesize[p];
            memcpy(to, from, (size_t)w * px);
            if (columns > w)
                memcpy(to + (size_t)w * px, from + (size_t)(w - 1) * px, px);
        }
    }
    return t->whole ? t->whole : f;
}

static int make_buffers(media_tone *t, const AVFrame *f, vc_err *err)
{
    size_t bytes;
    unsigned count;

    if (zimg_filter_graph_get_tmp_size(t->graph, &bytes) ||
        zimg_filter_graph_get_output_buffering(t->graph, &count))
        return zimg_fail(err, f);
    t->mask = zimg_select_buffer_mask(count);
    size_t lines = t->mask == ZIMG_BUFFER_MAX ? (size_t)f->height + 1 : (size_t)t->mask + 1;
    t->stride = ((size_t)f->width * sizeof(float) + 2 * ALIGN) / ALIGN * ALIGN;
    bool ok = !!(t->tmp = aligned_alloc(ALIGN, (bytes + ALIGN) / ALIGN * ALIGN));
    for (int c = 0; c < 3; c++)
        ok &= !!(t->rows[c] = aligned_alloc(ALIGN, lines * t->stride));
    return ok ? 0 : vc_fail(err, VC_ENOMEM, "out of memory for rows of %d pixels", f->width);
}

int media_tone_open(media_tone **out, const AVFrame *f, bool full_range, media_tonemap method,
                    double peak, vc_err *err)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f->format);
    *out = NULL;
    if (!media_yuv_can(f) && !is_planar_rgb(d))
        return vc_fail(err, VC_EFORMAT, "no tone mapping from the pixel format %s; --tonemap none "
                       "converts it as SDR", d->name);
    media_tone *t = *out = calloc(1, sizeof *t);
    if (!t)
        return vc_no_memory(err);
    t->map = curves[method];
    t->peak = (float)peak;
    t->w = f->width;
    t->h = f->height;
    int r = make_whole(t, f, d), rc = r < 0 ? media_av_fail(err, r, "a frame of odd size") : 0;
    const zimg_image_format from = format_of(t->whole ? t->whole : f, d, full_range);
    if (!rc)
        rc = (t->graph = build(&from)) ? make_buffers(t, f, err) : zimg_fail(err, f);
    if (rc) {
        media_tone_close(t);
        *out = NULL;
    }
    return rc;
}

/* The gamma of BT.1886 in 8 bits; a NaN becomes 0. */
static uint8_t display(float x)
{
    return x >= 1 ? 255 : x > 0 ? (uint8_t)(powf(x, 1 / 2.4f) * 255 + 0.5f) : 0;
}

/* zimg calls this for each row, or a part of it, of linear light. */
static int map_row(void *user, unsigned y, unsigned left, unsigned right)
{
    const media_tone *t = user;
    const size_t at = (y & t->mask) * (t->stride / sizeof(float));
    const float *r = t->rows[0] + at, *g = t->rows[1] + at, *b = t->rows[2] + at;

    if (y >= (unsigned)t->h)
        return 0;
    uint8_t *out = t->rgb + (ptrdiff_t)y * t->rgb_stride;
    for (unsigned x = left; x < right && x < (unsigned)t->w; x++) {
        float most = fmaxf(fmaxf(fmaxf(r[x], g[x]), b[x]), 1e-6f);
        float scale = t->map(most, t->peak) / most;
        out[3 * x] = display(r[x] * scale);
        out[3 * x + 1] = display(g[x] * scale);
        out[3 * x + 2] = display(b[x] * scale);
    }
    return 0;
}

int media_tone_run(media_tone *t, uint8_t *rgb, int stride, const AVFrame *frame, vc_err *err)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(frame->format);
    const AVFrame *f = fill_whole(t, frame);
    zimg_image_buffer_const from = { .version = ZIMG_API_VERSION };
    zimg_image_buffer to = { .version = ZIMG_API_VERSION };

    for (int c = 0; c < 3; c++) {
        from.plane[c].data = f->data[d->comp[c].plane];
        from.plane[c].stride = f->linesize[d->comp[c].plane];
        from.plane[c].mask = ZIMG_BUFFER_MAX;
        to.plane[c].data = t->rows[c];
        to.plane[c].stride = (ptrdiff_t)t->stride;
        to.plane[c].mask = t->mask;
    }
    t->rgb = rgb;
    t->rgb_stride = stride;
    return zimg_filter_graph_process(t->graph, &from, &to, t->tmp, NULL, NULL, map_row, t)
               ? zimg_fail(err, frame) : 0;
}

void media_tone_close(media_tone *t)
{
    if (!t)
        return;
    zimg_filter_graph_free(t->graph);
    for (int c = 0; c < 3; c++)
        free(t->rows[c]);
    free(t->tmp);
    av_frame_free(&t->whole);
    free(t);
}
