/* test_shards.c - the dataset written and read: values, restarts, changes, refusals. */
#include <pthread.h>

#include "formats/lmdb/lmdb_read.h"
#include "tests/formats/shards_test.h"

/* ---- written and read ---- */

static void read_sample(const vf_dataset *d, uint32_t i)
{
    const vf_entry *e = vf_dataset_entry(d, i);
    const char *latent, *text;
    const cJSON *captions;
    const void *jpeg;
    char hex[VF_KEY_HEX];
    size_t n;
    cJSON *record;
    vf_safetensors *st;
    vf_view mean;
    vf_key k;
    assert_int_equal(e->number, i);
    assert_int_equal(e->f, i % 3 ? 3 : 1);
    assert_int_equal(!!(e->flags & VF_ENTRY_VIDEO), i % 3 != 0);
    assert_int_equal(e->frames, i % 3 ? 3 : 1);
    assert_int_equal(e->captions, 1);
    assert_true(e->weight == 1);
    OK(vf_dataset_sample(d, i, &record, &err));
    OK(vf_json_str(record, "latent_key", &latent, &err));
    assert_string_equal(latent, vf_key_hex(hex, e->latent));
    OK(vf_json_arr(record, "captions", &captions, &err));
    text = cJSON_GetObjectItem(captions->child, "keys")->child->valuestring;
    assert_true(vf_key_parse(&k, text));
    cJSON_Delete(record);

    OK(vf_dataset_latent_of(d, i, e->latent, true, &st, &err));
    OK(vf_safetensors_get(st, "mean", &mean, &err));
    assert_int_equal(mean.dim[1], e->f);
    assert_int_equal(mean.dim[3], e->w);
    vf_safetensors_close(st);
    OK(vf_dataset_text(d, k, true, &st, &err));
    vf_safetensors_close(st);
    OK(vf_dataset_thumb(d, i, &jpeg, &n, &err));
    assert_int_equal(n, 4);
    vf_dataset_prefetch(d, i, e->latent);
}

static void read_back(const char *dir, uint32_t n, int least_shards)
{
    vf_dataset *d;
    cJSON *prompt;
    vf_safetensors *st;
    OK(vf_dataset_open(&d, dir, false, &err));
    assert_int_equal(vf_dataset_count(d), n);
    assert_true(cJSON_GetArraySize(cJSON_GetObjectItem(vf_dataset_manifest(d), "shards")) >=
                least_shards);
    for (uint32_t i = 0; i < n; i++)
        read_sample(d, i);
    assert_int_equal(vf_dataset_validations(d), 1);
    OK(vf_dataset_validation(d, 0, &prompt, &err));
    assert_string_equal(cJSON_GetObjectItem(prompt, "prompt")->valuestring, "a validation prompt");
    cJSON_Delete(prompt);
    FAILS(VC_ENOENT, "no latent", vf_dataset_latent(d, vf_hash("x", 1), true, &st, &err));
    assert_null(st);
    vf_dataset_close(d);
    assert_whole(dir);
}

static void one_shard(void **state)
{
    OK(make_dataset(*state, 20, BIG, &err));
    read_back(*state, 20, 2);
}

static void many_shards(void **state)
{
    OK(make_dataset(*state, 200, SMALL, &err));
    read_back(*state, 200, 6);
}

static void no_samples(void **state)
{
    vf_writer *w;
    OK(open_writer(&w, *state, 0, false, false, &err));
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
    assert_int_equal(count_samples(*state), 0);
}

static void finds_samples(void **state)
{
    static const struct { const char *key; int rc; uint32_t at;
    } cases[] = {
        { "3", 0, 3 },
        { "3/0", 0, 3 },
        { "000000000003/000", 0, 3 },
        { "5", VC_ENOENT, 0 },
        { "3/1", VC_ENOENT, 0 },
        { "x", VC_EINVAL, 0 },
        { "", VC_EINVAL, 0 },
        { "3/", VC_EINVAL, 0 },
        { "-1", VC_EINVAL, 0 },
        { "99999999999999999999", VC_EINVAL, 0 },
        { "3/1000", VC_EINVAL, 0 },
    };
    vf_dataset *d;
    OK(make_dataset(*state, 5, BIG, &err));
    OK(vf_dataset_open(&d, *state, false, &err));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t at = 0;
        assert_int_equal(vf_dataset_find(d, cases[i].key, &at, NULL), cases[i].rc);
        assert_int_equal(at, cases[i].at);
    }
    vf_dataset_close(d);
}

