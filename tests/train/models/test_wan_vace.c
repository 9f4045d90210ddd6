/* test_wan_vace.c - Wan VACE's transformer against diffusers': outputs, losses, every gradient, a
 * LoRA's too, with references in front and of stills; the order of its blocks; Wan's T2V without
 * what these add; names in LoRA files; recomputation; refusals */
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

/* The LoRA is of all linears of 5 blocks, of a modulation, of both kinds of patches, of what VACE's
 * stream begins with and of the last layer. */
static const ref_variant variants[] = {
    { "wan-vace", { "off", "references", "still" }, 5 * 10 + 2 + 5 },
};

/* As for Wan: f32 promises 1e-4. bf16 rounds activations by 2^-9, in two streams one behind the
 * other; the largest error of a gradient, 4e-2, is that of the bias of a prompt's keys, most of
 * which are alike, and where diffusers' own bf16 is farthest from its f32 as well (2.4e-2); all
 * others are below 3e-2. */
static ref_suite suite = {
    .family = &vtrain_wan_vace, .variants = variants, .n = COUNT(variants),
    .f32 = { VC_F32, 1e-4, 1e-4, 1e-3, false }, .bf16 = { VC_BF16, 2e-2, 5e-2, 1e-2, true },
};

static void test_names(void **state)
{
    (void)state;
    ref_check_names(&vtrain_wan_vace, "wan-vace-names", 4 * 10 + 6 + 2);
}

static const ref_refusal bad_models[] = {
    { "{\"vace_layers\":[1,2]}", "vace_layers: begins with 1, it must begin with 0" },
    { "{\"vace_layers\":[0,3]}", "vace_layers: 3, the numbers must grow and be below num_layers, "
      "which is 3" },
    { "{\"vace_layers\":[0,2,2]}", "vace_layers: 2, the numbers must grow" },
    { "{\"vace_layers\":[]}", "vace_layers: 0 entries" },
    { "{\"vace_in_channels\":8}", "vace_in_channels: 8 with out_channels 4 leaves no channels of a "
      "mask" },
    { "{\"vace_layers\":[0,1,2]}", "tensor \"vace_blocks.2.scale_shift_table\" is missing" },
};

static void test_refused(void **state)
{
    (void)state;
    ref_check_refusals(&vtrain_wan_vace, "wan-vace", bad_models, COUNT(bad_models));
}

/* A block of VACE runs behind the block of Wan that its number names, and swaps in this order. */
static void test_order(void **state)
{
    static const char *const order[] = { "blocks.0.", "vace_blocks.0.", "blocks.1.", "blocks.2.",
                                         "vace_blocks.1." };
    ref_model m;
    (void)state;
    ref_open(&m, &vtrain_wan_vace, "wan-vace", VC_BF16, VC_F32);
    for (int i = 0; i < vt_params_count(m.params); i++) {
        const vt_param *p = vt_params_at(m.params, i);
        if (p->block >= 0)
            assert_int_equal(strncmp(p->name, order[p->block], strlen(order[p->block])), 0);
    }
    ref_close(&m);
}

static bool is_result(const char *name)
{
    return !strncmp(name, "vace_blocks.", 12) && strstr(name, ".proj_out.");
}

/* The output of the case `base`, malloc'ed; of VACE with nothing added to Wan's stream. */
static float *output_of(const vtrain_family *family, int64_t *n)
{
    ref_model m;
    ref_case c;
    vc_err err = { 0 };
    assert_ok(ref_open_with(&m, family, "wan-vace", "{}", &err), &err);
    assert_ok(vt_params_train(m.params, NULL, NULL, &err), &err);
    for (int i = 0; i < vt_params_count(m.params); i++) {
        const vt_param *p = vt_params_at(m.params, i);
        float *zeros = is_result(p->name) ? calloc((size_t)vt_count(p->t), sizeof *zeros) : NULL;
        if (zeros)
            vt_param_set(m.g, p->t, zeros, VC_F32);
        free(zeros);
    }
    ref_case_open(&c, m.golden, "base");
    *n = c.dim[0] * c.dim[1] * c.dim[2] * c.dim[3] * c.dim[4];
    float *out = malloc((size_t)*n * sizeof *out);
    ref_step(&m, &c, VT_KEEP, out);
    ref_case_close(&c);
    ref_close(&m);
    return out;
}

/* Without what VACE adds (a scale of 0 in diffusers) the model is Wan's T2V, bit for bit. */
static void test_without(void **state)
{
    int64_t n;
    (void)state;
    float *edits = output_of(&vtrain_wan_vace, &n), *plain = output_of(&vtrain_wan, &n);
    assert_memory_equal(edits, plain, (size_t)n * sizeof *plain);
    free(edits);
    free(plain);
}

static void refuse_case(const char *name, void (*change)(ref_case *c), const char *says)
{
    ref_case c;
    vf_safetensors *f = golden_open("wan-vace");
    ref_case_open(&c, f, name);
    change(&c);
    ref_check_input(&vtrain_wan_vace, "wan-vace", &c, says);
    ref_case_close(&c);
    vf_safetensors_close(f);
}

static void no_mask(ref_case *c)
{
    free(c->cond[VC_ROLE_MASK]);
    c->cond[VC_ROLE_MASK] = NULL;
}

static void no_reference(ref_case *c)
{
    free(c->cond[VC_ROLE_REFERENCE + 1]);
    c->cond[VC_ROLE_REFERENCE + 1] = NULL;
}

static void test_batches(void **state)
{
    (void)state;
    refuse_case("base", no_mask, "the batch has no clip to edit with a mask");
    refuse_case("references", no_reference, "4 latent frames with a clip to edit of 2 and 1 "
                "references in front");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REF_TESTS(suite), cmocka_unit_test(test_names), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_order), cmocka_unit_test(test_without),
        cmocka_unit_test(test_batches),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
