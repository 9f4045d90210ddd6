/* replay.c - captured works and their kinds; see replay.h */
#include "common/memory/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#include "common/tensor/engine.h"
#include "common/tensor/params.h"

/* Graphs take device memory, and varying text lengths make many kinds, so the kind that was unused
 * for longest is dropped. */
enum { KINDS = 64 };

typedef struct work_kind {
    uint64_t key, used;                        /* used: number of its last work; 0: a free slot */
    vt_graph *graph;                           /* NULL: queued once, not captured yet */
    bool *empty;                               /* [params] gradients left empty by the work */
    vt_tensor result;
    vt_usage usage;
} work_kind;

struct vt_replays {
    work_kind kind[KINDS];
    uint64_t works;
    bool gave_up;
    char why[240];                             /* the reason why capture is off, or "" */
};

/* ---- kinds ---- */

static uint64_t add_tensor(uint64_t key, const vt_tensor *t)
{
    struct {
        const void *data;
        int64_t dim[VT_DIMS], stride[VT_DIMS], offset;
        int32_t dtype, nd;
        int64_t empty, needs_grad;
    } of = { .data = t->data, .offset = t->offset, .dtype = (int32_t)t->dtype, .nd = t->nd,
             .empty = t->buf && t->buf->empty, .needs_grad = t->needs_grad };

    for (int i = 0; i < t->nd; i++) {
        of.dim[i] = t->dim[i];
        of.stride[i] = t->stride[i];
    }
    return XXH3_64bits_withSeed(&of, sizeof of, key);
}

static uint64_t key_of(const vt_ctx *g, const vt_params *p, int variant)
{
    const int32_t of[4] = { variant, g->flags, g->n_live, p->n };
    uint64_t key = XXH3_64bits(of, sizeof of);

    for (int i = 0; i < g->n_live; i++)
        key = add_tensor(key, g->live[i]);
    for (int i = 0; i < p->n; i++) {
        key = add_tensor(key, p->at[i]->t);
        if (p->at[i]->grad)
            key = add_tensor(key, p->at[i]->grad);
    }
    return key;
}

static void forget(vt_ctx *g, work_kind *k)
{
    if (k->graph)
        g->be->drop(g->dev, k->graph);
    k->graph = NULL;
    free(k->empty);
    k->empty = NULL;
}

/* Returns the kind of a key; a new kind takes a free slot or the one unused for longest. */
static work_kind *kind_of(vt_ctx *g, uint64_t key)
{
    work_kind *all = g->replays->kind, *to = all;

    for (work_kind *k = all; k < all + KINDS; k++) {
        if (k->used && k->key == key)
            return k;
        if (k->used < to->used)
            to = k;
    }
    forget(g, to);
    *to = (work_kind){ .key = key };
    return to;
}

static void close_replays(vt_ctx *g)
{
    for (int i = 0; g->replays && i < KINDS; i++)
        forget(g, &g->replays->kind[i]);
    free(g->replays);
    g->replays = NULL;
}

/* ---- gradients' state ---- */

static void note_empty(const vt_params *p, bool *empty)
{
    for (int i = 0; i < p->n; i++)
        empty[i] = p->at[i]->grad && p->at[i]->grad->buf->empty;
}

static void set_empty(vt_params *p, const bool *empty)
{
    for (int i = 0; i < p->n; i++)
        if (p->at[i]->grad)
            p->at[i]->grad->buf->empty = empty[i];
}

/* ---- works ---- */

/* Sets the host's state of the step after a launch of the graph, and returns the result. */
static vt_tensor *launched(vt_ctx *g, vt_params *p, const work_kind *k)
{
    vt_scope_end(g, (vt_scope){ 0 }, 0, NULL);
    set_empty(p, k->empty);
    g->usage = k->usage;
    g->usage.replayed = true;
    if (g->seen)
        g->seen(g->seen_arg, g->usage.flops);
    vt_tensor *result = vt_describe_new(g, k->result.dtype, k->result.nd, k->result.dim);
    if (result)
        result->data = k->result.data;
    return result;
}

/* Ends capture for the life of the context. */
static void turn_off(vt_ctx *g, const vc_err *why)
{
    snprintf(g->replays->why, sizeof g->replays->why, "%.239s", why->text);
}

/* Captures and launches the work. */
static vt_tensor *keep(vt_ctx *g, vt_params *p, work_kind *k, const vt_work *w)
{
    bool *before = calloc((size_t)p->n + 1, sizeof *before);
    vc_err why = { 0 };

    k->empty = calloc((size_t)p->n + 1, sizeof *k->empty);
    int rc = before && k->empty ? g->be->capture_begin(g->dev, &why)
                                : vc_fail(&why, VC_ENOMEM, "out of memory");
    if (rc) {
        turn_off(g, &why);
        free(before);
        forget(g, k);
        return w->queue(w->arg);
    }
    note_empty(p, before);
    vt_tensor *result = w->queue(w->arg);
    rc = g->be->capture_end(g->dev, &k->graph, &why);
    note_empty(p, k->empty);
    set_empty(p, before);
    free(before);
    if (!rc && g->err.code)
        rc = vc_fail(&why, g->err.code, "%s", g->err.text);
    if (!rc && !g->be->launch(g->dev, k->graph))
        rc = vc_fail(&why, VC_EFAIL, "what it uses has moved meanwhile");
    if (rc) {                                  /* no kernel of the work has run */
        turn_off(g, &why);
        g->replays->gave_up = true;
        forget(g, k);
        return vt_fail(g, rc, "the step cannot be kept: %s", why.text);
    }
    k->result = *result;
    k->usage = g->usage;
    return launched(g, p, k);
}

static const vt_engine_part replaying = { .give_back = close_replays, .close = close_replays };

vt_tensor *vt_replay(vt_ctx *g, vt_params *p, const vt_work *w)
{
    if (g->err.code || g->flags & (VT_DRY | VT_OFFLOAD) || w->watched || vt_replay_off(g))
        return w->queue(w->arg);
    if (!g->replays && !(g->replays = calloc(1, sizeof *g->replays)))
        return w->queue(w->arg);
    vt_add_part(g, &replaying);
    work_kind *k = kind_of(g, key_of(g, p, w->variant));
    bool is_new = !k->used;
    k->used = ++g->replays->works;
    if (is_new)
        return w->queue(w->arg);
    if (k->graph && g->be->launch(g->dev, k->graph))
        return launched(g, p, k);
    forget(g, k);
    return keep(g, p, k, w);
}

const char *vt_replay_off(const vt_ctx *g)
{
    if (!g->be->capture_begin)
        return "the device keeps nothing that it was given";
    if (g->replays && *g->replays->why)
        return g->replays->why;
    if (g->profile)
        return "every kernel is timed";
    if (g->swap && g->swap->bytes)
        return "blocks are swapped";
    if (g->hooks.enter || g->hooks.leave || g->hooks.grads_ready)
        return g->hooks_why ? g->hooks_why : "ranks work together within a step";
    return NULL;
}

bool vt_replay_gave_up(vt_ctx *g)
{
    bool yes = g->replays && g->replays->gave_up;

    if (yes)
        g->replays->gave_up = false;
    return yes;
}
