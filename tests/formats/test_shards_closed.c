/* test_shards_closed.c - shards that are closed by time, readers of a dataset that is being
 * written, and the bytes of closed shards. */
#include "formats/dataset/parts.h"
#include "formats/dataset/writer.h"
#include "tests/formats/shards_test.h"
#include "tests/lib/heap.h"
#include "tests/lib/ok.h"

enum { SAMPLES = 5 };

/* Opens a writer that closes a shard, or commits, after each sample if these seconds are tiny, and
 * only at the end if they are huge. */
static vf_writer *open_timed(const char *dir, double shard, double commit)
{
    vf_writer *w;
    cJSON *head = make_head(1);
    vf_writer_opts o = { .head = head, .shard_size = BIG, .shard_seconds = shard,
                         .commit_seconds = commit };
    OK(vf_writer_open(&w, dir, &o, &err));
    cJSON_Delete(head);
    return w;
}

static void put(vf_writer *w, uint32_t number, const char *caption)
{
    OK(make_sample(w, number, caption, 1, 4, 4, &err));
}

/* Returns the number of shards with samples among the first n shards. */
static int of_samples(const char *dir, int n)
{
    vf_dataset *d;
    int k = 0;
    OK(vf_dataset_open_first(&d, dir, n, &err));
    const cJSON *o, *list = cJSON_GetObjectItem(vf_dataset_manifest(d), "shards");
    cJSON_ArrayForEach(o, list)
        k += n-- > 0 && !strncmp(cJSON_GetObjectItem(o, "file")->valuestring, "shard-", 6);
    vf_dataset_close(d);
    return k;
}

