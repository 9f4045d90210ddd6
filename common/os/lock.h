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
typedef struct vc_lock_patience {
    double seconds;              /* until the wait ends with VC_EBUSY; 0: without end */
    vc_progress *ui;             /* gets a warning that names the holder, after half of these seconds
                                  * or 30, whichever is less, and at each doubling; NULL: silent */
    int (*look)(void *arg, vc_err *err);     /* called again and again: its failure ends the wait;
                                              * may be NULL */
    void *arg;
} vc_lock_patience;
/* The same, but waits until the holder releases the lock. Its host and process are then written to
 * the file, for those that wait on other machines. With a patience, the wait ends early if the
 * process shall stop (progress.h) and the holder is still not done at the time of the warning.
 * p NULL: waits without end, and writes nothing. */
int vc_lock_wait(int *fd, const char *path, const vc_lock_patience *p, vc_err *err);
/* Returns true if another process holds the lock on path, which must exist; holder describes that
 * process, or is empty if the system does not show it. */
enum { VC_LOCK_HOLDER = 400 };
bool vc_lock_held(char holder[VC_LOCK_HOLDER], const char *path);

#endif
