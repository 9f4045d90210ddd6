/* tape.c - the tape: recording, backward and blocks; see tensor.h */
#include <string.h>

#include "common/tensor/engine.h"

/* The tape's references are counted in both refs and kept, so that the bytes that the tape holds
 * are known at any time. */
void vt_keep(vt_ctx *g, vt_buf *b)
{
    if (!b || b->persistent)
        return;
    vt_retain(b);
    if (b->kept++ == 0)
        g->kept += b->bytes;
}

void vt_unkeep(vt_ctx *g, vt_buf *b)
{
    if (!b || b->persistent)
        return;
    if (--b->kept == 0)
        g->kept -= b->bytes;
    vt_release(g, b);
}

static vt_node *push(vt_ctx *g, const char *op, vt_grad_fn fn)
{
    vt_node *n = vt_arena_new(&g->arena, sizeof *n);
    if (!n) {
        vt_fail(g, VC_ENOMEM, "%s: out of memory for the tape", op);
        return NULL;
    }
    n->op = op;
    n->fn = fn;
    n->prev = g->tape;
    g->tape = n;
    return n;
}

vt_tensor *vt_record(vt_ctx *g, vt_tensor *y, const char *op, vt_grad_fn fn, int n,
                     vt_tensor *const *in, unsigned keep_in, bool keep_out, vt_node **node)
{
    if (node)
        *node = NULL;
    if (!y || g->err.code)
        return NULL;
    bool any = false;
    for (int i = 0; i < n; i++)
        any |= in[i] && in[i]->needs_grad;
    if (!any || !(g->flags & VT_RECORD))
        return y;
    y->needs_grad = true;
    if (!g->recording)
        return y;

    vt_node *m = push(g, op, fn);
    if (!m)
        return NULL;
    m->out = y;
    m->n_in = n;
    m->keep = keep_in;
    m->keep_out = keep_out;
    for (int i = 0; i < n; i++) {
        m->in[i] = in[i];
        if (in[i] && keep_in >> i & 1)
            vt_keep(g, in[i]->buf);
    }
    if (keep_out)
        vt_keep(g, y->buf);
    if (node)
        *node = m;
    return y;
}

static void drop_grad(vt_ctx *g, vt_tensor *t)
{
    if (t && t->grad && !t->param) {
        vt_release(g, t->grad->buf);
        t->grad = NULL;
    }
}

/* Runs the nodes above `stop`, newest first, and releases the tensors that each node kept. */
static void run_tape(vt_ctx *g, const vt_node *stop)
{
    bool recording = g->recording, in_grad = g->in_grad;

    g->recording = false;
    while (g->tape != stop && !g->err.code) {
        vt_node *n = g->tape;
        g->tape = n->prev;
        g->op = n->op;
        if (!n->out || n->out->grad) {
            vt_scope s = vt_scope_begin(g);
            g->in_grad = true;
            n->fn(g, n);
            vt_scope_end(g, s, 0, NULL);
        }
        drop_grad(g, n->out);
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] && n->keep >> i & 1)
                vt_unkeep(g, n->in[i]->buf);
        if (n->keep_out)
            vt_unkeep(g, n->out->buf);
    }
    g->recording = recording;
    g->in_grad = in_grad;
}

void vt_backward(vt_ctx *g, vt_tensor *loss)
{
    if (!vt_ok(g, "backward", 1, &loss))
        return;
    if (vt_count(loss) != 1 || loss->dtype != VC_F32) {
        vt_bad(g, "backward", "the loss must be one f32 value", 1, &loss);
        return;
    }
    g->usage.saved = g->kept;
    if (!(g->flags & VT_RECORD)) {
        vt_fail(g, VC_EFAIL, "backward: the step was begun without VT_RECORD");
        return;
    }
    if (!loss->needs_grad) {
        vt_fail(g, VC_EFAIL, "backward: nothing below the loss is trained");
        return;
    }
    vt_scope_end(g, (vt_scope){ 0 }, 1, &loss);
    vt_tensor *d = vt_grad(g, loss);
    if (!d)
        return;
    VT_RUN(g, fill, d, 1.0f);
    vt_wrote(d);
    run_tape(g, NULL);
}

/* ---- blocks ---- */

typedef struct result { struct result *next; vt_tensor *t; } result;

