/* test_qwen_run.c - whole runs of Qwen-Image's tiny transformer: a validation sample against
 * diffusers' pipelines (tests/golden/samples-qwen, samples-qwen-edit*), levels of other trainers,
 * traces in the layout of diffusers' forward(), parameters without a gradient, LoRA files, and what
 * is refused */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_run.h"
#include "tests/train/models/pipeline_samples.h"
#include "train/diffusion/objective.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
#define WEIGHTS "diffusion_pytorch_model.safetensors"
enum { C = 4, H = 4, W = 6, N = H / 2 * (W / 2), TEXT = 32 };

static const toy_sample pictures[] = {
    { .number = 0, .h = H, .w = W, .caption = { "a" } },
    { .number = 1, .h = H, .w = W, .caption = { "a longer one" } },
};

static toy toy_of(const char *path)
{
    return (toy){ .path = path, .sample = pictures, .n = COUNT(pictures), .channels = C,
                  .width = TEXT, .family = "qwen-image" };
}

/* The changes of one step are too small to be seen in samples. */
#define LORA "--training_type lora --rank 1 --learning_rate 1e-20 "

static int step_of(const char *model, const char *dir, const char *set, const char *out,
                   const char *more, vc_err *err)
{
    char *args = vc_format("--latents %s/%s --transformer %s/%s --output_dir %s/%s "
                           "--max_train_steps 1 --mixed_precision no --threads 1 --workers 1 "
                           "--train_batch_size 2 --seed 5 %s", dir, set, dir, model, dir, out,
                           more);
    int rc = run_bare(args, err);
    free(args);
    return rc;
}

static int step(const char *dir, const char *set, const char *out, const char *more, vc_err *err)
{
    return step_of("qwen", dir, set, out, more, err);
}

/* ---- samples ---- */

/* Three guided steps with one to three references of unequal sizes, behind a noisy picture of
 * another size, of Qwen-Image-Edit-2511 and of the first Qwen-Image-Edit. */
static void edit_sample(const char *dir, const char *model, const char *name)
{
    char *set = vc_path_join(dir, name), *golden = vc_format("samples-qwen-%s", name);
    char *made = vc_format("made-%s", name);
    char *out = vc_format("%s/%s/validation/step-1/000.safetensors", dir, made);
    vf_safetensors *gold = golden_open(golden);
    vc_err err = { 0 };
    toy t = toy_of(set);
    t.encoders = 1;
    t.train_mode = "edit";
    pipeline_set_make(t, gold, 1);
    char *more = vc_format(LORA "--validation_steps 1 --num_inference_steps %s",
                           vf_safetensors_meta(gold, "steps"));
    assert_ok(step_of(model, dir, name, made, more, &err), &err);
    vf_safetensors_close(pipeline_sample_check(out, gold));
    vf_safetensors_close(gold);
    free(more);
    free(out);
    free(made);
    free(golden);
    free(set);
}

