/* lock.h - locks on files, by which processes that write one folder keep out of each other's way.
 *
 * A lock is an flock: closing its descriptor, or dying, gives it back. What is locked is the file
 * that has the path's name at the end of the call: one that is removed or renamed between the
 * opening and the locking is let go, and the new one is taken. So a process that holds the lock on
 * a file may remove it, or exchange the folder around it, without letting two others in at once;
 * nobody else may. */
#ifndef COMMON_OS_LOCK_H
#define COMMON_OS_LOCK_H

#include "common/base/err.h"

/* Takes an exclusive lock on path (made if needed) and returns the descriptor in *fd, -1 on
 * failure. VC_EBUSY if another process holds it: the text names that process where the system tells it. */
int vc_lock_file(int *fd, const char *path, vc_err *err);
/* The same, but waits for whoever holds it. */
int vc_lock_wait(int *fd, const char *path, vc_err *err);

#endif
