/* test_conditions.c - masks by given numbers, the odds of their draws, the latent grid of a mask
 * against a naive trilinear resize, masks written to plan lines and read again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/encode/conditions.h"
#include "tests/lib/mutate.h"
#include "tests/lib/ok.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- kinds ---- */

/* A mask as a plan line, the number of masked pixels in each of 5 frames of 16 x 32, and (frame, y,
 * x) of a masked pixel and of an unmasked one, or -1 where no such pixel exists. */
static const struct {
    const char *line;
    int masked[5];
    int in[3], out[3];
    bool all;
} cases[] = {
    { "{\"pick\":\"block\",\"numbers\":[10,8,6,4]}", { 24, 24, 24, 24, 24 }, { 4, 6, 7 },
      { 4, 10, 7 }, false },
    { "{\"pick\":\"block\",\"numbers\":[0,15,10,8]}", { 25, 25, 25, 25, 25 }, { 0, 15, 4 },
      { 0, 10, 4 }, false },
    { "{\"pick\":\"block\",\"numbers\":[16,8,40,20]}", { 512, 512, 512, 512, 512 }, { 0, 0, 0 },
      { -1, 0, 0 }, true },
    { "{\"pick\":\"all\",\"numbers\":[]}", { 512, 512, 512, 512, 512 }, { 0, 15, 31 }, { -1, 0, 0 },
      true },
    { "{\"pick\":\"keep_head\",\"numbers\":[2]}", { 0, 0, 512, 512, 512 }, { 2, 0, 0 }, { 1, 0, 0 },
      false },
    { "{\"pick\":\"keep_head\",\"numbers\":[9]}", { 0, 0, 0, 0, 0 }, { -1, 0, 0 }, { 4, 0, 0 },
      false },
    { "{\"pick\":\"keep_ends\",\"numbers\":[1]}", { 0, 512, 512, 512, 0 }, { 3, 0, 0 }, { 4, 0, 0 },
      false },
    { "{\"pick\":\"keep_ends\",\"numbers\":[3]}", { 0, 0, 0, 0, 0 }, { -1, 0, 0 }, { 2, 0, 0 },
      false },
    { "{\"pick\":\"block_in_time\",\"numbers\":[10,8,6,4,1,3]}", { 0, 24, 24, 0, 0 }, { 2, 9, 12 },
      { 3, 9, 12 }, false },
    { "{\"pick\":\"small_boxes\",\"numbers\":[3,2,4,14,28,0,1,1,0,0]}", { 1, 0, 0, 8, 0 },
      { 3, 15, 31 }, { 3, 13, 31 }, false },
    { "{\"pick\":\"ellipse\",\"numbers\":[10,8,4,2,1]}", { 21, 0, 0, 0, 0 }, { 0, 8, 13 },
      { 0, 8, 14 }, false },
    { "{\"pick\":\"ellipse\",\"numbers\":[10,8,4,2,5]}", { 21, 21, 21, 21, 21 }, { 4, 9, 8 },
      { 4, 10, 10 }, false },
    { "{\"pick\":\"circle\",\"numbers\":[0,0,3,1]}", { 9, 0, 0, 0, 0 }, { 0, 2, 2 }, { 0, 0, 3 },
      false },
    { "{\"pick\":\"circle\",\"numbers\":[16,8,40,5]}", { 512, 512, 512, 512, 512 }, { 0, 0, 0 },
      { -1, 0, 0 }, true },
    { "{\"pick\":\"whole_frames\",\"numbers\":[0,4]}", { 512, 0, 0, 0, 512 }, { 4, 3, 3 },
      { 1, 3, 3 }, false },
    { "{\"pick\":\"whole_frames\",\"numbers\":[4,3,2,1,0]}", { 512, 512, 512, 512, 512 },
      { 1, 1, 1 }, { -1, 0, 0 }, true },
};

static int parse(mask *m, const char *line, int f, int h, int w, vc_err *err)
{
    cJSON *o;
    assert_int_equal(vf_json_parse(&o, line, strlen(line), err), 0);
    int rc = mask_parse(m, o, f, h, w, err);
    cJSON_Delete(o);
    return rc;
}

