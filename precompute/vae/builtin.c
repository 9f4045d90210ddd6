/* builtin.c - the weight-free codec: a fixed orthonormal block transform.
 *
 * YCbCr blocks of 4 frames x 8 x 8 pixels go through a separable DCT-II, and the 16 lowest
 * frequencies (10 of Y, 3 of Cb, 3 of Cr) become the 16 latent channels. The first frame is a block
 * of its own, as in the causal video VAEs. This frame counts as four equal frames, so that its
 * channels have the scale of later blocks, and keeps four more spatial frequencies in place of the
 * temporal ones. Decoding applies the transposed transform, which is exact on these frequencies, so
 * encode(decode(z)) = z. */
#include "precompute/encoder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { C = 16, S = 8, K = 4, AREA = S * S };

typedef struct freq {
    uint8_t plane, t, v, u;          /* Y Cb Cr; temporal, vertical, horizontal frequency */
} freq;

static const freq first_kept[C] = {
    { 0, 0, 0, 0 }, { 0, 0, 0, 1 }, { 0, 0, 1, 0 }, { 0, 0, 1, 1 }, { 0, 0, 0, 2 }, { 0, 0, 2, 0 },
    { 0, 0, 1, 2 }, { 0, 0, 2, 1 }, { 0, 0, 0, 3 }, { 0, 0, 3, 0 },
    { 1, 0, 0, 0 }, { 1, 0, 0, 1 }, { 1, 0, 1, 0 }, { 2, 0, 0, 0 }, { 2, 0, 0, 1 }, { 2, 0, 1, 0 },
};
static const freq clip_kept[C] = {
    { 0, 0, 0, 0 }, { 0, 0, 0, 1 }, { 0, 0, 1, 0 }, { 0, 0, 1, 1 }, { 0, 0, 0, 2 }, { 0, 0, 2, 0 },
    { 0, 1, 0, 0 }, { 0, 1, 0, 1 }, { 0, 1, 1, 0 }, { 0, 2, 0, 0 },
    { 1, 0, 0, 0 }, { 1, 0, 0, 1 }, { 1, 0, 1, 0 }, { 2, 0, 0, 0 }, { 2, 0, 0, 1 }, { 2, 0, 1, 0 },
};

/* Means of natural clips, and the square roots of their standard deviations (9.5 for Y's lowest
 * frequency, 0.26 for the finest). Division by the root leaves coarse frequencies, whose errors are
 * most visible, with a larger variance than fine ones: noise of one size then hides fine detail
 * before shapes. */
static const double channel_mean[C] = { -1.7, 0, 0, 0, 0, 0, 0, 0, 0, 0, -0.5, 0, 0, 0.4, 0, 0 };
static const double channel_std[C] = { 3.08, 0.97, 0.97, 0.61, 0.67, 0.69, 0.71, 0.51, 0.55, 0.6,
                                       2.0, 0.76, 0.55, 2.0, 0.73, 0.65 };

struct vae {
    float first[C][AREA];            /* basis of the first frame: one frame stands for four */
    float clip[C][K][AREA];
    float *planes;                   /* [3][K frames][h*w] */
    float *range;                    /* [K frames][h*w][3]: pixels, or decoded bytes, that are not
                                      * all in memory */
    size_t planes_n;
};

static double dct(int n, int freq_index, int x)
{
    double pi = 3.14159265358979323846;

    return freq_index == 0 ? sqrt(1.0 / n)
                           : sqrt(2.0 / n) * cos((2 * x + 1) * freq_index * pi / (2.0 * n));
}

static void builtin_close(vae *v)
{
    if (v) {
        free(v->planes);
        free(v->range);
    }
    free(v);
}

