/* heap.h - the memory of this process, for tests that bound the memory of a handle. */
#ifndef TESTS_LIB_HEAP_H
#define TESTS_LIB_HEAP_H

#include <malloc.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
/* of gcc's and clang's runtime; gcc packages often lack the header */
size_t __sanitizer_get_current_allocated_bytes(void);
#endif

/* Returns the bytes that were allocated and not freed, by all threads. */
static inline size_t heap_bytes(void)
{
#ifdef __SANITIZE_ADDRESS__
    return __sanitizer_get_current_allocated_bytes();
#else
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
#endif
}

/* Returns the bytes of memory that are resident; 0 where the system does not show them. */
static inline size_t heap_resident_bytes(void)
{
    size_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%*u %zu", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

#endif
