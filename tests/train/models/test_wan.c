/* test_wan.c - Wan's transformer against diffusers', in all its variants: outputs, losses, every
 * gradient, a LoRA's too, with one timestep for each token too; names in LoRA files; recomputation;
 * refusals */
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

/* The LoRA is of all linears of blocks but the picture's, of a modulation, of the patches and of
 * the last layer. */
static const ref_variant variants[] = {
    { "wan", { "off", "tokens", "still" }, 2 * 10 + 3 }, { "wan-40", { NULL }, 0 },
    { "wan-i2v", { "still" }, 12 + 3 }, { "wan-flf2v", { NULL }, 0 }, { "wan-a14b", { NULL }, 0 },
    { "wan-5b", { NULL }, 0 }, { "wan-control", { NULL }, 0 }, { "wan-control-ref", { NULL }, 0 },
};

static const ref_refusal bad_models[] = {
    { "{\"patch_size\":[2,2]}", "patch_size: 2 entries; 3 to 3 are allowed" },
    { "{\"qk_norm\":\"rms_norm\"}", "qk_norm: \"rms_norm\"" },
    { "{\"cross_attn_norm\":false}", "cross_attn_norm: false" },
    { "{\"attention_head_dim\":12}", "attention_head_dim must be a multiple of 8" },
    { "{\"freq_dim\":31}", "freq_dim: 31 is not even" },
    { "{\"in_channels\":10}", "in_channels: 10 with out_channels 4 is no known model" },
    { "{\"image_dim\":40}", "image_dim: 40 with in_channels 4 is no known model" },
    { "{\"added_kv_proj_dim\":32}", "added_kv_proj_dim: 32, it must be 0 where image_dim is 0" },
    { "{\"pos_embed_seq_len\":10}", "pos_embed_seq_len: 10 without image_dim" },
    { "{\"num_layers\":3}", "tensor \"blocks.2.scale_shift_table\" is missing" },
};

/* f32: 1e-4 is the promise, as for CogVideoX; sums in another order differ by 3e-5. bf16: some
 * roundings of 2^-9 in a chain move gradients by up to 2.5e-2, which is that of the prompt's keys,
 * most of which are alike; diffusers' own bf16 differs from its f32 by up to 2.4e-2. */
static ref_suite suite = {
    .family = &vtrain_wan, .variants = variants, .n = COUNT(variants),
    .f32 = { VC_F32, 1e-4, 1e-4, 1e-3, false }, .bf16 = { VC_BF16, 2e-2, 3e-2, 1e-2, true },
    /* The first authors' names are read as diffusers reads them, whoever wrote the file. */
    .names = "wan-names", .modules = 2 * 12 + 8,
    .refused = bad_models, .n_refused = COUNT(bad_models),
};

/* ---- what is refused ---- */

/* Runs the case `base` of a golden after `change`, and expects an error that says `says`. */
static void refuse_batch(const char *name, void (*change)(ref_model *m, ref_case *c),
                         const char *says)
{
    ref_model m;
    ref_case c;
    vc_err err = { 0 };
    ref_open(&m, &vtrain_wan, name, VC_BF16, VC_F32);
    ref_case_open(&c, m.golden, "base");
    change(&m, &c);
    vt_step_begin(m.g, 0);
    assert_null(ref_forward(&m, &c, VT_KEEP));
    assert_int_equal(vt_step_end(m.g, &err), VC_EMISMATCH);
    assert_says(&err, says);
    ref_case_close(&c);
    ref_close(&m);
}

static void no_picture(ref_model *m, ref_case *c)
{
    (void)m;
    free(c->cond[VC_ROLE_VISION]);
    c->cond[VC_ROLE_VISION] = NULL;
}

static void one_picture(ref_model *m, ref_case *c)
{
    (void)m;
    c->cond_dim[VC_ROLE_VISION][1] = 5;
}

static void long_prompt(ref_model *m, ref_case *c)
{
    (void)m;
    c->text_dim[0] = c->dim[0] = 1;
    c->text_dim[1] = 513;
    c->text = realloc(c->text, (size_t)(513 * c->text_dim[2]) * sizeof *c->text);
}

static void test_batches(void **state)
{
    (void)state;
    refuse_batch("wan", long_prompt, "prompts of 513 tokens");
    refuse_batch("wan-i2v", no_picture, "the batch has no CLIP embeddings of a picture");
    refuse_batch("wan-flf2v", one_picture, "CLIP embeddings of a picture: 5 tokens, the "
                 "transformer has positions for 10");
}

/* Latents beyond the positions that the model has. */
static void test_positions(void **state)
{
    ref_model m;
    ref_case c;
    vc_err err = { 0 };
    (void)state;
    assert_ok(ref_open_with(&m, &vtrain_wan, "wan", "{\"rope_max_seq_len\":2}", &err), &err);
    ref_case_open(&c, m.golden, "base");
    vt_step_begin(m.g, 0);
    assert_null(ref_forward(&m, &c, VT_KEEP));
    assert_int_equal(vt_step_end(m.g, &err), VC_EMISMATCH);
    assert_says(&err, "3 x 2 x 3 frames, rows and columns of tokens: rope_max_seq_len is 2");
    ref_case_close(&c);
    ref_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REF_TESTS(suite), REF_NAMES(suite), REF_REFUSED(suite),
        cmocka_unit_test(test_batches), cmocka_unit_test(test_positions),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
