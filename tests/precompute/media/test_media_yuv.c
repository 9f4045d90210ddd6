/* test_media_yuv.c - the conversion of planar YUV to RGB equals its definition in f64, and is near
 * swscale's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <libavutil/pixdesc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "precompute/media/internal.h"

/* A smooth frame with some noise, and with colours outside of RGB's range, as pictures have. */
static AVFrame *make_frame(int format, int w, int h, enum AVColorSpace space)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(format);
    AVFrame *f = av_frame_alloc();
    f->format = format;
    f->width = w;
    f->height = h;
    f->colorspace = space;
    assert_int_equal(av_frame_get_buffer(f, 0), 0);
    uint32_t seed = 1;
    int depth = d->comp[0].depth, top = (1 << depth) - 1;
    for (int p = 0; p < 3; p++) {
        int pw = p ? AV_CEIL_RSHIFT(w, d->log2_chroma_w) : w;
        int ph = p ? AV_CEIL_RSHIFT(h, d->log2_chroma_h) : h;
        for (int y = 0; y < ph; y++)
            for (int x = 0; x < pw; x++) {
                seed = seed * 1664525 + 1013904223;
                int wave = abs((5 * x + 3 * y + 40 * p) % 202 - 101), s = wave * top / 104;
                s += (int)((seed >> 24) * (unsigned)top >> 14);
                s = s > top ? top : s;
                uint8_t *row = f->data[p] + (ptrdiff_t)y * f->linesize[p];
                if (depth > 8)
                    ((uint16_t *)(void *)row)[x] = (uint16_t)s;
                else
                    row[x] = (uint8_t)s;
            }
    }
    return f;
}

static double at(const AVFrame *f, int plane, int y, int x)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f->format);
    int w = plane ? AV_CEIL_RSHIFT(f->width, d->log2_chroma_w) : f->width;
    int h = plane ? AV_CEIL_RSHIFT(f->height, d->log2_chroma_h) : f->height;
    x = x < 0 ? 0 : x >= w ? w - 1 : x;
    y = y < 0 ? 0 : y >= h ? h - 1 : y;
    const uint8_t *row = f->data[plane] + (ptrdiff_t)y * f->linesize[plane];
    return d->comp[0].depth > 8 ? ((const uint16_t *)(const void *)row)[x] : row[x];
}

static double cubic(double x)
{
    const double a = -0.6;
    x = fabs(x);
    return x < 1 ? (a + 2) * x * x * x - (a + 3) * x * x + 1
                 : x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

/* The chroma at the place of luma (y, x). */
static double chroma(const AVFrame *f, int plane, int y, int x)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f->format);
    double cy = (y + 0.5) / (1 << d->log2_chroma_h) - 0.5;
    double cx = (x + 0.5) / (1 << d->log2_chroma_w) - 0.5;
    double sum = 0;
    for (int j = (int)floor(cy) - 1; j <= (int)floor(cy) + 2; j++)
        for (int i = (int)floor(cx) - 1; i <= (int)floor(cx) + 2; i++)
            sum += cubic(cy - j) * cubic(cx - i) * at(f, plane, j, i);
    return sum;
}

static void exact(double rgb[3], const AVFrame *f, int y, int x, bool full, double kr, double kb)
{
    int depth = av_pix_fmt_desc_get(f->format)->comp[0].depth;
    double unit = 1 << (depth - 8), top = (1 << depth) - 1, half = 1 << (depth - 1);
    double luma = full ? at(f, 0, y, x) / top : (at(f, 0, y, x) - 16 * unit) / (219 * unit);
    double span = full ? top : 224 * unit;
    double cb = (chroma(f, 1, y, x) - half) / span, cr = (chroma(f, 2, y, x) - half) / span;
    rgb[0] = luma + 2 * (1 - kr) * cr;
    rgb[2] = luma + 2 * (1 - kb) * cb;
    rgb[1] = (luma - kr * rgb[0] - kb * rgb[2]) / (1 - kr - kb);
    for (int c = 0; c < 3; c++)
        rgb[c] = fmin(fmax(rgb[c] * 255, 0), 255);
}

