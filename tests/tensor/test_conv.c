/* test_conv.c - convolution by every kernel set and by oneDNN, against f64 loops. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cpu/conv.h"
#include "common/cpu/dnnl.h"
#include "tests/tensor/kernels_dev.h"

typedef struct cv_case {
    int64_t x[5], k, kernel[3];               /* [N,T,H,W,C]; output channels; kernel's sizes */
    vt_conv c;
    vc_dtype t, w;
    bool bias;
} cv_case;
#define F VC_F32
#define H VC_BF16
/* With bf16 inputs the weights are exact in bf16, so that all sets multiply the same numbers. */
static const cv_case cv_cases[] = {
    { { 1, 1, 1, 1, 1 }, 1, { 1, 1, 1 }, { { 1, 1, 1 }, { 0 }, { 0 }, NULL, { 0 } }, F, F, false },
    { { 1, 1, 5, 7, 3 }, 8, { 1, 3, 3 },
      { { 1, 1, 1 }, { 0, 1, 1 }, { 0, 1, 1 }, NULL, { 0 } }, F, F, true },
    { { 1, 1, 6, 5, 3 }, 8, { 1, 3, 3 },
      { { 1, 1, 1 }, { 0, 0, 1 }, { 0, 2, 1 }, NULL, { 0 } }, F, F, true },
    { { 2, 3, 4, 5, 16 }, 17, { 3, 3, 3 },
      { { 1, 1, 1 }, { 2, 1, 1 }, { 0, 1, 1 }, NULL, { 0 } }, F, H, true },
    { { 1, 1, 9, 8, 7 }, 33, { 1, 3, 3 },
      { { 1, 2, 2 }, { 0, 0, 0 }, { 0, 1, 1 }, NULL, { 0 } }, F, F, true },
    { { 1, 5, 3, 3, 4 }, 5, { 3, 1, 1 }, { { 2, 1, 1 }, { 0 }, { 0 }, NULL, { 0 } }, F, VC_F16,
      false },
    { { 1, 2, 6, 6, 32 }, 3, { 1, 1, 1 }, { { 1, 1, 1 }, { 0 }, { 0 }, NULL, { 0 } }, F, F, true },
    { { 1, 1, 4, 4, 2 }, 2, { 1, 5, 5 },
      { { 1, 3, 3 }, { 0, 4, 4 }, { 0, 3, 3 }, NULL, { 0 } }, F, F, true },
    { { 1, 3, 5, 35, 20 }, 40, { 3, 3, 3 },
      { { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 }, NULL, { 0 } }, H, H, true },
    { { 1, 1, 7, 9, 3 }, 9, { 1, 3, 3 },
      { { 1, 2, 2 }, { 0, 1, 1 }, { 0, 1, 1 }, NULL, { 0 } }, H, H, false },
    { { 2, 1, 7, 9, 6 }, 70,
      { 1, 3, 3 }, { { 1, 2, 2 }, { 0, 1, 1 }, { 0, 1, 1 }, NULL, { 0 } }, H, VC_F8E5M2, 1 },
    { { 1, 3, 5, 35, 20 }, 40, { 3, 3, 3 },
      { { 1, 1, 1 }, { 2, 1, 1 }, { 0, 1, 1 }, NULL, { 1, 1, 1 } }, H, H, true },
    { { 2, 4, 5, 3, 7 }, 9, { 3, 3, 3 },
      { { 1, 2, 1 }, { 1, 2, 3 }, { 1, 0, 2 }, NULL, { 1, 1, 1 } }, F, F, true },
    { { 1, 1, 6, 9, 6 }, 34, { 1, 3, 3 },
      { { 1, 2, 2 }, { 0, 1, 1 }, { 0, 1, 1 }, NULL, { 0, 0, 1 } }, H, H, false },
    { { 1, 9, 3, 4, 3 }, 20, { 3, 3, 3 },
      { { 2, 1, 1 }, { 1, 1, 1 }, { 2, 1, 1 }, NULL, { 1, 0, 0 } }, F, F, true },
    { { 1, 9, 3, 4, 24 }, 20, { 3, 3, 3 },
      { { 2, 1, 1 }, { 2, 1, 1 }, { 1, 1, 1 }, NULL, { 1, 0, 0 } }, F, F, true },
    /* stills: the kernel's frames are summed */
    { { 1, 1, 5, 7, 12 }, 9, { 3, 3, 3 },
      { { 1, 1, 1 }, { 2, 1, 1 }, { 0, 1, 1 }, NULL, { 0 } }, F, F, true },
    { { 1, 1, 6, 5, 18 }, 7, { 3, 3, 3 },
      { { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 }, NULL, { 0 } }, F, VC_F16, true },
    { { 2, 1, 6, 5, 7 }, 33, { 3, 3, 3 },
      { { 2, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 }, NULL, { 1, 0, 0 } }, F, H, true },
    { { 1, 1, 5, 6, 20 }, 34, { 3, 1, 1 },
      { { 2, 1, 1 }, { 2, 0, 0 }, { 0, 0, 0 }, NULL, { 1, 0, 0 } }, H, H, true },
    { { 1, 1, 5, 6, 24 }, 34, { 3, 3, 3 },
      { { 1, 1, 1 }, { 2, 1, 1 }, { 0, 1, 1 }, NULL, { 1, 0, 0 } }, H, H, true },
    /* too small for Winograd's transforms */
    { { 1, 3, 9, 11, 32 }, 40, { 3, 3, 3 },
      { { 1, 1, 1 }, { 2, 1, 1 }, { 0, 1, 1 }, NULL, { 0 } }, F, F, true },
};
/* Winograd's transforms compute these, except with AMX: stills; pairs of frames and a single one;
 * a stride in time; several strips along a row. */
