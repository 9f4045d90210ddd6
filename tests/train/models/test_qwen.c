/* test_qwen.c - Qwen-Image's transformer against diffusers': outputs, losses, every gradient, a
 * LoRA's too, with prompts of different lengths in a batch, and with one to three reference
 * pictures of other sizes than the picture's (Qwen-Image-Edit, zero_cond_t), or with a
 * ControlNet, blockwise or of copied blocks; recomputation; refusals */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/ok.h"
#include "tests/train/models/reference.h"

/* The LoRA is of the linears of both blocks but one, and of four others. */
enum { LORA_MODULES = 2 * 13 + 4 };
static const ref_variant variants[] = {
    { "qwen", { "odd", "wide", "any" }, LORA_MODULES },
    { "qwen-edit", { "two", "three", "without" }, LORA_MODULES },
    { "qwen-edit-2511", { "two", "three", "without" }, LORA_MODULES },
    { "qwen-control", { "odd" }, 0 },
    { "qwen-controlnet", { "odd", "scaled", "guided" }, 0 },
    { "qwen-controlnet-mask", { "odd" }, 0 }, { "qwen-control-mask", { "odd" }, 0 },
};

/* f32: sums in another order differ by 3e-5 at most. bf16: some roundings of 2^-9 in a chain;
 * diffusers' own bf16 differs from its f32 by as much. */
static ref_suite suite = {
    .family = &vtrain_qwen, .variants = variants, .n = sizeof variants / sizeof *variants,
    .f32 = { VC_F32, 3e-5, 3e-5, 1e-3, false }, .bf16 = { VC_BF16, 2e-2, 3e-2, 1e-2, true },
};

static const ref_refusal bad_models[] = {
    { "{\"patch_size\":1}", "patch_size: 1" },
    { "{\"guidance_embeds\":true}", "guidance_embeds: true" },
    { "{\"use_additional_t_cond\":true}", "use_additional_t_cond: true" },
    { "{\"use_layer3d_rope\":true}", "use_layer3d_rope: true" },
    { "{\"attention_head_dim\":12}", "attention_head_dim must be a multiple of 8" },
    { "{\"axes_dims_rope\":[4,6,4]}", "axes_dims_rope: 4, 6, 4 must be even, and their sum equal "
      "to attention_head_dim, which is 16" },
    { "{\"in_channels\":32}", "in_channels: 32 with out_channels 4 is no known model" },
    { "{\"num_layers\":3}", "tensor \"transformer_blocks.2.img_mod.1.weight\" is missing" },
};

static void test_refused(void **state)
{
    (void)state;
    ref_check_refusals(&vtrain_qwen, "qwen", bad_models, sizeof bad_models / sizeof *bad_models);
}

static void test_clip(void **state)
{
    (void)state;
    ref_check_clip(&vtrain_qwen, "qwen", "Qwen-Image");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REF_TESTS(suite), cmocka_unit_test(test_refused), cmocka_unit_test(test_clip),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
