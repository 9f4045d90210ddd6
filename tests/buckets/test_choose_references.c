/* test_choose_references.c - sizes of reference pictures, as diffusers' pipelines choose them. */
#include "buckets/references.h"
#include "tests/buckets/buckets_rules.h"
#include "tests/lib/ok.h"

/* A picture of w x h, the rule, and the size that is expected; 0: none is possible. */
typedef struct reference_row {
    int w, h;
    int64_t side;
    bool as_is;
    int tw, th;
} reference_row;

static void check_references(const char *family, const reference_row *rows, size_t n)
{
    const vc_family *f = vc_family_find(family);
    for (size_t i = 0; i < n; i++) {
        const vb_reference_rule r = { .family = f, .side = rows[i].side,
                                      .as_is = rows[i].as_is };
        vb_choice c;
        vb_reference(&c, &r, rows[i].w, rows[i].h);
        if (c.drop != !rows[i].tw || (!c.drop && (c.target_w != rows[i].tw ||
                                                  c.target_h != rows[i].th)))
            fail_msg("%s, row %zu: %dx%d", family, i, c.target_w, c.target_h);
        assert_true(c.drop || c.left + c.target_w <= c.resize_w);
        assert_true(c.drop || c.top + c.target_h <= c.resize_h);
        assert_true(c.drop || (c.latent_h == c.target_h / f->ratio[1] &&
                               c.latent_w == c.target_w / f->ratio[2]));
    }
}

/* FluxKontextPipeline's sizes: min over its list of (|w/h - W/H|, W, H); those of FLUX.2 as its
 * pipelines and Flux2ImageProcessor have them. */
static void test_references(void **state)
{
    static const reference_row flux[] = {
        { 1024, 1024, 0, false, 1024, 1024 }, { 1, 1, 0, false, 1024, 1024 },
        { 1920, 1080, 0, false, 1392, 752 }, { 1080, 1920, 0, false, 752, 1392 },
        { 300, 200, 0, false, 1248, 832 }, { 4000, 100, 0, false, 1568, 672 },
        { 100, 4000, 0, false, 672, 1568 }, { 1000, 970, 0, false, 1024, 1024 },
        { 160, 80, 64, false, 96, 48 }, { 80, 160, 64, false, 48, 96 },
        { 10, 10, 8, false, 16, 16 }, { 165, 80, 0, true, 160, 80 }, { 15, 80, 0, true, 0, 0 },
    };
    static const reference_row flux2[] = {
        { 1920, 1080, 0, false, 1360, 768 }, { 1024, 1024, 0, false, 1024, 1024 },
        { 1025, 1024, 0, false, 1024, 1008 }, { 300, 200, 0, false, 288, 192 },
        { 4000, 100, 0, false, 4000, 96 }, { 12000, 900, 0, false, 3728, 272 },
        { 15, 300, 0, false, 0, 0 }, { 300, 200, 128, false, 144, 96 },
        { 300, 200, 128, true, 288, 192 },
    };
    (void)state;
    check_references("flux", flux, sizeof flux / sizeof *flux);
    check_references("flux2", flux2, sizeof flux2 / sizeof *flux2);
}

/* Sizes of Qwen-Image-Edit: calculate_dimensions of diffusers' pipelines, for the autoencoder's
 * copy and the text encoder's. The first pipeline has one copy. */
static void test_looks(void **state)
{
    static const struct { int w, h, to[2], look[2]; } rows[] = {
        { 1024, 1024, { 1024, 1024 }, { 384, 384 } }, { 2000, 1500, { 896, 1184 }, { 320, 448 } },
        { 90, 61, { 832, 1248 }, { 320, 480 } }, { 333, 1000, { 1760, 576 }, { 672, 224 } },
        { 512, 768, { 1248, 832 }, { 480, 320 } }, { 3969, 4096, { 1056, 1024 }, { 384, 384 } },
        { 4096, 200, { 224, 4640 }, { 96, 1728 } },
    };
    const vc_family *f = vc_family_find("qwen-image");
    const vc_pipeline *first = vc_family_pipeline(f, "QwenImageEditPipeline"),
                      *plus = vc_family_pipeline(f, "QwenImageEditPlusPipeline");

    (void)state;
    assert_true(first->references->most == 1 && plus->references->most == VC_REFERENCES);
    assert_false(vc_family_references(f, vc_family_pipeline(f, "QwenImagePipeline"))->most);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int k = 0; k < 4; k++) {
            const vb_reference_rule r = { .family = f,
                                          .references = (k < 2 ? first : plus)->references };
            const int *want = k == 3 ? rows[i].look : rows[i].to;
            vb_choice c;
            (k % 2 ? vb_reference_look : vb_reference)(&c, &r, rows[i].w, rows[i].h);
            if (c.target_h != want[0] || c.target_w != want[1])
                fail_msg("row %zu, %d: %dx%d", i, k, c.target_w, c.target_h);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_references), cmocka_unit_test(test_looks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
