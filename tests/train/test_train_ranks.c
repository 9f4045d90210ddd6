/* test_train_ranks.c - vtrain on several ranks has the samples of one rank and, except for
 * rounding, its losses and weights; another number of ranks resumes its checkpoints. Without MPI
 * the test is skipped. */
#include <math.h>
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
#include "formats/tensors/safetensors.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_compare.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_ranks.h"
#include "tests/lib/train_run.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

enum { STEPS = 6 };

/* ---- the tests ---- */

#define LATE "--dit_width 32 --dit_layers 1 --dit_heads 2 --dataset_repeat 4 "
#define ALL "--caption_dropout_p 0.3 --eval_split 0.2 --eval_steps 2 --dataset_repeat 4 " \
            "--uniform_sampling --use_ema --ema_decay 0.9 --no_decay norm,bias " \
            "--param_groups 'to_q|to_k:lr=1e-3,decay=0.1' "

static void test_same_training(void **state)
{
    const char *dir = *state;
    ranks_ok(1, dir, "one", ALL "--max_train_steps 6 --gradient_accumulation_steps 4");
    ranks_ok(2, dir, "two", ALL "--max_train_steps 6 --gradient_accumulation_steps 2");
    ranks_ok(4, dir, "four", ALL "--max_train_steps 6");
    run_same_training(dir, "one", "two", STEPS, 1e-5, 1e-5);
    run_same_training(dir, "one", "four", STEPS, 1e-5, 1e-5);
}

/* Gradients and optimiser state, and also weights, are split over all ranks or over groups. Where
 * rows are left out, those of two ranks are, and groups that other rows have with bf16 sums. */
static void test_split(void **state)
{
    const char *dir = *state;
    static const struct { int ranks; const char *out, *args; } row[] = {
        { 3, "z3", "--gradient_accumulation_steps 2 --parallel zero2 --dp_shards 3" },
        { 4, "z4", "--parallel zero2" },
        { 4, "zb", "--parallel zero2 --dp_shards 2 --reduce_dtype bf16" },
        { 3, "f3", "--gradient_accumulation_steps 2 --parallel fsdp --gradient_checkpointing" },
        { 4, "f4", "--parallel fsdp --gradient_checkpointing=none" },
        { 4, "f22", "--parallel fsdp --dp_degree 2" },
        { 2, "z2", "--gradient_accumulation_steps 2 --parallel zero2" },
        { 4, "z22", "--parallel zero2 --dp_degree 2" },
        { 2, "f2", "--gradient_accumulation_steps 2 --parallel fsdp" },
        { 2, "f2t", "--gradient_accumulation_steps 2 --parallelism.dp_sharding 2" },
    };
    for (size_t i = 0; i < (ranks_fewer() ? 6 : COUNT(row)); i++) {
        char *args = vc_format(ALL "--max_train_steps 6 %s", row[i].args);
        bool six = row[i].ranks == 3, rough = strstr(args, "bf16");
        ranks_ok(row[i].ranks, dir, row[i].out, args);
        if (six && !run_exists(dir, "six"))
            ranks_ok(1, dir, "six", ALL "--max_train_steps 6 --gradient_accumulation_steps 6");
        run_same_training(dir, six ? "six" : "one", row[i].out, STEPS, rough ? 0.02 : 1e-5,
                      rough ? 0.02 : 1e-5);
        free(args);
    }
    static const struct { int ranks; const char *args; } late[] = {
        { 1, "--gradient_accumulation_steps 2" }, { 2, "--parallel zero2" },
        { 2, "--parallel fsdp" },
    };
    char *more = vc_format(ALL "--max_train_steps 8 --validation_steps 8 --num_inference_steps 2 "
                           "--resume_from_checkpoint latest ");
    char *again = vc_format("%s --gradient_accumulation_steps 4", more);
    char *split = vc_format("%s --parallel zero2", more);
    char *all = vc_format("%s --parallel fsdp", more);
    ranks_ok(4, dir, "one", split);
    ranks_ok(1, dir, "z4", again);
    ranks_ok(4, dir, "f4", all);
    run_same_training(dir, "one", "z4", 8, 1e-5, 1e-5);
    run_same_training(dir, "one", "f4", 8, 1e-5, 1e-5);
    /* An average that a resumed run begins. */
    ranks_ok(1, dir, "late", LATE "--max_train_steps 2 --gradient_accumulation_steps 2");
    for (size_t i = 0; i < COUNT(late); i++) {
        char *copy = vc_format("cp -r %s/late %s/late-%zu", dir, dir, i), out[16];
        char *args = vc_format(LATE "--use_ema --max_train_steps 4 "
                               "--resume_from_checkpoint latest %s", late[i].args);
        snprintf(out, sizeof out, "late-%zu", i);
        assert_int_equal(system(copy), 0);
        ranks_ok(late[i].ranks, dir, out, args);
        run_same_training(dir, "late-0", out, 4, 1e-5, 1e-5);
        free(copy);
        free(args);
    }
    static const char *const sampled[] = { "one", "f4" };
    for (size_t i = 0; i < COUNT(sampled); i++) {
        double far = run_difference(dir, "z4", sampled[i], "validation/step-8/001.safetensors");
        if (far > 1e-4)
            fail_msg("%s: the samples differ by %.3g", sampled[i], far);
    }
    free(all);
    free(more);
    free(again);
    free(split);
}

