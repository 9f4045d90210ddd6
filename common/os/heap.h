/* heap.h - settings of the system's malloc. */
#ifndef COMMON_OS_HEAP_H
#define COMMON_OS_HEAP_H

#include <stddef.h>

enum { VC_HEAP_LARGE = 256 << 10, VC_HEAP_KEPT = 4 << 20 };     /* bytes */

/* One of the first calls of main(): makes glibc give each freed buffer of VC_HEAP_LARGE bytes or
 * more back to the system at once. Otherwise the size from which glibc does this grows with each
 * such buffer, to 32 MiB, and the process keeps tens of MiB of freed memory, which no prediction
 * counts. Other C libraries keep their own rule. */
void vc_heap_return_freed(void);

/* Then keeps up to VC_HEAP_KEPT freed bytes at the end of each thread's heap, in place of glibc's
 * 128 KiB: for a program that opens files one after another, whose buffers the system would have
 * to clear again for each. */
void vc_heap_keep_freed(void);

/* Gives the freed memory between buffers back to the system too, which no prediction counts either:
 * after a program has set up what it keeps. */
void vc_heap_trim(void);

/* Bytes that malloc has given and not got back, and of memory that was made executable, as for
 * kernels that are compiled when they are first needed, and of the first thread's stack; each 0
 * where the system does not tell. */
size_t vc_heap_used(void);

#endif
