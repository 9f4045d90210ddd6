/* beside.h - a job in a thread of its own beside the steps: hashing weights, for which no step
 * waits. One thread starts, waits and stops; all zeros is a job that was never started. */
#ifndef TRAIN_BESIDE_H
#define TRAIN_BESIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/base/err.h"

typedef struct vtrain_beside {
    void (*work)(void *arg, const atomic_int *stop);
    void *arg;                                /* the job's alone until it has ended */
    pthread_t thread;
    bool started;
    atomic_bool done;
    atomic_int stop;
} vtrain_beside;

/* work returns early once *stop is not 0. VC_EFAIL: the system gives no thread. */
int vtrain_beside_start(vtrain_beside *b, void (*work)(void *arg, const atomic_int *stop),
                        void *arg, vc_err *err);
/* Waits for the job's end, but no longer than until *unless is not 0 (NULL: however long). */
void vtrain_beside_wait(vtrain_beside *b, const atomic_int *unless);
/* True once after the job's end, when its results are there to be taken. */
bool vtrain_beside_ended(vtrain_beside *b);
/* Asks the job to stop, and waits for its end. */
void vtrain_beside_stop(vtrain_beside *b);

#endif
