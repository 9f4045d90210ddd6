/* threads.h - the threads of a process: their stacks, their spinning and their number. */
#ifndef COMMON_OS_THREADS_H
#define COMMON_OS_THREADS_H

#include "common/base/err.h"

/* Called by main() before any thread starts: changes settings that are read when a program or a
 * library is loaded, and executes the program anew in the same process. Returns if no setting had
 * to change.
 *
 * By default libgomp's threads spin for milliseconds at the end of each loop. If another process
 * wants one of the cores, the spinning thread uses up its time slice while the thread that it waits
 * for is not scheduled, and a step takes many times longer. So the spin is shortened, unless the
 * environment sets it.
 *
 * Stacks that are too small for kernels, oneDNN and FFmpeg end in a segmentation fault, so the soft
 * limit (ulimit -s) and OMP_STACKSIZE are raised to 1 MiB. VC_EFAIL if they cannot be raised: the
 * text has the limit, its value and the remedy. */
int vc_calm_threads(char **argv, vc_err *err);

/* Checks that the process can have n threads at once, the caller included, because OpenMP aborts
 * the process if it cannot start a thread. VC_EFAIL names the possible number and the limits. */
int vc_can_thread(int n, vc_err *err);

/* Returns the cores for one of `processes` processes of this machine that do the same work: the
 * cores that it is bound to, or an even share if it is not bound, and no more than its share of the
 * quota that a control group has (limits.h). At least 1. */
int vc_fair_cores(int processes);

#endif
