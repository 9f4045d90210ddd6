/* op_loss.c - losses; see ops.h */
#include "common/tensor/engine.h"

#include <math.h>

static void mse_grad(vt_ctx *g, const vt_node *n)
{
    vt_tensor *pred = n->in[0], *weight = n->in[2], *dp = vt_grad(g, pred), e;

    if (!dp)
        return;
    if (weight)
        e = vt_expand(weight, pred);
    VT_RUN(g, mse_grad, dp, n->out->grad, pred, n->in[1], weight ? &e : NULL);
}

static bool fits(vt_ctx *g, vt_tensor *pred, vt_tensor *target, vt_tensor *weight)
{
    vt_tensor *in[] = { pred, target, weight };

    if (!vt_ok(g, "mse", weight ? 3 : 2, in))
        return false;
    if (vt_same_shape(pred, target) && (!weight || vt_broadcasts(weight, pred)))
        return true;
    return vt_bad(g, "mse", "pred and target must be equal, the weight broadcast", 3, in);
}

/* The mean of weighted squares, whose gradient has the weights `slope`. */
static vt_tensor *mean_square(vt_ctx *g, vt_tensor *pred, vt_tensor *target, vt_tensor *weight,
                              vt_tensor *slope)
{
    vt_tensor *in[] = { pred, target, slope }, e;
    vt_tensor *y = vt_new(g, VC_F32, 0, NULL);

    if (!y)
        return NULL;
    if (weight)
        e = vt_expand(weight, pred);
    VT_RUN(g, mse, y, pred, target, weight ? &e : NULL);
    if (!pred->needs_grad)
        return y;
    return vt_record(g, y, "mse", mse_grad, 3, in, 7, false, NULL);
}

vt_tensor *vt_mse(vt_ctx *g, vt_tensor *pred, vt_tensor *target, vt_tensor *weight)
{
    return fits(g, pred, target, weight) ? mean_square(g, pred, target, weight, weight) : NULL;
}

static vt_tensor *error_factor(vt_ctx *g, vt_tensor *pred, vt_tensor *target, vt_tensor *weight,
                               vt_bounds how, bool slope)
{
    vt_tensor *y = vt_new(g, VC_F32, pred->nd, pred->dim);

    if (!y)
        return NULL;
    VT_RUN(g, error_factor, y, pred, target, how, slope);
    return weight ? vt_mul(g, y, weight) : y;
}

vt_tensor *vt_mse_bounded(vt_ctx *g, vt_tensor *pred, vt_tensor *target, vt_tensor *weight,
                          const vt_bounds *how)
{
    if (!how || (!(how->linear > 0) && !(how->dropped > 0)))
        return vt_mse(g, pred, target, weight);
    if (!fits(g, pred, target, weight))
        return NULL;
    const vt_bounds b = { how->linear > 0 ? how->linear : INFINITY,
                          how->dropped > 0 ? how->dropped : INFINITY };
    vt_tensor *of_loss = error_factor(g, pred, target, weight, b, false);
    vt_tensor *of_slope = pred->needs_grad ? error_factor(g, pred, target, weight, b, true)
                                           : of_loss;
    if (!of_loss || !of_slope)
        return NULL;
    return mean_square(g, pred, target, of_loss, of_slope);
}

static void sum_grad(vt_ctx *g, const vt_node *n)
{
    vt_tensor *dx = vt_grad(g, n->in[0]);
    if (!dx)
        return;
    vt_tensor e = vt_expand(n->out->grad, dx);
    VT_RUN(g, scale, dx, &e, 1.0f);
}

vt_tensor *vt_sum(vt_ctx *g, vt_tensor *x)
{
    if (!vt_ok(g, "sum", 1, &x))
        return NULL;
    vt_tensor *y = vt_new(g, VC_F32, 0, NULL);
    if (!y)
        return NULL;
    VT_RUN(g, sum, y, x);
    return vt_record(g, y, "sum", sum_grad, 1, &x, 0, false, NULL);
}
