/* yuv.c - planar YUV to RGB (see internal.h)
 *
 * Nearly every video decodes to planar YUV, which is converted in f32: swscale's exact path takes
 * about eight times as long for the same picture (to one step of 8 bits), and its fast path differs
 * by more.
 * Chroma is brought to full size by swscale's bicubic filter (the cubic of Keys with a = -0.6),
 * its samples centred between the luma samples they belong to, edges repeated; then the matrix
 * of ITU-T H.273, equations 38 to 40 inverted. */
#include <libavutil/pixdesc.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/media/internal.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off")     /* the same bits on every machine */
#endif

/* Keys' cubic at 1/4, 3/4, 5/4 and 7/4 */
static const float near1 = 0.871875f, near2 = 0.240625f, far1 = -0.084375f, far2 = -0.028125f;

enum { EDGE = 2 };                  /* repeated chroma samples at either end of a row */

struct media_yuv {
    int w, h, cw, ch;               /* of luma and of chroma */
    int shift_x, shift_y;           /* log2 of their ratio */
    bool wide;                      /* 16-bit samples */
    float black, gain_y;            /* value = (sample - black) * gain */
    float zero;                     /* chroma: (sample - zero) * gain */
    float r_v, g_u, g_v, b_u;       /* the matrix, times chroma's gain */
    float *mixed[2];                /* [EDGE + cw + EDGE]: chroma rows at luma's row */
    float *full[2];                 /* [w + 2]: and at its columns */
    void (*row)(const media_yuv *c, const AVFrame *f, int y, float *r, float *g, float *b);
};

static inline __attribute__((always_inline)) float sample(const void *row, int i, bool wide)
{
    return wide ? (float)((const uint16_t *)row)[i] : (float)((const uint8_t *)row)[i];
}

/* Mixes the four chroma rows around luma row y, or takes the only one. */
static inline __attribute__((always_inline)) void mix(float *restrict dst, const uint8_t *data,
                                                      ptrdiff_t stride, const media_yuv *c, int y,
                                                      bool wide)
{
    static const float even[4] = { far2, near2, near1, far1 };
    static const float odd[4] = { far1, near1, near2, far2 };
    const uint8_t *rows[4];
    const float *w = y & 1 ? odd : even;
    float zero = c->zero;
    dst += EDGE;
    if (!c->shift_y) {
        const uint8_t *restrict row = data + y * stride;
        for (int i = 0; i < c->cw; i++)
            dst[i] = sample(row, i, wide) - zero;
    } else {
        for (int k = 0; k < 4; k++) {
            int at = (y >> 1) - 2 + (y & 1) + k;
            rows[k] = data + (at < 0 ? 0 : at >= c->ch ? c->ch - 1 : at) * stride;
        }
        const uint8_t *restrict p = rows[0], *restrict q = rows[1], *restrict r = rows[2],
                      *restrict s = rows[3];
        float a = w[0], b = w[1], d = w[2], e = w[3];
        for (int i = 0; i < c->cw; i++)
            dst[i] = a * sample(p, i, wide) + b * sample(q, i, wide) + d * sample(r, i, wide) +
                     e * sample(s, i, wide) - zero;
    }
    for (int k = 1; k <= EDGE; k++) {
        dst[-k] = dst[0];
        dst[c->cw - 1 + k] = dst[c->cw - 1];
    }
}

static inline __attribute__((always_inline)) const float *widen(float *restrict dst,
                                                                const float *restrict src,
                                                                const media_yuv *c)
{
    src += EDGE;
    if (!c->shift_x)
        return src;
    for (int i = 0; i < c->cw; i++) {
        float l2 = src[i - 2], l = src[i - 1], m = src[i], r = src[i + 1], r2 = src[i + 2];
        dst[2 * i] = far2 * l2 + near2 * l + near1 * m + far1 * r;
        dst[2 * i + 1] = far1 * l + near1 * m + near2 * r + far2 * r2;
    }
    return dst;
}

/* Rounds to an integer before clamping, since vectors have a minimum of integers. */
static inline __attribute__((always_inline)) float round8(float v)
{
    int i = (int)(v + 0.5f);
    i = i < 0 ? 0 : i;
    return (float)(i > 255 ? 255 : i);
}

/* Takes parameters instead of fields, which the compiler would reload after each store of a
 * float. */
static inline __attribute__((always_inline)) void apply_matrix(
    float *restrict r, float *restrict g, float *restrict b, const uint8_t *restrict luma,
    const float *restrict u, const float *restrict v, int w, const media_yuv *c, bool wide)
{
    float black = c->black, gain = c->gain_y;
    float r_v = c->r_v, g_u = c->g_u, g_v = c->g_v, b_u = c->b_u;
    for (int i = 0; i < w; i++) {
        float l = (sample(luma, i, wide) - black) * gain;
        r[i] = round8(l + r_v * v[i]);
        g[i] = round8(l + g_u * u[i] + g_v * v[i]);
        b[i] = round8(l + b_u * u[i]);
    }
}

static inline __attribute__((always_inline)) void convert_row(const media_yuv *c, const AVFrame *f,
                                                              int y, float *r, float *g, float *b,
                                                              bool wide)
{
    mix(c->mixed[0], f->data[1], f->linesize[1], c, y, wide);
    mix(c->mixed[1], f->data[2], f->linesize[2], c, y, wide);
    const float *u = widen(c->full[0], c->mixed[0], c), *v = widen(c->full[1], c->mixed[1], c);
    apply_matrix(r, g, b, f->data[0] + (ptrdiff_t)y * f->linesize[0], u, v, c->w, c, wide);
}

