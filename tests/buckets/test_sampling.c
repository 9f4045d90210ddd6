/* test_sampling.c - VideoX-Fun's choices (--sampling peer), and each of their switches alone. */
#include "tests/buckets/buckets_rules.h"

#include "common/base/rng.h"
#include "tests/lib/ok.h"

/* ---- worked examples: results of the reference's functions with the given draws ---- */

typedef struct example {
    const char *family;
    int v, i, t, n, stride;
    bool token, adapt, ratio;
    int fix_h, fix_w;
    vb_source s;
    int start_hi, start;     /* the start is drawn from 0..start_hi, or not drawn if this is -1 */
    const char *sizes;       /* the list that the size is drawn from, or "" */
    int size;                /* index into sizes */
    int key;                 /* index into the keys of random_ratio_crop, or -1 for the nearest */
    int load_h, load_w;
    const char *want;        /* key of the bucket */
    int th, tw, rh, rw, top, left, frames;
} example;

#define VIDEO(w, h, n) { true, w, h, n, false }
#define STILL(w, h) { false, w, h, 0, false }
#define HV "hunyuanvideo"

static const example examples[] = {
    { "cogvideox", 512, 512, 512, 49, 3, true, true, false, 0, 0, VIDEO(1920, 1080, 300), 155, 65,
      "", 0, -1, 512, 910, "0.57", 384, 672, 384, 682, 0, 5, 49 },
    { "cogvideox1.5", 512, 512, 512, 49, 3, true, true, false, 0, 0, VIDEO(1920, 1080, 300), 155,
      155, "", 0, -1, 512, 910, "0.57", 384, 672, 384, 682, 0, 5, 45 },
    { "cogvideox1.5", 512, 512, 512, 49, 3, true, true, false, 0, 0, VIDEO(1920, 1080, 100), 3, 0,
      "", 0, -1, 512, 910, "0.57", 384, 672, 384, 682, 0, 5, 29 },
    { HV, 640, 640, 640, 81, 2, true, true, false, 0, 0, VIDEO(1280, 720, 240), 79, 0, "", 0, -1,
      640, 1137, "0.57", 480, 832, 480, 852, 0, 10, 81 },
    { HV, 640, 640, 640, 81, 2, true, true, false, 0, 0, VIDEO(720, 1280, 100), 1, 1, "", 0, -1,
      1137, 640, "1.75", 832, 480, 852, 480, 10, 0, 49 },
    { HV, 640, 640, 640, 81, 2, true, true, false, 0, 0, VIDEO(1280, 720, 5), 2, 2, "", 0, -1,
      640, 1137, "0.57", 480, 832, 480, 852, 0, 10, 1 },
    { HV, 256, 1024, 512, 49, 2, true, true, false, 0, 0, VIDEO(1920, 1080, 400), 303, 130,
      "256 384 512 640 768 896 1024", 4, -1, 1024, 1820, "0.57", 576, 1008, 576, 1023, 0, 8, 21 },
    { HV, 256, 1024, 512, 49, 2, true, true, false, 0, 0, VIDEO(1920, 1080, 400), 303, 130,
      "256 384 512 640 768 896 1024", 6, -1, 1024, 1820, "0.57", 768, 1344, 768, 1365, 0, 10, 13 },
    { HV, 256, 1024, 512, 49, 2, true, true, false, 0, 0, VIDEO(640, 480, 400), 303, 130,
      "256 384 512 640", 3, -1, 0, 0, "0.72", 512, 720, 540, 720, 14, 0, 29 },
    { HV, 512, 512, 512, 49, 3, true, true, false, 0, 0, VIDEO(333, 777, 147), 2, 2, "", 0, -1,
      0, 0, "2.4", 768, 320, 768, 329, 0, 4, 49 },
    { HV, 1024, 1024, 512, 49, 2, false, true, false, 0, 0, VIDEO(1920, 1080, 200), 103, 0,
      "1 1.25 1.5 2", 1, -1, 1024, 1820, "0.57", 608, 1072, 608, 1080, 0, 4, 49 },
    { "wan2.1", 512, 512, 512, 49, 1, false, true, false, 0, 0, STILL(1024, 768), -1, 0,
      "1 1", 0, -1, 0, 0, "0.72", 416, 576, 432, 576, 8, 0, 1 },
    { "wan2.1", 512, 512, 512, 49, 1, false, true, false, 0, 0, STILL(768, 1024), -1, 0,
      "1 1", 0, -1, 0, 0, "1.29", 576, 448, 597, 448, 10, 0, 1 },
    { "wan2.1", 256, 1024, 512, 49, 1, false, true, false, 0, 0, STILL(1024, 768), -1, 0,
      "1 1.25 1.5 2 4", 2, -1, 0, 0, "0.72", 544, 768, 576, 768, 16, 0, 1 },
    { "wan2.1", 512, 512, 512, 49, 1, true, true, true, 0, 0, VIDEO(854, 480, 200), 151, 0, "", 0,
      11, 0, 0, "1.46", 608, 416, 608, 1081, 0, 332, 49 },
    { "wan2.1", 512, 512, 512, 49, 1, true, true, false, 480, 832, VIDEO(1920, 1080, 200), 151, 0,
      "", 0, -1, 832, 1479, "480x832", 480, 832, 480, 832, 0, 0, 49 },
    { "wan2.2-5b", 704, 704, 512, 121, 1, true, true, false, 0, 0, VIDEO(1001, 999, 60), -1, 0,
      "", 0, -1, 704, 705, "1.0", 704, 704, 704, 705, 0, 0, 57 },
    { "wan2.1", 224, 384, 512, 49, 1, true, true, false, 0, 0, VIDEO(640, 384, 60), 11, 0,
      "224 352 384", 2, -1, 0, 0, "0.6", 288, 464, 288, 480, 0, 8, 49 },
};

