/* heap.h - settings of the system's malloc. */
#ifndef COMMON_OS_HEAP_H
#define COMMON_OS_HEAP_H

enum { VC_HEAP_LARGE = 256 << 10 };           /* bytes */

/* One of the first calls of main(): makes glibc give each freed buffer of VC_HEAP_LARGE bytes or
 * more back to the system at once. Otherwise the size from which glibc does this grows with each
 * such buffer, to 32 MiB, and the process keeps tens of MiB of freed memory, which no prediction
 * counts. Other C libraries keep their own rule. */
void vc_heap_return_freed(void);

#endif
