/* lmdb_made.c - see lmdb_made.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/formats/lmdb_made.h"
#include "tests/lib/ok.h"

uint32_t lmdb_random(uint32_t *s)
{
    *s = *s * 1664525 + 1013904223;
    return *s >> 8;
}

const lmdb_recipe lmdb_recipes[LMDB_RECIPES] = {
    { 0, 1, 8, 8, 0 },          { 1, 1, 8, 8, 0 },            { 10, 3, 30, 3000, 0 },
    { 3000, 1, 40, 60, 0 },     { 2000, 15, 300, 2500, 20 },  { 1000, 20, 16, 9000, 60 },
    { 200, 10, 500, 60000, 30 }, { 20000, 3, 12, 4, 90 },      { 1500, 20, 40, 2030, 100 },
};

static int put_or_remove(MDB_txn *txn, MDB_dbi db, const lmdb_recipe *r, uint32_t *seed)
{
    static uint8_t value[65536];
    uint8_t key[512];
    uint32_t id = lmdb_random(seed) % (uint32_t)(r->keys + 1);
    MDB_val k = { 4 + id % (r->key_size - 3), key },
            v = { lmdb_random(seed) % (r->value_size + 1), value };
    memset(key, (int)(id * 7), sizeof key);
    snprintf((char *)key + k.mv_size - 4, 5, "%03x", id & 0xfff);
    memcpy(key, &id, 4);
    memset(value, (int)lmdb_random(seed), v.mv_size);
    if ((int)(lmdb_random(seed) % 100) < r->removed) {
        int rc = mdb_del(txn, db, &k, NULL);
        return rc == MDB_NOTFOUND ? 0 : rc;
    }
    return mdb_put(txn, db, &k, &v, 0);
}

MDB_env *lmdb_made_env(const char *path)
{
    MDB_env *env;
    assert_int_equal(mdb_env_create(&env), 0);
    mdb_env_set_maxdbs(env, 4);
    mdb_env_set_mapsize(env, 1 << 30);
    assert_int_equal(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0666), 0);
    return env;
}

void lmdb_make(const char *path, const lmdb_recipe *r)
{
    MDB_env *env = lmdb_made_env(path);
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

MDB_dbi lmdb_made_db(MDB_txn *txn, const char *name, unsigned flags)
{
    MDB_dbi db;
    assert_int_equal(mdb_dbi_open(txn, name, flags, &db), 0);
    return db;
}

void lmdb_same_tree(const vf_lmdb *m, MDB_txn *txn, const char *name)
{
    MDB_dbi db;
    MDB_cursor *theirs;
    MDB_val k, v;
    MDB_stat st;
    vf_tree t;
    vf_lmdb_cursor ours, sizes;
    vf_bytes key, value, found;
    uint64_t n = 0;
    size_t size;
    assert_int_equal(mdb_dbi_open(txn, name, 0, &db), 0);
    assert_int_equal(mdb_cursor_open(txn, db, &theirs), 0);
    mdb_stat(txn, db, &st);
    OK(vf_lmdb_tree(m, name, &t, &err));
    assert_int_equal(t.entries, st.ms_entries);
    vf_lmdb_start(&ours, m, &t);
    vf_lmdb_start(&sizes, m, &t);
    sizes.ahead = true;
    while (!mdb_cursor_get(theirs, &k, &v, MDB_NEXT)) {
        assert_int_equal(vf_lmdb_next_size(&sizes, &key, &size, NULL), 1);
        assert_memory_equal(key.data, k.mv_data, k.mv_size);
        assert_int_equal(size, v.mv_size);
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
    assert_int_equal(vf_lmdb_next_size(&sizes, &key, &size, NULL), 0);
    assert_int_equal(n, t.entries);
    mdb_cursor_close(theirs);
}
