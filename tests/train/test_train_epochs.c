/* test_train_epochs.c - checkpoints, held-out losses and samples at the end of epochs, however the
 * run's steps are divided and wherever it resumes; and the checkpoints of least held-out loss. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_compare.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_ranks.h"
#include "tests/lib/train_run.h"
#include "train/output/ckpt.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
#define MODEL "--dit_width 32 --dit_layers 1 --dit_heads 2 "

enum { SAMPLES = 6, MOST = 64 };

static bool there(const char *dir, const char *out, const char *what, int step)
{
    char *path = vc_format("%s/%s%d", out, what, step);
    bool yes = run_exists(dir, path);
    free(path);
    return yes;
}

/* The samples that each step of a run has seen, by its metrics; the number of its steps. */
static int seen_by_step(const char *dir, const char *out, int seen[MOST])
{
    int steps = 0;
    char *text = run_samples(dir, out);
    for (char *line = text; *line; line += strcspn(line, "\n") + 1) {
        int n = 0;
        for (const char *p = line; *p && *p != '\n'; p++)
            n += *p == '/';
        assert_true(steps < MOST);
        seen[steps++] = n;
    }
    free(text);
    return steps;
}

/* Every sample is seen once an epoch, so the numbers of samples seen tell which steps end one. */
static void check_ends(const char *dir, const char *out, int visits, int each, const char *what,
                       bool also_last)
{
    int seen[MOST], steps = seen_by_step(dir, out, seen), sum = 0;
    for (int i = 0; i < steps; i++) {
        int before = sum / visits / each;
        sum += seen[i];
        bool due = sum / visits / each != before || (also_last && i == steps - 1);
        if (there(dir, out, what, i + 1) != due)
            fail_msg("%s: step %d, after %d samples: %s%d is %s", out, i + 1, sum, what, i + 1,
                     due ? "missing" : "there");
    }
}

/* ---- one run ---- */

typedef struct cut { int ranks, each; const char *args; } cut;
static const cut cuts[] = {
    { 1, 1, "" },                                          /* epochs of 3 steps */
    { 1, 2, "" },
    { 1, 1, "--train_batch_size 4" },                      /* leftovers: 2 steps */
    { 1, 1, "--gradient_accumulation_steps 2" },           /* an epoch ends within a step */
    { 1, 3, "--gradient_accumulation_steps 2" },
    { 1, 1, "--gradient_accumulation_steps 7" },           /* a step ends several */
    { 1, 2, "--gradient_accumulation_steps 7" },
    { 1, 1, "--global_batch_size 4 --train_batch_size 2" },
    { 2, 1, "" },
    { 2, 1, "--train_batch_size 1 --gradient_accumulation_steps 3 --parallel zero2" },
};

static void test_ends(void **state)
{
    const char *dir = *state;
    for (size_t i = 0; i < COUNT(cuts); i++) {
        const cut *c = &cuts[i];
        char out[32];
        snprintf(out, sizeof out, "ends-%zu", i);
        char *args = vc_format(MODEL "--max_train_steps 11 --save_every_n_epochs %d "
                               "--sample_every_n_epochs %d --num_inference_steps 1 %s", c->each,
                               c->each, c->args);
        run_on(c->ranks, dir, out, args);
        free(args);
        check_ends(dir, out, SAMPLES, c->each, "checkpoint-", true);
        check_ends(dir, out, SAMPLES, c->each, "validation/step-", true);
    }
}

/* Steps and epochs may be given together; without either, a run saves every 500 steps. */
static void test_steps_too(void **state)
{
    const char *dir = *state;
    run_ok(dir, "both", MODEL "--max_train_steps 8 --checkpointing_epochs 1 --save_steps 4");
    for (int step = 1; step <= 8; step++)
        assert_int_equal(there(dir, "both", "checkpoint-", step), step % 3 == 0 || step % 4 == 0);
}

/* ---- resumed runs ---- */

typedef struct change { const char *name, *args[3]; int steps[2]; } change;
static const change changes[] = {
    { "same", { "", "", "" }, { 4, 8 } },
    { "at-an-end", { "", "", "" }, { 3, 9 } },
    { "batch", { "", "--train_batch_size 4", "--train_batch_size 1" }, { 4, 6 } },
    { "accumulation", { "", "--gradient_accumulation_steps 3", "" }, { 4, 6 } },
    { "seed", { "", "--seed 6", "--seed 7 --train_batch_size 3" }, { 5, 12 } },
};

