/* threads.h - what a process's threads need of the system, how many it should have, and how they wait
 * for each other. */
#ifndef COMMON_OS_THREADS_H
#define COMMON_OS_THREADS_H

#include "common/base/err.h"

/* First call of main(): settings that are read when a program or a library is loaded, for which this
 * starts the program again in its own place. Returns where there is nothing to change.
 *
 * libgomp's threads spin for milliseconds at the end of each loop by default. Where another process wants
 * one of the cores, the spinning thread uses up its share while the one it waits for stands in line, and
 * a step takes many times longer: they get a short spin, unless the environment says something.
 *
 * Stacks smaller than kernels, oneDNN and FFmpeg need end in a segmentation fault: the soft limit
 * (ulimit -s) and OMP_STACKSIZE are raised to 1 MiB. VC_EFAIL where that cannot be done: the limit, its
 * value and what to do. */
int vc_calm_threads(char **argv, vc_err *err);

/* Whether the process can have n threads at once, the caller among them, which OpenMP only finds out by
 * ending the process. VC_EFAIL says how many it can have and which limits to look at. */
int vc_can_thread(int n, vc_err *err);

/* Cores for one of `processes` on this machine that do the same work: those it is bound to, or,
 * where it is bound to none, an even share. At least 1. */
int vc_fair_cores(int processes);

#endif
