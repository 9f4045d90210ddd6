/* test_lmdb_read.c - the reader of LMDB files reads the same pairs as liblmdb from files that
 * liblmdb wrote in many ways; the check of all pages passes each of them and refuses each kind of
 * damage. A file's final layout follows from its pairs alone; liblmdb reads and continues it. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <lmdb.h>

#include "common/os/file.h"
#include "common/os/map.h"
#include "formats/lmdb/lmdb_pack.h"
#include "formats/lmdb/lmdb_read.h"
#include "formats/lmdb/lmdb_write.h"
#include "tests/lib/mutate.h"
#include "tests/lib/ok.h"
#include "tests/lib/tmp_dir.h"

static uint32_t next_random(uint32_t *s)
{
    *s = *s * 1664525 + 1013904223;
    return *s >> 8;
}

/* ---- files that liblmdb wrote ---- */

typedef struct recipe {
    int keys, transactions;
    unsigned key_size, value_size;           /* the greatest sizes */
    int removed;                             /* percentage of pairs that are removed again */
} recipe;

static const recipe recipes[] = {
    { 0, 1, 8, 8, 0 },          { 1, 1, 8, 8, 0 },            { 10, 3, 30, 3000, 0 },
    { 3000, 1, 40, 60, 0 },     { 2000, 15, 300, 2500, 20 },  { 1000, 20, 16, 9000, 60 },
    { 200, 10, 500, 60000, 30 }, { 20000, 3, 12, 4, 90 },      { 1500, 20, 40, 2030, 100 },
};

static int put_or_remove(MDB_txn *txn, MDB_dbi db, const recipe *r, uint32_t *seed)
{
    static uint8_t value[65536];
    uint8_t key[512];
    uint32_t id = next_random(seed) % (uint32_t)(r->keys + 1);
    MDB_val k = { 4 + id % (r->key_size - 3), key },
            v = { next_random(seed) % (r->value_size + 1), value };
    memset(key, (int)(id * 7), sizeof key);
    snprintf((char *)key + k.mv_size - 4, 5, "%03x", id & 0xfff);
    memcpy(key, &id, 4);
    memset(value, (int)next_random(seed), v.mv_size);
    if ((int)(next_random(seed) % 100) < r->removed) {
        int rc = mdb_del(txn, db, &k, NULL);
        return rc == MDB_NOTFOUND ? 0 : rc;
    }
    return mdb_put(txn, db, &k, &v, 0);
}

static MDB_env *open_env(const char *path)
{
    MDB_env *env;
    assert_int_equal(mdb_env_create(&env), 0);
    mdb_env_set_maxdbs(env, 4);
    mdb_env_set_mapsize(env, 1 << 30);
    assert_int_equal(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0666), 0);
    return env;
}

static void write_file(const char *path, const recipe *r)
{
    MDB_env *env = open_env(path);
    uint32_t seed = 12345;
    for (int t = 0; t < r->transactions; t++) {
        MDB_txn *txn;
        MDB_dbi db[2];
        assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
        assert_int_equal(mdb_dbi_open(txn, "latent", MDB_CREATE, &db[0]), 0);
        assert_int_equal(mdb_dbi_open(txn, "sample", MDB_CREATE, &db[1]), 0);
        for (int i = 0; i < r->keys; i++)
            assert_int_equal(put_or_remove(txn, db[i & 1], r, &seed), 0);
        assert_int_equal(mdb_txn_commit(txn), 0);
    }
    mdb_env_close(env);
}

/* ---- the same pairs as liblmdb ---- */

static void compare_tree(const vf_lmdb *m, MDB_txn *txn, const char *name)
{
    MDB_dbi db;
    MDB_cursor *theirs;
    MDB_val k, v;
    MDB_stat st;
    vf_tree t;
    vf_lmdb_cursor ours;
    vf_bytes key, value, found;
    uint64_t n = 0;
    assert_int_equal(mdb_dbi_open(txn, name, 0, &db), 0);
    assert_int_equal(mdb_cursor_open(txn, db, &theirs), 0);
    mdb_stat(txn, db, &st);
    OK(vf_lmdb_tree(m, name, &t, &err));
    assert_int_equal(t.entries, st.ms_entries);
    vf_lmdb_start(&ours, m, &t);
    while (!mdb_cursor_get(theirs, &k, &v, MDB_NEXT)) {
        assert_int_equal(vf_lmdb_next(&ours, &key, &value, NULL), 1);
        assert_int_equal(key.size, k.mv_size);
        assert_memory_equal(key.data, k.mv_data, k.mv_size);
        assert_int_equal(value.size, v.mv_size);
        if (v.mv_size)
            assert_memory_equal(value.data, v.mv_data, v.mv_size);
        OK(vf_lmdb_get(m, &t, key.data, key.size, &found, &err));
        assert_ptr_equal(found.data, value.data);
        n++;
    }
    assert_int_equal(vf_lmdb_next(&ours, &key, &value, NULL), 0);
    assert_int_equal(vf_lmdb_next(&ours, &key, &value, NULL), 0);
    assert_int_equal(n, t.entries);
    mdb_cursor_close(theirs);
}

