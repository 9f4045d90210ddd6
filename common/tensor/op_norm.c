/* op_norm.c - norms over the last axis, with modulation, and gated residuals: of a whole tensor, or
 * of tokens in two groups, each with its own shift, scale and gate; see ops.h. The kernels run once
 * for each group, on the group's tokens. */
#include <math.h>

#include "common/tensor/engine.h"

/* Returns the tokens of group k, of which the first has `split`; with split 0 the one group is all
 * of t. own, if not NULL, becomes the part's buffer state, so that each part is as empty as t was
 * before the first was written; then the caller marks t as written. */
static vt_tensor group_of(const vt_tensor *t, int k, int64_t split, vt_buf *own)
{
    vt_tensor p = *t;
    const int64_t begin = k ? split : 0;

    if (split)
        p.dim[1] = k ? t->dim[1] - split : split;
    if (p.data && begin)
        p.data = (char *)p.data + begin * t->stride[1] * (int64_t)vc_dtype_size(t->dtype);
    if (own && t->buf) {
        *own = *t->buf;
        p.buf = own;
    }
    return p;
}

static int groups(int64_t split) { return split ? 2 : 1; }

/* ---- norm ---- */

enum { X, STATS, W, B, SHIFT, SCALE = SHIFT + 2, INPUTS = SCALE + 2 };

/* Returns the statistics' rows of group k; those of group 0 come first. */
static vt_tensor stats_of(const vt_tensor *stats, const vt_tensor *part, int k)
{
    vt_tensor s = *stats;

    s.dim[0] = vt_count(part) / vt_last(part);
    if (k && s.data)
        s.data = (float *)s.data + 2 * (stats->dim[0] - s.dim[0]);
    return s;
}

/* Returns t, in the shape of the part x of its tokens, in *e; NULL for NULL. */
static vt_tensor *expanded(vt_tensor *e, const vt_tensor *t, const vt_tensor *x)
{
    if (t)
        *e = vt_expand(t, x);
    return t ? e : NULL;
}

static void norm_grad(vt_ctx *g, const vt_node *n)
{
    const int64_t split = n->i[0];
    vt_tensor *const *in = n->in, *dx = vt_grad(g, in[X]);
    vt_tensor *dw = vt_grad(g, in[W]), *db = vt_grad(g, in[B]);

    for (int k = 0; k < groups(split); k++) {
        vt_tensor x = group_of(in[X], k, split, NULL), part, scale, shifted, scaled;
        vt_tensor dy = group_of(n->out->grad, k, split, NULL), stats = stats_of(in[STATS], &x, k);
        /* A dry step makes these gradients too, but does not evaluate the arguments of VT_RUN. */
        vt_tensor *dshift = vt_grad(g, in[SHIFT + k]), *dscale = vt_grad(g, in[SCALE + k]);
        vt_buf own;
        if (dx)
            part = group_of(dx, k, split, &own);
        VT_RUN(g, norm_grad, dx ? &part : NULL, dw, db, expanded(&shifted, dshift, &x),
               expanded(&scaled, dscale, &x), &dy, &x, &stats, in[W], in[B],
               expanded(&scale, in[SCALE + k], &x), n->i[1] != 0);
    }
    if (dx)
        vt_wrote(dx);
}

static bool is_row(const vt_tensor *t, int64_t d)
{
    return !t || (t->nd == 1 && t->dim[0] == d && vt_packed(t));
}

static bool is_split(const vt_tensor *x, int64_t split)
{
    return x->nd == 3 && split > 0 && split < x->dim[1];
}

static const char *wrong(const vt_tensor *x, vt_tensor *const *in, int64_t split)
{
    if (x->nd < 1)
        return "x has no axis";
    if (!is_row(in[W], vt_last(x)) || !is_row(in[B], vt_last(x)))
        return "w and b must have the size of x's last axis";
    for (int k = 0; k < groups(split); k++) {
        const vt_tensor part = group_of(x, k, split, NULL);
        const vt_tensor *shift = in[SHIFT + k], *scale = in[SCALE + k];
        if (!shift != !scale)
            return "shift and scale go together";
        if (shift && (!vt_same_shape(shift, scale) || shift->nd < 1 ||
                      vt_last(shift) != vt_last(x) || !vt_broadcasts(shift, &part)))
            return split ? "shift and scale must be equal and broadcast to their group's tokens"
                         : "shift and scale must be equal and broadcast to x";
    }
    return NULL;
}

