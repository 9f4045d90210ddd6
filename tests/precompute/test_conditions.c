/* test_conditions.c - masks by given numbers, the odds of their draws, the latent grid of a mask
 * against a naive trilinear resize, masks written to plan lines and read again, pixel noise, and
 * the fields that keys depend on. */
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
    assert_in_range(ones, 1536 - 140, 1536 + 140);       /* 5 standard deviations of 27.7 */
    assert_in_range(same, 1536 - 140, 1536 + 140);
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

/* ---- pixels and keys ---- */

static vprep_source source = { .ok = true, .w = 64, .h = 64, .frames = 9, .hash = { { 1, 2, 3 } } };
static vf_row row = { .row = 1, .id = 77 };

static vprep run_of(int mode)
{
    vprep p = { .list = { .meta = { .rows = &row, .n = 1 }, .sources = &source } };
    p.c.train_mode = mode;
    p.c.noise_variants = 2;
    p.c.latent_store = STORE_MOMENTS;
    p.c.dtype = VC_F16;
    p.encoders.family.is = vc_families();
    p.encoders.vae.ratio[0] = 4;
    p.encoders.vae.ratio[1] = p.encoders.vae.ratio[2] = 8;
    return p;
}

static vprep_clip clip_of(int64_t *frames)
{
    vprep_clip c = { .frames = frames };
    c.choice = (vb_choice){ .frames = 9, .target_h = 32, .target_w = 32, .resize_h = 32,
                            .resize_w = 32,
                            .latent_f = 3, .latent_h = 4, .latent_w = 4 };
    c.mask = (mask){ .kind = MASK_ALL, .f = 9, .h = 32, .w = 32 };
    return c;
}

static bool same(vf_key a, vf_key b)
{
    return !memcmp(&a, &b, sizeof a);
}

static void keys_follow_values(void **state)
{
    int64_t frames[9] = { 3, 4, 5, 6, 7, 8, 9, 10, 11 };
    int32_t head[1] = { 2 };
    vprep p = run_of(PREP_I2V), q;
    vprep_item it = { 0 };
    vprep_clip a = clip_of(frames), b = a;

    (void)state;
    /* An image condition has the key of the still of the first frame. */
    b.choice.frames = 1;
    assert_true(same(vprep_value_key(&p, &it, &a, VC_ROLE_IMAGE), vprep_latent_key(&p, &it, &b)));
    assert_false(same(vprep_value_key(&p, &it, &a, VC_ROLE_IMAGE), vprep_latent_key(&p, &it, &a)));
    q = p;
    q.c.train_mode = PREP_INPAINT;           /* the mode changes no key of a clip */
    assert_true(same(vprep_latent_key(&p, &it, &a), vprep_latent_key(&q, &it, &a)));
    q = p;
    q.c.noise_variants = 3;
    assert_false(same(vprep_value_key(&p, &it, &a, VC_ROLE_IMAGE_NOISED),
                      vprep_value_key(&q, &it, &a, VC_ROLE_IMAGE_NOISED)));
    assert_true(same(vprep_value_key(&p, &it, &a, VC_ROLE_IMAGE),
                     vprep_value_key(&q, &it, &a, VC_ROLE_IMAGE)));
    q = p;
    q.c.seed = 5;
    assert_false(same(vprep_value_key(&p, &it, &a, VC_ROLE_IMAGE_NOISED),
                      vprep_value_key(&q, &it, &a, VC_ROLE_IMAGE_NOISED)));
    q = p;
    q.encoders.vae_part.opts.tiling = true;
    for (int v = VC_ROLE_CLIP; v < VC_ROLE_MASK; v++)
        assert_false(same(vprep_value_key(&p, &it, &a, v), vprep_value_key(&q, &it, &a, v)));

    /* The key of a masked video depends on the mask, and on the source where it is visible. */
    b = clip_of(frames);
    b.mask = (mask){ .kind = MASK_KEEP_HEAD, .f = 9, .h = 32, .w = 32, .n = 1, .v = head };
    vf_key mask_2 = vprep_value_key(&p, &it, &b, VC_ROLE_MASK),
        video_2 = vprep_value_key(&p, &it, &b, VC_ROLE_VIDEO);
    vf_key video_all = (a.mask_all = true, vprep_value_key(&p, &it, &a, VC_ROLE_VIDEO));
    head[0] = 3;
    assert_false(same(mask_2, vprep_value_key(&p, &it, &b, VC_ROLE_MASK)));
    assert_false(same(video_2, vprep_value_key(&p, &it, &b, VC_ROLE_VIDEO)));
    head[0] = 2;
    source.hash.b[5] ^= 1;
    assert_true(same(mask_2, vprep_value_key(&p, &it, &b, VC_ROLE_MASK)));
    assert_false(same(video_2, vprep_value_key(&p, &it, &b, VC_ROLE_VIDEO)));
    assert_true(same(video_all, vprep_value_key(&p, &it, &a, VC_ROLE_VIDEO)));
    source.hash.b[5] ^= 1;
    assert_int_equal(vprep_value_frames(&p, &a, VC_ROLE_VIDEO), 0);
    assert_int_equal(vprep_value_frames(&p, &b, VC_ROLE_VIDEO), 9);
    assert_int_equal(vprep_value_frames(&p, &b, VC_ROLE_IMAGE_NOISED), 1);
}

