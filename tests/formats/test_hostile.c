/* test_hostile.c - the public calls read 10,000 damaged and forged datasets. Each call returns an
 * error or data inside its file, and never crashes, hangs or reads past the end (VLT_SANITIZE shows
 * the latter). */
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
#include "formats/lmdb/lmdb_write.h"
#include "formats/dataset/parts.h"
#include "tests/lib/mutate.h"
#include "tests/lib/ok.h"
#include "tests/lib/shards_make.h"

/* Makes the folder in memory where /dev/shm exists: thousands of fsyncs would only take time. */
static int make_folder(void **state)
{
    char *dir = strdup(access("/dev/shm", W_OK) ? "/tmp/test-hostile-XXXXXX"
                                                : "/dev/shm/test-hostile-XXXXXX");
    *state = dir;
    return mkdtemp(dir) ? 0 : -1;
}

static int drop_folder(void **state)
{
    int rc = vc_remove_tree(*state, NULL);
    free(*state);
    return rc;
}

/* Writes a file without the fsync of vc_file_write(). */
static void write_plain(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(!n || fwrite(data, n, 1, f) == 1);
    assert_int_equal(fclose(f), 0);
}

/* ---- the manifest ---- */

static void damaged_manifests(void **state)
{
    char *path = vc_path_join(*state, "manifest.json"), *text;
    size_t n;
    OK(make_dataset(*state, 2, 1 << 30, &err));
    OK(vc_file_read(&text, &n, path, 1 << 20, &err));
    mutate_run(text, n, 1, 2000, LLVMFuzzerTestOneInput);    /* fuzz_manifest.c */
    free(text);
    free(path);
}

/* ---- shards: any bytes; the manifest has their size ---- */

static void set_size(const char *dir, const char *file, size_t bytes)
{
    vf_manifest m;
    cJSON *head = make_head(0), *none = cJSON_CreateArray();
    OK(vf_manifest_read(&m, dir, &err));
    for (int i = 0; i < m.n_shards; i++)
        if (!strcmp(m.shard[i].file, file))
            m.shard[i].bytes = (int64_t)bytes;
    OK(vf_manifest_write(&m, dir, head, none, &err));
    vf_manifest_free(&m);
    cJSON_Delete(head);
    cJSON_Delete(none);
}

/* Changes bytes of headers, offsets and nodes of pages; in every fourth round any bytes. */
static size_t damage(uint8_t *data, size_t n, size_t cap, uint32_t seed, uint32_t round)
{
    uint32_t s = seed * 2654435761u + round;
    if (round % 4 == 0)
        return mutate(data, n, cap, seed, round);
    for (int i = 0; i < 1 + (int)(round % 3); i++) {
        static const uint8_t edge[] = { 0, 1, 2, 8, 0x10, 0x7f, 0x80, 0xfe, 0xff };
        s = s * 1664525 + 1013904223;
        size_t page = (s >> 9) % (n / 4096) * 4096, span = round % 2 ? 152 : 4096;
        s = s * 1664525 + 1013904223;
        data[page + (s >> 9) % span] = edge[(s >> 20) % sizeof edge];
    }
    return n;
}

static void damage_file(const char *dir, const char *file, uint32_t seed, uint32_t rounds)
{
    char *path = vc_path_join(dir, file), *good;
    size_t n, last = 0, failures = 0;
    OK(vc_file_read(&good, &n, path, 1 << 20, &err));
    uint8_t *bad = malloc(n + 8192);
    for (uint32_t round = 0; round < rounds; round++) {
        memcpy(bad, good, n);
        size_t size = damage(bad, n, n + 8192, seed, round);
        write_plain(path, bad, size);
        if (size != last)
            set_size(dir, file, size);
        last = size;
        failures += read_everything(dir) > 0;
    }
    assert_true(failures > rounds / 20);             /* damaged bytes are really read */
    write_plain(path, good, n);
    set_size(dir, file, n);
    free(bad);
    free(good);
    free(path);
}

static void damaged_shards(void **state)
{
    OK(make_dataset(*state, 3, 1 << 30, &err));
    damage_file(*state, "shard-00000.lmdb", 2, 2500);
    damage_file(*state, "text-00000.lmdb", 3, 1000);
}

/* ---- an unfinished shard: liblmdb survives every file that passes the check of pages ---- */

static void damaged_open_shards(void **state)
{
    char *path = vc_path_join(*state, "shard-00000.lmdb"), *good;
    cJSON *head = make_head(0);
    vf_writer_opts o = { .head = head, .shard_size = 1 << 30 };
    vf_writer *w;
    size_t n, continued = 0;
    OK(vf_writer_open(&w, *state, &o, &err));
    for (uint32_t i = 0; i < 3; i++) {
        OK(make_sample(w, i, "x", 3, 4, 6, &err));
        OK(vf_writer_commit(w, &err));
    }
    vf_writer_close(w);
    OK(vc_file_read(&good, &n, path, 1 << 30, &err));
    n = 16 * 4096 < n ? 16 * 4096 : n;               /* without the reserved space */
    uint8_t *bad = malloc(n + 8192);
    for (uint32_t round = 0; round < 500; round++) {
        memcpy(bad, good, n);
        write_plain(path, bad, damage(bad, n, n + 8192, 4, round));
        if (!vf_writer_open(&w, *state, &o, NULL) && !make_sample(w, 77, "x", 3, 4, 6, NULL) &&
            !vf_writer_commit(w, NULL))
            continued++;
        vf_writer_close(w);
    }
    assert_true(continued > 0 && continued < 500);
    free(bad);
    free(good);
    free(path);
    cJSON_Delete(head);
}

/* ---- forged values in sound shards: records, tensors, validation prompts ---- */

enum { FORGED = 1000 };

