/* pool.h - best fit over one range of bytes that somebody else owns: the pool hands out offsets.
 *
 * Offsets and sizes are multiples of 64. Which offset a request gets depends only on the requests
 * before it, not on the limit: so a dry step places everything as the real step will. Not
 * thread-safe. */
#ifndef COMMON_TENSOR_POOL_H
#define COMMON_TENSOR_POOL_H

#include <stddef.h>

typedef struct vt_span { size_t offset, bytes; } vt_span;

typedef struct vt_pool {
    vt_span *gap;                             /* free spans below top, by offset, never adjacent */
    int gaps, room;                           /* room: of `gap`, always for one more than taken */
    int taken;                                /* spans handed out */
    size_t top, peak, limit;                  /* all above top is free; peak: highest top */
} vt_pool;                                    /* all zero but the limit: empty */

enum { VT_POOL_ALIGN = 64 };

/* VC_ENOMEM if it would pass the limit, or bookkeeping finds no memory. bytes >= 1. */
int vt_pool_take(vt_pool *p, size_t bytes, size_t *offset);
/* Gives back a span taken with the same bytes. */
void vt_pool_give(vt_pool *p, size_t offset, size_t bytes);
void vt_pool_reset(vt_pool *p);               /* nothing taken, peak 0 */
void vt_pool_close(vt_pool *p);

#endif
