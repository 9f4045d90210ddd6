/* resize.c - see resize.h
 *
 * Each source row is read once, in order, as three rows of floats, and kept in a ring while an
 * output row still needs the source row. Columns come first: a weighted sum of whole rows, over the
 * source columns that the rectangle needs. Then the row is resized a pixel at a time, in four lanes
 * of which one is unused. Sums run from the first tap to the last, so vectors change no bit. */
#include "precompute/media/resize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A fused multiply-add would round differently where a machine has one. */
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off")
#endif

enum { VECTOR = 8, BLOCK = 4 * VECTOR };
typedef float pixel4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float vec __attribute__((vector_size(4 * VECTOR), aligned(4), may_alias));

/* Weights of the outputs of one axis: weight[i * n ..] go to source first[i], first[i]+1..; n is
 * the most that any output has, the others have zeros at an end. */
typedef struct taps {
    int n;
    int *first;
    float *weight;
} taps;

typedef void resize_kernel(resize *r, uint8_t *dst, float *dst_f32, resize_row *source, void *arg);

struct resize {
    int w, out_h, out_w;
    int col0, cols;         /* the source columns that are needed */
    taps x, y;              /* x.first counts from col0 */
    size_t plane;           /* floats of a row of one colour: w, and room for a block */
    float *ring;            /* [y.n][3][plane]: source row j is in slot j % y.n */
    float *mixed;           /* [3][plane]: one output row before it is resized along x, */
    float *pixels;          /* [plane * 4]: the same by pixels */
    float *row;             /* [out_w * 3 + 1] */
    const float **rows;     /* [y.n] */
    resize_kernel *kernel;
    resize_row *unpack;     /* the source that is a `packed` */
};

/* The source of resize_run. */
typedef struct packed {
    const uint8_t *data;
    int64_t stride;
    int w;
} packed;

static float *slot(const resize *r, int j)
{
    return r->ring + (size_t)(j % r->y.n) * 3 * r->plane;
}

/* dst[i] = sum over t of weight[t] * rows[t][i], for one colour; up to a block past n */
static inline __attribute__((always_inline)) void mix_plane(float *dst, const float *const *rows,
                                                            const float *weight, int count, int n)
{
    for (int i = 0; i < n; i += BLOCK) {
        const vec *s = (const vec *)(rows[0] + i);
        vec a = weight[0] * s[0], b = weight[0] * s[1], c = weight[0] * s[2], d = weight[0] * s[3];
        for (int t = 1; t < count; t++) {
            s = (const vec *)(rows[t] + i);
            a += weight[t] * s[0];
            b += weight[t] * s[1];
            c += weight[t] * s[2];
            d += weight[t] * s[3];
        }
        vec *to = (vec *)(dst + i);
        to[0] = a;
        to[1] = b;
        to[2] = c;
        to[3] = d;
    }
}

/* Planes to pixels of four floats; up to three past n. */
static inline __attribute__((always_inline)) void interleave(float *dst, const float *r,
                                                             const float *g, const float *b, int n)
{
    const pixel4 zero = { 0 };
    for (int i = 0; i < n; i += 4) {
        pixel4 x = *(const pixel4 *)(r + i), y = *(const pixel4 *)(g + i);
        pixel4 z = *(const pixel4 *)(b + i), *to = (pixel4 *)dst + i;
        pixel4 xy = __builtin_shufflevector(x, y, 0, 4, 1, 5);
        pixel4 z0 = __builtin_shufflevector(z, zero, 0, 4, 1, 5);
        to[0] = __builtin_shufflevector(xy, z0, 0, 1, 4, 5);
        to[1] = __builtin_shufflevector(xy, z0, 2, 3, 6, 7);
        xy = __builtin_shufflevector(x, y, 2, 6, 3, 7);
        z0 = __builtin_shufflevector(z, zero, 2, 6, 3, 7);
        to[2] = __builtin_shufflevector(xy, z0, 0, 1, 4, 5);
        to[3] = __builtin_shufflevector(xy, z0, 2, 3, 6, 7);
    }
}

/* Computes two outputs at a time; the last may be computed twice. The next output overwrites the
 * fourth lane of an output; the last one's lies in the padding. */
static inline __attribute__((always_inline)) void mix_pixels(float *dst, const float *pixels,
                                                             const taps *x, int n)
{
    for (int i = 0; i < n; i += 2) {
        int j = i + 1 < n ? i + 1 : i;
        const pixel4 *s = (const pixel4 *)pixels + x->first[i];
        const pixel4 *u = (const pixel4 *)pixels + x->first[j];
        const float *v = x->weight + (size_t)i * (size_t)x->n;
        const float *w = x->weight + (size_t)j * (size_t)x->n;
        pixel4 a = { 0 }, b = { 0 };
        for (int t = 0; t < x->n; t++) {
            a += s[t] * v[t];
            b += u[t] * w[t];
        }
        *(pixel4 *)(dst + (size_t)i * 3) = a;
        *(pixel4 *)(dst + (size_t)j * 3) = b;
    }
}