static void run_norm(vt_ctx *g, vt_tensor *y, vt_tensor *const *in, int64_t split, float eps,
                     bool rms)
{
    for (int k = 0; k < groups(split); k++) {
        vt_tensor x = group_of(in[X], k, split, NULL), out = group_of(y, k, split, NULL);
        vt_tensor stats, shift, scale;
        if (in[STATS])
            stats = stats_of(in[STATS], &x, k);
        VT_RUN(g, norm, &out, in[STATS] ? &stats : NULL, &x, in[W], in[B],
               expanded(&shift, in[SHIFT + k], &x), expanded(&scale, in[SCALE + k], &x), eps, rms);
    }
}

/* Norms with the inputs in[INPUTS], of which all but x may be NULL. */
static vt_tensor *norm(vt_ctx *g, const char *op, vt_tensor **in, int64_t split, float eps,
                       bool rms)
{
    vt_tensor *some[INPUTS];
    int n = 0;

    for (int i = 0; i < INPUTS; i++)
        if (in[i] || i == X)
            some[n++] = in[i];
    if (!vt_ok(g, op, n, some))
        return NULL;
    const char *why = wrong(in[X], in, split);
    if (why)
        return vt_bad(g, op, why, n, some);
    for (int i = X; i < INPUTS; i++)
        if (in[i] && i != W && i != B && !(in[i] = vt_rows_packed(g, in[i])))
            return NULL;
    vt_tensor *x = in[X], *y = vt_new(g, vt_result(g, x), x->nd, x->dim);
    if (!y)
        return NULL;
    if (vt_tracks(g, INPUTS, in) &&
        !(in[STATS] = vt_new(g, VC_F32, 2, (int64_t[]){ vt_count(x) / vt_last(x), 2 })))
        return NULL;
    run_norm(g, y, in, split, eps, rms);
    vt_node *node;
    const unsigned keep = ((1u << INPUTS) - 1) & ~(3u << SHIFT);
    y = vt_record(g, y, op, norm_grad, INPUTS, in, keep, false, &node);
    if (node) {
        node->i[0] = split;
        node->i[1] = rms;
    }
    return y;
}

vt_tensor *vt_layer_norm(vt_ctx *g, vt_tensor *x, vt_tensor *w, vt_tensor *b, float eps)
{
    return norm(g, "layer_norm", (vt_tensor *[INPUTS]){ x, NULL, w, b }, 0, eps, false);
}

vt_tensor *vt_layer_norm_modulate(vt_ctx *g, vt_tensor *x, vt_tensor *w, vt_tensor *b,
                                  vt_tensor *shift, vt_tensor *scale, float eps)
{
    vt_tensor *in[INPUTS] = { x, NULL, w, b, shift, NULL, scale };

    return norm(g, "layer_norm_modulate", in, 0, eps, false);
}

vt_tensor *vt_layer_norm_modulate_two(vt_ctx *g, vt_tensor *x, vt_tensor *w, vt_tensor *b,
                                      int64_t split, vt_tensor *const shift[2],
                                      vt_tensor *const scale[2], float eps)
{
    static const char op[] = "layer_norm_modulate_two";
    vt_tensor *in[INPUTS] = { x, NULL, w, b, shift[0], shift[1], scale[0], scale[1] };
    vt_tensor *some[] = { x, shift[0], shift[1], scale[0], scale[1] };

    if (!vt_ok(g, op, 5, some))
        return NULL;
    if (!is_split(x, split))
        return vt_bad(g, op, "x must be [B,N,D], split within N", 5, some);
    return norm(g, op, in, split, eps, false);
}

vt_tensor *vt_rms_norm(vt_ctx *g, vt_tensor *x, vt_tensor *w, float eps)
{
    return norm(g, "rms_norm", (vt_tensor *[INPUTS]){ x, NULL, w }, 0, eps, true);
}

