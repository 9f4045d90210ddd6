/* heap.c - settings of the system's malloc; see heap.h */
#include "common/os/heap.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void vc_heap_return_freed(void)
{
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, VC_HEAP_LARGE);
#endif
}

void vc_heap_keep_freed(void)
{
#ifdef M_TRIM_THRESHOLD
    mallopt(M_TRIM_THRESHOLD, VC_HEAP_KEPT);
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

/* Of a line of /proc/self/maps: memory of code that was compiled in the run, which no file backs
 * and the system has not named, as it names its own; or the first thread's stack. */
static bool is_beside(const char *access, unsigned long file, const char *name)
{
    return name ? !strcmp(name, "[stack]") : strchr(access, 'x') && !file;
}

/* The resident bytes of such memory. /proc/self/smaps has them too, but the kernel walks all pages
 * for it: of a short run on several ranks, which have hundreds of maps, that took a tenth of the
 * time. */
static size_t beside(void)
{
    char line[512], access[8], name[8];
    unsigned char here[4096];
    unsigned long from, to, file;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t sum = 0;
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && fgets(line, sizeof line, f)) {
        const int n_read = sscanf(line, "%lx-%lx %7s %*x %*x:%*x %lu %7s", &from, &to, access,
                                  &file, name);
        if (n_read < 4 || !is_beside(access, file, n_read > 4 ? name : NULL))
            continue;
        for (size_t n; from < to; from += n * page) {
            n = (to - from) / page < sizeof here ? (to - from) / page : sizeof here;
            if (mincore((void *)from, n * page, here))
                break;
            for (size_t i = 0; i < n; i++)
                sum += here[i] & 1 ? page : 0;
        }
    }
    if (f)
        fclose(f);
    return sum;
}

size_t vc_heap_used(void)
{
    return allocated() + beside();
}
