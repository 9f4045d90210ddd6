/* test_choose.c - one sample's choice: worked examples, draws, drops, properties of any input. */
#include "common/base/rng.h"
#include "tests/buckets/buckets_rules.h"
#include "tests/lib/ok.h"

static void test_philox(void **state)
{
    (void)state;
    const uint32_t zero[4] = { 0 };
    uint32_t w[4];

    vc_philox(zero, zero, w);
    assert_int_equal(w[0], 0x6627e8d5u);
    assert_int_equal(w[1], 0xe169c58du);
    assert_int_equal(w[2], 0xbc57ac4cu);
    assert_int_equal(w[3], 0x9b00dbd8u);
}

/* A choice whose draws are given. */
typedef struct example {
    const char *family;
    int v, i, t, n, stride;
    bool adapt, token, ratio;
    int fix_h, fix_w;
    bool video;
    int w, h, total;
    vb_picks given;
    const char *key;
    int target[2], resize[2], crop[2];
    int frames[3];                       /* by the frame rules doc, peer and tokens */
    int last_start;                      /* end of the start's range by the rule doc */
} example;

#define PICKS(size, ratio) { size, ratio, -1, -1, -1 }
static const example examples[] = {
    { "cogvideox", 512, 512, 512, 49, 3, 1, 1, 0, 0, 0, 1, 1920, 1080, 300, PICKS(-1, -1),
      "0.57", { 384, 672 }, { 384, 682 }, { 0, 5 }, { 49, 49, 49 }, 155 },
    { "cogvideox1.5", 512, 512, 512, 49, 3, 1, 1, 0, 0, 0, 1, 1920, 1080, 300, PICKS(-1, -1),
      "0.57", { 384, 672 }, { 384, 682 }, { 0, 5 }, { 45, 45, 45 }, 167 },
    { "cogvideox1.5", 512, 512, 512, 49, 3, 1, 1, 0, 0, 0, 1, 1920, 1080, 100, PICKS(-1, -1),
      "0.57", { 384, 672 }, { 384, 682 }, { 0, 5 }, { 29, 29, 29 }, 15 },
    { "hunyuanvideo", 640, 640, 640, 81, 2, 1, 1, 0, 0, 0, 1, 1280, 720, 240, PICKS(-1, -1),
      "0.57", { 480, 832 }, { 480, 853 }, { 0, 10 }, { 81, 81, 81 }, 79 },
    { "hunyuanvideo", 640, 640, 640, 81, 2, 1, 1, 0, 0, 0, 1, 720, 1280, 100, PICKS(-1, -1),
      "1.75", { 832, 480 }, { 853, 480 }, { 10, 0 }, { 49, 49, 49 }, 3 },
    { "hunyuanvideo", 640, 640, 640, 81, 2, 1, 1, 0, 0, 0, 1, 1280, 720, 5, PICKS(-1, -1),
      "0.57", { 480, 832 }, { 480, 853 }, { 0, 10 }, { 1, 1, 1 }, 4 },
    { "hunyuanvideo", 256, 1024, 512, 49, 2, 1, 1, 0, 0, 0, 1, 1920, 1080, 400, PICKS(4, -1),
      "0.57", { 576, 1008 }, { 576, 1024 }, { 0, 8 }, { 21, 21, 17 }, 359 },
    { "hunyuanvideo", 256, 1024, 512, 49, 2, 1, 1, 0, 0, 0, 1, 1920, 1080, 400, PICKS(6, -1),
      "0.57", { 768, 1344 }, { 768, 1365 }, { 0, 10 }, { 9, 13, 9 }, 383 },
    { "hunyuanvideo", 256, 1024, 512, 49, 2, 1, 1, 0, 0, 0, 1, 640, 480, 400, PICKS(3, -1),
      "0.72", { 512, 720 }, { 540, 720 }, { 14, 0 }, { 29, 29, 33 }, 343 },
    { "hunyuanvideo", 512, 512, 512, 49, 3, 1, 1, 0, 0, 0, 1, 333, 777, 147, PICKS(-1, -1),
      "2.4", { 768, 320 }, { 768, 329 }, { 0, 4 }, { 49, 49, 49 }, 2 },
    { "hunyuanvideo", 1024, 1024, 512, 49, 2, 1, 0, 0, 0, 0, 1, 1920, 1080, 200, PICKS(1, -1),
      "0.57", { 608, 1072 }, { 608, 1080 }, { 0, 4 }, { 49, 49, 17 }, 103 },
    { "wan2.1", 512, 512, 512, 49, 1, 1, 0, 0, 0, 0, 0, 1024, 768, 0, PICKS(-1, -1),
      "0.72", { 416, 576 }, { 432, 576 }, { 8, 0 }, { 1, 1, 1 }, 0 },
    { "wan2.1", 512, 512, 512, 49, 1, 1, 0, 0, 0, 0, 0, 768, 1024, 0, PICKS(-1, -1),
      "1.29", { 576, 448 }, { 597, 448 }, { 10, 0 }, { 1, 1, 1 }, 0 },
    { "wan2.1", 256, 1024, 512, 49, 1, 1, 0, 0, 0, 0, 0, 1024, 768, 0, PICKS(2, -1),
      "0.72", { 544, 768 }, { 576, 768 }, { 16, 0 }, { 1, 1, 1 }, 0 },
    { "wan2.1", 512, 512, 512, 49, 1, 1, 1, 1, 0, 0, 1, 854, 480, 200, PICKS(-1, 11),
      "1.46", { 608, 416 }, { 608, 1081 }, { 0, 332 }, { 49, 49, 49 }, 151 },
    { "wan2.1", 512, 512, 512, 49, 1, 0, 0, 0, 480, 832, 1, 1920, 1080, 200, PICKS(-1, -1),
      "480x832", { 480, 832 }, { 480, 853 }, { 0, 10 }, { 49, 49, 29 }, 151 },
    { "wan2.2-5b", 704, 704, 512, 121, 1, 1, 1, 0, 0, 0, 1, 1001, 999, 60, PICKS(-1, -1),
      "1.0", { 704, 704 }, { 704, 705 }, { 0, 0 }, { 57, 57, 57 }, 3 },
    { "wan2.1", 224, 384, 512, 49, 1, 1, 1, 0, 0, 0, 1, 640, 384, 60, PICKS(2, -1),
      "0.6", { 288, 480 }, { 288, 480 }, { 0, 0 }, { 49, 49, 49 }, 11 },
    /* the source has the target's shape; in doubles the resized picture would lack a line */
    { "wan2.1", 640, 640, 640, 81, 1, 0, 0, 1, 0, 0, 1, 624, 360, 90, PICKS(-1, 2),
      "0.57", { 480, 832 }, { 480, 832 }, { 0, 0 }, { 81, 81, 81 }, 9 },
    /* 49 frames at stride 3 span 145 frames, with the last one */
    { "wan2.1", 512, 512, 512, 49, 3, 0, 0, 0, 0, 0, 1, 512, 512, 145, PICKS(-1, -1),
      "1.0", { 512, 512 }, { 512, 512 }, { 0, 0 }, { 49, 49, 49 }, 0 },
    /* tiny and elongated */
    { "ltx-video", 512, 512, 512, 17, 4, 0, 0, 0, 0, 0, 1, 7, 13, 1, PICKS(-1, -1),
      "1.75", { 672, 384 }, { 713, 384 }, { 20, 0 }, { 1, 1, 1 }, 0 },
    { "wan2.1", 512, 512, 512, 17, 4, 0, 0, 0, 0, 0, 1, 400, 34, 10, PICKS(-1, -1),
      "0.25", { 256, 1024 }, { 256, 3011 }, { 0, 994 }, { 1, 1, 1 }, 9 },
};