static vb_rules example_rules(const example *e)
{
    vb_rules r = rules_of(e->family, e->v, e->i, e->t, e->n, e->stride);
    vb_rules_peer(&r);
    r.token_length = e->token;
    r.random_hw_adapt = e->adapt;
    r.random_ratio_crop = e->ratio;
    r.fix_h = e->fix_h;
    r.fix_w = e->fix_w;
    check(&r);
    return r;
}

static void options_of(const vb_choice *c, const char *purpose, char *text, size_t room)
{
    const vb_draw *d = find_draw(c, purpose);

    text[0] = 0;
    for (int k = 0; d && k < d->n_options; k++)
        snprintf(text + strlen(text), room - strlen(text), k ? " %s" : "%s", d->options[k]);
}

static void test_examples(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(examples); i++) {
        const example *e = &examples[i];
        vb_rules r = example_rules(e);
        vb_picks given = { .size = e->size, .ratio = e->key, .frame_crop = -1, .start = e->start,
                           .flip = -1 };
        vb_choice c;
        char sizes[200];
        vb_choose_given(&c, &r, &e->s, 1, 0, 0, &given);
        const vb_draw *start = find_draw(&c, "start");
        options_of(&c, "size", sizes, sizeof sizes);

        if (c.drop || strcmp(c.key, e->want) || strcmp(sizes, e->sizes))
            fail_msg("%zu: drop \"%s\", key %s, sizes \"%s\"", i + 1, c.reason, c.key, sizes);
        if ((start ? start->hi : -1) != e->start_hi || c.start != e->start || c.stride != e->stride)
            fail_msg("%zu: start %lld", i + 1, (long long)c.start);
        if (c.load_h != e->load_h || c.load_w != e->load_w || c.target_h != e->th
                || c.target_w != e->tw || c.resize_h != e->rh || c.resize_w != e->rw
                || c.top != e->top || c.left != e->left || c.frames != e->frames)
            fail_msg("%zu: loaded %d %d, target %d %d, resize %d %d, crop %d %d, %d frames", i + 1,
                     c.load_h, c.load_w, c.target_h, c.target_w, c.resize_h, c.resize_w, c.top,
                     c.left, c.frames);
    }
}

