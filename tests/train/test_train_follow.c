/* test_train_follow.c - training on a dataset that is still written: closed shards join at the next
 * epoch, and a resumed run reads the same samples at each step as the first run. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "common/os/progress.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_run.h"
#include "train/output/ckpt.h"

enum { STEPS = 40, ACCUMULATION = 3, PATIENCE_S = 300 };

#define ARGS "--follow --dit_width 32 --dit_layers 2 --dit_heads 2 --mixed_precision no " \
             "--max_train_steps 40 --checkpointing_steps 1 --gradient_accumulation_steps 3"

/* The samples in the order of writing: clips of one shape, then stills and a changed caption. */
static const toy_sample samples[] = {
    { .number = 0, .f = 2, .h = 4, .w = 4, .caption = { "a red ball", "ball" } },
    { .number = 1, .f = 2, .h = 4, .w = 4, .caption = { "two cubes" } },
    { .number = 2, .f = 2, .h = 4, .w = 4, .caption = { "rain" } },
    { .number = 3, .f = 0, .h = 4, .w = 6, .caption = { "a still" } },
    { .number = 4, .f = 0, .h = 4, .w = 6, .caption = { "another still" } },
    { .number = 1, .f = 2, .h = 4, .w = 4, .caption = { "two grey cubes" } },
};
enum { SAMPLES = sizeof samples / sizeof *samples };

typedef struct runner {
    pthread_t thread;
    char *args;
    vc_err err;
    int rc;
    volatile bool ended;
} runner;

static void *run_thread(void *arg)
{
    runner *r = arg;
    r->rc = run_bare(r->args, &r->err);
    r->ended = true;
    return NULL;
}

static void start(runner *r, const char *dir, const char *out, const char *more)
{
    *r = (runner){ .args = vc_format("--latents %s/grows.lmdb --output_dir %s/%s --seed 5 "
                                     "--train_batch_size 2 --threads 1 --report_to none " ARGS
                                     " %s", dir, dir, out, more) };
    assert_int_equal(pthread_create(&r->thread, NULL, run_thread, r), 0);
}

static void end(runner *r)
{
    pthread_join(r->thread, NULL);
    free(r->args);
    assert_ok(r->rc, &r->err);
}

/* Waits until the run has done n more steps. */
static void wait_for_steps(const runner *r, const char *dir, const char *out, int n)
{
    char *path = vc_format("%s/%s/metrics.jsonl", dir, out);
    double until = vc_seconds() + PATIENCE_S;
    for (int lines = 0, first = -1; first < 0 || lines < first + n;) {
        FILE *f = fopen(path, "r");
        lines = 0;
        for (int c; f && (c = fgetc(f)) != EOF;)
            lines += c == '\n';
        if (f)
            fclose(f);
        if (first < 0)
            first = lines;
        if (r->ended)
            fail_msg("%s: the run ended: %s", out, r->err.text);
        if (vc_seconds() > until)
            fail_msg("%s: %d steps", out, lines);
        usleep(500);
    }
    free(path);
}

static vtrain_state state_of(const char *dir, const char *out, int step)
{
    vtrain_state s;
    vc_err err = { 0 };
    char *path = vc_format("%s/%s/checkpoint-%d", dir, out, step);
    assert_ok(vtrain_state_read(&s, path, &err), &err);
    free(path);
    return s;
}

/* Checks that a run resumed from a copy of a checkpoint of `whole` has the same end. */
static void same_from(const char *dir, int step)
{
    char *more = vc_format("--resume_from_checkpoint %s/whole/checkpoint-%d", dir, step);
    char *out = vc_format("again-%d", step);
    runner r;
    int n;
    start(&r, dir, out, more);
    end(&r);
    char *a = vc_format("whole/checkpoint-%d/optimizer.safetensors", STEPS);
    char *b = vc_format("%s/checkpoint-%d/optimizer.safetensors", out, STEPS);
    if (!run_same_file(dir, a, b))
        fail_msg("from step %d: other weights", step);
    char *all = run_metrics(dir, "whole", NULL), *rest = run_metrics(dir, out, &n), *from = all;
    assert_int_equal(n, STEPS - step);
    for (int i = 0; i < step; i++)
        from = strchr(from, '\n') + 1;
    if (strcmp(from, rest))
        fail_msg("from step %d: %s\n%s", step, from, rest);
    vtrain_state was = state_of(dir, "whole", STEPS), now = state_of(dir, out, STEPS);
    assert_int_equal(was.n_spans, now.n_spans);
    for (int i = 0; i < was.n_spans; i++) {
        assert_int_equal(was.span[i].epoch, now.span[i].epoch);
        assert_int_equal(was.span[i].micro, now.span[i].micro);
        assert_string_equal(was.span[i].part[0].root, now.span[i].part[0].root);
    }
    vtrain_state_free(&was);
    vtrain_state_free(&now);
    free(all);
    free(rest);
    free(a);
    free(b);
    free(out);
    free(more);
}

