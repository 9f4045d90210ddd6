/* prefetch.c - copies host data to the device before the step that reads it; see tensor.h */
#include <stdlib.h>

#include "common/tensor/engine.h"

typedef struct part {
    const void *data;                          /* on the host; NULL: already used */
    size_t bytes, offset;                      /* offset: in the place */
} part;

struct vt_prefetched {
    char *place;
    size_t room;                               /* bytes of the place */
    part *part;
    int n, parts;                              /* parts: entries allocated */
};

static size_t padded(size_t bytes) { return (bytes + 255) / 256 * 256; }

static void close_prefetched(vt_ctx *g)
{
    struct vt_prefetched *a = g->prefetched;

    if (!a)
        return;
    g->be->free(g->dev, a->place, a->room);
    free(a->part);
    free(a);
    g->prefetched = NULL;
}

/* Makes room for n parts of `bytes` bytes in all, kept for later calls; false if memory is out. */
static bool make_room(vt_ctx *g, int n, size_t bytes)
{
    struct vt_prefetched *a = g->prefetched;

    if (n > a->parts) {
        part *p = realloc(a->part, (size_t)n * sizeof *p);
        if (!p)
            return false;
        a->part = p;
        a->parts = n;
    }
    if (bytes <= a->room)
        return true;
    g->be->free(g->dev, a->place, a->room);
    a->room = 0;
    a->place = g->be->alloc(g->dev, bytes);
    if (!a->place)
        return false;
    a->room = bytes;
    g->be->leave(g->dev, VT_PLACE_BATCH);
    return true;
}

static part *find(const struct vt_prefetched *a, const void *data)
{
    for (int i = 0; a && i < a->n; i++)
        if (a->part[i].data == data)
            return &a->part[i];
    return NULL;
}

static bool copy_prefetched(vt_ctx *g, vt_tensor *t, const void *data)
{
    part *p = find(g->prefetched, data);

    if (!p || p->bytes != (size_t)vt_count(t) * vc_dtype_size(t->dtype))
        return false;
    vt_tensor x = *t;
    x.data = g->prefetched->place + p->offset;
    p->data = NULL;
    g->be->enter(g->dev, VT_PLACE_BATCH);
    VT_RUN(g, copy, t, &x);
    g->be->leave(g->dev, VT_PLACE_BATCH);
    return true;
}

static const vt_engine_part prefetching = {
    .copy = copy_prefetched, .close = close_prefetched,
};

void vt_prefetch(vt_ctx *g, int n, const vt_host_data *data)
{
    size_t bytes = 0;

    if (!g->be->fetch)
        return;
    if (!g->prefetched && !(g->prefetched = calloc(1, sizeof *g->prefetched)))
        return;
    vt_add_part(g, &prefetching);
    struct vt_prefetched *a = g->prefetched;
    for (int i = 0; i < n; i++)
        bytes += padded(data[i].bytes);
    a->n = 0;
    if (!make_room(g, n, bytes))
        return;
    for (size_t used = 0; a->n < n; used += padded(data[a->n++].bytes)) {
        const vt_host_data *d = &data[a->n];
        a->part[a->n] = (part){ d->data, d->bytes, used };
        g->be->fetch(g->dev, VT_PLACE_BATCH, a->place + used, d->data, d->bytes);
    }
}

bool vt_prefetched(const vt_ctx *g, const void *data)
{
    return find(g->prefetched, data);
}
