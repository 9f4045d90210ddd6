/* arena.h - a bump allocator for objects that live exactly as long as a step.
 *
 * Chunks of memory stay allocated when the arena is rewound, so a step that needs no more than the
 * last one allocates nothing from the system. An arena is not thread-safe. */
#ifndef COMMON_TENSOR_ARENA_H
#define COMMON_TENSOR_ARENA_H

#include <stddef.h>

typedef struct vt_arena {
    struct vt_arena_chunk *first, *now;       /* now: the chunk that is being filled */
    size_t used;                              /* bytes of `now` */
} vt_arena;                                   /* an empty one is all zero */

/* Returns zeroed, 16-byte aligned memory, or NULL if the system has no more. */
void *vt_arena_new(vt_arena *a, size_t bytes);
void vt_arena_rewind(vt_arena *a);            /* frees all objects; the chunks stay */
void vt_arena_close(vt_arena *a);

#endif
