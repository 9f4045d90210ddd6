/* test_cogvideox_errors.c - CogVideoX's transformer names wrong fields, weights, latents and
 * prompts in its errors; its fit and its defaults; whole runs and their traces. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/adapters/adapter.h"
#include "common/os/file.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_run.h"
#include "tests/train/models/reference.h"
#include "train/families/families.h"
#include "train/lora/lora.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

/* ---- config.json ---- */

static const struct { const char *golden, *fields, *says; } bad_configs[] = {
    { "5b", "{\"activation_fn\":\"swiglu\"}", "activation_fn: \"swiglu\"" },
    { "5b", "{\"timestep_activation_fn\":\"gelu\"}", "timestep_activation_fn" },
    { "5b", "{\"attention_bias\":false}", "attention_bias: false; only true" },
    { "5b", "{\"attention_bias\":\"yes\"}", "attention_bias: expected" },
    { "5b", "{\"dropout\":0.1}", "dropout: 0.1" },
    { "5b", "{\"flip_sin_to_cos\":false}", "flip_sin_to_cos" },
    { "5b", "{\"freq_shift\":1}", "freq_shift" },
    { "5b", "{\"norm_elementwise_affine\":false}", "norm_elementwise_affine" },
    { "5b", "{\"norm_eps\":0}", "norm_eps" },
    { "5b", "{\"norm_eps\":-1e-5}", "norm_eps" },
    { "5b", "{\"spatial_interpolation_scale\":0}", "spatial_interpolation_scale" },
    { "5b", "{\"temporal_interpolation_scale\":1e300}", "temporal_interpolation_scale" },
    { "5b", "{\"num_layers\":0}", "num_layers" },
    { "5b", "{\"num_layers\":9007199254740991}", "num_layers" },
    { "5b", "{\"num_layers\":\"30\"}", "num_layers: expected" },
    { "5b", "{\"num_attention_heads\":1.5}", "num_attention_heads" },
    { "5b", "{\"num_attention_heads\":256,\"attention_head_dim\":256}", "at most" },
    { "5b", "{\"attention_head_dim\":40}", "multiple of 16" },
    { "5b", "{\"in_channels\":5}", "in_channels: 5" },
    { "5b", "{\"in_channels\":-4}", "in_channels" },
    { "5b", "{\"sample_height\":0}", "sample_height" },
    { "5b", "{\"sample_width\":1}", "smaller than patch_size" },
    { "5b", "{\"patch_size\":17}", "patch_size" },
    { "5b", "{\"temporal_compression_ratio\":0}", "temporal_compression_ratio" },
    { "5b", "{\"max_text_seq_length\":0}", "max_text_seq_length" },
    { "2b", "{\"use_learned_positional_embeddings\":true}", "no such model" },
    { "2b", "{\"patch_size_t\":2}", "patch_size_t needs" },
    { "5b-i2v", "{\"patch_size_t\":2}", "patch_size_t needs" },
    { "1.5-i2v", "{\"ofs_embed_dim\":16}", "ofs_embed_dim" },
    { "1.5-i2v", "{\"ofs_embed_dim\":33}", "ofs_embed_dim" },
};

static void test_bad_configs(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad_configs); i++) {
        char name[64];
        ref_model m;
        vc_err err = { 0 };
        snprintf(name, sizeof name, "cogvideox-%s", bad_configs[i].golden);
        int rc = ref_open_with(&m, &vtrain_cogvideox, name, bad_configs[i].fields, &err);
        if (rc >= 0 || m.model)
            fail_msg("%s was accepted", bad_configs[i].fields);
        if (!strstr(err.text, bad_configs[i].says) || !strstr(err.text, "config.json"))
            fail_msg("%s: \"%s\"", bad_configs[i].fields, err.text);
        ref_close(&m);
    }
}

/* ---- weights ---- */

