/* host_grads.c - see host_grads.h */
#include "common/tensor/host_grads.h"

#include <stdlib.h>

#include "common/tensor/engine.h"

enum { ROWS = 2, ALIGN = 64 };                 /* ALIGN: floats */

typedef struct block_grads {
    size_t bytes;
    float *host;                               /* pinned; NULL: nothing of the block is trained */
    bool filled;                               /* host has this step's gradients */
} block_grads;

struct vt_host_grads {
    vt_ctx *g;
    vt_params *p;
    block_grads *block;
    int blocks;
    size_t *at;                                /* [params] place in the row, in floats */
    vt_tensor *there;                          /* [params] the gradients on the host */
    float *row[ROWS];
    size_t bytes, on_host;                     /* of a row; of all blocks */
    int held[ROWS];                            /* the block whose gradients a row has, or -1 */
    bool leaving[ROWS];                        /* its copy to the host may not have ended */
    bool begun[ROWS];                          /* between _enter and _ready */
};

static vt_place place_of(int block)
{
    return block % ROWS ? VT_PLACE_OTHER_BLOCK : VT_PLACE_BLOCK;
}

static bool is_of_block(const vt_param *w) { return w->trained && w->block >= 0; }

/* ---- open, close ---- */

static void lay_out(vt_host_grads *h)
{
    for (int i = 0; i < h->p->n; i++) {
        const vt_param *w = h->p->at[i];
        if (!is_of_block(w))
            continue;
        block_grads *b = &h->block[w->block];
        h->at[i] = b->bytes / sizeof(float);
        b->bytes += ((size_t)vt_count(w->t) + ALIGN - 1) / ALIGN * ALIGN * sizeof(float);
        h->bytes = b->bytes > h->bytes ? b->bytes : h->bytes;
    }
    for (int k = 0; k < h->blocks; k++)
        h->on_host += h->block[k].bytes;
}

static int make(vt_host_grads *h, vc_err *err)
{
    vt_ctx *g = h->g;

    h->block = calloc((size_t)h->blocks + 1, sizeof *h->block);
    h->at = calloc((size_t)h->p->n + 1, sizeof *h->at);
    h->there = calloc((size_t)h->p->n + 1, sizeof *h->there);
    if (!h->block || !h->at || !h->there)
        return vc_no_memory(err);
    lay_out(h);
    for (int k = 0; k < h->blocks && !g->sizes_only; k++)
        if (h->block[k].bytes && !(h->block[k].host = g->be->pin(g->dev, h->block[k].bytes)))
            return vc_fail(err, VC_ENOMEM, "no memory on the host for %zu bytes of gradients",
                           h->block[k].bytes);
    for (int k = 0; k < ROWS && h->bytes; k++) {
        h->held[k] = -1;
        h->row[k] = g->be->alloc(g->dev, h->bytes);
        if (!h->row[k])
            return vc_fail(err, VC_ENOMEM, "no memory for %zu bytes on the device, of a block's "
                           "gradients", h->bytes);
        g->be->leave(g->dev, place_of(k));
    }
    return 0;
}

int vt_host_grads_open(vt_host_grads **out, vt_params *p, vc_err *err)
{
    vt_host_grads *h = *out = calloc(1, sizeof *h);

    if (!h)
        return vc_no_memory(err);
    *h = (vt_host_grads){ .g = p->g, .p = p };
    for (int i = 0; i < p->n; i++)
        if (is_of_block(p->at[i]) && p->at[i]->block >= h->blocks)
            h->blocks = p->at[i]->block + 1;
    return make(h, err);
}

void vt_host_grads_close(vt_host_grads *h)
{
    if (!h)
        return;
    for (int k = 0; h->block && k < h->blocks; k++)
        if (h->block[k].host)
            h->g->be->unpin(h->g->dev, h->block[k].host);
    for (int k = 0; k < ROWS; k++)
        h->g->be->free(h->g->dev, h->row[k], h->bytes);
    free(h->block);
    free(h->at);
    free(h->there);
    free(h);
}

