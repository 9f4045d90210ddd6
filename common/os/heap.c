/* heap.c - settings of the system's malloc; see heap.h */
#include "common/os/heap.h"

#include <malloc.h>

void vc_heap_return_freed(void)
{
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, VC_HEAP_LARGE);
#endif
}
