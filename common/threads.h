/* threads.h - how the kernels' threads wait for each other. */
#ifndef VC_THREADS_H
#define VC_THREADS_H

/* libgomp's threads spin for milliseconds at the end of each loop by default. Where another process wants
 * one of the cores, the spinning thread uses up its share while the one it waits for stands in
 * line, and a step takes many times longer. The setting is read when the library is loaded, so this
 * starts the program again with a short spin, unless the environment says something already. First
 * call of main(); returns if there is nothing to do or it cannot be done. */
void vc_calm_threads(char **argv);

#endif