static void compare_misses(const vf_lmdb *m, MDB_txn *txn, const char *name)
{
    MDB_dbi db;
    vf_tree t;
    uint32_t seed = 99;
    assert_int_equal(mdb_dbi_open(txn, name, 0, &db), 0);
    OK(vf_lmdb_tree(m, name, &t, &err));
    for (int i = 0; i < 500; i++) {
        uint32_t key[2] = { next_random(&seed), next_random(&seed) };
        MDB_val k = { 1 + (unsigned)i % 8, key }, v;
        vf_bytes value;
        assert_int_equal(vf_lmdb_get(m, &t, key, k.mv_size, &value, NULL) == 0,
                         mdb_get(txn, db, &k, &v) == 0);
    }
}

static void same_as_liblmdb(void **state)
{
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        char name[16];
        snprintf(name, sizeof name, "%zu.lmdb", i);
        char *path = vc_path_join(*state, name);
        vf_lmdb *m;
        vf_tree t;
        MDB_txn *txn;
        write_file(path, &recipes[i]);
        OK(vf_lmdb_open(&m, path, &err));
        vc_err err = { 0 };
        if (vf_lmdb_check(m, &err))
            fail_msg("recipe %zu: %s", i, err.text);
        MDB_env *env = open_env(path);
        assert_int_equal(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
        compare_tree(m, txn, "latent");
        compare_tree(m, txn, "sample");
        compare_misses(m, txn, "sample");
        assert_int_equal(vf_lmdb_tree(m, "thumb", &t, NULL), VC_ENOENT);
        mdb_txn_abort(txn);
        mdb_env_close(env);
        vf_lmdb_close(m);
        free(path);
    }
}

/* ---- the final layout ---- */

static const char *const dbs_of_recipes[] = { "sample", "latent", "none", NULL };

static void pack_as(const char *from, const char *to, const vf_pack_order *order)
{
    vf_lmdb *m;
    vf_key hash, whole;
    uint64_t bytes;
    struct stat st;
    OK(vf_lmdb_open(&m, from, &err));
    OK(vf_lmdb_pack(m, dbs_of_recipes, order, to, &bytes, &hash, &err));
    vf_lmdb_close(m);
    OK(vf_hash_file(&whole, to, NULL, &err));
    assert_memory_equal(&whole, &hash, sizeof hash);
    assert_int_equal(stat(to, &st), 0);
    assert_int_equal(st.st_size, bytes);
}

static void same_bytes(const char *a, const char *b)
{
    vf_key x, y;
    OK(vf_hash_file(&x, a, NULL, &err));
    OK(vf_hash_file(&y, b, NULL, &err));
    assert_memory_equal(&x, &y, sizeof x);
}

static MDB_dbi open_db(MDB_txn *txn, const char *name, unsigned flags)
{
    MDB_dbi db;
    assert_int_equal(mdb_dbi_open(txn, name, flags, &db), 0);
    return db;
}

/* Writes the pairs of a file to another one by liblmdb, the last ones first, in transactions of
 * n pairs. */
static void copy_backwards(const char *from, const char *to, int n)
{
    MDB_env *a = open_env(from), *b = open_env(to);
    MDB_txn *get, *put = NULL;
    MDB_cursor *c;
    MDB_val k, v;
    int waiting = 0;
    assert_int_equal(mdb_txn_begin(a, NULL, MDB_RDONLY, &get), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mdb_cursor_open(get, open_db(get, dbs_of_recipes[i], 0), &c), 0);
        for (int rc = mdb_cursor_get(c, &k, &v, MDB_LAST); !rc;
             rc = mdb_cursor_get(c, &k, &v, MDB_PREV)) {
            if (!put)
                assert_int_equal(mdb_txn_begin(b, NULL, 0, &put), 0);
            assert_int_equal(mdb_put(put, open_db(put, dbs_of_recipes[i], MDB_CREATE), &k, &v, 0),
                             0);
            if (++waiting % n == 0) {
                assert_int_equal(mdb_txn_commit(put), 0);
                put = NULL;
            }
        }
        mdb_cursor_close(c);
    }
    if (put)
        assert_int_equal(mdb_txn_commit(put), 0);
    mdb_txn_abort(get);
    mdb_env_close(a);
    mdb_env_close(b);
}

