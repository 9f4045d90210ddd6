/* lmdb_write.h - writes one LMDB file: puts are collected and written in one transaction.
 *
 * liblmdb opens only files that vf_lmdb_check has passed. The map grows in steps and space is
 * reserved on disk before a transaction, so that a transaction meets neither a full map nor, on
 * most file systems, a full disk. There is no write map and no lock file: the caller holds the
 * dataset's lock. A commit is durable when it returns. After an error of put or commit the handle
 * can only be closed. One thread at a time may use a handle. */
#ifndef FORMATS_DATASET_LMDB_WRITE_H
#define FORMATS_DATASET_LMDB_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

typedef struct vf_env vf_env;

/* Opens or makes dir/file with the sub-databases of `dbs` (NULL-ended, at most VF_ENV_DBS).
 * VC_EFORMAT: the file is damaged. A file whose making was interrupted is made again. */
enum { VF_ENV_DBS = 4 };
int vf_env_open(vf_env **out, const char *dir, const char *file, const char *const *dbs,
                vc_err *err);
/* From now on a commit need not be durable when it returns: after a crash of the system the file
 * may be damaged. For values that can be had again. */
void vf_env_lazy(vf_env *e);
/* Frees e, which may be NULL; puts that were not committed are lost. */
void vf_env_close(vf_env *e);

/* Puts a copy of key and value; a later put of the same key replaces the value. db is an index into
 * `dbs`. */
int vf_env_put(vf_env *e, int db, const void *key, size_t key_size, const void *value, size_t size,
               vc_err *err);
/* Gets the value as it would be after a commit, with a NUL after its end, borrowed until the next
 * call. VC_ENOENT: no such key. */
int vf_env_get(vf_env *e, int db, const void *key, size_t key_size, const void **value,
               size_t *size, vc_err *err);
int vf_env_commit(vf_env *e, vc_err *err);

uint64_t vf_env_waiting(const vf_env *e);        /* bytes waiting for a commit */
int vf_env_count(vf_env *e, int db, uint64_t *n, vc_err *err);   /* committed entries */

/* Commits, truncates reserved space, makes the file durable and closes it; *bytes is its size. e is
 * freed even when the function fails. */
int vf_env_finish(vf_env *e, uint64_t *bytes, vc_err *err);

#endif