static inline __attribute__((always_inline)) void round_row(uint8_t *restrict dst,
                                                            const float *restrict row, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float v = row[i] + 0.5f;
        dst[i] = (uint8_t)(int)(v < 255.f ? v : 255.f);
    }
}

static inline __attribute__((always_inline)) void resize_rows(resize *r, uint8_t *dst,
                                                              float *dst_f32, resize_row *source,
                                                              void *arg)
{
    size_t n = (size_t)r->out_w * 3;
    int have = r->y.first[0];
    for (int y = 0; y < r->out_h; y++) {
        const float *weight = r->y.weight + (size_t)y * (size_t)r->y.n;
        int first = r->y.first[y], count = r->y.n;
        while (count > 1 && weight[count - 1] == 0)
            count--;
        for (; have < first + count; have++) {
            float *to = slot(r, have);
            source(arg, have, to, to + r->plane, to + 2 * r->plane);
        }
        for (int c = 0; c < 3; c++) {
            for (int t = 0; t < count; t++)
                r->rows[t] = slot(r, first + t) + (size_t)c * r->plane + r->col0;
            mix_plane(r->mixed + (size_t)c * r->plane, r->rows, weight, count, r->cols);
        }
        interleave(r->pixels, r->mixed, r->mixed + r->plane, r->mixed + 2 * r->plane, r->cols);
        mix_pixels(r->row, r->pixels, &r->x, r->out_w);
        if (dst_f32)
            memcpy(dst_f32 + (size_t)y * n, r->row, n * sizeof *dst_f32);
        else
            round_row(dst + (size_t)y * n, r->row, n);
    }
}

static inline __attribute__((always_inline)) void unpack(const packed *p, int y, float *restrict r,
                                                         float *restrict g, float *restrict b)
{
    const uint8_t *restrict s = p->data + y * p->stride;
    for (int x = 0; x < p->w; x++) {
        r[x] = s[3 * x];
        g[x] = s[3 * x + 1];
        b[x] = s[3 * x + 2];
    }
}

static void kernel_plain(resize *r, uint8_t *dst, float *dst_f32, resize_row *source, void *arg)
{
    resize_rows(r, dst, dst_f32, source, arg);
}

static void unpack_plain(void *arg, int y, float *r, float *g, float *b)
{
    unpack(arg, y, r, g, b);
}

#ifdef __x86_64__
static __attribute__((target("avx2"))) void kernel_avx2(resize *r, uint8_t *dst, float *dst_f32,
                                                        resize_row *source, void *arg)
{
    resize_rows(r, dst, dst_f32, source, arg);
}

static __attribute__((target("avx2"))) void unpack_avx2(void *arg, int y, float *r, float *g,
                                                        float *b)
{
    unpack(arg, y, r, g, b);
}
#endif

static void pick_kernel(resize *r)
{
    r->kernel = kernel_plain;
    r->unpack = unpack_plain;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        r->kernel = kernel_avx2;
        r->unpack = unpack_avx2;
    }
#endif
}

/* Writes the weights of output i of in -> out at w (room for 2 * max(in/out, 1) + 2 of them),
 * leaving out zeros at the ends; returns their count and the first source in *first. */
static int axis_taps(float *w, int *first, int in, int out, int i)
{
    double scale = (double)in / out, r = fmax(scale, 1), centre = (i + 0.5) * scale;
    int lo = (int)fmax(0, trunc(centre - r + 0.5));
    int hi = (int)fmin(in, trunc(centre + r + 0.5));
    double sum = 0;

    while (lo < hi - 1 && fabs(lo + 0.5 - centre) >= r)
        lo++;
    while (lo < hi - 1 && fabs(hi - 0.5 - centre) >= r)
        hi--;
    for (int j = lo; j < hi; j++)
        sum += fmax(0, 1 - fabs(j + 0.5 - centre) / r);
    for (int j = lo; j < hi; j++)
        w[j - lo] = (float)(fmax(0, 1 - fabs(j + 0.5 - centre) / r) / sum);
    *first = lo;
    return hi - lo;
}

/* Weights of outputs from..from+count-1. Each has the same number of taps, since a loop of constant
 * length is much faster. */
static int taps_make(taps *t, int in, int out, int from, int count)
{
    size_t most = 2 * (size_t)fmax(1, (double)in / out) + 4, n = (size_t)count;
    float *w = malloc(most * sizeof *w);
    int *number = calloc(n, sizeof *number);
    t->first = calloc(n, sizeof *t->first);
    for (int i = 0; w && number && t->first && i < count; i++) {
        number[i] = axis_taps(w, &t->first[i], in, out, from + i);
        t->n = number[i] > t->n ? number[i] : t->n;
    }
    t->weight = t->n ? calloc(n * (size_t)t->n, sizeof *t->weight) : NULL;
    for (int i = 0; t->weight && i < count; i++) {
        int first = t->first[i];
        axis_taps(w, &first, in, out, from + i);
        t->first[i] = first < in - t->n ? first : in - t->n;
        memcpy(t->weight + (size_t)i * (size_t)t->n + (first - t->first[i]), w,
               (size_t)number[i] * sizeof *w);
    }
    free(number);
    free(w);
    return t->weight ? 0 : -1;
}

