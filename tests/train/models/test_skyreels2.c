/* test_skyreels2.c - SkyReels V2's transformer against diffusers', with a time for each latent
 * frame and without, with frame rates, causal by runs of frames, and with a picture: outputs,
 * losses, every gradient, a LoRA's too; recomputation; refusals */
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

/* The LoRA is as test_wan.c's, and of the two layers of frame rates. */
static const ref_variant variants[] = {
    { "skyreels2", { "plain", "still" }, 0 },
    { "skyreels2-rate", { "off", "plain", "still" }, 2 * 10 + 3 + 2 },
    { "skyreels2-causal", { "plain" }, 0 },
    { "skyreels2-i2v", { NULL }, 0 },
};

static const ref_refusal bad_models[] = {
    { "{\"qk_norm\":\"rms_norm\"}", "qk_norm: \"rms_norm\"" },
    { "{\"inject_sample_info\":1}", "inject_sample_info" },
    { "{\"num_frame_per_block\":0}", "num_frame_per_block: 0" },
};

/* As in test_wan.c; diffusers' own bf16 differs from its f32 by up to 2.4e-2. */
static ref_suite suite = {
    .family = &vtrain_skyreels2, .variants = variants, .n = COUNT(variants),
    .f32 = { VC_F32, 1e-4, 1e-4, 1e-3, false }, .bf16 = { VC_BF16, 2e-2, 3e-2, 1e-2, true },
    .refused = bad_models, .n_refused = COUNT(bad_models),
};

/* Three frames are no two runs of two. */
static void test_runs(void **state)
{
    ref_model m;
    ref_case c;
    vc_err err = { 0 };
    (void)state;
    assert_ok(ref_open_with(&m, &vtrain_skyreels2, "skyreels2", "{\"num_frame_per_block\":2}",
                            &err), &err);
    ref_case_open(&c, m.golden, "base");
    vt_step_begin(m.g, 0);
    assert_null(ref_forward(&m, &c, VT_KEEP));
    assert_int_equal(vt_step_end(m.g, &err), VC_EMISMATCH);
    assert_says(&err, "3 latent frames: with num_frame_per_block 2 their number is a multiple");
    ref_case_close(&c);
    ref_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REF_TESTS(suite), REF_REFUSED(suite), cmocka_unit_test(test_runs),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
