/* op_matmul.c - linear layers, with LoRA in the same op; see ops.h */
#include <string.h>

#include "common/base/rng.h"
#include "common/tensor/engine.h"

/* H is x a' [M,r], after dropout, saved for b's gradient. PRE is the input [M,k] of gelu, saved by
 * the second layer of a feed-forward instead of X, which is gelu(PRE). DRAW is that of dropout. */
enum { X, W, B, LORA_A, LORA_B, H, PRE, DRAW, INPUTS };

/* The epilogue of a sum of products, done by its last product; pre as in kernel_list.h. */
typedef struct ending {
    enum { PLAIN, GELU, GELU_GRAD } how;
    vt_tensor *pre;
} ending;
static const ending plain = { .how = PLAIN };

/* Describes x [..,k] as [M,k] without a copy; false if its rows are not evenly spaced. */
static bool flat(const vt_tensor *x, vt_tensor *m)
{
    int64_t rows = 1, stride = 0;

    for (int i = x->nd - 1; i-- > 0;) {
        if (x->dim[i] == 1)
            continue;
        if (rows == 1)
            stride = x->stride[i];
        else if (x->stride[i] != stride * rows)
            return false;
        rows *= x->dim[i];
    }
    *m = *x;
    m->nd = 2;
    m->dim[0] = rows;
    m->dim[1] = vt_last(x);
    m->stride[0] = rows > 1 ? stride : vt_last(x);
    m->stride[1] = 1;
    return vt_last(x) == 1 || x->stride[x->nd - 1] == 1;
}

static float beta(const vt_tensor *t) { return vt_adds(t) ? 1.0f : 0.0f; }

static void count_flops(vt_ctx *g, int64_t m, int64_t k, int64_t n)
{
    g->usage.flops += 2.0 * (double)m * (double)k * (double)n;
}

/* c = alpha op(a) op(b) + by c + bias; FLOPs are counted. */
static void product(vt_ctx *g, vt_tensor *c, const vt_tensor *a, bool ta, const vt_tensor *b,
                    bool tb, const vt_tensor *bias, float alpha, float by)
{
    count_flops(g, c->dim[0], a->dim[ta ? 0 : 1], c->dim[1]);
    VT_RUN_HEAVY(g, matmul, c, a, ta, b, tb, bias, alpha, by);
    vt_wrote(c);
}

/* The same with an epilogue. */
static void last_product(vt_ctx *g, vt_tensor *c, const vt_tensor *a, const vt_tensor *b, bool tb,
                         const vt_tensor *bias, float alpha, float by, const ending *e)
{
    if (e->how == PLAIN) {
        product(g, c, a, false, b, tb, bias, alpha, by);
        return;
    }
    count_flops(g, c->dim[0], a->dim[1], c->dim[1]);
    if (e->how == GELU)
        VT_RUN_HEAVY(g, matmul_gelu, c, e->pre, a, b, tb, bias, alpha, by);
    else
        VT_RUN_HEAVY(g, matmul_gelu_grad, c, a, b, tb, e->pre, alpha, by);
    vt_wrote(c);
}

/* ---- dropout ---- */

void vt_dropout_begin(vt_ctx *g, const vt_dropout *p, uint64_t seed, int64_t rows, uint32_t row0,
                      uint32_t micro)
{
    const float all[] = { p->input, p->neuron, p->rank, p->module };
    const int32_t draw[2] = { (int32_t)row0, (int32_t)micro };
    bool any = false;

    for (int i = 0; i < 4; i++) {
        if (!(all[i] >= 0 && all[i] < 1)) {
            vt_fail(g, VC_EINVAL, "dropout: a probability of %g", (double)all[i]);
            return;
        }
        any = any || all[i] > 0;
    }
    g->dropout.p = *p;
    g->dropout.seed = seed;
    g->dropout.rows = rows;
    g->dropout.draw = any ? vt_from_host(g, VC_I32, 1, (int64_t[]){ 2 }, draw, VC_I32) : NULL;
}

