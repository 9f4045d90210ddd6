/* test_sd3.c - Stable Diffusion 3's transformer, the worked example of docs/adding-a-model.md,
 * equals diffusers': outputs, losses, every gradient, also of a LoRA; recomputed blocks have the
 * same bits; names of LoRAs and files of the first authors are read; wrong configs are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/ok.h"
#include "tests/train/models/reference.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
/* Of sd3-names: of two blocks 18 and 11, and 7 outside of them. */
enum { LORA_NAMES = 18 + 11 + 7 };

static const ref_variant variants[] = {
    { "sd3", { "odd", "without" }, 19 }, { "sd3.5", { "whole" }, 19 },
    { "sd3.5-medium", { "odd" }, 33 },
};

/* The promise for f32 is 1e-4, as for CogVideoX; sums in another order differ by 2.5e-5. In bf16
 * some roundings of 2^-9 in a chain change an output by 7e-3. Gradients pass through the softmax,
 * which is steep where heads have no norms: in the mean square they differ by up to 2.5e-2, while
 * diffusers' own bf16 differs from its f32 by up to 4.8e-2. Where f32 operands of products are
 * rounded, an output differs by up to 1.05e-2 and a gradient of a LoRA by up to 3.4e-2. The floors
 * are for biases of keys, which cancel in the softmax. */
static ref_suite suite = {
    .family = &vtrain_sd3, .variants = variants, .n = COUNT(variants),
    .f32 = { VC_F32, 1e-4, 1e-4, 1e-3, false }, .bf16 = { VC_BF16, 1e-2, 4e-2, 1e-2, true },
};

/* Stability's own files are in f16, their tables of positions too: 11 bits change a weight by at
 * most 2e-4. */
static void test_stored(void **state)
{
    (void)state;
    double e = ref_f16_error(&vtrain_sd3, "sd3", "odd");
    assert_true(e > 0 && e <= 1e-3);
}

/* Names of the first authors, as in ComfyUI's files: queries, keys and values are one module. */
static void test_names(void **state)
{
    (void)state;
    ref_check_names(&vtrain_sd3, "sd3-names", LORA_NAMES);
}

/* A file of the first authors, without a config.json, is the model that diffusers makes of it: its
 * last block and the head have shift before scale. */
static void test_first(void **state)
{
    (void)state;
    ref_check_first(&vtrain_sd3, "sd3-first", &suite.f32);
}

/* ---- refused configs and inputs ---- */

static const ref_refusal bad_models[] = {
    { "{\"dual_attention_layers\":[0]}",
      "tensor \"transformer_blocks.0.norm1.linear.weight\" is [96,16], [144,16]" },
    { "{\"dual_attention_layers\":[0,1]}", "the last layer, 1, has none" },
    { "{\"num_layers\":4,\"dual_attention_layers\":[1]}", "its number 1 is 1" },
    { "{\"qk_norm\":\"layer_norm\"}", "qk_norm: \"layer_norm\"; only \"\" or \"rms_norm\"" },
    { "{\"caption_projection_dim\":24}", "caption_projection_dim" },
    { "{\"attention_head_dim\":12,\"caption_projection_dim\":24}", "multiple of 8" },
    { "{\"out_channels\":8}", "out_channels" },
    { "{\"qk_norm\":\"rms_norm\"}",
      "tensor \"transformer_blocks.0.attn.norm_q.weight\" is missing; it should be [8]" },
    { "{\"num_layers\":3}",
      "tensor \"transformer_blocks.1.norm1_context.linear.weight\" is [32,16], [96,16]" },
    { "{\"num_layers\":1}",
      "tensor \"transformer_blocks.0.norm1_context.linear.weight\" is [96,16], [32,16]" },
    { "{\"pos_embed_max_size\":6}", "tensor \"pos_embed.pos_embed\" is [1,64,16], [1,36,16]" },
};

static void test_bad_models(void **state)
{
    (void)state;
    ref_check_refusals(&vtrain_sd3, "sd3", bad_models, COUNT(bad_models));
}

static const struct { int64_t f, h, w, pooled, l, t5; int tokens; const char *says; }
bad_inputs[] = {
    { 2, 8, 12, 4, 4, 12, 5, "2x8x12: this model makes one picture" },
    { 1, 18, 12, 4, 4, 12, 5, "at most 16 rows and columns" },
    { 1, 8, 18, 4, 4, 12, 5, "at most 16 rows and columns" },
    { 1, 8, 12, 8, 4, 12, 5, "pooled prompts are 14 wide, but pooled_projection_dim is 10" },
    { 1, 8, 12, 0, 4, 12, 5, "pooled prompts are 6 wide" },
    { 1, 8, 12, 4, 8, 12, 5, "8 and 6 wide of CLIP, 12 of T5; joint_attention_dim is 12" },
    { 1, 8, 12, 4, 4, 8, 5, "4 and 6 wide of CLIP, 8 of T5; joint_attention_dim is 12" },
    { 1, 8, 12, 4, 4, 12, 4, "prompt of 4 tokens among prompts of 5: the transformer masks" },
    { 1, 16, 2, 4, 4, 12, 5, NULL },
};

static void test_bad_inputs(void **state)
{
    static float zero[4 * 2 * 18 * 18];
    (void)state;
    for (size_t i = 0; i < COUNT(bad_inputs); i++) {
        const int64_t p = bad_inputs[i].pooled;
        ref_case c = { .dim = { 1, 4, bad_inputs[i].f, bad_inputs[i].h, bad_inputs[i].w },
                       .text_dim = { 1, 3, bad_inputs[i].l }, .text_2_dim = { 1, 3, 6 },
                       .text_3_dim = { 1, 5, bad_inputs[i].t5 }, .pooled_dim = { 1, p },
                       .pooled_2_dim = { 1, 6 }, .x = zero, .t = zero,
                       .text = zero, .text_2 = zero, .text_3 = zero,
                       .pooled = p ? zero : NULL, .pooled_2 = zero,
                       .length = { 3 }, .length_2 = { 3 }, .length_3 = { bad_inputs[i].tokens } };
        ref_check_input(&vtrain_sd3, "sd3", &c, bad_inputs[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REF_TESTS(suite), cmocka_unit_test(test_stored), cmocka_unit_test(test_first),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_bad_models), cmocka_unit_test(test_bad_inputs),
    };
    suite.bf16.output = golden_tolerance(suite.bf16.output, 1.2e-2);
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
