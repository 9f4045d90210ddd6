/* test_ckpt.c - a checkpoint is whole or absent after kills and errors at any moment. */
#include <fcntl.h>
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
#include "common/os/progress.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_dataset.h"
#include "train/output/ckpt.h"

#define COUNT(a) ((int)(sizeof (a) / sizeof *(a)))

static char *const dir = toy_dir;

/* ---- a run's checkpoint ---- */

static vtrain_ckpt_set sets[] = { { "a.lmdb", "00112233445566778899aabbccddeeff", 12, "ab" },
                                  { "b \xff\"\n", "ffeeddccbbaa99887766554433221100", 0, NULL } };

static vtrain_state state_of(int64_t step)
{
    return (vtrain_state){ .step = step, .micro = 4000000000u, .seed = UINT64_MAX, .batch = 2,
                           .accumulation = 3, .ranks = 1, .family = "builtin",
                           .training_type = "lora", .backend = "cpu", .rows = 100, .dropped = 11,
                           .planned = 60, .sets = sets, .n_sets = 2 };
}

static vtrain_part parts[] = {
    { 3, 10, "00112233445566778899aabbccddeeff" }, { 1, 2, "0f112233445566778899aabbccddeeff" },
    { 7, 12, "0e112233445566778899aabbccddeeff" }, { 1, 2, "0f112233445566778899aabbccddeeff" },
};
static const vtrain_span spans[] = {
    { .part = parts, .n_parts = 2, .batch = 2, .seed = UINT64_MAX, .visits = UINT64_MAX - 1 },
    { .epoch = 5, .micro = 35, .part = parts + 2, .n_parts = 2, .done = 5.5, .batch = 65536,
      .seed = 1, .rest = true },
};

static const vtrain_base_id base = {
    .path = "m/transformer", .files = { { 1, 2 } }, .weights = { { 0xff, 3 } }
};

static int write_state(int64_t step, const char *path, vc_err *err)
{
    vtrain_state s = state_of(step);
    s.settings = cJSON_CreateObject();
    cJSON_AddStringToObject(s.settings, "learning_rate", "0.0001");
    s.epochs = 9.25;
    s.micro_rows = 4;
    s.span = (vtrain_span *)spans;
    s.n_spans = COUNT(spans);
    s.base = base;
    int rc = vtrain_state_write(&s, path, NULL, err);
    cJSON_Delete(s.settings);
    return rc;
}

/* Saves a checkpoint whose files all hold its step and the round, in the order in which a run
 * writes them. */
static int save(const char *out, int64_t step, int round, int64_t limit, vc_err *err)
{
    char text[4096], *tmp;
    int rc = vtrain_ckpt_begin(&tmp, out, step, err);
    if (rc)
        return rc;
    memset(text, ' ', sizeof text);
    snprintf(text, sizeof text, "%lld %d", (long long)step, round);
    char *sub = vc_path_join(tmp, "transformer"), *a = vc_path_join(tmp, "optimizer.safetensors"),
         *b = vc_path_join(sub, "weights.safetensors");
    if (!(rc = vc_file_write(a, text, sizeof text, err)) && !(rc = vc_mkdirs(sub, err)) &&
        !(rc = vc_file_write(b, text, sizeof text, err)) && !(rc = write_state(step, tmp, err)))
        rc = vtrain_ckpt_commit(out, step, limit, 0, err);
    if (rc)
        vtrain_ckpt_abort(out, step);
    free(a);
    free(b);
    free(sub);
    free(tmp);
    return rc;
}

/* The round in both files of a checkpoint; a checkpoint that is not whole fails the test. */
static int whole_round(const char *path, int64_t step)
{
    static const char *const file[] = { "optimizer.safetensors",
                                        "transformer/weights.safetensors" };
    vc_err err = { 0 };
    int round[2] = { 0 };
    for (int i = 0; i < 2; i++) {
        char *text, *p = vc_path_join(path, file[i]);
        size_t n;
        long long s;
        assert_ok(vc_file_read(&text, &n, p, 1 << 20, &err), &err);
        assert_int_equal(n, 4096);
        assert_int_equal(sscanf(text, "%lld %d", &s, &round[i]), 2);
        assert_int_equal(s, step);
        free(text);
        free(p);
    }
    assert_int_equal(round[0], round[1]);
    vtrain_state s;
    assert_ok(vtrain_state_read(&s, path, &err), &err);
    assert_int_equal(s.step, step);
    vtrain_state_free(&s);
    return round[0];
}

static void must_save(const char *out, int64_t step, int64_t limit)
{
    vc_err err = { 0 };
    assert_ok(save(out, step, 0, limit, &err), &err);
}

static bool exists(const char *out, const char *name)
{
    char *p = vc_path_join(out, name);
    bool yes = vc_file_exists(p);
    free(p);
    return yes;
}

