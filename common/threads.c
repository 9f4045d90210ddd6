/* threads.c - see threads.h */
#include "common/threads.h"

#include <stdlib.h>
#include <unistd.h>

void vc_calm_threads(char **argv)
{
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT"))
        return;
    if (!setenv("GOMP_SPINCOUNT", "1000", 1))
        execv("/proc/self/exe", argv);
}