/* Several threads read through one handle; ThreadSanitizer reports races. */
static void *read_all(void *d)
{
    for (uint32_t i = 0; i < vf_dataset_count(d); i++)
        read_sample(d, i);
    return NULL;
}

static void many_readers(void **state)
{
    pthread_t thread[4];
    vf_dataset *d;
    OK(make_dataset(*state, 60, SMALL, &err));
    OK(vf_dataset_open(&d, *state, false, &err));
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, read_all, d), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    vf_dataset_close(d);
}

/* ---- equal inputs give equal bytes ---- */

/* Returns the hash of all keys and values of a shard's sub-databases, in order. */
static vf_key contents(const char *dir, const char *file, const char *const *dbs)
{
    char *path = vc_path_join(dir, file);
    vf_key sum = { { 0 } };
    vf_lmdb *m;
    OK(vf_lmdb_open(&m, path, &err));
    for (; *dbs; dbs++) {
        vf_tree t;
        vf_lmdb_cursor c;
        vf_bytes key, value;
        OK(vf_lmdb_tree(m, *dbs, &t, &err));
        vf_lmdb_start(&c, m, &t);
        while (vf_lmdb_next(&c, &key, &value, NULL) > 0) {
            vf_key k = vf_hash2(key.data, key.size, value.data, value.size);
            sum = vf_hash2(sum.b, 16, k.b, 16);
        }
    }
    vf_lmdb_close(m);
    free(path);
    return sum;
}

static void same_bytes(void **state)
{
    static const char *const shard[] = { "sample", "latent", "thumb", "index", NULL };
    static const char *const text[] = { "text", "validation", NULL };
    char *a = vc_path_join(*state, "a"), *b = vc_path_join(*state, "b");
    OK(make_dataset(a, 30, BIG, &err));
    OK(make_dataset(b, 30, BIG, &err));
    vf_key x = contents(a, "shard-00000.lmdb", shard), y = contents(b, "shard-00000.lmdb", shard);
    assert_memory_equal(&x, &y, sizeof x);
    x = contents(a, "text-00000.lmdb", text);
    y = contents(b, "text-00000.lmdb", text);
    assert_memory_equal(&x, &y, sizeof x);
    free(a);
    free(b);
}

static char *root_of(const char *dir)
{
    vf_dataset *d;
    OK(vf_dataset_open(&d, dir, false, &err));
    char *root = strdup(cJSON_GetObjectItem(vf_dataset_manifest(d), "root")->valuestring);
    vf_dataset_close(d);
    return root;
}

static void root_of_any_order(void **state)
{
    char *a = vc_path_join(*state, "a"), *b = vc_path_join(*state, "b");
    vf_writer *w;
    OK(make_dataset(a, 8, SMALL, &err));
    OK(open_writer(&w, b, 0, false, false, &err));
    for (uint32_t i = 8; i-- > 0;) {
        char caption[32];
        snprintf(caption, sizeof caption, "caption %u", i % 7);
        if (i % 3)
            OK(make_sample(w, i, caption, 3, 4, 6, &err));
        else
            OK(make_sample(w, i, caption, 1, 8, 4, &err));
    }
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
    char *x = root_of(a), *y = root_of(b);
    assert_string_equal(x, y);
    free(x);
    free(y);
    free(a);
    free(b);
}

/* ---- continued datasets ---- */

static void nothing_to_do(void **state)
{
    char *path = vc_path_join(*state, "manifest.json"), *before, *after;
    size_t n;
    OK(make_dataset(*state, 50, SMALL, &err));
    OK(vc_file_read(&before, &n, path, 1 << 20, &err));
    OK(make_dataset(*state, 50, SMALL, &err));
    OK(vc_file_read(&after, &n, path, 1 << 20, &err));
    assert_string_equal(before, after);
    free(before);
    free(after);
    free(path);
}