static void kinds_by_number(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint8_t px[16 * 32];
        vc_err err = { 0 };
        mask m;
        assert_int_equal(parse(&m, cases[i].line, 5, 16, 32, &err), 0);
        for (int t = 0; t < 5; t++) {
            int n = 0;
            mask_frame(&m, t, px);
            for (size_t j = 0; j < sizeof px; j++)
                n += px[j];
            if (n != cases[i].masked[t])
                fail_msg("%s: frame %d has %d masked pixels", cases[i].line, t, n);
            const int *in = cases[i].in, *out = cases[i].out;
            if (in[0] == t)
                assert_int_equal(px[in[1] * 32 + in[2]], 1);
            if (out[0] == t)
                assert_int_equal(px[out[1] * 32 + out[2]], 0);
        }
        assert_int_equal(mask_is_all(&m), cases[i].all);
        mask_free(&m);
    }
}

static void odd_numbers_are_refused(void **state)
{
    static const char *const bad[] = {
        "{\"pick\":\"box\",\"numbers\":[]}", "{\"numbers\":[]}", "{\"pick\":\"all\"}",
        "{\"pick\":\"all\",\"numbers\":[1]}", "{\"pick\":\"block\",\"numbers\":[1,2,3]}",
        "{\"pick\":\"block\",\"numbers\":[1,2,3,-1]}",
        "{\"pick\":\"block\",\"numbers\":[1,2,3,1e9]}",
        "{\"pick\":\"block\",\"numbers\":[1,2,3,0.5]}",
        "{\"pick\":\"small_boxes\",\"numbers\":[1,2,3,4]}",
        "{\"pick\":\"noise\",\"numbers\":[4294967296]}",
        "{\"pick\":\"keep_head\",\"numbers\":[\"1\"]}",
    };
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        vc_err err = { 0 };
        mask m;
        if (!parse(&m, bad[i], 5, 16, 16, &err) || !strstr(err.text, "mask") || m.v)
            fail_msg("%s: \"%s\"", bad[i], err.text);
    }
}

/* Reads any bytes as the mask of a plan line: they are an error, or a mask that can be drawn. */
static int any_mask(const uint8_t *data, size_t size)
{
    static const int shapes[][3] = { { 9, 32, 48 }, { 1, 16, 16 } };
    cJSON *o;

    if (vf_json_parse(&o, (const char *)data, size, NULL))
        return 0;
    for (size_t s = 0; s < COUNT(shapes); s++) {
        uint8_t px[32 * 48];
        float grid[3 * 4 * 6];
        mask m;
        if (mask_parse(&m, o, shapes[s][0], shapes[s][1], shapes[s][2], NULL))
            continue;
        mask_to_grid(grid, &m, 4, 8, px);
        bool all = mask_is_all(&m);
        for (int t = 0; t < m.f; t++) {
            mask_frame(&m, t, px);
            for (int i = 0; i < m.h * m.w; i++)
                if (px[i] > 1 || (all && !px[i]))
                    abort();
        }
        mask_free(&m);
    }
    cJSON_Delete(o);
    return 0;
}

static void damaged_masks(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        mutate_run(cases[i].line, strlen(cases[i].line), (unsigned)i, 500, any_mask);
}

/* ---- draws ---- */

static void draw(mask *m, int f, int h, int w, uint64_t id, bool all_frames)
{
    vc_draws kind = vc_draws_of(1, id, 0, VC_DRAW_MASK_KIND),
        numbers = vc_draws_of(1, id, 0, VC_DRAW_MASK);
    vc_err err;
    assert_int_equal(mask_draw(m, f, h, w, all_frames, &kind, &numbers, &err), 0);
}

static void in_range(int x, int lo, int hi)
{
    if (x < lo || x >= hi)
        fail_msg("%d is not in [%d,%d)", x, lo, hi);
}

/* Checks the ranges of sampling.md for 9 frames of 48 x 64: w/4 = 16, h/4 = 12, min/8 = 6,
 * min/4 = 12. */
