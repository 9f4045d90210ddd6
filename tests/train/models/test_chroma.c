/* test_chroma.c - Chroma's transformer against diffusers': outputs, losses, every gradient, a
 * LoRA's too; recomputation; names of LoRAs; files of the first authors; refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/train/models/reference.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
/* dual blocks: 8 of the attention, 2 of the feed-forwards; single blocks: 3 of the attention and
 * proj_mlp; the two embedders, and three of the network that makes modulations */
enum { LORA_MODULES = 2 * 10 + 3 * 4 + 2 + 3 };

static const ref_variant variants[] = { { "chroma", { "tall", "equal" }, LORA_MODULES } };

static const ref_refusal bad_models[] = {
    { "{\"patch_size\":2}", "patch_size: 2" },
    { "{\"approximator_layers\":4}", "approximator_layers: 4" },
    { "{\"approximator_num_channels\":32}", "approximator_num_channels: 32" },
    { "{\"in_channels\":18}", "in_channels: 18 is no multiple of 4" },
    { "{\"out_channels\":8}", "in_channels: 16 with out_channels 8" },
    { "{\"axes_dims_rope\":[4,4,4]}", "axes_dims_rope: 4, 4, 4 must be even, and their sum" },
    { "{\"attention_head_dim\":20}", "attention_head_dim and joint_attention_dim" },
    { "{\"num_single_layers\":4}", "tensor \"single_transformer_blocks.3.attn.norm_q.weight\"" },
};

/* The promise for f32 is 3e-5. diffusers' own bf16, in which modulations are bf16 too, differs from
 * its f32 by 1.1e-2 in outputs, ours by 7.7e-3 at most, and by 1.2e-1 in gradients, ours by 3e-2.
 * The worst of ours is the LoRA of the first single block's queries: diffusers' own bf16 differs by
 * 9.5e-2 there, ours by 6.9e-2 to 8.1e-2, by the kernels. */
static ref_suite suite = {
    .family = &vtrain_chroma, .variants = variants, .n = COUNT(variants),
    .f32 = { VC_F32, 3e-5, 3e-5, 1e-3, false }, .bf16 = { VC_BF16, 1e-2, 9e-2, 1e-2, true },
    /* A file of the first authors, without a config.json, is the model that diffusers makes of
     * it. */
    .first = "chroma-first",
    /* Names of the first authors, as in files of kohya's sd-scripts: three fused modules, of 3, 3
     * and 4 of ours. */
    .names = "chroma-names", .modules = 13 + 2 * 2 + 3,
    .refused = bad_models, .n_refused = COUNT(bad_models), .still = "Chroma",
};

int main(void)
{
    const struct CMUnitTest tests[] = {
        REF_TESTS(suite), REF_REFUSED(suite), REF_STILL(suite), REF_NAMES(suite), REF_FIRST(suite),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