typedef struct yuv_case {
    int format, w, h;
    enum AVColorSpace space;
    double kr, kb;
} yuv_case;

static const yuv_case cases[] = {
    { AV_PIX_FMT_YUV420P, 64, 48, AVCOL_SPC_BT709, 0.2126, 0.0722 },
    { AV_PIX_FMT_YUV420P, 61, 37, AVCOL_SPC_UNSPECIFIED, 0.299, 0.114 },
    { AV_PIX_FMT_YUV420P, 1, 1, AVCOL_SPC_SMPTE170M, 0.299, 0.114 },
    { AV_PIX_FMT_YUV420P, 2, 5, AVCOL_SPC_BT470BG, 0.299, 0.114 },
    { AV_PIX_FMT_YUV422P, 61, 37, AVCOL_SPC_SMPTE240M, 0.212, 0.087 },
    { AV_PIX_FMT_YUV444P, 33, 31, AVCOL_SPC_FCC, 0.30, 0.11 },
    { AV_PIX_FMT_YUVA420P, 34, 30, AVCOL_SPC_BT709, 0.2126, 0.0722 },
    { AV_PIX_FMT_YUV420P10LE, 61, 37, AVCOL_SPC_BT2020_NCL, 0.2627, 0.0593 },
    { AV_PIX_FMT_YUV420P10LE, 62, 38, AVCOL_SPC_BT2020_NCL, 0.2627, 0.0593 },
    { AV_PIX_FMT_YUV422P12LE, 40, 21, AVCOL_SPC_BT2020_NCL, 0.2627, 0.0593 },
    { AV_PIX_FMT_YUV444P16LE, 40, 21, AVCOL_SPC_BT709, 0.2126, 0.0722 },
};
enum { CASES = sizeof cases / sizeof *cases, MAX_BYTES = 64 * 64 * 3, PAD = 7 };

static void convert(uint8_t *rgb, const AVFrame *f, bool full)
{
    media_yuv *c;
    assert_true(media_yuv_can(f));
    assert_int_equal(media_yuv_open(&c, f, full, NULL), 0);
    float row[3][256];
    for (int y = 0; y < f->height; y++) {
        uint8_t *to = rgb + y * (f->width * 3 + PAD);
        media_yuv_row(c, f, y, row[0], row[1], row[2]);
        for (int x = 0; x < f->width; x++)
            for (int k = 0; k < 3; k++)
                to[3 * x + k] = (uint8_t)row[k][x];
    }
    media_yuv_close(c);
}

static void test_exact(void **state)
{
    (void)state;
    static uint8_t rgb[64 * (64 * 3 + PAD)];
    for (int i = 0; i < CASES; i++)
        for (int full = 0; full < 2; full++) {
            const yuv_case *c = &cases[i];
            AVFrame *f = make_frame(c->format, c->w, c->h, c->space);
            convert(rgb, f, full);
            for (int y = 0; y < c->h; y++)
                for (int x = 0; x < c->w; x++) {
                    double want[3];
                    const uint8_t *got = rgb + y * (c->w * 3 + PAD) + x * 3;
                    exact(want, f, y, x, full, c->kr, c->kb);
                    for (int k = 0; k < 3; k++)
                        if (fabs(got[k] - want[k]) > 0.5 + 1e-3)
                            fail_msg("case %d, range %d: (%d,%d,%d) is %d, should be %g", i, full,
                                     y, x, k, got[k], want[k]);
                }
            av_frame_free(&f);
        }
}

/* swscale's exact path rounds between its steps, and computes with 2^n for 2^n - 1 in full
 * range. */
