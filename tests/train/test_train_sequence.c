/* test_train_sequence.c - ranks that share each sequence of tokens (--sp) train like one rank, with
 * any --parallel, and resume with another --sp. Without MPI the test is skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "tests/lib/sanitized.h"
#include "tests/lib/train_compare.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_ranks.h"
#include "tests/lib/train_run.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

enum { STEPS = 4 };

/* Losses and gradient norms differ by f32 summation alone: each is a sum of some thousand terms of
 * which sp ranks add parts, so the error is some units of 2^-24. Weights and moments follow AdamW's
 * quotient, which makes a share of the rate (1e-5 for a full finetune, 1e-4 for a LoRA) of the
 * rounding where a gradient is close to 0: a tenth of the smaller rate is allowed. */
#define LOSS 1e-5
#define WEIGHT 1e-6

/* ---- a model with four heads ---- */

/* Returns `text` with each `from` replaced; the caller frees it. */
static char *replaced(const char *text, const char *from, const char *to)
{
    char *all = strdup("");
    for (const char *p; (p = strstr(text, from)); text = p + strlen(from)) {
        char *more = vc_format("%s%.*s%s", all, (int)(p - text), text, to);
        free(all);
        all = more;
    }
    char *end = vc_format("%s%s", all, text);
    free(all);
    return end;
}

/* Makes a golden's model, of `heads` heads of `head` numbers, with four heads. */
static void model_make(const char *name, int heads, int head, const char *dir)
{
    char from[64], to[64], *meta[2];
    vf_safetensors *golden = golden_open(name), *four;
    snprintf(from, sizeof from, "\"num_attention_heads\": %d", heads);
    char *config = replaced(vf_safetensors_meta(golden, "config"), from,
                            "\"num_attention_heads\": 4");
    snprintf(from, sizeof from, "\"attention_head_dim\": %d", head);
    snprintf(to, sizeof to, "\"attention_head_dim\": %d", heads * head / 4);
    meta[0] = replaced(config, from, to);
    assert_non_null(strstr(meta[0], to));
    char *weights = strdup(vf_safetensors_meta(golden, "weights"));
    for (int k = 0; k < 4; k++) {
        snprintf(from, sizeof from, "norm_%c.%s\": [%d]", "qk"[k % 2], k < 2 ? "weight" : "bias",
                 head);
        snprintf(to, sizeof to, "norm_%c.%s\": [%d]", "qk"[k % 2], k < 2 ? "weight" : "bias",
                 heads * head / 4);
        char *more = replaced(weights, from, to);
        assert_non_null(strstr(more, to));
        free(weights);
        weights = more;
    }
    meta[1] = weights;
    const vf_meta pair[] = { { "config", meta[0] }, { "weights", meta[1] } };
    char *path = vc_path_join(dir, "four.safetensors"), *folder = vc_path_join(dir, "transformer");
    vc_err err = { 0 };
    assert_ok(vf_safetensors_write(path, NULL, 0, pair, 2, &err), &err);
    assert_ok(vf_safetensors_open(&four, path, &err), &err);
    golden_model(four, folder, VC_F32);
    vf_safetensors_close(four);
    vf_safetensors_close(golden);
    free(config);
    free(meta[0]);
    free(meta[1]);
    free(path);
    free(folder);
}

/* ---- the tests ---- */

static void set_make(const char *dir)
{
    static const toy_sample samples[] = {     /* 11 letters are 12 tokens, as all need */
        { .number = 0, .f = 3, .h = 8, .w = 12, .caption = { "a red ball!", "a round one" } },
        { .number = 1, .f = 3, .h = 8, .w = 12, .caption = { "a long walk" } },
        { .number = 2, .f = 1, .h = 6, .w = 6, .caption = { "three cubes" } },
        { .number = 3, .f = 3, .h = 8, .w = 12, .caption = { "a wet night" } },
        { .number = 4, .f = 1, .h = 6, .w = 6, .caption = { "still water" } },
        { .number = 5, .f = 3, .h = 8, .w = 12, .caption = { "an open end" } },
    };
    char *path = vc_path_join(dir, "set.lmdb");
    toy_make(&(toy){ .path = path, .sample = samples, .n = COUNT(samples), .channels = 4,
                     .width = 16, .family = "cogvideox" });
    free(path);
}

#define ALL "--eval_split 0.2 --eval_steps 2 --dataset_repeat 4 --uniform_sampling --use_ema " \
            "--ema_decay 0.9 --max_train_steps 4 "
