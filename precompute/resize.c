/* resize.c - see resize.h
 *
 * Columns first: a weighted sum of whole source rows, which is contiguous and so vectorises as
 * plain C, over only the source columns that the rectangle needs. Then along the row, four
 * floats at a time: one pixel and a lane nobody reads. */
#include "precompute/resize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A fused multiply-add would round differently where a machine has one. */
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off")
#endif

typedef float pixel4 __attribute__((vector_size(16), aligned(4), may_alias));

/* Weights of the outputs of one axis: weight[at[i]..at[i+1]) go to source first[i], first[i]+1.. */
typedef struct taps {
    int *first;
    int *at;
    float *weight;
} taps;

typedef void resize_kernel(const resize *r, uint8_t *dst, float *dst_f32, const uint8_t *src,
                           int64_t stride);

struct resize {
    int out_h, out_w;
    int col0, cols;         /* the source columns that are needed */
    taps x, y;              /* x.first counts from col0 */
    float *mixed;           /* [cols * 3 + 1]: one output row before it is resized along x */
    float *row;             /* [out_w * 3 + 1] */
    resize_kernel *kernel;
};

/* acc[i] = sum over t of weight[t] * rows[t][i], summed in the order of t */
static inline __attribute__((always_inline)) void mix_rows(float *restrict acc,
                                                           const uint8_t *restrict s,
                                                           int64_t stride, const float *weight,
                                                           int n, int len)
{
    float a = weight[0];
    for (int i = 0; i < len; i++)
        acc[i] = a * (float)s[i];
    int t = 1;
    for (; t + 3 <= n; t += 3) {
        const uint8_t *restrict p = s + t * stride, *restrict q = p + stride;
        const uint8_t *restrict u = q + stride;
        float b = weight[t], c = weight[t + 1], d = weight[t + 2];
        for (int i = 0; i < len; i++)
            acc[i] = acc[i] + b * (float)p[i] + c * (float)q[i] + d * (float)u[i];
    }
    for (; t < n; t++) {
        const uint8_t *restrict p = s + t * stride;
        float b = weight[t];
        for (int i = 0; i < len; i++)
            acc[i] = acc[i] + b * (float)p[i];
    }
}

static inline __attribute__((always_inline)) void mix_columns(float *dst, const float *src,
                                                              const taps *x, int n)
{
    for (int i = 0; i < n; i++) {
        const float *s = src + (size_t)x->first[i] * 3;
        const float *w = x->weight + x->at[i];
        pixel4 acc = { 0 };
        for (int t = 0; t < x->at[i + 1] - x->at[i]; t++)
            acc += *(const pixel4 *)(s + (size_t)t * 3) * w[t];
        *(pixel4 *)(dst + (size_t)i * 3) = acc;  /* the fourth lane: overwritten next, or the pad */
    }
}

static inline __attribute__((always_inline)) void resize_rows(const resize *r, uint8_t *dst,
                                                              float *dst_f32, const uint8_t *src,
                                                              int64_t stride)
{
    size_t n = (size_t)r->out_w * 3;
    for (int y = 0; y < r->out_h; y++) {
        mix_rows(r->mixed, src + r->y.first[y] * stride + (size_t)r->col0 * 3, stride,
                 r->y.weight + r->y.at[y], r->y.at[y + 1] - r->y.at[y], r->cols * 3);
        mix_columns(r->row, r->mixed, &r->x, r->out_w);
        if (dst_f32) {
            memcpy(dst_f32 + (size_t)y * n, r->row, n * sizeof *dst_f32);
            continue;
        }
        const float *restrict row = r->row;
        uint8_t *restrict d = dst + (size_t)y * n;
        for (size_t i = 0; i < n; i++) {
            float v = row[i] + 0.5f;
            d[i] = (uint8_t)(int)(v < 255.f ? v : 255.f);
        }
    }
}

static void kernel_plain(const resize *r, uint8_t *dst, float *dst_f32, const uint8_t *src,
                         int64_t stride)
{
    resize_rows(r, dst, dst_f32, src, stride);
}

#ifdef __x86_64__
static __attribute__((target("avx2"))) void kernel_avx2(const resize *r, uint8_t *dst,
                                                        float *dst_f32, const uint8_t *src,
                                                        int64_t stride)
{
    resize_rows(r, dst, dst_f32, src, stride);
}
#endif

static resize_kernel *best_kernel(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        return kernel_avx2;
#endif
    return kernel_plain;
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

static int taps_make(taps *t, int in, int out, int from, int n)
{
    /* all outputs together take each source at most about twice, plus two at the ends of each */
    size_t per = 2 * (size_t)fmax(1, (double)in / out) + 4;
    t->first = calloc((size_t)n, sizeof *t->first);
    t->at = calloc((size_t)n + 1, sizeof *t->at);
    t->weight = calloc((size_t)n * per, sizeof *t->weight);
    if (!t->first || !t->at || !t->weight)
        return -1;
    for (int i = 0; i < n; i++)
        t->at[i + 1] = t->at[i] + axis_taps(t->weight + t->at[i], &t->first[i], in, out, from + i);
    return 0;
}

static void taps_free(taps *t)
{
    free(t->first);
    free(t->at);
    free(t->weight);
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
    r->kernel = best_kernel();
    if (!taps_make(&r->y, h, rh, top, out_h) && !taps_make(&r->x, w, rw, left, out_w)) {
        int last = out_w - 1;
        r->col0 = r->x.first[0];
        r->cols = r->x.first[last] + r->x.at[last + 1] - r->x.at[last] - r->col0;
        for (int i = 0; i < out_w; i++)
            r->x.first[i] -= r->col0;
        r->mixed = calloc((size_t)r->cols * 3 + 1, sizeof *r->mixed);
        r->row = calloc((size_t)out_w * 3 + 1, sizeof *r->row);
    }
    if (!r->mixed || !r->row) {
        resize_close(r);
        return vc_fail(err, VC_ENOMEM, "resize: out of memory for %dx%d to %dx%d", w, h, rw, rh);
    }
    *out = r;
    return 0;
}

void resize_run(resize *r, uint8_t *dst, const uint8_t *src, int64_t stride)
{
    r->kernel(r, dst, NULL, src, stride);
}

void resize_run_f32(resize *r, float *dst, const uint8_t *src, int64_t stride)
{
    r->kernel(r, NULL, dst, src, stride);
}

void resize_close(resize *r)
{
    if (!r)
        return;
    taps_free(&r->x);
    taps_free(&r->y);
    free(r->mixed);
    free(r->row);
    free(r);
}