static void check_ranges(const mask *m, bool all_frames)
{
    const int32_t *v = m->v;

    switch (m->kind) {
    case MASK_BLOCK_IN_TIME:
        in_range(v[4], 0, 4);
        in_range(v[5], 4, 9);
        /* fall through */
    case MASK_BLOCK:
        in_range(v[0], 0, 64);
        in_range(v[1], 0, 48);
        in_range(v[2], 16, 48);
        in_range(v[3], 12, 36);
        break;
    case MASK_KEEP_HEAD:
    case MASK_KEEP_ENDS:
        in_range(v[0], 1, 5);
        break;
    case MASK_SMALL_BOXES:
        in_range(m->n / 5, 1, 5);
        for (int i = 0; i < m->n; i += 5) {
            in_range(v[i], 0, 9);
            in_range(v[i + 1], 1, 13);
            in_range(v[i + 2], 1, 17);
            in_range(v[i + 3], 0, 48 - v[i + 1] + 1);
            in_range(v[i + 4], 0, 64 - v[i + 2] + 1);
            for (int j = 0; j < i; j += 5)
                assert_int_not_equal(v[i], v[j]);
        }
        break;
    case MASK_ELLIPSE:
    case MASK_CIRCLE:
        in_range(v[0], 0, 64);
        in_range(v[1], 0, 48);
        in_range(v[2], 6, 12);
        assert_int_equal(v[m->n - 1], all_frames ? 9 : 1);
        break;
    default:
        break;
    }
}

/* The odds of n draws are right within 5 standard deviations, for clips and for stills. */
static void odds_and_ranges(void **state)
{
    static const double clip[MASK_KINDS] = { .05, .2, .2, .2, .05, .05, .05, .1, .05, .05 };
    static const double still[MASK_KINDS] = { [MASK_BLOCK] = .2, [MASK_ALL] = .7,
                                              [MASK_ELLIPSE] = .05,
                                              [MASK_CIRCLE] = .05 };
    enum { N = 20000 };
    int n[2][MASK_KINDS] = { 0 };

    (void)state;
    for (int i = 0; i < N; i++)
        for (int s = 0; s < 2; s++) {
            mask m;
            draw(&m, s ? 1 : 9, 48, 64, (uint64_t)i, i % 2);
            n[s][m.kind]++;
            if (!s)
                check_ranges(&m, i % 2);
            mask_free(&m);
        }
    for (int k = 0; k < MASK_KINDS; k++)
        for (int s = 0; s < 2; s++) {
            double p = s ? still[k] : clip[k], sd = sqrt(p * (1 - p) / N);
            if (fabs(n[s][k] / (double)N - p) > 5 * sd)
                fail_msg("kind %d: %d of %d, expected %g", k, n[s][k], N, p);
        }
}

/* Noise masks half of the pixels of each frame, and frames differ. */
static void noise_is_fair(void **state)
{
    uint8_t a[48 * 64], b[48 * 64];
    vc_err err;
    mask m;
    int ones = 0, same = 0;

    (void)state;
    assert_int_equal(parse(&m, "{\"pick\":\"noise\",\"numbers\":[7]}", 9, 48, 64, &err), 0);
    mask_frame(&m, 0, a);
    mask_frame(&m, 1, b);
    for (size_t i = 0; i < sizeof a; i++) {
        ones += a[i];
        same += a[i] == b[i];
    }
    assert_between(ones, 1536 - 140, 1536 + 140);       /* 5 standard deviations of 27.7 */
    assert_between(same, 1536 - 140, 1536 + 140);
    mask_free(&m);
}

/* A mask that is written to a plan line and read again is the same. */
static void plan_lines_are_read_back(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) {
        uint8_t a[32 * 48], b[32 * 48];
        int f = i % 5 ? 9 : 1;
        mask m, n;
        vc_err err;
        draw(&m, f, 32, 48, (uint64_t)i, false);
        cJSON *o = mask_json(&m);
        char *line = vf_json_line(o);
        assert_int_equal(parse(&n, line, f, 32, 48, &err), 0);
        for (int t = 0; t < f; t++) {
            mask_frame(&m, t, a);
            mask_frame(&n, t, b);
            assert_memory_equal(a, b, sizeof a);
        }
        free(line);
        cJSON_Delete(o);
        mask_free(&m);
        mask_free(&n);
    }
}

