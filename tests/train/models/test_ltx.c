/* test_ltx.c - LTX-Video's transformer equals diffusers': outputs, losses, every gradient, also of
 * a LoRA and with one timestep for each token; rotations; recomputed blocks have the same bits;
 * wrong configs are refused. */
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
    { "ltx", { "off", "tokens", "still" }, 16 }, { "ltx-48", { NULL }, 8 },
};

/* The promise for f32 is 1e-4, as for CogVideoX; sums in another order differ by 3e-5. In bf16 some
 * roundings of 2^-9 in a chain change gradients by up to 1.8e-2, and with AMX, which also rounds
 * the probabilities of attention, by up to 2.1e-2; diffusers' own bf16 differs from its f32 by up
 * to 2.3e-2, which is the limit. */
static ref_suite suite = {
    .family = &vtrain_ltx, .variants = variants, .n = COUNT(variants),
    .f32 = { VC_F32, 1e-4, 1e-4, 1e-3, false }, .bf16 = { VC_BF16, 2e-2, 2.3e-2, 1e-2, true },
};

/* ---- rotations ---- */

/* Angles are rounded as in the reference, except for the last bit of a frequency: 15708 * 2^-24 is
 * 1e-3. */
#define ROPE_ERROR 2e-3

/* Checks the rotations of the golden "WIDTH/FxHxW/RULE", at 24 frames per second. */
static void check_rope(const vf_safetensors *f, const char *name)
{
    static const char *const parts[2] = { "cos", "sin" };
    char full[96], rule[8];
    ltx_grid grid = { 0 };
    int64_t width, dim[8];
    assert_int_equal(sscanf(name, "%" SCNd64 "/%" SCNd64 "x%" SCNd64 "x%" SCNd64 "/%7s", &width,
                            &grid.dim[0], &grid.dim[1], &grid.dim[2], rule), 5);
    grid.pairs = width / 2;
    grid.causal_times = !strcmp(rule, "new");
    size_t n = (size_t)(grid.dim[0] * grid.dim[1] * grid.dim[2] * grid.pairs);
    float *got[2] = { malloc(n * sizeof(float)), malloc(n * sizeof(float)) };
    ltx_rope *r = ltx_rope_open(&grid, 24);
    assert_non_null(r);
    for (int k = 0; k < 2; k++)
        ltx_rope_rows(r, k, 0, (int64_t)n / grid.pairs, got[k]);
    ltx_rope_close(r);
    snprintf(full, sizeof full, "%s/pick", name);
    float *pick = golden_values(f, full, NULL);
    for (int k = 0; k < 2; k++) {
        snprintf(full, sizeof full, "%s/%s", name, parts[k]);
        float *want = golden_values(f, full, dim);
        assert_int_equal(dim[1], grid.pairs);
        for (int64_t i = 0; i < dim[0] * dim[1]; i++) {
            float is = got[k][(int64_t)pick[i / dim[1]] * dim[1] + i % dim[1]];
            if (!(fabs((double)is - (double)want[i]) <= ROPE_ERROR))
                fail_msg("%s: %s of token %g, pair %d: %g, wanted %g", name, parts[k],
                         (double)pick[i / dim[1]], (int)(i % dim[1]), (double)is, (double)want[i]);
        }
        free(want);
        free(got[k]);
    }
    free(pick);
}

static void test_rope(void **state)
{
    vf_safetensors *f = golden_open("ltx-rope");
    int seen = 0;
    (void)state;
    for (int k = 0; k < vf_safetensors_count(f); k++) {
        const char *name = vf_safetensors_at(f, k)->name, *end = strstr(name, "/pick");
        char base[64];
        if (!end)
            continue;
        snprintf(base, sizeof base, "%.*s", (int)(end - name), name);
        check_rope(f, base);
        seen++;
    }
    assert_int_equal(seen, 6);
    vf_safetensors_close(f);
}

/* ---- refused configs and inputs ---- */

static const ref_refusal bad_models[] = {
    { "{\"patch_size\":2}", "patch_size: 2" },
    { "{\"activation_fn\":\"geglu\"}", "activation_fn: \"geglu\"" },
    { "{\"qk_norm\":\"rms_norm\"}", "qk_norm: \"rms_norm\"" },
    { "{\"cross_attention_dim\":32}", "cross_attention_dim" },
    { "{\"out_channels\":4}", "in_channels: 8 with out_channels 4 is no known model" },
    { "{\"num_layers\":3}", "tensor \"transformer_blocks.2.scale_shift_table\" is missing" },
};

static void test_refused(void **state)
{
    (void)state;
    ref_check_refusals(&vtrain_ltx, "ltx", bad_models, COUNT(bad_models));
}

/* A clip without a known frame rate is refused. */
static void test_no_rate(void **state)
{
    ref_model m;
    ref_case c;
    vc_err err = { 0 };
    (void)state;
    ref_open(&m, &vtrain_ltx, "ltx", VC_BF16, VC_F32);
    ref_case_open(&c, m.golden, "base");
    c.fps[1] = 0;
    vt_step_begin(m.g, 0);
    assert_null(ref_forward(&m, &c, VT_KEEP));
    assert_int_equal(vt_step_end(m.g, &err), VC_EMISMATCH);
    assert_non_null(strstr(err.text, "row 1 has no frame rate"));
    ref_case_close(&c);
    ref_close(&m);
}

static void test_two_rates(void **state)
{
    (void)state;
    ref_check_rates(&vtrain_ltx, "ltx");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REF_TESTS(suite), cmocka_unit_test(test_rope), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_rate), cmocka_unit_test(test_two_rates),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