/* Changes the field `keyed`, on which a key may depend. */
static void change(unsigned keyed, vprep *p, vprep_clip *c)
{
    static int32_t other[1] = { 3 };
    switch (keyed) {
    case VC_KEYED_MASK: c->mask.v = other; break;
    case VC_KEYED_NOISE: p->encoders.mask_noise = !p->encoders.mask_noise; break;
    case VC_KEYED_PIXELS: c->choice.top = 8; break;
    case VC_KEYED_VARIANTS: p->c.noise_variants = 7; break;
    case VC_KEYED_DRAWS: p->c.seed = 5; break;
    case VC_KEYED_ENCODING: p->encoders.vae_part.opts.tiling = true; break;
    case VC_KEYED_GRID: p->encoders.vae.ratio[1] = 16; break;
    case VC_KEYED_VISION: p->encoders.vision.fingerprint.b[3] ^= 1; break;
    default: fail_msg("%u is not a field of a key", keyed);
    }
}

/* A key changes exactly if a field of its recipe changes. */
static void check_key(const vprep *p, vc_role role)
{
    int64_t frames[9] = { 3, 4, 5, 6, 7, 8, 9, 10, 11 };
    int32_t head[1] = { 2 };
    const vprep_item it = { 0 };
    vprep_clip a = clip_of(frames);
    a.mask = (mask){ .kind = MASK_KEEP_HEAD, .f = 9, .h = 32, .w = 32, .n = 1, .v = head };

    for (unsigned keyed = 1; keyed <= VC_KEYED_VISION; keyed *= 2) {
        vprep q = *p;
        vprep_clip b = a;
        const bool depends = vc_roles[role].recipe.keyed & keyed;
        change(keyed, &q, &b);
        if (same(vprep_value_key(p, &it, &a, role), vprep_value_key(&q, &it, &b, role)) == depends)
            fail_msg("role %d: the key %s field %u", role,
                     depends ? "does not depend on" : "depends on", keyed);
    }
    for (int other = 0; other < VC_ROLES; other++)
        if (other != (int)role && vc_roles[other].recipe.tag &&
            same(vprep_value_key(p, &it, &a, role), vprep_value_key(p, &it, &a, (vc_role)other)))
            fail_msg("roles %d and %d have the same key", role, other);
}

/* The key and the value of every role follow from its row in the table. */
static void each_role_follows_its_row(void **state)
{
    (void)state;
    for (int mode = 0; mode < VC_MODES; mode++) {
        vprep p = run_of(mode);
        p.encoders.mask_noise = true;
        p.encoders.sees = true;
        for (int r = 0; r < VC_ROLES; r++) {
            const vc_role_row *role = &vc_roles[r];
            bool made = role->modes & 1u << mode && r != VC_ROLE_CONTROL &&
                        role->recipe.pixels != VC_PIXELS_LOSS_MASK;
            assert_int_equal(!!(vprep_values(&p, &row) & VC_ROLE_BIT(r)), made);
            assert_int_equal(!!(vprep_prompt_roles(&p) & VC_ROLE_BIT(r)), made && role->what);
            if (role->recipe.tag)
                check_key(&p, (vc_role)r);
        }
    }
}

/* Image-to-video of a family with masked_frames has a masked clip and its mask, which are other
 * values than those of families with black pixels and masks of one channel. */
static void masked_frames(void **state)
{
    int64_t frames[9] = { 3, 4, 5, 6, 7, 8, 9, 10, 11 };
    int32_t head[1] = { 1 };
    const unsigned known = VC_ROLE_BIT(VC_ROLE_VIDEO) | VC_ROLE_BIT(VC_ROLE_MASK);
    const vprep_item it = { 0 };
    vprep p = run_of(VC_MODE_I2V), q = run_of(VC_MODE_INPAINT), ends;
    vprep_clip a = clip_of(frames);
    a.mask = (mask){ .kind = MASK_KEEP_HEAD, .f = 9, .h = 32, .w = 32, .n = 1, .v = head };
    (void)state;

    p.encoders.family.is = vc_family_find("wan2.1");
    q.encoders.family.is = vc_family_find("cogvideox");
    assert_int_equal(vprep_values(&p, &row), VC_ROLE_BIT(VC_ROLE_CLIP) | known);
    assert_int_equal(vprep_prompt_roles(&p), known);
    for (int v = VC_ROLE_VIDEO; v <= VC_ROLE_MASK; v++)
        assert_false(same(vprep_value_key(&p, &it, &a, v), vprep_value_key(&q, &it, &a, v)));
    assert_float_equal(vprep_mask_fill(&p), 0, 0);
    assert_float_equal(vprep_mask_fill(&q), -1, 0);
    assert_int_equal(vprep_mask_channels(&p), p.encoders.vae.ratio[0]);
    assert_int_equal(vprep_mask_channels(&q), 1);

    ends = p;                                /* of a Fun-Control model */
    ends.c.train_mode = VC_MODE_CONTROL;
    assert_int_equal(vprep_prompt_roles(&ends), VC_ROLE_BIT(VC_ROLE_CONTROL));
    ends.c.train_mode = VC_MODE_CONTROL_REF;
    assert_int_equal(vprep_prompt_roles(&ends),
                     VC_ROLE_BIT(VC_ROLE_CONTROL) | VC_ROLE_BIT(VC_ROLE_IMAGE));
    p.encoders.sees = true;
    assert_int_equal(vprep_prompt_roles(&p), known | VC_ROLE_BIT(VC_ROLE_VISION));
    assert_int_equal(vprep_value_frames(&p, &a, VC_ROLE_VISION), 1);
    ends = p;
    ends.encoders.ends = true;
    assert_int_equal(vprep_value_frames(&ends, &a, VC_ROLE_VISION), 9);
    assert_false(same(vprep_value_key(&p, &it, &a, VC_ROLE_VISION),
                      vprep_value_key(&ends, &it, &a, VC_ROLE_VISION)));
}