void vt_leave_out_lora(vt_ctx *g)
{
    g->bare = true;
}

/* Returns the draw by which a layer drops, or NULL. */
static vt_tensor *draw_of(const vt_ctx *g, const vt_lin *l)
{
    return l->lora_a && l->lora_key ? g->dropout.draw : NULL;
}

static uint32_t bound(float p) { return (uint32_t)((double)p * 4294967296.0); }

/* What is dropped: an adapter's input, x a' of a LoRA, or what an adapter without it adds. */
typedef enum dropped_part { INPUT, HIDDEN, CHANGE } dropped_part;

/* The dropout of m rows. Columns of what is added stay as they are, or are divided by their share
 * (multiply_by_shares), which drops them too. */
static vt_drop drop_of(const vt_ctx *g, int64_t m, uint64_t key, dropped_part part)
{
    const vt_dropout *p = &g->dropout.p;
    const float neuron = part == INPUT ? p->input : p->neuron, rank = part == INPUT ? 0 : p->rank;
    const int64_t rows = g->dropout.rows;

    key ^= g->dropout.seed;
    return (vt_drop){
        .element = bound(neuron), .column = part == CHANGE && p->share ? 0 : bound(rank),
        .sample = bound(part == INPUT ? 0 : p->module),
        .purpose = part == INPUT ? VC_DRAW_DROP_INPUT : VC_DRAW_DROP_NEURON,
        .factor = 1 / ((1 - neuron) * (part == HIDDEN ? 1 - rank : 1)),
        .key = { (uint32_t)key, (uint32_t)(key >> 32) },
        .rows = rows > 0 && m % rows == 0 ? m / rows : m,
    };
}

/* Drops of y [M,n], in place. */
static void drop(vt_ctx *g, vt_tensor *y, const vt_tensor *draw, uint64_t key, dropped_part part)
{
    const vt_drop how = drop_of(g, y->dim[0], key, part);
    if (y->dim[0] && (how.element || how.column || how.sample))
        VT_RUN(g, dropout, y, draw, &how);
}

/* Returns x with LoRA's dropout of its input, a tensor of its own, or x itself. */
static vt_tensor *dropped(vt_ctx *g, vt_tensor *x, const vt_tensor *draw, uint64_t key)
{
    if (!draw || !(g->dropout.p.input > 0))
        return x;
    vt_tensor *own = vt_new(g, x->dtype, 2, x->dim);
    if (!own)
        return NULL;
    VT_RUN(g, copy, own, x);
    drop(g, own, draw, key, INPUT);
    return own;
}

/* Writes y times, in each sample's columns, 0 for those that are dropped and else 1 / m, where m is
 * the share that stays: with a mask of zeros and ones, (mask / rms(mask))^2. y, own [M,n]. */
static void multiply_by_shares(vt_ctx *g, vt_tensor *own, const vt_tensor *y,
                               const vt_tensor *draw, uint64_t key)
{
    vt_drop how = drop_of(g, y->dim[0], key, CHANGE);
    const int64_t samples = y->dim[0] / how.rows, n = y->dim[1], dim[2] = { samples, n };
    vt_scope s = vt_scope_begin(g);
    vt_tensor *mask = vt_new(g, VC_F32, 2, dim), *rows = vt_new(g, VC_F32, 2, dim);
    vt_tensor *square = vt_new(g, VC_F32, 2, dim);
    vt_tensor *stats = vt_new(g, VC_F32, 2, (int64_t[]){ samples, 2 });

    if (mask && rows && square && stats) {
        const int64_t tokens = how.rows;
        how = (vt_drop){ .column = bound(g->dropout.p.rank), .factor = 1, .rows = 1,
                         .key = { how.key[0], how.key[1] } };
        VT_RUN(g, fill, mask, 1.0f);
        VT_RUN(g, dropout, mask, draw, &how);
        VT_RUN(g, norm, rows, stats, mask, NULL, NULL, NULL, NULL, 1e-24f, true);
        VT_RUN(g, binary, VT_MUL, square, rows, rows);
        vt_tensor to = *own, from = *y, by = *square;
        to.nd = from.nd = by.nd = 3;
        for (int i = 0; i < 3; i++)
            to.dim[i] = from.dim[i] = by.dim[i] = (int64_t[]){ samples, tokens, n }[i];
        to.stride[2] = from.stride[2] = by.stride[2] = 1;
        to.stride[1] = n, to.stride[0] = tokens * n;
        from.stride[1] = y->stride[0], from.stride[0] = tokens * y->stride[0];
        by.stride[1] = 0, by.stride[0] = n;
        VT_RUN(g, binary, VT_MUL, &to, &from, &by);
    }
    vt_scope_end(g, s, 0, NULL);
}

