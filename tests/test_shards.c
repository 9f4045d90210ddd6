/* test_shards.c - the dataset written and read: values, restarts, changes, refusals, kills, a full
 * disk, and every kind of damage that the check must tell. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/file.h"
#include "formats/lmdb_read.h"
#include "formats/lmdb_write.h"
#include "tests/shards_make.h"

enum { BIG = 1 << 30, SMALL = 60000 };       /* shard sizes: one shard, many */

static int make_folder(void **state)
{
    char *dir = strdup("/tmp/test-shards-XXXXXX");
    *state = dir;
    return mkdtemp(dir) ? 0 : -1;
}

static int drop_folder(void **state)
{
    int rc = vc_remove_tree(*state, NULL);
    free(*state);
    return rc;
}

/* The call's errors go to a vc_err named err. */
#define OK(call)                                                          \
    do {                                                                  \
        vc_err err = { 0 };                                               \
        if ((call))                                                       \
            fail_msg("%s: %s", #call, err.text);                          \
    } while (0)

#define FAILS(code_wanted, text_wanted, call)                             \
    do {                                                                  \
        vc_err err = { 0 };                                               \
        int rc_ = (call);                                                 \
        if (rc_ != (code_wanted) || !strstr(err.text, (text_wanted)))     \
            fail_msg("%s: %d: %s", #call, rc_, err.text);                 \
    } while (0)

static int open_writer(vf_writer **w, const char *dir, int seed, bool append, bool overwrite, vc_err *err)
{
    cJSON *head = make_head(seed);
    vf_writer_opts o = { .head = head, .shard_size = BIG, .append = append, .overwrite = overwrite };
    int rc = vf_writer_open(w, dir, &o, err);
    cJSON_Delete(head);
    return rc;
}

static uint32_t count_samples(const char *dir)
{
    vf_dataset *d;
    OK(vf_dataset_open(&d, dir, false, &err));
    uint32_t n = vf_dataset_count(d);
    vf_dataset_close(d);
    return n;
}

/* ---- checking ---- */

typedef struct findings {
    int n;
    char text[4000];
} findings;

static void note(void *arg, const char *where, const char *what)
{
    findings *f = arg;
    size_t at = strlen(f->text);
    f->n++;
    snprintf(f->text + at, sizeof f->text - at, "%s: %s\n", where, what);
}

static findings verify(const char *dir)
{
    findings f = { 0 };
    vf_verify_report r;
    OK(vf_verify(dir, note, &f, NULL, &r, &err));
    assert_int_equal(r.damaged, f.n);
    return f;
}

static void assert_whole(const char *dir)
{
    findings f = verify(dir);
    if (f.n)
        fail_msg("%s", f.text);
}

/* ---- keys ---- */

static void keys(void **state)
{
    static const struct { const char *hex; bool good; } cases[] = {
        { "00112233445566778899aabbccddeeff", true }, { "", false },
        { "00112233445566778899aabbccddeef", false }, { "00112233445566778899aabbccddeeff0", false },
        { "00112233445566778899AABBCCDDEEFF", false }, { "00112233445566778899aabbccddeefg", false },
    };
    char hex[VF_KEY_HEX];
    vf_key k;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(vf_key_parse(&k, cases[i].hex), cases[i].good);
        if (cases[i].good)
            assert_string_equal(vf_key_hex(hex, k), cases[i].hex);
    }
    /* XXH3-128 of nothing and of "abc", from the reference implementation's xxhsum -H2 */
    assert_string_equal(vf_key_hex(hex, vf_hash("", 0)), "99aa06d3014798d86001c324468d497f");
    assert_string_equal(vf_key_hex(hex, vf_hash("abc", 3)), "06b05ab6733a618578af5f94892f3950");
    assert_string_equal(vf_key_hex(hex, vf_hash2("a", 1, "bc", 2)), "06b05ab6733a618578af5f94892f3950");
}

static vf_key hash_fields(const char *kind, const char *a, const char *b)
{
    vf_hasher *h;
    OK(vf_hasher_open(&h, kind, &err));
    vf_hasher_str(h, "a", a);
    vf_hasher_str(h, "b", b);
    vf_hasher_int(h, "n", -1);
    return vf_hasher_close(h);
}

/* The bytes that docs/format.md says are hashed. */
static void hashed_fields(void **state)
{
    static const char bytes[] = "text\0a\0\2\0\0\0\0\0\0\0xyb\0\1\0\0\0\0\0\0\0z"
                                "n\0\10\0\0\0\0\0\0\0\377\377\377\377\377\377\377\377";
    vf_key plain = vf_hash(bytes, sizeof bytes - 1), k = hash_fields("text", "xy", "z");
    (void)state;
    assert_memory_equal(&plain, &k, sizeof k);
    k = hash_fields("text", "x", "yz");
    assert_memory_not_equal(&plain, &k, sizeof k);
    k = hash_fields("latent", "xy", "z");
    assert_memory_not_equal(&plain, &k, sizeof k);
}

static void hashed_file(void **state)
{
    char *path = vc_path_join(*state, "file");
    size_t n = 3 << 20 | 17;
    char *data = malloc(n);
    vf_key k, plain;
    volatile int stop = 1;
    for (size_t i = 0; i < n; i++)
        data[i] = (char)(i * 2654435761u >> 13);
    OK(vc_file_write(path, data, n, &err));
    OK(vf_hash_file(&k, path, NULL, &err));
    plain = vf_hash(data, n);
    assert_memory_equal(&plain, &k, sizeof k);
    FAILS(VC_ESTOP, "stopped", vf_hash_file(&k, path, &stop, &err));
    FAILS(VC_EFORMAT, "regular", vf_hash_file(&k, *state, NULL, &err));
    FAILS(VC_ENOENT, "nothing", vf_hash_file(&k, "/nothing", NULL, &err));
    free(data);
    free(path);
}

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

    OK(vf_dataset_latent(d, e->latent, true, &st, &err));
    OK(vf_safetensors_get(st, "mean", &mean, &err));
    assert_int_equal(mean.dim[1], e->f);
    assert_int_equal(mean.dim[3], e->w);
    vf_safetensors_close(st);
    OK(vf_dataset_text(d, k, true, &st, &err));
    vf_safetensors_close(st);
    OK(vf_dataset_thumb(d, i, &jpeg, &n, &err));
    assert_int_equal(n, 4);
    vf_dataset_prefetch(d, e->latent);
}

