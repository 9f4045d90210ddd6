/* op_groups.c - modulation of tokens in two groups, each with its own shift, scale and gate; see
 * ops.h. The kernels of norms and gated adds run once for each group, on the group's tokens. The
 * ops of one group (op_norm.c, op_elem.c) take tensors of any axes, whole, and so have no part of
 * this code in common but the kernels. */
#include "common/tensor/engine.h"

/* Returns the tokens of group k. own, if not NULL, becomes the part's buffer state, so that both
 * parts are as empty as t was before the first was written; then the caller marks t as written. */
static vt_tensor tokens_of(const vt_tensor *t, int k, int64_t split, vt_buf *own)
{
    vt_tensor p = *t;
    int64_t begin = k ? split : 0;

    p.dim[1] = k ? t->dim[1] - split : split;
    if (p.data)
        p.data = (char *)p.data + begin * t->stride[1] * (int64_t)vc_dtype_size(t->dtype);
    if (own && t->buf) {
        *own = *t->buf;
        p.buf = own;
    }
    return p;
}

/* Whether each of the pair broadcasts to the tokens of its group. */
static bool is_pair(const vt_tensor *x, int64_t split, vt_tensor *const pair[2])
{
    for (int k = 0; k < 2; k++) {
        const vt_tensor part = tokens_of(x, k, split, NULL);
        if (pair[k]->nd < 1 || vt_last(pair[k]) != vt_last(x) || !vt_broadcasts(pair[k], &part))
            return false;
    }
    return true;
}

static bool is_split(const vt_tensor *x, int64_t split)
{
    return x->nd == 3 && split > 0 && split < x->dim[1];
}

/* ---- norm ---- */

enum { X, STATS, W, B, SHIFT, SCALE = SHIFT + 2, INPUTS = SCALE + 2 };

/* Returns the statistics' rows of group k; those of group 0 come first. */
static vt_tensor stats_of(const vt_tensor *stats, const vt_tensor *part, int k)
{
    vt_tensor s = *stats;

    s.dim[0] = part->dim[0] * part->dim[1];
    if (k && s.data)
        s.data = (float *)s.data + 2 * (stats->dim[0] - s.dim[0]);
    return s;
}

static void norm_grad(vt_ctx *g, const vt_node *n)
{
    vt_tensor *const *in = n->in, *dx = vt_grad(g, in[X]);
    vt_tensor *dw = vt_grad(g, in[W]), *db = vt_grad(g, in[B]);
    vt_buf own[2];

    for (int k = 0; k < 2; k++) {
        vt_tensor *dshift = vt_grad(g, in[SHIFT + k]), *dscale = vt_grad(g, in[SCALE + k]);
        vt_tensor x = tokens_of(in[X], k, n->i[0], NULL), part, eshift, escale;
        vt_tensor dy = tokens_of(n->out->grad, k, n->i[0], NULL);
        vt_tensor stats = stats_of(in[STATS], &x, k), scale = vt_expand(in[SCALE + k], &x);
        if (dx)
            part = tokens_of(dx, k, n->i[0], &own[k]);
        if (dshift)
            eshift = vt_expand(dshift, &x);
        if (dscale)
            escale = vt_expand(dscale, &x);
        VT_RUN(g, norm_grad, dx ? &part : NULL, dw, db, dshift ? &eshift : NULL,
               dscale ? &escale : NULL, &dy, &x, &stats, in[W], in[B], &scale, false);
    }
    if (dx)
        vt_wrote(dx);
}

static bool is_row(const vt_tensor *t, int64_t d)
{
    return !t || (t->nd == 1 && t->dim[0] == d && vt_packed(t));
}

static const char *wrong_norm(const vt_tensor *x, vt_tensor *const *in, int64_t split)
{
    if (!is_split(x, split))
        return "x must be [B,N,D], split within N";
    if (!is_row(in[W], vt_last(x)) || !is_row(in[B], vt_last(x)))
        return "w and b must have the size of x's last axis";
    if (!is_pair(x, split, in + SHIFT) || !is_pair(x, split, in + SCALE))
        return "shifts and scales must be [B,1,D], or have a row for each token of their group";
    for (int k = 0; k < 2; k++)
        if (!vt_same_shape(in[SHIFT + k], in[SCALE + k]))
            return "shift and scale of a group must be equal";
    return NULL;
}

