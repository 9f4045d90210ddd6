/* test_metrics.c - metrics.jsonl: numbers are read as they were written, a resumed run cuts later
 * lines, and lines are whole after a kill or on a full disk. */
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/rng.h"
#include "common/os/file.h"
#include "formats/json/json.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_dataset.h"
#include "train/output/metrics.h"

#define COUNT(a) ((int)(sizeof (a) / sizeof *(a)))

static char *const dir = toy_dir;

static const char *const keys[] = { "000000000042/000", "2:000000000007/001" };

static vtrain_record record_of(int64_t step)
{
    return (vtrain_record){ .step = step, .epoch = (double)step / 3, .loss = 1.0 / (double)step,
                            .lr = 1e-4, .grad_norm = 0.5, .sample = keys, .n_samples = 2,
                            .tokens_per_s = 1234.5, .step_s = 0.25, .data_wait_s = 0.001,
                            .peak_bytes = 5000000000, .bucket = "5x16x16,16x16",
                            .caption_dropout = 0.1, .device_waits = NAN,
                            .graph_replays = NAN, .eval_loss = NAN };
}

static vtrain_metrics *open_metrics(const char *out, int64_t step, bool tensorboard)
{
    vtrain_metrics *m;
    vc_err err = { 0 };
    assert_ok(vtrain_metrics_open(&m, out, step, tensorboard, &err), &err);
    return m;
}

static void write_steps(vtrain_metrics *m, int64_t from, int64_t to)
{
    vc_err err = { 0 };
    for (int64_t s = from; s <= to; s++) {
        vtrain_record r = record_of(s);
        assert_ok(vtrain_metrics_step(m, &r, &err), &err);
    }
}

static char *load(const char *out)
{
    char *path = vc_path_join(out, "metrics.jsonl"), *text;
    size_t n;
    if (vc_file_read(&text, &n, path, 1 << 28, NULL))
        fail_msg("no %s", path);
    assert_int_equal(strlen(text), n);
    free(path);
    return text;
}

static void save(const char *out, const char *text, size_t n)
{
    char *path = vc_path_join(out, "metrics.jsonl");
    assert_int_equal(vc_mkdirs(out, NULL), 0);
    assert_int_equal(vc_file_write(path, text, n, NULL), 0);
    free(path);
}

/* Checks that the lines are whole and have the steps 1..n in order; returns n. */
static int64_t whole_steps(const char *text)
{
    int64_t n = 0, step;
    for (const char *s = text, *end; *s; s = end + 1) {
        cJSON *o = NULL;
        end = strchr(s, '\n');
        if (!end || vf_json_parse(&o, s, (size_t)(end - s), NULL))
            fail_msg("after step %lld: %.80s", (long long)n, s);
        assert_int_equal(vf_json_int(o, "step", &step, NULL), 0);
        assert_int_equal(step, ++n);
        cJSON_Delete(o);
    }
    return n;
}

/* ---- tests ---- */