#define LORA "--training_type lora --rank 4 --target_name to_q,ff.net.0.proj,to_out.0 "

/* Runs of several ranks; `like` is the run of one rank with the same flags. Of a list of models the
 * first alone has the row ONCE: the next row shares tokens too, by more ranks. */
typedef struct ranks_row { int ranks; const char *out, *like, *args; } ranks_row;

enum { ONCE = 1 };

static void same(const char *dir, const char *more, const ranks_row *row, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *args = vc_format(ALL "%s %s", more, row[i].args);
        ranks_ok(row[i].ranks, dir, row[i].out, args);
        if (row[i].like)
            run_same_training(dir, row[i].like, row[i].out, STEPS, LOSS, WEIGHT);
        free(args);
    }
}

/* Four micro-batches of a step, on one rank or among groups of ranks that share each. Sanitizers
 * and other devices do not run the last three rows: rows before have the same with more groups. */
static void test_full(void **state)
{
    static const ranks_row row[] = {
        { 1, "one", NULL, "--gradient_accumulation_steps 4" },
        { 4, "s4", "one", "--gradient_accumulation_steps 4 --sp 4 --gradient_checkpointing=none" },
        { 4, "g2", "one", "--gradient_accumulation_steps 2 --sp 2" },
        { 4, "z4", "one", "--gradient_accumulation_steps 2 --sp 2 --parallel zero2 --dp_degree 2" },
        { 4, "f4", "one", "--gradient_accumulation_steps 2 --tp 2 --parallel fsdp" },
        { 2, "s2", "one", "--gradient_accumulation_steps 4 --sp 2" },
        { 2, "z2", "one", "--gradient_accumulation_steps 4 --sp 2 --parallel zero2" },
        { 8, "mesh", "one", "--parallelism.dp_replicate 2 --parallelism.dp_sharding 2 "
          "--parallelism.tp_sharding 2" },
    };
    same(*state, "", row, COUNT(row) - (ranks_fewer() ? 3 : 0));
}

static void test_lora(void **state)
{
    static const ranks_row row[] = {
        { 1, "lora", NULL, "--gradient_accumulation_steps 2" },
        { 2, "lora-2", "lora", "--gradient_accumulation_steps 2 --sp 2" },
        { 4, "lora-4", "lora", "--gradient_accumulation_steps 2 --sp 4 --parallel fsdp" },
        { 4, "lora-g2", "lora", "--sp 2 --gradient_checkpointing=none" },
    };
    same(*state, LORA, row, COUNT(row));
}

/* One, two and four ranks, with another --sp each time, resume like one rank without a stop; one
 * and two with the other models, which have sinusoids, and patches of two frames with pictures
 * beside them. */
static void resumes(const char *dir, const char *name, const char *more)
{
    static const struct { int ranks; const char *args; } row[] = {
        { 1, "--gradient_accumulation_steps 2" },
        { 2, "--gradient_accumulation_steps 2 --sp 2 --parallel fsdp" },
        { 4, "--sp 2" },
        { 2, "--sp 1 --parallel zero2" },
        { 4, "--gradient_accumulation_steps 2 --sp 4 --parallel zero2" },
    };
    int n = *more ? 2 : (int)COUNT(row);
    char *whole = vc_format("%s-whole", name), *parts = vc_format("%s-parts", name);
    char *all = vc_format("%s --use_ema --caption_dropout_p 0 --gradient_accumulation_steps 2 "
                          "--max_train_steps %d", more, n);
    ranks_ok(1, dir, whole, all);
    for (int i = 0; i < n; i++) {
        char *args = vc_format("%s --use_ema --caption_dropout_p 0 %s --max_train_steps %d %s",
                               more, row[i].args, i + 1,
                               i ? "--resume_from_checkpoint latest" : "");
        ranks_ok(row[i].ranks, dir, parts, args);
        assert_int_equal(ranks_say("differs"), 0);
        assert_int_equal(ranks_say("from here on"), 0);
        assert_int_equal(ranks_say("2 groups of 2 ranks that share the tokens"), i == 2);
        free(args);
    }
    run_same_training(dir, whole, parts, n, LOSS, WEIGHT);
    free(whole);
    free(parts);
    free(all);
}

static void test_resume(void **state)
{
    resumes(*state, "full", "");
}

