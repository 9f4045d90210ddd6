/* identity.h - by what a file is known to be the one that was hashed: its size, times and inode. The
 * time of change (ctime) is among them: a file that is written in place may get its old time back. */
#ifndef PRECOMPUTE_RUN_IDENTITY_H
#define PRECOMPUTE_RUN_IDENTITY_H

#include <stdbool.h>

#include "formats/dataset/dataset.h"

typedef struct prep_identity {
    int64_t size, mtime_s, mtime_ns, ctime_s, ctime_ns;
    uint64_t inode;
} prep_identity;

/* Of the file at path, or of all frames in that folder; errors name it so. */
int prep_identity_of(prep_identity *is, const char *path, const char *name, vc_err *err);
/* Of a part's bytes, as if it were a file of its own; of a folder's frames. */
int prep_hash(vf_key *k, const vf_part *part, vc_err *err);
bool prep_identity_same(const prep_identity *a, const prep_identity *b);

/* Whether what was read from the open file is what had that hash when it was *is. 0: yes. 1: it may not
 * be, but the part holds the same bytes: *is says what it is now, read it again. VC_EIO: other ones. */
int prep_identity_check(prep_identity *is, vf_key hash, int fd, const vf_part *part, vc_err *err);

#endif