/* A family that trains on first frames as they are stores none with noise. */
static void clean_images(void **state)
{
    vprep p = run_of(VC_MODE_I2V);
    (void)state;
    p.encoders.family.is = vc_family_find("hunyuanvideo");
    assert_int_equal(vprep_values(&p, &row),
                     VC_ROLE_BIT(VC_ROLE_CLIP) | VC_ROLE_BIT(VC_ROLE_IMAGE));
}

static void masked_pixels_are_black(void **state)
{
    enum { AREA = 32 * 32 };
    static float x[9 * AREA * 3];
    static uint8_t scratch[AREA];
    int64_t frames[9] = { 0 };
    int32_t head[1] = { 4 };
    vprep_clip c = clip_of(frames);

    (void)state;
    c.mask = (mask){ .kind = MASK_KEEP_HEAD, .f = 9, .h = 32, .w = 32, .n = 1, .v = head };
    for (size_t i = 0; i < COUNT(x); i++)
        x[i] = 0.25f;
    vprep_apply_mask(x, &c.mask, -1, scratch);
    for (size_t i = 0; i < COUNT(x); i++)
        if (fabsf(x[i] - (i < (size_t)4 * AREA * 3 ? 0.25f : -1.0f)) > 0)
            fail_msg("pixel %zu is %g", i, (double)x[i]);
}

/* Draw k makes x + sigma n with a sigma of its own; the normals n follow the block of random
 * numbers from which sigma was drawn. */
static void pixel_noise(void **state)
{
    enum { N = 30000 };
    static float x[N];
    vprep p = run_of(PREP_I2V);
    vprep_item it = { .variant = 3 };
    double last = 0;

    (void)state;
    for (uint32_t k = 0; k < 3; k++) {
        uint32_t w[4], key[2] = { 0, 0 }, ctr[4] = { k << 28, 77, 0, 3 * 256 + VC_DRAW_COND_NOISE };
        float z[4];
        double sum = 0, sq = 0;
        vc_philox(key, ctr, w);
        vc_normal4(w, z);
        double sigma = exp(-3 + 0.5 * (double)z[0]);
        vprep_normals s = vprep_normals_of(&p, &it, VC_DRAW_COND_NOISE, k);
        for (int i = 0; i < N; i++)
            x[i] = i % 2 ? -1.0f : 0.5f;
        vprep_pixel_noise(x, N, vprep_noise_sigma(&s), true, &s);
        ctr[0]++;
        vc_philox(key, ctr, w);
        vc_normal4(w, z);
        assert_true(fabs((double)x[0] - (0.5 + sigma * (double)z[0])) < 1e-6);
        assert_true(fabs((double)x[2] - (0.5 + sigma * (double)z[2])) < 1e-6);
        for (int i = 0; i < N; i += 2) {
            assert_true(x[i + 1] <= -1.0f && x[i + 1] >= -1.0f);     /* masked pixels stay black */
            sum += (double)x[i] - 0.5;
            sq += ((double)x[i] - 0.5) * ((double)x[i] - 0.5);
        }
        assert_true(fabs(sum / (N / 2)) < 5 * sigma / sqrt(N / 2));
        assert_true(fabs(sqrt(sq / (N / 2)) / sigma - 1) < 0.03);    /* 5 / sqrt(2 * 15000) */
        assert_true(fabs(sigma - last) > 1e-9);
        last = sigma;
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
        cmocka_unit_test(keys_follow_values),
        cmocka_unit_test(each_role_follows_its_row), cmocka_unit_test(clean_images),
        cmocka_unit_test(masked_frames),
        cmocka_unit_test(masked_pixels_are_black),
        cmocka_unit_test(pixel_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
