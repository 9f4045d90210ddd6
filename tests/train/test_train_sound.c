/* test_train_sound.c - whole runs of LTX-2's tiny models with sound: ranks that share both streams
 * (--sp) train like one rank, and the target of a prior is the base's own prediction of both.
 * Without MPI the test is skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_compare.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_ranks.h"
#include "tests/lib/train_run.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

enum { STEPS = 4, TRACED = 8 };

/* As in test_train_sequence.c: f32 sums of other parts, and a tenth of the rate. */
#define LOSS 1e-5
#define WEIGHT 1e-6

/* ---- models and datasets ---- */

typedef struct sound_model { const char *golden, *connectors; int width; } sound_model;

static const sound_model models[] = {
    { "ltx2-20", "ltx2-connectors-20", 32 }, { "ltx2-23", "ltx2-connectors-23", 32 + 16 },
    { "ltx2-interleaved", "ltx2-connectors-20", 32 },
};

/* Clips of one bucket with a long, a short and no sound, and stills, whose sound is one frame: less
 * than the ranks. */
static const toy_sample samples[] = {
    { .number = 0, .f = 3, .h = 4, .w = 3, .caption = { "a red ball!" }, .frames = 9, .sound = 11 },
    { .number = 1, .f = 3, .h = 4, .w = 3, .caption = { "a long walk" }, .frames = 9, .sound = 6 },
    { .number = 2, .f = 3, .h = 4, .w = 3, .caption = { "no one here" }, .frames = 9 },
    { .number = 3, .h = 3, .w = 3, .caption = { "three cubes" } },
    { .number = 4, .h = 3, .w = 3, .caption = { "a wet night in a town" } },
};

/* Makes the folder of the model with a dataset, and returns the folder; *flags are the model's. */
static char *make_model(const char *dir, const sound_model *m, char **flags)
{
    char *folder = vc_path_join(dir, m->golden), *set = vc_path_join(folder, "set.lmdb");
    char *beside = vc_path_join(folder, "beside"), *own = vc_path_join(folder, "transformer");
    assert_int_equal(vc_mkdirs(folder, NULL), 0);
    golden_folder(m->golden, own);
    golden_folder(m->connectors, beside);
    toy_make(&(toy){ .path = set, .sample = samples, .n = COUNT(samples), .channels = 8,
                     .width = m->width, .sound_channels = 4, .sound_bins = 4, .family = "ltx-2" });
    *flags = vc_format("--transformer %s --connectors %s --with_audio --mixed_precision no "
                       "--caption_dropout_p 0 --lr_scheduler constant", own, beside);
    free(set), free(beside), free(own);
    return folder;
}

/* ---- ranks that share both streams ---- */

#define ALL "--dataset_repeat 4 --uniform_sampling --max_train_steps 4 "
#define FULL ALL "--training_type full-finetune --first_frame_conditioning_p 0.7 "
/* Adam makes steps of the learning rate also where a gradient is rounding alone. */
#define LORA ALL "--training_type lora --rank 4 --learning_rate 1e-5 --audio_loss_weight 0.5 "
#define TRAINED ALL "--training_type lora --rank 4 --learning_rate 1e-2 "
#define PRIOR LORA "--latents %s/set.lmdb:prior=0.5 --lora_checkpoint %s/t1/checkpoint-4 "

static void test_shared(void **state)
{
    static const struct { int ranks; const char *out, *like, *args; } row[] = {
        { 1, "x1", NULL, FULL "--gradient_accumulation_steps 2" },
        { 2, "x2", "x1", FULL "--gradient_accumulation_steps 2 --sp 2" },
        { 4, "xf", "x1", FULL "--sp 2 --parallel fsdp" },
        { 1, "y1", NULL, LORA },
        { 2, "y2", "y1", LORA "--sp 2 --parallel zero2 --gradient_checkpointing=none" },
        { 1, "t1", NULL, TRAINED },
        { 1, "z1", NULL, PRIOR },
        { 2, "z2", "z1", PRIOR "--sp 2" },
    };
    for (size_t i = 0; i < COUNT(models); i++) {
        char *folder = make_model(*state, &models[i], (char **)&ranks_model);
        for (size_t k = 0; k < COUNT(row); k++) {
            char *args = vc_format(row[k].args, folder, folder);
            ranks_ok(row[k].ranks, folder, row[k].out, args);
            if (row[k].like)
                run_same_training(folder, row[k].like, row[k].out, STEPS, LOSS, WEIGHT);
            free(args);
        }
        free((char *)ranks_model), free(folder);
    }
}

