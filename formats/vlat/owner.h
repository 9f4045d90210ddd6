/* owner.h - the process that holds the lock of a place, as the name of a file there.
 *
 * A lock on another machine outlives a holder that is killed. Its name says which process made the
 * lock, so that another process of the same machine can find that the holder has ended. */
#ifndef FORMATS_VLAT_OWNER_H
#define FORMATS_VLAT_OWNER_H

#include <stdbool.h>

#include "common/base/err.h"

/* Returns the name of this process, without characters that a shell interprets; the caller frees
 * the name. NULL when out of memory. */
char *vlat_owner_self(void);
/* True if the owner was a process of this machine (and of this container) that no longer runs.
 * False for any other text. */
bool vlat_owner_gone(const char *owner);
/* Fails with VC_EBUSY: `where` is locked by `owner` (any text), in the folder `lock` there. */
int vlat_owner_busy(const char *owner, const char *where, const char *lock, vc_err *err);

#endif