static void read_back(const char *dir, uint32_t n, int least_shards)
{
    vf_dataset *d;
    cJSON *prompt;
    vf_safetensors *st;
    OK(vf_dataset_open(&d, dir, false, &err));
    assert_int_equal(vf_dataset_count(d), n);
    assert_true(cJSON_GetArraySize(cJSON_GetObjectItem(vf_dataset_manifest(d), "shards")) >= least_shards);
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
    static const struct { const char *key; int rc; uint32_t at; } cases[] = {
        { "3", 0, 3 }, { "3/0", 0, 3 }, { "000000000003/000", 0, 3 }, { "5", VC_ENOENT, 0 },
        { "3/1", VC_ENOENT, 0 }, { "x", VC_EINVAL, 0 }, { "", VC_EINVAL, 0 }, { "3/", VC_EINVAL, 0 },
        { "-1", VC_EINVAL, 0 }, { "99999999999999999999", VC_EINVAL, 0 }, { "3/1000", VC_EINVAL, 0 },
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

/* ---- the same inputs, the same bytes ---- */

/* Hash of every key and value of a shard's sub-databases, in order. */
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

/* ---- going on ---- */

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
    assert_string_equal(cJSON_GetObjectItem(cJSON_GetObjectItem(record, "captions")->child, "text")->valuestring,
                        "caption 5");
    cJSON_Delete(record);
    OK(vf_dataset_thumb(d, 4, &jpeg, &n, &err));     /* of the older record */
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

    /* numbers are never given again; a row that comes back is new */
    OK(open_writer(&w, *state, 0, true, false, &err));
    assert_int_equal(vf_writer_next_number(w), 10);
    assert_int_equal(vf_writer_number_of(w, 0x123456789abcull * 3, &number), 0);
    assert_int_equal(number, 2);
    assert_int_equal(vf_writer_number_of(w, 0x123456789abcull * 9, &number), VC_ENOENT);
    OK(vf_writer_drop_unseen(w, &dropped, &err));
    assert_int_equal(dropped, 0);                    /* --append */
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
    FAILS(VC_EMISMATCH, "sampling.seed: 0 there, 1 now", open_writer(&w, *state, 1, false, false, &err));
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

/* Every reference of a closed shard leads to a closed shard, so that a reader may follow. */
static void followed(void **state)
{
    cJSON *head = make_head(0);
    vf_writer_opts o = { .head = head, .shard_size = SMALL };
    vf_writer *w;
    vf_dataset *d;
    uint32_t seen = 0;
    OK(vf_writer_open(&w, *state, &o, &err));
    for (uint32_t i = 0; i < 60; i++) {
        OK(make_sample(w, i, i % 3 ? "caption 1" : "caption 2", i % 3 ? 3 : 1, i % 3 ? 4 : 8, i % 3 ? 6 : 4, &err));
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
    FAILS(VC_EINVAL, "sample 3", vf_writer_put_sample(w, 4, 0, record, NULL, 0, &err));
    cJSON_DeleteItemFromObject(record, "latent");
    FAILS(VC_ENOENT, "latent", vf_writer_put_sample(w, 3, 0, record, NULL, 0, &err));
    cJSON_Delete(record);
    OK(make_sample(w, 3, "x", 1, 8, 4, &err));       /* none of it stuck */
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
    assert_string_equal(vf_sample_key(key, vf_dataset_entry(d, 4)->number, vf_dataset_entry(d, 4)->variant),
                        "000000000001/000");
    vf_dataset_close(d);
    assert_whole(*state);
}

static void hints(void **state)
{
    char *path = vc_path_join(*state, "state.lmdb");
    uint64_t v = 42;
    vf_writer *w;
    OK(open_writer(&w, *state, 0, false, false, &err));
    assert_int_equal(vf_writer_hint_get(w, "a", &v, sizeof v), VC_ENOENT);
    OK(vf_writer_hint_put(w, "a", &v, sizeof v, &err));
    v = 0;
    assert_int_equal(vf_writer_hint_get(w, "a", &v, sizeof v), 0);
    assert_int_equal(v, 42);
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);

    OK(open_writer(&w, *state, 0, false, false, &err));
    assert_int_equal(vf_writer_hint_get(w, "a", &v, sizeof v), 0);
    assert_int_equal(vf_writer_hint_get(w, "a", &v, 4), VC_ENOENT);
    vf_writer_close(w);

    FILE *f = fopen(path, "r+");                     /* damaged: the hints are lost, and that is all */
    fseek(f, 4096 * 2, SEEK_SET);
    for (int i = 0; i < 40000; i++)
        fputc(i, f);
    fclose(f);
    OK(open_writer(&w, *state, 0, false, false, &err));
    assert_int_equal(vf_writer_hint_get(w, "a", &v, sizeof v), VC_ENOENT);
    vf_writer_close(w);

    assert_int_equal(unlink(path), 0);
    OK(open_writer(&w, *state, 0, false, false, &err));
    vf_writer_close(w);
    free(path);
}

/* ---- crashes ---- */

/* Writes samples until it is killed or done; tells each commit through the pipe. */
static void write_until_killed(const char *dir, int pipe_fd)
{
    cJSON *head = make_head(0);
    vf_writer_opts o = { .head = head, .shard_size = SMALL };
    vf_writer *w;
    int rc = vf_writer_open(&w, dir, &o, NULL);
    for (uint32_t i = 0; i < 100 && !rc; i++) {
        rc = make_sample(w, i, i % 2 ? "odd" : "even", 3, 4, 6, NULL);
        if (!rc && i % 5 == 4 && !(rc = vf_writer_commit(w, NULL)) && write(pipe_fd, &i, sizeof i) < 0)
            rc = -1;
    }
    if (!rc)
        rc = vf_writer_finish(w, NULL);
    _exit(rc ? 1 : 0);
}

/* What was committed before a kill is there after it, and the rest can be added. */
static void killed(void **state)
{
    uint32_t committed = 0;
    bool done = false;
    unsigned delay = 300;
    vf_writer *w;
    for (int round = 0; round < 60 && !done; round++, delay += 900) {
        int fd[2], status;
        uint32_t i;
        assert_int_equal(pipe(fd), 0);
        pid_t child = fork();
        if (!child) {
            close(fd[0]);
            write_until_killed(*state, fd[1]);
        }
        close(fd[1]);
        usleep(delay);
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        while (read(fd[0], &i, sizeof i) == sizeof i)
            if (i + 1 > committed)
                committed = i + 1;
        close(fd[0]);
        done = WIFEXITED(status);
        if (done)
            assert_int_equal(WEXITSTATUS(status), 0);
        if (!vc_file_exists(*state))
            continue;
        OK(open_writer(&w, *state, 0, false, false, &err));
        for (i = 0; i < committed; i++)
            assert_non_null(vf_writer_sample(w, i, 0));
        vf_writer_close(w);
    }
    assert_true(committed > 0);
    OK(open_writer(&w, *state, 0, false, false, &err));
    for (uint32_t i = 0; i < 100; i++)
        OK(make_sample(w, i, i % 2 ? "odd" : "even", 3, 4, 6, &err));
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
    assert_int_equal(count_samples(*state), 100);
    assert_whole(*state);
}

/* A shard whose index is written and whose name is not yet in the manifest. */
static void half_closed(void **state)
{
    char *path = vc_path_join(*state, "manifest.json"), *text;
    size_t n;
    cJSON *json;
    OK(make_dataset(*state, 50, SMALL, &err));
    OK(vc_file_read(&text, &n, path, 1 << 20, &err));
    OK(vf_json_parse(&json, text, n, &err));
    free(text);
    cJSON *shards = cJSON_GetObjectItem(json, "shards");
    cJSON_DeleteItemFromArray(shards, cJSON_GetArraySize(shards) - 1);
    cJSON_ReplaceItemInObject(json, "complete", cJSON_CreateFalse());
    text = cJSON_Print(json);
    OK(vc_file_write(path, text, strlen(text), &err));
    free(text);
    cJSON_Delete(json);
    OK(make_dataset(*state, 50, SMALL, &err));
    assert_int_equal(count_samples(*state), 50);
    assert_whole(*state);
    free(path);
}

static void damaged_open_shard(void **state)
{
    char *path = vc_path_join(*state, "shard-00000.lmdb");
    vf_writer *w;
    OK(open_writer(&w, *state, 0, false, false, &err));
    for (uint32_t i = 0; i < 20; i++)
        OK(make_sample(w, i, "x", 3, 4, 6, &err));
    OK(vf_writer_commit(w, &err));
    vf_writer_close(w);
    FILE *f = fopen(path, "r+");
    for (long page = 2; page < 12; page++) {         /* no page knows its number */
        fseek(f, page * 4096, SEEK_SET);
        fputc(0xee, f);
    }
    fclose(f);
    FAILS(VC_EFORMAT, "remove that file and start again", open_writer(&w, *state, 0, false, false, &err));
    assert_int_equal(truncate(path, 100), 0);        /* killed while it was being made */
    OK(open_writer(&w, *state, 0, false, false, &err));
    assert_null(vf_writer_sample(w, 0, 0));
    vf_writer_close(w);
    free(path);
}

/* A file that may not grow past `limit` bytes stands for a full disk. */
static void write_on_full_disk(const char *dir, rlim_t limit)
{
    struct rlimit r = { limit, limit };
    cJSON *head = make_head(0);
    vf_writer_opts o = { .head = head, .shard_size = BIG };
    vf_writer *w;
    vc_err err = { 0 };
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &r);
    int rc = vf_writer_open(&w, dir, &o, &err);
    for (uint32_t i = 0; i < 2000 && !rc; i++) {
        rc = make_sample(w, i, "x", 3, 30, 40, &err);
        if (!rc && i % 8 == 7)
            rc = vf_writer_commit(w, &err);
    }
    int again = rc ? vf_writer_commit(w, &err) : 0;
    if (rc == VC_EFULL && again == VC_EFULL && strstr(err.text, "make room and start again"))
        _exit(0);
    fprintf(stderr, "%d %d %s\n", rc, again, err.text);
    _exit(1);
}

static void full_disk(void **state)
{
    static const rlim_t limits[] = { 1 << 20, 3 << 20, 20000000 };
    vf_writer *w;
    uint32_t there = 0;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        int status;
        pid_t child = fork();
        if (!child)
            write_on_full_disk(*state, limits[i]);
        waitpid(child, &status, 0);
        assert_int_equal(status, 0);
        OK(open_writer(&w, *state, 0, false, false, &err));
        uint32_t n = 0;
        while (vf_writer_sample(w, n, 0))
            n++;
        assert_true(i == 0 || n > there);            /* what there was room for is intact */
        there = n;
        vf_writer_close(w);
    }
    OK(open_writer(&w, *state, 0, false, false, &err));
    for (uint32_t i = 0; i < there + 10; i++)
        OK(make_sample(w, i, "x", 3, 30, 40, &err));
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
    assert_int_equal(count_samples(*state), there + 10);
    assert_whole(*state);
}