static size_t forge(uint8_t *buf, size_t cap, const void *good, size_t n, uint32_t seed,
                    uint32_t round)
{
    memcpy(buf, good, n);
    return mutate(buf, n, cap, seed, round);
}

static void seal(const char *dir, vf_env *e, vf_manifest *m, bool text)
{
    uint64_t bytes;
    vf_shard_info s = { .text = text };
    vf_shard_name(s.file, text, 0);
    OK(vf_env_finish(e, &bytes, &err));
    s.bytes = (int64_t)bytes;
    OK(vf_manifest_add(m, &s, &err));
    (void)dir;
}

static void item_at(const void *items, uint32_t i, vf_index_item *item)
{
    *item = ((const vf_index_item *)items)[i];
}

static void forge_shard(const char *dir, vf_manifest *m, uint32_t seed)
{
    static uint8_t buf[20000];
    static vf_index_item items[FORGED];
    vf_env *e;
    cJSON *json = make_record(0, 0, "x", 3, 4, 6);
    char *record = vf_json_line(json), key[VF_SAMPLE_KEY], hex[VF_KEY_HEX];
    size_t n, latent_n, size[2];
    uint8_t *latent = make_latent(0, 3, 4, 6, &latent_n);
    void *index[2];
    OK(vf_env_open(&e, dir, "shard-00000.lmdb", vf_shard_dbs, &err));
    for (uint32_t i = 0; i < FORGED; i++) {
        vf_key k = make_latent_key(i, 3, 4, 6);
        vf_sample_key(key, i, 0);
        n = forge(buf, sizeof buf, record, strlen(record), seed, i);
        OK(vf_env_put(e, VF_DB_SAMPLE, key, VF_SAMPLE_KEY_LEN, buf, n, &err));
        items[i] = (vf_index_item){ .entry = { .latent = k,
                                               .number = i,
                                               .f = 3,
                                               .h = 4,
                                               .w = 6,
                                               .weight = 1,
                                               .captions = 1 },
                                    .hash = vf_hash2(key, VF_SAMPLE_KEY_LEN, buf, n),
                                    .bucket = i % 3 };
        n = forge(buf, sizeof buf, latent, latent_n, seed + 1, i);
        OK(vf_env_put(e, VF_DB_LATENT, vf_key_hex(hex, k), 32, buf, n, &err));
    }
    OK(vf_index_pack(VF_INDEX_ENTRIES, item_at, items, FORGED, &index[0], &size[0], &err));
    OK(vf_index_pack(VF_INDEX_RECORDS, item_at, items, FORGED, &index[1], &size[1], &err));
    OK(vf_env_put(e, VF_DB_INDEX, "entries", 7, index[0], size[0], &err));
    OK(vf_env_put(e, VF_DB_INDEX, "records", 7, index[1], size[1], &err));
    static const char buckets[] = "[{\"key\":\"0.67\",\"latent\":[3,4,6]}]";
    n = forge(buf, sizeof buf, buckets, sizeof buckets - 1, seed, 0);
    OK(vf_env_put(e, VF_DB_INDEX, "buckets", 7, buf, n, &err));
    seal(dir, e, m, false);
    free(index[0]);
    free(index[1]);
    free(latent);
    free(record);
    cJSON_Delete(json);
}

static void forge_texts(const char *dir, vf_manifest *m, uint32_t seed)
{
    static uint8_t buf[20000];
    static const char prompt[] =
        "{\"prompt\":\"p\",\"keys\":[\"99aa06d3014798d86001c324468d497f\"],"
        "\"negative_keys\":[\"99aa06d3014798d86001c324468d497f\"],\"image\":null}";
    vf_env *e;
    size_t n, text_n;
    uint8_t *text = make_text("x", &text_n);
    OK(vf_env_open(&e, dir, "text-00000.lmdb", vf_text_dbs, &err));
    for (uint32_t i = 0; i < FORGED; i++) {
        char hex[VF_KEY_HEX], key[16];
        snprintf(key, sizeof key, "%06u", i);
        n = forge(buf, sizeof buf, text, text_n, seed, i);
        OK(vf_env_put(e, VF_DB_TEXT, vf_key_hex(hex, i ? vf_hash(&i, 4) : vf_hash("", 0)), 32, buf,
                      n, &err));
        n = forge(buf, sizeof buf, prompt, sizeof prompt - 1, seed + 1, i);
        OK(vf_env_put(e, VF_DB_VALIDATION, key, 6, buf, n, &err));
    }
    seal(dir, e, m, true);
    free(text);
}

static void forged_values(void **state)
{
    cJSON *head = make_head(0), *none = cJSON_CreateArray();
    for (uint32_t seed = 10; seed < 12; seed++) {
        vf_manifest m = { .samples = FORGED, .complete = true };
        vc_remove_tree(*state, NULL);
        OK(vc_mkdirs(*state, &err));
        forge_texts(*state, &m, seed);
        forge_shard(*state, &m, seed);
        OK(vf_manifest_write(&m, *state, head, none, &err));
        vf_manifest_free(&m);
        int failures = read_everything(*state);
        assert_true(failures > FORGED / 4 && failures < 4 * FORGED);

        vf_writer *w;                                /* a writer continues the dataset */
        vf_writer_opts o = { .head = head, .shard_size = 1 << 30 };
        if (!vf_writer_open(&w, *state, &o, NULL))
            for (uint32_t i = 0; i < FORGED; i++)
                vf_writer_sample(w, i, 0);
        vf_writer_close(w);
    }
    cJSON_Delete(head);
    cJSON_Delete(none);
}

#define FOLDER_TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, drop_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(damaged_manifests),
        FOLDER_TEST(damaged_shards),
        FOLDER_TEST(damaged_open_shards),
        FOLDER_TEST(forged_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