static void closed_by_time(void **state)
{
    static const struct { double seconds; int shards; } cases[] = {
        { 1e-9, SAMPLES }, { 1e9, 1 }, { 0, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *dir = vc_format("%s/%zu", (char *)*state, i);
        vf_writer *w = open_timed(dir, cases[i].seconds, 0);
        int n;
        bool complete;
        for (uint32_t k = 0; k < SAMPLES; k++)
            put(w, k, "a cat");
        OK(vf_dataset_progress(dir, &n, &complete, &err));
        assert_false(complete);
        assert_int_equal(n > 0, cases[i].shards == SAMPLES);
        OK(vf_writer_finish(w, &err));
        vf_writer_close(w);
        OK(vf_dataset_progress(dir, &n, &complete, &err));
        assert_true(complete);
        assert_int_equal(of_samples(dir, n), cases[i].shards);
        assert_int_equal(count_samples(dir), SAMPLES);
        assert_whole(dir);
        free(dir);
    }
}

/* A writer that is closed unfinished, as by a kill, keeps the samples of its last commit. */
static void committed_by_time(void **state)
{
    static const struct { double seconds; bool kept; } cases[] = {
        { 1e-9, true }, { 1e9, false }, { 0, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *dir = vc_format("%s/%zu", (char *)*state, i);
        vf_writer *w = open_timed(dir, 0, cases[i].seconds);
        put(w, 0, "a cat");
        vf_writer_close(w);
        w = open_timed(dir, 0, 0);
        assert_int_equal(vf_writer_sample(w, 0, 0) != NULL, cases[i].kept);
        put(w, 0, "a cat");
        OK(vf_writer_finish(w, &err));
        vf_writer_close(w);
        assert_int_equal(count_samples(dir), 1);
        assert_whole(dir);
        free(dir);
    }
}

/* A shard's index is made from the samples since the shard before, however many there are, and the
 * manifest's sums from changes: closing costs the same at the first shard and at the last. */
static void closing_is_local(void **state)
{
    enum { CLOSED = 5, EACH = 40 };
    vf_writer *w;
    OK(open_writer(&w, *state, 0, false, false, &err));
    for (uint32_t i = 0; i < CLOSED * EACH; i++) {
        OK(make_sample(w, i, "caption", 1, 8, 4, &err));
        assert_between(w->noted_to - w->noted_from, 1, EACH);
        if (i % EACH == EACH - 1)
            OK(vf_writer_flush(w, &err));
    }
    OK(make_sample(w, 3, "other caption", 1, 4, 4, &err));       /* a sample of the first shard */
    assert_int_equal(vf_writer_count(w), CLOSED * EACH);
    assert_int_equal(w->noted_to - w->noted_from, 1);
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
    assert_int_equal(count_samples(*state), CLOSED * EACH);
}

/* Counts the maps of shards whose path has `part` that have pages in memory. */
static int touched(const char *part)
{
    char line[512];
    bool wanted = false;
    int n = 0;
    unsigned long size, from, to;
    FILE *f = fopen("/proc/self/smaps", "r");
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            wanted = strstr(line, part) != NULL;
        if (sscanf(line, "Rss: %lu kB", &size) == 1)
            n += wanted && size;
    }
    fclose(f);
    return n;
}

/* The first look-up of a sample's text reads the text shard that was closed with the sample's
 * shard, and not every other one. */
static void text_is_beside_sample(void **state)
{
    enum { CLOSED = 20 };
    vf_writer *w;
    vf_dataset *d;
    vf_safetensors *st;
    char caption[32];
    OK(open_writer(&w, *state, 0, false, false, &err));
    for (uint32_t i = 0; i < CLOSED; i++) {
        snprintf(caption, sizeof caption, "caption %u", i);
        OK(make_sample(w, i, caption, 1, 8, 4, &err));
        OK(vf_writer_flush(w, &err));
    }
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
    OK(vf_dataset_open(&d, *state, false, &err));
    assert_int_equal(touched("/text-"), 0);
    for (uint32_t i = CLOSED - 1, n = 1; i >= CLOSED / 2; i -= 3, n++) {
        snprintf(caption, sizeof caption, "caption %u", i);
        OK(vf_dataset_text_of(d, i, make_text_key(caption), true, &st, &err));
        vf_safetensors_close(st);
        assert_int_equal(touched("/text-"), n);
    }
    vf_dataset_close(d);
}

/* A thumbnail that a sample lacks is looked for in the shards that have records of the sample, and
 * not in every other one. */
static void missing_thumb_is_beside_sample(void **state)
{
    enum { CLOSED = 20 };
    vf_writer *w;
    vf_dataset *d;
    const void *jpeg;
    size_t n;
    OK(open_writer(&w, *state, 0, false, false, &err));
    for (uint32_t i = 0; i < CLOSED; i++) {
        cJSON *record = make_record(i, 1, "caption", 1, 8, 4);
        OK(make_sample(w, i, "caption", 1, 8, 4, &err));
        OK(vf_writer_put_sample(w, i, 1, record, NULL, 0, &err));
        OK(vf_writer_flush(w, &err));
        cJSON_Delete(record);
    }
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
    OK(vf_dataset_open(&d, *state, false, &err));
    assert_int_equal(touched("/shard-"), 0);
    OK(vf_dataset_thumb(d, 2 * CLOSED - 2, &jpeg, &n, &err));
    assert_int_equal(vf_dataset_thumb(d, 2 * CLOSED - 1, &jpeg, &n, NULL), VC_ENOENT);
    assert_int_equal(touched("/shard-"), 1);
    vf_dataset_close(d);
}

/* Returns the bytes that a writer of n samples, each with a latent of its own, holds once its shard
 * is closed. */
static size_t writer_bytes(const char *path, uint32_t n)
{
    vf_writer *w;
    const size_t before = heap_bytes();
    OK(open_writer(&w, path, 0, false, true, &err));
    for (uint32_t i = 0; i < n; i++)
        OK(make_sample(w, i, "caption", 1, 1, 1, &err));
    OK(vf_writer_flush(w, &err));
    const size_t bytes = heap_bytes() - before;
    vf_writer_close(w);
    return bytes;
}

/* The tables of a writer take 88 bytes for a sample, 16 to find it by number and by id, and 48 for
 * its latent's key, where their sizes are powers of two. */
static void bytes_a_sample(void **state)
{
    enum { FEW = 1 << 10, MANY = 1 << 13 };
    const size_t few = writer_bytes(*state, FEW), many = writer_bytes(*state, MANY);
    assert_between((many - few) / (MANY - FEW), 0, 160);
}

typedef struct seen {
    int shards;
    uint32_t samples;
    char root[VF_KEY_HEX];
} seen;

static seen look(const char *dir, int shards)
{
    seen s;
    vf_dataset *d;
    OK(vf_dataset_open_first(&d, dir, shards, &err));
    s.shards = vf_dataset_shards(d);
    s.samples = vf_dataset_count(d);
    vf_dataset_root(d, s.root);
    for (uint32_t i = 0; i < s.samples; i++) {       /* every listed sample can be read */
        cJSON *record;
        vf_safetensors *st;
        OK(vf_dataset_sample(d, i, &record, &err));
        const vf_entry *e = vf_dataset_entry(d, i);
        OK(vf_dataset_latent_of(d, i, e->latent, true, &st, &err));
        vf_safetensors_close(st);
        cJSON_Delete(record);
    }
    vf_dataset_close(d);
    return s;
}

/* A reader that saw n shards during the writing sees the same samples in the first n shards later,
 * even if a sample changed. */
static void seen_again(void **state)
{
    const char *dir = *state;
    seen before[SAMPLES + 1];
    int n, k = 0;
    bool complete;
    FAILS(VC_ENOENT, "no latent dataset", vf_dataset_progress("/nothing", &n, &complete, &err));
    vf_writer *w = open_timed(dir, 1e-9, 0);
    for (uint32_t i = 0; i <= SAMPLES; i++) {
        put(w, i % SAMPLES, i < SAMPLES ? "a cat" : "the cat again");
        OK(vf_dataset_progress(dir, &n, &complete, &err));
        assert_false(complete);
        before[k++] = look(dir, n);
        assert_int_equal(before[i].samples, i < SAMPLES ? i + 1 : SAMPLES);
    }
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
    for (int i = 0; i < k; i++) {
        seen now = look(dir, before[i].shards);
        assert_int_equal(now.samples, before[i].samples);
        assert_string_equal(now.root, before[i].root);
        if (i)
            assert_string_not_equal(now.root, before[i - 1].root);
    }
    vf_dataset *d;
    char root[VF_KEY_HEX];
    OK(vf_dataset_open(&d, dir, false, &err));
    assert_string_equal(vf_dataset_root(d, root),
                        cJSON_GetObjectItem(vf_dataset_manifest(d), "root")->valuestring);
    n = vf_dataset_shards(d);
    vf_dataset_close(d);
    FAILS(VC_ENOENT, "were there before", vf_dataset_open_first(&d, dir, n + 1, &err));
    assert_null(d);
}

/* ---- the bytes of closed shards ---- */

static vf_writer *open_sized(const char *dir, int64_t size)
{
    vf_writer *w;
    cJSON *head = make_head(1);
    vf_writer_opts o = { .head = head, .shard_size = size };
    OK(vf_writer_open(&w, dir, &o, &err));
    cJSON_Delete(head);
    return w;
}

static void put_some(vf_writer *w, uint32_t i)
{
    char caption[32];
    snprintf(caption, sizeof caption, "caption %u", (unsigned)(i * 5 % 23));
    if (i % 3)
        OK(make_sample(w, i, caption, 3, 16, 12, &err));
    else
        OK(make_sample(w, i, caption, 1, 8, 4, &err));
}

static void finish(vf_writer *w)
{
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
}

/* Two datasets have the same shards; returns their number. */
static int same_shards(const char *a, const char *b)
{
    vf_manifest x, y;
    OK(vf_manifest_read(&x, a, &err));
    OK(vf_manifest_read(&y, b, &err));
    const int n = x.n_shards;
    assert_int_equal(n, y.n_shards);
    for (int i = 0; i < n; i++) {
        char *path = vc_path_join(b, y.shard[i].file);
        vf_key hash;
        OK(vf_hash_file(&hash, path, NULL, &err));
        assert_memory_equal(&hash, &y.shard[i].hash, sizeof hash);
        assert_string_equal(x.shard[i].file, y.shard[i].file);
        assert_memory_equal(&hash, &x.shard[i].hash, sizeof hash);
        free(path);
    }
    vf_manifest_free(&x);
    vf_manifest_free(&y);
    return n;
}

/* One shard's bytes do not depend on the order of puts, nor on commits. */
static void bytes_of_any_order(void **state)
{
    enum { N = 40 };
    char *a = vc_path_join(*state, "a"), *b = vc_path_join(*state, "b");
    vf_writer *w = open_sized(a, BIG);
    for (uint32_t i = 0; i < N; i++)
        put_some(w, i);
    finish(w);
    w = open_sized(b, BIG);
    for (uint32_t i = N; i-- > 0;) {
        put_some(w, i);
        if (i % 3)
            OK(vf_writer_commit(w, &err));
    }
    finish(w);
    assert_int_equal(same_shards(a, b), 2);
    assert_whole(b);
    free(a);
    free(b);
}

/* A writer that ends at any sample, with what it has committed, and starts again makes the shards
 * of one that does not. */
static void bytes_after_restarts(void **state)
{
    enum { N = 40 };
    static const int64_t sizes[] = { SMALL, 4096 };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        char *a = vc_format("%s/a%zu", (char *)*state, s), *b = vc_format("%s/b%zu",
                                                                         (char *)*state, s);
        vf_writer *w = open_sized(a, sizes[s]);
        for (uint32_t i = 0; i < N; i++)
            put_some(w, i);
        finish(w);
        for (uint32_t end = 1; end < N; end += 3 + end % 6) {
            w = open_sized(b, sizes[s]);
            for (uint32_t i = 0; i < end; i++)
                put_some(w, i);
            if (end % 2)
                OK(vf_writer_commit(w, &err));
            vf_writer_close(w);
        }
        w = open_sized(b, sizes[s]);
        for (uint32_t i = 0; i < N; i++)
            put_some(w, i);
        finish(w);
        assert_true(same_shards(a, b) > 4);
        free(a);
        free(b);
    }
}