/* Examples 7, 8, 16 and 18 with other switches. */
static void test_examples_with_switches(void **state)
{
    (void)state;
    static const struct { int example, rule, frames; } rows[] = {
        { 7, VB_RULE_DOC, 21 }, { 8, VB_RULE_DOC, 9 },
        { 7, VB_RULE_TOKENS, 17 }, { 8, VB_RULE_TOKENS, 9 },
    };
    vb_choice c;

    for (size_t i = 0; i < COUNT(rows); i++) {
        const example *e = &examples[rows[i].example - 1];
        vb_rules r = example_rules(e);
        r.frame_rule = (vb_frame_rule)rows[i].rule;
        vb_picks given = { e->size, -1, -1, e->start, -1 };
        vb_choose_given(&c, &r, &e->s, 1, 0, 0, &given);
        assert_int_equal(c.frames, rows[i].frames);
    }

    vb_rules fixed = example_rules(&examples[15]);
    fixed.fit = VB_FIT_CROP;
    vb_choose(&c, &fixed, &examples[15].s, 1, 0, 0);
    assert_int_equal(c.resize_w, 853);               /* 1479 * 480 // 832 */
    assert_int_equal(c.left, 10);

    vb_rules exact = example_rules(&examples[17]);
    vb_picks given = { 2, -1, -1, 0, -1 };
    exact.peer = false;
    vb_choose_given(&c, &exact, &examples[17].s, 1, 0, 0, &given);
    assert_int_equal(c.target_w, 480);
}

/* ---- the reference's tables ---- */

static void test_bucket_table(void **state)
{
    (void)state;
    static const char table[] =
        "0.25:256x1024 0.26:256x992 0.27:256x960 0.28:256x928 0.32:288x896 0.33:288x864 "
        "0.35:288x832 0.4:320x800 0.42:320x768 0.48:352x736 0.5:352x704 0.52:352x672 "
        "0.57:384x672 0.6:384x640 0.68:416x608 0.72:416x576 0.78:448x576 0.82:448x544 "
        "0.88:480x544 0.94:480x512 1.0:512x512 1.07:512x480 1.13:544x480 1.21:544x448 "
        "1.29:576x448 1.38:576x416 1.46:608x416 1.67:640x384 1.75:672x384 2.0:704x352 "
        "2.09:736x352 2.4:768x320 2.5:800x320 2.89:832x288 3.0:864x288 3.11:896x288 "
        "3.62:928x256 3.75:960x256 3.88:992x256 4.0:1024x256 ";
    char got[sizeof table + 40] = "";

    for (int i = 0; i < VB_N_BUCKETS; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s:%dx%d ", vb_buckets[i].key,
                 vb_buckets[i].h, vb_buckets[i].w);
    assert_string_equal(got, table);
}

/* The reference computes the length in doubles: min(Q/p/p, n) // k * k + 1. */
static void test_length_tables(void **state)
{
    (void)state;
    static const struct { int n, t; } budgets[] = {
        { 49, 512 }, { 49, 640 }, { 49, 1024 }, { 81, 512 }, { 81, 640 }, { 81, 960 },
        { 121, 704 }, { 17, 256 }, { 1, 512 },
    };
    static const char *const families_with[] = { "wan2.1", "ltx-video" };       /* k 4 and 8 */

    for (size_t b = 0; b < COUNT(budgets); b++)
        for (int p = 32; p <= 2048; p++) {
            vb_rules r = rules_of(families_with[p & 1], 512, 512, budgets[b].t, budgets[b].n, 1);
            r.frame_rule = VB_RULE_PEER;
            double q = (double)budgets[b].n * budgets[b].t * budgets[b].t, k = r.family->ratio[0];
            double frames = floor(fmin(q / p / p, budgets[b].n) / k) * k + 1;
            int64_t got = vb_frame_limit(&r, p, p, p);
            if ((double)got != frames)
                fail_msg("n %d, T %d, p %d: %lld, not %g", budgets[b].n, budgets[b].t, p,
                         (long long)got, frames);
        }
}

/* ---- rounding errors of the reference ---- */