/* Three steps, and three more steps from their checkpoint on another number of ranks or with
 * another --parallel. */
typedef struct split_run { const char *out; int ranks[2]; const char *args[2]; } split_run;

/* Checks that a split state has the same bits as the state of as many ranks without a split, the
 * first row with this number of ranks. (Gradients are not clipped, since a norm that is summed by
 * shards rounds differently.) */
static void same_when_split(const char *dir, const char *name, const char *optimizer,
                            const split_run *row, size_t n)
{
    const char *like = NULL;
    for (size_t i = 0; i < n; i++) {
        char *out = vc_format("%s-%s", name, row[i].out);
        for (int k = 0; k < 2; k++) {
            char *args = vc_format("--optimizer %s --max_grad_norm 0 --use_ema "
                                   "--max_train_steps %d %s %s", optimizer, k ? 6 : 3,
                                   row[i].args[k], k ? "--resume_from_checkpoint latest" : "");
            ranks_ok(row[i].ranks[k], dir, out, args);
            free(args);
        }
        if (i == 0 || row[i].ranks[0] != row[i - 1].ranks[0])
            like = row[i].out;
        for (int step = 3; step <= 6; step += 3) {
            char *a = vc_format("%s-%s/checkpoint-%d/optimizer.safetensors", name, like, step);
            char *b = vc_format("%s/checkpoint-%d/optimizer.safetensors", out, step);
            if (!run_same_file(dir, a, b))
                fail_msg("%s and %s differ", a, b);
            free(a);
            free(b);
        }
        free(out);
    }
}

/* Moments in eight bits, and weights in bf16 with stochastic rounding: a rank's shard has whole
 * blocks of moments, and the draws of the rounding belong to a parameter's elements. */
static void test_split_kinds(void **state)
{
    static const split_run two[] = {
        { "2", { 2, 2 }, { "", "" } },
        { "2z", { 2, 2 }, { "--parallel zero2", "" } },
        { "2f", { 2, 2 }, { "", "--parallel fsdp" } },
    };
    static const split_run four[] = {
        { "4", { 4, 2 }, { "", "" } },
        { "4z", { 4, 2 }, { "--parallel zero2", "--parallel fsdp" } },
        { "4f", { 4, 2 }, { "--parallel fsdp", "--parallel zero2" } },
    };
    const split_run *row = ranks_fewer() ? two : four;    /* the second steps have two ranks */
    same_when_split(*state, "8bit", "adamw8bit", row, COUNT(four));
    same_when_split(*state, "bf16", "adamw_bf16", row, COUNT(four));
    same_when_split(*state, "lion", "lion8bit", two, COUNT(two));
}