static void test_line(void **state)
{
    (void)state;
    static const vtrain_bucket_loss buckets[] = { { "5x16x16", { 0.5, 2 } },
                                                  { "16x16", { 0.125, 1 } } };
    static const float loss[] = { 0.1f, 1.0f / 3, 3.4028235e38f, 1.17549435e-38f, 1e-45f,
                                  123456.79f };
    char *out = vc_path_join(dir, "line");
    vtrain_metrics *m = open_metrics(out, 0, false);
    for (int i = 0; i < COUNT(loss); i++) {
        vtrain_record r = record_of(i + 1);
        r.loss = (double)loss[i];
        r.grad_norm = i == 1 ? INFINITY : 0.5;
        if (i == 2)
            r.eval_loss = 0.25, r.eval_level[0] = 0.125, r.eval_level[3] = 1;
        if (i == 4) {
            r.level[1] = (vtrain_part_loss){ 0.5, 1 }, r.level[3] = (vtrain_part_loss){ 3, 4 };
            r.of_bucket = buckets, r.n_buckets = 2;
        }
        if (i == 3)
            r.device_waits = 2, r.graph_replays = 1;
        assert_int_equal(vtrain_metrics_step(m, &r, NULL), 0);
    }
    assert_int_equal(vtrain_metrics_sync(m, NULL), 0);
    vtrain_metrics_close(m);
    char *text = load(out), *s = text;
    const char *first = "{\"step\":1,\"epoch\":0.333333333,\"loss\":0.100000001,\"lr\":0.0001,"
                        "\"grad_norm\":0.5,"
                        "\"samples\":[\"000000000042/000\",\"2:000000000007/001\"],"
                        "\"tokens_per_s\":1234.5,\"step_s\":0.25,\"data_wait_s\":0.001,"
                        "\"peak_bytes\":5000000000,\"bucket\":\"5x16x16,16x16\","
                        "\"caption_dropout\":0.1}\n";
    assert_int_equal(strncmp(s, first, strlen(first)), 0);
    for (int i = 0; i < COUNT(loss); i++, s = strchr(s, '\n') + 1) {
        char *number = strstr(s, "\"loss\":") + 7;
        assert_true(strtof(number, NULL) == loss[i]);
        char *eval = strstr(s, "\"eval_loss\":0.25,\"eval_levels\":[0.125,0,0,1]}");
        char *null = strstr(s, "\"grad_norm\":null");
        char *waits = strstr(s, "\"device_waits\":2,\"graph_replays\":1}");
        char *parts = strstr(s, "\"loss_levels\":[null,0.5,null,0.75],"
                             "\"loss_buckets\":{\"5x16x16\":0.25,\"16x16\":0.125},");
        assert_int_equal(i == 4, parts && parts < strchr(s, '\n'));
        assert_int_equal(i == 2, eval && eval < strchr(s, '\n'));
        assert_int_equal(i == 3, waits && waits < strchr(s, '\n'));
        assert_int_equal(i == 1, null && null < strchr(s, '\n'));
    }
    assert_int_equal(whole_steps(text), COUNT(loss));
    free(text);
    free(out);
}

/* A file, the step after which a run resumes, and the lines that must be left. */
static void test_cut(void **state)
{
    (void)state;
#define L(n) "{\"step\":" #n ",\"loss\":1}\n"
    static const struct { const char *text; int64_t step; const char *left; } row[] = {
        { "", 5, "" }, { L(1) L(2) L(3), 3, L(1) L(2) L(3) }, { L(1) L(2) L(3), 2, L(1) L(2) },
        { L(1) L(2) L(3), 0, "" }, { L(1) L(2) L(3), 9, L(1) L(2) L(3) }, { L(7) L(8), 3, "" },
        { L(1) L(2) "{\"step\":3,\"lo", 9, L(1) L(2) }, { L(1) "{\"step\":2}", 9, L(1) },
        { L(1) "{\"step\":2}x", 9, L(1) },
        { L(1) "{\"step\":2,\n", 9, L(1) }, { "{\"st", 9, "" }, { "\n\n\n", 9, "" },
        { L(1) "\n", 9, L(1) }, { L(1) "{\"step\":-2}\n", 9, L(1) },
        { L(1) "{\"step\":\"2\"}\n", 9, L(1) }, { "junk\n" L(1), 9, "junk\n" L(1) },
        { L(10) L(20) L(30), 25, L(10) L(20) },
    };
    char *out = vc_path_join(dir, "cut");
    for (int i = 0; i < COUNT(row); i++) {
        save(out, row[i].text, strlen(row[i].text));
        vtrain_metrics_close(open_metrics(out, row[i].step, false));
        char *text = load(out);
        if (strcmp(text, row[i].left))
            fail_msg("row %d: %s", i, text);
        free(text);
    }
    free(out);
#undef L
}

/* A run that stops and is resumed has the same lines as a run without a stop. */
static void test_resume(void **state)
{
    (void)state;
    char *a = vc_path_join(dir, "once"), *b = vc_path_join(dir, "twice");
    vtrain_metrics *m = open_metrics(a, 0, false);
    write_steps(m, 1, 30);
    vtrain_metrics_close(m);
    m = open_metrics(b, 0, false);
    write_steps(m, 1, 17);
    vtrain_metrics_close(m);
    m = open_metrics(b, 10, false);
    write_steps(m, 11, 30);
    vtrain_metrics_close(m);
    char *x = load(a), *y = load(b);
    assert_string_equal(x, y);
    free(x);
    free(y);
    free(a);
    free(b);
}