static int builtin_open(vae **out, const encoder_opts *o, vae_info *info, vc_err *err)
{
    (void)o;
    vae *v = *out = calloc(1, sizeof *v);
    if (!v)
        return vc_fail(err, VC_ENOMEM, "built-in codec: out of memory");

    for (int c = 0; c < C; c++)
        for (int y = 0; y < S; y++)
            for (int x = 0; x < S; x++) {
                const freq *a = &first_kept[c], *b = &clip_kept[c];
                /* Four equal frames have a temporal DC alone, with a gain of sqrt(4). */
                v->first[c][y * S + x] = (float)(2.0 * dct(S, a->v, y) * dct(S, a->u, x));
                for (int t = 0; t < K; t++)
                    v->clip[c][t][y * S + x] =
                        (float)(dct(K, b->t, t) * dct(S, b->v, y) * dct(S, b->u, x));
            }

    *info = (vae_info){ .class = "BuiltinCodec", .channels = C, .ratio = { K, S, S },
                        .scaling_factor = 1, .per_channel = true };
    memcpy(info->mean, channel_mean, sizeof channel_mean);
    memcpy(info->std, channel_std, sizeof channel_std);

    vf_hasher h;
    vf_hasher_begin(&h, "vae");
    vf_hasher_str(&h, "class", info->class);
    vf_hasher_bytes(&h, "first", first_kept, sizeof first_kept);
    vf_hasher_bytes(&h, "clip", clip_kept, sizeof clip_kept);
    info->fingerprint = vf_hasher_end(&h);
    return 0;
}

static int need_planes(vae *v, int h, int w, vc_err *err)
{
    size_t n = (size_t)3 * K * (size_t)h * (size_t)w;

    if (n <= v->planes_n)
        return 0;
    free(v->planes);
    free(v->range);
    v->planes = malloc(n * sizeof *v->planes);
    v->range = malloc(n * sizeof *v->range);
    v->planes_n = v->planes && v->range ? n : 0;
    return v->planes_n ? 0 : vc_fail(err, VC_ENOMEM, "built-in codec: out of memory for %dx%d", w,
                                     h);
}

/* BT.601 full-range luma and colour differences, on -1..1. */
static void to_ycc(float *y, float *cb, float *cr, const float *rgb, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float r = rgb[3 * i], g = rgb[3 * i + 1], b = rgb[3 * i + 2];
        float l = 0.299f * r + 0.587f * g + 0.114f * b;
        y[i] = l;
        cb[i] = (b - l) * 0.564f;
        cr[i] = (r - l) * 0.713f;
    }
}

static uint8_t to_u8(float x)
{
    float v = (x + 1.0f) * 127.5f;

    return (uint8_t)(v <= 0 ? 0 : v >= 255 ? 255 : v + 0.5f);
}

static void from_ycc(uint8_t *rgb, const float *y, const float *cb, const float *cr, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float l = y[i], b = l + cb[i] / 0.564f, r = l + cr[i] / 0.713f;
        rgb[3 * i] = to_u8(r);
        rgb[3 * i + 1] = to_u8((l - 0.299f * r - 0.114f * b) / 0.587f);
        rgb[3 * i + 2] = to_u8(b);
    }
}

/* The inner product of an 8x8 block of a plane and one frame's basis. */
static float block_dot(const float *p, int stride, const float *basis)
{
    float s = 0;

    for (int y = 0; y < S; y++)
        for (int x = 0; x < S; x++)
            s += p[y * stride + x] * basis[y * S + x];
    return s;
}

/* The transpose of block_dot: adds a times the basis to the block. */
static void block_add(float *p, int stride, const float *basis, float a)
{
    for (int y = 0; y < S; y++)
        for (int x = 0; x < S; x++)
            p[y * stride + x] += a * basis[y * S + x];
}

/* *x: the frames first..first+n-1. */
static int frames_at(vae *v, const vae_input *from, int first, int n, size_t area, const float **x,
                     vc_err *err)
{
    *x = from->all ? from->all + (size_t)first * area * 3 : v->range;
    return from->all ? 0 : from->read(from->arg, first, n, v->range, err);
}

