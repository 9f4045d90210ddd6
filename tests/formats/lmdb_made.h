/* lmdb_made.h - LMDB files that liblmdb writes in many ways, for the tests of our reader and writer
 * of such files. Failures end the test. */
#ifndef TESTS_FORMATS_LMDB_MADE_H
#define TESTS_FORMATS_LMDB_MADE_H

#include <stdint.h>

#include <lmdb.h>

#include "formats/lmdb/lmdb_read.h"

/* How a file is made: in each transaction `keys` pairs are put, or removed, by turns in the trees
 * "latent" and "sample". */
typedef struct lmdb_recipe {
    int keys, transactions;
    unsigned key_size, value_size;           /* the greatest sizes */
    int removed;                             /* percentage of pairs that are removed again */
} lmdb_recipe;
enum { LMDB_RECIPES = 9 };
extern const lmdb_recipe lmdb_recipes[LMDB_RECIPES];

/* The same pairs each time. */
void lmdb_make(const char *path, const lmdb_recipe *r);
/* Opens a file in liblmdb, without a lock. */
MDB_env *lmdb_made_env(const char *path);
MDB_dbi lmdb_made_db(MDB_txn *txn, const char *name, unsigned flags);

/* The tree of our reader has liblmdb's pairs in their order, and finds each by its key. */
void lmdb_same_tree(const vf_lmdb *m, MDB_txn *txn, const char *name);
/* 24 bits of a sequence that *s continues. */
uint32_t lmdb_random(uint32_t *s);

#endif
