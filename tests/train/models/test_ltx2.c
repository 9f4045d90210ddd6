/* test_ltx2.c - LTX-2's transformer without sound equals diffusers' with isolate_modalities: 2.0,
 * 2.3 and interleaved rotations; outputs, losses, every gradient, also of a LoRA and with one
 * timestep for each token; rotations; recomputed blocks have the same bits; wrong configs are
 * refused. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/ok.h"
#include "tests/train/models/reference.h"
#include "train/models/ltx/ltx.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

static const ref_variant variants[] = {
    { "ltx2-20", { "off", "tokens" }, 16 }, { "ltx2-23", { "off", "tokens", "still" }, 16 },
    { "ltx2-interleaved", { NULL }, 8 },
};

/* The promise for f32 is 1e-4, as for CogVideoX. In bf16 diffusers' own gradients differ from its
 * f32 by up to 2.6e-2. */
static ref_suite suite = {
    .family = &vtrain_ltx2, .variants = variants, .n = COUNT(variants),
    .f32 = { VC_F32, 1e-4, 1e-4, 1e-3, false }, .bf16 = { VC_BF16, 2e-2, 2.6e-2, 1e-2, true },
};

/* ---- rotations ---- */

/* Angles of up to 15708 are rounded to f32 in the steps of the reference. */
#define ROPE_ERROR 2e-3

static void check_rope(const vf_safetensors *f, ltx_grid grid)
{
    static const char *const parts[2] = { "cos", "sin" };
    char name[64];
    int64_t dim[8], n = grid.dim[0] * grid.dim[1] * grid.dim[2];
    ltx_rope *r = ltx_rope_open(&grid, 24);
    float *got = malloc((size_t)(n * grid.pairs) * sizeof *got);
    assert_true(r && got);
    for (int k = 0; k < 2; k++) {
        snprintf(name, sizeof name, "4096/%" PRId64 "x%" PRId64 "x%" PRId64 "/two/pick",
                 grid.dim[0], grid.dim[1], grid.dim[2]);
        float *pick = golden_values(f, name, NULL);
        strcpy(strrchr(name, '/') + 1, parts[k]);
        float *want = golden_values(f, name, dim);
        assert_int_equal(dim[1], grid.pairs);
        ltx_rope_rows(r, k, 0, n, got);
        for (int64_t i = 0; i < dim[0] * dim[1]; i++) {
            float is = got[(int64_t)pick[i / dim[1]] * dim[1] + i % dim[1]];
            if (!(fabs((double)is - (double)want[i]) <= ROPE_ERROR))
                fail_msg("%s of token %g, pair %d: %g, wanted %g", name,
                         (double)pick[i / dim[1]], (int)(i % dim[1]), (double)is, (double)want[i]);
        }
        free(want), free(pick);
    }
    ltx_rope_close(r);
    free(got);
}

static void test_rope(void **state)
{
    static const ltx_grid grids[] = {
        { .dim = { 4, 15, 22 }, .pairs = 2048, .middle = true, .exact = true },
        { .dim = { 1, 2, 3 }, .pairs = 2048, .middle = true, .exact = true },
    };
    vf_safetensors *f = golden_open("ltx2-rope");
    (void)state;
    for (size_t i = 0; i < COUNT(grids); i++)
        check_rope(f, grids[i]);
    vf_safetensors_close(f);
}

/* ---- refused configs and inputs ---- */

static const ref_refusal bad_models[] = {
    { "{\"patch_size\":2}", "patch_size: 2" },
    { "{\"qk_norm\":\"rms_norm\"}", "qk_norm: \"rms_norm\"" },
    { "{\"cross_attention_dim\":16}", "cross_attention_dim" },
    { "{\"out_channels\":4}", "in_channels: 8 with out_channels 4 is no known model" },
    { "{\"rope_type\":\"both\"}", "rope_type" },
    { "{\"ff_bias\":false}", "ff_bias" },
    { "{\"use_prompt_adaln_single\":false}", "use_prompt_adaln_single" },
    { "{\"use_keyframes_abs_pos_embedding\":true}", "use_keyframes_abs_pos_embedding" },
    { "{\"causal_offset\":0}", "causal_offset: 0" },
    { "{\"audio_cross_attn_mod\":true}", "cross_attn_mod and audio_cross_attn_mod differ" },
    { "{\"gated_attn\":true}", "attn1.to_gate_logits.weight\" is missing" },
    { "{\"num_layers\":3}", "tensor \"transformer_blocks.2.scale_shift_table\" is missing" },
};

static void test_refused(void **state)
{
    (void)state;
    ref_check_refusals(&vtrain_ltx2, "ltx2-20", bad_models, COUNT(bad_models));
}

static void test_two_rates(void **state)
{
    (void)state;
    ref_check_rates(&vtrain_ltx2, "ltx2-23");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REF_TESTS(suite), cmocka_unit_test(test_rope), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_two_rates),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
