/* arena.c - the step's bump allocator; see arena.h */
#include "common/tensor/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 16, CHUNK = 256 << 10 };

typedef struct vt_arena_chunk {
    struct vt_arena_chunk *next;
    size_t size;                              /* bytes that follow this head */
} chunk;

_Static_assert(sizeof(chunk) % ALIGN == 0, "the bytes after a chunk's head must be aligned");

/* Returns the next chunk with room for `bytes`: a kept one or a new one. */
static chunk *more(vt_arena *a, size_t bytes)
{
    chunk **link = a->now ? &a->now->next : &a->first;

    while (*link && (*link)->size < bytes)
        link = &(*link)->next;
    if (!*link) {
        size_t size = bytes > CHUNK ? bytes : CHUNK;
        *link = malloc(sizeof(chunk) + size);
        if (!*link)
            return NULL;
        **link = (chunk){ .size = size };
    }
    return *link;
}

void *vt_arena_new(vt_arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (!a->now || a->now->size - a->used < bytes) {
        chunk *c = more(a, bytes);
        if (!c)
            return NULL;
        a->now = c;
        a->used = 0;
    }
    void *p = (char *)(a->now + 1) + a->used;
    a->used += bytes;
    return memset(p, 0, bytes);
}

void vt_arena_rewind(vt_arena *a)
{
    a->now = a->first;
    a->used = 0;
}

void vt_arena_close(vt_arena *a)
{
    for (chunk *c = a->first; c;) {
        chunk *next = c->next;
        free(c);
        c = next;
    }
    *a = (vt_arena){ 0 };
}