static int builtin_encode(vae *v, const vae_input *pixels, int f, int h, int w, float *mean,
                          float *logvar, vc_err *err)
{
    if ((f - 1) % K || h % S || w % S || f < 1 || h < S || w < S)
        return vc_fail(err, VC_EINVAL, "built-in codec: %d frames of %dx%d: width and height must "
                       "be multiples of %d, and the number of frames 4j+1", f, w, h, S);
    int rc = need_planes(v, h, w, err);
    int lf = (f - 1) / K + 1, lh = h / S, lw = w / S;
    size_t area = (size_t)h * (size_t)w, grid = (size_t)lh * (size_t)lw;
    for (int i = 0; !rc && i < lf; i++) {
        int n = i ? K : 1;
        const float *src;
        rc = frames_at(v, pixels, i ? 1 + (i - 1) * K : 0, n, area, &src, err);
        for (int t = 0; !rc && t < n; t++)
            to_ycc(v->planes + (size_t)t * area, v->planes + (size_t)(K + t) * area,
                   v->planes + (size_t)(2 * K + t) * area, src + (size_t)t * area * 3, area);
        for (int c = 0; !rc && c < C; c++) {
            const freq *q = i ? &clip_kept[c] : &first_kept[c];
            const float *plane = v->planes + (size_t)q->plane * K * area;
            float *out = mean + ((size_t)c * (size_t)lf + (size_t)i) * grid;
            for (int y = 0; y < lh; y++)
                for (int x = 0; x < lw; x++) {
                    const float *p = plane + (size_t)y * S * (size_t)w + (size_t)x * S;
                    float s = 0;
                    for (int t = 0; t < n; t++)
                        s += block_dot(p + (size_t)t * area, w, i ? v->clip[c][t] : v->first[c]);
                    out[(size_t)y * (size_t)lw + (size_t)x] = s;
                }
        }
        if (!rc && pixels->made)
            pixels->made(pixels->arg, (i + 1.0) / lf);
    }
    if (!rc && logvar)
        for (size_t i = 0; i < (size_t)C * (size_t)lf * grid; i++)
            logvar[i] = -30.0f;
    return rc;
}

static int builtin_decode(vae *v, const float *z, int f, int h, int w, const vae_output *to,
                          vc_err *err)
{
    if (f < 1 || h < 1 || w < 1 || h > 1 << 16 || w > 1 << 16)
        return vc_fail(err, VC_EINVAL, "built-in codec: a latent of %d frames of %dx%d is not "
                       "possible", f, w, h);
    int rc = need_planes(v, h * S, w * S, err);
    if (rc)
        return rc;

    int pw = w * S;
    size_t grid = (size_t)h * (size_t)w, area = grid * AREA;
    for (int i = 0; !rc && i < f; i++) {
        int n = i ? K : 1, first = i ? 1 + (i - 1) * K : 0;
        memset(v->planes, 0, 3 * K * area * sizeof *v->planes);
        for (int c = 0; c < C; c++) {
            const freq *q = i ? &clip_kept[c] : &first_kept[c];
            float *plane = v->planes + (size_t)q->plane * K * area;
            const float *in = z + ((size_t)c * (size_t)f + (size_t)i) * grid;
            for (size_t b = 0; b < grid; b++) {
                float *p = plane + b / (size_t)w * S * (size_t)pw + b % (size_t)w * S;
                /* The first frame's basis is twice an orthonormal one, so decoding divides by 4. */
                for (int t = 0; t < n; t++)
                    block_add(p + (size_t)t * area, pw, i ? v->clip[c][t] : v->first[c],
                              i ? in[b] : in[b] / 4.0f);
            }
        }
        uint8_t *dst = to->all ? to->all + (size_t)first * area * 3 : (uint8_t *)v->range;
        for (int t = 0; t < n; t++)
            from_ycc(dst + (size_t)t * area * 3, v->planes + (size_t)t * area,
                     v->planes + (size_t)(K + t) * area, v->planes + (size_t)(2 * K + t) * area,
                     area);
        rc = to->all ? 0 : to->take(to->arg, dst, first, n, err);
    }
    return rc;
}

static int builtin_chunk(const vae *v, int f)
{
    (void)v;
    return f < K ? f : K;
}

static int builtin_frames(int f) { return (f - 1) * K + 1; }

static int builtin_memory(vae *v, bool decode, int f, int h, int w, size_t *bytes, vc_err *err)
{
    (void)v, (void)f, (void)err;
    *bytes = (size_t)6 * K * (size_t)h * (size_t)w * (decode ? AREA : 1) * sizeof(float);
    return 0;
}

const vae_class vae_builtin = { "BuiltinCodec", builtin_open, builtin_close, builtin_encode,
                                builtin_decode, builtin_frames, builtin_memory, builtin_chunk };