/* ---- tests ---- */

static void test_prune(void **state)
{
    (void)state;
    static const struct { int64_t step, limit; const char *kept, *removed; } row[] = {
        { 100, 2, "100", "" }, { 20, 2, "20 100", "" }, { 300, 2, "100 300", "20" },
        { 200, 2, "200 300", "100" }, { 50, 2, "50 300", "200" }, { 60, 0, "50 60 300", "" },
        { 70, 1, "70", "50 60 300" },
    };
    char *out = vc_path_join(dir, "prune"), name[64];
    for (int i = 0; i < COUNT(row); i++) {
        must_save(out, row[i].step, row[i].limit);
        for (int removed = 0; removed < 2; removed++) {
            const char *s = removed ? row[i].removed : row[i].kept;
            for (char *end; *s; s = end) {
                snprintf(name, sizeof name, "checkpoint-%ld", strtol(s, &end, 10));
                if (exists(out, name) == removed)
                    fail_msg("row %d: %s", i, name);
            }
        }
    }
    free(out);
}

static void touch(const char *out, const char *name)
{
    char *p = vc_path_join(out, name);
    char *folder = vc_format("%.*s", (int)(vc_path_base(p) - p), p);
    assert_int_equal(vc_mkdirs(folder, NULL), 0);
    assert_int_equal(vc_file_write(p, "{}", 2, NULL), 0);
    free(folder);
    free(p);
}

static void test_find(void **state)
{
    (void)state;
    static const struct { const char *which; int rc; const char *found; } row[] = {
        { "latest", 0, "checkpoint-30" }, { "9", 0, "checkpoint-9" }, { "40", VC_ENOENT, NULL },
        { "50", VC_ENOENT, NULL }, { "checkpoint-9", 0, "checkpoint-9" },
        { "checkpoint-9/", 0, "checkpoint-9" }, { "checkpoint-60.tmp", VC_ENOENT, NULL },
        { "checkpoint-60.tmp/", VC_ENOENT, NULL }, { "nowhere", VC_ENOENT, NULL },
        { "", VC_ENOENT, NULL }, { "mine", 0, "mine" }, { "-9", VC_ENOENT, NULL },
        { "99999999999999999999", VC_ENOENT, NULL },
    };
    char *out = vc_path_join(dir, "find"), *path;
    vc_err err = { 0 };
    assert_int_equal(vtrain_ckpt_find(&path, out, "latest", &err), 0);     /* no such folder */
    assert_null(path);
    must_save(out, 9, 0);
    must_save(out, 30, 0);
    touch(out, "checkpoint-40/optimizer.safetensors");     /* without trainer.json */
    touch(out, "checkpoint-60.tmp/trainer.json");
    touch(out, "checkpoint-070/trainer.json");             /* vtrain writes no leading zero */
    touch(out, "checkpoint-99x/trainer.json");
    touch(out, "mine/trainer.json");
    for (int i = 0; i < COUNT(row); i++) {
        int rc = vtrain_ckpt_find(&path, out, row[i].which, &err);
        char *want = rc ? NULL : vc_path_join(out, row[i].found);
        if (rc != row[i].rc || (want && strcmp(path, want)))
            fail_msg("row %d: %d: %s", i, rc, rc ? err.text : path);
        free(want);
        free(path);
    }
    /* Remains of killed runs are removed; other files stay. */
    must_save(out, 80, 0);
    assert_false(exists(out, "checkpoint-60.tmp"));
    assert_true(exists(out, "checkpoint-070/trainer.json"));
    assert_true(exists(out, "checkpoint-40/optimizer.safetensors"));
    free(out);
}

