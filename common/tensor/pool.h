/* pool.h - a best-fit allocator over one range of bytes; it hands out offsets, the caller owns the
 * range.
 *
 * Offsets and sizes are multiples of 64. The offset of a request depends only on the requests
 * before it, not on the limit: so a dry step places everything as the real step will. A pool is not
 * thread-safe. */
#ifndef COMMON_TENSOR_POOL_H
#define COMMON_TENSOR_POOL_H

#include <stddef.h>

typedef struct vt_span { size_t offset, bytes; } vt_span;

typedef struct vt_pool {
    vt_span *gap;                             /* free spans below top, by offset, never adjacent */
    int gaps, room;                           /* room: entries of `gap`, at least taken + 1 */
    int taken;                                /* spans handed out */
    size_t top, peak, limit;                  /* all above top is free; peak: highest top */
} vt_pool;                                    /* an empty one is all zero but the limit */

enum { VT_POOL_ALIGN = 64 };

/* Takes a span of bytes >= 1; VC_ENOMEM if it would pass the limit, or malloc fails. */
int vt_pool_take(vt_pool *p, size_t bytes, size_t *offset);
/* Returns a span that was taken with the same bytes. */
void vt_pool_give(vt_pool *p, size_t offset, size_t bytes);
void vt_pool_reset(vt_pool *p);               /* nothing taken, peak 0 */
void vt_pool_close(vt_pool *p);

#endif