/* bf16 weights on different numbers of ranks. Gradients differ in their last bits, so a value close
 * to its draw may be rounded the other way, and a weight below 1 may differ by a step of bf16,
 * 2^-8. */
static void test_bf16_ranks(void **state)
{
    const char *dir = *state;
    static const struct { int ranks; const char *out, *args; } row[] = {
        { 1, "h1", "--gradient_accumulation_steps 4" },
        { 2, "h2", "--gradient_accumulation_steps 2 --parallel zero2" },
        { 4, "h4", "--parallel fsdp" },
        { 4, "h22", "--parallel zero2 --dp_degree 2" },
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        char *args = vc_format(ALL "--optimizer adamw_bf16 --max_train_steps 6 %s", row[i].args);
        ranks_ok(row[i].ranks, dir, row[i].out, args);
        run_same_training(dir, row[0].out, row[i].out, STEPS, 1e-3, 0x1p-8);
        free(args);
    }
}

/* Optimisers whose step depends on whole parameters, or on all of them: a run that goes on with
 * another number of ranks and another --parallel every second step trains like one rank without a
 * stop. Sums over ranks round in another order, and the optimiser's number follows them. */
static void test_optimisers(void **state)
{
    const char *dir = *state;
    static const char *const how[] = { "prodigy --optimizer_args d0=1e-4", "adafactor",
                                       "schedule_free --learning_rate 1e-3", "muon" };
    static const struct { int ranks; const char *args; } part[] = {
        { 4, "" }, { 2, "--gradient_accumulation_steps 2 --parallel zero2" },
        { 4, "--parallel fsdp" }, { 1, "--gradient_accumulation_steps 4" },
    };
    const size_t first = ranks_fewer();
    for (size_t h = 0; h < COUNT(how); h++) {
        char *like = vc_format("opt%zu-1", h), *out = vc_format("opt%zu", h);
        char *more = vc_format("--dataset_repeat 4 --eval_split 0.2 --eval_steps 2 --optimizer %s "
                               "--max_train_steps ", how[h]);
        const int end = 2 * (int)(COUNT(part) - first);
        for (size_t i = first; i < COUNT(part); i++) {
            char *args = vc_format("%s%d %s%s", more, 2 * (int)(i + 1 - first), part[i].args,
                                   i > first ? " --resume_from_checkpoint latest" : "");
            ranks_ok(part[i].ranks, dir, out, args);
            free(args);
        }
        char *whole = vc_format("%s%d --gradient_accumulation_steps 4", more, end);
        ranks_ok(1, dir, like, whole);
        run_same_training(dir, like, out, end, 1e-4, 1e-4);
        free(whole);
        free(more);
        free(out);
        free(like);
    }
}

/* With a LoRA, or with a part of the modules, units have no small parameters, or no large ones. */
static void test_bf16_parts(void **state)
{
    const char *dir = *state;
    static const split_run row[] = {
        { "2", { 2, 4 }, { "", "" } },
        { "2z", { 2, 4 }, { "--parallel zero2", "--parallel fsdp" } },
        { "2f", { 2, 4 }, { "--parallel fsdp", "--parallel zero2" } },
    };
    const size_t n = COUNT(row) - ranks_fewer();          /* split states go to four ranks once */
    ranks_ok(1, dir, "base", "--max_train_steps 1");
    char *lora = vc_format("adamw_bf16 --model %s/base/checkpoint-1 --rank 128 --target_name "
                           "to_q,ff.net.0.proj", dir);
    same_when_split(dir, "lora", lora, row, n);
    same_when_split(dir, "modules", "adamw_bf16 --trainable_modules ff,norm_out", row, n);
    free(lora);
}

/* Checks that 1, 2, 4, 2 and 1 ranks, each of which resumes the last checkpoint, train like one
 * rank without a stop; or, without `every`, 2, 4 and 1, so that the state is divided
 * once and joined once. `split` holds further flags of several ranks. */
