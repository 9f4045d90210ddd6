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
#include "train/models/lora.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

/* The LoRA is of all linears of blocks but the picture's, of a modulation, of the patches and of
 * the last layer. */
static const ref_variant variants[] = {
    { "wan", { "off", "tokens", "still" }, 2 * 10 + 3 }, { "wan-40", { NULL }, 0 },
    { "wan-i2v", { "still" }, 12 + 3 }, { "wan-flf2v", { NULL }, 0 }, { "wan-a14b", { NULL }, 0 },
    { "wan-5b", { NULL }, 0 }, { "wan-control", { NULL }, 0 }, { "wan-control-ref", { NULL }, 0 },
};

/* f32: 1e-4 is the promise, as for CogVideoX; sums in another order differ by 3e-5. bf16: some
 * roundings of 2^-9 in a chain move gradients by up to 2.5e-2, which is that of the prompt's keys,
 * most of which are alike; diffusers' own bf16 differs from its f32 by up to 2.4e-2. */
static const ref_tolerance f32 = { VC_F32, 1e-4, 1e-4, 1e-3, false };
static const ref_tolerance bf16 = { VC_BF16, 2e-2, 3e-2, 1e-2, true };

static void test_f32(void **state)
{
    (void)state;
    ref_check_variants(&vtrain_wan, variants, COUNT(variants), &f32);
}

static void test_bf16(void **state)
{
    (void)state;
    ref_check_variants(&vtrain_wan, variants, COUNT(variants), &bf16);
}

static void test_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(variants); i++) {
        ref_check_recompute(&vtrain_wan, variants[i].name);
        ref_check_dry(&vtrain_wan, variants[i].name);
    }
}

/* ---- names in LoRA files ---- */

/* How programs write the factors of a module in the first authors' names: ComfyUI, musubi-tuner,
 * DiffSynth-Studio. */
static const struct { const char *prefix, *a, *b; bool flat; } namings[] = {
    { "diffusion_model.", ".lora_A.weight", ".lora_B.weight", false },
    { "lora_unet_", ".lora_down.weight", ".lora_up.weight", true },
    { "", ".lora_A.default.weight", ".lora_B.default.weight", false },
    { "pipe.dit.", ".lora_A.default.weight", ".lora_B.default.weight", false },
};

static const char end[] = ".lora_A.weight";

/* The name of a golden's tensor `theirs/MODULE.lora_A.weight` in a naming, malloc'ed. */
static char *name_in(size_t naming, const char *theirs)
{
    const size_t n = strlen(theirs) - strlen("theirs/") - (sizeof end - 1);
    const bool a = strstr(theirs, end);
    char *name = vc_format("%s%.*s%s", namings[naming].prefix, (int)n, theirs + strlen("theirs/"),
                           a ? namings[naming].a : namings[naming].b);
    for (size_t i = 0; namings[naming].flat && i < strlen(namings[naming].prefix) + n; i++)
        name[i] = (char)(name[i] == '.' ? '_' : name[i]);
    return name;
}

/* Opens a file of the golden's factors in a naming. */
static vtrain_lora *open_theirs(const vf_safetensors *f, size_t naming)
{
    enum { MOST = 128 };
    vf_view theirs[MOST];
    int n = 0;
    vc_err err = { 0 };
    for (int i = 0; i < vf_safetensors_count(f); i++) {
        const vf_view *v = vf_safetensors_at(f, i);
        if (strncmp(v->name, "theirs/", 7))
            continue;
        assert_true(n < MOST);
        theirs[n] = *v;
        theirs[n++].name = name_in(naming, v->name);
    }
    char *path = vc_path_join(golden_tmp("names"), "theirs.safetensors");
    assert_ok(vf_safetensors_write(path, theirs, n, NULL, 0, &err), &err);
    for (int i = 0; i < n; i++)
        free((void *)(uintptr_t)theirs[i].name);
    vtrain_lora *l;
    assert_ok(vtrain_lora_open(&l, path, &err), &err);
    vtrain_lora_rename(l, vtrain_wan.lora_names);
    free(path);
    return l;
}

static void same_factors(vtrain_lora *l, const vf_safetensors *f, const char *module)
{
    static const char *const halves[2] = { "A", "B" };
    vtrain_lora_pair p;
    vc_err err = { 0 };
    if (vtrain_lora_get(l, module, &p, &err))
        fail_msg("%s: %s", module, err.text);
    for (int i = 0; i < 2; i++) {
        char *name = vc_format("ours/%s.lora_%s.weight", module, halves[i]);
        const vf_view *got = i ? &p.b : &p.a;
        vf_view v;
        assert_ok(vf_safetensors_get(f, name, &v, &err), &err);
        assert_int_equal(got->bytes, v.bytes);
        assert_memory_equal(got->data, v.data, v.bytes);
        free(name);
    }
}

/* The first authors' names are read as diffusers reads them, whoever wrote the file. */
static void test_names(void **state)
{
    vf_safetensors *f = golden_open("wan-names");
    (void)state;
    for (size_t k = 0; k < COUNT(namings); k++) {
        vtrain_lora *l = open_theirs(f, k);
        int modules = 0;
        vc_err err = { 0 };
        for (int i = 0; i < vf_safetensors_count(f); i++) {
            const char *name = vf_safetensors_at(f, i)->name, *at = strstr(name, end);
            if (strncmp(name, "ours/", 5) || !at)
                continue;
            char *module = strndup(name + 5, (size_t)(at - name) - 5);
            same_factors(l, f, module);
            free(module);
            modules++;
        }
        assert_int_equal(modules, 2 * 12 + 8);
        assert_ok(vtrain_lora_all_used(l, &err), &err);
        vtrain_lora_close(l);
    }
    vf_safetensors_close(f);
}

/* ---- what is refused ---- */

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

static void test_refused(void **state)
{
    (void)state;
    ref_check_refusals(&vtrain_wan, "wan", bad_models, COUNT(bad_models));
}

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
        cmocka_unit_test(test_f32), cmocka_unit_test(test_bf16), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_names), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_batches), cmocka_unit_test(test_positions),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
