/* threads.c - see threads.h */
#include "common/threads.h"

#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

void vc_calm_threads(char **argv)
{
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT"))
        return;
    if (!setenv("GOMP_SPINCOUNT", "1000", 1))
        execv("/proc/self/exe", argv);
}

int vc_fair_cores(int processes)
{
    cpu_set_t may;
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    bool bound = !sched_getaffinity(0, sizeof may, &may) && CPU_COUNT(&may) < all;
    long n = bound ? CPU_COUNT(&may) : all / processes;

    return n < 1 ? 1 : (int)n;
}