static void test_resumed(void **state)
{
    const char *dir = *state;
    for (size_t i = 0; i < COUNT(changes); i++) {
        const change *c = &changes[i];
        for (int k = 0; k < 3; k++) {
            char steps[48] = "";
            if (k < 2)
                snprintf(steps, sizeof steps, "--max_train_steps %d", c->steps[k]);
            char *args = vc_format(MODEL "--dataset_repeat 2 --num_train_epochs 4 "
                                   "--validation_epochs 1 --num_inference_steps 1 "
                                   "--checkpointing_epochs 1 --resume_from_checkpoint latest %s %s",
                                   steps, c->args[k]);
            run_ok(dir, c->name, args);
            free(args);
        }
        /* the last steps of the interrupted runs have checkpoints and samples too */
        int seen[MOST], steps = seen_by_step(dir, c->name, seen), sum = 0;
        for (int s = 0; s < steps; s++) {
            int before = sum / (2 * SAMPLES);
            sum += seen[s];
            bool due = sum / (2 * SAMPLES) != before || s + 1 == steps || s + 1 == c->steps[0] ||
                       s + 1 == c->steps[1];
            if (there(dir, c->name, "checkpoint-", s + 1) != due ||
                there(dir, c->name, "validation/step-", s + 1) != due)
                fail_msg("%s: step %d", c->name, s + 1);
        }
        assert_int_equal(sum, 4 * 2 * SAMPLES);
    }
}

/* Samples that a run killed after its checkpoint had left are made by the resumed run, also where
 * the step only ended an epoch. */
static void test_left(void **state)
{
    const char *dir = *state;
    run_ok(dir, "left", MODEL "--max_train_steps 3 --checkpointing_epochs 1 --validation_epochs 1 "
           "--num_inference_steps 1");
    char *path = vc_format("rm -r %s/left/validation", dir);
    assert_int_equal(system(path), 0);
    free(path);
    run_ok(dir, "left", MODEL "--max_train_steps 4 --checkpointing_epochs 1 --validation_epochs 1 "
           "--num_inference_steps 1 --resume_from_checkpoint latest");
    assert_true(there(dir, "left", "validation/step-", 3));
}

/* ---- before the first step ---- */

static void test_at_first(void **state)
{
    const char *dir = *state;
    run_ok(dir, "first", MODEL "--max_train_steps 2 --sample_at_first --num_inference_steps 1");
    assert_true(there(dir, "first", "validation/step-", 0));
    assert_false(there(dir, "first", "validation/step-", 2));
    run_ok(dir, "first-too", MODEL "--max_train_steps 2 --sample_at_first --num_inference_steps 1 "
           "--validation_steps 2 --eval_split 0.3 --eval_before_first_step");
    assert_true(there(dir, "first-too", "validation/step-", 0));
    assert_true(there(dir, "first-too", "validation/step-", 2));
    vc_err err;
    assert_int_equal(run(dir, "none", MODEL "--eval_at_first --max_train_steps 1", &err),
                     VC_EUSAGE);
    assert_non_null(strstr(err.text, "--eval_split"));
    /* diffusion-pipe's examples have these lines without any held-out data */
    run_ok(dir, "theirs", MODEL "--eval_before_first_step --eval_every_n_epochs 1 "
           "--max_train_steps 1");
}

static void test_evaluated(void **state)
{
    const char *dir = *state;
    run_ok(dir, "evals", MODEL "--max_train_steps 7 --eval_every_n_epochs 1 --eval_split 0.4 ");
    int seen[MOST], steps = seen_by_step(dir, "evals", seen), sum = 0;
    int each = (int)lround(1 / run_value(dir, "evals", 0, "epoch")), visits = 0;
    for (int i = 0; i < each; i++)
        visits += seen[i];
    for (int i = 0; i < steps; i++) {
        int before = sum / visits;
        sum += seen[i];
        bool has = isfinite(run_value(dir, "evals", i, "eval_loss"));
        if (has != (sum / visits != before || i + 1 == steps))
            fail_msg("step %d: eval_loss after %d samples, %d an epoch", i + 1, sum, visits);
    }
}

/* ---- the best ---- */

static double loss_of(const char *dir, const char *out, int step)
{
    char *path = vc_format("%s/%s/checkpoint-%d", dir, out, step);
    vtrain_state s;
    vc_err err = { 0 };
    assert_ok(vtrain_state_read(&s, path, &err), &err);
    assert_true(s.evaluated);
    double loss = s.eval_loss;
    vtrain_state_free(&s);
    free(path);
    return loss;
}

