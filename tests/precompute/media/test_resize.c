/* test_resize.c - results of resize.h equal its definition, computed in f64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "precompute/media/resize.h"

typedef struct resize_case {
    const char *name;
    int h, w, rh, rw, top, left, out_h, out_w;
} resize_case;

static const resize_case cases[] = {
    { "identity", 9, 13, 9, 13, 0, 0, 9, 13 },
    { "half", 64, 48, 32, 24, 0, 0, 32, 24 },
    { "odd shrink", 101, 67, 37, 23, 0, 0, 37, 23 },
    { "enlarge", 7, 13, 31, 29, 0, 0, 31, 29 },
    { "mixed", 20, 90, 45, 31, 0, 0, 45, 31 },
    { "a little smaller", 50, 50, 49, 49, 0, 0, 49, 49 },
    { "window", 101, 67, 37, 23, 5, 3, 17, 19 },
    { "window, enlarged", 7, 13, 31, 29, 30, 28, 1, 1 },
    { "to one pixel", 33, 77, 1, 1, 0, 0, 1, 1 },
    { "from one pixel", 1, 1, 6, 5, 1, 1, 4, 3 },
    { "one row", 1, 300, 1, 77, 0, 10, 1, 60 },
    { "40 to 1", 400, 3, 10, 3, 0, 0, 10, 3 },
    { "1080p to 480p, a corner", 1080, 1920, 480, 853, 470, 840, 10, 13 },
};
enum { CASES = sizeof cases / sizeof *cases };

static uint8_t *noise(size_t n)
{
    uint8_t *p = malloc(n);
    assert_non_null(p);
    uint32_t x = 12345;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525 + 1013904223;
        p[i] = x >> 28 & 1 ? (uint8_t)(x >> 16) : x & 0x80000 ? 255 : 0;
    }
    return p;
}

/* The definition of resize.h on one axis: fills the weights of output i and returns its first
 * tap. */
static int axis(double *w, int *n, int in, int out, int i)
{
    double scale = (double)in / out, r = scale > 1 ? scale : 1, centre = (i + 0.5) * scale, sum = 0;
    int lo = (int)(centre - r + 0.5), hi = (int)(centre + r + 0.5);
    lo = lo < 0 ? 0 : lo;
    hi = hi > in ? in : hi;
    for (int j = lo; j < hi; j++) {
        double d = 1 - fabs(j + 0.5 - centre) / r;
        sum += w[j - lo] = d > 0 ? d : 0;
    }
    for (int j = lo; j < hi; j++)
        w[j - lo] /= sum;
    *n = hi - lo;
    return lo;
}

static double exact(const uint8_t *src, const resize_case *c, int y, int x, int channel)
{
    static double wy[4096], wx[4096];
    int ny, nx, y0 = axis(wy, &ny, c->h, c->rh, y), x0 = axis(wx, &nx, c->w, c->rw, x);
    double v = 0;
    for (int j = 0; j < ny; j++)
        for (int i = 0; i < nx; i++)
            v += wy[j] * wx[i] * src[((size_t)(y0 + j) * (size_t)c->w + (size_t)(x0 + i)) * 3 +
                                     (size_t)channel];
    return v;
}

static void check_case(const resize_case *c)
{
    enum { PAD = 5 };
    int64_t stride = c->w * 3 + PAD;
    uint8_t *packed = noise((size_t)c->h * (size_t)c->w * 3);
    uint8_t *src = malloc((size_t)stride * (size_t)c->h);
    uint8_t *u8 = malloc((size_t)c->out_h * (size_t)c->out_w * 3);
    float *f32 = malloc((size_t)c->out_h * (size_t)c->out_w * 3 * sizeof *f32);
    for (int y = 0; y < c->h; y++)
        memcpy(src + y * stride, packed + (size_t)y * (size_t)c->w * 3, (size_t)c->w * 3);

    resize *r;
    vc_err err = { 0 };
    assert_int_equal(resize_open(&r, c->h, c->w, c->rh, c->rw, c->top, c->left, c->out_h, c->out_w,
                                 &err), 0);
    resize_run(r, u8, src, stride);
    resize_run_f32(r, f32, src, stride);
    for (int y = 0; y < c->out_h; y++)
        for (int x = 0; x < c->out_w; x++)
            for (int k = 0; k < 3; k++) {
                size_t at = ((size_t)y * (size_t)c->out_w + (size_t)x) * 3 + (size_t)k;
                double v = exact(packed, c, c->top + y, c->left + x, k);
                /* f32 has 24 bits, and each axis rounds some ten times. */
                if (fabs(f32[at] - v) > 2e-4 || fabs(u8[at] - v) > 0.5 + 2e-4)
                    fail_msg("%s: (%d,%d,%d) is %g and %d, should be %g", c->name, y, x, k,
                             (double)f32[at], u8[at], v);
            }
    resize_close(r);
    free(packed);
    free(src);
    free(u8);
    free(f32);
}

