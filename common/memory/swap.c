/* swap.c - copies frozen weights from the host to the device when their block is entered; see
 * weights.h
 *
 * Blocks use two places alternately. A block is queued long before it runs, so the copies (C) into
 * one place run concurrently with the kernels (K) of the block before, which read the other place.
 * Four blocks, forward and then backward:
 *
 *     kernels        K0  K1  K2  K3  K3  K2  K1  K0
 *     place 0    C0      C2                  C0
 *     place 1        C1      C3          C1
 *
 * The last two blocks still hold their places when backward begins, and the first two when the next
 * step begins. */
#include <stdlib.h>

#include "common/tensor/engine.h"
#include "common/tensor/params.h"

enum { PLACES = VT_PLACE_OTHER_BLOCK + 1 };

typedef struct on_host_weight {
    vt_tensor *t;
    int block;
    size_t offset;                             /* in a place */
} on_host_weight;

struct vt_swap {
    vt_places all;
    vt_ctx *g;
    on_host_weight *at;                        /* sorted by block */
    int n;
    char *memory;                              /* the places, one after the other */
    size_t bytes;                              /* of a place */
    int places, last;                          /* number of places; the one entered last */
    int held[PLACES];                          /* the block in each place, or -1 */
};

static size_t bytes_of(const vt_tensor *t)
{
    return vc_dtype_bytes(t->dtype, (size_t)vt_count(t));
}

static void close_places(vt_places *all)
{
    struct vt_swap *s = (struct vt_swap *)all;

    if (s->g->swap == all)
        s->g->swap = NULL;
    s->g->be->free(s->g->dev, s->memory, all->bytes);
    free(s->at);
    free(s);
}

static int place_of(const struct vt_swap *s, int block)
{
    for (int k = 0; k < s->places; k++)
        if (s->held[k] == block)
            return k;
    return -1;
}

/* Fetches a block's weights into the place that was not entered last, and returns the place; -1 if
 * none of its weights are on the host. */
static int fetch(struct vt_swap *s, int block)
{
    int k = s->places ? (s->last + 1) % s->places : 0, n = 0;
    char *place = s->memory + (size_t)k * s->bytes;

    for (int i = 0; i < s->n; i++)
        n += s->at[i].block == block;
    for (int i = 0; i < s->n && n; i++) {
        on_host_weight *a = &s->at[i];
        if (a->block == block) {
            a->t->data = place + a->offset;
            s->g->be->fetch(s->g->dev, (vt_place)k, a->t->data, vt_param_host_values(a->t),
                            bytes_of(a->t));
        } else if (a->block == s->held[k]) {
            a->t->data = NULL;
        }
    }
    if (n)
        s->held[k] = block;
    return n ? k : -1;
}

static void swap_in(vt_ctx *g, int index)
{
    struct vt_swap *s = (struct vt_swap *)g->swap;
    int k = s ? place_of(s, index) : -1;

    if (s && k < 0)
        k = fetch(s, index);
    if (k < 0)
        return;
    s->g->be->enter(s->g->dev, (vt_place)k);
    s->last = k;
}

static void swap_out(vt_ctx *g, int index)
{
    struct vt_swap *s = (struct vt_swap *)g->swap;
    int k = s ? place_of(s, index) : -1;

    if (k >= 0)
        s->g->be->leave(s->g->dev, (vt_place)k);
}

static const vt_engine_part swapping = { .enter = swap_in, .leave = swap_out };

/* Lists the weights that are on the host; offsets begin at 0 in each block. */
static int list(struct vt_swap *s, vt_params *p, vc_err *err)
{
    size_t used = 0;
    int blocks = 0;

    s->at = calloc((size_t)p->n + 1, sizeof *s->at);
    if (!s->at)
        return vc_no_memory(err);
    for (int i = 0; i < p->n; i++) {
        const vt_param *w = p->at[i];
        if (!vt_param_is_on_host(w->t))
            continue;
        if (!s->n || s->at[s->n - 1].block != w->block) {
            used = 0;
            blocks++;
        }
        s->at[s->n++] = (on_host_weight){ w->t, w->block, used };
        used += (bytes_of(w->t) + 255) / 256 * 256;
        s->bytes = used > s->bytes ? used : s->bytes;
    }
    s->places = blocks < PLACES ? blocks : PLACES;
    s->last = s->places - 1;
    s->all.bytes = s->bytes * (size_t)s->places;
    return 0;
}

static int make_places(struct vt_swap *s, vc_err *err)
{
    if (!s->places)
        return 0;
    s->memory = s->g->be->alloc(s->g->dev, s->all.bytes);
    if (!s->memory)
        return vc_fail(err, VC_ENOMEM, "no memory for %zu bytes on the device, of %d blocks' "
                       "weights", s->all.bytes, s->places);
    for (int k = 0; k < s->places; k++) {
        s->held[k] = -1;
        s->g->be->leave(s->g->dev, (vt_place)k);
    }
    return 0;
}

int vt_params_place(vt_params *p, int blocks, vc_err *err)
{
    int rc = 0;

    for (int i = 0; i < p->n && !rc; i++) {
        const vt_param *w = p->at[i];
        if (vt_param_is_on_host(w->t) && w->block >= blocks)
            rc = vc_context(err, vt_param_place(p->g, w->t, err), "%s", w->name);
    }
    struct vt_swap *s = rc ? NULL : calloc(1, sizeof *s);
    if (!s)
        return rc ? rc : vc_no_memory(err);
    s->g = p->g;
    s->all.close = close_places;
    rc = list(s, p, err);
    if (!rc)
        rc = make_places(s, err);
    if (p->swap)
        p->swap->close(p->swap);
    p->swap = p->g->swap = &s->all;
    vt_add_part(p->g, &swapping);
    return rc;
}