/* ---- damage ---- */

/* Replaces every `from` in a file by `to`, of the same length. (Unused parts of pages hold old copies.) */
static void patch(const char *dir, const char *file, const char *from, const char *to)
{
    char *path = vc_path_join(dir, file), *data;
    size_t n, len = strlen(from), found = 0;
    OK(vc_file_read(&data, &n, path, 1 << 30, &err));
    for (char *p = data; (p = memmem(p, n - (size_t)(p - data), from, len)); found++)
        memcpy(p, to, len);
    assert_true(found > 0);
    OK(vc_file_write(path, data, n, &err));
    free(data);
    free(path);
}

/* Changes the manifest: field gets the JSON `value`, or goes if it is NULL. A path of two: "shards 0 file". */
static void edit_manifest(const char *dir, const char *field, int item, const char *below, const char *value)
{
    char *path = vc_path_join(dir, "manifest.json"), *text;
    size_t n;
    cJSON *json;
    OK(vc_file_read(&text, &n, path, 1 << 20, &err));
    OK(vf_json_parse(&json, text, n, &err));
    free(text);
    cJSON *o = json;
    if (below) {
        o = cJSON_GetArrayItem(cJSON_GetObjectItem(json, field), item);
        field = below;
    }
    if (value)
        cJSON_ReplaceItemInObject(o, field, cJSON_Parse(value));
    else
        cJSON_DeleteItemFromObject(o, field);
    text = cJSON_Print(json);
    OK(vc_file_write(path, text, strlen(text), &err));
    free(text);
    cJSON_Delete(json);
    free(path);
}