static void put_value(vf_writer *w, uint32_t number)
{
    size_t n;
    uint8_t *st = make_latent(number, 3, 16, 12, &n);
    OK(vf_writer_put_latent(w, make_latent_key(number, 3, 16, 12), st, n, &err));
    free(st);
}

/* A latent's place in the file. */
static const uint8_t *value_of(const vf_lmdb *m, const vf_tree *t, uint32_t number)
{
    char hex[VF_KEY_HEX];
    vf_bytes value;
    vf_key_hex(hex, make_latent_key(number, 3, 16, 12));
    OK(vf_lmdb_get(m, t, hex, strlen(hex), &value, &err));
    return value.data;
}

/* The latents of a closed shard lie in the order of its samples, each with those of its conditions
 * behind it, and at the end those of no sample, in the order of their keys. */
static void latents_beside_sample(void **state)
{
    enum { N = 8, CONDITION = 100, LONELY = 200, MORE = 6 };
    char hex[VF_KEY_HEX];
    vf_writer *w = open_sized(*state, BIG);
    vf_key last = { { 0 } };
    for (uint32_t i = N; i-- > 0;) {
        put_value(w, LONELY + i % MORE);
        put_value(w, CONDITION + i);
        OK(make_sample(w, i, "a cat", 3, 16, 12, &err));
        cJSON *record = make_record(i, 0, "a cat", 3, 16, 12);
        vf_key_hex(hex, make_latent_key(CONDITION + i, 3, 16, 12));
        cJSON_AddStringToObject(cJSON_AddObjectToObject(record, "conditions"), "image", hex);
        OK(vf_writer_put_sample(w, i, 0, record, "x", 1, &err));
        cJSON_Delete(record);
    }
    finish(w);

    char *path = vc_path_join(*state, "shard-00000.lmdb");
    vf_lmdb *m;
    vf_tree t;
    const uint8_t *at = NULL, *next;
    OK(vf_lmdb_open(&m, path, &err));
    OK(vf_shard_tree(m, "latent", &t, &err));
    for (uint32_t i = 0; i < 2 * N; i++, at = next) {
        next = value_of(m, &t, i / 2 + (i % 2 ? CONDITION : 0));
        assert_true(next > at);
    }
    for (int k = 0; k < MORE; k++, at = next) {          /* the lonely ones, by their keys */
        vf_key least = { { 0 } };
        uint32_t number = 0;
        for (uint32_t i = 0; i < MORE; i++) {
            const vf_key key = make_latent_key(LONELY + i, 3, 16, 12);
            if (memcmp(&key, &last, sizeof key) > 0 &&
                (!number || memcmp(&key, &least, sizeof key) < 0)) {
                least = key;
                number = LONELY + i;
            }
        }
        last = least;
        next = value_of(m, &t, number);
        assert_true(next > at);
    }
    vf_lmdb_close(m);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(closed_by_time), FOLDER_TEST(committed_by_time),
        FOLDER_TEST(closing_is_local), FOLDER_TEST(bytes_a_sample),
        FOLDER_TEST(text_is_beside_sample), FOLDER_TEST(missing_thumb_is_beside_sample),
        FOLDER_TEST(seen_again), FOLDER_TEST(bytes_of_any_order),
        FOLDER_TEST(bytes_after_restarts), FOLDER_TEST(latents_beside_sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