/* Fields of a config that do not describe the model of the file. */
static const struct { const char *golden, *fields, *says; } bad_weights[] = {
    { "5b", "{\"num_layers\":3}",
      "tensor \"transformer_blocks.2.norm1.linear.weight\" is missing" },
    { "5b", "{\"num_layers\":1}", "transformer_blocks.1." },
    { "5b", "{\"text_embed_dim\":24}",
      "tensor \"patch_embed.text_proj.weight\" is [64,16], [64,24] was expected" },
    { "5b", "{\"time_embed_dim\":64}", "time_embedding.linear_1.weight" },
    { "5b", "{\"in_channels\":8}",
      "tensor \"patch_embed.proj.weight\" is [64,4,2,2], [64,8,2,2] was expected" },
    { "5b", "{\"patch_bias\":false}", "patch_embed.proj.bias is not used" },
    { "5b", "{\"patch_size_t\":2}", "tensor \"patch_embed.proj.weight\" is [64,4,2,2], [64,32]" },
    { "5b", "{\"ofs_embed_dim\":32}", "tensor \"ofs_embedding.linear_1.weight\" is missing" },
    { "5b", "{\"use_learned_positional_embeddings\":true}",
      "tensor \"patch_embed.pos_embedding\" is missing; it should be [1,84,64]" },
    { "5b-i2v", "{\"use_learned_positional_embeddings\":false}",
      "patch_embed.pos_embedding is not used" },
    { "5b-i2v", "{\"sample_frames\":13}", "tensor \"patch_embed.pos_embedding\" is [1,84,64]" },
    { "1.5-i2v", "{\"ofs_embed_dim\":null}", "ofs_embedding.linear_1.bias is not used" },
};

static void test_bad_weights(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad_weights); i++) {
        char name[64];
        ref_model m;
        vc_err err = { 0 };
        snprintf(name, sizeof name, "cogvideox-%s", bad_weights[i].golden);
        int rc = ref_open_with(&m, &vtrain_cogvideox, name, bad_weights[i].fields, &err);
        if (!rc)
            rc = vf_model_all_bound(m.file, m.params, NULL, &err);
        if (rc >= 0)
            fail_msg("%s was accepted", bad_weights[i].fields);
        if (!strstr(err.text, bad_weights[i].says))
            fail_msg("%s: \"%s\"", bad_weights[i].fields, err.text);
        ref_close(&m);
    }
}

/* ---- latents and prompts ---- */

static const struct { const char *golden; int64_t dim[4]; int tokens, valid; const char *says; }
bad_inputs[] = {
    { "5b", { 3, 3, 8, 12 }, 12, 12, "latents have 3 channels, but the transformer reads 4" },
    { "5b", { 4, 3, 7, 12 }, 12, 12, "3x7x12" },
    { "5b", { 4, 3, 8, 13 }, 12, 12, "columns multiples of 2 (patch_size)" },
    { "1.5", { 4, 3, 8, 12 }, 12, 12, "frames must be a multiple of 2 (patch_size_t)" },
    { "1.5", { 4, 2, 18, 12 }, 12, 12, "positions end at 16 rows and 20 columns" },
    { "1.5", { 4, 2, 16, 22 }, 12, 12, "raise sample_height and sample_width" },
    { "5b-i2v", { 4, 3, 12, 8 }, 12, 12, "8 rows and 12 columns (sample_height" },
    { "5b-i2v", { 4, 3, 8, 12 }, 11, 11, "prompts have 11 tokens" },
    { "2b", { 4, 3, 8, 12 }, 13, 13, "exactly 12 (max_text_seq_length)" },
    { "5b", { 4, 3, 8, 12 }, 12, 5, "prompt of 5 tokens among prompts of 12" },
    { "5b", { 4, 3, 8, 12 }, 7, 7, NULL },            /* with rotations, any number of tokens */
    { "2b", { 4, 5, 14, 2 }, 12, 12, NULL },
};

static void test_bad_inputs(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad_inputs); i++) {
        const int64_t *d = bad_inputs[i].dim;
        char name[64];
        static float zero[4 * 5 * 18 * 24];
        ref_model m;
        vc_err err = { 0 };
        ref_case c = { .dim = { 1, d[0], d[1], d[2], d[3] },
                       .text_dim = { 1, bad_inputs[i].tokens, 16 }, .x = zero,
                       .target = zero, .t = zero, .text = zero,
                       .length = { bad_inputs[i].valid } };
        snprintf(name, sizeof name, "cogvideox-%s", bad_inputs[i].golden);
        ref_open(&m, &vtrain_cogvideox, name, VC_BF16, VC_F32);
        vt_step_begin(m.g, 0);
        ref_forward(&m, &c, VT_KEEP);
        int rc = vt_step_end(m.g, &err);
        if ((rc < 0) != (bad_inputs[i].says != NULL))
            fail_msg("row %zu: %s", i, err.text);
        if (rc && !strstr(err.text, bad_inputs[i].says))
            fail_msg("row %zu: %s", i, err.text);
        ref_close(&m);
    }
}

/* ---- fit and defaults ---- */

#define FIT(frames, n, pad) .channels = 4, .n_texts = 1, .text_width = { 16 }, \
    .mult = { frames, 2, 2 }, .blocks = n, .pad_front = pad