/* The file has all pages in its trees, the pairs of `from`, and liblmdb agrees. */
static void same_pairs(const char *path, const char *from)
{
    vf_lmdb *m, *f;
    MDB_txn *txn;
    OK(vf_lmdb_open(&m, path, &err));
    OK(vf_lmdb_open(&f, from, &err));
    OK(vf_lmdb_check(m, &err));
    MDB_env *env = open_env(path);
    assert_int_equal(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
    for (int i = 0; i < 2; i++) {
        vf_lmdb_cursor x, y;
        vf_tree t, u;
        vf_bytes key[2], value[2];
        compare_tree(m, txn, dbs_of_recipes[i]);
        OK(vf_lmdb_tree(m, dbs_of_recipes[i], &t, &err));
        OK(vf_lmdb_tree(f, dbs_of_recipes[i], &u, &err));
        assert_int_equal(t.entries, u.entries);
        vf_lmdb_start(&x, m, &t);
        vf_lmdb_start(&y, f, &u);
        while (vf_lmdb_next(&x, &key[0], &value[0], NULL) == 1) {
            assert_int_equal(vf_lmdb_next(&y, &key[1], &value[1], NULL), 1);
            assert_int_equal(key[0].size, key[1].size);
            assert_memory_equal(key[0].data, key[1].data, key[0].size);
            assert_int_equal(value[0].size, value[1].size);
            if (value[0].size)
                assert_memory_equal(value[0].data, value[1].data, value[0].size);
        }
    }
    mdb_txn_abort(txn);
    mdb_env_close(env);
    vf_lmdb_close(m);
    vf_lmdb_close(f);
}

/* Lays the file out with the latents' values in the reverse of their order. */
static void pack_reversed(const char *from, const char *to)
{
    vf_lmdb *m;
    vf_tree t;
    OK(vf_lmdb_open(&m, from, &err));
    OK(vf_lmdb_tree(m, "latent", &t, &err));
    vf_lmdb_close(m);
    uint32_t *at = calloc(t.entries + 1, sizeof *at);
    for (uint64_t i = 0; i < t.entries; i++)
        at[i] = (uint32_t)(t.entries - 1 - i);
    pack_as(from, to, &(vf_pack_order){ "latent", at, t.entries });
    free(at);
}

/* liblmdb adds and replaces pairs of a file in its final layout. */
static void continues(const char *path)
{
    MDB_env *env = open_env(path);
    static uint8_t big[20000];
    vf_lmdb *m;
    for (uint32_t t = 0; t < 5; t++) {
        MDB_txn *txn;
        assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
        for (uint32_t i = 0; i < 40; i++) {
            uint32_t key[2] = { i * 977, t / 2 };
            MDB_val k = { sizeof key, key }, v = { i % 3 ? 30 : sizeof big, big };
            assert_int_equal(mdb_put(txn, open_db(txn, "latent", 0), &k, &v, 0), 0);
        }
        assert_int_equal(mdb_txn_commit(txn), 0);
    }
    mdb_env_close(env);
    OK(vf_lmdb_open(&m, path, &err));
    OK(vf_lmdb_check(m, &err));
    vf_lmdb_close(m);
}

static void final_layout(void **state)
{
    enum { SOURCE, PACKED, REVERSED, BACKWARDS, AGAIN, FILES };
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        char name[16], *path[FILES];
        for (int f = 0; f < FILES; f++) {
            snprintf(name, sizeof name, "%zu-%d.lmdb", i, f);
            path[f] = vc_path_join(*state, name);
        }
        write_file(path[SOURCE], &recipes[i]);
        pack_as(path[SOURCE], path[PACKED], NULL);
        same_pairs(path[PACKED], path[SOURCE]);
        copy_backwards(path[SOURCE], path[BACKWARDS], 7 + (int)i * 100);
        pack_as(path[BACKWARDS], path[BACKWARDS], NULL);     /* a file may replace itself */
        same_bytes(path[PACKED], path[BACKWARDS]);
        pack_reversed(path[SOURCE], path[REVERSED]);
        same_pairs(path[REVERSED], path[SOURCE]);
        pack_as(path[REVERSED], path[AGAIN], NULL);
        same_bytes(path[PACKED], path[AGAIN]);
        continues(path[PACKED]);
        for (int f = 0; f < FILES; f++)
            free(path[f]);
    }
}