static void test_models(void **state)
{
    static const struct { const char *name; int heads, head; } row[] = {
        { "cogvideox-2b", 2, 32 }, { "cogvideox-1.5", 1, 64 },
    };
    const char *dir = *state;
    for (size_t i = 0; i < COUNT(row); i++) {
        char *folder = vc_path_join(dir, row[i].name);
        assert_int_equal(vc_mkdirs(folder, NULL), 0);
        model_make(row[i].name, row[i].heads, row[i].head, folder);
        char *args = vc_format("--transformer %s/transformer", folder);
        resumes(dir, row[i].name, args);
        free(args);
        free(folder);
    }
}

static void runs(const char *folder, const char *model, const ranks_row *row, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *args = vc_format("%s --train_batch_size 1 --max_train_steps 4 --dataset_repeat 4 "
                               "--uniform_sampling %s", model, row[i].args);
        ranks_ok(row[i].ranks, folder, row[i].out, args);
        if (row[i].like)
            run_same_training(folder, row[i].like, row[i].out, STEPS, LOSS, WEIGHT);
        free(args);
    }
}

/* Runs with a golden's model, on a dataset of its family in a folder of its own. */
static void families(const char *dir, const char *golden, const char *family, int width,
                     const toy_sample *samples, int n_samples, const ranks_row *row, size_t n)
{
    char *folder = vc_path_join(dir, golden), *path = vc_path_join(folder, "set.lmdb");
    char *transformer = vc_path_join(folder, "transformer");
    vf_safetensors *file = golden_open(golden);
    assert_int_equal(vc_mkdirs(folder, NULL), 0);
    golden_model(file, transformer, VC_F32);
    toy_make(&(toy){ .path = path, .sample = samples, .n = n_samples, .channels = 4,
                     .width = width, .family = family });
    char *model = vc_format("--transformer %s", transformer);
    runs(folder, model, row, n);
    vf_safetensors_close(file);
    free(model);
    free(transformer);
    free(path);
    free(folder);
}

/* TTT layers scan all tokens, each rank those of its heads: videos of one and of two segments. */
static void test_ttt(void **state)
{
    static const toy_sample samples[] = {
        { .number = 0, .f = 25, .h = 4, .w = 4, .caption = { "a red ball!" } },
        { .number = 1, .f = 25, .h = 4, .w = 4, .caption = { "a long walk" } },
        { .number = 2, .f = 13, .h = 4, .w = 4, .caption = { "three cubes" } },
    };
    static const ranks_row row[] = {
        { 1, "t1", NULL, "--gradient_accumulation_steps 4" },
        { 2, "t2", "t1", "--gradient_accumulation_steps 4 --sp 2" },
        { 2, "tz", "t1", "--gradient_accumulation_steps 4 --sp 2 --gradient_checkpointing=none" },
        { 4, "tf", "t1", "--gradient_accumulation_steps 2 --sp 2 --parallel fsdp" },
    };
    families(*state, "ttt-mlp", "cogvideox", 12, samples, COUNT(samples), row, COUNT(row));
}

/* Wan: the prompt and the time are whole on each rank; of a clean first frame's tokens the ranks
 * have some, all or none. */
static void test_wan(void **state)
{
    static const toy_sample samples[] = {
        { .number = 0, .f = 3, .h = 6, .w = 6, .caption = { "a red ball!" } },
        { .number = 1, .f = 3, .h = 6, .w = 6, .caption = { "a long walk" } },
        { .number = 2, .f = 1, .h = 4, .w = 4, .caption = { "three cubes" } },
        { .number = 3, .f = 5, .h = 4, .w = 4, .caption = { "a wet night" } },
    };
    static const ranks_row row[] = {
        { 1, "w1", NULL, "--gradient_accumulation_steps 4" },
        { 2, "w2", "w1", "--gradient_accumulation_steps 4 --sp 2" },
        { 4, "wf", "w1", "--gradient_accumulation_steps 2 --sp 2 --parallel fsdp" },
        { 1, "c1", NULL, "--gradient_accumulation_steps 4 --first_frame_conditioning_p 0.7" },
        { 2, "c2", "c1", "--gradient_accumulation_steps 4 --first_frame_conditioning_p 0.7 --sp 2 "
                         "--gradient_checkpointing=none" },
        { 1, "l1", NULL, "--gradient_accumulation_steps 2 --training_type lora --rank 4" },
        { 2, "l2", "l1", "--gradient_accumulation_steps 2 --training_type lora --rank 4 --sp 2 "
                         "--parallel zero2" },
    };
    families(*state, "wan", "wan", 32, samples, COUNT(samples), row, COUNT(row));
}