static const struct { const char *golden; vtrain_fit fit; } fits[] = {
    { "2b", { FIT(1, 2, false) } },
    { "5b-i2v", { FIT(1, 1, false), .roles = 1u << VC_ROLE_IMAGE } },
    { "1.5", { FIT(2, 1, true) } },
    { "1.5-i2v", { FIT(2, 1, true), .roles = 1u << VC_ROLE_IMAGE } },
    { "inp", { FIT(1, 1, false), .roles = 1u << VC_ROLE_VIDEO | 1u << VC_ROLE_MASK } },
};

static void test_fit(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(fits); i++) {
        char name[64];
        ref_model m;
        vtrain_fit have;
        snprintf(name, sizeof name, "cogvideox-%s", fits[i].golden);
        ref_open(&m, &vtrain_cogvideox, name, VC_BF16, VC_F32);
        vtrain_cogvideox.fit(m.model, &have);
        const vtrain_fit *want = &fits[i].fit;
        assert_int_equal(have.channels, want->channels);
        assert_int_equal(have.n_texts, want->n_texts);
        assert_int_equal(have.text_width[0], want->text_width[0]);
        assert_memory_equal(have.mult, want->mult, sizeof have.mult);
        assert_int_equal(have.pad_front, want->pad_front);
        assert_int_equal(have.roles, want->roles);
        assert_int_equal(have.blocks, want->blocks);
        ref_close(&m);
    }
    assert_ptr_equal(vtrain_family_of_class("CogVideoXTransformer3DModel"), &vtrain_cogvideox);
}

/* The family's targets are the four linears of each attention. */
static void test_targets(void **state)
{
    const char *modules[64];
    char *text;
    vtrain_targets *t;
    vc_err err = { 0 };
    ref_model m;
    int n = 0, matched;
    (void)state;
    ref_open(&m, &vtrain_cogvideox, "cogvideox-5b", VC_BF16, VC_F32);
    for (int i = 0; i < vt_params_count(m.params); i++) {
        const vt_param *p = vt_params_at(m.params, i);
        if (p->module && p->lin->w == p->t)
            modules[n++] = p->module;
    }
    modules[n] = NULL;
    assert_ok(vtrain_targets_open(&t, vtrain_cogvideox.lora_targets, modules,
              (const char *const[]){ NULL }, NULL, &text, &err), &err);
    assert_int_equal(vt_params_lora(m.params, vtrain_targets_match, t, 4, 4, 1, &matched, &err), 0);
    assert_int_equal(matched, 2 * 4);
    vtrain_targets_close(t);
    free(text);
    ref_close(&m);
}

/* ---- whole runs ---- */

enum { F = 3, H = 8, W = 12, C = 4 };

/* Makes a dataset with first frames and two validation prompts, of which the second asks for 5 x 3
 * latents. */
static void data_make(char dir[256])
{
    static const toy_sample samples[] = {     /* 11 letters are 12 tokens */
        { .number = 0, .f = F, .h = H, .w = W, .caption = { "a red ball!" } },
        { .number = 1, .f = F, .h = H, .w = W, .caption = { "a long walk" } },
    };
    toy_dir_make(dir);
    char *path = vc_path_join(dir, "set.lmdb");
    const toy t = { .path = path, .sample = samples, .n = 2, .channels = C, .width = 16,
                    .family = "cogvideox", .train_mode = "i2v", .conditions = 1 << VC_ROLE_IMAGE,
                    .prompts = 2 };
    toy_make(&t);
    free(path);
}

static vf_safetensors *trace_of(const char *dir)
{
    vf_safetensors *f;
    vc_err err = { 0 };
    char *path = vc_format("%s/trace/step-000001-mb-00-rank-00.safetensors", dir);
    assert_ok(vf_safetensors_open(&f, path, &err), &err);
    free(path);
    return f;
}

/* The trace has frames before channels, and its loss follows from its output and target. */
static void check_trace(const vf_safetensors *f, int rows)
{
    static const char *const videos[] = { "latents", "noise", "noisy_latents", "model_output",
                                          "target", "hidden_states" };
    const int64_t video[5] = { rows, F, C, H, W }, rope[2] = { F * (H / 2) * (W / 2), 64 };
    const int64_t text[3] = { rows, 12, 16 };
    for (size_t i = 0; i < COUNT(videos); i++)
        golden_has_shape(f, videos[i], 5, video);
    golden_has_shape(f, "image_rotary_emb_cos", 2, rope);
    golden_has_shape(f, "image_rotary_emb_sin", 2, rope);
    golden_has_shape(f, "encoder_hidden_states", 3, text);
    golden_has_shape(f, "timesteps", 1, video);

    int64_t n = rows * F * C * H * W;
    float *y = golden_values(f, "model_output", NULL), *want = golden_values(f, "target", NULL);
    float *noisy = golden_values(f, "noisy_latents", NULL), *loss = golden_values(f, "loss", NULL);
    float *hidden = golden_values(f, "hidden_states", NULL);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += ((double)y[i] - (double)want[i]) * ((double)y[i] - (double)want[i]);
    assert_true(fabs(sum / (double)n - (double)loss[0]) < 1e-5 * (double)loss[0]);
    assert_memory_equal(hidden, noisy, (size_t)n * sizeof *noisy);
    free(y);
    free(want);
    free(noisy);
    free(hidden);
    free(loss);
}

