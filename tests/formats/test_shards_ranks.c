/* test_shards_ranks.c - one dataset written by the ranks of a job, and datasets of killed jobs. */
#include <sys/stat.h>

#include "tests/formats/shards_test.h"

enum { RANKS = 3, SAMPLES = 10 };

/* Opens a rank's writer: rank 0 closes many shards, the other ranks close theirs at the end. */
static int open_rank(vf_writer **w, const char *dir, int rank, int ranks, vc_err *err)
{
    cJSON *head = make_head(0);
    vf_writer_opts o = {
        .head = head, .shard_size = rank ? BIG : SMALL, .rank = rank, .ranks = ranks
    };
    int rc = vf_writer_open(w, dir, &o, err);
    cJSON_Delete(head);
    return rc;
}

static void open_all(vf_writer **w, const char *dir)
{
    for (int r = 0; r < RANKS; r++)
        OK(open_rank(&w[r], dir, r, RANKS, &err));
    for (int r = 0; r < RANKS; r++)
        OK(vf_writer_share(w[r], &err));
}

static int put(vf_writer *w, uint32_t i, const char *words, vc_err *err)
{
    char caption[32];
    snprintf(caption, sizeof caption, "%s %u", words, i);
    return make_sample(w, i, caption, 3, 16, 16, err);
}

/* Rank 0 puts the text that all samples need; sample i is put by rank i modulo `ranks`. */
static void put_all(vf_writer **w, int ranks, uint32_t n, const char *words)
{
    OK(put(w[0], 0, words, &err));
    OK(vf_writer_flush(w[0], &err));
    for (int r = 1; r < ranks; r++)
        OK(vf_writer_catch_up(w[r], vf_writer_shards(w[0]), &err));
    for (uint32_t i = 1; i < n; i++)
        OK(put(w[i % (uint32_t)ranks], i, words, &err));
}

static void finish_all(vf_writer **w, uint32_t n, uint32_t drops)
{
    int shards = 0;
    uint32_t dropped;
    for (int r = RANKS - 1; r > 0; r--) {
        OK(vf_writer_finish(w[r], &err));
        shards = shards > vf_writer_shards(w[r]) ? shards : vf_writer_shards(w[r]);
    }
    OK(vf_writer_catch_up(w[0], shards, &err));
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(vf_writer_keep_sample(w[0], i, 0), 0);
    OK(vf_writer_drop_unseen(w[0], &dropped, &err));
    assert_int_equal(dropped, drops);
    OK(vf_writer_finish(w[0], &err));
    for (int r = 0; r < RANKS; r++)
        vf_writer_close(w[r]);
}

static void root_of(const char *dir, char hex[VF_KEY_HEX])
{
    vf_dataset *d;
    OK(vf_dataset_open(&d, dir, false, &err));
    vf_dataset_root(d, hex);
    vf_dataset_close(d);
}

/* The dataset equals the one that a single writer makes of the same samples. */
static void assert_like_one(const char *dir, uint32_t n, const char *words)
{
    char *alone = vc_format("%s/alone", dir), a[VF_KEY_HEX], b[VF_KEY_HEX];
    vf_writer *w;
    OK(open_rank(&w, alone, 0, 1, &err));
    put_all(&w, 1, n, words);
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
    root_of(alone, a);
    root_of(dir, b);
    assert_string_equal(a, b);
    assert_whole(dir);
    OK(vc_remove_tree(alone, &err));
    free(alone);
}

static bool has_file(const char *dir, const char *name)
{
    char *path = vc_path_join(dir, name);
    bool there = vc_file_exists(path);
    free(path);
    return there;
}

static void like_one_writer(void **state)
{
    vf_writer *w[RANKS];
    open_all(w, *state);
    put_all(w, RANKS, SAMPLES, "first");
    assert_true(has_file(*state, "shard-open-00001.lmdb"));
    finish_all(w, SAMPLES, 0);
    assert_false(has_file(*state, "shard-open-00001.lmdb"));
    assert_false(has_file(*state, "manifest.lock"));
    assert_int_equal(count_samples(*state), SAMPLES);
    assert_like_one(*state, SAMPLES, "first");

    /* A second run with other captions and fewer samples: its records replace the older ones. */
    open_all(w, *state);
    for (int r = 0; r < RANKS; r++)
        assert_true(vf_writer_has_latent(w[r], make_latent_key(SAMPLES - 1, 3, 16, 16)));
    put_all(w, RANKS, SAMPLES - 2, "second");
    finish_all(w, SAMPLES - 2, 2);
    assert_like_one(*state, SAMPLES - 2, "second");
}