/* Returns a tensor of its own with the dropout of x, whose rows are evenly spaced. */
static vt_tensor *dropped_part_of(vt_ctx *g, const vt_tensor *x, const vt_tensor *draw,
                                  uint64_t key, dropped_part part)
{
    vt_tensor *own = vt_new(g, x->dtype, x->nd, x->dim), to, from;

    if (!own)
        return NULL;
    flat(own, &to);
    flat(x, &from);
    if (part == CHANGE && g->dropout.p.share && g->dropout.p.rank > 0 && to.dim[0])
        multiply_by_shares(g, &to, &from, draw, key);
    else
        VT_RUN(g, copy, &to, &from);
    drop(g, &to, draw, key, part);
    return own;
}

static void drop_grad(vt_ctx *g, const vt_node *n)
{
    vt_tensor *dx = vt_grad(g, n->in[0]);
    vt_tensor *own = dx ? dropped_part_of(g, n->out->grad, n->in[1], (uint64_t)n->i[0],
                                          (dropped_part)n->i[1]) : NULL;
    if (own)
        VT_RUN(g, scale, dx, own, 1.0f);
}

static vt_tensor *drop_part(vt_ctx *g, vt_tensor *x, const vt_lin *l, dropped_part part)
{
    const vt_dropout *p = &g->dropout.p;
    vt_tensor *draw = l->lora_key ? g->dropout.draw : NULL, same;

    if (!x || !draw || !(part == INPUT ? p->input > 0 : p->neuron + p->rank + p->module > 0))
        return x;
    if (!flat(x, &same) && !(x = vt_pack(g, x)))
        return NULL;
    vt_tensor *y = dropped_part_of(g, x, draw, l->lora_key, part);
    vt_node *node;
    y = vt_record(g, y, "dropout", drop_grad, 2, (vt_tensor *[]){ x, draw }, 2, false, &node);
    if (node) {
        node->i[0] = (int64_t)l->lora_key;
        node->i[1] = part;
    }
    return y;
}

vt_tensor *vt_drop_input(vt_ctx *g, vt_tensor *x, const vt_lin *l)
{
    return drop_part(g, x, l, INPUT);
}

vt_tensor *vt_drop_change(vt_ctx *g, vt_tensor *y, const vt_lin *l)
{
    return drop_part(g, y, l, CHANGE);
}

/* ---- LoRA ---- */

/* Returns true if the device rounds every operand of a LoRA's products to bf16. */
static bool all_rounded(const vt_ctx *g, const vt_tensor *x, const vt_tensor *y)
{
    return g->be->rounds_products && x->dtype == VC_BF16 && y->dtype == VC_BF16;
}

/* Returns the type of x a' and of its gradient. Dropout, which scales both, comes before the
 * rounding. */
static vc_dtype hidden_type(const vt_ctx *g, const vt_tensor *x, const vt_tensor *y,
                            const vt_tensor *draw)
{
    return all_rounded(g, x, y) && !draw ? VC_BF16 : VC_F32;
}

