/* beside.c - a job in a background thread; see beside.h */
#include "train/setup/beside.h"

#include <time.h>

enum { NAP = 2000000 };                       /* ns */

static void *run(void *arg)
{
    vtrain_beside *b = arg;
    b->work(b->arg, &b->stop);
    atomic_store(&b->done, true);
    return NULL;
}

int vtrain_beside_start(vtrain_beside *b, void (*work)(void *arg, const atomic_int *stop),
                        void *arg, vc_err *err)
{
    b->work = work;
    b->arg = arg;
    atomic_store(&b->done, false);
    if (pthread_create(&b->thread, NULL, run, b))
        return vc_fail(err, VC_EFAIL, "cannot start a thread");
    b->started = true;
    return 0;
}

void vtrain_beside_wait(vtrain_beside *b, const atomic_int *unless)
{
    const struct timespec nap = { .tv_nsec = NAP };
    while (b->started && !atomic_load(&b->done) && !(unless && *unless))
        nanosleep(&nap, NULL);
}

bool vtrain_beside_ended(vtrain_beside *b)
{
    if (!b->started || !atomic_load(&b->done))
        return false;
    pthread_join(b->thread, NULL);
    b->started = false;
    return true;
}

void vtrain_beside_stop(vtrain_beside *b)
{
    b->stop = 1;
    if (b->started)
        pthread_join(b->thread, NULL);
    b->started = false;
}
