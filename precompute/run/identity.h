/* identity.h - the size, times and inode of a file, which show whether it is still the file that
 * was hashed. The time of change (ctime) is one of them, since a program that writes a file in
 * place may restore its time of modification. */
#ifndef PRECOMPUTE_RUN_IDENTITY_H
#define PRECOMPUTE_RUN_IDENTITY_H

#include <stdbool.h>

#include "formats/dataset/dataset.h"

typedef struct prep_identity {
    int64_t size, mtime_s, mtime_ns, ctime_s, ctime_ns;
    uint64_t inode;
} prep_identity;

/* The identity of the file at path, or of all frames in that folder; errors begin with `name`. */
int prep_identity_of(prep_identity *is, const char *path, const char *name, vc_err *err);
/* The hash of a part's bytes, as if they were a file, or of a folder's frames. Where older versions
 * of this program saw other pixels in a still (media_reading), it is another hash than theirs, so
 * that no value of theirs is reused. */
int prep_hash(vf_key *k, const vf_part *part, vc_err *err);
/* A file's hash as keys of values have it. The frames of a reordered video (media_info) once came
 * in another order, so it has a hash of its own. */
vf_key prep_shown(vf_key hash, bool reordered);
bool prep_identity_same(const prep_identity *a, const prep_identity *b);

/* Whether the bytes read from the open file have the hash that the file had as *is. 0: yes. 1: it
 * is another file, but the part has that hash: *is becomes its identity, and the caller reads the
 * part again. VC_EIO: the part has other bytes. */
int prep_identity_check(prep_identity *is, vf_key hash, int fd, const vf_part *part, vc_err *err);

#endif
