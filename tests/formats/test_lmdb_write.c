/* test_lmdb_write.c - a file's final layout follows from its pairs alone, and liblmdb reads and
 * continues it; a writer's batches are read back before and after their commit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>
#include <lmdb.h>

#include "common/os/file.h"
#include "formats/lmdb/lmdb_pack.h"
#include "formats/lmdb/lmdb_read.h"
#include "formats/lmdb/lmdb_write.h"
#include "tests/formats/lmdb_made.h"
#include "tests/lib/ok.h"
#include "tests/lib/tmp_dir.h"

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

/* Writes the pairs of a file to another one by liblmdb, the last ones first, in transactions of
 * n pairs. */
static void copy_backwards(const char *from, const char *to, int n)
{
    MDB_env *a = lmdb_made_env(from), *b = lmdb_made_env(to);
    MDB_txn *get, *put = NULL;
    MDB_cursor *c;
    MDB_val k, v;
    int waiting = 0;
    assert_int_equal(mdb_txn_begin(a, NULL, MDB_RDONLY, &get), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mdb_cursor_open(get, lmdb_made_db(get, dbs_of_recipes[i], 0), &c), 0);
        for (int rc = mdb_cursor_get(c, &k, &v, MDB_LAST); !rc;
             rc = mdb_cursor_get(c, &k, &v, MDB_PREV)) {
            if (!put)
                assert_int_equal(mdb_txn_begin(b, NULL, 0, &put), 0);
            const MDB_dbi db = lmdb_made_db(put, dbs_of_recipes[i], MDB_CREATE);
            assert_int_equal(mdb_put(put, db, &k, &v, 0), 0);
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
    MDB_env *env = lmdb_made_env(path);
    assert_int_equal(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
    for (int i = 0; i < 2; i++) {
        vf_lmdb_cursor x, y;
        vf_tree t, u;
        vf_bytes key[2], value[2];
        lmdb_same_tree(m, txn, dbs_of_recipes[i]);
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
    MDB_env *env = lmdb_made_env(path);
    static uint8_t big[20000];
    vf_lmdb *m;
    for (uint32_t t = 0; t < 5; t++) {
        MDB_txn *txn;
        assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
        for (uint32_t i = 0; i < 40; i++) {
            uint32_t key[2] = { i * 977, t / 2 };
            MDB_val k = { sizeof key, key }, v = { i % 3 ? 30 : sizeof big, big };
            assert_int_equal(mdb_put(txn, lmdb_made_db(txn, "latent", 0), &k, &v, 0), 0);
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
    for (size_t i = 0; i < LMDB_RECIPES; i++) {
        char name[16], *path[FILES];
        for (int f = 0; f < FILES; f++) {
            snprintf(name, sizeof name, "%zu-%d.lmdb", i, f);
            path[f] = vc_path_join(*state, name);
        }
        lmdb_make(path[SOURCE], &lmdb_recipes[i]);
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
    MDB_env *env = lmdb_made_env(path);
    uint8_t key[500] = { 0 };
    for (uint32_t n = 1; n <= 130; n++) {
        MDB_txn *txn;
        MDB_val k = { sizeof key, key }, v = { 0, key };
        key[0] = (uint8_t)n;
        assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
        lmdb_made_db(txn, "sample", MDB_CREATE);
        assert_int_equal(mdb_put(txn, lmdb_made_db(txn, "latent", MDB_CREATE), &k, &v, 0), 0);
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

#define FOLDER_TEST(f) cmocka_unit_test_setup_teardown(f, tmp_dir_setup, tmp_dir_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(final_layout), FOLDER_TEST(layout_of_each_count), FOLDER_TEST(gathered_puts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