static void test_state(void **state)
{
    (void)state;
    char *out = vc_path_join(dir, "state");
    vc_err err = { 0 };
    vtrain_state s;
    assert_int_equal(vc_mkdirs(out, NULL), 0);
    assert_int_equal(write_state(7, out, &err), 0);
    assert_ok(vtrain_state_read(&s, out, &err), &err);
    assert_true(s.step == 7 && s.micro == 4000000000u && s.seed == UINT64_MAX && s.batch == 2);
    assert_true(s.accumulation == 3 && s.ranks == 1 && s.rows == 100 && s.dropped == 11);
    assert_int_equal(s.planned, 60);
    assert_string_equal(s.family, "builtin");
    assert_string_equal(s.backend, "cpu");
    assert_string_equal(s.training_type, "lora");
    assert_int_equal(s.n_sets, 2);
    assert_string_equal(s.sets[0].path, "a.lmdb");
    assert_string_equal(s.sets[1].root, sets[1].root);
    assert_int_equal(s.sets[0].samples, 12);
    assert_string_equal(s.sets[0].plan, "ab");
    assert_null(s.sets[1].plan);
    assert_string_equal(cJSON_GetObjectItem(s.settings, "learning_rate")->valuestring, "0.0001");
    assert_true(s.epochs == 9.25 && s.micro_rows == 4);
    assert_int_equal(s.n_spans, COUNT(spans));
    assert_string_equal(s.base.path, "m/transformer");
    assert_memory_equal(&s.base.files, &base.files, sizeof base.files);
    assert_memory_equal(&s.base.weights, &base.weights, sizeof base.weights);
    for (int i = 0; i < COUNT(spans); i++) {
        assert_true(s.span[i].epoch == spans[i].epoch && s.span[i].micro == spans[i].micro);
        assert_true(s.span[i].done == spans[i].done && s.span[i].batch == spans[i].batch &&
                    s.span[i].seed == spans[i].seed && s.span[i].rest == spans[i].rest &&
                    s.span[i].visits == spans[i].visits);
        assert_int_equal(s.span[i].n_parts, 2);
        assert_memory_equal(s.span[i].part, spans[i].part, 2 * sizeof *parts);
    }
    vtrain_state_free(&s);
    vtrain_state_free(&s);
    free(out);
}

static void test_state_damaged(void **state)
{
    (void)state;
    static const struct { const char *from, *to, *says; } row[] = {
        { "\"step\":7", "\"step\":-7", "step" }, { "\"step\":7", "\"step\":\"7\"", "step" },
        { "\"micro_batch\":4000000000", "\"micro_batch\":5000000000", "micro_batch" },
        { "\"seed\":\"18446744073709551615\"", "\"seed\":\"18446744073709551616\"", "seed" },
        { "\"seed\":\"18446744073709551615\"", "\"seed\":\"-1\"", "seed" },
        { "\"seed\":\"18446744073709551615\"", "\"seed\":5", "seed" },
        { "\"train_batch_size\":2", "\"train_batch_size\":0", "train_batch_size" },
        { "\"ranks\":1", "\"rank\":1", "ranks" },
        { "\"planned_steps\":60", "\"planned_steps\":-60", "planned_steps" },
        { "\"captions_dropped\":11", "\"captions_dropped\":101", "captions_dropped" },
        { "\"samples\":12", "\"samples\":1e300", "data[0]: samples" },
        { "\"settings\":{", "\"settings\":[],\"x\":{", "settings" },
        { "\"settings\":{", "\"settings\":{\"rank\":4,", "settings: rank: expected a string" },
        { "\"micro_batch_size\":65536", "\"micro_batch_size\":65537",
          "epochs[1]: micro_batch_size" },
        { "\"micro_batch_size\":4", "\"micro_batch_size\":0", "micro_batch_size" },
        { "\"train_batch_size\":2", "\"train_batch_size\":2000000", "too large" },
        { "\"ranks\":1", "\"ranks\":5000000000000", "too large" },
        { "\"seed\":\"1\"", "\"seed\":\"x\"", "epochs[1]: seed" },
        { "\"epochs_done\":9.25", "\"epochs_done\":-1", "epochs_done" },
        { "\"epochs_done\":5.5", "\"epochs_done\":1e300", "epochs[1]: epochs_done" },
        { "\"visits\":\"18446744073709551614\"", "\"rest\":true,\"visits\":\"0\"", "rest" },
        { "\"micro_batch\":35", "\"micro_batch\":4000000001", "epochs[1]: micro_batch" },
        { "\"micro_batch\":0", "\"micro_batch\":36", "epochs[1]: micro_batch" },
        { "\"shards\":7", "\"shards\":0", "epochs[1]: data[0]: shards" },
        { "\"shards\":7", "\"shards\":3000000000", "epochs[1]: data[0]: shards" },
        { "\"root\":\"0e1", "\"root\":\"0e", "epochs[1]: data[0]: root" },
        { "\"epochs\":[", "\"epochs\":{},\"x\":[", "epochs" },
        { "\"weights\":\"", "\"weights\":\"0", "base: weights: 32 hex digits" },
        { "\"files\":\"", "\"files\":5,\"x\":\"", "base: files" },
        { "\"base\":{", "\"base\":[],\"x\":{", "base" },
        { "\"format\":1", "\"format\":2", "format" }, { "}", "", "trainer.json" },
        { "\"family\":\"builtin\"", "\"family\":null", "family" },
    };
    char *out = vc_path_join(dir, "damaged"), *path = vc_path_join(out, "trainer.json"), *text;
    size_t size;
    assert_int_equal(vc_mkdirs(out, NULL), 0);
    assert_int_equal(write_state(7, out, NULL), 0);
    assert_int_equal(vc_file_read(&text, &size, path, 1 << 20, NULL), 0);
    for (int i = 0; i < COUNT(row); i++) {
        char *at = strstr(text, row[i].from);
        vtrain_state s;
        vc_err err = { 0 };
        if (!at)
            fail_msg("\"%s\" is not in the text: %s", row[i].from, text);
        char *changed = vc_format("%.*s%s%s", (int)(at - text), text, row[i].to,
                                  at + strlen(row[i].from));
        assert_int_equal(vc_file_write(path, changed, strlen(changed), NULL), 0);
        int rc = vtrain_state_read(&s, out, &err);
        if (!rc || !strstr(err.text, row[i].says) || !strstr(err.text, "trainer.json"))
            fail_msg("row %d: %d: %s", i, rc, err.text);
        assert_null(s.settings);
        free(changed);
    }
    free(text);
    free(path);
    free(out);
}