static void test_tensorboard(void **state)
{
    (void)state;
    static const char *const tag[] = { "loss", "lr", "grad_norm", "eval_loss", "tokens_per_s",
                                       "step_s", "data_wait_s", "peak_bytes",
                                       "caption_dropout", "epoch" };
    char *out = vc_path_join(dir, "tb"), *folder = vc_path_join(out, "tensorboard");
    for (int run = 0; run < 2; run++) {
        vtrain_metrics *m = open_metrics(out, run, true);
        vtrain_record r = record_of(run + 1);
        r.eval_loss = 2;
        assert_int_equal(vtrain_metrics_step(m, &r, NULL), 0);
        vtrain_metrics_close(m);
    }
    int files = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        char *path = vc_path_join(folder, e->d_name), *data;
        size_t n;
        files++;
        assert_memory_equal(e->d_name, "events.out.tfevents.", 20);
        assert_int_equal(vc_file_read(&data, &n, path, 1 << 20, NULL), 0);
        for (int i = 0; i < COUNT(tag); i++)
            assert_non_null(memmem(data, n, tag[i], strlen(tag[i])));
        free(data);
        free(path);
    }
    closedir(d);
    assert_int_equal(files, 2);
    free(folder);
    free(out);
}

/* On a full disk the step fails, and earlier lines stay whole; missing lines are written as soon as
 * there is room again. */
static int write_limited(const char *out)
{
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit lim = { 3000, RLIM_INFINITY }, none = { RLIM_INFINITY, RLIM_INFINITY };
    vc_err err = { 0 };
    vtrain_metrics *m;
    int rc = vtrain_metrics_open(&m, out, 0, false, &err);
    if (rc || setrlimit(RLIMIT_FSIZE, &lim))
        return 2;
    int64_t s = 1;
    for (int more = 5; more && s < 100; s++, more -= rc != 0) {
        vtrain_record r = record_of(s);
        rc = vtrain_metrics_step(m, &r, &err);
    }
    if (rc != VC_EFULL || !strstr(err.text, "metrics.jsonl") || s >= 100)
        return 1;
    char *text = load(out);
    if (whole_steps(text) != s - 6 || setrlimit(RLIMIT_FSIZE, &none) ||
        vtrain_metrics_sync(m, &err))
        return 3;
    free(text);
    text = load(out);
    int lines = whole_steps(text);
    free(text);
    vtrain_metrics_close(m);
    return lines == s - 1 ? 0 : 4;
}

static void test_full_disk(void **state)
{
    (void)state;
    char *out = vc_path_join(dir, "full");
    int status;
    pid_t child = fork();
    if (!child)
        _exit(write_limited(out));
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    free(out);
}

static void write_forever(const char *out, int64_t from, atomic_long *done)
{
    vtrain_metrics *m;
    if (vtrain_metrics_open(&m, out, from, false, NULL))
        _exit(1);
    for (int64_t s = from + 1;; s++) {
        vtrain_record r = record_of(s);
        if (vtrain_metrics_step(m, &r, NULL))
            _exit(1);
        atomic_store(done, s);
    }
}

/* The writer is killed repeatedly, and resumes some steps before the kill, as from a checkpoint. */
static void test_kill(void **state)
{
    (void)state;
    atomic_long *done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    vc_draws draws = vc_draws_of(1, 2, 3, 4);
    char *out = vc_path_join(dir, "kill");
    int64_t from = 0;
    for (int i = 0; i < 30; i++) {
        atomic_store(done, from);
        pid_t child = fork();
        if (!child)
            write_forever(out, from, done);
        usleep(1000 + vc_draw_int(&draws, 8000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        from = atomic_load(done) - atomic_load(done) % 7;
        vtrain_metrics_close(open_metrics(out, from, false));
        char *text = load(out);
        assert_int_equal(whole_steps(text), from);
        free(text);
    }
    assert_true(from > 20);
    munmap(done, 4096);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line), cmocka_unit_test(test_cut), cmocka_unit_test(test_resume),
        cmocka_unit_test(test_tensorboard), cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_kill),
    };
    return cmocka_run_group_tests(tests, toy_dir_setup, toy_dir_teardown);
}