/* For a few sizes ((x / 512) * V) / (V / p) in doubles is slightly below a multiple. */
static void test_doubles(void **state)
{
    (void)state;
    static const struct { int v, p, x, side; } rows[] = {
        { 224, 384, 640, 464 }, { 512, 512, 640, 640 }, { 256, 768, 672, 1008 },
        { 640, 640, 672, 832 }, { 512, 768, 640, 960 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vb_rules r = rules_of("wan2.1", rows[i].v, rows[i].p, 512, 49, 1);
        vb_size p = { rows[i].p, 1, rows[i].p, (double)rows[i].v / rows[i].p };
        assert_int_equal(vb_peer_side(&r, &(vb_source)VIDEO(640, 384, 9), rows[i].x, &p),
                         rows[i].side);
    }

    /* whether a side of the table differs from its exact value */
    static const struct { int v, p; bool differs; } sizes[] = {
        { 224, 384, true }, { 272, 400, true }, { 544, 800, true }, { 896, 1536, true },
        { 512, 512, false }, { 256, 768, false }, { 640, 640, false },
    };
    for (size_t i = 0; i < COUNT(sizes); i++) {
        vb_rules r = rules_of("wan2.1", sizes[i].v, sizes[i].p, 512, 49, 1);
        vb_size p = { sizes[i].p, 1, sizes[i].p, (double)sizes[i].v / sizes[i].p };
        bool differs = false;
        for (int b = 0; b < VB_N_BUCKETS; b++)
            differs |= vb_peer_side(&r, &(vb_source)VIDEO(1, 1, 1), vb_buckets[b].w, &p)
                    != vb_side(r.family, vb_buckets[b].w, &p);
        if (differs != sizes[i].differs)
            fail_msg("V %d, p %d", sizes[i].v, sizes[i].p);
    }
}

/* In the reference's table key 0.57 of 640 is 480x832 (height x width). A source of 624x360 has
 * this shape, but the reference resizes it to 479 rows, which leaves a black line. */
static void test_black_line(void **state)
{
    (void)state;
    vb_rules r = rules_of("wan2.1", 640, 640, 512, 49, 1);
    vb_picks given = { -1, 2, -1, -1, -1 };
    vb_choice c;

    vb_rules_peer(&r);
    r.random_ratio_crop = true;
    check(&r);
    vb_choose_given(&c, &r, &(vb_source)VIDEO(624, 360, 49), 1, 0, 0, &given);
    assert_int_equal(c.target_h, 480);
    assert_int_equal(c.resize_h, 479);
    assert_int_equal(c.resize_w, 832);
    assert_int_equal(c.top, 0);

    r.peer = false;
    vb_choose_given(&c, &r, &(vb_source)VIDEO(624, 360, 49), 1, 0, 0, &given);
    assert_int_equal(c.resize_h, 480);
}

static void test_loaded(void **state)
{
    (void)state;
    static const struct { int v, i; vb_source s; int h, w; } rows[] = {
        { 512, 512, VIDEO(1920, 1080, 9), 512, 910 }, { 512, 512, VIDEO(1080, 1920, 9), 910, 512 },
        { 512, 512, VIDEO(1080, 1080, 9), 512, 512 }, { 256, 1024, VIDEO(640, 480, 9), 480, 640 },
        { 512, 512, VIDEO(512, 512, 9), 512, 512 },   { 512, 512, VIDEO(511, 9000, 9), 9000, 511 },
        { 512, 512, STILL(4000, 3000), 3000, 4000 },  { 16, 16, VIDEO(INT32_MAX, 16, 9), 16,
                                                        INT32_MAX },
    };
    for (size_t k = 0; k < COUNT(rows); k++) {
        vb_rules r = rules_of("wan2.1", rows[k].v, rows[k].i, 512, 49, 1);
        int h, w;
        vb_peer_loaded(&r, &rows[k].s, &h, &w);
        if (h != rows[k].h || w != rows[k].w)
            fail_msg("row %zu: %d %d", k, h, w);
    }
}

/* ---- each switch alone ---- */

static void test_frame_switches(void **state)
{
    (void)state;
    static const struct {
        int count, start, total, stride, n;
        int frames, hi;                  /* frames 0 means dropped */
    } rows[] = {
        { VB_COUNT_ALL,  VB_START_WHOLE, 145, 3, 49, 49, 0 },
        { VB_COUNT_PEER, VB_START_WHOLE, 145, 3, 49, 45, 12 },      /* 145 // 3 = 48 */
        { VB_COUNT_PEER, VB_START_PEER,  145, 3, 49, 45, 3 },
        { VB_COUNT_ALL,  VB_START_PEER,  100, 3, 49, 33, 0 },       /* 34 frames: 0, 3, .. 99 */
        { VB_COUNT_ALL,  VB_START_WHOLE, 100, 3, 49, 33, 3 },
        { VB_COUNT_ALL,  VB_START_FIRST, 100, 1, 49, 49, 0 },
        { VB_COUNT_ALL,  VB_START_FIRST, 40, 1, 49, 37, 0 },
        { VB_COUNT_PEER, VB_START_PEER,  3, 4, 49, 0, 0 },
        { VB_COUNT_ALL,  VB_START_WHOLE, 3, 4, 49, 1, 2 },
        { VB_COUNT_PEER, VB_START_WHOLE, 4, 4, 49, 1, 3 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vb_rules r = rules_of("wan2.1", 512, 512, 512, rows[i].n, rows[i].stride);
        vb_choice c;
        r.frame_count = (vb_frame_count)rows[i].count;
        r.start_rule = (vb_start_rule)rows[i].start;
        check(&r);
        vb_choose(&c, &r, &(vb_source)VIDEO(640, 480, rows[i].total), 1, 0, 0);
        const vb_draw *d = find_draw(&c, "start");
        if (c.drop != !rows[i].frames || (!c.drop && (c.frames != rows[i].frames
                                                      || (d ? d->hi : 0) != rows[i].hi)))
            fail_msg("row %zu: %d frames, start to %lld, \"%s\"", i, c.frames,
                     (long long)(d ? d->hi : 0), c.reason);
    }
}

static void test_log_metric(void **state)
{
    (void)state;
    static const struct { int h, w; const char *key; int th, tw; } rows[] = {
        { 768, 1024, "0.78", 448, 576 },     /* the difference would choose 0.72 */
        { 1024, 768, "1.29", 576, 448 },
        { 672, 352, "1.91", 672, 352 },      /* a transposed bucket that the table lacks */
        { 352, 672, "0.52", 352, 672 },
        { 1, 1, "1.0", 512, 512 }, { 1, 100, "0.25", 256, 1024 }, { 100, 1, "4.0", 1024, 256 },
        { 576, 960, "0.6", 384, 640 },
    };
    vb_rules r = rules_of("wan2.1", 512, 512, 512, 17, 4);
    r.metric = VB_METRIC_LOG;
    check(&r);
    for (size_t i = 0; i < COUNT(rows); i++) {
        vb_choice c;
        vb_choose(&c, &r, &(vb_source)STILL(rows[i].w, rows[i].h), 1, 0, 0);
        if (strcmp(c.key, rows[i].key) || c.target_h != rows[i].th || c.target_w != rows[i].tw)
            fail_msg("%d/%d: %s, hw %d %d", rows[i].h, rows[i].w, c.key, c.target_h, c.target_w);
    }

}

/* No bucket is nearer than the chosen one, by logarithms in long double and for all sizes p. */
static void test_log_nearest(void **state)
{
    (void)state;
    vc_draws d = vc_draws_of(3, 0, 0, 0);

    for (int i = 0; i < 20000; i++) {
        vb_rules r = rules_of(i % 2 ? "wan2.1" : "ltx-video", 512, 512, 512, 17, 4);
        vb_size p = { 32 + vc_draw_int(&d, 1500), 1, 0, 1 };
        int h = 1 + (int)vc_draw_int(&d, 4000), w = 1 + (int)vc_draw_int(&d, 4000);
        vb_source s = STILL(w, h);
        const vb_bucket *b = vb_bucket_log(&r, &s, &p, h, w);
        long double ratio = logl((long double)h / w), least = INFINITY;
        for (int k = 0; k < VB_N_BUCKETS; k++) {
            long double t = logl((long double)vb_side(r.family, vb_buckets[k].h, &p)
                                 / vb_side(r.family, vb_buckets[k].w, &p));
            least = fminl(least, fabsl(t - ratio));
        }
        long double got = logl((long double)vb_side(r.family, b->h, &p)
                               / vb_side(r.family, b->w, &p));
        if (fabsl(got - ratio) > least + 1e-15L)
            fail_msg("%d/%d at p %lld: %s", h, w, (long long)p.num, b->key);
    }
}

static void test_own_size(void **state)
{
    (void)state;
    static const struct { const char *family; int64_t most; int w, h, th, tw; } rows[] = {
        { "wan2.1", 1048576, 640, 480, 480, 640 },         /* small enough: unchanged */
        { "wan2.1", 1048576, 650, 490, 480, 640 },
        { "wan2.1", 921600, 1920, 1080, 720, 1280 },
        { "wan2.1", 921599, 1920, 1080, 704, 1264 },       /* one pixel less: smaller sides */
        { "wan2.1", 1048576, 4000, 3000, 880, 1168 },
        { "ltx-2", 1048576, 4000, 3000, 832, 1152 },
        { "wan2.1", 256, 4000, 3000, 16, 16 },
        { "wan2.1", 1048576, 10, 5, 16, 16 },
        { "wan2.1", 1 << 28, 30000, 30000, 16384, 16384 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vb_rules r = rules_of(rows[i].family, 512, 512, 512, 17, 4);
        vb_choice c;
        char key[16];
        r.max_pixels = rows[i].most;
        r.random_hw_adapt = r.token_length = true;
        check(&r);
        assert_false(r.random_hw_adapt || r.token_length);
        vb_choose(&c, &r, &(vb_source)STILL(rows[i].w, rows[i].h), 1, 0, 0);
        snprintf(key, sizeof key, "%dx%d", rows[i].th, rows[i].tw);
        if (strcmp(c.key, key) || c.target_h != rows[i].th || c.target_w != rows[i].tw)
            fail_msg("row %zu: %s, hw %d %d", i, c.key, c.target_h, c.target_w);
    }
}

/* A fixed size is rounded to multiples of the latents' patches, not of the family's multiple. */
static void test_fixed_multiples(void **state)
{
    (void)state;
    static const struct { const char *family; int th, tw; } rows[] = {
        { "wan2.1", 736, 1264 }, { "wan2.2-5b", 736, 1248 }, { "ltx-2", 736, 1248 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vb_rules r = rules_of(rows[i].family, 512, 512, 512, 17, 4);
        vb_choice c;
        r.fix_h = 740;
        r.fix_w = 1279;
        check(&r);
        vb_choose(&c, &r, &(vb_source)VIDEO(1920, 1080, 99), 1, 0, 0);
        assert_int_equal(c.target_h, rows[i].th);
        assert_int_equal(c.target_w, rows[i].tw);
        assert_int_equal(c.tokens, (int64_t)c.latent_f * (c.target_h / r.family->ratio[1]
                         / r.family->patch) * (c.target_w / r.family->ratio[1] / r.family->patch));
    }
}

static void test_checks(void **state)
{
    (void)state;
    const char *warning;
    vc_err err;
    vb_rules r = rules_of("wan2.1", 512, 512, 512, 17, 4);

    r.max_pixels = 255;
    assert_fails(vb_rules_check(&r, &warning, &err), VC_EUSAGE, &err, "--max_pixels 255: 256 to");
    r.max_pixels = 512;
    r.fix_h = r.fix_w = 480;
    assert_int_equal(vb_rules_check(&r, &warning, &err), 0);
    assert_non_null(strstr(warning, "max_pixels changes nothing"));

    r = rules_of("wan2.1", 512, 256, 512, 17, 4);    /* --sampling peer allows I < V */
    vb_rules_peer(&r);
    check(&r);
}

/* ---- properties of the choices for 100,000 random inputs ---- */

/* Returns lo..hi; the logarithm is uniform. */
static int64_t draw_magnitude(vc_draws *d, int64_t lo, int64_t hi)
{
    double x = (double)lo * pow((double)hi / (double)lo, vc_draw_unit(d));
    return x < (double)lo ? lo : x > (double)hi ? hi : (int64_t)x;
}

static vb_rules random_rules(vc_draws *d)
{
    int families = 0;
    while (vc_families()[families].name)
        families++;
    const vc_family *f = &vc_families()[vc_draw_int(d, (uint32_t)families)];
    vb_rules r = rules_of(f->name, draw_magnitude(d, 64, 2048),
                          draw_magnitude(d, 64, 2048), draw_magnitude(d, 64, 2048),
                          draw_magnitude(d, 1, 500), draw_magnitude(d, 1, 30));
    uint32_t bits = vc_draw_int(d, 1u << 12);
    if (bits & 1)
        vb_rules_peer(&r);
    if (bits & 2) {                          /* single switches override the peer's */
        r.frame_count = (vb_frame_count)vc_draw_int(d, 2);
        r.start_rule = (vb_start_rule)vc_draw_int(d, 3);
        r.fit = (vb_fit)vc_draw_int(d, 2);
        r.frame_rule = (vb_frame_rule)vc_draw_int(d, 3);
    }
    r.metric = (vb_metric)vc_draw_int(d, 2);
    r.enable_bucket = bits & 12;
    r.random_hw_adapt = bits & 16;
    r.token_length = bits & 32;
    r.random_ratio_crop = (bits & 192) == 0;
    r.random_frame_crop = bits & 256;
    r.random_flip = bits & 512;
    r.on_small = (bits & 3072) == 0 ? VB_SMALL_DROP : VB_SMALL_ENLARGE;
    r.allow_upscale = true;
    r.max_upscale = 0.5 + 2 * vc_draw_unit(d);
    if (vc_draw_int(d, 8) == 0) {
        r.fix_h = draw_magnitude(d, 64, 2048);
        r.fix_w = draw_magnitude(d, 64, 2048);
    }
    if (vc_draw_int(d, 6) == 0)
        r.max_pixels = draw_magnitude(d, 4096, VB_MAX_PIXELS);
    return r;
}

static vb_source random_source(vc_draws *d)
{
    vb_source s = { .is_video = vc_draw_int(d, 3), .frames = draw_magnitude(d, 1, 5000) };
    s.w = (int)draw_magnitude(d, 1, 10000);
    s.h = (int)draw_magnitude(d, 1, 10000);
    if (vc_draw_int(d, 100) == 0)
        s.w = (int)draw_magnitude(d, 1, INT32_MAX);
    if (vc_draw_int(d, 100) == 0)
        s.h = (int)draw_magnitude(d, 1, INT32_MAX);
    if (vc_draw_int(d, 100) == 0)
        s.frames = draw_magnitude(d, 1, INT64_MAX);
    return s;
}

static bool picture_holds(const vb_choice *c, const vb_rules *r, const vb_source *s)
{
    const int q = r->enable_bucket && r->fix_h ? r->family->ratio[1] * r->family->patch
                                               : r->family->multiple;
    const int slack = r->peer && r->random_ratio_crop;      /* one black line */

    return c->target_h >= q && c->target_w >= q && c->target_h % q == 0 && c->target_w % q == 0
        && c->resize_h + slack >= c->target_h && c->resize_w + slack >= c->target_w
        && (c->resize_h >= c->target_h || c->resize_w >= c->target_w)
        && c->top >= 0 && c->left >= 0
        && (c->top + c->target_h <= c->resize_h || (c->resize_h < c->target_h && c->top == 0))
        && (c->left + c->target_w <= c->resize_w || (c->resize_w < c->target_w && c->left == 0))
        && c->latent_h * r->family->ratio[1] == c->target_h
        && c->latent_w * r->family->ratio[1] == c->target_w && c->upscale >= 1
        && (c->load_h ? r->peer && s->is_video && c->load_h <= s->h && c->load_w <= s->w
                      : !c->load_w);
}

static bool frames_hold(const vb_choice *c, const vb_rules *r, const vb_source *s)
{
    const vc_family *f = r->family;
    int64_t budget = ((r->n_frames - 1) / f->ratio[0] + 1) * (r->token_sample_size / f->multiple)
                   * (r->token_sample_size / f->multiple);
    int64_t grid = (int64_t)c->latent_f * (c->target_h / f->multiple) * (c->target_w / f->multiple);

    return c->frames >= 1 && c->frames % f->ratio[0] == 1 % f->ratio[0] && c->frames <= r->n_frames
        && c->latent_f == (c->frames - 1) / f->ratio[0] + 1
        && (c->frames == 1 || c->latent_f % f->patch_t == 0) && (s->is_video || c->frames == 1)
        && c->start >= 0 && c->stride == r->stride
        && (s->is_video ? c->start + (c->frames - 1) * c->stride < s->frames : c->start == 0)
        && (r->frame_rule != VB_RULE_TOKENS || c->frames == 1 || grid <= budget)
        && c->tokens == (int64_t)((c->latent_f + f->patch_t - 1) / f->patch_t)
                        * (c->latent_h / f->patch) * (c->latent_w / f->patch);
}

/* Whether a transposed source gets the transposed target, as the logarithmic metric must give. */
static bool transposes(const vb_choice *a, const vb_rules *r, const vb_source *s, uint64_t id)
{
    vb_source t = *s;
    vb_choice b;

    if (r->metric != VB_METRIC_LOG || !r->enable_bucket || r->fix_h || r->random_ratio_crop)
        return true;
    t.w = s->h;
    t.h = s->w;
    vb_choose(&b, r, &t, id, 0, 0);
    return b.drop || (b.target_h == a->target_w && b.target_w == a->target_h);
}

static void test_properties(void **state)
{
    (void)state;
    vc_draws d = vc_draws_of(20260505, 0, 0, 0);
    int kept = 0;
    static vb_choice a, b;

    for (int i = 0; i < 100000; i++) {
        vb_rules r = random_rules(&d);
        vb_source s = random_source(&d);
        vc_err err;
        if (vb_rules_check(&r, NULL, &err))
            fail_msg("input %d: %s", i, err.text);
        uint64_t id = (uint64_t)vc_draw_int(&d, UINT32_MAX) << 32 | (uint32_t)i;
        vb_choose(&a, &r, &s, id, 0, 0);
        vb_choose(&b, &r, &s, id, 0, 0);
        assert_memory_equal(&a, &b, sizeof a);
        if (a.drop) {
            assert_true(strpbrk(a.reason, "0123456789") != NULL);
            continue;
        }
        kept++;
        if (!picture_holds(&a, &r, &s) || !frames_hold(&a, &r, &s) || !transposes(&a, &r, &s, id))
            fail_msg("input %d: %s, peer %d, %dx%d, %lld frames: loaded %dx%d, target %dx%d, "
                     "resize %dx%d, crop %d,%d, %d frames from %lld, %lld tokens", i,
                     r.family->name, r.peer, s.w, s.h, (long long)s.frames, a.load_w, a.load_h,
                     a.target_w, a.target_h, a.resize_w, a.resize_h, a.left, a.top, a.frames,
                     (long long)a.start, (long long)a.tokens);
    }
    print_message("%d of 100000 kept\n", kept);
    assert_true(kept > 40000);                /* families of stills drop most of their videos */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_examples_with_switches),
        cmocka_unit_test(test_bucket_table),
        cmocka_unit_test(test_length_tables),
        cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_black_line),
        cmocka_unit_test(test_loaded),
        cmocka_unit_test(test_frame_switches),
        cmocka_unit_test(test_log_metric),
        cmocka_unit_test(test_log_nearest),
        cmocka_unit_test(test_own_size),
        cmocka_unit_test(test_fixed_multiples),
        cmocka_unit_test(test_checks),
        cmocka_unit_test(test_properties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
