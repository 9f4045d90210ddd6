/* test_ltx2_sound.c - LTX-2's transformer with sound equals diffusers': 2.0, 2.3 and interleaved
 * rotations; outputs of both streams, losses, every gradient, also of a LoRA, with one timestep for
 * each token, and in batches whose clips have sounds of different lengths or none; a clip without
 * sound gets the video of the model without it; wrong configs and sounds are refused. */
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

static const ref_variant variants[] = {
    { "ltx2-sound-20", { "silent", "none", "tokens" }, 48 },
    { "ltx2-sound-23", { "silent", "none", "tokens" }, 48 },
    { "ltx2-sound-interleaved", { NULL }, 24 },
};

/* In bf16 diffusers' own gradients differ from its f32 by up to 1.1e-1, those of a gate's bias. */
static ref_suite suite = {
    .family = &vtrain_ltx2_sound, .variants = variants, .n = COUNT(variants),
    .f32 = { VC_F32, 1e-4, 1e-4, 1e-3, false }, .bf16 = { VC_BF16, 2e-2, 1e-1, 1e-2, true },
};

static const ref_refusal bad_models[] = {
    { "{\"audio_patch_size\":2}", "audio_patch_size: 2" },
    { "{\"audio_hop_length\":320}", "audio_hop_length: 320" },
    { "{\"audio_ff_bias\":false}", "audio_ff_bias" },
    { "{\"audio_cross_attention_dim\":8}", "audio_cross_attention_dim" },
    { "{\"audio_out_channels\":4}", "audio_in_channels: 16 with audio_out_channels 4" },
    { "{\"audio_num_attention_heads\":1,\"audio_attention_head_dim\":16}",
      "audio_num_attention_heads: 1, but num_attention_heads is 2" },
    { "{\"audio_gated_attn\":true}", "audio_attn1.to_gate_logits.weight\" is missing" },
};

static void test_refused(void **state)
{
    (void)state;
    ref_check_refusals(&vtrain_ltx2_sound, "ltx2-sound-20", bad_models, COUNT(bad_models));
}

static void test_other_sound(void **state)
{
    ref_model m;
    ref_case c;
    (void)state;
    ref_open(&m, &vtrain_ltx2_sound, "ltx2-sound-20", VC_BF16, VC_F32);
    ref_case_open(&c, m.golden, "base");
    c.sound_dim[4] = 2;
    ref_check_input(&vtrain_ltx2_sound, "ltx2-sound-20", &c,
                    "the sound has 4 channels of 2 bins, the transformer takes 16 numbers");
    ref_case_close(&c);
    ref_close(&m);
}

/* The video's part of a row without sound has the bits of a batch in which it is alone. */
static void test_silent_row(void **state)
{
    ref_model m;
    ref_case c;
    (void)state;
    ref_open(&m, &vtrain_ltx2_sound, "ltx2-sound-23", VC_BF16, VC_F32);
    ref_case_open(&c, m.golden, "silent");
    const int64_t row = c.dim[1] * c.dim[2] * c.dim[3] * c.dim[4];
    const int64_t n = 2 * row + 2 * c.sound_dim[1] * c.sound_dim[2] * c.sound_dim[4];
    float *one = malloc((size_t)n * sizeof *one), *other = malloc((size_t)n * sizeof *other);
    assert_int_equal(c.sound_length[0], 0);
    ref_step(&m, &c, VT_KEEP, one);
    for (int i = 0; i < 3; i++)
        c.sound[i] = 9;
    ref_step(&m, &c, VT_KEEP, other);
    assert_memory_equal(one, other, (size_t)row * sizeof *one);
    free(one);
    free(other);
    ref_case_close(&c);
    ref_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REF_TESTS(suite), cmocka_unit_test(test_refused), cmocka_unit_test(test_other_sound),
        cmocka_unit_test(test_silent_row),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