/* With keys this long a branch has seven children at most: of eight leaves none is left alone. */
static void layout_of_each_count(void **state)
{
    char *path = vc_path_join(*state, "f.lmdb"), *packed = vc_path_join(*state, "p.lmdb");
    MDB_env *env = open_env(path);
    uint8_t key[500] = { 0 };
    for (uint32_t n = 1; n <= 130; n++) {
        MDB_txn *txn;
        MDB_val k = { sizeof key, key }, v = { 0, key };
        key[0] = (uint8_t)n;
        assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
        open_db(txn, "sample", MDB_CREATE);
        assert_int_equal(mdb_put(txn, open_db(txn, "latent", MDB_CREATE), &k, &v, 0), 0);
        assert_int_equal(mdb_txn_commit(txn), 0);
        if (n % 8 > 1)
            continue;
        pack_as(path, packed, NULL);
        same_pairs(packed, path);
    }
    mdb_env_close(env);
    free(path);
    free(packed);
}

/* The main tree has records of trees alone: a short value there is not read as one. */
static void value_beside_the_trees(void **state)
{
    char *path = vc_path_join(*state, "f.lmdb");
    MDB_env *env = open_env(path);
    MDB_txn *txn;
    MDB_dbi main_db;
    MDB_val k = { 3, (void *)"zzz" }, v = { 1, (void *)"x" };
    vf_lmdb *m;
    vc_err err;
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    open_db(txn, "sample", MDB_CREATE);
    assert_int_equal(mdb_dbi_open(txn, NULL, 0, &main_db), 0);
    assert_int_equal(mdb_put(txn, main_db, &k, &v, 0), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
    assert_int_equal(vf_lmdb_open(&m, path, &err), 0);
    assert_int_equal(vf_lmdb_check(m, &err), VC_EFORMAT);
    assert_non_null(strstr(err.text, "flags 0x0 and 1 bytes, which is no tree's record"));
    vf_lmdb_close(m);
    free(path);
}

/* ---- the writer: batches, values replaced before a commit, a second run ---- */

static void gathered_puts(void **state)
{
    static const char *const dbs[] = { "a", "b", NULL };
    const void *v;
    size_t n;
    uint64_t bytes, count;
    vf_env *e;
    char big[100000];
    memset(big, 'x', sizeof big);
    OK(vf_env_open(&e, *state, "f.lmdb", dbs, &err));
    OK(vf_env_put(e, 0, "k", 1, "one", 3, &err));
    OK(vf_env_put(e, 1, "k", 1, big, sizeof big, &err));
    OK(vf_env_put(e, 0, "k", 1, "two", 3, &err));
    OK(vf_env_get(e, 0, "k", 1, &v, &n, &err));
    assert_string_equal(v, "two");
    assert_true(vf_env_waiting(e) > sizeof big);
    OK(vf_env_commit(e, &err));
    assert_int_equal(vf_env_waiting(e), 0);
    OK(vf_env_get(e, 0, "k", 1, &v, &n, &err));
    assert_string_equal(v, "two");
    OK(vf_env_get(e, 1, "k", 1, &v, &n, &err));
    assert_int_equal(n, sizeof big);
    assert_int_equal(vf_env_get(e, 1, "none", 4, &v, &n, NULL), VC_ENOENT);
    assert_int_equal(vf_env_put(e, 0, "", 0, "x", 1, NULL), VC_EINVAL);
    assert_int_equal(vf_env_put(e, 0, big, 512, "x", 1, NULL), VC_EINVAL);
    OK(vf_env_put(e, 0, "lost", 4, "x", 1, &err));
    vf_env_close(e);

    OK(vf_env_open(&e, *state, "f.lmdb", dbs, &err));
    assert_int_equal(vf_env_get(e, 0, "lost", 4, &v, &n, NULL), VC_ENOENT);
    OK(vf_env_count(e, 0, &count, &err));
    assert_int_equal(count, 1);
    OK(vf_env_finish(e, &bytes, &err));
    assert_true(bytes < 200000);             /* the reserved space was released */
}

/* ---- damage ---- */

static void damaged(void **state)
{
    static const recipe r = { 50, 3, 40, 3000, 30 };
    char *path = vc_path_join(*state, "f.lmdb"), *data;
    size_t n;
    write_file(path, &r);
    OK(vc_file_read(&data, &n, path, 1 << 30, &err));
    mutate_run(data, n, 7, 1500, LLVMFuzzerTestOneInput);

    /* Each field of every page's header, first offsets and first node is changed, one at a time. */
    static const uint8_t edges[] = { 0, 1, 2, 0x10, 0x7f, 0x80, 0xff };
    uint8_t *copy = malloc(n);
    uint32_t seed = 3;
    for (int i = 0; i < 3000; i++) {
        size_t page = next_random(&seed) % (n / 4096) * 4096;
        size_t at = page + (i % 3 ? next_random(&seed) % 160 : 4096 - 1 - next_random(&seed) % 300);
        memcpy(copy, data, n);
        copy[at] = edges[next_random(&seed) % sizeof edges];
        copy[at ^ 1] = edges[next_random(&seed) % sizeof edges];
        LLVMFuzzerTestOneInput(copy, n);
    }
    free(copy);
    free(data);
    free(path);
}

/* Each field of the first nodes of each page is forged, one at a time. */
static void forged_nodes(void **state)
{
    static const recipe r = { 30, 2, 40, 3000, 0 };
    static const uint16_t edges[] = { 0, 1, 0x0fff, 0x7fff, 0xffff };
    char *path = vc_path_join(*state, "f.lmdb"), *data;
    size_t n;
    write_file(path, &r);
    OK(vc_file_read(&data, &n, path, 1 << 30, &err));
    uint8_t *copy = malloc(n);               /* of exactly the file's size */
    for (size_t page = 2; page < n / 4096; page++)
        for (int node = 0; node < 3; node++) {
            size_t ptr = page * 4096 + 16 + 2 * (size_t)node;
            size_t at = page * 4096 + ((uint8_t)data[ptr] | (size_t)(uint8_t)data[ptr + 1] << 8);
            for (int field = 0; field < 5; field++) /* lo, hi, flags, key size, the offset itself */
                for (size_t e = 0; e < sizeof edges / sizeof *edges; e++) {
                    size_t where = field < 4 ? at + 2 * (size_t)field : ptr;
                    if (where + 2 > n)
                        continue;
                    memcpy(copy, data, n);
                    memcpy(copy + where, &edges[e], 2);
                    LLVMFuzzerTestOneInput(copy, n);
                }
        }
    free(copy);
    free(data);
    free(path);
}

/* A page with a gap between its nodes can be read, but liblmdb would fail when it writes there: the
 * check refuses the page. */
static void sloppy_page(void **state)
{
    static const recipe r = { 30, 2, 40, 60, 0 };
    char *path = vc_path_join(*state, "f.lmdb"), *data;
    size_t n;
    vf_lmdb *m;
    vf_tree t;
    vf_lmdb_cursor c;
    vf_bytes key, value;
    write_file(path, &r);
    OK(vc_file_read(&data, &n, path, 1 << 30, &err));
    OK(vf_lmdb_parse(&m, data, n, &err));
    OK(vf_lmdb_check(m, &err));
    OK(vf_lmdb_tree(m, "latent", &t, &err));
    assert_int_equal(t.depth, 1);
    data[t.root * 4096 + 14] = (char)(data[t.root * 4096 + 14] - 2);     /* upper */
    vf_lmdb_start(&c, m, &t);
    assert_int_equal(vf_lmdb_next(&c, &key, &value, NULL), 1);
    assert_int_equal(vf_lmdb_check(m, NULL), VC_EFORMAT);
    vf_lmdb_close(m);
    free(data);
    free(path);
}

/* Each case is a forged little-endian value at an offset in pages 0 and 1, the meta pages. */
static void refused(void **state)
{
    static const recipe r = { 500, 2, 40, 3000, 0 };
    static const struct { int at, size; uint64_t value; const char *message; } cases[] = {
        { 10, 2, 2, "meta page 0" },             { 16, 4, 1, "meta page 0" },
        { 20, 4, 2, "data of version 1" },       { 40, 4, 4095, "no LMDB file" },
        { 40, 4, 1 << 20, "no LMDB file" },      { 4096 + 16, 4, 0, "meta page 1" },
        { 92, 2, 4, "flags 0x4" },               { 94, 2, 99, "depth 99" },
        { 94, 2, 0, "depth 0" },                 { 128, 8, 1, "outside the file" },
        { 128, 8, 1u << 30, "outside the file" }, { 136, 8, 0, "last page 0" },
        { 144, 8, UINT64_MAX, "transaction" },
    };
    char *path = vc_path_join(*state, "f.lmdb"), *data;
    size_t n;
    write_file(path, &r);
    OK(vc_file_read(&data, &n, path, 1 << 30, &err));
    /* After an even number of transactions the newest meta page is page 0. */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vf_lmdb *m;
        vc_err err = { 0 };
        uint8_t *copy = malloc(n);
        memcpy(copy, data, n);
        for (int b = 0; b < cases[i].size; b++)
            copy[cases[i].at + b] = (uint8_t)(cases[i].value >> 8 * b);
        if (vf_lmdb_parse(&m, copy, n, &err) != VC_EFORMAT || !strstr(err.text, cases[i].message))
            fail_msg("case %zu: %s", i, err.text);
        assert_null(m);
        free(copy);
    }
    for (size_t cut = 0; cut < 8192; cut += 511) {
        vf_lmdb *m;
        assert_int_equal(vf_lmdb_parse(&m, data, cut, NULL), VC_EFORMAT);
    }
    free(data);
    free(path);
}