/* Returns a factor as the products read it: in bf16 if it is kept so, and f32 would be rounded. */
static vt_tensor factor(const vt_ctx *g, const vt_tensor *w, const vt_tensor *x,
                        const vt_tensor *y)
{
    vt_tensor f = *w;

    if (w->rounded && all_rounded(g, x, y)) {
        f.dtype = VC_BF16;
        f.data = w->rounded;
    }
    return f;
}

/* ---- gradients ---- */

static uint64_t key_of(const vt_node *n) { return (uint64_t)n->i[0]; }

/* Returns true if the gradient of w or of LoRA needs the input. */
static bool needs_input(const vt_tensor *w, const vt_tensor *lora_a)
{
    return w->needs_grad || lora_a;
}

/* Sets *x to the input as [M,k], which is computed again if only PRE was saved. */
static void input_of(vt_ctx *g, const vt_node *n, vt_tensor *x)
{
    flat(n->in[X], x);
    if (!n->in[PRE] || !needs_input(n->in[W], n->in[LORA_A]))
        return;
    vt_tensor *again = vt_new(g, n->in[PRE]->dtype, 2, n->in[PRE]->dim);
    if (!again)
        return;
    VT_RUN(g, unary, VT_GELU_TANH, again, n->in[PRE]);
    *x = *again;
}

/* Adds the base's gradients: dw += dy' x, db += sum of dy's rows. */
static void base_grad(vt_ctx *g, const vt_node *n, const vt_tensor *dy, const vt_tensor *x)
{
    vt_tensor *dw = vt_grad(g, n->in[W]), *db = vt_grad(g, n->in[B]);

    if (dw && db) {
        count_flops(g, dw->dim[0], dy->dim[0], dw->dim[1]);
        VT_RUN_HEAVY(g, matmul_bias_grad, dw, db, dy, x, beta(dw));
        vt_wrote(dw);
    } else if (dw) {
        product(g, dw, dy, true, x, false, NULL, 1.0f, beta(dw));
    } else if (db) {
        vt_tensor rows = vt_expand(db, dy);
        VT_RUN(g, reduce, &rows, dy, NULL, 1.0f);
    }
}

/* Adds LoRA's gradients: db += s dy' h, da += dh' x. */
static void lora_grad(vt_ctx *g, const vt_node *n, const vt_tensor *dy, vt_tensor *x,
                      const vt_tensor *dh)
{
    vt_tensor *da = vt_grad(g, n->in[LORA_A]), *db = vt_grad(g, n->in[LORA_B]);

    if (db)
        product(g, db, dy, true, n->in[H], false, NULL, n->f[0], beta(db));
    if (da && (x = dropped(g, x, n->in[DRAW], key_of(n))))
        product(g, da, dh, true, x, false, NULL, 1.0f, beta(da));
}

/* dx2 += I (dh a), times gelu's slope if x is gelu(PRE): with dropout of LoRA's input, as separate
 * kernels. */
static void input_grad(vt_ctx *g, const vt_node *n, vt_tensor *dx2, const vt_tensor *dh,
                       const vt_tensor *a)
{
    vt_tensor *own = vt_new(g, VC_F32, 2, dx2->dim), to = *dx2;
    vt_buf over = { .empty = true };          /* in place: the sum is overwritten */

    if (!own)
        return;
    product(g, own, dh, false, a, false, NULL, 1.0f, 0.0f);
    drop(g, own, n->in[DRAW], key_of(n), INPUT);
    VT_RUN(g, scale, dx2, own, 1.0f);
    to.buf = &over;
    if (n->in[PRE])
        VT_RUN(g, unary_grad, VT_GELU_TANH, &to, dx2, n->in[PRE]);
}

/* The input's gradient comes last, so that its memory is taken after that of an input which was
 * computed again is given back: dx += dy w and, with dh = s dy b, dx += dh a. */
