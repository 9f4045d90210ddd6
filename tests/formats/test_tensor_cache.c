/* test_tensor_cache.c - diffusion-pipe's container: values that are read, and databases that are
 * damaged, forged or made to keep the reader busy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "formats/peers/tensor_cache.h"
#include "tests/lib/mutate.h"
#include "tests/lib/tmp_dir.h"

#define ITEMS "CREATE TABLE items(shard, shard_index);"
#define SHARD "CREATE TABLE shard_0(offset, size);"
#define ONE ITEMS SHARD "INSERT INTO items VALUES(0,0);"

/* Makes a cache: metadata.db by this SQL, and shard_0.bin with two items of torch.save, one after
 * the other. Returns the size of an item. */
static size_t make_cache(const char *dir, const char *sql)
{
    char path[TMP_DIR + 32], *data;
    size_t n;
    sqlite3 *db;
    const vf_pt_value one = { .kind = VF_PT_INT, .i = 42 };
    assert_int_equal(vf_pt_pack(&data, &n, &one, NULL), 0);
    snprintf(path, sizeof path, "%s/shard_0.bin", dir);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(data, 1, n, f);
    fwrite(data, 1, n, f);
    assert_int_equal(fclose(f), 0);
    free(data);
    snprintf(path, sizeof path, "%s/metadata.db", dir);
    remove(path);
    assert_int_equal(sqlite3_open(path, &db), 0);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), 0);
    sqlite3_close(db);
    return n;
}

static void test_reads(void **state)
{
    char sql[300];
    vf_tensor_cache *c;
    vf_pt *p;
    size_t n = make_cache(*state, ITEMS);
    snprintf(sql, sizeof sql, ITEMS SHARD "INSERT INTO items VALUES(0,1),(0,0);"
             "INSERT INTO shard_0 VALUES(0,%zu),(%zu,%zu)", n, n, n);
    make_cache(*state, sql);
    assert_int_equal(vf_tensor_cache_open(&c, *state, NULL), 0);
    assert_int_equal(vf_tensor_cache_count(c), 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(vf_tensor_cache_get(c, i, &p, NULL), 0);
        assert_int_equal(vf_pt_root(p)->i, 42);
        vf_pt_close(p);
    }
    vf_tensor_cache_close(c);
}

static void test_refuses(void **state)
{
    static const struct { const char *sql, *message; } rows[] = {
        { "PRAGMA journal_mode=WAL;" ITEMS, "in WAL mode" },
        { "CREATE TABLE other(a);", "items: no such table" },
        { ITEMS "INSERT INTO items VALUES(0,0);", "shard_0: no such table" },
        { ONE, "item 0: row 0 of shard_0" },
        { ITEMS SHARD "INSERT INTO items VALUES(0,-1); INSERT INTO shard_0 VALUES(0,1);",
          "row -1" },
        { ITEMS "INSERT INTO items VALUES(-1,0);", "shard -1" },
        { ITEMS "INSERT INTO items VALUES(70000,0);", "shard 70000" },
        { ITEMS "INSERT INTO items VALUES('a',0);", "items: integers expected" },
        { ONE "INSERT INTO shard_0 VALUES(0,99999);", "cut short" },
        { ONE "INSERT INTO shard_0 VALUES(99999,0);", "cut short" },
        { ONE "INSERT INTO shard_0 VALUES(-1,1);", "cut short" },
        { ONE "INSERT INTO shard_0 VALUES(9223372036854775807,9223372036854775807);", "cut short" },
        { ITEMS "CREATE TABLE shard_1(offset, size); INSERT INTO items VALUES(1,0);",
          "shard_1.bin" },
        { "CREATE VIEW items AS WITH RECURSIVE n(shard, shard_index, rowid) AS "
          "(SELECT 0, 0, 0 UNION ALL SELECT 0, 0, 0 FROM n) SELECT * FROM n;", "far more work" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vf_tensor_cache *c;
        vc_err err = { 0 };
        make_cache(*state, rows[i].sql);
        assert_int_not_equal(vf_tensor_cache_open(&c, *state, &err), 0);
        assert_null(c);
        if (!strstr(err.text, rows[i].message))
            fail_msg("row %zu: \"%s\" expected in \"%s\"", i, rows[i].message, err.text);
    }
}

static void test_damage(void **state)
{
    char path[TMP_DIR + 32];
    vc_map m;
    make_cache(*state,
               ONE "INSERT INTO items VALUES(0,1); INSERT INTO shard_0 VALUES(0,100),(100,200)");
    snprintf(path, sizeof path, "%s/metadata.db", (const char *)*state);
    assert_int_equal(vc_map_open(&m, path, NULL), 0);
    mutate_run(m.data, m.size, 7, 2000, LLVMFuzzerTestOneInput);
    vc_map_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reads, tmp_dir_setup, tmp_dir_teardown),
        cmocka_unit_test_setup_teardown(test_refuses, tmp_dir_setup, tmp_dir_teardown),
        cmocka_unit_test_setup_teardown(test_damage, tmp_dir_setup, tmp_dir_teardown),
    };
    return cmocka_run_group_tests_name("tensor_cache", tests, NULL, NULL);
}
