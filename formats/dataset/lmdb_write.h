/* lmdb_write.h - one LMDB file being written: puts are gathered and go to disk in one transaction.
 *
 * liblmdb gets no file that vf_lmdb_check has not passed. The map grows in steps and space is
 * reserved on disk before a transaction, so that neither a full map nor, on most file systems, a
 * full disk is met inside it. No write map, no lock file: the caller holds the dataset's lock. A
 * commit is durable when it returns. After an error of put or commit the handle only closes. One
 * thread at a time. */
#ifndef FORMATS_DATASET_LMDB_WRITE_H
#define FORMATS_DATASET_LMDB_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

typedef struct vf_env vf_env;

/* Opens or makes dir/file with the sub-databases of `dbs` (NULL-ended, at most VF_ENV_DBS).
 * VC_EFORMAT: what is there is damaged. A file that was never finished being made is made anew. */
enum { VF_ENV_DBS = 4 };
int vf_env_open(vf_env **out, const char *dir, const char *file, const char *const *dbs,
                vc_err *err);
/* Gives back everything; what was not committed is lost. NULL is fine. */
void vf_env_close(vf_env *e);

/* Copies key and value; a later put of the same key replaces. db: place in `dbs`. */
int vf_env_put(vf_env *e, int db, const void *key, size_t key_size, const void *value, size_t size,
               vc_err *err);
/* The value as it would be after a commit, with a NUL after its end, borrowed until the next call.
 * VC_ENOENT. */
int vf_env_get(vf_env *e, int db, const void *key, size_t key_size, const void **value,
               size_t *size, vc_err *err);
int vf_env_commit(vf_env *e, vc_err *err);

uint64_t vf_env_bytes(const vf_env *e);          /* in use on disk and waiting for a commit */
uint64_t vf_env_waiting(const vf_env *e);        /* the latter alone */
int vf_env_count(vf_env *e, int db, uint64_t *n, vc_err *err);   /* committed entries */

/* Commits, cuts off reserved space, makes the file durable and closes it; *bytes is its size.
 * e is gone in every case. */
int vf_env_finish(vf_env *e, uint64_t *bytes, vc_err *err);

#endif
