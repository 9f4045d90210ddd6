/* heap.h - how many bytes this process has allocated, for tests that bound the memory of a
 * handle. */
#ifndef TESTS_LIB_HEAP_H
#define TESTS_LIB_HEAP_H

#include <malloc.h>
#include <stddef.h>

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

#endif