/* Two branch nodes lead to one page: a reader's walk ends, and the check refuses the file. */
static void page_reached_twice(void **state)
{
    static const recipe r = { 3000, 1, 40, 60, 0 };
    char *path = vc_path_join(*state, "f.lmdb"), *data;
    size_t n;
    vf_lmdb *m;
    vf_tree t;
    write_file(path, &r);
    OK(vc_file_read(&data, &n, path, 1 << 30, &err));
    OK(vf_lmdb_parse(&m, data, n, &err));
    OK(vf_lmdb_tree(m, "latent", &t, &err));
    assert_true(t.depth >= 2);
    uint8_t *root = (uint8_t *)data + t.root * 4096, *first = root + (root[16] | root[17] << 8);
    unsigned nodes = (unsigned)((root[12] | root[13] << 8) - 16) / 2;
    for (unsigned i = 1; i < nodes; i++)
        memcpy(root + (root[16 + 2 * i] | root[17 + 2 * i] << 8), first, 6);
    assert_int_equal(vf_lmdb_check(m, NULL), VC_EFORMAT);
    vf_lmdb_cursor c;
    vf_bytes key, value;
    int rc, steps = 0;
    vf_lmdb_start(&c, m, &t);
    while ((rc = vf_lmdb_next(&c, &key, &value, NULL)) > 0)
        assert_true(++steps < 1000000);
    vf_lmdb_close(m);
    free(data);
    free(path);
}

