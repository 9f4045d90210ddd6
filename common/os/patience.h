/* patience.h - locks (lock.h) that are waited for, but not in silence and not for ever. */
#ifndef COMMON_OS_PATIENCE_H
#define COMMON_OS_PATIENCE_H

#include "common/os/progress.h"

typedef struct vc_patience {
    double seconds;              /* until the wait ends with VC_EBUSY; 0: without end */
    vc_progress *ui;             /* gets a warning that names the holder, after half of these
                                  * seconds or 30, whichever is less, and at each doubling; NULL:
                                  * silent */
    int (*look)(void *arg, vc_err *err);         /* called again and again: its failure ends the
                                                  * wait; may be NULL */
    void *arg;
} vc_patience;

/* Takes an exclusive lock on path (made if needed), as vc_lock_file does, but waits while another
 * process holds it. Then the file names this host and process, for those that wait on other
 * machines. The wait ends already at the time of the warning if the process shall stop. */
int vc_lock_patiently(int *fd, const char *path, const vc_patience *p, vc_err *err);

#endif