static void test_swscale(void **state)
{
    (void)state;
    static uint8_t rgb[64 * (64 * 3 + PAD)], other[64 * (64 * 3 + PAD) + 64];
    for (int i = 0; i < CASES; i++)
        for (int full = 0; full < 2; full++) {
            const yuv_case *c = &cases[i];
            if (c->w < 8 || c->w & 1 || (c->h & 1 && c->format == AV_PIX_FMT_YUV420P))
                continue;               /* swscale stretches the chroma of odd sizes */
            AVFrame *f = make_frame(c->format, c->w, c->h, c->space);
            convert(rgb, f, full);
            struct SwsContext *sws =
                sws_getContext(c->w, c->h, c->format, c->w, c->h, AV_PIX_FMT_RGB24,
                               SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT, NULL, NULL,
                               NULL);
            assert_non_null(sws);
            sws_setColorspaceDetails(sws, sws_getCoefficients(c->space), full,
                                     sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
            int stride = c->w * 3 + PAD;
            sws_scale(sws, (const uint8_t *const *)f->data, f->linesize, 0, c->h,
                      &(uint8_t *){ other }, &stride);
            double sum = 0;
            for (int y = 0; y < c->h; y++)
                for (int x = 0; x < c->w * 3; x++) {
                    int d = abs(rgb[y * stride + x] - other[y * stride + x]);
                    if (d > 3)
                        fail_msg("case %d, range %d: (%d,%d) is %d, swscale has %d", i, full, y, x,
                                 rgb[y * stride + x], other[y * stride + x]);
                    sum += d;
                }
            if (sum / (c->h * c->w * 3) > 0.5)
                fail_msg("case %d, range %d: %g off on average", i, full, sum / (c->h * c->w * 3));
            sws_freeContext(sws);
            av_frame_free(&f);
        }
}

/* Results have the same bits on every machine, with any vector units. */
static void test_golden(void **state)
{
    (void)state;
    enum { W = 219, H = 71 };
    static uint8_t rgb[H * (W * 3 + PAD)];
    static const struct { int format; uint64_t hash; } rows[] = {
        { AV_PIX_FMT_YUV420P, UINT64_C(0x255209071dbcca8d) },
        { AV_PIX_FMT_YUV420P10LE, UINT64_C(0x5bb26338d96de3b3) },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        AVFrame *f = make_frame(rows[i].format, W, H, AVCOL_SPC_BT709);
        memset(rgb, 0, sizeof rgb);
        convert(rgb, f, false);
        av_frame_free(&f);
        uint64_t hash = XXH3_64bits(rgb, sizeof rgb);
        if (hash != rows[i].hash)
            fail_msg("row %zu: hash is 0x%016llx", i, (unsigned long long)hash);
    }
}

static void test_can(void **state)
{
    (void)state;
    static const struct { int format; bool can; } rows[] = {
        { AV_PIX_FMT_YUVJ420P, true },     { AV_PIX_FMT_YUVJ444P, true },
        { AV_PIX_FMT_YUVA444P10LE, true }, { AV_PIX_FMT_NV12, false },
        { AV_PIX_FMT_P010LE, false },      { AV_PIX_FMT_YUV420P10BE, false },
        { AV_PIX_FMT_GBRP, false },        { AV_PIX_FMT_RGB24, false },
        { AV_PIX_FMT_GRAY8, false },       { AV_PIX_FMT_YUV410P, false },
        { AV_PIX_FMT_YUV411P, false },     { AV_PIX_FMT_YUV440P, false },
        { AV_PIX_FMT_PAL8, false },        { AV_PIX_FMT_YUYV422, false },
        { AV_PIX_FMT_XYZ12LE, false },     { AV_PIX_FMT_GBRPF32LE, false },
        { AV_PIX_FMT_VAAPI, false },       { AV_PIX_FMT_NONE, false },
    };
    AVFrame *f = av_frame_alloc();
    f->colorspace = AVCOL_SPC_BT709;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        f->format = rows[i].format;
        if (media_yuv_can(f) != rows[i].can)
            fail_msg("row %zu", i);
    }
    av_frame_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),  cmocka_unit_test(test_swscale),
        cmocka_unit_test(test_golden), cmocka_unit_test(test_can),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