/* The parameter's index, or -1 if it is of no block. */
static int index_of(const vt_host_grads *h, const vt_param *w)
{
    for (int i = 0; is_of_block(w) && i < h->p->n; i++)
        if (h->p->at[i] == w)
            return i;
    return -1;
}

float *vt_host_grads_row(const vt_host_grads *h, const vt_param *w)
{
    const int i = index_of(h, w);
    return i < 0 ? NULL : h->row[w->block % ROWS] + h->at[i];
}

const vt_tensor *vt_host_grads_of(const vt_host_grads *h, const vt_param *w)
{
    const int i = index_of(h, w);
    if (i < 0)
        return NULL;
    vt_tensor *d = &h->there[i];
    *d = *w->t;
    d->dtype = VC_F32;
    d->data = h->block[w->block].host ? h->block[w->block].host + h->at[i] : NULL;
    return d;
}

size_t vt_host_grads_bytes(const vt_host_grads *h) { return h ? ROWS * h->bytes : 0; }
size_t vt_host_grads_on_host(const vt_host_grads *h) { return h ? h->on_host : 0; }

/* ---- a step ---- */

/* The block's gradients, or NULL where it has none. */
static block_grads *grads_of(vt_host_grads *h, int block)
{
    bool has = block >= 0 && block < h->blocks && h->block[block].host;
    return has ? &h->block[block] : NULL;
}

/* Takes the row from the block that has it: what is copied next waits for the kernels queued so
 * far, and kernels queued next for its copy to the host. */
static void take(vt_host_grads *h, int block)
{
    const int k = block % ROWS;

    if (h->leaving[k])
        h->g->be->enter(h->g->dev, place_of(block));
    h->g->be->leave(h->g->dev, place_of(block));
    h->leaving[k] = false;
    h->held[k] = block;
}

static void fetch(vt_host_grads *h, int block)
{
    const block_grads *b = &h->block[block];

    h->g->be->move(h->g->dev, place_of(block), h->row[block % ROWS], b->host, b->bytes);
    h->g->be->enter(h->g->dev, place_of(block));
}

/* Zeroes gradients that no backward has written. empty: only those that are marked as empty. */
static void zero(vt_host_grads *h, int block, bool empty)
{
    for (int i = 0; i < h->p->n; i++) {
        vt_tensor *d = h->p->at[i]->grad;
        if (!is_of_block(h->p->at[i]) || h->p->at[i]->block != block || (empty && !d->buf->empty))
            continue;
        h->g->be->fill(h->g->dev, d, 0.0f);
        d->buf->empty = false;
        d->buf->unreached = true;
    }
}

void vt_host_grads_reset(vt_host_grads *h)
{
    for (int k = 0; k < h->blocks; k++)
        h->block[k].filled = false;
    for (int k = 0; k < ROWS; k++) {
        h->held[k] = -1;
        h->begun[k] = false;
    }
}

void vt_host_grads_enter(vt_host_grads *h, int block)
{
    const block_grads *b = grads_of(h, block);

    if (!b || h->g->flags & VT_DRY)
        return;
    take(h, block);
    if (b->filled)
        fetch(h, block);
    h->begun[block % ROWS] = true;
}

void vt_host_grads_ready(vt_host_grads *h, int block)
{
    block_grads *b = grads_of(h, block);
    const int k = block % ROWS;

    if (!b || h->g->flags & VT_DRY || !h->begun[k])
        return;
    zero(h, block, true);
    h->g->be->leave(h->g->dev, place_of(block));
    h->g->be->move(h->g->dev, place_of(block), b->host, h->row[k], b->bytes);
    h->leaving[k] = b->filled = true;
    h->begun[k] = false;
}

void vt_host_grads_arrive(vt_host_grads *h)
{
    for (int k = 0; k < ROWS; k++)
        if (h->leaving[k])
            take(h, h->held[k]);
    h->g->be->download(h->g->dev, NULL, NULL, 0);
}

void vt_host_grads_need(vt_host_grads *h, int block)
{
    const block_grads *b = grads_of(h, block);

    if (!b || h->held[block % ROWS] == block)
        return;
    take(h, block);
    if (b->filled)
        fetch(h, block);
    else
        zero(h, block, false);
}