/* ---- the latent grid ---- */

/* The two taps of output i on one axis of torch's interpolate(align_corners=False) without
 * low-pass. */
static void taps(int i, int in, int out, int at[2], double weight[2])
{
    double pos = (i + 0.5) * in / out - 0.5;
    if (pos < 0)
        pos = 0;
    at[0] = (int)pos;
    at[1] = at[0] + 1 < in ? at[0] + 1 : at[0];
    weight[1] = pos - at[0];
    weight[0] = 1 - weight[1];
}

static double naive(const mask *m, uint8_t *px, int first, int frames, int out_f, int i, int y,
                    int x, int r)
{
    int t[2], ys[2], xs[2];
    double wt[2], wy[2], wx[2], sum = 0;
    taps(i, frames, out_f, t, wt);
    taps(y, m->h, m->h / r, ys, wy);
    taps(x, m->w, m->w / r, xs, wx);
    for (int a = 0; a < 2; a++) {
        mask_frame(m, first + t[a], px);
        for (int b = 0; b < 2; b++)
            for (int c = 0; c < 2; c++)
                sum += wt[a] * wy[b] * wx[c] * (1 - px[ys[b] * m->w + xs[c]]);
    }
    return sum;
}

/* Folded masks have a channel for each of the k pixel frames of a latent frame. */
static void check_folded(const mask *m, int k, int r)
{
    const int f = (m->f - 1) / k + 1, h = m->h / r, w = m->w / r;
    uint8_t px[64 * 64];
    float grid[8 * 3 * 64];
    mask_fold(grid, m, k, r, px);
    for (int at = 0; at < k * f * h * w; at++) {
        const int x = at % w, y = at / w % h, i = at / (w * h) % f, j = at / (w * h * f);
        const double want = naive(m, px, i ? (i - 1) * k + 1 + j : 0, 1, 1, 0, y, x, r);
        if ((double)grid[at] != want)
            fail_msg("folded kind %d, latent %d %d %d, frame %d: %g, expected %g", m->kind, i, y, x,
                     j, (double)grid[at], want);
    }
}

static void grid_equals_naive_resize(void **state)
{
    static const int shapes[][5] = { { 9, 32, 48, 4, 8 }, { 1, 48, 32, 4, 8 }, { 5, 64, 64, 4, 32 },
                                     { 17, 32, 32, 8, 16 } };
    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++)
        for (int id = 0; id < 25; id++) {
            const int f = shapes[s][0], h = shapes[s][1], w = shapes[s][2], k = shapes[s][3],
                r = shapes[s][4];
            uint8_t px[64 * 64];
            float grid[3 * 64];
            mask m;
            draw(&m, f, h, w, 100 * s + (uint64_t)id, false);
            check_folded(&m, k, r);
            mask_to_grid(grid, &m, k, r, px);
            const float *g = grid;
            for (int i = 0; i < (f - 1) / k + 1; i++)
                for (int y = 0; y < h / r; y++)
                    for (int x = 0; x < w / r; x++, g++) {
                        double want = i ? naive(&m, px, 1, f - 1, (f - 1) / k, i - 1, y, x, r)
                                        : naive(&m, px, 0, 1, 1, 0, y, x, r);
                        if ((double)*g != want)       /* multiples of 1/8 are exact */
                            fail_msg("kind %d, latent %d %d %d: %g, expected %g", m.kind, i, y, x,
                                     (double)*g, want);
                    }
            mask_free(&m);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_by_number),
        cmocka_unit_test(odd_numbers_are_refused),
        cmocka_unit_test(damaged_masks),
        cmocka_unit_test(odds_and_ranges),
        cmocka_unit_test(noise_is_fair),
        cmocka_unit_test(plan_lines_are_read_back),
        cmocka_unit_test(grid_equals_naive_resize),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