/* Results that a block's first run keeps for its second run, which takes them in the same order. */
struct vt_results {
    result *first, *last;
    bool again;                                /* the second run has begun */
};

typedef struct block_run {
    vt_block b;
    vt_tensor *out[VT_BLOCK_IO];
    struct vt_results results;                 /* of VT_KEEP_ATTENTION, else empty */
} block_run;

void vt_results_keep(vt_ctx *g, int n, vt_tensor *const *t)
{
    struct vt_results *r = g->results;

    for (int i = 0; r && !r->again && i < n && !g->err.code; i++) {
        result *x = vt_arena_new(&g->arena, sizeof *x);
        if (!x) {
            vt_fail(g, VC_ENOMEM, "%s: out of memory for the tape", g->op);
            return;
        }
        x->t = t[i];
        vt_keep(g, x->t->buf);
        if (r->last)
            r->last->next = x;
        else
            r->first = x;
        r->last = x;
    }
}

bool vt_results_again(vt_ctx *g, int n, vt_tensor **t)
{
    struct vt_results *r = g->results;

    if (!r || !r->again)
        return false;
    for (int i = 0; i < n && !g->err.code; i++) {
        if (!r->first)
            return vt_fail(g, VC_EINVAL, "%s: the second run of its block computes more", g->op);
        t[i] = r->first->t;
        r->first = r->first->next;
        vt_hold(g, t[i]);
        vt_unkeep(g, t[i]->buf);
    }
    return !g->err.code;
}

/* Gives up the results that no second run takes. */
static void drop_results(vt_ctx *g, struct vt_results *r)
{
    for (; r->first; r->first = r->first->next)
        vt_unkeep(g, r->first->t->buf);
}

static void enter(vt_ctx *g, const block_run *r, bool backward)
{
    if (!(g->flags & VT_DRY))
        VT_EACH_PART(g, enter, g, r->b.index);
    if (g->hooks.enter)
        g->hooks.enter(g->hooks.arg, &r->b, backward);
}

static void leave(vt_ctx *g, const block_run *r, bool backward)
{
    if (g->hooks.leave)
        g->hooks.leave(g->hooks.arg, &r->b, backward);
    if (!(g->flags & VT_DRY))
        VT_EACH_PART(g, leave, g, r->b.index);
}

static void grads_ready(vt_ctx *g, const block_run *r)
{
    if (g->hooks.grads_ready && !g->err.code)
        g->hooks.grads_ready(g->hooks.arg, &r->b);
}

/* The two ends of a kept block on the tape. Backward runs block_end first. */
static void block_end(vt_ctx *g, const vt_node *n)
{
    enter(g, n->block, true);
}

static void block_begin(vt_ctx *g, const vt_node *n)
{
    leave(g, n->block, true);
    grads_ready(g, n->block);
}

/* Moves the gradients of the first run's outputs to the second run's outputs. An output may be a
 * view, or an input passed on, so the moved gradient is that of the tensor that owns the bytes. */
static void move_grads(vt_ctx *g, const block_run *r, vt_tensor *const *out)
{
    for (int i = 0; i < r->b.n_out && !g->err.code; i++) {
        vt_tensor *from = vt_root(r->out[i]), *to = vt_root(out[i]);
        if (!vt_same_shape(r->out[i], out[i]) || !vt_same_shape(from, to) ||
            (from->grad && !to->needs_grad)) {
            vt_bad(g, "block", "the second run gave another output", 2,
                   (vt_tensor *[]){ r->out[i], out[i] });
            return;
        }
        if (from == to || !from->grad)
            continue;
        to->grad = from->grad;
        from->grad = NULL;
    }
}

static bool any_grad(const block_run *r)
{
    for (int i = 0; i < r->b.n_out; i++)
        if (vt_root(r->out[i])->grad)
            return true;
    return false;
}

