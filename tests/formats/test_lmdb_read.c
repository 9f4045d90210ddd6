/* test_lmdb_read.c - the reader of LMDB files reads the same pairs as liblmdb from files that
 * liblmdb wrote in many ways; the check of all pages passes each of them and refuses each kind of
 * damage. */
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
#include <unistd.h>

#include <cmocka.h>
#include <lmdb.h>

#include "common/os/file.h"
#include "common/os/map.h"
#include "formats/lmdb/lmdb_read.h"
#include "tests/formats/lmdb_made.h"
#include "tests/lib/mutate.h"
#include "tests/lib/ok.h"
#include "tests/lib/shards_make.h"
#include "tests/lib/tmp_dir.h"

/* ---- the same pairs as liblmdb ---- */

static void compare_misses(const vf_lmdb *m, MDB_txn *txn, const char *name)
{
    MDB_dbi db;
    vf_tree t;
    uint32_t seed = 99;
    assert_int_equal(mdb_dbi_open(txn, name, 0, &db), 0);
    OK(vf_lmdb_tree(m, name, &t, &err));
    for (int i = 0; i < 500; i++) {
        uint32_t key[2] = { lmdb_random(&seed), lmdb_random(&seed) };
        MDB_val k = { 1 + (unsigned)i % 8, key }, v;
        vf_bytes value;
        assert_int_equal(vf_lmdb_get(m, &t, key, k.mv_size, &value, NULL) == 0,
                         mdb_get(txn, db, &k, &v) == 0);
    }
}

static void same_as_liblmdb(void **state)
{
    for (size_t i = 0; i < LMDB_RECIPES; i++) {
        char name[16];
        snprintf(name, sizeof name, "%zu.lmdb", i);
        char *path = vc_path_join(*state, name);
        vf_lmdb *m;
        vf_tree t;
        MDB_txn *txn;
        lmdb_make(path, &lmdb_recipes[i]);
        OK(vf_lmdb_open(&m, path, &err));
        vc_err err = { 0 };
        if (vf_lmdb_check(m, &err))
            fail_msg("recipe %zu: %s", i, err.text);
        MDB_env *env = lmdb_made_env(path);
        assert_int_equal(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
        lmdb_same_tree(m, txn, "latent");
        lmdb_same_tree(m, txn, "sample");
        compare_misses(m, txn, "sample");
        assert_int_equal(vf_lmdb_tree(m, "thumb", &t, NULL), VC_ENOENT);
        mdb_txn_abort(txn);
        mdb_env_close(env);
        vf_lmdb_close(m);
        free(path);
    }
}

/* ---- damage ---- */

/* The main tree has records of trees alone: a short value there is not read as one. */
static void value_beside_the_trees(void **state)
{
    char *path = vc_path_join(*state, "f.lmdb");
    MDB_env *env = lmdb_made_env(path);
    MDB_txn *txn;
    MDB_dbi main_db;
    MDB_val k = { 3, (void *)"zzz" }, v = { 1, (void *)"x" };
    vf_lmdb *m;
    vc_err err;
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    lmdb_made_db(txn, "sample", MDB_CREATE);
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

static void damaged(void **state)
{
    static const lmdb_recipe r = { 50, 3, 40, 3000, 30 }, small = { 8, 2, 20, 300, 30 };
    char *path = vc_path_join(*state, "f.lmdb"), *data;
    size_t n;
    lmdb_make(path, &small);
    OK(vc_file_read(&data, &n, path, 1 << 30, &err));
    mutate_run(data, n, 6, 1500, LLVMFuzzerTestOneInput);
    free(data);
    char *set = vc_path_join(*state, "set"), *shard = vc_path_join(set, "shard-00000.lmdb");
    OK(make_dataset(set, 1, 1 << 30, &err));             /* has an index */
    OK(vc_file_read(&data, &n, shard, 1 << 30, &err));
    mutate_run(data, n, 5, 1500, LLVMFuzzerTestOneInput);
    free(data);
    free(shard);
    free(set);
    lmdb_make(path, &r);
    OK(vc_file_read(&data, &n, path, 1 << 30, &err));
    mutate_run(data, n, 7, 1500, LLVMFuzzerTestOneInput);

    /* Each field of every page's header, first offsets and first node is changed, one at a time. */
    static const uint8_t edges[] = { 0, 1, 2, 0x10, 0x7f, 0x80, 0xff };
    uint8_t *copy = malloc(n);
    uint32_t seed = 3;
    for (int i = 0; i < 3000; i++) {
        size_t page = lmdb_random(&seed) % (n / 4096) * 4096;
        size_t at = page + (i % 3 ? lmdb_random(&seed) % 160 : 4096 - 1 - lmdb_random(&seed) % 300);
        memcpy(copy, data, n);
        copy[at] = edges[lmdb_random(&seed) % sizeof edges];
        copy[at ^ 1] = edges[lmdb_random(&seed) % sizeof edges];
        LLVMFuzzerTestOneInput(copy, n);
    }
    free(copy);
    free(data);
    free(path);
}

/* Each field of the first nodes of each page is forged, one at a time. */
static void forged_nodes(void **state)
{
    static const lmdb_recipe r = { 30, 2, 40, 3000, 0 };
    static const uint16_t edges[] = { 0, 1, 0x0fff, 0x7fff, 0xffff };
    char *path = vc_path_join(*state, "f.lmdb"), *data;
    size_t n;
    lmdb_make(path, &r);
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
    static const lmdb_recipe r = { 30, 2, 40, 60, 0 };
    char *path = vc_path_join(*state, "f.lmdb"), *data;
    size_t n;
    vf_lmdb *m;
    vf_tree t;
    vf_lmdb_cursor c;
    vf_bytes key, value;
    lmdb_make(path, &r);
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
    static const lmdb_recipe r = { 500, 2, 40, 3000, 0 };
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
    lmdb_make(path, &r);
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
    static const lmdb_recipe r = { 3000, 1, 40, 60, 0 };
    char *path = vc_path_join(*state, "f.lmdb"), *data;
    size_t n;
    vf_lmdb *m;
    vf_tree t;
    lmdb_make(path, &r);
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
        FOLDER_TEST(same_as_liblmdb), FOLDER_TEST(value_beside_the_trees), FOLDER_TEST(damaged),
        FOLDER_TEST(forged_nodes), FOLDER_TEST(sloppy_page), FOLDER_TEST(refused),
        FOLDER_TEST(page_reached_twice), FOLDER_TEST(whole_value_is_fetched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