static void test_values(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++)
        check_case(&cases[i]);
}

static uint8_t *run(const uint8_t *src, int h, int w, int rh, int rw, int top, int left, int out_h,
                    int out_w)
{
    resize *r;
    uint8_t *dst = malloc((size_t)out_h * (size_t)out_w * 3);
    assert_int_equal(resize_open(&r, h, w, rh, rw, top, left, out_h, out_w, NULL), 0);
    resize_run(r, dst, src, (int64_t)w * 3);
    resize_close(r);
    return dst;
}

static void test_identity(void **state)
{
    (void)state;
    uint8_t *src = noise(57 * 91 * 3), *dst = run(src, 57, 91, 57, 91, 0, 0, 57, 91);
    assert_memory_equal(dst, src, 57 * 91 * 3);
    free(src);
    free(dst);
}

/* The windows of one plan together equal the whole picture, bit for bit. */
static void test_windows(void **state)
{
    (void)state;
    enum { H = 131, W = 97, RH = 60, RW = 110 };
    uint8_t *src = noise(H * W * 3), *whole = run(src, H, W, RH, RW, 0, 0, RH, RW);
    for (int top = 0; top < RH; top += 13)
        for (int left = 0; left < RW; left += 37) {
            int h = RH - top < 13 ? RH - top : 13, w = RW - left < 37 ? RW - left : 37;
            uint8_t *part = run(src, H, W, RH, RW, top, left, h, w);
            for (int y = 0; y < h; y++)
                assert_memory_equal(part + (size_t)y * (size_t)w * 3,
                                    whole + ((size_t)(top + y) * RW + (size_t)left) * 3,
                                    (size_t)w * 3);
            free(part);
        }
    free(src);
    free(whole);
}

/* Results have the same bits on every machine, with any vector units: their f32 checksums match. */
static void test_golden(void **state)
{
    (void)state;
    static const struct { int h, w, rh, rw; uint64_t hash; } rows[] = {
        { 270, 480, 113, 201, UINT64_C(0xddbf30dd5e6f1a31) },
        { 100, 75, 333, 222, UINT64_C(0xdea429c5174ef4f3) },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int h = rows[i].h, w = rows[i].w, rh = rows[i].rh, rw = rows[i].rw;
        size_t n = (size_t)rh * (size_t)rw * 3 * sizeof(float);
        uint8_t *src = noise((size_t)h * (size_t)w * 3);
        float *dst = malloc(n);
        resize *r;
        assert_int_equal(resize_open(&r, h, w, rh, rw, 0, 0, rh, rw, NULL), 0);
        resize_run_f32(r, dst, src, (int64_t)w * 3);
        uint64_t hash = XXH3_64bits(dst, n);
        if (hash != rows[i].hash)
            fail_msg("row %zu: hash is 0x%016llx", i, (unsigned long long)hash);
        resize_close(r);
        free(src);
        free(dst);
    }
}

static void test_refuses(void **state)
{
    (void)state;
    static const resize_case bad[] = {
        { "no height", 0, 5, 5, 5, 0, 0, 5, 5 },
        { "negative", 5, -5, 5, 5, 0, 0, 5, 5 },
        { "no target", 5, 5, 0, 5, 0, 0, 1, 1 },
        { "no window", 5, 5, 5, 5, 0, 0, 0, 5 },
        { "above", 5, 5, 5, 5, -1, 0, 5, 5 },
        { "below", 5, 5, 5, 5, 1, 0, 5, 5 },
        { "right", 5, 5, 5, 5, 0, 3, 5, 3 },
        { "huge", 5, INT32_MAX, 5, 5, 0, 0, 5, 5 },
        { "overflow", 5, 5, 5, 5, INT32_MAX, INT32_MAX, 5, 5 },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const resize_case *c = &bad[i];
        resize *r = (resize *)(uintptr_t)1;
        vc_err err = { 0 };
        int rc = resize_open(&r, c->h, c->w, c->rh, c->rw, c->top, c->left, c->out_h, c->out_w,
                             &err);
        if (rc != VC_EINVAL || r || !*err.text)
            fail_msg("%s: rc %d, %s", c->name, rc, err.text);
    }
    resize_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),  cmocka_unit_test(test_identity),
        cmocka_unit_test(test_windows), cmocka_unit_test(test_golden),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