static const cv_case winograd_cases[] = {
    { { 1, 1, 24, 26, 32 }, 40, { 3, 3, 3 },
      { { 1, 1, 1 }, { 2, 1, 1 }, { 0, 1, 1 }, NULL, { 1, 0, 0 } }, F, F, true },
    { { 1, 1, 24, 26, 34 }, 40, { 3, 3, 3 },
      { { 1, 1, 1 }, { 2, 1, 1 }, { 0, 1, 1 }, NULL, { 0 } }, F, H, true },
    { { 1, 3, 22, 23, 40 }, 36, { 3, 3, 3 },
      { { 1, 1, 1 }, { 2, 1, 1 }, { 0, 1, 1 }, NULL, { 0 } }, F, F, true },
    { { 2, 3, 20, 18, 36 }, 50, { 3, 3, 3 },
      { { 1, 1, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, NULL, { 1, 1, 1 } }, F, VC_F16, true },
    { { 1, 5, 24, 25, 33 }, 34, { 3, 3, 3 },
      { { 2, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 }, NULL, { 0 } }, F, F, false },
    { { 1, 1, 9, 150, 33 }, 48, { 1, 3, 3 },
      { { 1, 1, 1 }, { 0, 0, 0 }, { 0, 0, 0 }, NULL, { 0, 0, 0 } }, F, F, true },
    { { 1, 1, 9, 151, 33 }, 48, { 1, 3, 3 },
      { { 1, 1, 1 }, { 0, 1, 1 }, { 0, 1, 1 }, NULL, { 0, 1, 1 } }, F, F, true },
    /* in bf16; output channels in two slabs, input channels in two steps */
    { { 1, 2, 32, 31, 64 }, 64, { 3, 3, 3 },
      { { 1, 1, 1 }, { 2, 1, 1 }, { 0, 1, 1 }, NULL, { 0 } }, H, H, true },
    { { 1, 1, 48, 47, 128 }, 130, { 1, 3, 3 },
      { { 1, 1, 1 }, { 0, 1, 1 }, { 0, 1, 1 }, NULL, { 0 } }, H, H, false },
    { { 1, 1, 20, 20, 300 }, 140, { 1, 3, 3 },
      { { 1, 1, 1 }, { 0, 1, 1 }, { 0, 1, 1 }, NULL, { 0 } }, F, F, true },
};
#undef F
#undef H

/* Returns i, or the element that padding by the edge reads instead. */
static int64_t cv_edge(int64_t i, int64_t n, bool edge)
{
    return !edge ? i : i < 0 ? 0 : i < n ? i : n - 1;
}

/* Adds the sizes of the products to *size. A place of the padding counts as the mean of products,
 * because the sums of Winograd's transforms have all inputs of a tile, also for an output at the
 * edge. */
static double cv_at(const cv_case *c, const float *x, const float *w, const int64_t o[5],
                    double *size)
{
    double sum = 0;

    for (int64_t kt = 0; kt < c->kernel[0]; kt++)
        for (int64_t kh = 0; kh < c->kernel[1]; kh++)
            for (int64_t kw = 0; kw < c->kernel[2]; kw++) {
                int64_t t = o[1] * c->c.stride[0] + kt - c->c.before[0];
                int64_t h = o[2] * c->c.stride[1] + kh - c->c.before[1];
                int64_t v = o[3] * c->c.stride[2] + kw - c->c.before[2];
                t = cv_edge(t, c->x[1], c->c.edge[0]);
                h = cv_edge(h, c->x[2], c->c.edge[1]);
                v = cv_edge(v, c->x[3], c->c.edge[2]);
                if (t < 0 || h < 0 || v < 0 || t >= c->x[1] || h >= c->x[2] || v >= c->x[3]) {
                    *size += 0.25 * (double)c->x[4];
                    continue;
                }
                for (int64_t ch = 0; ch < c->x[4]; ch++) {
                    int64_t wi = (((o[4] * c->x[4] + ch) * c->kernel[0] + kt) * c->kernel[1] + kh) *
                                     c->kernel[2] + kw;
                    int64_t xi =
                        (((o[0] * c->x[1] + t) * c->x[2] + h) * c->x[3] + v) * c->x[4] + ch;
                    sum += (double)w[wi] * x[xi];
                    *size += fabs(w[wi] * x[xi]);
                }
            }
    return sum;
}

static void cv_check_choice(const char *set, const kd_dev *d, const cv_case *c, size_t row,
                            bool winograd, vt_tensor *y, const vt_tensor *x, const vt_tensor *w)
{
    cpu_conv v = { .d = d->dev, .g = cpu_gemm_of(d->dev, c->t), .y = y, .x = x, .w = w,
                   .c = &c->c };
    vt_conv plane;

    cpu_conv_sizes(&v, &plane);
    if (cpu_winograd_suits(&v) != (winograd && v.g->kr == 1))
        fail_msg("%s, row %zu: Winograd's transforms are chosen: %d", set, row, !winograd);
}

typedef struct cv_data { vt_tensor *x, *y, *w, *b; } cv_data;

static cv_data cv_make(const cv_case *c)
{
    kd_rng r = { 13 };
    int64_t yd[5] = { c->x[0], 0, 0, 0, c->k };
    cv_data t = { 0 };

    for (int i = 0; i < 3; i++)
        yd[i + 1] =
            (c->x[i + 1] + c->c.before[i] + c->c.after[i] - c->kernel[i]) / c->c.stride[i] + 1;
    t.x = kd_tensor(&r, c->t, 5, c->x, 0, NULL);
    t.y = kd_tensor(&r, c->t, 5, yd, 0, NULL);
    t.b = c->bias ? kd_tensor(&r, c->w, 1, &c->k, 0, NULL) : NULL;
    t.w = kd_tensor(&r, c->w, 5, (int64_t[]){ c->k, c->x[4], c->kernel[0], c->kernel[1],
                                              c->kernel[2] }, 0, NULL);
    return t;
}

static void cv_free(const cv_data *t)
{
    kd_free(t->x), kd_free(t->y), kd_free(t->w), kd_free(t->b);
}

typedef struct cv_sum {
    double sum, size;
} cv_sum;

/* Returns the sums of every step-th output, with their bias; the caller frees them. */
static cv_sum *cv_sums(const cv_case *c, const cv_data *t, int64_t step)
{
    const vt_tensor *y = t->y;
    float *x = kd_floats(t->x), *w = kd_floats(t->w);
    cv_sum *of = calloc((size_t)(vt_count(y) / step + 1), sizeof *of);
    assert_non_null(of);
    for (int64_t i = 0; i < vt_count(y); i += step) {
        int64_t o[5], rest = i;
        for (int k = 4; k >= 0; k--) {
            o[k] = rest % y->dim[k];
            rest /= y->dim[k];
        }
        cv_sum *s = &of[i / step];
        s->size = 1;
        s->sum = cv_at(c, x, w, o, &s->size) + (t->b ? kd_at(t->b, o[4], 0, 0, 0) : 0);
    }
    free(x);
    free(w);
    return of;
}

/* With `dnnl` oneDNN must compute the case if it can; without, the device chooses. Of many outputs
 * every 41st is compared. */
static void cv_check(const char *set, const kd_dev *d, const cv_case *c, size_t row, bool winograd,
                     bool dnnl)
{
    cv_data t = cv_make(c);
    const int64_t all = vt_count(t.y), step = all > 20000 ? 41 : 1;
    cv_sum *sums_of = cv_sums(c, &t, step);
    /* a still's summed weights are rounded to bf16 */
    double sums = d->bf16 && c->t == VC_BF16 && c->x[1] < c->kernel[0] ? 0x1p-9 : 5e-7;

    cv_check_choice(set, d, c, row, winograd, t.y, t.x, t.w);
    for (int again = 0; again < 2; again++) { /* the second run uses the cached primitive */
        kd_fill(t.y, NAN);
        bool edges = c->c.edge[0] || c->c.edge[1] || c->c.edge[2];
        bool done = dnnl && !edges && cpu_dnnl_conv3d(d->dev, t.y, t.x, t.w, t.b, &c->c);
        if (dnnl && !edges && d->dev->dnnl && c->t == VC_F32 && !done)
            fail_msg("%s, row %zu: oneDNN did not compute it", set, row);
        if (!done)
            d->be->conv3d(d->dev, t.y, t.x, t.w, t.b, &c->c);
        for (int64_t i = 0; i < all; i += step) {
            const double want = sums_of[i / step].sum, size = sums_of[i / step].size;
            float got;
            vc_to_f32(&got, (char *)t.y->data + (size_t)i * vc_dtype_size(c->t), c->t, 1);
            if (!(fabs(got - want) <= sums * size + kd_half_step(c->t) * fabs(want)))
                fail_msg("%s, row %zu: y[%d] is %.9g, not %.9g", set, row, (int)i, got, want);
        }
    }
    free(sums_of);
    cv_free(&t);
}

TEST(convolution_against_f64)
{
    (void)state;
    EACH_SET(s)
        for (int dnnl = 0; dnnl < 2; dnnl++) {
            kd_dev d = kd_open(*s, 2);
            cpu_dnnl *kept = d.dev->dnnl;
            if (!dnnl)                        /* as in a build without oneDNN */
                d.dev->dnnl = NULL;
            for (size_t i = 0; i < COUNT(cv_cases); i++)
                cv_check(*s, &d, &cv_cases[i], i, false, dnnl);
            d.dev->dnnl = kept;
            kd_close(&d);
        }
}

TEST(winograd_against_f64)
{
    (void)state;
    EACH_SET(s) {
        kd_dev d = kd_open(*s, 2);
        for (size_t i = 0; i < COUNT(winograd_cases); i++)
            cv_check(*s, &d, &winograd_cases[i], i, true, false);
        kd_close(&d);
    }
}

TEST(winograd_same_bits_for_any_threads)
{
    (void)state;
    EACH_SET(s)
        for (size_t i = 0; i < COUNT(winograd_cases); i++) {
            const cv_case *c = &winograd_cases[i];
            cv_data one = cv_make(c), many = cv_make(c);
            for (int threads = 1; threads < 6; threads += 2) {
                kd_dev d = kd_open(*s, threads);
                vt_tensor *y = threads == 1 ? one.y : many.y;
                d.be->conv3d(d.dev, y, one.x, one.w, one.b, &c->c);
                kd_close(&d);
                if (memcmp(one.y->data, y->data, kd_bytes(y)))
                    fail_msg("%s, row %zu: other bits with %d threads", *s, i, threads);
            }
            cv_free(&one), cv_free(&many);
        }
}

/* Frames in front of the input give the result of frames inside the input. In f32 the results
 * may differ by the order of the sum of 27 C products of size 1, by 27 C * 2^-24: on some machines
 * oneDNN computes the frames that do not read the front. */
static void cv_front(const char *set, const kd_dev *d, vc_dtype t, bool one, int64_t C)
{
    enum { T = 4, H = 7, W = 9, N = H * W };
    const int64_t K = C + 8;
    kd_rng r = { 17 };
    vt_conv c = { { 1, 1, 1 }, { 2, 1, 1 }, { 0, 1, 1 }, NULL, { 0 } }, whole = c;
    vt_tensor *all = kd_tensor(&r, t, 5, (int64_t[]){ 1, T + 2, H, W, C }, 0, NULL);
    vt_tensor *y = kd_tensor(&r, t, 5, (int64_t[]){ 1, T, H, W, K }, 0, NULL);
    vt_tensor *want = kd_tensor(&r, t, 5, (int64_t[]){ 1, T, H, W, K }, 0, NULL);
    vt_tensor *w = kd_tensor(&r, VC_BF16, 5, (int64_t[]){ K, C, 3, 3, 3 }, 0, NULL);
    size_t frame = (size_t)(N * C) * vc_dtype_size(t);

    if (one)
        memcpy((char *)all->data + frame, all->data, frame);
    vt_tensor front = *all, x = *all;
    front.dim[1] = one ? 1 : 2;
    x.dim[1] = T;
    x.data = (char *)x.data + 2 * frame;
    c.front = &front;
    whole.before[0] = 0;
    d->be->conv3d(d->dev, want, all, w, NULL, &whole);
    kd_fill(y, NAN);
    d->be->conv3d(d->dev, y, &x, w, NULL, &c);
    for (int64_t i = 0; i < vt_count(y); i++) {
        float a, b;
        vc_to_f32(&a, (char *)y->data + (size_t)i * vc_dtype_size(t), t, 1);
        vc_to_f32(&b, (char *)want->data + (size_t)i * vc_dtype_size(t), t, 1);
        if (!(fabsf(a - b) <= 1.7e-6f * (float)C + (t == VC_BF16 ? 0.01f * fabsf(b) : 0)))
            fail_msg("%s: y[%d] is %.9g, not %.9g", set, (int)i, (double)a, (double)b);
    }
    kd_free(all), kd_free(y), kd_free(want), kd_free(w);
}

TEST(convolution_reads_frames_in_front)
{
    (void)state;
    EACH_SET(s) {
        kd_dev d = kd_open(*s, 2);
        for (int i = 0; i < 8; i++)
            cv_front(*s, &d, i & 1 ? VC_BF16 : VC_F32, i & 2, i & 4 ? 32 : 12);
        kd_close(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolution_against_f64),
        cmocka_unit_test(winograd_against_f64),
        cmocka_unit_test(winograd_same_bits_for_any_threads),
        cmocka_unit_test(convolution_reads_frames_in_front),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
