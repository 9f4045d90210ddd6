/* test_ideogram4.c - Ideogram 4's transformer against diffusers': outputs, losses, every gradient,
 * a LoRA's too, with and without a prompt; recomputation; names of LoRAs; refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/ok.h"
#include "tests/train/models/reference.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

/* The LoRA is of eight linears of each of the two blocks, and of six others. */
static const ref_variant variants[] = {
    { "ideogram4", { "odd", "equal", "none" }, 2 * 8 + 6 }
};

static const ref_refusal bad_models[] = {
    { "{\"in_channels\":18}", "in_channels: 18 must be a multiple of 4" },
    { "{\"attention_head_dim\":12}", "attention_head_dim: 12 must be a multiple of 8" },
    { "{\"mrope_section\":[3,4,2]}", "mrope_section: 3, 4, 2 are more than the 8 angles" },
    { "{\"mrope_section\":[3,2,3]}", "mrope_section: 3, 2, 3 are more than" },
    { "{\"mrope_section\":[3,2]}", "mrope_section" },
    { "{\"num_layers\":3}", "tensor \"layers.2.attention_norm1.weight\" is missing" },
    { "{\"llm_features_dim\":216}", "was expected" },
};

/* The promise for f32 is 3e-5. diffusers' own bf16 differs from its f32 by 8e-3 in outputs, by
 * 2.2e-2 in gradients, and by 3.4e-2 in those of the LoRA. */
static ref_suite suite = {
    .family = &vtrain_ideogram4, .variants = variants, .n = COUNT(variants),
    .f32 = { VC_F32, 3e-5, 3e-5, 1e-3, false }, .bf16 = { VC_BF16, 1.3e-2, 6e-2, 1e-2, true },
    /* A file of Ideogram 4's authors or of ComfyUI, without a config.json. */
    .first = "ideogram4-first",
    /* Names of the first authors: a fused module of three of ours. */
    .names = "ideogram4-names", .modules = 6 + 2,
    .refused = bad_models, .n_refused = COUNT(bad_models), .still = "Ideogram 4",
};

int main(void)
{
    const struct CMUnitTest tests[] = {
        REF_TESTS(suite), REF_REFUSED(suite), REF_STILL(suite), REF_NAMES(suite), REF_FIRST(suite),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
