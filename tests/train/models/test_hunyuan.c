/* test_hunyuan.c - HunyuanVideo's transformer equals diffusers' in all its variants: outputs,
 * losses, every gradient; recomputed blocks have the same bits; wrong configs are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/ok.h"
#include "tests/train/models/reference.h"
#include "train/lora/lora.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
enum { LORA_MODULES = 2 * 4 + 2 * 9 + 5 + 1 };           /* refiner, two streams, one, patches */

/* The LoRA adapts linears in all three kinds of blocks, a modulation, and the patches. */
static const ref_variant variants[] = {
    { "hunyuan", { "off", "still" }, LORA_MODULES }, { "hunyuan-replace", { "still" }, 0 },
    { "hunyuan-concat", { NULL }, 0 }, { "skyreels-i2v", { "dropped" }, 0 },
};

static const ref_refusal bad_models[] = {
    { "{\"qk_norm\":\"layer_norm\"}", "qk_norm: \"layer_norm\"" },
    { "{\"mlp_ratio\":3}", "mlp_ratio: 3" },
    { "{\"rope_axes_dim\":[4,4,4]}", "rope_axes_dim: 4, 4, 4 must be even, and their sum" },
    { "{\"image_condition_type\":\"first\"}", "image_condition_type: \"first\"" },
    { "{\"image_condition_type\":\"latent_concat\"}", "in_channels: 4 with out_channels 4 and" },
    { "{\"num_single_layers\":2}", "tensor \"single_transformer_blocks.1.norm.linear.weight\"" },
};

/* The promise for f32 is 1e-4, as for CogVideoX. bf16 has some roundings of 2^-9 in a chain; for
 * gradients of keys, which pass through the softmax, diffusers' own bf16 differs from its f32 by up
 * to 2.8e-2. */
static ref_suite suite = {
    .family = &vtrain_hunyuan, .variants = variants, .n = COUNT(variants),
    .f32 = { VC_F32, 1e-4, 1e-4, 1e-3, false }, .bf16 = { VC_BF16, 2e-2, 2.5e-2, 1e-2, true },
    /* A file of Tencent's, without a config.json, is the model that diffusers makes of it. Its
     * queries, keys and values are one matrix, and its last modulation has shift before scale. */
    .first = "hunyuan-first",
    /* Tencent's names are read like in diffusers: two fused rows of 3 modules, one of 4. */
    .names = "hunyuan-names", .modules = 30 + 2 * 2 + 3,
    .refused = bad_models, .n_refused = COUNT(bad_models),
};

int main(void)
{
    const struct CMUnitTest tests[] = {
        REF_TESTS(suite), REF_REFUSED(suite), REF_NAMES(suite), REF_FIRST(suite),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