static void run_example(size_t number, const example *e, vb_frame_rule rule)
{
    vb_rules r = rules_of(e->family, e->v, e->i, e->t, e->n, e->stride);
    r.random_hw_adapt = e->adapt;
    r.token_length = e->token;
    r.random_ratio_crop = e->ratio;
    r.fix_h = e->fix_h;
    r.fix_w = e->fix_w;
    r.frame_rule = rule;
    check(&r);
    vb_source s = { .is_video = e->video, .w = e->w, .h = e->h, .frames = e->total };
    vb_choice c;
    vb_choose_given(&c, &r, &s, 1, 0, 7, &e->given);

    const vb_draw *start = find_draw(&c, "start");
    int64_t last = start ? start->hi : 0;
    if (c.drop || strcmp(c.key, e->key) || c.target_h != e->target[0]
            || c.target_w != e->target[1] || c.resize_h != e->resize[0]
            || c.resize_w != e->resize[1] || c.top != e->crop[0] || c.left != e->crop[1]
            || c.frames != e->frames[rule] || (rule == VB_RULE_DOC && last != e->last_start))
        fail_msg("example %zu, rule %d: %s%s, target %d %d, resize %d %d, crop %d,%d, %d frames, "
                 "last start %lld", number, rule, c.reason, c.key, c.target_h, c.target_w,
                 c.resize_h, c.resize_w, c.top, c.left, c.frames, (long long)last);
    assert_true(!start || (start->lo == 0 && start->pick == c.start));
    assert_int_equal(find_draw(&c, "size") != NULL, e->given.size >= 0);
    assert_int_equal(find_draw(&c, "ratio") != NULL, e->given.ratio >= 0);
}