/* A value that is larger than the system's read-ahead is fetched whole: a reader of its pages waits
 * for no read of a single page. */
static void whole_value_is_fetched(void **state)
{
    enum { SIZE = 32 << 20, PAGE = 4096 };
    char *path = vc_path_join(*state, "value"), *data = calloc(1, SIZE);
    struct rusage before, after;
    unsigned sum = 0;
    vc_map m;
    OK(vc_file_write(path, data, SIZE, &err));
    int fd = open(path, O_RDONLY);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    close(fd);
    OK(vc_map_open(&m, path, &err));
    assert_int_equal(madvise((void *)(uintptr_t)m.data, SIZE, MADV_RANDOM), 0);
    getrusage(RUSAGE_SELF, &before);
    vf_lmdb_fetch((vf_bytes){ m.data, SIZE });
    for (size_t i = 0; i < SIZE; i += PAGE)
        sum += m.data[i];
    getrusage(RUSAGE_SELF, &after);
    assert_int_equal(sum, 0);
    assert_between(after.ru_majflt - before.ru_majflt, 0, SIZE / PAGE / 50);
    vc_map_close(&m);
    free(data);
    free(path);
}

#define FOLDER_TEST(f) cmocka_unit_test_setup_teardown(f, tmp_dir_setup, tmp_dir_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(same_as_liblmdb), FOLDER_TEST(final_layout), FOLDER_TEST(layout_of_each_count),
        FOLDER_TEST(value_beside_the_trees),
        FOLDER_TEST(gathered_puts), FOLDER_TEST(damaged),
        FOLDER_TEST(forged_nodes), FOLDER_TEST(sloppy_page), FOLDER_TEST(refused),
        FOLDER_TEST(page_reached_twice), FOLDER_TEST(whole_value_is_fetched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
