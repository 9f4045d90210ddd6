/* offload.c - inputs of recomputed blocks, offloaded to host memory until backward; see tensor.h
 *
 * A block's input is copied out (O) while the kernels (K) of the next block run, and its memory
 * returns to the pool when those kernels are queued. Backward copies the input back (I), into other
 * memory, one block before it is needed. Four blocks, forward and then backward:
 *
 *     kernels    K0  K1  K2  K3  K3  K2  K1  K0
 *     copies         O0  O1  O2      I1  I0
 *
 * The last input is never offloaded, and the memory of the one before it has not been released when
 * backward begins. An offloaded input belongs to its block alone: the next block does not read it,
 * and no scope holds that tensor. */
#include <stdlib.h>

#include "common/tensor/engine.h"

/* Host memory of one input, kept for the next steps. */
typedef struct slot { void *p; size_t bytes; } slot;

typedef struct offloaded {
    struct offloaded *below;                   /* the input offloaded before */
    const vt_node *n;                          /* its block's node */
    vt_tensor *t;
    int slot;
    enum { LEAVING, GONE, COMING } state;
} offloaded;

struct vt_offload {
    slot *slot;
    int slots, used;                           /* used: slots taken in this step */
    bool under_way;                            /* copies were queued since the last `enter` */
    const vt_node *last;                       /* the latest block, none of it offloaded yet */
    offloaded *top;                            /* the input offloaded last; in the step's arena */
};

static void close_offload(vt_ctx *g)
{
    struct vt_offload *o = g->offload;

    for (int i = 0; i < o->slots; i++)
        g->be->unpin(g->dev, o->slot[i].p);
    free(o->slot);
    free(o);
    g->offload = NULL;
}

static bool copies(const vt_ctx *g) { return !(g->flags & VT_DRY) && !g->err.code; }

/* Queues a copy that begins when all work queued so far has run. */
static void move(vt_ctx *g, const offloaded *a, bool out)
{
    if (!copies(g))
        return;
    void *host = g->offload->slot[a->slot].p, *here = a->t->data;
    g->offload->under_way = true;
    g->be->leave(g->dev, VT_PLACE_INPUT);
    g->be->move(g->dev, VT_PLACE_INPUT, out ? host : here, out ? here : host, a->t->buf->bytes);
}

/* Makes work queued from now on run after the copies. */
static void enter(vt_ctx *g)
{
    if (g->offload->under_way)
        g->be->enter(g->dev, VT_PLACE_INPUT);
    g->offload->under_way = false;
}

static void forget(vt_ctx *g)
{
    struct vt_offload *o = g->offload;

    enter(g);                                  /* a failed step may have left copies queued */
    o->used = 0;
    o->last = NULL;
    o->top = NULL;
}

/* Returns the index of the next slot, with room for `bytes`, or -1 if the host has no memory. */
static int take_slot(vt_ctx *g, size_t bytes)
{
    struct vt_offload *o = g->offload;

    if (!copies(g))
        return o->used++;
    if (o->used >= o->slots) {
        slot *s = realloc(o->slot, (size_t)(o->used + 1) * sizeof *s);
        if (!s)
            return -1;
        o->slot = s;
        for (; o->slots <= o->used; o->slots++)
            s[o->slots] = (slot){ 0 };
    }
    slot *s = &o->slot[o->used];
    if (s->bytes < bytes) {
        g->be->unpin(g->dev, s->p);
        *s = (slot){ g->be->pin(g->dev, bytes), bytes };
        if (!s->p) {
            *s = (slot){ 0 };
            return -1;
        }
    }
    return o->used++;
}

/* ---- forward ---- */

static bool among(const vt_tensor *t, int n, vt_tensor *const *in)
{
    for (int i = 0; i < n; i++)
        if (in[i] && in[i]->buf == t->buf)
            return true;
    return false;
}

static bool may_leave(const vt_tensor *t)
{
    return t && t->buf && !t->buf->persistent && !t->base && vt_packed(t) && t->buf->refs == 1 &&
           t->buf->kept == 1;
}

static void leave(vt_ctx *g, const vt_node *n, vt_tensor *t)
{
    struct vt_offload *o = g->offload;
    offloaded *a = vt_arena_new(&g->arena, sizeof *a);
    int k = a ? take_slot(g, t->buf->bytes) : -1;

    if (k < 0) {
        vt_fail(g, VC_ENOMEM, "block: no host memory for an input of %zu bytes, of which %d are "
                "there", t->buf->bytes, o->used);
        return;
    }
    *a = (offloaded){ o->top, n, t, k, LEAVING };
    o->top = a;
    g->usage.offloaded += t->buf->bytes;
    move(g, a, true);
}

/* Releases the memory of the inputs that were being copied out. */
static void give_up(vt_ctx *g)
{
    offloaded *a = g->offload->top;

    if (a && a->state == LEAVING)
        enter(g);
    for (; a && a->state == LEAVING; a = a->below) {
        a->state = GONE;
        vt_unkeep(g, a->t->buf);
    }
}

static void before(vt_ctx *g, int n, vt_tensor *const *in)
{
    if (!(g->flags & VT_OFFLOAD) || !g->be->move || !g->recording)
        return;
    struct vt_offload *o = g->offload;
    give_up(g);
    for (int i = 0; o->last && i < o->last->n_in && !g->err.code; i++)
        if (may_leave(o->last->in[i]) && !among(o->last->in[i], n, in))
            leave(g, o->last, o->last->in[i]);
    o->last = NULL;
}

static void recorded(vt_ctx *g, const vt_node *n)
{
    if (g->flags & VT_OFFLOAD)
        g->offload->last = n;
}

/* ---- backward ---- */

/* Copies an input back into new memory, which the tape releases. */
static void come(vt_ctx *g, offloaded *a)
{
    vt_buf *b = a->t->buf;

    if (a->state != GONE)
        return;
    a->state = COMING;
    if (vt_buf_again(g, a->t)) {
        vt_keep(g, b);
        vt_release(g, b);
        move(g, a, false);
    } else {
        b->persistent = true;                  /* the step has failed: no memory to release */
    }
}

static void back(vt_ctx *g, const vt_node *n)
{
    struct vt_offload *o = g->offload;

    if (!o->top)
        return;
    if (o->top->state == LEAVING) {            /* n is the last block; its memory is intact */
        enter(g);
        while (o->top && o->top->state == LEAVING)
            o->top = o->top->below;
        return;
    }
    if (o->top->n == n) {
        for (offloaded *a = o->top; a && a->n == n; a = a->below)
            come(g, a);
        enter(g);
        while (o->top && o->top->n == n)
            o->top = o->top->below;
    }
    for (offloaded *a = o->top; a && a->n == o->top->n; a = a->below)
        come(g, a);
}

/* ---- the part ---- */

static const vt_engine_part offloading = {
    .before = before, .recorded = recorded, .back = back, .forget = forget, .close = close_offload,
};

int vt_offload_open(vt_ctx *g, vc_err *err)
{
    if (!g->offload && !(g->offload = calloc(1, sizeof *g->offload)))
        return vc_no_memory(err);
    vt_add_part(g, &offloading);
    return 0;
}
