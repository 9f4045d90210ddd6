/* lock.h - file locks that keep two processes from writing one folder at the same time.
 *
 * A lock is an flock, released when its descriptor is closed or the process dies. The locked file
 * is the one that path names at the end of the call: a file that is removed or renamed between
 * open() and flock() is closed, and the new one is locked. So the holder of a file's lock, and only
 * the holder, may remove the file or replace its folder: two other processes still cannot hold the
 * lock at once. */
#ifndef COMMON_OS_LOCK_H
#define COMMON_OS_LOCK_H

#include <stdbool.h>

#include "common/base/err.h"
#include "common/os/progress.h"

/* Takes an exclusive lock on path (made if needed) and returns the descriptor in *fd, -1 on
 * failure. VC_EBUSY if another process holds the lock; the text names that process if the system
 * shows its number. */
int vc_lock_file(int *fd, const char *path, vc_err *err);
/* The same, but waits until the holder releases the lock. */
int vc_lock_wait(int *fd, const char *path, vc_err *err);
/* Takes a lock on an open file or folder without waiting, one that other processes share or an
 * exclusive one; path names it in errors. VC_EBUSY: another process holds it. */
int vc_lock_open(int fd, bool shared, const char *path, vc_err *err);
/* Returns true if another process holds the lock on path, which must exist; holder describes that
 * process, or is empty if the system does not show it. */
enum { VC_LOCK_HOLDER = 400 };
bool vc_lock_held(char holder[VC_LOCK_HOLDER], const char *path);

/* Some file systems have no locks: Lustre as it is often mounted, NFS without its daemon, some of
 * FUSE. There the functions above do as if no other process were there. vc_lock_missing returns
 * whether this has happened in this process, and vc_lock_say_missing warns of it, with the file. */
bool vc_lock_missing(void);
void vc_lock_say_missing(vc_progress *p);

#endif