/* LTX-Video and LTX-2: clips of a batch have rotations of their own frame rates, and the tokens of
 * a clean first frame have times of their own. */
static void test_ltx(void **state)
{
    static const toy_sample even[] = {
        { .number = 0, .f = 3, .h = 4, .w = 6, .caption = { "a red ball!" } },
        { .number = 1, .f = 3, .h = 4, .w = 6, .caption = { "a long walk" } },
        { .number = 2, .f = 1, .h = 4, .w = 4, .caption = { "three cubes" } },
        { .number = 3, .f = 1, .h = 4, .w = 4, .caption = { "a wet night in a town" } },
    };
    static const toy_sample samples[] = {
        { .number = 0, .f = 3, .h = 4, .w = 3, .caption = { "a red ball!" } },
        { .number = 1, .f = 3, .h = 4, .w = 3, .caption = { "a long walk" } },
        { .number = 2, .f = 1, .h = 3, .w = 3, .caption = { "three cubes" } },
        { .number = 3, .f = 1, .h = 3, .w = 3, .caption = { "a wet night in a town" } },
    };
#define FIRST "--train_batch_size 2 --first_frame_conditioning_p 0.7 "
    /* Adam makes steps of the learning rate also where a gradient is rounding alone. */
#define LORA_OF "--training_type lora --rank 4 --learning_rate 1e-5"
    static const ranks_row row[] = {
        { 1, "x1", NULL, FIRST "--gradient_accumulation_steps 2" },
        { 2, "x2", "x1", FIRST "--gradient_accumulation_steps 2 --sp 2" },
        { 4, "xf", "x1", FIRST "--gradient_accumulation_steps 1 --sp 2 --parallel fsdp" },
        { 1, "y1", NULL, FIRST LORA_OF },
        { 2, "y2", "y1", FIRST LORA_OF " --sp 2 --parallel zero2 "
                         "--gradient_checkpointing=none" },
    };
#undef FIRST
#undef LORA_OF
    static const struct { const char *golden, *family, *connectors; toy more; } models[] = {
        { "ltx", "ltx-video", NULL, { .channels = 8 } },
        { "ltx2-20", "ltx-2", "ltx2-connectors-20", { .channels = 8 } },
        { "ltx2-23", "ltx-2", "ltx2-connectors-23", { .channels = 8 } },
        { "cosmos2-world", "cosmos2", NULL, { .channels = 4, .sample = even, .per_channel = true,
                                              .vae = "AutoencoderKLWan" } },
    };
    /* Another device takes a minute for LTX-2, whose kernels ltx2_device runs there. */
    const size_t n = strcmp(ranks_device, "cpu") ? 1 : COUNT(models);
    for (size_t i = 0; i < n; i++) {
        char *folder = vc_path_join(*state, models[i].golden);
        char *path = vc_path_join(folder, "set.lmdb"), *beside = vc_path_join(folder, "beside");
        char *transformer = vc_path_join(folder, "transformer");
        assert_int_equal(vc_mkdirs(folder, NULL), 0);
        golden_folder(models[i].golden, transformer);
        if (models[i].connectors)
            golden_folder(models[i].connectors, beside);
        toy t = models[i].more;
        t.path = path, t.sample = t.sample ? t.sample : samples, t.n = COUNT(samples);
        t.width = 32, t.family = models[i].family;
        toy_make(&t);
        for (size_t k = 0; k < COUNT(row); k++) {
            if (i && k == ONCE)
                continue;
            char *args = vc_format("--transformer %s %s%s --max_train_steps 4 "
                                   "--dataset_repeat 4 --uniform_sampling %s", transformer,
                                   models[i].connectors ? "--connectors " : "",
                                   models[i].connectors ? beside : "", row[k].args);
            ranks_ok(row[k].ranks, folder, row[k].out, args);
            if (row[k].like)
                run_same_training(folder, row[k].like, row[k].out, STEPS, LOSS, WEIGHT);
            free(args);
        }
        free(folder), free(path), free(beside), free(transformer);
    }
}

/* The built-in model: a rank may have tokens of the video or of the text alone, and all ranks read
 * the weights of both nevertheless; beside a clean first frame tokens have times of their own. */