/* Compares the checkpoints that are there, and the link, with the losses of a run that kept all. */
static void check_best(const char *dir, const char *all, const char *out, int steps, int limit,
                       int best)
{
    char *link = vc_format("%s/%s/best", dir, out), target[64] = "", want[64];
    int least = 1;
    for (int i = 1; i <= steps; i++) {
        int better = 0;
        double loss = loss_of(dir, all, i);
        for (int k = 1; k <= steps; k++)
            better += loss_of(dir, all, k) < loss;
        if (!better)
            least = i;
        bool keeps = i > steps - limit || better < best;
        if (there(dir, out, "checkpoint-", i) != keeps)
            fail_msg("%s: checkpoint-%d, with %d better ones, is %s", out, i, better,
                     keeps ? "missing" : "there");
    }
    assert_true(readlink(link, target, sizeof target - 1) > 0);
    snprintf(want, sizeof want, "checkpoint-%d", least);
    assert_string_equal(target, want);
    free(link);
}

#define BEST MODEL "--eval_split 0.4 --checkpointing_steps 1 --learning_rate 3e-2 " \
    "--lr_scheduler constant "

#define AVERAGED BEST "--use_ema --ema_decay 0.5 --keep_best 2 --global_batch_size 4 "

static void test_best(void **state)
{
    const char *dir = *state;
    static const char *const kinds[] = { "", "--use_ema --ema_decay 0.5 " };
    for (int k = 0; k < 2; k++) {
        char all[16], out[16];
        snprintf(all, sizeof all, "all-%d", k);
        snprintf(out, sizeof out, "best-%d", k);
        char *args = vc_format(BEST "%s--keep_best 2 --max_train_steps 8", kinds[k]);
        run_ok(dir, all, args);
        free(args);
        check_best(dir, all, all, 8, 8, 2);
        const int stops[] = { 3, 5, 8 };
        for (int i = 0; i < 3; i++) {
            args = vc_format(BEST "%s--keep_best 2 --checkpointing_limit 1 --max_train_steps %d "
                             "--resume_from_checkpoint latest", kinds[k], stops[i]);
            run_ok(dir, out, args);
            free(args);
            check_best(dir, all, out, stops[i], 1, 2);
        }
    }
    /* the loss is that of the weights in the checkpoint: of the average, also one in parts */
    assert_true(loss_of(dir, "all-0", 4) != loss_of(dir, "all-1", 4));
    run_ok(dir, "whole", AVERAGED "--max_train_steps 4");
    ranks_ok(2, dir, "parts", AVERAGED "--max_train_steps 4 --checkpointing_limit 1 "
             "--parallel fsdp");
    check_best(dir, "whole", "parts", 4, 1, 2);
    double a = loss_of(dir, "parts", 4), b = loss_of(dir, "whole", 4);
    assert_true(fabs(a - b) <= 1e-5 * b);
}

/* A run that goes back has the best of the line that it goes on from. */
static void test_back(void **state)
{
    const char *dir = *state;
    run_ok(dir, "back", BEST "--keep_best 1 --max_train_steps 6");
    run_ok(dir, "back", BEST "--keep_best 1 --max_train_steps 4 --learning_rate 1e-9 "
           "--resume_from_checkpoint 2");
    char *link = vc_format("%s/back/best", dir), target[64] = "";
    assert_true(readlink(link, target, sizeof target - 1) > 0);
    free(link);
    char name[32];
    int least = 1;
    for (int i = 1; i <= 4; i++)
        if (loss_of(dir, "back", i) < loss_of(dir, "back", least))
            least = i;
    snprintf(name, sizeof name, "checkpoint-%d", least);
    assert_string_equal(target, name);
    run_ok(dir, "back", BEST "--keep_best 1 --max_train_steps 5 --resume_from_checkpoint best");
    vc_err err;
    assert_int_equal(run(dir, "unheld", MODEL "--keep_best 1 --max_train_steps 1", &err),
                     VC_EUSAGE);
    assert_non_null(strstr(err.text, "--eval_split"));
}

int main(void)
{
    int skip = ranks_begin();
    if (skip)
        return skip;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),       cmocka_unit_test(test_steps_too),
        cmocka_unit_test(test_resumed),    cmocka_unit_test(test_left),
        cmocka_unit_test(test_at_first),   cmocka_unit_test(test_evaluated),
        cmocka_unit_test(test_best),       cmocka_unit_test(test_back),
    };
    return cmocka_run_group_tests(tests, run_dir_setup, toy_dir_teardown);
}
