/* op_elem.c - ops element by element; see ops.h */
#include "common/tensor/engine.h"

/* ---- sums, differences, products ---- */

void vt_reduce_to(vt_ctx *g, vt_tensor *b, const vt_tensor *dy, const vt_tensor *other, float scale)
{
    vt_tensor *db = vt_grad(g, b);
    if (!db)
        return;
    vt_tensor e = vt_expand(db, dy);
    if (!vt_same_shape(b, dy))
        VT_RUN(g, reduce, &e, dy, other, scale);
    else if (other)
        VT_RUN(g, mul_grad, db, dy, other);
    else
        VT_RUN(g, scale, db, dy, scale);
}

static void add_grad(vt_ctx *g, const vt_node *n)
{
    vt_reduce_to(g, n->in[1], n->out->grad, NULL, n->f[0]);
    vt_pass_grad(g, n, n->in[0]);
}

static void mul_grad(vt_ctx *g, const vt_node *n)
{
    vt_tensor *a = n->in[0], *b = n->in[1], *dy = n->out->grad, *da = vt_grad(g, a);

    if (da) {
        vt_tensor e = vt_expand(b, a);
        VT_RUN(g, mul_grad, da, dy, &e);
    }
    vt_reduce_to(g, b, dy, a, 1.0f);
}

static vt_tensor *binary(vt_ctx *g, vt_binary how, const char *op, vt_tensor *a, vt_tensor *b)
{
    if (!vt_ok(g, op, 2, (vt_tensor *[]){ a, b }))
        return NULL;
    if (!vt_broadcasts(b, a))
        return vt_bad(g, op, "the second does not broadcast to the first", 2,
                      (vt_tensor *[]){ a, b });
    vt_tensor *y = vt_new(g, vt_result(g, a), a->nd, a->dim);
    if (!y)
        return NULL;
    vt_tensor e = vt_expand(b, a);
    VT_RUN(g, binary, how, y, a, &e);

    unsigned keep = how != VT_MUL ? 0 : (b->needs_grad ? 1 : 0) | (a->needs_grad ? 2 : 0);
    vt_node *node;
    y = vt_record(g, y, op, how == VT_MUL ? mul_grad : add_grad, 2, (vt_tensor *[]){ a, b }, keep,
                  false, &node);
    if (node)
        node->f[0] = how == VT_SUB ? -1.0f : 1.0f;
    return y;
}

vt_tensor *vt_add(vt_ctx *g, vt_tensor *a, vt_tensor *b) { return binary(g, VT_ADD, "add", a, b); }
vt_tensor *vt_sub(vt_ctx *g, vt_tensor *a, vt_tensor *b) { return binary(g, VT_SUB, "sub", a, b); }
vt_tensor *vt_mul(vt_ctx *g, vt_tensor *a, vt_tensor *b) { return binary(g, VT_MUL, "mul", a, b); }

static void scale_grad(vt_ctx *g, const vt_node *n)
{
    vt_tensor *dx = vt_grad(g, n->in[0]);
    if (dx)
        VT_RUN(g, scale, dx, n->out->grad, n->f[0]);
}

vt_tensor *vt_scale(vt_ctx *g, vt_tensor *x, float a)
{
    if (!vt_ok(g, "scale", 1, &x))
        return NULL;
    vt_tensor *y = vt_new(g, vt_result(g, x), x->nd, x->dim);
    if (!y)
        return NULL;
    VT_RUN(g, scale, y, x, a);
    vt_node *node;
    y = vt_record(g, y, "scale", scale_grad, 1, &x, 0, false, &node);
    if (node)
        node->f[0] = a;
    return y;
}

/* ---- activations ---- */

static void unary_grad(vt_ctx *g, const vt_node *n)
{
    vt_tensor *dx = vt_grad(g, n->in[0]);
    if (dx)
        VT_RUN(g, unary_grad, (vt_unary)n->i[0], dx, n->out->grad, n->in[0]);
}

static vt_tensor *unary(vt_ctx *g, vt_unary how, const char *op, vt_tensor *x)
{
    if (!vt_ok(g, op, 1, &x))
        return NULL;
    vt_tensor *y = vt_new(g, vt_result(g, x), x->nd, x->dim);
    if (!y)
        return NULL;
    VT_RUN(g, unary, how, y, x);
    vt_node *node;
    y = vt_record(g, y, op, unary_grad, 1, &x, 1, false, &node);
    if (node)
        node->i[0] = how;
    return y;
}