static void test_builtin(void **state)
{
    static const toy_sample samples[] = {
        { .number = 0, .f = 3, .h = 8, .w = 12, .caption = { "a red ball!" } },
        { .number = 1, .f = 3, .h = 4, .w = 4, .caption = { "a walk" } },
        { .number = 2, .f = 1, .h = 2, .w = 2, .caption = { "three cubes on a table" } },
        { .number = 3, .f = 2, .h = 2, .w = 2, .caption = { "a wet night in a town" } },
    };
    static const ranks_row row[] = {
        { 1, "b1", NULL, "--gradient_accumulation_steps 4" },
        { 2, "b2", "b1", "--gradient_accumulation_steps 4 --sp 2" },
        { 4, "b4", "b1", "--gradient_accumulation_steps 4 --sp 4 --gradient_checkpointing=none" },
        { 4, "bf", "b1", "--gradient_accumulation_steps 2 --sp 2 --parallel fsdp" },
        { 1, "d1", NULL, "--gradient_accumulation_steps 4 --first_frame_conditioning_p 0.7" },
        { 2, "d2", "d1", "--gradient_accumulation_steps 4 --first_frame_conditioning_p 0.7 "
                         "--sp 2" },
        { 4, "d4", "d1", "--gradient_accumulation_steps 4 --first_frame_conditioning_p 0.7 --sp 4 "
                         "--parallel zero2" },
    };
    char *folder = vc_path_join(*state, "builtin"), *path = vc_path_join(folder, "set.lmdb");
    const char *own = ranks_model;
    assert_int_equal(vc_mkdirs(folder, NULL), 0);
    toy_make(&(toy){ .path = path, .sample = samples, .n = COUNT(samples), .channels = 4,
                     .width = 16 });
    ranks_model = "--model builtin --dit_width 32 --dit_layers 2 --dit_heads 4 "
                  "--mixed_precision no --caption_dropout_p 0 --learning_rate 1e-5 ";
    runs(folder, ranks_model, row, COUNT(row));
    ranks_model = own;
    free(path);
    free(folder);
}

/* Reads the number that follows a text of the last run's output. */
static double number_after(const char *text)
{
    const char *p = strstr(ranks_output, text);
    if (!p)
        fail_msg("no \"%s\": %s", text, ranks_output);
    return strtod(p + strlen(text), NULL);
}

/* A clip whose activations are most of the memory: a rank has its share of them, as predicted. The
 * latents, the embedding and the loss of all tokens stay whole. */
static void test_memory(void **state)
{
    static const toy_sample sample = { .f = 9, .h = 40, .w = 60, .caption = { "a red ball!" } };
    static const struct { int ranks; const char *out, *args; } row[] = {
        { 1, "m1", "" }, { 2, "m2", "--sp 2" }, { 4, "m4", "--sp 4" },
    };
    char *folder = vc_path_join(*state, "long"), *path = vc_path_join(folder, "set.lmdb");
    double step[COUNT(row)];
    assert_int_equal(vc_mkdirs(folder, NULL), 0);
    toy_make(&(toy){ .path = path, .sample = &sample, .n = 1, .channels = 4, .width = 16,
                     .family = "cogvideox" });
    for (size_t i = 0; i < COUNT(row); i++) {
        char *args = vc_format("--train_batch_size 1 --max_train_steps 2 "
                               "--gradient_checkpointing=none %s", row[i].args);
        ranks_ok(row[i].ranks, folder, row[i].out, args);
        double wrong = number_after("MiB, which is ");
        step[i] = number_after("weights, optimiser and loader, ");
        printf("%d ranks: %.1f MiB of activations, prediction %.1f %% off\n", row[i].ranks, step[i],
               wrong);
        if (!(wrong < 10))
            fail_msg("%s: the prediction is wrong by %.1f %%", row[i].out, wrong);
        free(args);
    }
    assert_true(step[1] < 0.65 * step[0] && step[2] < 0.65 * step[1]);
    free(path);
    free(folder);
}

/* A rank that fails, or is stopped, between two micro-batches does not leave the other waiting. */
static void test_one_fails(void **state)
{
    const char *dir = *state;
    char *trace = vc_path_join(dir, "trace");
    char *blocked = vc_path_join(trace, "step-000001-mb-00-rank-01.safetensors/x");
    assert_int_equal(vc_mkdirs(blocked, NULL), 0);
    char *args = vc_format("--max_train_steps 2 --gradient_accumulation_steps 3 --sp 2 "
                           "--trace_dir %s", trace);
    int status = ranks_run(2, dir, "failed", args);
    if (status != 1 || ranks_say("rank-01.safetensors: cannot rename") != 1 ||
        ranks_say("another rank"))
        fail_msg("status %d: %s", status, ranks_output);
    free(args);
    free(blocked);
    free(trace);
}

