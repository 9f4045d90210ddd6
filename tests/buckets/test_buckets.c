/* test_buckets.c - tables, size lists, frame counts, and the check of the rules. */
#include "tests/buckets/buckets_rules.h"

static void test_frame_limits(void **state)
{
    (void)state;
    enum { DOC = VB_RULE_DOC, PEER = VB_RULE_PEER, TOKENS = VB_RULE_TOKENS };
    static const struct { int n, t, rule, p, frames; } rows[] = {
        { 49, 512, PEER, 256, 49 }, { 49, 512, PEER, 384, 49 }, { 49, 512, PEER, 512, 49 },
        { 49, 512, PEER, 640, 29 }, { 49, 512, PEER, 704, 25 }, { 49, 512, PEER, 768, 21 },
        { 49, 512, PEER, 832, 17 }, { 49, 512, PEER, 896, 17 }, { 49, 512, PEER, 960, 13 },
        { 49, 512, PEER, 1024, 13 },
        { 49, 640, PEER, 512, 49 }, { 49, 640, PEER, 640, 49 }, { 49, 640, PEER, 768, 33 },
        { 49, 640, PEER, 896, 25 }, { 49, 640, PEER, 1024, 17 },
        { 49, 1024, PEER, 256, 49 }, { 49, 1024, PEER, 1024, 49 },
        { 81, 640, PEER, 320, 81 }, { 81, 640, PEER, 448, 81 }, { 81, 640, PEER, 576, 81 },
        { 81, 640, PEER, 512, 81 }, { 81, 640, PEER, 640, 81 }, { 81, 640, PEER, 704, 65 },
        { 81, 640, PEER, 768, 57 }, { 81, 640, PEER, 832, 45 }, { 81, 640, PEER, 896, 41 },
        { 81, 640, PEER, 960, 37 }, { 81, 640, PEER, 1024, 29 },

        { 49, 512, DOC, 512, 49 }, { 49, 512, DOC, 640, 29 }, { 49, 512, DOC, 704, 25 },
        { 49, 512, DOC, 768, 21 }, { 49, 512, DOC, 832, 17 }, { 49, 512, DOC, 896, 13 },
        { 49, 512, DOC, 960, 13 }, { 49, 512, DOC, 1024, 9 },
        { 81, 640, DOC, 512, 81 }, { 81, 640, DOC, 640, 81 }, { 81, 640, DOC, 704, 65 },
        { 81, 640, DOC, 768, 53 }, { 81, 640, DOC, 832, 45 }, { 81, 640, DOC, 896, 41 },
        { 81, 640, DOC, 960, 33 }, { 81, 640, DOC, 1024, 29 },
        { 49, 512, DOC, 4096, 1 },

        { 49, 512, TOKENS, 512, 49 }, { 49, 512, TOKENS, 640, 29 }, { 49, 512, TOKENS, 704, 21 },
        { 49, 512, TOKENS, 768, 17 }, { 49, 512, TOKENS, 832, 13 }, { 49, 512, TOKENS, 896, 13 },
        { 49, 512, TOKENS, 960, 9 }, { 49, 512, TOKENS, 1024, 9 },
        { 81, 640, TOKENS, 512, 81 }, { 81, 640, TOKENS, 640, 81 }, { 81, 640, TOKENS, 704, 65 },
        { 81, 640, TOKENS, 768, 53 }, { 81, 640, TOKENS, 832, 45 }, { 81, 640, TOKENS, 896, 37 },
        { 81, 640, TOKENS, 960, 33 }, { 81, 640, TOKENS, 1024, 29 },
        { 49, 512, TOKENS, 4096, 1 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vb_rules r = rules_of("wan2.1", 512, 512, rows[i].t, rows[i].n, 1);
        r.frame_rule = (vb_frame_rule)rows[i].rule;
        int64_t got = vb_frame_limit(&r, rows[i].p, rows[i].p, rows[i].p);
        if (got != rows[i].frames)
            fail_msg("n %d, T %d, rule %d, p %d: %lld, not %d", rows[i].n, rows[i].t, rows[i].rule,
                     rows[i].p, (long long)got, rows[i].frames);
    }
}

static void test_alignment(void **state)
{
    (void)state;
    static const struct { const char *family; int count, frames; } rows[] = {
        { "wan2.1", 49, 49 },       { "wan2.1", 48, 45 },       { "wan2.1", 4, 1 },
        { "wan2.1", 5, 5 },         { "wan2.1", 1, 1 },         { "wan2.1", 57, 57 },
        { "cogvideox1.5", 49, 45 }, { "cogvideox1.5", 81, 77 }, { "cogvideox1.5", 85, 85 },
        { "cogvideox1.5", 33, 29 }, { "cogvideox1.5", 5, 5 },   { "cogvideox1.5", 4, 1 },
        { "ltx-video", 49, 49 },    { "ltx-video", 48, 41 },    { "ltx-video", 8, 1 },
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(vb_align_frames(vc_family_find(rows[i].family), rows[i].count),
                         rows[i].frames);
}

static void test_nearest(void **state)
{
    (void)state;
    static const struct { int h, w; const char *key; } rows[] = {
        { 1080, 1920, "0.57" }, { 1920, 1080, "1.75" }, { 768, 1024, "0.72" },
        { 1024, 768, "1.29" },  { 777, 333, "2.4" },    { 384, 640, "0.6" },
        { 1, 1, "1.0" },        { 1, 400, "0.25" },     { 400, 1, "4.0" },
        { 34, 400, "0.25" },    { 13, 7, "1.75" },      { 7, 13, "0.52" },
        /* at a tie the wider bucket is chosen */
        { 51, 200, "0.25" },    { 207, 200, "1.0" },    { 97, 100, "0.94" },
        { 110, 100, "1.07" },   { 109, 200, "0.52" },    { 394, 100, "3.88" },
        /* just below and above a tie */
        { 2070001, 2000000, "1.07" }, { 2069999, 2000000, "1.0" },
        { 970000001, 1000000000, "1.0" }, { 969999999, 1000000000, "0.94" },
        { INT32_MAX, 1, "4.0" }, { 1, INT32_MAX, "0.25" }, { INT32_MAX, INT32_MAX, "1.0" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const vb_bucket *b = vb_bucket_nearest(rows[i].h, rows[i].w);
        if (strcmp(b->key, rows[i].key))
            fail_msg("%d/%d: %s, not %s", rows[i].h, rows[i].w, b->key, rows[i].key);
    }
    for (int i = 0; i < VB_N_BUCKETS; i++) {
        assert_int_equal(lround(atof(vb_buckets[i].key) * 100), vb_buckets[i].key100);
        assert_true(i == 0 || vb_buckets[i].key100 > vb_buckets[i - 1].key100);
        assert_int_equal(vb_buckets[i].h % 32 + vb_buckets[i].w % 32, 0);
    }
}

static void test_ratio_weights(void **state)
{
    (void)state;
    static const char *const keys[] = { "0.42", "0.5", "0.57", "0.68", "0.78", "0.88", "0.94",
        "1.0", "1.07", "1.13", "1.29", "1.46", "1.75", "2.0", "2.4" };
    uint32_t sum = 0;
    for (int i = 0; i < VB_N_RATIO_KEYS; i++) {
        assert_string_equal(vb_ratio_crop.bucket[i]->key, keys[i]);
        sum += vb_ratio_crop.weight[i];
    }
    assert_int_equal(sum, 62);
}

/* In doubles these sizes would be wrong: (x / 512 * B) / d is slightly below the multiple. */
static void test_exact_sides(void **state)
{
    (void)state;
    static const struct { int x, num, den, side; } rows[] = {
        { 640, 384, 1, 480 },  { 640, 400, 1, 496 }, { 672, 800, 1, 1040 }, { 640, 1536, 1, 1920 },
        { 384, 4096, 5, 608 }, { 672, 4096, 5, 1072 }, { 256, 16, 1, 16 },  { 512, 31, 1, 16 },
        { 1024, 16384, 1, 32768 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vb_size p = { .num = rows[i].num, .den = rows[i].den };
        assert_int_equal(vb_side(vc_family_find("wan2.1"), rows[i].x, &p), rows[i].side);
    }
}

/* The lists of options are spelled as in a plan. */
static void test_size_lists(void **state)
{
    (void)state;
    static const struct {
        bool video, token;
        int v, i, w, h;
        double upscale;
        const char *list;
    } rows[] = {
        { true,  true,  256, 1024, 1920, 1080, 1.25, "256 384 512 640 768 896 1024" },
        { true,  true,  256, 1024,  640,  480, 1.25, "256 384 512 640" },
        { true,  true,  256, 1024,  640,  480, 1,    "256 384 512" },
        { true,  true,  256, 1024,   64,   48, 1.25, "256" },
        { true,  true,  256,  700, 1920, 1080, 1.25, "256 384 512 640 700" },
        { true,  true,  224,  384,  640,  384, 1.25, "224 352 384" },
        { true,  true,  512,  512, 1920, 1080, 1.25, "512" },
        { true,  true,  512,  640,  512,  512, 1.25, "512 640" },     /* 1.25 itself is allowed */
        { true,  true,  512,  641,  512,  512, 1.25, "512 640" },
        { true,  false, 1024, 1024, 1920, 1080, 1.25, "1 1.25 1.5 2" },
        { true,  false, 1536, 1536, 1920, 1080, 1.25, "1 1.25 1.5 2 2.5 3" },
        { true,  false, 768,  768, 1920, 1080, 1.25, "1 1.25 1.5" },
        { true,  false, 640,  640, 1920, 1080, 1.25, "1" },
        { true,  false, 1024, 1024, 600,  600, 1.25, "1.5 2" },
        { false, true,  256, 1024, 1024,  768, 1.25, "1 1.25 1.5 2 4" },
        { false, false, 512, 1024, 1024,  768, 1.25, "1 1.25 1.5 2" },
        { false, false, 448,  640, 1024,  768, 1.25, "1 1.42857" },
        { false, false, 512,  512, 1024,  768, 1.25, "1" },
        { false, false, 256,  384, 1024,  768, 1.25, "1" },
        { false, false, 1024, 768, 4096, 4096, 1.25, "1 1.25 1.5 0.75" },
        { false, false, 256, 1024,   30,   20, 1.25, "4" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vb_rules r = rules_of("wan2.1", rows[i].v, rows[i].i, 512, 49, 1);
        r.random_hw_adapt = r.allow_upscale = true;
        r.token_length = rows[i].token;
        r.max_upscale = rows[i].upscale;
        check(&r);
        vb_source s = { .is_video = rows[i].video, .w = rows[i].w, .h = rows[i].h, .frames = 9 };
        vb_size list[VB_MAX_OPTIONS];
        int n = vb_size_list(&r, &s, list);
        char text[400] = "";
        for (int k = 0; k < n; k++)
            snprintf(text + strlen(text), sizeof text - strlen(text), k ? " %.6g" : "%.6g",
                     list[k].shown);
        if (strcmp(text, rows[i].list))
            fail_msg("row %zu: \"%s\", not \"%s\"", i, text, rows[i].list);
    }
}

static void test_rules(void **state)
{
    (void)state;
    static const struct { const char *family; vb_rules r; const char *error, *warning; } rows[] = {
        { "wan2.1", { 0 }, NULL, NULL },
        { "wan2.1", { .video_sample_size = 8 }, "--video_sample_size 8: 16 to 16384", NULL },
        { "ltx-video", { .image_sample_size = 16 }, "--image_sample_size 16: 32 to", NULL },
        { "wan2.1", { .token_sample_size = 1 << 20 }, "--token_sample_size 1048576", NULL },
        { "wan2.1", { .n_frames = -1 }, "--video_sample_n_frames -1: 1 to 65536", NULL },
        { "wan2.1", { .stride = INT64_MAX }, "--video_sample_stride 9223372036854775807", NULL },
        { "wan2.1", { .max_upscale = 1e9 }, "--max_upscale 1e+09", NULL },
        { "wan2.1", { .max_upscale = 0.0 / 0.0 }, "--max_upscale", NULL },
        { "wan2.1", { .image_sample_size = 256 }, "--allow_upscale", NULL },
        { "wan2.1", { .image_sample_size = 256, .allow_upscale = true }, NULL, NULL },
        { "wan2.1", { .fix_h = 480 }, "--fix_sample_size 480 0", NULL },
        { "wan2.1", { .fix_h = 480, .fix_w = 832, .token_length = true }, NULL, NULL },
        { "wan2.1", { .token_length = true }, NULL, "add --random_hw_adapt" },
        { "wan2.1", { .random_frame_crop = true, .n_frames = 514 }, "at most 513", NULL },
        { "wan2.1", { .random_frame_crop = true, .n_frames = 513 }, NULL, NULL },
        { "wan2.1", { .random_hw_adapt = true, .token_length = true, .video_sample_size = 16,
                      .image_sample_size = 16384 }, "at most 16272", NULL },
        { "wan2.1", { .random_hw_adapt = true, .token_length = true, .video_sample_size = 16,
                      .image_sample_size = 16272 }, NULL, NULL },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const vb_rules *in = &rows[i].r;
        vb_rules r = rules_of(rows[i].family, 512, 512, 512, 17, 4);
        r.video_sample_size = in->video_sample_size ? in->video_sample_size : 512;
        r.image_sample_size = in->image_sample_size ? in->image_sample_size : 512;
        r.token_sample_size = in->token_sample_size ? in->token_sample_size : 512;
        r.n_frames = in->n_frames ? in->n_frames : 17;
        r.stride = in->stride ? in->stride : 4;
        r.max_upscale = in->max_upscale != 0 ? in->max_upscale : 1.25;
        r.fix_h = in->fix_h;
        r.fix_w = in->fix_w;
        r.random_hw_adapt = in->random_hw_adapt;
        r.token_length = in->token_length;
        r.random_frame_crop = in->random_frame_crop;
        r.allow_upscale = in->allow_upscale;

        vc_err err = { 0 };
        const char *warning;
        int rc = vb_rules_check(&r, &warning, &err);
        assert_int_equal(rc, rows[i].error ? VC_EUSAGE : 0);
        if (rc && !strstr(err.text, rows[i].error))
            fail_msg("row %zu: %s", i, err.text);
        assert_int_equal(!!warning, !!rows[i].warning);
        if (warning && !strstr(warning, rows[i].warning))
            fail_msg("row %zu: %s", i, warning);
        if (in->fix_w) {
            assert_int_equal(r.video_sample_size, 832);
            assert_int_equal(r.image_sample_size, 832);
            assert_false(r.token_length);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frame_limits),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_ratio_weights),
        cmocka_unit_test(test_exact_sides),
        cmocka_unit_test(test_size_lists),
        cmocka_unit_test(test_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