static void changed_sample(void **state)
{
    vf_writer *w;
    vf_dataset *d;
    cJSON *record;
    const void *jpeg;
    size_t n;
    OK(make_dataset(*state, 10, BIG, &err));
    OK(open_writer(&w, *state, 0, true, false, &err));
    assert_int_equal(vf_writer_next_number(w), 10);
    assert_non_null(strstr(vf_writer_sample(w, 4, 0), "caption 4"));
    assert_null(vf_writer_sample(w, 10, 0));
    assert_null(vf_writer_sample(w, 4, 1));
    record = make_record(4, 0, "caption 5", 3, 4, 6);
    OK(vf_writer_put_sample(w, 4, 0, record, NULL, 0, &err));
    cJSON_Delete(record);
    assert_non_null(strstr(vf_writer_sample(w, 4, 0), "caption 5"));
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);

    OK(vf_dataset_open(&d, *state, false, &err));
    assert_int_equal(vf_dataset_count(d), 10);
    OK(vf_dataset_sample(d, 4, &record, &err));
    assert_string_equal(
        cJSON_GetObjectItem(cJSON_GetObjectItem(record, "captions")->child, "text")->valuestring,
        "caption 5");
    cJSON_Delete(record);
    OK(vf_dataset_thumb(d, 4, &jpeg, &n, &err));     /* the older record's thumbnail */
    vf_dataset_close(d);
    assert_whole(*state);
}

static void dropped_samples(void **state)
{
    vf_writer *w;
    uint32_t dropped, number;
    OK(make_dataset(*state, 10, BIG, &err));
    OK(open_writer(&w, *state, 0, false, false, &err));
    assert_int_equal(vf_writer_keep_sample(w, 2, 0), 0);
    assert_int_equal(vf_writer_keep_sample(w, 77, 0), VC_ENOENT);
    OK(make_sample(w, 3, "caption 3", 1, 8, 4, &err));
    OK(vf_writer_drop_unseen(w, &dropped, &err));
    assert_int_equal(dropped, 8);
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
    assert_int_equal(count_samples(*state), 2);
    assert_whole(*state);

    /* Numbers are never assigned twice: a row that was dropped and returns gets a new number. */
    OK(open_writer(&w, *state, 0, true, false, &err));
    assert_int_equal(vf_writer_next_number(w), 10);
    assert_int_equal(vf_writer_number_of(w, 0x123456789abcull * 3, &number), 0);
    assert_int_equal(number, 2);
    assert_int_equal(vf_writer_number_of(w, 0x123456789abcull * 9, &number), VC_ENOENT);
    OK(vf_writer_drop_unseen(w, &dropped, &err));
    assert_int_equal(dropped, 0);                    /* --append drops no samples */
    OK(make_sample(w, 8, "caption 1", 3, 4, 6, &err));
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
    assert_int_equal(count_samples(*state), 3);
    assert_whole(*state);
}

static void other_settings(void **state)
{
    char *mine = vc_path_join(*state, "notes.txt");
    vf_writer *w;
    OK(make_dataset(*state, 5, BIG, &err));
    OK(vc_file_write(mine, "mine", 4, &err));
    FAILS(VC_EMISMATCH, "sampling.seed: 0 there, 1 now",
          open_writer(&w, *state, 1, false, false, &err));
    FAILS(VC_EMISMATCH, "--overwrite", open_writer(&w, *state, 1, false, false, &err));
    assert_null(w);
    assert_int_equal(count_samples(*state), 5);
    OK(open_writer(&w, *state, 1, false, true, &err));
    OK(make_sample(w, 0, "anew", 1, 8, 4, &err));
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
    assert_int_equal(count_samples(*state), 1);
    assert_whole(*state);
    assert_true(vc_file_exists(mine));
    free(mine);
}

/* With `change` a writer continues under another head: records are put again, old values stay. */
static void changed_head(void **state)
{
    vf_writer *w;
    cJSON *head = make_head(1);
    uint32_t dropped;
    vf_writer_opts o = { .head = head, .shard_size = BIG, .append = true, .change = true };
    OK(make_dataset(*state, 5, BIG, &err));
    FAILS(VC_EMISMATCH, "sampling.seed", vf_writer_open(&w, *state, &o, &err));
    o.append = false;
    OK(vf_writer_open(&w, *state, &o, &err));
    OK(make_sample(w, 0, "anew", 1, 8, 4, &err));
    OK(vf_writer_drop_unseen(w, &dropped, &err));
    assert_int_equal(dropped, 4);
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
    assert_int_equal(count_samples(*state), 1);
    assert_whole(*state);
    OK(open_writer(&w, *state, 1, false, false, &err));      /* the manifest has the new head */
    vf_writer_close(w);
    cJSON_Delete(head);
}

