/* arena.h - a bump allocator for what lives exactly as long as a step.
 *
 * Memory comes in chunks that are kept when the arena is rewound, so that a step like the last one
 * allocates nothing from the system. Not thread-safe. */
#ifndef COMMON_TENSOR_ARENA_H
#define COMMON_TENSOR_ARENA_H

#include <stddef.h>

typedef struct vt_arena {
    struct vt_arena_chunk *first, *now;       /* all zero: empty */
    size_t used;                              /* of `now` */
} vt_arena;

/* Zeroed, 16-byte aligned; NULL when the system has no more memory. */
void *vt_arena_new(vt_arena *a, size_t bytes);
void vt_arena_rewind(vt_arena *a);            /* everything is gone, the chunks stay */
void vt_arena_close(vt_arena *a);

#endif