static void test_edit_sample(void **state)
{
    static const struct { const char *model, *name; } rows[] = {
        { "qwen-edit-2511", "edit" }, { "qwen-edit-2511", "edit-one" },
        { "qwen-edit-2511", "edit-three" }, { "qwen", "edit-first" },
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        edit_sample(*state, rows[i].model, rows[i].name);
}

/* A folder without a scheduler's file has the family's schedule, whose stretch is for samples; the
 * guidance by the negative prompt is the family's 4, and tokens keep the prompt's norm. */
static void test_sample(void **state)
{
    const char *dir = *state;
    char *set = vc_path_join(dir, "prompt"), *out = vc_format("%s/sampled/validation/step-1/"
                                                             "000.safetensors", dir);
    vf_safetensors *gold = golden_open("samples-qwen");
    vc_err err = { 0 };
    toy t = toy_of(set);
    t.encoders = 1;
    pipeline_set_make(t, gold, 1);
    char *more = vc_format(LORA "--validation_steps 1 --num_inference_steps %s",
                           vf_safetensors_meta(gold, "steps"));
    assert_ok(step(dir, "prompt", "sampled", more, &err), &err);
    vf_safetensors_close(pipeline_sample_check(out, gold));
    assert_ok(step(dir, "prompt", "steps", LORA "--validation_steps 1", &err), &err);
    vf_safetensors *f = run_open(dir, "steps/validation/step-1/000.safetensors");
    assert_string_equal(vf_safetensors_meta(f, "num_inference_steps"), "50");
    vf_safetensors_close(f);
    vf_safetensors_close(gold);
    free(more);
    free(set);
    free(out);
}

/* ---- levels ---- */

/* Compares the levels of a table, in falling order, and their weights (NULL: all are 1). */
static void same_table(const vtrain_objective_opts *opts, int64_t tokens, const char *levels,
                       const char *weights)
{
    vtrain_objective *o;
    vc_err err = { 0 };
    vf_safetensors *f = golden_open("samples-qwen");
    float *s = golden_values(f, levels, NULL);
    float *w = weights ? golden_values(f, weights, NULL) : NULL;
    assert_ok(vtrain_objective_open(&o, opts, &err), &err);
    for (int i = 0; i < 1000; i++) {
        const vtrain_level l = vtrain_level_of(o, tokens, (i + 0.5) / 1000);
        const double far = fabs(l.sigma - (double)s[i]);
        const double off = fabs((double)l.weight - (w ? (double)w[i] : 1));
        if (!(far <= 2e-6 && off <= 1e-5))
            fail_msg("%s: level %d is %g with weight %g, not %g", levels, i, l.sigma,
                     (double)l.weight, (double)s[i]);
    }
    vtrain_objective_close(o);
    vf_safetensors_close(f);
    free(s);
    free(w);
}

/* VideoX-Fun trains on the scheduler's table, stretch included, and DiffSynth-Studio on that of a
 * fixed mu, with its weights. */
static void test_tables(void **state)
{
    (void)state;
    const vtrain_objective_opts uniform = {
        .kind = VTRAIN_FLOW, .density = VTRAIN_UNIFORM, .grid = 1000, .terminal = 0.02,
        .by_tokens = { true, VTRAIN_MU_EXPONENTIAL, 0.5, 0.9, 256, 8192 },
    };
    const vtrain_objective_opts bell = { .kind = VTRAIN_FLOW, .density = VTRAIN_BELL, .grid = 1000,
                                         .terminal = 0.02, .shift = exp(0.8) };
    same_table(&uniform, 1024, "levels", NULL);
    same_table(&bell, 1, "bell/levels", "bell/weights");
}

/* ---- traces ---- */

static vf_safetensors *traced(const char *dir, const char *name, const char *more)
{
    char *args = vc_format(LORA "--trace_dir %s/%s-trace %s", dir, name, more);
    char *path = vc_format("%s-trace/step-000001-mb-00-rank-00.safetensors", name);
    vc_err err = { 0 };
    assert_ok(step(dir, "set.lmdb", name, args, &err), &err);
    vf_safetensors *f = run_open(dir, path);
    free(args);
    free(path);
    return f;
}

static void test_trace(void **state)
{
    static const char *const packed[] = { "latents", "noise", "noisy_latents", "target",
                                          "model_output", "loss_weight" };
    vf_safetensors *f = traced(*state, "names", "");
    for (size_t i = 0; i < COUNT(packed); i++)
        golden_has_shape(f, packed[i], 3, (int64_t[]){ 2, N, 4 * C });
    int64_t dim[8], mask_dim[8];
    float *text = golden_values(f, "encoder_hidden_states", dim);
    float *mask = golden_values(f, "encoder_hidden_states_mask", mask_dim);
    float *shape = golden_values(f, "img_shapes", NULL);
    float *n = golden_values(f, "txt_seq_lens", NULL);
    float *level = golden_values(f, "timestep", NULL), *sigma = golden_values(f, "sigmas", NULL);
    assert_true(dim[1] == mask_dim[1] && dim[2] == TEXT && n[0] != n[1]);
    for (int b = 0; b < 2; b++) {
        assert_true(shape[3 * b] == 1 && shape[3 * b + 1] == H / 2 && shape[3 * b + 2] == W / 2);
        assert_float_equal(level[b], (double)sigma[b], 1e-6);
        for (int64_t i = 0; i < dim[1]; i++)
            assert_true(mask[b * dim[1] + i] == (float)((float)i < n[b]));
    }
    free(text);
    free(mask);
    free(shape);
    free(n);
    free(level);
    free(sigma);
    vf_safetensors_close(f);
}

/* The level that the transformer is given may be rounded; the noise has the level as drawn. */
static void test_rounded(void **state)
{
    vf_safetensors *f = traced(*state, "rounded", "--timestep_dtype bf16");
    float *level = golden_values(f, "timestep", NULL), *sigma = golden_values(f, "sigmas", NULL);
    for (int b = 0; b < 2; b++) {
        assert_float_equal(level[b], (double)vc_bf16_to_f32(vc_f32_to_bf16(sigma[b])), 1e-7);
        assert_true(level[b] != sigma[b]);
    }
    free(level);
    free(sigma);
    vf_safetensors_close(f);
}

/* ---- parameters without a gradient ---- */

/* A full finetune changes all tensors but those that the prediction does not depend on. */
static void test_unreached(void **state)
{
    static const char *const kept[] = { "transformer_blocks.1.attn.to_add_out.",
                                        "transformer_blocks.1.txt_mlp." };
    const char *dir = *state;
    vc_err err = { 0 };
    assert_ok(step(dir, "set.lmdb", "full", "--training_type full-finetune --learning_rate 1e-2 "
                   "--adam_weight_decay 0.5 --max_grad_norm 0.1", &err), &err);
    vf_safetensors *a = run_open(dir, "qwen/" WEIGHTS);
    vf_safetensors *b = run_open(dir, "full/checkpoint-1/transformer/" WEIGHTS);
    for (int i = 0; i < vf_safetensors_count(a); i++) {
        const char *name = vf_safetensors_at(a, i)->name;
        float *was = golden_values(a, name, NULL), *is = golden_values(b, name, NULL);
        bool unreached = false;
        for (size_t k = 0; k < COUNT(kept); k++)
            unreached |= !strncmp(name, kept[k], strlen(kept[k]));
        if ((was[0] == is[0]) != unreached)
            fail_msg("%s: %g became %g", name, (double)was[0], (double)is[0]);
        free(was);
        free(is);
    }
    vf_safetensors_close(a);
    vf_safetensors_close(b);
}

/* ---- LoRA files, which the next run reads ---- */

/* Namings of other trainers: `file` is the one of ours that is written with another prefix, and
 * with `middle` in front of the suffix .weight. */
static const struct naming {
    const char *name, *file, *prefix, *theirs, *middle;
} namings[] = {
    { "diffusers", "pytorch_lora_weights", "transformer.", "transformer.", "" },
    { "comfyui", "lora_comfyui", "diffusion_model.", "diffusion_model.", "" },
    { "videox-fun", "lora_kohya", "lora_unet__", "lora_unet__", "" },
    { "musubi-tuner", "lora_kohya", "lora_unet__", "lora_unet_", "" },
    { "diffsynth", "pytorch_lora_weights", "transformer.", "", ".default" },
};

static char *theirs(const struct naming *n, const char *name)
{
    const char *path = name + strlen(n->prefix), *end = strstr(path, ".weight");
    assert_memory_equal(name, n->prefix, strlen(n->prefix));
    return end ? vc_format("%s%.*s%s%s", n->theirs, (int)(end - path), path, n->middle, end)
               : vc_format("%s%s", n->theirs, path);
}

/* Writes the LoRA of DIR/lora in a naming and trains on with the file. */
static void again(const char *dir, const struct naming *n)
{
    enum { MOST = 256 };
    vf_view view[MOST];
    vc_err err = { 0 };
    char *from = vc_format("lora/checkpoint-1/%s.safetensors", n->file);
    char *to = vc_format("%s/%s.safetensors", dir, n->name);
    vf_safetensors *f = run_open(dir, from);
    const int count = vf_safetensors_count(f);
    assert_true(count <= MOST);
    for (int i = 0; i < count; i++) {
        view[i] = *vf_safetensors_at(f, i);
        view[i].name = theirs(n, view[i].name);
    }
    assert_ok(vf_safetensors_write(to, view, count, NULL, 0, &err), &err);
    for (int i = 0; i < count; i++)
        free((void *)(uintptr_t)view[i].name);
    vf_safetensors_close(f);
    char *more = vc_format("--training_type lora --rank 2 --lora_checkpoint %s", to);
    assert_ok(step(dir, "set.lmdb", n->name, more, &err), &err);
    free(more);
    free(from);
    free(to);
}

static void test_lora(void **state)
{
    const char *dir = *state;
    vc_err err = { 0 };
    assert_ok(step(dir, "set.lmdb", "lora", "--training_type lora --rank 2 --learning_rate 1e-2",
                   &err), &err);
    for (size_t i = 0; i < COUNT(namings); i++) {
        char *path = vc_format("%s/checkpoint-1/optimizer.safetensors", namings[i].name);
        again(dir, &namings[i]);
        assert_true(run_same_file(dir, path, "diffusers/checkpoint-1/optimizer.safetensors"));
        free(path);
    }
    assert_false(run_same_file(dir, "lora/checkpoint-1/optimizer.safetensors",
                               "diffusers/checkpoint-1/optimizer.safetensors"));
}

/* ---- what is refused ---- */

static void test_refused(void **state)
{
    static const toy_sample clips[] = { { .number = 0, .f = 3, .h = H, .w = W,
                                          .caption = { "a" } } };
    const char *dir = *state;
    char *path = vc_path_join(dir, "odd");
    toy t = toy_of(path);
    vc_err err = { 0 };
    t.sample = clips;
    t.n = 1;
    toy_make(&t);
    assert_fails(step(dir, "odd", "odd-out", LORA, &err), VC_EMISMATCH, &err,
                 "Qwen-Image makes pictures");
    free(path);
}

static int make(void **state)
{
    static const char *const names[] = { "qwen", "qwen-edit-2511", NULL };
    int rc = pipeline_models_make(state, names);
    char *set = vc_path_join(*state, "set.lmdb");
    const toy t = toy_of(set);
    toy_make(&t);
    free(set);
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample), cmocka_unit_test(test_edit_sample),
        cmocka_unit_test(test_tables), cmocka_unit_test(test_trace),
        cmocka_unit_test(test_rounded), cmocka_unit_test(test_unreached),
        cmocka_unit_test(test_lora), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, make, toy_dir_teardown);
}
