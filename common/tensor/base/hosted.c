/* hosted.c - see hosted.h */
#include "common/tensor/hosted.h"

#include <stdlib.h>

#include "common/tensor/engine.h"

enum { PLACES = 2, ALIGN = 256 };

struct vt_hosted {
    vt_ctx *g;
    vt_host_of_fn *host_of;
    char *memory[PLACES];
    size_t bytes;                              /* of a place */
    bool leaving[PLACES];                      /* its last states may not be on the host yet */
};

static size_t bytes_of(const vt_tensor *t)
{
    return vc_dtype_bytes(t->dtype, (size_t)vt_count(t));
}

static vt_place place_of(int i) { return i % PLACES ? VT_PLACE_OTHER_STATE : VT_PLACE_STATE; }

size_t vt_hosted_room(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

int vt_hosted_open(vt_hosted **out, vt_ctx *g, size_t bytes, vt_host_of_fn *host_of, vc_err *err)
{
    vt_hosted *h = *out = calloc(1, sizeof *h);

    if (!h)
        return vc_no_memory(err);
    *h = (vt_hosted){ .g = g, .bytes = bytes ? bytes : ALIGN, .host_of = host_of };
    for (int k = 0; k < PLACES; k++) {
        h->memory[k] = g->be->alloc(g->dev, h->bytes);
        if (!h->memory[k])
            return vc_fail(err, VC_ENOMEM, "no memory for %zu bytes on the device, of a "
                           "parameter's optimizer state", h->bytes);
        g->be->leave(g->dev, place_of(k));
    }
    return 0;
}

void vt_hosted_close(vt_hosted *h)
{
    for (int k = 0; h && k < PLACES; k++)
        h->g->be->free(h->g->dev, h->memory[k], h->bytes);
    free(h);
}

size_t vt_hosted_bytes(const vt_hosted *h)
{
    return h ? PLACES * h->bytes : 0;
}

/* Lets later kernels wait until the place's last states are on the host. */
static void settle(vt_hosted *h, int i)
{
    if (!h->leaving[i % PLACES])
        return;
    h->g->be->enter(h->g->dev, place_of(i));
    h->g->be->leave(h->g->dev, place_of(i));
    h->leaving[i % PLACES] = false;
}

void vt_hosted_begin(vt_hosted *h, int i, int n, vt_tensor *const *t)
{
    char *at = h->memory[i % PLACES];

    settle(h, i);
    for (int k = 0; k < n; k++) {
        if (!t[k])
            continue;
        h->g->be->move(h->g->dev, place_of(i), at, h->host_of(h->g, t[k]), bytes_of(t[k]));
        at += vt_hosted_room(bytes_of(t[k]));
    }
}

void vt_hosted_enter(vt_hosted *h, int i, int n, vt_tensor *const *t)
{
    char *at = h->memory[i % PLACES];

    h->g->be->enter(h->g->dev, place_of(i));
    for (int k = 0; k < n; k++) {
        if (!t[k])
            continue;
        t[k]->data = at;
        at += vt_hosted_room(bytes_of(t[k]));
    }
}

void vt_hosted_leave(vt_hosted *h, int i, int n, vt_tensor *const *t)
{
    h->g->be->leave(h->g->dev, place_of(i));
    for (int k = 0; k < n; k++) {
        if (!t[k])
            continue;
        h->g->be->move(h->g->dev, place_of(i), h->host_of(h->g, t[k]), t[k]->data,
                       bytes_of(t[k]));
        t[k]->data = NULL;
        h->leaving[i % PLACES] = true;
    }
}

void vt_hosted_end(vt_hosted *h)
{
    for (int k = 0; k < PLACES; k++)
        settle(h, k);
}