/* Checks the spans of epochs with a fixed set of samples: at most three, with two or three samples,
 * three, and five. No step has a sample of a later span. */
static void check_spans(const char *dir)
{
    vtrain_state s = state_of(dir, "whole", STEPS);
    assert_between(s.n_spans, 2, 3);
    const vtrain_span *first = &s.span[0], *before = &s.span[s.n_spans - 2], *last = before + 1;
    assert_int_equal(first->micro, 0);
    assert_int_equal(first->epoch, 0);
    assert_between(first->part[0].samples, 2, 3);
    assert_int_equal(before->part[0].samples, 3);
    assert_int_equal(last->part[0].samples, 5);
    assert_int_equal((last->micro - before->micro) % 2, 0);  /* three samples in batches of two */
    assert_int_equal(last->epoch - before->epoch, (last->micro - before->micro) / 2);

    char *text = run_metrics(dir, "whole", NULL), *p = text;
    int old = (int)(last->micro / ACCUMULATION);
    for (int i = 0; i < old; i++, p = strchr(p, '\n') + 1)
        if (memmem(p, strcspn(p, "\n"), "00000003/", 9))
            fail_msg("step %d has a sample of a later span", i + 1);
    assert_non_null(strstr(p, "00000003/"));
    assert_non_null(strstr(p, "00000004/"));
    free(text);
    vtrain_state_free(&s);
}

static void test_follow(void **state)
{
    const char *dir = *state;
    char *path = vc_path_join(dir, "grows.lmdb");
    toy t = { .path = path, .per_channel = true };
    runner r;
    start(&r, dir, "whole", "");                     /* the dataset does not exist yet */
    usleep(100000);
    vf_writer *w = toy_open(&t, 1e-9, false);
    toy_put(w, &t, &samples[0]);
    usleep(600000);                                  /* waits: less than a batch */
    assert_false(run_exists(dir, "whole"));
    toy_put(w, &t, &samples[1]);
    toy_put(w, &t, &samples[2]);
    wait_for_steps(&r, dir, "whole", 5);
    vf_writer_close(w);                              /* vprep is killed and restarted */
    w = toy_open(&t, 0, false);
    for (int i = 3; i < SAMPLES; i++)
        toy_put(w, &t, &samples[i]);
    toy_finish(w);
    free(path);
    end(&r);
    check_spans(dir);

    vtrain_state s = state_of(dir, "whole", STEPS);
    int join = (int)(s.span[s.n_spans - 1].micro / ACCUMULATION);
    vtrain_state_free(&s);
    same_from(dir, join);                            /* at or after the last epoch of three */
    same_from(dir, join + 1);
    same_from(dir, join + 4);
}

/* A run is not resumed when the dataset was made anew without its samples. */
static void test_made_anew(void **state)
{
    const char *dir = *state;
    char *path = vc_path_join(dir, "grows.lmdb");
    toy t = { .path = path };
    vc_err err = { 0 };
    vf_writer *w = toy_open(&t, 1e-9, true);
    for (int i = 1; i < SAMPLES; i++)
        toy_put(w, &t, &samples[i]);
    toy_finish(w);
    char *args = vc_format("--latents %s --output_dir %s/anew --seed 5 --train_batch_size 2 "
                           "--threads 1 " ARGS " --resume_from_checkpoint %s/whole/checkpoint-3",
                           path, dir, dir);
    assert_fails(run_bare(args, &err), VC_EMISMATCH, &err, "was made anew");
    free(args);
    free(path);
}

/* A vprep that died before the first shard, or with too few samples, is not waited for. */
static void test_vprep_ended(void **state)
{
    const char *dir = *state;
    runner r[2];
    for (int n = 0; n < 2; n++) {
        char *path = vc_format("%s/ended-%d.lmdb", dir, n);
        toy t = { .path = path };
        vf_writer *w = toy_open(&t, 1e-9, true);
        if (n)
            toy_put(w, &t, &samples[0]);
        vf_writer_close(w);
        r[n] = (runner){ .args = vc_format("--latents %s:2 --output_dir %s/ended-%d --threads 1 "
                                           "--train_batch_size 2 " ARGS, path, dir, n) };
        assert_int_equal(pthread_create(&r[n].thread, NULL, run_thread, &r[n]), 0);
        free(path);
    }
    for (int n = 0; n < 2; n++) {
        pthread_join(r[n].thread, NULL);
        assert_fails(r[n].rc, VC_ENOENT, &r[n].err, "no vprep writes it");
        free(r[n].args);
    }
}

static void test_refused(void **state)
{
    vc_err err = { 0 };
    (void)state;
    assert_fails(run_bare("--latents x --output_dir y --follow --num_train_epochs 2", &err),
                 VC_EUSAGE, &err, "--max_train_steps");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_follow), cmocka_unit_test(test_made_anew),
        cmocka_unit_test(test_vprep_ended), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, toy_dir_setup, toy_dir_teardown);
}