static void hostile_manifests(void **state)
{
    static const struct { const char *field; int item; const char *below, *value, *says; } cases[] = {
        { "format", 0, NULL, "2", "this program reads 1" },
        { "format", 0, NULL, NULL, "format: missing" },
        { "complete", 0, NULL, "\"yes\"", "complete" },
        { "samples", 0, NULL, "-1", "negative" },
        { "samples", 0, NULL, "7", "manifest says 7" },
        { "root", 0, NULL, "\"12\"", "32 hex digits" },
        { "shards", 0, NULL, "{}", "shards" },
        { "shards", 0, "file", "\"../text-00000.lmdb\"", "shard-NNNNN.lmdb" },
        { "shards", 0, "file", "\"/etc/passwd\"", "shard-NNNNN.lmdb" },
        { "shards", 0, "file", "\"text-0000.lmdb\"", "shard-NNNNN.lmdb" },
        { "shards", 0, "file", "\"text-00000.lmdb/\"", "shard-NNNNN.lmdb" },
        { "shards", 0, "file", "\"text-00007.lmdb\"", "No such file" },
        { "shards", 0, "bytes", "1", "the manifest says 1" },
        { "shards", 0, "xxh3", "7", "xxh3" },
        { "shards", 0, "samples", "1e300", "samples" },
        { "shards", 1, "file", "\"text-00000.lmdb\"", "comes after" },
    };
    OK(make_dataset(*state, 6, BIG, &err));
    char *path = vc_path_join(*state, "manifest.json"), *good;
    size_t n;
    OK(vc_file_read(&good, &n, path, 1 << 20, &err));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vf_dataset *d;
        edit_manifest(*state, cases[i].field, cases[i].item, cases[i].below, cases[i].value);
        FAILS(VC_EFORMAT, cases[i].says, vf_dataset_open(&d, *state, false, &err));
        assert_null(d);
        findings f = verify(*state);
        assert_true(f.n > 0);
        OK(vc_file_write(path, good, n, &err));
    }
    assert_whole(*state);
    free(good);
    free(path);
}

