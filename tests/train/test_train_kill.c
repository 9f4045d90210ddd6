/* test_train_kill.c - a run of vtrain that is killed at any moment and resumed equals a run without
 * a kill. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "common/os/progress.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_run.h"

enum { STEPS = 40, PATIENCE_S = 300 };

static char program[512];

/* The process stops itself before it writes its own nth line into metrics.jsonl (fault.c). */
static void stop_at(int n)
{
    char *asan = getenv("ASAN_OPTIONS");
    char *options = vc_format("%s:verify_asan_link_order=0", asan ? asan : "");
    char *library = vc_format("%s/tests/libvlt_fault.so", getenv("VLT_BUILD"));
    char *rule = vc_format("write@metrics.jsonl:%d:stop", n);
    setenv("ASAN_OPTIONS", options, 1);
    setenv("LD_PRELOAD", library, 1);
    setenv("VLT_FAULT", rule, 1);
}

/* Starts vtrain on DIR/set.lmdb, which stops itself before line `stop` unless that is 0, and
 * discards its output. */
static pid_t start_until(const char *dir, const char *out, bool resume, int stop)
{
    char *set = vc_path_join(dir, "set.lmdb"), *folder = vc_path_join(dir, out), steps[16];
    snprintf(steps, sizeof steps, "%d", STEPS);
    char *argv[] = {
        program, "--latents", set, "--output_dir", folder, "--dit_width", "32", "--dit_layers", "2",
        "--dit_heads", "2", "--train_batch_size", "2", "--seed", "5", "--threads", "1",
        "--max_train_steps", steps, "--checkpointing_steps", "3", "--checkpointing_limit", "2",
        "--use_ema", "--caption_dropout_p", "0.3", resume ? "--resume_from_checkpoint" : NULL,
        "latest", NULL
    };
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        dup2(null, 2);
        if (stop)
            stop_at(stop);
        execv(program, argv);
        _exit(127);
    }
    assert_true(pid > 0);
    free(set);
    free(folder);
    return pid;
}

static pid_t start(const char *dir, const char *out, bool resume)
{
    return start_until(dir, out, resume, 0);
}

static int lines_of(const char *dir, const char *out)
{
    char *path = vc_format("%s/%s/metrics.jsonl", dir, out);
    FILE *f = fopen(path, "r");
    int n = 0;
    for (int c; f && (c = fgetc(f)) != EOF;)
        n += c == '\n';
    if (f)
        fclose(f);
    free(path);
    return n;
}

/* Waits for line n of the metrics, and then more_us microseconds; false if the run ended before. */
static bool wait_for_line(pid_t pid, const char *dir, const char *out, int n, int more_us)
{
    double end = vc_seconds() + PATIENCE_S;
    while (lines_of(dir, out) < n) {
        if (waitpid(pid, NULL, WNOHANG) == pid)
            return false;
        if (vc_seconds() > end)
            fail_msg("no line %d in %d s", n, PATIENCE_S);
        usleep(500);
    }
    usleep((useconds_t)more_us);
    return true;
}

static int end_status(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void same_end(const char *dir, const char *a, const char *b)
{
    int na, nb;
    char *ma = run_metrics(dir, a, &na), *mb = run_metrics(dir, b, &nb);
    assert_int_equal(na, STEPS);
    assert_string_equal(ma, mb);
    free(ma);
    free(mb);
    static const char *const files[] = {
        "transformer/diffusion_pytorch_model.safetensors", "optimizer.safetensors"
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *fa = vc_format("%s/checkpoint-%d/%s", a, STEPS, files[i]);
        char *fb = vc_format("%s/checkpoint-%d/%s", b, STEPS, files[i]);
        if (!run_same_file(dir, fa, fb))
            fail_msg("%s and %s differ", fa, fb);
        free(fa);
        free(fb);
    }
}

static void whole_run(const char *dir)
{
    if (run_exists(dir, "whole"))
        return;
    assert_int_equal(end_status(start(dir, "whole", false)), 0);
}

/* The run is killed repeatedly, at steps with and without a checkpoint, and within steps. */
static void test_kill(void **state)
{
    const char *dir = *state;
    static const struct { int line, more_us; } at[] = {
        { 1, 0 }, { 3, 500 }, { 4, 0 }, { 6, 1500 }, { 11, 3000 }, { 17, 100 }, { 24, 700 },
    };
    whole_run(dir);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        pid_t pid = start(dir, "killed", i > 0);
        if (!wait_for_line(pid, dir, "killed", at[i].line, at[i].more_us))
            continue;
        kill(pid, SIGKILL);
        (void)end_status(pid);
    }
    assert_int_equal(end_status(start(dir, "killed", true)), 0);
    same_end(dir, "whole", "killed");
}