static void test_full_run(void **state)
{
    char dir[256];
    ref_model m;
    vc_err err = { 0 };
    (void)state;
    data_make(dir);
    ref_open(&m, &vtrain_cogvideox, "cogvideox-5b", VC_BF16, VC_F32);
    char *args = vc_format("--transformer %s --training_type full-finetune --max_train_steps 2 "
                           "--trace_dir %s/trace --trace_steps 1 --mixed_precision no "
                           "--caption_dropout_p 0", golden_tmp("cogvideox-5b"), dir);
    run_ok(dir, "full", args);
    vf_safetensors *f = trace_of(dir);
    check_trace(f, 2);

    /* The trace has every parameter with its gradient, and the checkpoint has every parameter. */
    vf_model *saved;
    char *path = vc_format("%s/full/checkpoint-2/transformer", dir);
    assert_ok(vf_model_open(&saved, path, &err), &err);
    for (int i = 0; i < vt_params_count(m.params); i++) {
        const vt_param *p = vt_params_at(m.params, i);
        char name[160];
        vf_view v;
        snprintf(name, sizeof name, "grad/%s", p->name);
        golden_has_shape(f, name, p->t->nd, p->t->dim);
        assert_int_equal(vf_model_get(saved, p->name, &v, NULL), 0);
        assert_int_equal(v.nd, p->t->nd);
        assert_memory_equal(v.dim, p->t->dim, sizeof *v.dim * (size_t)v.nd);
    }
    assert_int_equal(vf_model_all_bound(saved, m.params, NULL, NULL), 0);
    vf_model_close(saved);
    vf_safetensors_close(f);
    ref_close(&m);
    free(path);
    free(args);
    toy_dir_remove(dir);
}

static void test_lora_run(void **state)
{
    char dir[256];
    ref_model m;
    (void)state;
    data_make(dir);
    ref_open(&m, &vtrain_cogvideox, "cogvideox-5b", VC_BF16, VC_F32);
    char *args = vc_format("--transformer %s --training_type lora --rank 4 --max_train_steps 2 "
                           "--gradient_checkpointing=block", golden_tmp("cogvideox-5b"));
    run_ok(dir, "lora", args);
    assert_true(run_exists(dir, "lora/checkpoint-2/pytorch_lora_weights.safetensors"));
    assert_true(run_value(dir, "lora", 1, "grad_norm") > 0);
    free(args);
    /* A clean first frame needs a timestep for each token. */
    vc_err err = { 0 };
    args = vc_format("--transformer %s --first_frame_conditioning_p 0.1",
                     golden_tmp("cogvideox-5b"));
    assert_int_equal(run(dir, "first", args, &err), VC_EUSAGE);
    assert_says(&err, "--first_frame_conditioning_p: CogVideoXTransformer3DModel takes one");
    ref_close(&m);
    free(args);
    toy_dir_remove(dir);
}

/* A prompt that the model cannot sample ends a run before its first step. */
static void test_prompt_of_another_size(void **state)
{
    char dir[256];
    ref_model m;
    vc_err err = { 0 };
    (void)state;
    data_make(dir);
    ref_open(&m, &vtrain_cogvideox, "cogvideox-5b-i2v", VC_BF16, VC_F32);
    char *args = vc_format("--transformer %s --rank 2 --max_train_steps 1 --validation_steps 1",
                           golden_tmp("cogvideox-5b-i2v"));
    assert_int_equal(run(dir, "sized", args, &err), VC_EMISMATCH);
    if (!strstr(err.text, "validation prompt 1: ") || !strstr(err.text, "table of positions"))
        fail_msg("%s", err.text);
    assert_false(run_exists(dir, "sized"));
    ref_close(&m);
    free(args);
    toy_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_configs), cmocka_unit_test(test_bad_weights),
        cmocka_unit_test(test_bad_inputs),  cmocka_unit_test(test_fit),
        cmocka_unit_test(test_targets),     cmocka_unit_test(test_full_run),
        cmocka_unit_test(test_lora_run),    cmocka_unit_test(test_prompt_of_another_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