/* vf_writer_keep_record() keeps a sample only if the given bytes are those of its stored record. */
static void kept_records(void **state)
{
    vf_writer *w;
    uint32_t dropped;
    OK(make_dataset(*state, 5, BIG, &err));
    OK(open_writer(&w, *state, 0, false, false, &err));
    char *text = strdup(vf_writer_sample(w, 3, 0));
    assert_false(vf_writer_keep_record(w, 2, 0, text, strlen(text)));
    assert_false(vf_writer_keep_record(w, 3, 0, text, strlen(text) - 1));
    assert_false(vf_writer_keep_record(w, 3, 1, text, strlen(text)));
    assert_true(vf_writer_keep_record(w, 3, 0, text, strlen(text)));
    assert_int_equal(vf_writer_count(w), 5);
    OK(vf_writer_drop_unseen(w, &dropped, &err));
    assert_int_equal(dropped, 4);
    assert_false(vf_writer_clip_of(w, 2, 0));
    assert_true(vf_writer_clip_of(w, 3, 0));
    assert_int_equal(vf_writer_count(w), 1);
    free(text);
    vf_writer_close(w);
}

static void other_constants(void **state)
{
    vf_writer *w;
    cJSON *head = make_head(0);
    OK(make_dataset(*state, 5, BIG, &err));
    cJSON_ReplaceItemInObject(cJSON_GetObjectItem(head, "normalization"), "scaling_factor",
                              cJSON_CreateNumber(2));
    vf_writer_opts o = { .head = head, .shard_size = BIG };
    OK(vf_writer_open(&w, *state, &o, &err));
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
    cJSON_Delete(head);
    assert_int_equal(count_samples(*state), 5);
}

static void one_writer(void **state)
{
    vf_writer *w, *second;
    OK(open_writer(&w, *state, 0, false, false, &err));
    FAILS(VC_EBUSY, "another process", open_writer(&second, *state, 0, false, false, &err));
    vf_writer_close(w);
    OK(open_writer(&second, *state, 0, false, false, &err));
    vf_writer_close(second);
}

static void unfinished(void **state)
{
    vf_writer *w;
    vf_dataset *d;
    OK(open_writer(&w, *state, 0, false, false, &err));
    OK(make_sample(w, 0, "x", 1, 8, 4, &err));
    OK(vf_writer_commit(w, &err));
    FAILS(VC_EINVAL, "not finished", vf_dataset_open(&d, *state, false, &err));
    OK(vf_dataset_open(&d, *state, true, &err));
    assert_int_equal(vf_dataset_count(d), 0);        /* closed shards only */
    vf_dataset_close(d);
    vf_writer_close(w);
    assert_whole(*state);
    OK(open_writer(&w, *state, 0, false, false, &err));
    assert_non_null(vf_writer_sample(w, 0, 0));
    OK(vf_writer_finish(w, &err));
    FAILS(VC_EINVAL, "finished", vf_writer_commit(w, &err));
    vf_writer_close(w);
    assert_int_equal(count_samples(*state), 1);
    FAILS(VC_ENOENT, "manifest.json", vf_dataset_open(&d, "/nowhere", false, &err));
}

/* The records of a closed shard refer only to closed shards: a reader can follow a writer. */
static void followed(void **state)
{
    cJSON *head = make_head(0);
    vf_writer_opts o = { .head = head, .shard_size = SMALL };
    vf_writer *w;
    vf_dataset *d;
    uint32_t seen = 0;
    OK(vf_writer_open(&w, *state, &o, &err));
    for (uint32_t i = 0; i < 60; i++) {
        OK(make_sample(w, i, i % 3 ? "caption 1" : "caption 2", i % 3 ? 3 : 1, i % 3 ? 4 : 8,
                       i % 3 ? 6 : 4, &err));
        OK(vf_dataset_open(&d, *state, true, &err));
        assert_true(vf_dataset_count(d) >= seen);
        seen = vf_dataset_count(d);
        for (uint32_t j = 0; j < seen; j++)
            read_sample(d, j);
        vf_dataset_close(d);
    }
    assert_true(seen > 0);
    vf_writer_close(w);
    cJSON_Delete(head);
}

