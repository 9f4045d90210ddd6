/* test_peer_pixels.c - the pixels of --sampling peer: two resizes, results without rounding, black
 * lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "precompute/media/internal.h"
#include "tests/lib/ok.h"

static uint8_t *noise(int h, int w, uint64_t seed)
{
    size_t n = (size_t)h * (size_t)w * 3;
    uint8_t *p = malloc(n);
    vc_draws d = vc_draws_of(seed, 0, 0, 0);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)vc_draw_int(&d, 256);
    return p;
}

/* The sample of src at (y, x) by the definition, with repeated edges. */
static double sample(const uint8_t *src, int h, int w, double y, double x, int c)
{
    double fy = floor(y), fx = floor(x), sum = 0;
    for (int dy = 0; dy < 2; dy++)
        for (int dx = 0; dx < 2; dx++) {
            int sy = (int)fmin(fmax(fy + dy, 0), h - 1), sx = (int)fmin(fmax(fx + dx, 0), w - 1);
            double a = dy ? y - fy : 1 - (y - fy), b = dx ? x - fx : 1 - (x - fx);
            sum += a * b * src[(sy * w + sx) * 3 + c];
        }
    return sum;
}

static void test_bilinear(void **state)
{
    (void)state;
    static const struct { int h, w, oh, ow; } rows[] = {
        { 9, 13, 9, 13 }, { 40, 60, 17, 31 }, { 40, 60, 20, 30 }, { 5, 7, 11, 20 }, { 1, 1, 3, 4 },
        { 1, 9, 1, 2 }, { 100, 3, 7, 1 },
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const int h = rows[k].h, w = rows[k].w, oh = rows[k].oh, ow = rows[k].ow;
        uint8_t *src = noise(h, w, k), *dst = malloc((size_t)oh * (size_t)ow * 3);
        resize_bilinear(dst, oh, ow, src, h, w, 3 * w);
        for (int y = 0; y < oh; y++)
            for (int x = 0; x < ow; x++)
                for (int c = 0; c < 3; c++) {
                    double want = sample(src, h, w, (y + 0.5) * h / oh - 0.5,
                                         (x + 0.5) * w / ow - 0.5, c);
                    double got = dst[(y * ow + x) * 3 + c];
                    if (fabs(got - want) > 0.5 + 1e-3)      /* one rounding, and f32's error */
                        fail_msg("row %zu: %d,%d: %g, not %g", k, y, x, got, want);
                }
        free(src);
        free(dst);
    }
}

static void run(void *dst, const uint8_t *src, int h, int w, media_orient o, const media_fit *fit)
{
    media_pixels p = { 0 };
    vc_err err;
    assert_ok(media_pixels_rgb(&p, dst, src, h, w, 3 * w, o, fit, &err), &err);
    media_pixels_close(&p);
}

/* The exact values, rounded, are the bytes, in every orientation, flipped or not. */
static void test_exact(void **state)
{
    (void)state;
    const int h = 50, w = 70;
    uint8_t *src = noise(h, w, 1), bytes[16 * 24 * 3];
    float exact[16 * 24 * 3];
    media_pixels p = { 0 };                          /* reused: each case makes a new plan */
    vc_err err;

    for (int bits = 0; bits < 16; bits++) {
        media_orient o = { .transpose = bits & 1, .flip_y = bits >> 1 & 1,
                           .flip_x = bits >> 2 & 1 };
        media_fit fit = { .rh = 20, .rw = 30, .top = 2, .left = 3, .h = 16, .w = 24,
                          .flip = bits & 8 };
        assert_int_equal(media_pixels_rgb(&p, bytes, src, h, w, 3 * w, o, &fit, &err), 0);
        fit.exact = true;
        assert_int_equal(media_pixels_rgb(&p, exact, src, h, w, 3 * w, o, &fit, &err), 0);
        for (int i = 0; i < 16 * 24 * 3; i++)
            if (fabsf(exact[i] - bytes[i]) > 0.5f + 1e-3f)
                fail_msg("orientation %d, value %d: %g, %d", bits, i, (double)exact[i], bytes[i]);
    }
    media_pixels_close(&p);
    free(src);
}

/* A first resize makes the same pixels as a smaller source, and its size is in displayed
 * orientation. */
static void test_two_resizes(void **state)
{
    (void)state;
    const int h = 90, w = 120;
    uint8_t *src = noise(h, w, 2), small[30 * 40 * 3], got[16 * 16 * 3], want[16 * 16 * 3];
    uint8_t once[16 * 16 * 3];
    const media_orient plain = { 0 }, rotated = { .transpose = 1, .flip_x = 1 };
    media_fit fit = { .rh = 16, .rw = 21, .left = 2, .h = 16, .w = 16 };

    resize_bilinear(small, 30, 40, src, h, w, 3 * w);
    run(want, small, 30, 40, plain, &fit);
    run(once, src, h, w, plain, &fit);
    fit.load_h = 30;
    fit.load_w = 40;
    run(got, src, h, w, plain, &fit);
    assert_memory_equal(got, want, sizeof got);
    assert_memory_not_equal(got, once, sizeof got);

    media_fit tall = { .rh = 21, .rw = 16, .top = 2, .h = 16, .w = 16 };
    run(want, small, 30, 40, rotated, &tall);
    tall.load_h = 40;
    tall.load_w = 30;
    run(got, src, h, w, rotated, &tall);
    assert_memory_equal(got, want, sizeof got);
    free(src);
}

/* Of 480 rows the last is black, and the other 479 are those of a picture without this row. */
static void test_black_line(void **state)
{
    (void)state;
    const int h = 36, w = 62;
    uint8_t *src = noise(h, w, 3), part[15 * 20 * 3], whole[16 * 20 * 3], zero[20 * 3] = { 0 };
    float exact[16 * 20 * 3];
    media_fit fit = { .rh = 15, .rw = 26, .left = 3, .h = 15, .w = 20 };
    media_pixels p = { 0 };
    vc_err err;

    run(part, src, h, w, (media_orient){ 0 }, &fit);
    fit.h = 16;
    assert_int_equal(media_pixels_rgb(&p, whole, src, h, w, 3 * w, (media_orient){ 0 }, &fit, &err),
                     VC_EINVAL);                     /* refused unless asked for */
    media_pixels_close(&p);
    fit.black = true;
    run(whole, src, h, w, (media_orient){ 0 }, &fit);
    assert_memory_equal(whole, part, sizeof part);
    assert_memory_equal(whole + sizeof part, zero, sizeof zero);
    fit.exact = true;
    run(exact, src, h, w, (media_orient){ 0 }, &fit);
    for (int i = 0; i < 20 * 3; i++)
        assert_true(exact[15 * 20 * 3 + i] == 0);

    media_fit wide = { .rh = 26, .rw = 15, .top = 3, .h = 20, .w = 16, .black = true };
    uint8_t out[20 * 16 * 3];
    run(out, src, h, w, (media_orient){ 0 }, &wide);
    for (int y = 0; y < 20; y++)
        assert_memory_equal(out + (y * 16 + 15) * 3, zero, 3);
    wide.top = 30;
    assert_int_equal(media_pixels_rgb(&p, out, src, h, w, 3 * w, (media_orient){ 0 }, &wide, &err),
                     VC_EINVAL);
    media_pixels_close(&p);
    free(src);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bilinear),
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_two_resizes),
        cmocka_unit_test(test_black_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