static void linear_grad(vt_ctx *g, const vt_node *n)
{
    vt_tensor dy, *dh = NULL;
    bool lora = n->in[LORA_A];

    flat(n->out->grad, &dy);
    if (lora) {
        vt_tensor b = factor(g, n->in[LORA_B], n->in[X], &dy);
        dh = vt_new(g, n->in[H]->dtype, 2, n->in[H]->dim);
        if (!dh)
            return;
        product(g, dh, &dy, false, &b, false, NULL, n->f[0], 0.0f);
        if (n->in[DRAW])
            drop(g, dh, n->in[DRAW], key_of(n), HIDDEN);
    }
    vt_scope s = vt_scope_begin(g);
    vt_tensor x;
    input_of(g, n, &x);
    base_grad(g, n, &dy, &x);
    if (lora)
        lora_grad(g, n, &dy, &x, dh);
    vt_scope_end(g, s, 0, NULL);

    vt_tensor *dx = vt_grad(g, n->in[X]), dx2;
    if (!dx)
        return;
    ending e = plain;
    if (n->in[PRE])
        e = (ending){ GELU_GRAD, n->in[PRE] };
    flat(dx, &dx2);
    last_product(g, &dx2, &dy, n->in[W], false, NULL, 1.0f, beta(dx), lora ? &plain : &e);
    if (!lora)
        return;
    vt_tensor a = factor(g, n->in[LORA_A], n->in[X], &dy);
    if (n->in[DRAW] && g->dropout.p.input > 0)
        input_grad(g, n, &dx2, dh, &a);
    else
        last_product(g, &dx2, dh, &a, false, NULL, 1.0f, 1.0f, &e);
}

static const char *wrong(const vt_tensor *x, const vt_lin *l)
{
    const vt_tensor *w = l->w, *a = l->lora_a, *b = l->lora_b;

    if (x->nd < 1 || w->nd != 2 || w->dim[1] != vt_last(x))
        return "the last axis of x must be the last of w [out,in]";
    if (l->b && (l->b->nd != 1 || l->b->dim[0] != w->dim[0]))
        return "the bias must be [out]";
    if (!a != !b || (a && (a->nd != 2 || b->nd != 2 || a->dim[1] != w->dim[1] ||
                           b->dim[0] != w->dim[0] || a->dim[0] != b->dim[1])))
        return "LoRA must be a [r,in] and b [out,r]";
    const vt_tensor *scale = w->scale;
    if (scale && (scale->nd < 1 || scale->nd > 2 || scale->dim[0] != w->dim[0] ||
                  (scale->nd == 2 && w->dim[1] % scale->dim[1]) || w->needs_grad ||
                  scale->dtype != VC_F32 || !vt_packed(scale)))
        return "the scale must be f32 [out] or [out,n], of a frozen weight";
    if (!vt_packed(w) || (l->b && !vt_packed(l->b)) || (a && !(vt_packed(a) && vt_packed(b))))
        return "weights must be packed";
    return NULL;
}

/* h = x a', y += s h b', with dropout */
static vt_tensor *add_lora(vt_ctx *g, vt_tensor *y2, vt_tensor *x2, const vt_lin *l,
                           const ending *e)
{
    const vt_tensor *draw = draw_of(g, l);
    vt_tensor *h = vt_new(g, hidden_type(g, x2, y2, draw), 2,
                          (int64_t[]){ x2->dim[0], l->lora_a->dim[0] }), *x;
    vt_tensor a = factor(g, l->lora_a, x2, y2), b = factor(g, l->lora_b, x2, y2);

    if (!h)
        return NULL;
    vt_scope s = vt_scope_begin(g);
    if ((x = dropped(g, x2, draw, l->lora_key)))
        product(g, h, x, false, &a, true, NULL, 1.0f, 0.0f);
    vt_scope_end(g, s, 0, NULL);
    if (!x)
        return NULL;
    if (draw)
        drop(g, h, draw, l->lora_key, HIDDEN);
    last_product(g, y2, h, &b, true, NULL, l->lora_scale, 1.0f, e);
    return h;
}