static void refused_puts(void **state)
{
    vf_writer *w;
    cJSON *record = make_record(3, 0, "x", 1, 8, 4);
    OK(open_writer(&w, *state, 0, false, false, &err));
    FAILS(VC_EINVAL, "never put", vf_writer_put_sample(w, 3, 0, record, NULL, 0, &err));
    FAILS(VC_EFORMAT, "sample 3", vf_writer_put_sample(w, 4, 0, record, NULL, 0, &err));
    cJSON_DeleteItemFromObject(record, "latent");
    FAILS(VC_EFORMAT, "latent", vf_writer_put_sample(w, 3, 0, record, NULL, 0, &err));
    cJSON_Delete(record);
    FAILS(VC_EINVAL, "latent_key", vf_writer_put_record(w, 3, 0, "{\"dropped\":true}", 16, NULL, 0,
                                                        &err));
    FAILS(VC_EFORMAT, "line 1", vf_writer_put_record(w, 3, 0, "{\"sample\":3", 11, NULL, 0, &err));
    OK(make_sample(w, 3, "x", 1, 8, 4, &err));       /* the writer is still usable */
    vf_writer_close(w);
}

static void several_variants(void **state)
{
    vf_writer *w;
    vf_dataset *d;
    uint32_t at;
    char key[24];
    OK(open_writer(&w, *state, 0, false, false, &err));
    OK(make_sample(w, 0, "x", 1, 8, 4, &err));
    OK(make_sample(w, 1, "x", 1, 8, 4, &err));
    for (uint32_t v = 3; v > 0; v--) {
        cJSON *record = make_record(0, v, "x", 1, 8, 4);
        OK(vf_writer_put_sample(w, 0, v, record, NULL, 0, &err));
        cJSON_Delete(record);
    }
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
    OK(vf_dataset_open(&d, *state, false, &err));
    assert_int_equal(vf_dataset_count(d), 5);
    OK(vf_dataset_find(d, "0/3", &at, &err));
    assert_int_equal(at, 3);
    assert_string_equal(
        vf_sample_key(key, vf_dataset_entry(d, 4)->number, vf_dataset_entry(d, 4)->variant),
        "000000000001/000");
    vf_dataset_close(d);
    assert_whole(*state);
}

/* Returns the dataset's hint "a" of 8 bytes, or 0. */
static uint64_t hint_a(const char *dir)
{
    uint64_t v = 0;
    uint32_t half = 0;
    vf_hints *h = vf_hints_open(dir);
    int rc = vf_hints_get(h, "a", &v, sizeof v);
    assert_int_equal(rc, v ? 0 : VC_ENOENT);
    assert_int_equal(vf_hints_get(h, "a", &half, sizeof half), VC_ENOENT);    /* the size differs */
    assert_int_equal(vf_hints_get(h, "b", &v, sizeof v), VC_ENOENT);
    vf_hints_close(h);
    return v;
}

static void hints(void **state)
{
    char *path = vc_path_join(*state, "state.lmdb");
    const uint64_t v = 42;
    vf_writer *w;
    assert_int_equal(hint_a(*state), 0);
    OK(open_writer(&w, *state, 0, false, false, &err));
    OK(vf_writer_hint_put(w, "a", &v, sizeof v, &err));
    assert_int_equal(hint_a(*state), 0);         /* not on disk yet */
    OK(vf_writer_commit(w, &err));
    assert_int_equal(hint_a(*state), 42);
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
    assert_int_equal(hint_a(*state), 42);

    FILE *f = fopen(path, "r+");                 /* a damaged file loses the hints alone */
    fseek(f, 4096 * 2, SEEK_SET);
    for (int i = 0; i < 40000; i++)
        fputc(i, f);
    fclose(f);
    assert_int_equal(hint_a(*state), 0);
    OK(open_writer(&w, *state, 0, false, false, &err));
    assert_int_equal(hint_a(*state), 0);
    vf_writer_close(w);

    assert_int_equal(unlink(path), 0);
    OK(open_writer(&w, *state, 0, false, false, &err));
    vf_writer_close(w);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(one_shard),
        FOLDER_TEST(many_shards),
        FOLDER_TEST(no_samples),
        FOLDER_TEST(finds_samples),
        FOLDER_TEST(many_readers),
        FOLDER_TEST(same_bytes),
        FOLDER_TEST(root_of_any_order),
        FOLDER_TEST(nothing_to_do),
        FOLDER_TEST(changed_sample),
        FOLDER_TEST(dropped_samples),
        FOLDER_TEST(other_settings),
        FOLDER_TEST(changed_head),
        FOLDER_TEST(kept_records),
        FOLDER_TEST(other_constants),
        FOLDER_TEST(one_writer),
        FOLDER_TEST(unfinished),
        FOLDER_TEST(followed),
        FOLDER_TEST(refused_puts),
        FOLDER_TEST(several_variants),
        FOLDER_TEST(hints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
