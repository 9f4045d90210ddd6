/* test_train_ranks_ends.c - one rank's failure or signal ends all ranks of vtrain, flags that do
 * not fit the ranks are refused, and a run without steps leaves nothing. Without MPI the test is
 * skipped. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "common/os/progress.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_compare.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_ranks.h"
#include "tests/lib/train_run.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

/* An error of one rank ends all ranks, and is printed once. */
static void test_one_fails(void **state)
{
    const char *dir = *state;
    static const toy_sample samples[] = {
        { .number = 0, .f = 2, .h = 4, .w = 4, .caption = { "a" } },
        { .number = 1, .f = 2, .h = 4, .w = 4, .caption = { "b" } },
        { .number = 2, .f = 2, .h = 4, .w = 4, .caption = { "c" } },
        { .number = 3, .f = 2, .h = 4, .w = 4, .caption = { "d" } },
    };
    char *folder = vc_path_join(dir, "bad"), *path = vc_path_join(folder, "set.lmdb");
    const toy t = { .path = path, .sample = samples, .n = 4, .per_channel = true,
                    .damage = TOY_LATENT_SUM, .bad = 2 };
    if (vc_mkdirs(folder, NULL))
        fail();
    toy_make(&t);
    static const char *const split[] = { "", "--parallel zero2", "--parallel fsdp" };
    for (size_t i = 0; i < COUNT(split); i++) {
        char *args = vc_format("--max_train_steps 9 --train_batch_size 1 %s", split[i]);
        assert_int_equal(ranks_run(i ? 2 : 4, folder, "out", args), 1);
        assert_int_equal(ranks_say("vtrain: rank "), 1);
        assert_int_equal(ranks_say("xxh3 is"), 1);
        free(args);
    }
    assert_int_equal(ranks_run(4, folder, "nan", "--max_train_steps 9 --verify_data=false "
                               "--learning_rate 1e30 --max_grad_norm 0"), 1);
    assert_int_equal(ranks_say("training stops"), 1);
    free(path);
    free(folder);
}

/* Ranks that were started with different settings are refused. */
static void test_different_settings(void **state)
{
    const char *dir = *state;
    char *args = vc_format("--max_train_steps 3 : -np 1 %s/%s --latents %s/set.lmdb "
                           "--output_dir %s/mixed " RANKS_BUILTIN RANKS_TINY "--device %s "
                           "--max_train_steps 4", getenv("VLT_BUILD"), ranks_program, dir, dir,
                           ranks_device);
    assert_int_equal(ranks_run(-1, dir, "mixed", args), 1);
    assert_int_equal(ranks_say("rank 1 has another dataset, other settings"), 1);
    assert_false(run_exists(dir, "mixed"));
    free(args);
}

/* Fills `child` with at most n processes that pid started, and returns their number. */
static int children(pid_t pid, pid_t *child, int n)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *f = fopen(path, "r");
    int found = 0, one;
    while (f && found < n && fscanf(f, "%d", &one) == 1)
        child[found++] = one;
    if (f)
        fclose(f);
    return found;
}

static void stop_by(const char *dir, int signal_sent)
{
    char *set = vc_path_join(dir, "set.lmdb"), *out = vc_path_join(dir, "stopped");
    char *starts = vc_format("%s/tests/lib/ranks.sh", getenv("VLT_SOURCE"));
    char *vtrain = vc_format("%s/%s", getenv("VLT_BUILD"), ranks_program);
    char *metrics = vc_path_join(out, "metrics.jsonl");
    pid_t pid = fork(), child[4];
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        dup2(null, 2);
        execl(starts, starts, "2", vtrain, "--latents", set, "--output_dir", out,
              "--dit_width", "32", "--dit_layers", "5", "--dit_heads", "2", "--train_batch_size",
              "2", "--seed", "5",
              "--threads", "1", "--device", ranks_device, "--max_train_steps", "1000000", NULL);
        _exit(127);
    }
    double end = vc_seconds() + 300;
    struct stat st = { 0 };                    /* the first step has ended: the file has a line */
    while ((stat(metrics, &st) || st.st_size == 0) && vc_seconds() < end)
        usleep(1000);
    int n = children(pid, child, 4), status;
    if (n)
        kill(child[n - 1], signal_sent);
    else
        kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(n, 2);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
    int lines;
    free(run_metrics(dir, "stopped", &lines));
    assert_true(lines >= 1);
    char *kept = vc_format("stopped/checkpoint-%d/trainer.json", lines);
    assert_true(run_exists(dir, kept));

    char *more = vc_format("--max_train_steps %d --resume_from_checkpoint latest", lines + 2);
    char *whole = vc_format("--max_train_steps %d", lines + 2);
    ranks_ok(2, dir, "stopped", more);
    ranks_ok(2, dir, "unstopped", whole);
    run_same_training(dir, "stopped", "unstopped", lines + 2, 0, 0);
    free(more);
    free(whole);
    free(kept);
    free(set);
    free(out);
    free(starts);
    free(vtrain);
    free(metrics);
}