/* A linear layer with result of type `type`. If gelu is not NULL, GELU is applied to the result,
 * and *gelu becomes its input if a gradient is needed. If pre is not NULL, x is gelu(pre) of the
 * first layer; the gradient written for x is then that of pre, as the first layer's gradient
 * function expects. */
static vt_tensor *linear(vt_ctx *g, vt_tensor *x, const vt_lin *l, vc_dtype type, vt_tensor **gelu,
                         vt_tensor *pre)
{
    vt_lin base = *l;
    if (g->bare) {
        base.lora_a = base.lora_b = NULL;
        l = &base;
    }
    vt_tensor *all[] = { x, l->w, l->b, l->lora_a, l->lora_b }, *some[INPUTS];
    int n = 0;

    for (int i = 0; i < H; i++)
        if (all[i] || i < 2)
            some[n++] = all[i];
    if (!vt_ok(g, "linear", n, some))
        return NULL;
    const char *why = wrong(x, l);
    if (why)
        return vt_bad(g, "linear", why, n, some);
    vt_tensor x2, y2;
    if (!flat(x, &x2)) {
        x = vt_pack(g, x);
        if (!x)
            return NULL;
        flat(x, &x2);
    }
    int64_t dim[VT_DIMS];
    for (int i = 0; i < x->nd; i++)
        dim[i] = i == x->nd - 1 ? l->w->dim[0] : x->dim[i];
    g->op = "linear";
    vt_tensor *y = vt_new(g, type, x->nd, dim), *h = NULL;
    if (!y)
        return NULL;
    flat(y, &y2);
    ending e = plain;
    if (gelu) {
        if (vt_tracks(g, H, all) && !(*gelu = vt_new(g, type, 2, y2.dim)))
            return NULL;
        e = (ending){ GELU, *gelu };
    }
    last_product(g, &y2, &x2, l->w, true, l->b, 1.0f, 0.0f, l->lora_a ? &plain : &e);
    if (l->lora_a && !(h = add_lora(g, &y2, &x2, l, &e)))
        return NULL;

    vt_tensor *in[] = { x, l->w, l->b, l->lora_a, l->lora_b, h, pre, draw_of(g, l) };
    unsigned keep = ((1u << INPUTS) - 1) & ~(1u << X | 1u << B);
    if (needs_input(l->w, l->lora_a) && !pre)
        keep |= 1u << X;
    vt_node *node;
    y = vt_record(g, y, "linear", linear_grad, INPUTS, in, keep, false, &node);
    if (node) {
        node->f[0] = l->lora_scale;
        node->i[0] = (int64_t)l->lora_key;
    }
    return y;
}

/* True if the layer's output is that of its adapter's row. */
static bool applied(const vt_ctx *g, const vt_lin *l)
{
    return l->apply && !g->bare;
}

vt_tensor *vt_linear(vt_ctx *g, vt_tensor *x, const vt_lin *l)
{
    return applied(g, l) ? l->apply(g, x, l, g->compute) : linear(g, x, l, g->compute, NULL, NULL);
}

vt_tensor *vt_linear_f32(vt_ctx *g, vt_tensor *x, const vt_lin *l)
{
    return applied(g, l) ? l->apply(g, x, l, VC_F32) : linear(g, x, l, VC_F32, NULL, NULL);
}

vt_tensor *vt_feed_forward(vt_ctx *g, vt_tensor *x, const vt_lin *up, const vt_lin *down)
{
    if (applied(g, up) || applied(g, down))
        return vt_linear(g, vt_gelu(g, vt_linear(g, x, up)), down);
    vt_tensor *pre = NULL, *h = linear(g, x, up, g->compute, &pre, NULL);

    return linear(g, h, down, g->compute, NULL, pre);
}