static void taps_free(taps *t)
{
    free(t->first);
    free(t->weight);
}

/* Allocates rows of w source columns, after r->x and r->y are filled. */
static int rows_make(resize *r, int w)
{
    int last = r->out_w - 1;
    r->col0 = r->x.first[0];
    r->cols = r->x.first[last] + r->x.n - r->col0;
    for (int i = 0; i < r->out_w; i++)
        r->x.first[i] -= r->col0;
    r->plane = (size_t)w + BLOCK;
    r->ring = calloc((size_t)r->y.n * 3 * r->plane, sizeof *r->ring);
    r->rows = calloc((size_t)r->y.n, sizeof *r->rows);
    r->mixed = calloc(3 * r->plane, sizeof *r->mixed);
    r->pixels = calloc(4 * r->plane, sizeof *r->pixels);
    r->row = calloc((size_t)r->out_w * 3 + 1, sizeof *r->row);
    return r->ring && r->rows && r->mixed && r->pixels && r->row ? 0 : -1;
}

static int check(int h, int w, int rh, int rw, int top, int left, int out_h, int out_w, vc_err *err)
{
    const int side[] = { h, w, rh, rw, out_h, out_w };
    for (size_t i = 0; i < sizeof side / sizeof *side; i++)
        if (side[i] < 1 || side[i] > RESIZE_MAX_SIDE)
            return vc_fail(err, VC_EINVAL, "resize: a side of %d pixels (allowed: 1 to %d)",
                           side[i], RESIZE_MAX_SIDE);
    if (top < 0 || left < 0 || top > rh - out_h || left > rw - out_w)
        return vc_fail(err, VC_EINVAL, "resize: %dx%d at row %d, column %d leaves %dx%d", out_w,
                       out_h, top, left, rw, rh);
    return 0;
}

int resize_open(resize **out, int h, int w, int rh, int rw, int top, int left, int out_h,
                int out_w, vc_err *err)
{
    *out = NULL;
    int rc = check(h, w, rh, rw, top, left, out_h, out_w, err);
    if (rc)
        return rc;

    resize *r = calloc(1, sizeof *r);
    if (!r)
        return vc_fail(err, VC_ENOMEM, "resize: out of memory");
    r->out_h = out_h;
    r->out_w = out_w;
    pick_kernel(r);
    if (taps_make(&r->y, h, rh, top, out_h) || taps_make(&r->x, w, rw, left, out_w) ||
        rows_make(r, w)) {
        resize_close(r);
        return vc_fail(err, VC_ENOMEM, "resize: out of memory for %dx%d to %dx%d", w, h, rw, rh);
    }
    r->w = w;
    *out = r;
    return 0;
}

void resize_run_rows(resize *r, uint8_t *dst, resize_row *source, void *arg)
{
    r->kernel(r, dst, NULL, source, arg);
}

void resize_run(resize *r, uint8_t *dst, const uint8_t *src, int64_t stride)
{
    r->kernel(r, dst, NULL, r->unpack, &(packed){ src, stride, r->w });
}

void resize_run_f32(resize *r, float *dst, const uint8_t *src, int64_t stride)
{
    r->kernel(r, NULL, dst, r->unpack, &(packed){ src, stride, r->w });
}

void resize_close(resize *r)
{
    if (!r)
        return;
    taps_free(&r->x);
    taps_free(&r->y);
    free(r->ring);
    free(r->rows);
    free(r->mixed);
    free(r->pixels);
    free(r->row);
    free(r);
}

/* ---- without low-pass ---- */

/* The two source places around output i of a side in -> out, and the share of the second. */
typedef struct between {
    int lo, hi;
    float t;
} between;

static between between_of(int i, int in, int out)
{
    double at = (i + 0.5) * ((double)in / out) - 0.5;
    int lo = (int)floor(at);

    if (lo < 0)
        return (between){ 0, 0, 0 };
    if (lo >= in - 1)
        return (between){ in - 1, in - 1, 0 };
    return (between){ lo, lo + 1, (float)(at - lo) };
}

void resize_bilinear(uint8_t *dst, int oh, int ow, const uint8_t *src, int h, int w,
                     int64_t stride)
{
    for (int y = 0; y < oh; y++) {
        const between v = between_of(y, h, oh);
        const uint8_t *a = src + v.lo * stride, *b = src + v.hi * stride;
        for (int x = 0; x < ow; x++, dst += 3) {
            const between u = between_of(x, w, ow);
            for (int c = 0; c < 3; c++) {
                float top = a[3 * u.lo + c] + u.t * (float)(a[3 * u.hi + c] - a[3 * u.lo + c]);
                float low = b[3 * u.lo + c] + u.t * (float)(b[3 * u.hi + c] - b[3 * u.lo + c]);
                dst[c] = (uint8_t)(top + v.t * (low - top) + 0.5f);
            }
        }
    }
}
