/* heap.c - settings of the system's malloc; see heap.h */
#include "common/os/heap.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void vc_heap_return_freed(void)
{
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, VC_HEAP_LARGE);
#endif
}

void vc_heap_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

static size_t allocated(void)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
#else
    return 0;
#endif
}

/* The resident bytes of executable memory that no file backs. */
static size_t compiled(void)
{
    char line[512], access[8];
    unsigned long long kib, file;
    size_t sum = 0;
    bool code = false;
    FILE *f = fopen("/proc/self/smaps", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "%*x-%*x %7s %*x %*x:%*x %llu", access, &file) == 2)
            code = strchr(access, 'x') && file == 0;
        else if (code && sscanf(line, "Anonymous: %llu kB", &kib) == 1)
            sum += (size_t)kib * 1024;
    if (f)
        fclose(f);
    return sum;
}

size_t vc_heap_used(void)
{
    return allocated() + compiled();
}
