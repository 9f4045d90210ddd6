/* test_flux.c - FLUX.1's transformer equals diffusers' with and without guidance as an input, and
 * (Kontext) with reference pictures of other sizes than the sample's, and (Fill) with a masked
 * picture and its mask, and beside a ControlNet: outputs, losses, every gradient; recomputed blocks
 * have the same bits; wrong configs are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/train/models/reference.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
/* dual blocks: 8 of the attention, 2 of the feed-forwards; single blocks: 3 of the attention,
 * proj_mlp and norm.linear; the two embedders */
enum { LORA_MODULES = 2 * 10 + 2 * 5 + 2 };

static const ref_variant variants[] = {
    { "flux-dev", { "tall", "small" }, LORA_MODULES }, { "flux-schnell", { "wide" }, 0 },
    { "flux-kontext", { "tall", "without" }, LORA_MODULES },
};

static const ref_refusal bad_models[] = {
    { "{\"patch_size\":2}", "patch_size: 2" },
    { "{\"in_channels\":18}", "in_channels: 18 is no multiple of 4" },
    { "{\"out_channels\":8}", "in_channels: 16 with out_channels 8" },
    { "{\"axes_dims_rope\":[4,4,4]}", "axes_dims_rope: 4, 4, 4 must be even, and their sum" },
    { "{\"attention_head_dim\":20}", "attention_head_dim and joint_attention_dim" },
    { "{\"num_single_layers\":3}", "tensor \"single_transformer_blocks.2.norm.linear.weight\"" },
};

/* The promise for f32 is 3e-5. For gradients of LoRAs and of norms of keys, diffusers' own bf16
 * differs from its f32 by 2.8e-2 to 5e-2; ours differs by 2.2e-2 to 3.1e-2, by the build and the
 * processor. */
static ref_suite suite = {
    .family = &vtrain_flux, .variants = variants, .n = COUNT(variants),
    .f32 = { VC_F32, 3e-5, 3e-5, 1e-3, false }, .bf16 = { VC_BF16, 2e-2, 3.2e-2, 1e-2, true },
    /* A file of Black Forest Labs, without a config.json, is the model that diffusers makes of it.
     * Its queries, keys and values are one matrix, and its last modulation has shift before
     * scale. */
    .first = "flux-first",
    /* Names of Black Forest Labs, as in files of kohya's sd-scripts: three fused modules, of 3, 3
     * and 4 of ours. */
    .names = "flux-names", .modules = 22 + 2 * 2 + 3,
    .refused = bad_models, .n_refused = COUNT(bad_models),
};

/* The mask's 0s and 1s are most of Fill's inputs: diffusers' own bf16 differs from its f32 by up to
 * 5.4e-2, in gradients of queries and keys; ours differs by 4.3e-2. */
static const ref_variant fill[] = { { "flux-fill", { "tall", "small" }, LORA_MODULES } };
static ref_suite fill_suite = {
    .family = &vtrain_flux, .variants = fill, .n = COUNT(fill),
    .f32 = { VC_F32, 3e-5, 3e-5, 1e-3, false }, .bf16 = { VC_BF16, 2e-2, 5e-2, 1e-2, true },
};

/* With a ControlNet, diffusers' own bf16 differs from its f32 by up to 8.2e-2, in the gradient of a
 * norm of keys; ours differs by 2.3e-2 to 3.5e-2, by the processor. */
static const ref_variant controlled[] = {
    { "flux-controlnet", { "tall", "scaled" }, 0 }, { "flux-controlnet-dual", { "wide" }, 0 },
    { "flux-controlnet-mask", { "tall" }, 0 }, { "flux-controlnet-union", { "wide" }, 0 },
};
static ref_suite controlled_suite = {
    .family = &vtrain_flux, .variants = controlled, .n = COUNT(controlled),
    .f32 = { VC_F32, 3e-5, 3e-5, 1e-3, false }, .bf16 = { VC_BF16, 2e-2, 5e-2, 1e-2, true },
};

/* Of a transformer with a ControlNet of 3 and 2 blocks. */
static const ref_refusal bad_controlled[] = {
    { "{\"num_layers\":2}", "has 3 transformer_blocks, and the transformer has 2" },
    { "{\"num_single_layers\":1}", "2 single_transformer_blocks, and the transformer has 1" },
    { "{\"controlnet\":{\"extra_condition_channels\":3}}", "extra_condition_channels: 3" },
    { "{\"controlnet\":{\"num_mode\":65}}", "num_mode: 65" },
    { "{\"controlnet\":{\"in_channels\":16,\"out_channels\":8}}",
      "in_channels: 16 with out_channels 8: the ControlNets of FLUX.1 dev and schnell alone" },
};

static void test_controlled(void **state)
{
    (void)state;
    ref_check_refusals(&vtrain_flux, "flux-controlnet", bad_controlled, COUNT(bad_controlled));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REF_TESTS(suite), REF_TESTS(fill_suite), REF_TESTS(controlled_suite), REF_REFUSED(suite),
        REF_NAMES(suite), REF_FIRST(suite), cmocka_unit_test(test_controlled),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
