/* beside.h - a job in a background thread, such as hashing weights, for which no step waits. One
 * thread starts the job, waits for its end and stops it; all zeros is a job never started. */
#ifndef TRAIN_SETUP_BESIDE_H
#define TRAIN_SETUP_BESIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/base/err.h"

typedef struct vtrain_beside {
    void (*work)(void *arg, const atomic_int *stop);
    void *arg;                                /* only the job may use it until the job has ended */
    pthread_t thread;
    bool started;
    atomic_bool done;
    atomic_int stop;
} vtrain_beside;

/* Starts work(arg, stop) in a thread; work returns early once *stop is not 0. VC_EFAIL: no thread
 * could be created. */
int vtrain_beside_start(vtrain_beside *b, void (*work)(void *arg, const atomic_int *stop),
                        void *arg, vc_err *err);
/* Waits until the job has ended, or until *unless is not 0 (unless may be NULL). */
void vtrain_beside_wait(vtrain_beside *b, const atomic_int *unless);
/* Returns true once, after the job's end: the caller may then read its results. */
bool vtrain_beside_ended(vtrain_beside *b);
/* Asks the job to stop, and waits for its end. */
void vtrain_beside_stop(vtrain_beside *b);

#endif