static void test_stop(void **state)
{
    const char *dir = *state;
    /* The shell signals the last rank when the first step's line is there; the run has steps for as
     * long as the shell may wait for a core. */
    char *args = vc_format("--max_train_steps 1000000 --sp 2 & p=$!; for i in $(seq 3000); do "
                           "[ -s %s/stopped/metrics.jsonl ] && break; sleep 0.1; done; "
                           "kill -INT $(pgrep -P $p | tail -1); wait $p; (exit $?)", dir);
    int lines;
    assert_int_not_equal(ranks_run(2, dir, "stopped", args), 0);
    free(run_metrics(dir, "stopped", &lines));
    assert_true(lines >= 1);
    char *kept = vc_format("stopped/checkpoint-%d/trainer.json", lines);
    assert_true(run_exists(dir, kept));
    free(kept);
    free(args);
}

/* Exchanges that fail, or that one rank leaves out, end the run on all ranks. */
static void test_links_fail(void **state)
{
    const char *dir = *state;
    static const struct { const char *fault, *says; } row[] = {
        { "broken 1 9", "rank 1: links: exchange of " },
        { "silent 1 9", "not done after 2 s: a rank does not answer" },
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        setenv("VLT_LINKS_FAULT", row[i].fault, 1);
        int status = ranks_run(2, dir, "faulty", "--max_train_steps 9 --sp 2 --nccl_timeout 2");
        unsetenv("VLT_LINKS_FAULT");
        if (status != 1 || ranks_say(row[i].says) != 1)
            fail_msg("%s: status %d: %s", row[i].fault, status, ranks_output);
    }
}

static void test_refused(void **state)
{
    const char *dir = *state, *own = ranks_model;
    static const struct { int ranks; bool builtin; const char *args, *says; } row[] = {
        { 3, false, "--sp 2", "--sp 2: there are 3 ranks" },
        { 3, false, "--sp 3", "4 attention heads, which do not divide into 3 equal parts" },
        { 3, true, "--sp 3", "2 attention heads, which do not divide into 3 equal parts" },
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        char *args = vc_format("--max_train_steps 1 %s", row[i].args);
        ranks_model = row[i].builtin ? "--model builtin " RANKS_BUILTIN : own;
        assert_int_equal(ranks_run(row[i].ranks, dir, "refused", args), 2);
        ranks_model = own;
        assert_int_equal(ranks_say("vtrain: --sp"), 1);
        assert_int_equal(ranks_say(row[i].says), 1);
        assert_false(run_exists(dir, "refused"));
        free(args);
    }
}

int main(void)
{
    char dir[256];
    int skipped = ranks_begin();
    if (skipped)
        return skipped;
    toy_dir_make(dir);
    set_make(dir);
    model_make("cogvideox-5b", 1, 64, dir);
    char *own = vc_format("--transformer %s/transformer --mixed_precision no "
                          "--training_type full-finetune --caption_dropout_p 0", dir);
    ranks_model = own;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_full, dir),
        cmocka_unit_test_prestate(test_lora, dir),
        cmocka_unit_test_prestate(test_resume, dir),
        cmocka_unit_test_prestate(test_models, dir),
        cmocka_unit_test_prestate(test_ttt, dir),
        cmocka_unit_test_prestate(test_wan, dir),
        cmocka_unit_test_prestate(test_ltx, dir),
        cmocka_unit_test_prestate(test_builtin, dir),
        cmocka_unit_test_prestate(test_one_fails, dir),
        cmocka_unit_test_prestate(test_stop, dir),
        cmocka_unit_test_prestate(test_refused, dir),
    };
    /* This is much work for the kernels of other devices; sanitizers keep freed memory. */
    const struct CMUnitTest on_cpu[] = {
        cmocka_unit_test_prestate(test_memory, dir),
    };
    const struct CMUnitTest elsewhere[] = {
        cmocka_unit_test_prestate(test_links_fail, dir),
    };
    ranks_tests all = { .all = RANKS_GROUP(tests), .elsewhere = RANKS_GROUP(elsewhere) };
    if (!SANITIZED)
        all.on_cpu = RANKS_GROUP(on_cpu);
    int bad = ranks_end(&all, dir);
    free(own);
    return bad;
}
