/* op_norm.c - norms over the last axis, with modulation; see ops.h */
#include <math.h>

#include "common/tensor/engine.h"

enum { X, STATS, W, B, SHIFT, SCALE, INPUTS };

static void norm_grad(vt_ctx *g, const vt_node *n)
{
    vt_tensor *const *in = n->in, *x = in[X];
    vt_tensor *dx = vt_grad(g, x), *dw = vt_grad(g, in[W]), *db = vt_grad(g, in[B]);
    vt_tensor *dshift = vt_grad(g, in[SHIFT]), *dscale = vt_grad(g, in[SCALE]);
    vt_tensor scale, eshift, escale;

    if (in[SCALE])
        scale = vt_expand(in[SCALE], x);
    if (dshift)
        eshift = vt_expand(dshift, x);
    if (dscale)
        escale = vt_expand(dscale, x);
    VT_RUN(g, norm_grad, dx, dw, db, dshift ? &eshift : NULL, dscale ? &escale : NULL,
           n->out->grad, x, in[STATS], in[W], in[B], in[SCALE] ? &scale : NULL, n->i[0] != 0);
}

static bool is_row(const vt_tensor *t, int64_t d)
{
    return !t || (t->nd == 1 && t->dim[0] == d && vt_packed(t));
}

static const char *wrong(const vt_tensor *x, const vt_tensor *w, const vt_tensor *b,
                         const vt_tensor *shift, const vt_tensor *scale)
{
    int64_t d = vt_last(x);

    if (x->nd < 1)
        return "x has no axis";
    if (!is_row(w, d) || !is_row(b, d))
        return "w and b must have the size of x's last axis";
    if (!shift != !scale)
        return "shift and scale go together";
    if (shift && (!vt_same_shape(shift, scale) || vt_last(shift) != d || shift->nd < 1 ||
                  !vt_broadcasts(shift, x)))
        return "shift and scale must be equal and broadcast to x";
    return NULL;
}

static vt_tensor *norm(vt_ctx *g, const char *op, vt_tensor *x, vt_tensor *w, vt_tensor *b,
                       vt_tensor *shift, vt_tensor *scale, float eps, bool rms)
{
    vt_tensor *some[INPUTS], *all[] = { x, w, b, shift, scale };
    int n = 0;

    for (int i = 0; i < 5; i++)
        if (all[i] || i == 0)
            some[n++] = all[i];
    if (!vt_ok(g, op, n, some))
        return NULL;
    const char *why = wrong(x, w, b, shift, scale);
    if (why)
        return vt_bad(g, op, why, n, some);
    x = vt_rows_packed(g, x);
    if (shift) {
        shift = vt_rows_packed(g, shift);
        scale = vt_rows_packed(g, scale);
    }
    vt_tensor *y = x ? vt_new(g, vt_result(g, x), x->nd, x->dim) : NULL, *stats = NULL;
    if (!y || (shift && !scale))
        return NULL;
    vt_tensor *in[] = { x, NULL, w, b, shift, scale };
    if (vt_tracks(g, INPUTS, in)) {
        stats = vt_new(g, VC_F32, 2, (int64_t[]){ vt_count(x) / vt_last(x), 2 });
        if (!stats)
            return NULL;
        in[STATS] = stats;
    }
    vt_tensor es, ec;
    if (shift) {
        es = vt_expand(shift, x);
        ec = vt_expand(scale, x);
    }
    VT_RUN(g, norm, y, stats, x, w, b, shift ? &es : NULL, shift ? &ec : NULL, eps, rms);
    vt_node *node;
    unsigned values = ((1u << INPUTS) - 1) & ~(1u << SHIFT);
    y = vt_record(g, y, op, norm_grad, INPUTS, in, values, false, &node);
    if (node)
        node->i[0] = rms;
    return y;
}

vt_tensor *vt_layer_norm(vt_ctx *g, vt_tensor *x, vt_tensor *w, vt_tensor *b, float eps)
{
    return norm(g, "layer_norm", x, w, b, NULL, NULL, eps, false);
}

vt_tensor *vt_layer_norm_modulate(vt_ctx *g, vt_tensor *x, vt_tensor *w, vt_tensor *b,
                                  vt_tensor *shift, vt_tensor *scale, float eps)
{
    return norm(g, "layer_norm_modulate", x, w, b, shift, scale, eps, false);
}

vt_tensor *vt_rms_norm(vt_ctx *g, vt_tensor *x, vt_tensor *w, float eps)
{
    return norm(g, "rms_norm", x, w, NULL, NULL, NULL, eps, true);
}

vt_tensor *vt_rms_norm_modulate(vt_ctx *g, vt_tensor *x, vt_tensor *w, vt_tensor *shift,
                                vt_tensor *scale, float eps)
{
    return norm(g, "rms_norm_modulate", x, w, NULL, shift, scale, eps, true);
}

vt_tensor *vt_l2_norm(vt_ctx *g, vt_tensor *x, vt_tensor *w, float eps)
{
    float d = x ? (float)vt_last(x) : 1;
    vt_tensor *y = norm(g, "l2_norm", x, w, NULL, NULL, NULL, eps * eps / d, true);

    return y ? vt_scale(g, y, 1.0f / sqrtf(d)) : NULL;
}