static void resumes(const char *dir, const char *whole, const char *parts, const char *args,
                    const char *split, bool every)
{
    static const int all[] = { 1, 2, 4, 2, 1 }, some[] = { 2, 4, 1 };
    const bool fewer = !every || ranks_fewer();
    const int *ranks = fewer ? some : all, n = fewer ? COUNT(some) : COUNT(all), end = 2 * n;
    if (!run_exists(dir, whole)) {
        char *once = vc_format(ALL "--max_train_steps %d --gradient_accumulation_steps 4 %s", end,
                               args);
        ranks_ok(1, dir, whole, once);
        free(once);
    }
    for (int i = 0; i < n; i++) {
        char *part = vc_format(ALL "--max_train_steps %d --gradient_accumulation_steps %d %s %s %s",
                               2 * i + 2, 4 / ranks[i], args, ranks[i] > 1 ? split : "",
                               i ? "--resume_from_checkpoint latest" : "");
        ranks_ok(ranks[i], dir, parts, part);
        assert_null(strstr(ranks_output, "differs"));
        if (ranks[i] == 4)
            assert_non_null(strstr(ranks_output, "x 4 ranks"));
        free(part);
    }
    run_same_training(dir, whole, parts, end, 1e-5, 1e-5);
}

static void test_resume(void **state)
{
    const char *dir = *state;
    resumes(dir, "whole", "parts", "", "", true);
    ranks_ok(2, dir, "parts", ALL "--max_train_steps 11 --gradient_accumulation_steps 4 "
             "--resume_from_checkpoint latest");
    assert_non_null(strstr(ranks_output, "samples from here on"));
}

/* The pairs have several sizes, so that shards begin inside of a pair. */
#define LORA "--training_type lora --rank 4 --target_name to_q,ff.net.0.proj"
#define FULL "--training_type full-finetune"

typedef struct resumed { const char *whole, *parts, *args, *split; } resumed;

/* Runs the rows' trainings of a golden's model, which resume likewise, on the dataset t. */
static void resume_model(const char *dir, const char *name, toy t, const char *more,
                         const resumed *row, size_t n)
{
    char *folder = vc_path_join(dir, name), *set = vc_path_join(folder, "set.lmdb");
    char *weights = vc_path_join(folder, "transformer");
    char *own = vc_format("--transformer %s --mixed_precision no", weights);
    vf_safetensors *golden = golden_open(name);
    assert_int_equal(vc_mkdirs(folder, NULL), 0);
    t.path = set;
    toy_make(&t);
    golden_model(golden, weights, VC_BF16);
    vf_safetensors_close(golden);
    ranks_model = own;
    for (size_t i = 0; i < n; i++) {
        char *args = vc_format("%s --caption_dropout_p 0 %s", row[i].args, more);
        resumes(folder, row[i].whole, row[i].parts, args, row[i].split, false);
        free(args);
    }
    ranks_model = RANKS_BUILTIN;
    free(own);
    free(weights);
    free(set);
    free(folder);
}

/* A CogVideoX 1.5, whose patches have two frames, and samples with first frames; a full finetune or
 * a LoRA, with its state on each rank or split. */
static void test_resume_cogvideox(void **state)
{
    static const toy_sample samples[] = {     /* 11 letters are 12 tokens, as all need */
        { .number = 0, .f = 3, .h = 8, .w = 12, .caption = { "a red ball!", "a round one" } },
        { .number = 1, .f = 3, .h = 8, .w = 12, .caption = { "a long walk" } },
        { .number = 2, .f = 2, .h = 8, .w = 8, .caption = { "three cubes" } },
        { .number = 3, .f = 3, .h = 8, .w = 12, .caption = { "a wet night" } },
        { .number = 4, .f = 2, .h = 8, .w = 8, .caption = { "still water" } },
        { .number = 5, .f = 3, .h = 8, .w = 12, .caption = { "an open end" } },
    };
    static const toy t = { .sample = samples, .n = COUNT(samples), .channels = 4, .width = 16,
                           .family = "cogvideox", .train_mode = "i2v", .noised = 2,
                           .conditions = 1u << VC_ROLE_IMAGE | 1u << VC_ROLE_IMAGE_NOISED };
    static const resumed row[] = {
        { "full", "full-ddp", FULL, "" }, { "lora", "lora-zero2", LORA, "--parallel zero2" },
        { "lora", "lora-ddp", LORA, "" }, { "full", "full-zero2", FULL, "--parallel zero2" },
    };
    resume_model(*state, "cogvideox-1.5-i2v", t, "--image_dropout_p 0.3", row,
                 ranks_fewer() ? 2 : COUNT(row));
}