static void test_not_committed(void **state)
{
    (void)state;
    char *out = vc_path_join(dir, "empty"), *tmp;
    vc_err err = { 0 };
    assert_int_equal(vtrain_ckpt_begin(&tmp, out, 1, &err), 0);
    assert_int_equal(vtrain_ckpt_commit(out, 1, 0, 0, &err), VC_EINVAL);
    vtrain_ckpt_abort(out, 1);
    assert_false(vc_file_exists(tmp));
    free(tmp);
    free(out);
}

/* Saves with a limit of file sizes, which acts like a full disk. The limit is set in a child, since
 * a process keeps its limits. */
static int save_limited(const char *out, int64_t step, rlim_t bytes)
{
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit lim = { bytes, bytes };
    vc_err err = { 0 };
    if (setrlimit(RLIMIT_FSIZE, &lim))
        return 99;
    int rc = save(out, step, 0, 1, &err);
    return rc == VC_EFULL && strstr(err.text, "checkpoint-20.tmp/") ? 0 : 1;
}

static void test_full_disk(void **state)
{
    (void)state;
    static const rlim_t room[] = { 0, 100, 4095 };
    char *out = vc_path_join(dir, "full"), *ten = vc_path_join(out, "checkpoint-10");
    must_save(out, 10, 0);
    for (int i = 0; i < COUNT(room); i++) {
        int status;
        pid_t child = fork();
        if (!child)
            _exit(save_limited(out, 20, room[i]));
        waitpid(child, &status, 0);
        assert_int_equal(status, 0);
        whole_round(ten, 10);
        assert_false(exists(out, "checkpoint-20"));
        assert_false(exists(out, "checkpoint-20.tmp"));
    }
    must_save(out, 20, 1);
    free(ten);
    free(out);
}

/* Saves until the process is killed; `done` is the last committed step. Steps rise and fall, so
 * that checkpoints also replace a checkpoint of the same step. */
static void save_forever(const char *out, atomic_int *done)
{
    vc_err err;
    for (int round = 1;; round++) {
        if (save(out, 100 + round % 3, round, 2, &err))
            _exit(1);
        atomic_store(done, round);
    }
}

static void test_kill(void **state)
{
    (void)state;
    atomic_int *done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    vc_draws draws = vc_draws_of(1, 2, 3, 4);
    char *out = vc_path_join(dir, "kill");
    double since = vc_seconds();
    must_save(out, 100, 0);
    uint32_t once = (uint32_t)(1e6 * (vc_seconds() - since)) + 1000;    /* disks differ */
    int committed = 0;
    /* Until enough checkpoints were committed before a kill; a wait without a commit grows. */
    for (int i = 0; i < 25 || (committed <= 5 && i < 200); i++) {
        atomic_store(done, 0);
        pid_t child = fork();
        if (!child)
            save_forever(out, done);
        usleep(vc_draw_int(&draws, once < 300000 ? 3 * once : 900000));
        kill(child, SIGKILL);
        int status;
        waitpid(child, &status, 0);
        assert_true(WIFSIGNALED(status));

        int last = atomic_load(done), best = 0;
        for (int step = 100; step < 103; step++) {
            char name[32];
            snprintf(name, sizeof name, "checkpoint-%d", step);
            char *p = vc_path_join(out, name);
            if (vc_file_exists(p)) {
                int round = whole_round(p, step);
                best = round > best ? round : best;
            }
            free(p);
        }
        assert_true(best >= last);       /* the committed step or a later one is found */
        committed += last;
        once += last ? 0 : once / 8;
        vc_remove_tree(out, NULL);
    }
    assert_true(committed > 5);
    munmap(done, 4096);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prune), cmocka_unit_test(test_find), cmocka_unit_test(test_state),
        cmocka_unit_test(test_state_damaged), cmocka_unit_test(test_not_committed),
        cmocka_unit_test(test_full_disk), cmocka_unit_test(test_kill),
    };
    return cmocka_run_group_tests(tests, toy_dir_setup, toy_dir_teardown);
}
