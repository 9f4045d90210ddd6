/* threads.c - stacks, spinning and number of threads; see threads.h */
#include "common/os/threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/os/limits.h"

/* ---- settings that are read at the start ---- */

/* The least size of a thread's stack in KiB. With the built-in model and codec 256 KiB were enough
 * for the main thread and FFmpeg's, 64 KiB for OpenMP's workers; 160 and 32 KiB were not. */
#define STACK_KIB 1024

static int stack_limit(bool *changed, vc_err *err)
{
    const rlim_t need = (rlim_t)STACK_KIB << 10;
    struct rlimit now;
    if (getrlimit(RLIMIT_STACK, &now) || now.rlim_cur >= need)
        return 0;
    unsigned long long kib = now.rlim_cur >> 10;
    now.rlim_cur = need;
    if (now.rlim_max < need || setrlimit(RLIMIT_STACK, &now))
        return vc_fail(err, VC_EFAIL, "stacks are limited to %llu KiB (ulimit -s) and need %d: run "
                       "\"ulimit -s %d\" first; if the hard limit forbids it, raise the hard limit "
                       "(ulimit -Hs, limits.conf, LimitSTACK=)", kib, STACK_KIB, STACK_KIB);
    *changed = true;
    return 0;
}

/* Reads a size as OpenMP does: a number and B, K, M or G (default K). False if it is large enough,
 * or text is NULL or no size. */
static bool too_small(const char *text)
{
    char *end;
    double size = text ? strtod(text, &end) : -1;
    if (size < 0 || end == text)
        return false;
    end += strspn(end, " \t");
    switch (*end | 0x20) {
    case 'b': return size < STACK_KIB * 1024.0;
    case 'm': return size * 1024 < STACK_KIB;
    case 'g': return size * 1048576 < STACK_KIB;
    default: return size < STACK_KIB;
    }
}

static int worker_stacks(bool *changed, vc_err *err)
{
    static const char *const names[] = { "OMP_STACKSIZE", "GOMP_STACKSIZE" };
    char size[16];

    snprintf(size, sizeof size, "%dK", STACK_KIB);
    for (int i = 0; i < 2; i++) {
        if (!too_small(getenv(names[i])))
            continue;
        if (setenv(names[i], size, 1))
            return vc_fail_errno(err, "%s=%s", names[i], size);
        *changed = true;
    }
    return 0;
}

/* Executes the program anew. By its own path it keeps its name in lists of processes. */
static void start_again(char **argv)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n > 0) {
        path[n] = '\0';
        execv(path, argv);
    }
    execv("/proc/self/exe", argv);               /* the file is replaced, or its folder is hidden */
}

int vc_calm_threads(char **argv, vc_err *err)
{
    bool stacks = false, spin = !getenv("OMP_WAIT_POLICY") && !getenv("GOMP_SPINCOUNT");
    int rc = stack_limit(&stacks, err);
    if (!rc)
        rc = worker_stacks(&stacks, err);
    if (rc)
        return rc;
    if (spin)
        spin = !setenv("GOMP_SPINCOUNT", "1000", 1);
    if (spin || stacks)
        start_again(argv);
    return stacks ? vc_fail_errno(err, "the stacks of threads are too small, and starting again "
                                  "with larger ones failed: run \"ulimit -s %d\" and unset "
                                  "OMP_STACKSIZE first; /proc/self/exe", STACK_KIB) : 0;
}

/* ---- the number of threads ---- */

static void *wait_for(void *lock)
{
    pthread_mutex_lock(lock);
    pthread_mutex_unlock(lock);
    return NULL;
}

int vc_can_thread(int n, vc_err *err)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_t *thread = n > 1 ? malloc((size_t)n * sizeof *thread) : NULL;
    int have = 1, why = 0;
    if (n <= 1)
        return 0;
    if (!thread)
        return vc_no_memory(err);
    pthread_mutex_lock(&lock);                 /* no thread ends before the last one has started */
    while (have < n && !(why = pthread_create(&thread[have], NULL, wait_for, &lock)))
        have++;
    pthread_mutex_unlock(&lock);
    for (int i = 1; i < have; i++)
        pthread_join(thread[i], NULL);
    free(thread);
    if (!why)
        return 0;
    return vc_fail(err, VC_EFAIL, "%d threads are wanted, but the system allows only %d (%s): ask "
                   "for fewer (--threads, OMP_NUM_THREADS), or raise its limits (ulimit -u, ulimit "
                   "-v, a control group's pids.max)", n, have, strerror(why));
}

int vc_fair_cores(int processes)
{
    cpu_set_t may;
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    bool bound = !sched_getaffinity(0, sizeof may, &may) && CPU_COUNT(&may) < all;
    const long n = bound ? CPU_COUNT(&may) : all / processes;
    const long share = vc_within_quota((int)all) / processes;   /* the quota is of all of them */
    const long least = share < n ? share : n;
    return least < 1 ? 1 : (int)least;
}
