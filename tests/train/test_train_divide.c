/* test_train_divide.c - the samples of a run do not depend on how its steps are divided into ranks,
 * batches and accumulation, in a run and after a resume; and each sample is seen once an epoch,
 * whatever changes when a run resumes. */
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
#include "tests/lib/ok.h"
#include "tests/lib/train_compare.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_ranks.h"
#include "tests/lib/train_run.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
#define MODEL "--dit_width 32 --dit_layers 1 --dit_heads 2 "

enum { SAMPLES = 6 };

/* Copies a run's folder below dir. */
static void copy_run(const char *dir, const char *from, const char *to)
{
    char *command = vc_format("rm -rf %s/%s && cp -r %s/%s %s/%s", dir, to, dir, from, dir, to);
    assert_int_equal(system(command), 0);
    free(command);
}

/* ---- one global batch, divided in many ways ---- */

/* A step has 8 samples, of buckets of 6 and 12 visits: some micro-batches have fewer rows than
 * parts. Rows without --global_batch_size have micro-batches of 2. */
typedef struct cut { int ranks; const char *args; } cut;
static const cut whole[] = {
    { 1, "--train_batch_size 8" },
    { 1, "--train_batch_size 2" },
    { 2, "--train_batch_size 2 --parallel zero2" },
    { 4, "--train_batch_size 1 --parallel fsdp" },
};
static const cut pairs[] = {
    { 1, "--gradient_accumulation_steps 4" },
    { 2, "--gradient_accumulation_steps 2" },
    { 1, "--train_batch_size 4 --gradient_accumulation_steps 2" },
    { 2, "--train_batch_size 1 --gradient_accumulation_steps 4 --parallel zero2" },
};

static void run_cut(const char *dir, const char *out, const cut *c, const char *common, int steps)
{
    char *args = vc_format(MODEL "%s %s --max_train_steps %d --resume_from_checkpoint latest "
                           "--checkpointing_steps 3 --caption_dropout_p 0.3 --uniform_sampling "
                           "--dataset_repeat 3 --posterior sample", common, c->args, steps);
    ranks_ok(c->ranks, dir, out, args);
    free(args);
}

/* Runs all cuts, each from the beginning (unless only resumes are equal) and from the checkpoint of
 * each cut, and compares the runs with the first one's. */
static void check_cuts(const char *dir, const char *name, const cut *cuts, size_t n,
                       const char *common, bool from_start)
{
    char first[32], out[32], half[32];
    snprintf(first, sizeof first, "%s-0", name);
    run_cut(dir, first, &cuts[0], common, 6);
    for (size_t a = 0; a < n; a++) {
        snprintf(half, sizeof half, "%s-half-%zu", name, a);
        if (a && !from_start)
            continue;
        run_cut(dir, half, &cuts[a], common, 3);
        for (size_t b = 0; b < n; b++) {
            snprintf(out, sizeof out, "%s-%zu-%zu", name, a, b);
            copy_run(dir, half, out);
            run_cut(dir, out, &cuts[b], common, 6);
            run_same_training(dir, first, out, 6, 1e-5, 1e-5);
        }
    }
}

static void test_global_batch(void **state)
{
    check_cuts(*state, "whole", whole, COUNT(whole), "--global_batch_size 8 ", true);
}

static void test_resumed(void **state)
{
    check_cuts(*state, "pairs", pairs, COUNT(pairs), "", false);
}

/* ---- each sample once an epoch ---- */

/* Counts how often each sample was seen in all steps of a run. */
static void count_samples(const char *dir, const char *out, int seen[SAMPLES])
{
    enum { DIGITS = 12 };
    char *text = run_samples(dir, out);
    memset(seen, 0, SAMPLES * sizeof *seen);
    for (const char *p = text; (p = strchr(p, '/')); p++) {
        long i = strtol(p - DIGITS, NULL, 10);
        assert_true(i >= 0 && i < SAMPLES);
        seen[i]++;
    }
    free(text);
}

/* A run of two epochs that is interrupted after some steps and goes on with other settings. */
typedef struct change { const char *name, *args[3]; int steps[2]; double epochs; int seen; } change;
static const change changes[] = {
    { "batch", { "", "--train_batch_size 4", "--train_batch_size 1" }, { 4, 6 }, 2, 6 },
    { "ends", { "", "--train_batch_size 4", "" }, { 9, 12 }, 2, 6 },
    { "accumulation", { "", "--gradient_accumulation_steps 3", "" }, { 4, 6 }, 2, 6 },
    { "seed", { "", "--seed 6", "--seed 7 --train_batch_size 3" }, { 5, 12 }, 2, 6 },
    { "nothing", { "", "", "" }, { 4, 6 }, 2, 6 },
};

static void test_once(void **state)
{
    const char *dir = *state;
    for (size_t i = 0; i < COUNT(changes); i++) {
        const change *c = &changes[i];
        int seen[SAMPLES], lines;
        for (int k = 0; k < 3; k++) {
            char steps[48] = "";
            if (k < 2)
                snprintf(steps, sizeof steps, "--max_train_steps %d", c->steps[k]);
            char *args = vc_format(MODEL "--dataset_repeat 3 --num_train_epochs 2 "
                                   "--resume_from_checkpoint latest %s %s", steps, c->args[k]);
            run_ok(dir, c->name, args);
            free(args);
        }
        count_samples(dir, c->name, seen);
        for (int s = 0; s < SAMPLES; s++)
            if (seen[s] != c->seen)
                fail_msg("%s: sample %d was seen %d times, not %d", c->name, s, seen[s], c->seen);
        free(run_metrics(dir, c->name, &lines));
        double epoch = run_value(dir, c->name, lines - 1, "epoch");
        if (fabs(epoch - c->epochs) > 1e-6)
            fail_msg("%s: ended at epoch %g, not %g", c->name, epoch, c->epochs);
        for (int l = 1; l < lines; l++)
            if (run_value(dir, c->name, l, "epoch") <= run_value(dir, c->name, l - 1, "epoch"))
                fail_msg("%s: the epoch falls at line %d", c->name, l + 1);
    }
}

/* Other repeats begin a new epoch, and the epochs done count. */
static void test_other_repeats(void **state)
{
    const char *dir = *state;
    int lines;
    run_ok(dir, "more", MODEL "--dataset_repeat 1 --num_train_epochs 1");
    run_ok(dir, "more", MODEL "--dataset_repeat 2 --num_train_epochs 3 "
           "--resume_from_checkpoint latest");
    free(run_metrics(dir, "more", &lines));
    assert_int_equal(lines, 3 + 2 * 6);
    assert_true(fabs(run_value(dir, "more", lines - 1, "epoch") - 3) < 1e-6);
    assert_true(fabs(run_value(dir, "more", 3, "epoch") - (1 + 1 / 6.0)) < 1e-6);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, run_dir_setup, toy_dir_teardown)

int main(void)
{
    const struct CMUnitTest alone[] = { TEST(test_once), TEST(test_other_repeats) };
    const struct CMUnitTest ranks[] = { TEST(test_global_batch), TEST(test_resumed) };
    int failed = cmocka_run_group_tests(alone, NULL, NULL);
    if (ranks_begin())
        return failed ? failed : 77;
    ranks_model = "";
    return failed + cmocka_run_group_tests(ranks, NULL, NULL);
}