/* The program is killed at random moments of a run, also during start and saving, $VLT_KILLS (or
 * 30) times. A run that ends before its kill does not count and shortens the next waits, so that
 * the result is the same on slow and on fast machines. After each KILLS_A_RUN kills a run to the
 * end is compared. */
static void test_random_kills(void **state)
{
    enum { KILLS_A_RUN = 5 };
    const char *dir = *state, *wish = getenv("VLT_KILLS");
    int kills = wish ? atoi(wish) : 30, killed = 0, runs = 0, attempts = 0;
    uint32_t draw = 1;
    char *out = vc_path_join(dir, "random");

    double begin = vc_seconds();
    assert_int_equal(end_status(start(dir, "timed", false)), 0);
    double most = vc_seconds() - begin;
    while (killed < kills && attempts++ < 20 * kills) {
        pid_t pid = start(dir, "random", run_exists(dir, "random"));
        draw = draw * 1664525u + 1013904223u;
        usleep((useconds_t)(1e6 * most * (draw >> 8) * 0x1p-24));
        kill(pid, SIGKILL);
        int status = end_status(pid);
        if (status == 1000 + SIGKILL) {
            killed++;
            if (killed % KILLS_A_RUN)
                continue;
            status = end_status(start(dir, "random", run_exists(dir, "random")));
        } else {
            most *= 0.9;
        }
        assert_int_equal(status, 0);
        same_end(dir, "timed", "random");
        toy_dir_remove(out);
        runs++;
    }
    free(out);
    printf("%d of %d runs were killed; %d ends compared\n", killed, attempts, runs);
    assert_int_equal(killed, kills);
    assert_true(runs >= kills / KILLS_A_RUN);
}

/* A signal to stop: vtrain saves the last whole step, exits with the signal's status, and can be
 * resumed there. It comes within a step, before whose line the program stands. */
static void test_stop(void **state)
{
    const char *dir = *state;
    static const struct { int signal, own, line; } at[] = {     /* a line of this process, of all */
        { SIGINT, 4, 4 }, { SIGTERM, 6, 10 }, { SIGHUP, 6, 16 },
    };
    whole_run(dir);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        pid_t pid = start_until(dir, "stopped", i > 0, at[i].own);
        int status;
        assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
        if (!WIFSTOPPED(status))
            fail_msg("the run ended before line %d", at[i].line);
        kill(pid, at[i].signal);
        kill(pid, SIGCONT);
        assert_int_equal(end_status(pid), 128 + at[i].signal);
        assert_int_equal(lines_of(dir, "stopped"), at[i].line);
        char newest[64];
        snprintf(newest, sizeof newest, "stopped/checkpoint-%d", at[i].line);
        assert_true(run_exists(dir, newest));
    }
    assert_int_equal(end_status(start(dir, "stopped", true)), 0);
    same_end(dir, "whole", "stopped");
}

int main(void)
{
    const char *build = getenv("VLT_BUILD");
    snprintf(program, sizeof program, "%s/vtrain", build ? build : ".");
    if (access(program, X_OK)) {
        printf("skipped: %s is missing: set VLT_BUILD to the build folder\n", program);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kill), cmocka_unit_test(test_random_kills),
        cmocka_unit_test(test_stop),
    };
    return cmocka_run_group_tests(tests, run_dir_setup, toy_dir_teardown);
}