vt_tensor *vt_rms_norm_modulate(vt_ctx *g, vt_tensor *x, vt_tensor *w, vt_tensor *shift,
                                vt_tensor *scale, float eps)
{
    vt_tensor *in[INPUTS] = { x, NULL, w, NULL, shift, NULL, scale };

    return norm(g, "rms_norm_modulate", in, 0, eps, true);
}

vt_tensor *vt_l2_norm(vt_ctx *g, vt_tensor *x, vt_tensor *w, float eps)
{
    float d = x ? (float)vt_last(x) : 1;
    vt_tensor *y = norm(g, "l2_norm", (vt_tensor *[INPUTS]){ x, NULL, w }, 0, eps * eps / d, true);

    return y ? vt_scale(g, y, 1.0f / sqrtf(d)) : NULL;
}

/* ---- gated residual ---- */

enum { R_X, R_H, R_GATE, R_INPUTS = R_GATE + 2 };

static void gated_grad(vt_ctx *g, const vt_node *n)
{
    const int64_t split = n->i[0];
    vt_tensor *h = n->in[R_H], *dh = vt_grad(g, h);

    for (int k = 0; k < groups(split); k++) {
        vt_tensor *gate = n->in[R_GATE + k], dy = group_of(n->out->grad, k, split, NULL);
        const vt_tensor other = group_of(h, k, split, NULL);
        vt_buf own;
        if (dh) {
            vt_tensor part = group_of(dh, k, split, &own), e = vt_expand(gate, &dy);
            VT_RUN(g, mul_grad, &part, &dy, &e);
        }
        vt_reduce_to(g, gate, &dy, &other, 1.0f);
    }
    if (dh)
        vt_wrote(dh);
    vt_pass_grad(g, n, n->in[R_X]);
}

/* x + gate h, for inputs that were checked. */
static vt_tensor *gated_add(vt_ctx *g, const char *op, vt_tensor *const *in, int64_t split)
{
    vt_tensor *x = in[R_X], *h = in[R_H], *y = vt_new(g, vt_result(g, x), x->nd, x->dim);
    unsigned keep = h->needs_grad ? 3u << R_GATE : 0;

    for (int k = 0; y && k < groups(split); k++) {
        vt_tensor out = group_of(y, k, split, NULL), px = group_of(x, k, split, NULL);
        vt_tensor ph = group_of(h, k, split, NULL), e = vt_expand(in[R_GATE + k], &px);
        VT_RUN(g, gated_add, &out, &px, &ph, &e);
        keep |= in[R_GATE + k]->needs_grad ? 1u << R_H : 0;
    }
    vt_node *node = NULL;
    y = vt_record(g, y, op, gated_grad, R_INPUTS, in, keep, false, &node);
    if (node)
        node->i[0] = split;
    return y;
}

vt_tensor *vt_gated_add(vt_ctx *g, vt_tensor *x, vt_tensor *h, vt_tensor *gate)
{
    vt_tensor *in[R_INPUTS] = { x, h, gate };

    if (!vt_ok(g, "gated_add", 3, in))
        return NULL;
    if (!vt_same_shape(x, h) || !vt_broadcasts(gate, x))
        return vt_bad(g, "gated_add", "x and y must be equal, the gate broadcast", 3, in);
    return gated_add(g, "gated_add", in, 0);
}

vt_tensor *vt_gated_add_two(vt_ctx *g, vt_tensor *x, vt_tensor *h, int64_t split,
                            vt_tensor *const gate[2])
{
    static const char op[] = "gated_add_two";
    vt_tensor *in[R_INPUTS] = { x, h, gate[0], gate[1] };

    if (!vt_ok(g, op, R_INPUTS, in))
        return NULL;
    bool fits = is_split(x, split) && vt_same_shape(x, h);
    for (int k = 0; fits && k < 2; k++) {
        const vt_tensor part = group_of(x, k, split, NULL);
        fits = vt_broadcasts(gate[k], &part);
    }
    if (!fits)
        return vt_bad(g, op, "x and y must be equal [B,N,D], split within N, gates [B,1,D] or a "
                      "row for each token of their group", R_INPUTS, in);
    return gated_add(g, op, in, split);
}