static void run_again(vt_ctx *g, const vt_node *n)
{
    block_run *r = n->block;
    vt_tensor *out[VT_BLOCK_IO] = { 0 };
    vt_node *outer = g->tape;

    VT_EACH_PART(g, back, g, n);
    if (!any_grad(r)) {                        /* the loss does not depend on the block */
        drop_results(g, &r->results);
        grads_ready(g, r);
        return;
    }
    enter(g, r, true);
    vt_scope s = vt_scope_begin(g);
    g->recording = true;
    g->in_grad = false;
    r->results.again = true;
    g->results = r->results.first ? &r->results : NULL;
    r->b.fn(g, r->b.arg, n->in, out);
    g->results = NULL;
    drop_results(g, &r->results);
    g->recording = false;
    for (int i = 0; i < r->b.n_out; i++)
        if (!out[i])
            vt_fail(g, VC_EFAIL, "block %d: the second run gave no output %d", r->b.index, i);
    move_grads(g, r, out);
    vt_scope_end(g, s, 0, NULL);
    run_tape(g, outer);
    leave(g, r, true);
    grads_ready(g, r);
}

/* Runs fn in its scope, between its hooks, and checks its outputs. False after a failure. */
static bool run_once(vt_ctx *g, block_run *r, vt_tensor *const *in, vt_tensor **out)
{
    enter(g, r, false);
    vt_scope s = vt_scope_begin(g);
    if (!g->err.code)
        r->b.fn(g, r->b.arg, in, out);
    vt_scope_end(g, s, r->b.n_out, out);
    leave(g, r, false);
    for (int i = 0; i < r->b.n_out; i++)
        if (!out[i])
            vt_fail(g, VC_EFAIL, "block %d: no output %d", r->b.index, i);
    memcpy(r->out, out, (size_t)r->b.n_out * sizeof *out);
    return !g->err.code;
}

static bool run_kept(vt_ctx *g, block_run *r, vt_tensor *const *in, vt_tensor **out)
{
    vt_node *begin = push(g, "block", block_begin);
    if (!begin || !run_once(g, r, in, out))
        return false;
    if (g->tape == begin) {                    /* the block recorded nothing */
        g->tape = begin->prev;
        return true;
    }
    vt_node *end = push(g, "block", block_end);
    if (!end)
        return false;
    begin->block = end->block = r;
    return true;
}

static bool run_recomputed(vt_ctx *g, block_run *r, vt_remat how, vt_tensor *const *in,
                           vt_tensor **out)
{
    VT_EACH_PART(g, before, g, r->b.n_in, in);
    g->recording = false;
    g->results = how == VT_KEEP_ATTENTION ? &r->results : NULL;
    bool ok = run_once(g, r, in, out);
    g->results = NULL;
    g->recording = true;
    if (!ok)
        return false;

    bool any = false;
    for (int i = 0; i < r->b.n_out; i++)
        any |= out[i]->needs_grad;
    if (!any) {
        drop_results(g, &r->results);
        return true;
    }
    vt_node *n = push(g, "block", run_again);
    if (!n)
        return false;
    n->block = r;
    n->n_in = r->b.n_in;
    n->keep = (1u << r->b.n_in) - 1;
    for (int i = 0; i < r->b.n_in; i++) {
        n->in[i] = in[i];
        if (in[i])
            vt_keep(g, in[i]->buf);
    }
    VT_EACH_PART(g, recorded, g, n);
    return true;
}

static bool run_block(vt_ctx *g, const vt_block *b, vt_remat how, vt_tensor *const *in,
                      vt_tensor **out)
{
    if (!vt_ok(g, "block", 0, NULL))
        return false;
    if (b->n_in > VT_BLOCK_IO || b->n_out > VT_BLOCK_IO)
        return vt_fail(g, VC_EINVAL, "block %d: %d inputs and %d outputs, %d each are possible",
                       b->index, b->n_in, b->n_out, VT_BLOCK_IO);
    block_run *r = vt_arena_new(&g->arena, sizeof *r);
    if (!r)
        return vt_fail(g, VC_ENOMEM, "block %d: out of memory for the tape", b->index);
    r->b = *b;
    if (!g->recording)
        return run_once(g, r, in, out);
    return how == VT_KEEP ? run_kept(g, r, in, out) : run_recomputed(g, r, how, in, out);
}

void vt_run_block(vt_ctx *g, const vt_block *b, vt_remat how, vt_tensor *const *in,
                  vt_tensor **out)
{
    vt_tensor *made[VT_BLOCK_IO] = { NULL };   /* out may be the same array as in */
    bool ok = run_block(g, b, how, in, made);

    for (int i = 0; i < b->n_out; i++)
        out[i] = ok ? made[i] : NULL;
}