static void linked_shard(void **state)
{
    char *path = vc_path_join(*state, "shard-00000.lmdb"), *moved = vc_path_join(*state, "elsewhere");
    vf_dataset *d;
    OK(make_dataset(*state, 6, BIG, &err));
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(symlink("elsewhere", path), 0);
    FAILS(VC_EFORMAT, "not a plain file", vf_dataset_open(&d, *state, false, &err));
    free(path);
    free(moved);
}

/* One change, what the check says of it, and that a reader does not give it out as good. */
static void told_damage(void **state)
{
    static const struct { const char *file, *from, *to, *says; } cases[] = {
        { "shard-00000.lmdb", "caption 4", "caption 7", "index 000000000004/000: differs" },
        { "shard-00000.lmdb", "\"sample\":4", "\"sample\":5", "it says that it is sample 5" },
        { "shard-00000.lmdb", "{\"sample\":4", "[\"sample\":4", "sample 000000000004/000" },
        { "shard-00000.lmdb", "\"xxh3\":\"", "\"xxh4\":\"", "xxh3" },
        { "shard-00000.lmdb", "\"shape\":[4,3", "\"shape\":[4,4", "shape" },
        { "text-00000.lmdb", "prompt_embeds", "prompt_emXeds", "no prompt_embeds" },
        { "text-00000.lmdb", "a validation prompt", "A validation prompt", "checksum" },
        { "manifest.json", "\"samples\": 6", "\"samples\": 9", "the shards hold 6" },
        { "manifest.json", "\"root\": \"", "\"toor\": \"", "root: missing" },
        { "manifest.json", "\"latent\":[1,8,4]", "\"latent\":[1,8,5]", "buckets[0]" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vc_remove_tree(*state, NULL);
        OK(make_dataset(*state, 6, BIG, &err));
        patch(*state, cases[i].file, cases[i].from, cases[i].to);
        findings f = verify(*state);
        if (!strstr(f.text, cases[i].says))
            fail_msg("%s -> %s: %s", cases[i].from, cases[i].to, f.text);
    }
}

static void unread_damage(void **state)
{
    vf_dataset *d;
    vf_safetensors *st;
    cJSON *record;
    OK(make_dataset(*state, 6, BIG, &err));
    patch(*state, "shard-00000.lmdb", "caption 4", "caption 7");
    OK(vf_dataset_open(&d, *state, false, &err));
    FAILS(VC_EFORMAT, "000000000004/000: its checksum differs", vf_dataset_sample(d, 4, &record, &err));
    assert_null(record);
    vf_dataset_close(d);

    patch(*state, "shard-00000.lmdb", "\"xxh3\":\"", "\"xxh4\":\"");
    OK(vf_dataset_open(&d, *state, false, &err));
    int refused = 0;
    for (uint32_t i = 0; i < 6; i++) {
        refused += vf_dataset_latent(d, vf_dataset_entry(d, i)->latent, true, &st, NULL) == VC_EFORMAT;
        vf_safetensors_close(st);
    }
    assert_int_equal(refused, 6);
    vf_dataset_close(d);
}

static void missing_values(void **state)
{
    OK(make_dataset(*state, 6, BIG, &err));
    char *path = vc_path_join(*state, "text-00000.lmdb");
    assert_int_equal(unlink(path), 0);
    findings f = verify(*state);
    assert_non_null(strstr(f.text, "text-00000.lmdb"));
    assert_non_null(strstr(f.text, "no shard has it"));
    free(path);
}

static void cut_short(void **state)
{
    struct stat st;
    vf_dataset *d;
    char *path = vc_path_join(*state, "shard-00000.lmdb");
    OK(make_dataset(*state, 30, BIG, &err));
    assert_int_equal(stat(path, &st), 0);
    for (off_t n = st.st_size - 1; n > 0; n -= 4999) {
        assert_int_equal(truncate(path, n), 0);
        FAILS(VC_EFORMAT, "cut short", vf_dataset_open(&d, *state, false, &err));
        findings f = verify(*state);
        assert_true(f.n > 0);
    }
    free(path);
}

/* The remedy that the check names: the damaged shard is removed, what it held is put again. */
static void removed_shard(void **state)
{
    static const char *const files[] = { "shard-00001.lmdb", "text-00000.lmdb" };
    for (size_t i = 0; i < 2; i++) {
        char *path = vc_path_join(*state, files[i]);
        vf_writer *w;
        OK(make_dataset(*state, 50, SMALL, &err));
        assert_int_equal(unlink(path), 0);
        OK(open_writer(&w, *state, 0, true, false, &err));
        assert_int_equal(vf_writer_lost_shards(w), 1);
        vf_writer_close(w);
        OK(make_dataset(*state, 50, SMALL, &err));
        read_back(*state, 50, 2);
        free(path);
    }
}

static void stray_shards(void **state)
{
    char *path = vc_path_join(*state, "shard-00009.lmdb"), *manifest = vc_path_join(*state, "manifest.json");
    vf_writer *w;
    OK(make_dataset(*state, 6, BIG, &err));
    OK(vc_file_write(path, "x", 1, &err));
    findings f = verify(*state);
    assert_non_null(strstr(f.text, "shard-00009.lmdb: not in the manifest"));
    FAILS(VC_EFORMAT, "shard-00009.lmdb is not in the manifest", open_writer(&w, *state, 0, false, false, &err));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(manifest), 0);
    FAILS(VC_EFORMAT, "but no manifest.json", open_writer(&w, *state, 0, false, false, &err));
    OK(open_writer(&w, *state, 0, false, true, &err));
    vf_writer_close(w);
    free(path);
    free(manifest);
}