/* ---- priors ---- */

static vf_view tensor(const vf_safetensors *st, const char *name)
{
    vf_view v;
    vc_err err;
    if (vf_safetensors_get(st, name, &v, &err))
        fail_msg("%s", err.text);
    return v;
}

static bool same(const vf_safetensors *a, const char *name, const vf_safetensors *b,
                 const char *other)
{
    vf_view x = tensor(a, name), y = tensor(b, other);
    return x.bytes == y.bytes && !memcmp(x.data, y.data, x.bytes);
}

static vf_safetensors *trace_of(const char *dir, const char *out, int step)
{
    char path[96];
    snprintf(path, sizeof path, "trace-%s/step-%06d-mb-00-rank-00.safetensors", out, step);
    return run_open(dir, path);
}

static bool is_prior(const char *dir, const char *out, int step)
{
    char *all = run_metrics(dir, out, NULL), *line = all;
    for (int i = 1; i < step; i++)
        line = strchr(line, '\n') + 1;
    *strchr(line, '\n') = 0;
    const bool prior = strstr(line, "-prior\"") != NULL;
    free(all);
    return prior;
}

/* Runs a LoRA with weights that hardly change, and a trace of all steps. */
static void run_traced(const char *dir, const char *out, const char *flags, const char *args)
{
    char *all = vc_format("%s --training_type lora --rank 3 --target_name all-linear "
                          "--learning_rate 1e-20 --max_train_steps %d --trace_dir %s/trace-%s "
                          "--trace_steps %d --latents %s/set.lmdb:%s", flags, TRACED, dir, out,
                          TRACED, dir, args);
    run_ok(dir, out, all);
    free(all);
}

/* The target of a prior is what a new LoRA, which changes nothing yet, predicts. */
static void check_step(const vf_safetensors *held, const vf_safetensors *bare, bool prior)
{
    static const char *const streams[] = { "", "audio_" };
    for (size_t i = 0; i < COUNT(streams); i++) {
        char *target = vc_format("%starget", streams[i]);
        char *output = vc_format("%smodel_output", streams[i]);
        assert_false(same(held, output, bare, output));
        assert_true(same(held, target, bare, prior ? output : target));
        assert_true(prior == same(bare, target, bare, output));
        free(target), free(output);
    }
}

static void test_prior(void **state)
{
    for (size_t i = 0; i < 2; i++) {
        int priors = 0, own = 0;
        char *flags, *folder = make_model(*state, &models[i], &flags);
        char *first = vc_format("%s --training_type lora --rank 3 --target_name all-linear "
                                "--learning_rate 1e-2 --max_train_steps 4", flags);
        char *from = vc_format("prior=0.25 --lora_checkpoint %s/trained/checkpoint-4", folder);
        run_ok(folder, "trained", first);
        run_traced(folder, "held", flags, from);
        run_traced(folder, "bare", flags, "prior=1");
        for (int step = 1; step <= TRACED; step++) {
            vf_safetensors *held = trace_of(folder, "held", step);
            vf_safetensors *bare = trace_of(folder, "bare", step);
            const bool prior = is_prior(folder, "held", step);
            *(prior ? &priors : &own) += 1;
            check_step(held, bare, prior);
            assert_true(run_value(folder, "held", step - 1, prior ? "loss_prior" : "loss_own") > 0);
            if (prior)
                assert_true(run_value(folder, "bare", step - 1, "loss_prior") == 0);
            vf_safetensors_close(held);
            vf_safetensors_close(bare);
        }
        assert_true(priors >= 2 && own >= 2);
        free(flags), free(folder), free(first), free(from);
    }
}

int main(void)
{
    int skip = ranks_begin();
    if (skip)
        return skip;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared), cmocka_unit_test(test_prior),
    };
    cmocka_set_test_filter(getenv("VLT_TEST"));
    int bad = cmocka_run_group_tests(tests, toy_dir_setup, toy_dir_teardown);
    free(ranks_output);
    return bad;
}