vt_tensor *vt_silu(vt_ctx *g, vt_tensor *x) { return unary(g, VT_SILU, "silu", x); }
vt_tensor *vt_gelu(vt_ctx *g, vt_tensor *x) { return unary(g, VT_GELU_TANH, "gelu", x); }
vt_tensor *vt_gelu_erf(vt_ctx *g, vt_tensor *x) { return unary(g, VT_GELU_ERF, "gelu_erf", x); }
vt_tensor *vt_quick_gelu(vt_ctx *g, vt_tensor *x)
{
    return unary(g, VT_QUICK_GELU, "quick_gelu", x);
}
vt_tensor *vt_sigmoid(vt_ctx *g, vt_tensor *x) { return unary(g, VT_SIGMOID, "sigmoid", x); }
vt_tensor *vt_tanh(vt_ctx *g, vt_tensor *x) { return unary(g, VT_TANH, "tanh", x); }
vt_tensor *vt_relu(vt_ctx *g, vt_tensor *x) { return unary(g, VT_RELU, "relu", x); }
vt_tensor *vt_sin_squared(vt_ctx *g, vt_tensor *x)
{
    return unary(g, VT_SIN_SQUARED, "sin_squared", x);
}

/* ---- noise and times, without gradients ---- */

/* Returns t [B] in the shape of x [B,..]. */
static vt_tensor per_sample(const vt_tensor *t, const vt_tensor *x)
{
    vt_tensor e = *t;

    e.nd = x->nd;
    for (int i = 0; i < x->nd; i++) {
        e.dim[i] = x->dim[i];
        e.stride[i] = i ? 0 : t->stride[0];
    }
    return e;
}

vt_tensor *vt_mix(vt_ctx *g, vt_tensor *x, vt_tensor *n, vt_tensor *a, vt_tensor *c)
{
    vt_tensor *in[] = { x, n, a, c };

    if (!vt_ok(g, "mix", 4, in))
        return NULL;
    if (!vt_same_shape(x, n) || x->nd < 1 || a->nd != 1 || c->nd != 1 || a->dim[0] != x->dim[0] ||
        c->dim[0] != x->dim[0])
        return vt_bad(g, "mix", "x and n must be equal, a and c [B]", 4, in);
    vt_tensor *y = vt_new(g, vt_result(g, x), x->nd, x->dim);
    if (!y)
        return NULL;
    vt_tensor ea = per_sample(a, x), ec = per_sample(c, x);
    VT_RUN(g, mix, y, x, n, &ea, &ec);
    return y;
}

vt_tensor *vt_posterior(vt_ctx *g, vt_tensor *mean, vt_tensor *logvar, vt_tensor *noise)
{
    vt_tensor *in[] = { mean, logvar, noise };

    if (!vt_ok(g, "posterior", 3, in))
        return NULL;
    if (!vt_broadcasts(logvar, mean) || !vt_broadcasts(noise, mean))
        return vt_bad(g, "posterior", "logvar and noise must broadcast to the mean", 3, in);
    vt_tensor *y = vt_new(g, VC_F32, mean->nd, mean->dim);
    if (!y)
        return NULL;
    vt_tensor lv = vt_expand(logvar, mean), e = vt_expand(noise, mean);
    VT_RUN(g, posterior, y, mean, &lv, &e);
    return y;
}

vt_tensor *vt_randn(vt_ctx *g, int nd, const int64_t *dim, uint64_t seed, uint32_t row0,
                    uint32_t micro, uint32_t purpose)
{
    if (!vt_ok(g, "randn", 0, NULL))
        return NULL;
    vt_tensor *y = vt_new(g, VC_F32, nd, dim);
    if (!y)
        return NULL;
    if (nd < 1)
        return vt_bad(g, "randn", "at least one axis is needed", 1, &y);
    VT_RUN(g, randn, y, seed, row0, micro, purpose);
    return y;
}

vt_tensor *vt_timestep(vt_ctx *g, vt_tensor *t, int64_t dim, float max_period)
{
    if (!vt_ok(g, "timestep", 1, &t))
        return NULL;
    if (t->nd != 1 || t->dtype != VC_F32 || !vt_packed(t) || dim < 2 || dim % 2)
        return vt_bad(g, "timestep", "t must be packed f32 [B], the width even", 1, &t);
    vt_tensor *y = vt_new(g, VC_F32, 2, (int64_t[]){ t->dim[0], dim });
    if (!y)
        return NULL;
    VT_RUN(g, timestep, y, t, max_period);
    return y;
}