/* A signal to the last rank alone stops all ranks after the same step, which is saved. */
static void test_stop(void **state)
{
    const char *dir = *state;
    static const int signals[] = { SIGINT, SIGHUP };
    for (size_t i = 0; i < (ranks_fewer() ? 1 : COUNT(signals)); i++) {
        char *stopped = vc_path_join(dir, "stopped"), *unstopped = vc_path_join(dir, "unstopped");
        vc_remove_tree(stopped, NULL);
        vc_remove_tree(unstopped, NULL);
        stop_by(dir, signals[i]);
        free(stopped);
        free(unstopped);
    }
}

/* Flags that do not fit the number of ranks are refused by one message, before anything is
 * written. */
static void test_refused(void **state)
{
    const char *dir = *state;
    static const struct { int ranks; const char *args, *says; } row[] = {
        { 2, "--max_train_steps 1 --dp_degree 3", "there are 2 ranks" },
        { 2, "--max_train_steps 1 --dp_degree 2 --dp_shards 2", "dp_shards" },
        { 1, "--max_train_steps 1 --dp_degree 2", "there are 1 ranks" },
        { 2, "--max_train_steps 1 --parallel fsdp --trace_dir t", "trace_dir" },
        { 2, "--max_train_steps x", "max_train_steps" },
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        assert_int_equal(ranks_run(row[i].ranks, dir, "refused", row[i].args), 2);
        assert_int_equal(ranks_say("vtrain: "), 1);
        assert_non_null(strstr(ranks_output, row[i].says));
        assert_false(run_exists(dir, "refused"));
    }
}

static void test_dry_run_and_samples(void **state)
{
    const char *dir = *state;
    ranks_ok(2, dir, "none", "--version");
    assert_int_equal(ranks_say("vtrain "), 1);
    ranks_ok(2, dir, "dry", "--max_train_steps 3 --dry_run");
    assert_int_equal(ranks_say("steps: 3"), 1);
    assert_false(run_exists(dir, "dry"));
    char *trace = vc_format("--max_train_steps 1 --validation_steps 1 --num_inference_steps 2 "
                            "--trace_dir %s/trace", dir);
    ranks_ok(2, dir, "s2", trace);
    assert_true(run_exists(dir, "s2/validation/step-1/000.safetensors"));
    assert_true(run_exists(dir, "s2/validation/step-1/001.safetensors"));
    assert_true(run_exists(dir, "trace/step-000001-mb-00-rank-01.safetensors"));
    free(trace);
}

/* ---- on another device ---- */

/* All ranks end where links fail on one rank, or one rank omits a call (links_host.h). */
static void test_links_fail(void **state)
{
    const char *dir = *state;
    static const struct { const char *fault, *args, *says; } row[] = {
        { "broken 1 9", "", "rank 1: links: all-reduce of " },
        { "broken 1 9", "--parallel zero2", "update: rank 1: links: all-gather of " },
        { "broken 1 3", "--parallel zero2", "rank 1: links: reduce-scatter of " },
        { "silent 1 9", "--nccl_timeout 2", "not done after 2 s: a rank does not answer" },
        { "silent 1 9", "--nccl_timeout 2 --parallel fsdp", "not done after 2 s" },
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        char *args = vc_format("--max_train_steps 9 %s", row[i].args);
        setenv("VLT_LINKS_FAULT", row[i].fault, 1);
        int status = ranks_run(2, dir, "faulty", args);
        if (status != 1 || ranks_say(row[i].says) != 1)
            fail_msg("%s %s: status %d: %s", row[i].fault, args, status, ranks_output);
        unsetenv("VLT_LINKS_FAULT");
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
        cmocka_unit_test_prestate(test_one_fails, dir),
        cmocka_unit_test_prestate(test_different_settings, dir),
        cmocka_unit_test_prestate(test_stop, dir),
        cmocka_unit_test_prestate(test_refused, dir),
        cmocka_unit_test_prestate(test_dry_run_and_samples, dir),
    };
    const struct CMUnitTest elsewhere[] = { cmocka_unit_test_prestate(test_links_fail, dir) };
    const ranks_tests all = { .all = RANKS_GROUP(tests), .elsewhere = RANKS_GROUP(elsewhere) };
    return ranks_end(&all, dir);
}
