/* threads.h - how many threads a process should have, and how they wait for each other. */
#ifndef VC_THREADS_H
#define VC_THREADS_H

/* libgomp's threads spin for milliseconds at the end of each loop by default. Where another process wants
 * one of the cores, the spinning thread uses up its share while the one it waits for stands in
 * line, and a step takes many times longer. The setting is read when the library is loaded, so this
 * starts the program again with a short spin, unless the environment says something already. First
 * call of main(); returns if there is nothing to do or it cannot be done. */
void vc_calm_threads(char **argv);

/* Cores for one of `processes` on this machine that do the same work: those it is bound to, or,
 * where it is bound to none, an even share. At least 1. */
int vc_fair_cores(int processes);

#endif