/* Qwen-Image's parameters without a gradient stay unchanged on all ranks; the decay is strong. */
static void test_resume_qwen(void **state)
{
    static const toy_sample samples[] = {
        { .number = 0, .h = 4, .w = 6, .caption = { "a red ball", "round" } },
        { .number = 1, .h = 4, .w = 6, .caption = { "a long walk" } },
        { .number = 2, .h = 4, .w = 6, .caption = { "cubes" } },
        { .number = 3, .h = 4, .w = 6, .caption = { "night" } },
    };
    static const toy t = { .sample = samples, .n = COUNT(samples), .channels = 4, .width = 32,
                           .family = "qwen-image" };
    static const resumed row[] = {
        { "lora", "lora-zero2", "--training_type lora --rank 4", "--parallel zero2" },
        { "full", "full-fsdp", FULL, "--parallel fsdp" }, { "full", "full-ddp", FULL, "" },
    };
    resume_model(*state, "qwen", t, "--adam_weight_decay 1", row, ranks_fewer() ? 2 : COUNT(row));
}

/* bf16 sums between ranks give other weights, but the same training within bf16's error. */
static void test_bf16_wire(void **state)
{
    const char *dir = *state;
    ranks_ok(2, dir, "f32", "--max_train_steps 6");
    ranks_ok(2, dir, "bf16", "--max_train_steps 6 --reduce_dtype bf16");
    run_same_training(dir, "f32", "bf16", STEPS, 0.02, 0.02);
    assert_true(run_difference(dir, "f32", "bf16", "checkpoint-6/optimizer.safetensors") > 0);
}

/* ---- on another device ---- */

/* Ranks on CPUs, whose sums MPI makes, learn the same weights. Other kernels round differently, and
 * where a weight's first gradient is close to 0, AdamW's quotient makes a share of the rate (1e-3)
 * of this rounding: a twentieth is allowed. */
static void test_like_cpu(void **state)
{
    const char *dir = *state, *own = ranks_device;
    static const struct { int ranks; const char *args; } row[] = {
        { 2, "" }, { 4, "--parallel fsdp --dp_degree 2" },
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        char *args = vc_format(ALL "--max_train_steps 6 %s", row[i].args);
        ranks_ok(row[i].ranks, dir, i ? "dev4" : "dev2", args);
        ranks_device = "cpu";
        ranks_ok(row[i].ranks, dir, i ? "cpu4" : "cpu2", args);
        ranks_device = own;
        run_same_training(dir, i ? "cpu4" : "cpu2", i ? "dev4" : "dev2", STEPS, 1e-5, 5e-5);
        free(args);
    }
}

int main(void)
{
    int skipped = ranks_begin();
    if (skipped)
        return skipped;
    char dir[256];
    run_dir_make(dir);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_same_training, dir),
        cmocka_unit_test_prestate(test_split, dir),
        cmocka_unit_test_prestate(test_split_kinds, dir),
        cmocka_unit_test_prestate(test_bf16_ranks, dir),
        cmocka_unit_test_prestate(test_optimisers, dir),
        cmocka_unit_test_prestate(test_bf16_parts, dir),
        cmocka_unit_test_prestate(test_resume, dir),
        cmocka_unit_test_prestate(test_resume_cogvideox, dir),
        cmocka_unit_test_prestate(test_resume_qwen, dir),
        cmocka_unit_test_prestate(test_bf16_wire, dir),
    };
    const struct CMUnitTest elsewhere[] = {
        cmocka_unit_test_prestate(test_like_cpu, dir),
    };
    const ranks_tests all = { .all = RANKS_GROUP(tests), .elsewhere = RANKS_GROUP(elsewhere) };
    return ranks_end(&all, dir);
}