/* A job ends abruptly: every rank has committed samples, closed shards, and uncommitted samples. */
static void die(const char *dir)
{
    vf_writer *w[RANKS];
    open_all(w, dir);
    put_all(w, RANKS, SAMPLES / 2, "first");
    for (int r = 0; r < RANKS; r++)
        OK(vf_writer_commit(w[r], &err));
    for (uint32_t i = SAMPLES / 2; i < SAMPLES; i++)
        OK(put(w[i % RANKS], i, "first", &err));
    for (int r = RANKS - 1; r >= 0; r--)
        vf_writer_close(w[r]);
}

static void one_writer_continues(void **state)
{
    vf_writer *w;
    die(*state);
    OK(open_rank(&w, *state, 0, 1, &err));
    for (uint32_t i = 0; i < SAMPLES / 2; i++)
        assert_true(vf_writer_has_latent(w, make_latent_key(i, 3, 16, 16)));
    put_all(&w, 1, SAMPLES, "first");
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
    assert_like_one(*state, SAMPLES, "first");
}

static void other_ranks_continue(void **state)
{
    vf_writer *w[RANKS];
    die(*state);
    die(*state);
    open_all(w, *state);
    for (int r = 0; r < RANKS; r++)
        for (uint32_t i = 0; i < SAMPLES / 2; i++)
            assert_true(vf_writer_has_latent(w[r], make_latent_key(i, 3, 16, 16)));
    put_all(w, RANKS, SAMPLES, "first");
    finish_all(w, SAMPLES, 0);
    assert_like_one(*state, SAMPLES, "first");
}

static void ranks_continue_after_one_writer(void **state)
{
    vf_writer *w[RANKS];
    OK(open_rank(&w[0], *state, 0, 1, &err));
    put_all(w, 1, SAMPLES / 2, "first");
    OK(vf_writer_commit(w[0], &err));
    vf_writer_close(w[0]);
    open_all(w, *state);
    assert_true(vf_writer_has_latent(w[2], make_latent_key(3, 3, 16, 16)));
    put_all(w, RANKS, SAMPLES, "first");
    finish_all(w, SAMPLES, 0);
    assert_like_one(*state, SAMPLES, "first");
}

/* A job was killed after it created the empty file of the next shard's number, and before it
 * renamed the shard to this file. */
static void unused_number(void **state)
{
    vf_writer *w;
    int shards;
    bool complete;
    die(*state);
    OK(vf_dataset_progress(*state, &shards, &complete, &err));
    for (int text = 0; text < 2; text++)
        for (int i = 0; i < shards; i++) {
            char *path = vc_format("%s/%s-%05d.lmdb", (char *)*state, text ? "text" : "shard", i);
            if (!vc_file_exists(path)) {
                fclose(fopen(path, "w"));
                i = shards;
            }
            free(path);
        }
    OK(open_rank(&w, *state, 0, 1, &err));
    put_all(&w, 1, SAMPLES, "first");
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
    assert_like_one(*state, SAMPLES, "first");
}

static void lock_of_a_job(void **state)
{
    vf_writer *w[RANKS], *other;
    OK(open_rank(&w[0], *state, 0, 1, &err));
    vf_writer_close(w[0]);
    FAILS(VC_EFAIL, "does not reach this process", open_rank(&other, *state, 1, RANKS, &err));
    open_all(w, *state);
    FAILS(VC_EBUSY, "another process is writing", open_rank(&other, *state, 0, 1, &err));
    vf_writer_close(w[0]);                       /* rank 0 has ended, rank 2 still writes */
    vf_writer_close(w[1]);
    FAILS(VC_EBUSY, "another process is writing", open_rank(&other, *state, 0, RANKS, &err));
    vf_writer_close(w[2]);
    OK(open_rank(&other, *state, 0, 1, &err));
    vf_writer_close(other);
}

static void overwrite_removes_all(void **state)
{
    vf_writer *w;
    die(*state);
    assert_true(has_file(*state, "shard-open-00002.lmdb"));
    OK(open_writer(&w, *state, 5, false, true, &err));
    assert_false(has_file(*state, "shard-open-00002.lmdb"));
    assert_false(vf_writer_has_latent(w, make_latent_key(1, 3, 16, 16)));
    vf_writer_close(w);
}

/* The error about a damaged shard that a rank had open names the file and the remedy. */
static void reported_damage(void **state)
{
    vf_writer *w;
    die(*state);
    char *path = vc_path_join(*state, "shard-open-00001.lmdb");
    FILE *f = fopen(path, "r+");
    for (int i = 0; i < 20000; i++)
        fputc(i, f);
    fclose(f);
    FAILS(VC_EFORMAT, "remove that file and start again", open_rank(&w, *state, 0, 1, &err));
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(like_one_writer),
        FOLDER_TEST(one_writer_continues),
        FOLDER_TEST(other_ranks_continue),
        FOLDER_TEST(ranks_continue_after_one_writer),
        FOLDER_TEST(unused_number),
        FOLDER_TEST(lock_of_a_job),
        FOLDER_TEST(overwrite_removes_all),
        FOLDER_TEST(reported_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
