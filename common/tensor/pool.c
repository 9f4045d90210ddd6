/* pool.c - the best-fit allocator of tensor bytes; see pool.h */
#include "common/tensor/pool.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"

/* Two gaps are never adjacent, so there are fewer gaps than taken spans: room that is made when a
 * span is taken lets vt_pool_give never fail. */
static int make_room(vt_pool *p)
{
    if (p->taken + 2 < p->room)
        return 0;
    int room = p->room ? 2 * p->room : 256;
    vt_span *gap = realloc(p->gap, (size_t)room * sizeof *gap);
    if (!gap)
        return VC_ENOMEM;
    p->gap = gap;
    p->room = room;
    return 0;
}

static void remove_gap(vt_pool *p, int i)
{
    p->gaps--;
    memmove(&p->gap[i], &p->gap[i + 1], (size_t)(p->gaps - i) * sizeof *p->gap);
}

int vt_pool_take(vt_pool *p, size_t bytes, size_t *offset)
{
    if (bytes > SIZE_MAX / 2 || make_room(p))
        return VC_ENOMEM;
    bytes = (bytes + VT_POOL_ALIGN - 1) / VT_POOL_ALIGN * VT_POOL_ALIGN;

    int best = -1;
    for (int i = 0; i < p->gaps; i++)
        if (p->gap[i].bytes >= bytes && (best < 0 || p->gap[i].bytes < p->gap[best].bytes))
            best = i;
    if (best >= 0) {
        vt_span *s = &p->gap[best];
        *offset = s->offset;
        s->offset += bytes;
        s->bytes -= bytes;
        if (!s->bytes)
            remove_gap(p, best);
    } else {
        if (p->limit < p->top || p->limit - p->top < bytes)
            return VC_ENOMEM;
        *offset = p->top;
        p->top += bytes;
        if (p->peak < p->top)
            p->peak = p->top;
    }
    p->taken++;
    return 0;
}

/* Returns the index of the first gap at or above offset. */
static int find(const vt_pool *p, size_t offset)
{
    int lo = 0, hi = p->gaps;

    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (p->gap[mid].offset < offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

void vt_pool_give(vt_pool *p, size_t offset, size_t bytes)
{
    bytes = (bytes + VT_POOL_ALIGN - 1) / VT_POOL_ALIGN * VT_POOL_ALIGN;
    p->taken--;

    int i = find(p, offset);
    if (i < p->gaps && p->gap[i].offset == offset + bytes) {        /* with the gap above */
        bytes += p->gap[i].bytes;
        remove_gap(p, i);
    }
    if (i > 0 && p->gap[i - 1].offset + p->gap[i - 1].bytes == offset) {
        i--;                                                        /* with the gap below */
        offset = p->gap[i].offset;
        bytes += p->gap[i].bytes;
        remove_gap(p, i);
    }
    if (offset + bytes == p->top) {
        p->top = offset;
        return;
    }
    memmove(&p->gap[i + 1], &p->gap[i], (size_t)(p->gaps - i) * sizeof *p->gap);
    p->gap[i] = (vt_span){ offset, bytes };
    p->gaps++;
}

void vt_pool_reset(vt_pool *p)
{
    p->gaps = p->taken = 0;
    p->top = p->peak = 0;
}

void vt_pool_close(vt_pool *p)
{
    free(p->gap);
    *p = (vt_pool){ 0 };
}