static void test_examples(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(examples); i++)
        for (int rule = VB_RULE_DOC; rule <= VB_RULE_TOKENS; rule++)
            run_example(i + 1, &examples[i], (vb_frame_rule)rule);
}

/* The worked examples of docs/sampling.md: the choices of seed 42 must never change, because
 * datasets would no longer be reproducible. */
static void test_documented(void **state)
{
    (void)state;
    enum { ADAPT = 1, TOKEN = 2, RATIO = 4, CROP = 8, FLIP = 16, FIXED = 32, STILL = 64 };
    static const struct {
        const char *family;
        int v, i, t, n, stride, flags, rule;
        uint64_t id;                     /* XXH3-64 of "a.mp4", "b.mp4", ... */
        uint32_t variant;
        int w, h, total;
        const char *want;
    } rows[] = {
        { "builtin", 512, 512, 512, 17, 4, 0, 0, 0x8295804c46ef28eb, 0, 1280, 720, 240,
          "0.57 384 672 384 682 0,5 17:152..216 5040" },
        { "hunyuanvideo", 256, 1024, 512, 49, 2, ADAPT | TOKEN, 0, 0x8295804c46ef28eb, 0, 1920,
          1080, 400, "0.57 384 672 384 682 0,5 49:263..359 13104" },
        { "hunyuanvideo", 256, 1024, 512, 49, 2, ADAPT | TOKEN, 0, 0x8295804c46ef28eb, 3, 1920,
          1080, 400, "0.57 672 1168 672 1194 0,13 13:266..290 12264" },
        { "hunyuanvideo", 256, 1024, 512, 49, 2, ADAPT | TOKEN, 0, 0x5f5738cfad64c442, 0, 640, 480,
          400, "0.72 416 576 432 576 8,0 49:275..371 12168" },
        { "cogvideox1.5", 512, 512, 512, 49, 3, ADAPT | TOKEN, 0, 0x8295804c46ef28eb, 0, 1920,
          1080, 100, "0.57 384 672 384 682 0,5 29:13..97 4032" },
        { "wan2.2-5b", 704, 704, 704, 121, 1, ADAPT | TOKEN | CROP | FLIP, VB_RULE_TOKENS,
          0x2190645a9a3edb49, 0, 1001, 999, 300, "1.0 704 704 704 705 0,0 89:121..209 11132" },
        { "wan2.1", 512, 512, 512, 49, 1, RATIO, 0, 0x8295804c46ef28eb, 0, 854, 480, 200,
          "0.88 480 544 480 854 0,155 49:131..179 13260" },
        { "wan2.1", 512, 512, 512, 81, 1, FIXED, 0, 0x8295804c46ef28eb, 0, 1920, 1080, 200,
          "480x832 480 832 480 853 0,10 81:104..184 32760" },
        { "ltx-video", 512, 768, 512, 97, 1, ADAPT | TOKEN, 0, 0x3623a0cd056e29c6, 0, 1080, 1920,
          250, "1.75 672 384 682 384 5,0 97:124..220 3276" },
        { "flux", 512, 1024, 512, 1, 1, ADAPT | FLIP | STILL, 0, 0xa59e670f04eaae89, 0, 1024, 768,
          0, "0.72 832 1152 864 1152 16,0 1:0..0 3744" },
        { "flux", 512, 1024, 512, 1, 1, ADAPT | FLIP | STILL, 0, 0x007a2435470fec21, 0, 400, 34,
          0, "0.25 256 1024 256 3011 0,994 1:0..0 1024 flip" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const int flags = rows[i].flags;
        vb_rules r = rules_of(rows[i].family, rows[i].v, rows[i].i, rows[i].t, rows[i].n,
                              rows[i].stride);
        r.random_hw_adapt = flags & ADAPT;
        r.token_length = flags & TOKEN;
        r.random_ratio_crop = flags & RATIO;
        r.random_frame_crop = flags & CROP;
        r.random_flip = flags & FLIP;
        r.fix_h = flags & FIXED ? 480 : 0;
        r.fix_w = flags & FIXED ? 832 : 0;
        r.frame_rule = (vb_frame_rule)rows[i].rule;
        check(&r);
        vb_source s = { !(flags & STILL), rows[i].w, rows[i].h, rows[i].total, false };
        vb_choice c;
        vb_choose(&c, &r, &s, rows[i].id, rows[i].variant, 42);
        char text[400];
        snprintf(text, sizeof text, "%s%s %d %d %d %d %d,%d %d:%lld..%lld %lld%s", c.reason, c.key,
                 c.target_h, c.target_w, c.resize_h, c.resize_w, c.top, c.left, c.frames,
                 (long long)c.start, (long long)(c.start + (c.frames - 1) * c.stride),
                 (long long)c.tokens, c.flip ? " flip" : "");
        if (strcmp(text, rows[i].want))
            fail_msg("row %zu: \"%s\", not \"%s\"", i + 1, text, rows[i].want);
    }
}

static void test_without_buckets(void **state)
{
    (void)state;
    vb_rules r = rules_of("wan2.1", 500, 250, 512, 16, 2);
    r.enable_bucket = false;
    r.random_hw_adapt = r.token_length = r.random_ratio_crop = true;
    check(&r);
    vb_choice c;

    vb_choose(&c, &r, &(vb_source){ true, 1920, 1080, 100, false }, 1, 0, 0);
    assert_string_equal(c.key, "496x496");
    assert_int_equal(c.resize_h, 496);
    assert_int_equal(c.resize_w, 881);
    assert_int_equal(c.left, 192);                   /* 385 / 2 = 192.5 rounds to even */
    assert_int_equal(c.frames, 13);
    assert_int_equal(c.n_draws, 1);
    assert_int_equal(c.draws[0].hi, 99 - 24);
    vb_choose(&c, &r, &(vb_source){ false, 1080, 1920, 0, false }, 1, 0, 0);
    assert_string_equal(c.key, "240x240");
    assert_int_equal(c.frames, 1);
    assert_int_equal(c.n_draws, 0);
}

/* The start is the high half of the product of its stream's first word and the number of starts. */
static void test_draws_are_philox(void **state)
{
    (void)state;
    vb_rules r = rules_of("wan2.1", 512, 512, 512, 49, 2);
    r.random_flip = true;
    check(&r);
    vb_source s = { .is_video = true, .w = 1920, .h = 1080, .frames = 400 };
    const uint64_t seed = 0x1122334455667788, id = 0xaabbccddeeff0011;

    for (uint32_t variant = 0; variant < 50; variant++) {
        const uint32_t key[2] = { 0x55667788, 0x11223344 };
        uint32_t ctr[4] = { 0, 0xeeff0011, 0xaabbccdd, variant * 256 }, w[4];
        vb_choice c;
        vb_choose(&c, &r, &s, id, variant, seed);
        vc_philox(key, ctr, w);
        assert_int_equal(c.start, (uint64_t)w[0] * (399 - 96 + 1) >> 32);
        ctr[3] += 4;                                 /* flip */
        vc_philox(key, ctr, w);
        assert_int_equal(c.flip, w[0] >> 31);
    }
}

static double share(const vb_rules *r, const vb_source *s, const char *purpose, int index)
{
    int hits = 0, n = 20000;
    for (int i = 0; i < n; i++) {
        vb_choice c;
        vb_choose(&c, r, s, (uint64_t)i * 0x9e3779b97f4a7c15, 0, 1);
        const vb_draw *d = find_draw(&c, purpose);
        assert_non_null(d);
        hits += (d->is_range ? (int)d->pick : d->picked) == index;
    }
    return (double)hits / n;
}

static void test_probabilities(void **state)
{
    (void)state;
    vb_source video = { .is_video = true, .w = 1920, .h = 1080, .frames = 400 };
    vb_source still = { .w = 1920, .h = 1080 };
    vb_rules r = rules_of("wan2.1", 256, 1024, 512, 49, 2);
    r.random_hw_adapt = r.token_length = r.random_ratio_crop = true;
    r.random_frame_crop = r.random_flip = true;
    check(&r);
    const struct { const vb_source *s; const char *purpose; int index; double p; } rows[] = {
        { &video, "size", 0, 1 / 7. },       { &video, "size", 6, 1 / 7. },
        { &still, "size", 0, 0.75 },         { &still, "size", 1, 0.0625 },
        { &still, "size", 4, 0.0625 },
        { &video, "ratio", 0, 1 / 62. },     { &video, "ratio", 7, 8 / 62. },
        { &video, "ratio", 14, 1 / 62. },
        { &video, "frame_crop", 11, 0.90 },  { &video, "frame_crop", 0, 0.1 / 11 },
        { &still, "flip", 1, 0.5 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        double got = share(&r, rows[i].s, rows[i].purpose, rows[i].index);
        double sigma = sqrt(rows[i].p * (1 - rows[i].p) / 20000);
        if (fabs(got - rows[i].p) > 4 * sigma)
            fail_msg("%s %d: %f, not %f", rows[i].purpose, rows[i].index, got, rows[i].p);
    }
}

static void test_frame_crop(void **state)
{
    (void)state;
    static const struct { int n, k, options; const char *first, *last; int frames; } rows[] = {
        { 49, 4, 12, "5", "49", 5 }, { 50, 4, 13, "5", "53", 5 }, { 6, 4, 2, "5", "9", 5 },
        { 5, 4, 0, "", "", 5 }, { 2, 4, 0, "", "", 1 }, { 1, 4, 0, "", "", 1 },
        { 33, 8, 4, "9", "33", 9 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vb_rules r = rules_of(rows[i].k == 8 ? "ltx-video" : "wan2.1", 512, 512, 512, rows[i].n, 1);
        r.random_frame_crop = true;
        check(&r);
        vb_picks given = VB_NO_PICKS;
        given.frame_crop = 0;
        vb_choice c;
        vb_choose_given(&c, &r, &(vb_source){ true, 640, 480, 1000, false }, 1, 0, 0, &given);
        const vb_draw *d = find_draw(&c, "frame_crop");
        assert_int_equal(d ? d->n_options : 0, rows[i].options);
        assert_int_equal(c.frames, rows[i].frames);
        assert_int_equal(find_draw(&c, "start")->hi, 1000 - c.frames);
        if (!d)
            continue;
        assert_string_equal(d->options[0], rows[i].first);
        assert_string_equal(d->options[d->n_options - 1], rows[i].last);
    }
}

static void test_flip_spares_captions(void **state)
{
    (void)state;
    vb_rules r = rules_of("flux", 512, 512, 512, 1, 1);
    r.random_flip = true;
    check(&r);
    for (uint64_t id = 0; id < 100; id++) {
        vb_choice c;
        vb_choose(&c, &r, &(vb_source){ .w = 640, .h = 480, .lr_caption = true }, id, 0, 0);
        assert_false(c.flip);
        assert_int_equal(c.n_draws, 0);
    }
}

static void test_drops(void **state)
{
    (void)state;
    static const struct {
        const char *family;
        vb_on_small small;
        vb_source s;
        const char *reason;              /* NULL if the sample is kept */
        int fix_h, fix_w;
    } rows[] = {
        { "flux", 0, { true, 640, 480, 33, false }, "33 frames; flux takes stills only", 0, 0 },
        { "flux", 0, { false, 640, 480, 0, false }, NULL, 0, 0 },
        { "wan2.1", 0, { true, 640, 480, 0, false }, "0 frames", 0, 0 },
        { "wan2.1", 0, { true, 640, 480, -3, false }, "-3 frames", 0, 0 },
        { "wan2.1", 0, { true, 640, 480, INT64_MAX, false }, "9223372036854775807 frames", 0, 0 },
        { "wan2.1", 0, { true, 640, 480, INT32_MAX, false }, NULL, 0, 0 },
        { "wan2.1", 0, { false, 0, 480, 0, false }, "0x480", 0, 0 },
        { "wan2.1", 0, { false, 640, -1, 0, false }, "640x-1", 0, 0 },
        { "wan2.1", 0, { false, 1, INT32_MAX, 0, false }, "256x549755813632", 0, 0 },
        { "wan2.1", 0, { false, INT32_MAX, INT32_MAX, 0, false }, NULL, 0, 0 },
        { "wan2.1", 0, { false, 1, 1, 0, false }, NULL, 0, 0 },
        { "wan2.1", 0, { false, 1, 255, 0, false }, NULL, 0, 0 },
        { "wan2.1", 0, { false, 1, 256, 0, false }, "65536", 0, 0 },
        { "wan2.1", VB_SMALL_DROP, { false, 1, 1, 0, false }, "size 512 is 512 times", 0, 0 },
        { "wan2.1", VB_SMALL_DROP, { false, 410, 410, 0, false }, NULL, 0, 0 },
        { "wan2.1", VB_SMALL_DROP, { false, 409, 409, 0, false }, "409x409 has", 0, 0 },
        { "wan2.1", VB_SMALL_DROP, { false, 600, 426, 0, false }, NULL, 480, 832 },
        { "wan2.1", VB_SMALL_DROP, { false, 600, 425, 0, false }, "is 1.2514 times", 480, 832 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vb_rules r = rules_of(rows[i].family, 512, 512, 512, 17, 4);
        r.on_small = rows[i].small;
        r.fix_h = rows[i].fix_h;
        r.fix_w = rows[i].fix_w;
        check(&r);
        vb_choice c;
        vb_choose(&c, &r, &rows[i].s, 1, 0, 0);
        if (c.drop != !!rows[i].reason || (c.drop && !strstr(c.reason, rows[i].reason)))
            fail_msg("row %zu: drop %d, \"%s\"", i, c.drop, c.reason);
    }
}

static void test_sizes(void **state)
{
    (void)state;
    vb_rules r = rules_of("wan2.1", 256, 1024, 512, 49, 2);
    r.random_hw_adapt = r.token_length = true;
    check(&r);
    int64_t p[VB_MAX_OPTIONS];
    vb_source video = { .is_video = true, .w = 1920, .h = 1080, .frames = 400 };
    vb_choice c;

    assert_int_equal(vb_sizes(&r, &video, p, VB_MAX_OPTIONS), 7);
    assert_int_equal(p[0], 256);
    assert_int_equal(p[6], 1024);
    assert_int_equal(vb_sizes(&r, &video, p, 3), 3);
    vb_choose_size(&c, &r, &video, 1, 4, 0, 768);
    assert_int_equal(c.target_h, 576);
    assert_string_equal(find_draw(&c, "size")->options[find_draw(&c, "size")->picked], "768");

    vb_source still = { .w = 1024, .h = 768 };       /* ratios 1, 1.25, 1.5, 2, 4 of 1024 */
    static const int64_t want[] = { 256, 512, 682, 819, 1024 };
    assert_int_equal(vb_sizes(&r, &still, p, VB_MAX_OPTIONS), 5);
    assert_memory_equal(p, want, sizeof want);
    vb_choose_size(&c, &r, &still, 1, 0, 0, 682);
    assert_int_equal(c.target_w, 768);

    r.fix_h = r.fix_w = 512;
    check(&r);
    assert_int_equal(vb_sizes(&r, &video, p, VB_MAX_OPTIONS), 1);
    vb_choose_size(&c, &r, &video, 1, 0, 0, p[0]);
    assert_string_equal(c.key, "512x512");
}

/* ---- random rules and sources ---- */

static uint32_t draw_below(vc_draws *d, uint32_t n)
{
    return vc_draw_int(d, n);
}

/* Returns lo..hi; the logarithm is uniform. */
static int64_t draw_magnitude(vc_draws *d, int64_t lo, int64_t hi)
{
    double x = (double)lo * pow((double)hi / (double)lo, vc_draw_unit(d));
    return x < (double)lo ? lo : x > (double)hi ? hi : (int64_t)x;
}

static vb_rules random_rules(vc_draws *d)
{
    const vc_family *f = &vc_families()[draw_below(d, 9)];
    vb_rules r = rules_of(f->name, draw_magnitude(d, 32, 2048),
                          draw_magnitude(d, 32, 2048), draw_magnitude(d, 32, 2048),
                          draw_magnitude(d, 1, 500), draw_magnitude(d, 1, 30));
    uint32_t flags = draw_below(d, 1u << 10);
    r.enable_bucket = flags & 7;
    r.random_hw_adapt = flags & 8;
    r.token_length = flags & 16;
    r.random_ratio_crop = flags & 32;
    r.random_frame_crop = flags & 64;
    r.random_flip = flags & 128;
    r.on_small = flags & 0x300 ? VB_SMALL_ENLARGE : VB_SMALL_DROP;
    r.allow_upscale = true;
    r.frame_rule = (vb_frame_rule)draw_below(d, 3);
    r.max_upscale = 0.5 + 2 * vc_draw_unit(d);
    if (draw_below(d, 8) == 0) {
        r.fix_h = draw_magnitude(d, 32, 2048);
        r.fix_w = draw_magnitude(d, 32, 2048);
    }
    return r;
}

static vb_source random_source(vc_draws *d)
{
    vb_source s = { .is_video = draw_below(d, 3), .frames = draw_magnitude(d, 1, 5000) };
    s.w = (int)draw_magnitude(d, 1, 10000);
    s.h = (int)draw_magnitude(d, 1, 10000);
    if (draw_below(d, 100) == 0)
        s.w = (int)draw_magnitude(d, 1, INT32_MAX);
    if (draw_below(d, 100) == 0)
        s.h = (int)draw_magnitude(d, 1, INT32_MAX);
    if (draw_below(d, 100) == 0)
        s.frames = draw_magnitude(d, 1, INT64_MAX);
    return s;
}

/* Whether a choice has the properties of every choice. */
static bool holds(const vb_choice *c, const vb_rules *r, const vb_source *s)
{
    const vc_family *f = r->family;
    int64_t budget = ((r->n_frames - 1) / f->ratio[0] + 1) * (r->token_sample_size / f->multiple)
                   * (r->token_sample_size / f->multiple);
    int64_t grid = (int64_t)c->latent_f * (c->target_h / f->multiple) * (c->target_w / f->multiple);
    int64_t count = (s->frames - 1) / r->stride + 1;

    return c->target_h >= f->multiple && c->target_w >= f->multiple
        && c->target_h % f->multiple == 0 && c->target_w % f->multiple == 0
        && c->resize_h >= c->target_h && c->resize_w >= c->target_w
        && (c->resize_h == c->target_h || c->resize_w == c->target_w)
        && c->top >= 0 && c->top + c->target_h <= c->resize_h
        && c->left >= 0 && c->left + c->target_w <= c->resize_w
        && c->frames >= 1 && c->frames % f->ratio[0] == 1 % f->ratio[0]
        && c->latent_f == (c->frames - 1) / f->ratio[0] + 1
        && (c->frames == 1 || c->latent_f % f->patch_t == 0)
        && c->frames <= r->n_frames && (s->is_video || c->frames == 1)
        && (!s->is_video || c->frames <= count)
        && c->start >= 0 && c->stride == r->stride
        && (s->is_video ? c->start + (c->frames - 1) * c->stride < s->frames : c->start == 0)
        && (r->frame_rule != VB_RULE_TOKENS || c->frames == 1 || grid <= budget)
        && c->latent_h * f->ratio[1] == c->target_h && c->latent_w * f->ratio[1] == c->target_w
        && c->tokens == grid / c->latent_f * ((c->latent_f + f->patch_t - 1) / f->patch_t)
        && c->upscale >= 1 && c->n_draws <= 5 && (r->random_flip || !c->flip);
}

static void check_sizes(const vb_rules *r, const vb_source *s, uint64_t id)
{
    int64_t p[VB_MAX_OPTIONS];
    int n = vb_sizes(r, s, p, VB_MAX_OPTIONS);

    assert_between(n, 1, VB_MAX_OPTIONS);
    for (int i = 0; i < n; i++) {
        vb_choice c;
        vb_choose_size(&c, r, s, id, (uint32_t)i, 0, p[i]);
        assert_true(i == 0 || p[i] > p[i - 1]);
        assert_true(c.drop || holds(&c, r, s));
    }
}

/* Compares all fields that are set: n_draws draws, and n_options options of each. */
static void assert_same_choice(const vb_choice *a, const vb_choice *b)
{
    assert_memory_equal(a, b, offsetof(vb_choice, draws));
    for (int i = 0; i < a->n_draws; i++) {
        assert_memory_equal(&a->draws[i], &b->draws[i], offsetof(vb_draw, options));
        for (int k = 0; k < a->draws[i].n_options; k++)
            assert_string_equal(a->draws[i].options[k], b->draws[i].options[k]);
    }
}

static void test_properties(void **state)
{
    (void)state;
    vc_draws d = vc_draws_of(20260504, 0, 0, 0);
    int kept = 0, dropped = 0;
    static vb_choice a, b;

    for (int i = 0; i < 100000; i++) {
        vb_rules r = random_rules(&d);
        vb_source s = random_source(&d);
        vc_err err;
        if (vb_rules_check(&r, NULL, &err))
            fail_msg("input %d: %s", i, err.text);
        uint64_t id = (uint64_t)draw_below(&d, UINT32_MAX) << 32 | draw_below(&d, UINT32_MAX);
        uint32_t variant = draw_below(&d, 64);
        vb_choose(&a, &r, &s, id, variant, (uint64_t)i);
        if (a.drop) {
            assert_true(strpbrk(a.reason, "0123456789") != NULL);
            dropped++;
            continue;
        }
        kept++;
        if (!holds(&a, &r, &s))
            fail_msg("input %d: %dx%d, %lld frames: target %dx%d, resize %dx%d, crop %d,%d, "
                     "%d frames from %lld", i, s.w, s.h, (long long)s.frames, a.target_w,
                     a.target_h, a.resize_w, a.resize_h, a.left, a.top, a.frames,
                     (long long)a.start);
        vb_choose(&b, &r, &s, id, variant, (uint64_t)i);
        assert_same_choice(&a, &b);
        if (i % 20 == 0)
            check_sizes(&r, &s, id);
    }
    print_message("%d kept, %d dropped\n", kept, dropped);
    assert_true(kept > 60000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox),
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_documented),
        cmocka_unit_test(test_without_buckets),
        cmocka_unit_test(test_draws_are_philox),
        cmocka_unit_test(test_probabilities),
        cmocka_unit_test(test_frame_crop),
        cmocka_unit_test(test_flip_spares_captions),
        cmocka_unit_test(test_drops),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_properties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
