/* test_flux2.c - FLUX.2's transformer equals diffusers' with and without guidance as an input, and
 * with up to three reference pictures of other sizes than the sample's: outputs, losses, every
 * gradient, a LoRA's too; recomputed blocks have the same bits; names of LoRAs and a file of the
 * first authors; wrong configs are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/train/models/reference.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
/* dual blocks: 8 of the attention, 4 of the feed-forwards; single blocks: 2; two embedders and two
 * modulations */
enum { LORA_MODULES = 2 * 12 + 2 * 2 + 2 + 2 };

static const ref_variant variants[] = {
    { "flux2-klein", { "tall", "one" }, LORA_MODULES }, { "flux2-dev", { "wide" }, 0 },
    { "flux2-edit", { "three", "without" }, LORA_MODULES },
};

static const ref_refusal bad_models[] = {
    { "{\"patch_size\":2}", "patch_size: 2" },
    { "{\"out_channels\":8}", "in_channels: 16 with out_channels 8" },
    { "{\"axes_dims_rope\":[4,4,4,2]}", "axes_dims_rope: 4, 4, 4, 2 must be even, and their sum" },
    { "{\"axes_dims_rope\":[4,6,6]}", "axes_dims_rope" },
    { "{\"attention_head_dim\":20}", "attention_head_dim and joint_attention_dim" },
    { "{\"eps\":1e-5}", "eps" },
    { "{\"num_single_layers\":3}", "tensor \"single_transformer_blocks.2.attn.norm_q.weight\"" },
    { "{\"guidance_embeds\":true}", "guidance_embedder.linear_1" },
};

/* The promise for f32 is 3e-5. diffusers' own bf16 differs from its f32 by up to 8.4e-3 in outputs,
 * and by up to 3.2e-2 in gradients of the LoRA; ours differs by up to 9.1e-3 and 1.7e-2. */
static ref_suite suite = {
    .family = &vtrain_flux2, .variants = variants, .n = COUNT(variants),
    .f32 = { VC_F32, 3e-5, 3e-5, 1e-3, false }, .bf16 = { VC_BF16, 1.2e-2, 3e-2, 1e-2, true },
    /* A file of Black Forest Labs, without a config.json, is the model that diffusers makes of
     * it. */
    .first = "flux2-first",
    /* Names of Black Forest Labs: two fused modules, of three of ours each. */
    .names = "flux2-names", .modules = 20 + 2 * 2,
    .refused = bad_models, .n_refused = COUNT(bad_models), .still = "FLUX.2",
};

int main(void)
{
    const struct CMUnitTest tests[] = {
        REF_TESTS(suite), REF_REFUSED(suite), REF_STILL(suite), REF_NAMES(suite), REF_FIRST(suite),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
