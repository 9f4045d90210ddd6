/* pillow.c - see pillow.h
 *
 * Pillow resizes columns first, then rows. Each pass sums in fixed point and rounds to bytes. */
#include "precompute/pictures/pillow.h"

#include <math.h>
#include <stdlib.h>

enum { PRECISION = 22 };                          /* bits behind the point of a weight */

/* Keys 1981, with a = -0.5. */
static double bicubic(double x)
{
    const double a = -0.5;

    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static double sinc(double x)
{
    x *= 3.14159265358979323846;
    return x ? sin(x) / x : 1;
}

/* Lanczos' filter of three lobes. */
static double lanczos(double x)
{
    return -3 <= x && x < 3 ? sinc(x) * sinc(x / 3) : 0;
}

typedef struct kernel {
    double (*of)(double x);
    double support;
} kernel;

static const kernel kernels[] = { [PILLOW_BICUBIC] = { bicubic, 2 },
                                  [PILLOW_LANCZOS] = { lanczos, 3 } };

/* The weights of output pixel i: *n of them, from input pixel *from on. */
static void weights_of(const pillow_axis *a, const kernel *k, int i, int32_t *weight,
                       double *exact, int *from, int *n)
{
    const double scale = (double)a->in / a->out, wide = scale < 1 ? 1 : scale;
    const double support = k->support * wide, centre = (i + 0.5) * scale;
    int begin = (int)(centre - support + 0.5), end = (int)(centre + support + 0.5);
    double sum = 0;

    begin = begin < 0 ? 0 : begin;
    end = end > a->in ? a->in : end;
    for (int j = begin; j < end; j++)
        sum += exact[j - begin] = k->of((j - centre + 0.5) * (1 / wide));
    for (int j = 0; j < end - begin; j++) {
        double w = exact[j] / sum * (1 << PRECISION);
        weight[j] = (int32_t)(w < 0 ? w - 0.5 : w + 0.5);
    }
    *from = begin;
    *n = end - begin;
}

/* One pass: `lines` lines whose pixels are `step` bytes apart. Line i begins at byte
 * i / group * stride + i % group, with strides from[0] in src and from[1] in dst. */
static int pass(uint8_t *dst, const uint8_t *src, const pillow_axis *a, const kernel *by,
                size_t lines, size_t group, const size_t stride[2], size_t step, vc_err *err)
{
    const size_t most = (size_t)a->in < 16 ? 16 : (size_t)a->in;
    int32_t *weight = malloc(most * sizeof *weight);
    double *exact = malloc(most * sizeof *exact);
    int from, n;

    for (int i = 0; weight && exact && i < a->n; i++) {
        weights_of(a, by, a->first + i, weight, exact, &from, &n);
        for (size_t line = 0; line < lines; line++) {
            const uint8_t *s = src + line / group * stride[0] + line % group + (size_t)from * step;
            int64_t sum = 1 << (PRECISION - 1);
            for (int k = 0; k < n; k++)
                sum += (int64_t)weight[k] * s[(size_t)k * step];
            sum >>= PRECISION;
            dst[line / group * stride[1] + line % group + (size_t)i * step] =
                (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
        }
    }
    int rc = weight && exact ? 0 : vc_no_memory(err);
    free(weight);
    free(exact);
    return rc;
}

int pillow_resize(uint8_t *out, const uint8_t *rgb, const pillow_axis *y, const pillow_axis *x,
                  pillow_filter filter, vc_err *err)
{
    const kernel *by = &kernels[filter];
    const size_t row = 3 * (size_t)x->n, wide_row = 3 * (size_t)x->in, h = (size_t)y->in;
    uint8_t *wide = malloc(h * row);
    int rc = wide ? 0 : vc_no_memory(err);

    if (!rc)
        rc = pass(wide, rgb, x, by, 3 * h, 3, (size_t[]){ wide_row, row }, 3, err);
    if (!rc)
        rc = pass(out, wide, y, by, row, row, (size_t[]){ 0, 0 }, row, err);
    free(wide);
    return rc;
}