static void row8(const media_yuv *c, const AVFrame *f, int y, float *r, float *g, float *b)
{
    convert_row(c, f, y, r, g, b, false);
}

static void row16(const media_yuv *c, const AVFrame *f, int y, float *r, float *g, float *b)
{
    convert_row(c, f, y, r, g, b, true);
}

#ifdef __x86_64__
static __attribute__((target("avx2"))) void row8_avx2(const media_yuv *c, const AVFrame *f, int y,
                                                      float *r, float *g, float *b)
{
    convert_row(c, f, y, r, g, b, false);
}

static __attribute__((target("avx2"))) void row16_avx2(const media_yuv *c, const AVFrame *f, int y,
                                                       float *r, float *g, float *b)
{
    convert_row(c, f, y, r, g, b, true);
}
#endif

static void pick_kernel(media_yuv *c)
{
    c->row = c->wide ? row16 : row8;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        c->row = c->wide ? row16_avx2 : row8_avx2;
#endif
}

bool media_yuv_can(const AVFrame *f)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f->format);
    const uint64_t other = AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_FLOAT | AV_PIX_FMT_FLAG_BE |
                           AV_PIX_FMT_FLAG_BITSTREAM | AV_PIX_FMT_FLAG_HWACCEL |
                           AV_PIX_FMT_FLAG_PAL;
    if (!d || d->nb_components < 3 || !(d->flags & AV_PIX_FMT_FLAG_PLANAR) || d->flags & other ||
        f->colorspace == AVCOL_SPC_RGB || !strncmp(d->name, "xyz", 3))
        return false;
    for (int i = 0; i < 3; i++)
        if (d->comp[i].plane != i || d->comp[i].shift || d->comp[i].offset ||
            d->comp[i].step != (d->comp[i].depth > 8 ? 2 : 1) || d->comp[i].depth < 8)
            return false;
    return d->log2_chroma_w <= 1 && d->log2_chroma_h <= d->log2_chroma_w;
}

/* Kr and Kb of H.273 table 4; untagged is BT.601. */
static void luma_weights(enum AVColorSpace space, double *kr, double *kb)
{
    switch (space) {
    case AVCOL_SPC_BT709: *kr = 0.2126, *kb = 0.0722; break;
    case AVCOL_SPC_FCC: *kr = 0.30, *kb = 0.11; break;
    case AVCOL_SPC_SMPTE240M: *kr = 0.212, *kb = 0.087; break;
    case AVCOL_SPC_BT2020_NCL:
    case AVCOL_SPC_BT2020_CL: *kr = 0.2627, *kb = 0.0593; break;
    default: *kr = 0.299, *kb = 0.114;
    }
}

static void set_matrix(media_yuv *c, const AVFrame *f, int depth, bool full_range)
{
    double kr, kb, unit = 1 << (depth - 8), top = (1 << depth) - 1;
    luma_weights(f->colorspace, &kr, &kb);
    double kg = 1 - kr - kb, gain = full_range ? 255 / top : 255 / (224 * unit);
    c->black = full_range ? 0 : (float)(16 * unit);
    c->gain_y = (float)(full_range ? 255 / top : 255 / (219 * unit));
    c->zero = (float)(128 * unit);
    c->r_v = (float)(2 * (1 - kr) * gain);
    c->b_u = (float)(2 * (1 - kb) * gain);
    c->g_u = (float)(-2 * (1 - kb) * kb / kg * gain);
    c->g_v = (float)(-2 * (1 - kr) * kr / kg * gain);
}

int media_yuv_open(media_yuv **out, const AVFrame *f, bool full_range, vc_err *err)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f->format);
    media_yuv *c = *out = calloc(1, sizeof *c);
    if (!c)
        return vc_no_memory(err);
    c->w = f->width;
    c->h = f->height;
    c->shift_x = d->log2_chroma_w;
    c->shift_y = d->log2_chroma_h;
    c->cw = AV_CEIL_RSHIFT(c->w, c->shift_x);
    c->ch = AV_CEIL_RSHIFT(c->h, c->shift_y);
    c->wide = d->comp[0].depth > 8;
    set_matrix(c, f, d->comp[0].depth, full_range);
    pick_kernel(c);
    bool ok = true;
    for (int i = 0; i < 2; i++) {
        ok &= !!(c->mixed[i] = calloc((size_t)c->cw + 2 * EDGE, sizeof *c->mixed[i]));
        ok &= !!(c->full[i] = calloc((size_t)c->w + 2, sizeof *c->full[i]));
    }
    if (!ok) {
        media_yuv_close(c);
        *out = NULL;
        return vc_fail(err, VC_ENOMEM, "out of memory for rows of %d pixels", f->width);
    }
    return 0;
}

void media_yuv_row(media_yuv *c, const AVFrame *f, int y, float *r, float *g, float *b)
{
    c->row(c, f, y, r, g, b);
}

void media_yuv_close(media_yuv *c)
{
    if (!c)
        return;
    for (int i = 0; i < 2; i++) {
        free(c->mixed[i]);
        free(c->full[i]);
    }
    free(c);
}