#define FOLDER_TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, drop_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys),
        cmocka_unit_test(hashed_fields),
        FOLDER_TEST(hashed_file),
        FOLDER_TEST(one_shard),
        FOLDER_TEST(many_shards),
        FOLDER_TEST(no_samples),
        FOLDER_TEST(finds_samples),
        FOLDER_TEST(same_bytes),
        FOLDER_TEST(root_of_any_order),
        FOLDER_TEST(nothing_to_do),
        FOLDER_TEST(changed_sample),
        FOLDER_TEST(dropped_samples),
        FOLDER_TEST(other_settings),
        FOLDER_TEST(other_constants),
        FOLDER_TEST(one_writer),
        FOLDER_TEST(unfinished),
        FOLDER_TEST(followed),
        FOLDER_TEST(refused_puts),
        FOLDER_TEST(several_variants),
        FOLDER_TEST(hints),
        FOLDER_TEST(killed),
        FOLDER_TEST(half_closed),
        FOLDER_TEST(damaged_open_shard),
        FOLDER_TEST(full_disk),
        FOLDER_TEST(hostile_manifests),
        FOLDER_TEST(linked_shard),
        FOLDER_TEST(told_damage),
        FOLDER_TEST(unread_damage),
        FOLDER_TEST(missing_values),
        FOLDER_TEST(cut_short),
        FOLDER_TEST(removed_shard),
        FOLDER_TEST(stray_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
