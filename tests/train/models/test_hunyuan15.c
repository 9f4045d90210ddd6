/* test_hunyuan15.c - HunyuanVideo 1.5's transformer equals diffusers' for text, for pictures and
 * for few steps: outputs, losses, every gradient, a LoRA's too; texts without words in quotes;
 * recomputed blocks have the same bits; wrong configs are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/train/models/reference.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
/* The refiners' 4 of attention and 1 of feed-forward in 2 blocks, the 8 of attention and 2 of
 * feed-forwards in 2 blocks, a modulation of each of these, one layer of glyphs, the patches. */
enum { LORA_MODULES = 2 * 5 + 2 * 10 + 2 + 1 + 1 };

static const ref_variant variants[] = {
    { "hunyuan15", { "quoteless", "still" }, LORA_MODULES },
    { "hunyuan15-i2v", { "still", "dropped" }, 0 },
    { "hunyuan15-steps", { "nowhere" }, 0 },
};

/* The promise for f32 is 1e-4, as for HunyuanVideo, whose tolerances these are. */
static ref_suite suite = {
    .family = &vtrain_hunyuan15, .variants = variants, .n = COUNT(variants),
    .f32 = { VC_F32, 1e-4, 1e-4, 1e-3, false }, .bf16 = { VC_BF16, 2e-2, 2.5e-2, 1e-2, true },
    .first = "hunyuan15-first",
};

/* The same, repackaged for ComfyUI; of a step-distilled model. */
static ref_suite packed, steps;

static const ref_refusal bad_models[] = {
    { "{\"qk_norm\":\"layer_norm\"}", "qk_norm: \"layer_norm\"" },
    { "{\"mlp_ratio\":3}", "mlp_ratio: 3" },
    { "{\"use_meanflow\":true}", "tensor \"time_embed.timestep_embedder_r.linear_1" },
    { "{\"task_type\":\"sr\"}", "task_type: \"sr\"" },
    { "{\"rope_axes_dim\":[4,4,4]}", "rope_axes_dim: 4, 4, 4 must be even, and their sum" },
    { "{\"in_channels\":8}", "in_channels: 8 with out_channels 4 is no known model" },
    { "{\"num_layers\":3}", "tensor \"transformer_blocks.2.norm1.linear.weight\"" },
};

static void test_refused(void **state)
{
    (void)state;
    ref_check_refusals(&vtrain_hunyuan15, "hunyuan15", bad_models, COUNT(bad_models));
}

/* The shift that Tencent's code has for a size and a task. */
static void test_shift(void **state)
{
    static const struct { const char *config; double shift; } rows[] = {
        { "{}", 5 }, { "{\"target_size\":640,\"task_type\":\"i2v\"}", 5 },
        { "{\"target_size\":960,\"task_type\":\"t2v\"}", 9 },
        { "{\"target_size\":960,\"task_type\":\"i2v\"}", 7 },
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        cJSON *config = cJSON_Parse(rows[i].config);
        vtrain_scheduler s = { .shift = vtrain_hunyuan15.flow_shift };
        assert_non_null(config);
        vtrain_hunyuan15.schedule(config, &s);
        assert_true(s.shift == rows[i].shift);
        cJSON_Delete(config);
    }
}

int main(void)
{
    packed = suite;
    packed.first = "hunyuan15-packed";
    steps = suite;
    steps.first = "hunyuan15-first-steps";
    const struct CMUnitTest tests[] = { REF_TESTS(suite), REF_FIRST(suite), REF_FIRST(packed),
                                        REF_FIRST(steps),
                                        cmocka_unit_test(test_shift),
                                        cmocka_unit_test(test_refused) };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
