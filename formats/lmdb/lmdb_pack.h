/* lmdb_pack.h - lays an LMDB file's pairs out anew: the bytes of the new file depend on the pairs
 * alone, not on the order and the transactions in which they were written, nor on the version of
 * liblmdb.
 *
 *     page 0, 1       meta pages; the second counts
 *     values          those that lie in overflow pages: of one sub-database after the other, in the
 *                     order that the caller gives, else in key order
 *     trees           of one sub-database after the other: leaves in key order, each as full as it
 *                     gets, then a level of branches after the other up to the root
 *     main tree       one leaf
 *
 * There are no free pages, and what no value fills is zero. The page size is that of the source.
 * The file is written from its first byte to its last, and hashed on the way. */
#ifndef FORMATS_DATASET_LMDB_PACK_H
#define FORMATS_DATASET_LMDB_PACK_H

#include "formats/lmdb/lmdb_read.h"
#include "formats/keys/keys.h"

/* The order of a sub-database's values in the file. */
typedef struct vf_pack_order {
    const char *db;
    const uint32_t *at;                      /* places of the values in key order, each once */
    uint64_t n;                              /* number of pairs in db */
} vf_pack_order;

/* Makes a file with the sub-databases `dbs` (NULL-ended; a missing one is empty) of `from`, and
 * replaces the file at path by it; that may be the file of `from`, whose map stays valid. order may
 * be NULL. *bytes is the new file's size, *hash the hash of the whole file. The replacement is
 * durable when the caller has synced the folder. VC_EFULL: no room for a second file, found before
 * its first byte is written; VC_EFORMAT, VC_ETORN: the source is damaged. The file at path is
 * unchanged then. */
int vf_lmdb_pack(const vf_lmdb *from, const char *const *dbs, const vf_pack_order *order,
                 const char *path, uint64_t *bytes, vf_key *hash, vc_err *err);

#endif