static void run_norm(vt_ctx *g, vt_tensor *y, vt_tensor *const *in, int64_t split, float eps)
{
    for (int k = 0; k < 2; k++) {
        vt_tensor x = tokens_of(in[X], k, split, NULL), out = tokens_of(y, k, split, NULL), stats;
        vt_tensor shift = vt_expand(in[SHIFT + k], &x), scale = vt_expand(in[SCALE + k], &x);
        if (in[STATS])
            stats = stats_of(in[STATS], &x, k);
        VT_RUN(g, norm, &out, in[STATS] ? &stats : NULL, &x, in[W], in[B], &shift, &scale, eps,
               false);
    }
}

vt_tensor *vt_layer_norm_modulate_two(vt_ctx *g, vt_tensor *x, vt_tensor *w, vt_tensor *b,
                                      int64_t split, vt_tensor *const shift[2],
                                      vt_tensor *const scale[2], float eps)
{
    static const char op[] = "layer_norm_modulate_two";
    vt_tensor *in[INPUTS] = { x, NULL, w, b, shift[0], shift[1], scale[0], scale[1] };
    vt_tensor *some[7] = { x, shift[0], shift[1], scale[0], scale[1] };
    int n = 5;

    if (w)
        some[n++] = w;
    if (b)
        some[n++] = b;
    if (!vt_ok(g, op, n, some))
        return NULL;
    const char *why = wrong_norm(x, in, split);
    if (why)
        return vt_bad(g, op, why, n, some);
    for (int i = X; i < INPUTS; i++)
        if (i != STATS && i != W && i != B && !(in[i] = vt_rows_packed(g, in[i])))
            return NULL;
    vt_tensor *y = vt_new(g, vt_result(g, x), x->nd, x->dim);
    if (!y)
        return NULL;
    if (vt_tracks(g, INPUTS, in) &&
        !(in[STATS] = vt_new(g, VC_F32, 2, (int64_t[]){ x->dim[0] * x->dim[1], 2 })))
        return NULL;
    run_norm(g, y, in, split, eps);
    vt_node *node;
    unsigned keep = ((1u << INPUTS) - 1) & ~(3u << SHIFT);
    y = vt_record(g, y, op, norm_grad, INPUTS, in, keep, false, &node);
    if (node)
        node->i[0] = split;
    return y;
}

/* ---- gated residual ---- */

enum { R_X, R_Y, R_GATE, R_INPUTS = R_GATE + 2 };

static void gated_grad(vt_ctx *g, const vt_node *n)
{
    vt_tensor *h = n->in[R_Y], *dh = vt_grad(g, h);
    vt_buf own[2];

    for (int k = 0; k < 2; k++) {
        vt_tensor *gate = n->in[R_GATE + k], *dgate = vt_grad(g, gate);
        vt_tensor dy = tokens_of(n->out->grad, k, n->i[0], NULL);
        if (dh) {
            vt_tensor part = tokens_of(dh, k, n->i[0], &own[k]), e = vt_expand(gate, &dy);
            VT_RUN(g, mul_grad, &part, &dy, &e);
        }
        if (dgate) {
            vt_tensor part = tokens_of(h, k, n->i[0], NULL), e = vt_expand(dgate, &dy);
            VT_RUN(g, reduce, &e, &dy, &part, 1.0f);
        }
    }
    if (dh)
        vt_wrote(dh);
    vt_pass_grad(g, n, n->in[R_X]);
}

vt_tensor *vt_gated_add_two(vt_ctx *g, vt_tensor *x, vt_tensor *h, int64_t split,
                            vt_tensor *const gate[2])
{
    static const char op[] = "gated_add_two";
    vt_tensor *in[R_INPUTS] = { x, h, gate[0], gate[1] };

    if (!vt_ok(g, op, R_INPUTS, in))
        return NULL;
    if (!is_split(x, split) || !vt_same_shape(x, h) || !is_pair(x, split, gate))
        return vt_bad(g, op, "x and y must be equal [B,N,D], split within N, gates [B,1,D] or a "
                      "row for each token of their group", R_INPUTS, in);
    vt_tensor *y = vt_new(g, vt_result(g, x), x->nd, x->dim);
    if (!y)
        return NULL;
    for (int k = 0; k < 2; k++) {
        vt_tensor out = tokens_of(y, k, split, NULL), px = tokens_of(x, k, split, NULL);
        vt_tensor ph = tokens_of(h, k, split, NULL), e = vt_expand(gate[k], &px);
        VT_RUN(g, gated_add, &out, &px, &ph, &e);
    }
    unsigned keep = (gate[0]->needs_grad || gate[1]->needs_grad ? 1u << R_Y : 0) |
                    (h->needs_grad ? 3u << R_GATE : 0);
    vt_node *node;
    y = vt_record(g, y, op, gated_grad, R_INPUTS, in, keep, false, &node);
    if (node)
        node->i[0] = split;
    return y;
}
