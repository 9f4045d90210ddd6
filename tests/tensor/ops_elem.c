/* ops_elem.c - rows of test_ops: elementwise ops, and losses (op_elem.c). */
#include "tests/tensor/ops.h"

/* ---- as plain loops ---- */

static int64_t ref_add(double *y, const double *const *x, const op_args *a)
{
    OP_EACH(y, op_count(&a->s[0]), x[0][i] + x[1][op_broadcast(&a->s[0], &a->s[1], i)]);
}

static int64_t ref_sub(double *y, const double *const *x, const op_args *a)
{
    OP_EACH(y, op_count(&a->s[0]), x[0][i] - x[1][op_broadcast(&a->s[0], &a->s[1], i)]);
}

static int64_t ref_mul(double *y, const double *const *x, const op_args *a)
{
    OP_EACH(y, op_count(&a->s[0]), x[0][i] * x[1][op_broadcast(&a->s[0], &a->s[1], i)]);
}

static int64_t ref_scale(double *y, const double *const *x, const op_args *a)
{
    OP_EACH(y, op_count(&a->s[0]), x[0][i] * a->c->arg[0]);
}

static int64_t ref_silu(double *y, const double *const *x, const op_args *a)
{
    OP_EACH(y, op_count(&a->s[0]), x[0][i] / (1 + exp(-x[0][i])));
}

static int64_t ref_gelu(double *y, const double *const *x, const op_args *a)
{
    OP_EACH(y, op_count(&a->s[0]), op_gelu(x[0][i]));
}

static int64_t ref_gelu_erf(double *y, const double *const *x, const op_args *a)
{
    OP_EACH(y, op_count(&a->s[0]), 0.5 * x[0][i] * (1 + erf(x[0][i] / sqrt(2))));
}

static int64_t ref_quick_gelu(double *y, const double *const *x, const op_args *a)
{
    OP_EACH(y, op_count(&a->s[0]), x[0][i] / (1 + exp(-1.702 * x[0][i])));
}

static int64_t ref_sigmoid(double *y, const double *const *x, const op_args *a)
{
    OP_EACH(y, op_count(&a->s[0]), 1 / (1 + exp(-x[0][i])));
}

static int64_t ref_tanh(double *y, const double *const *x, const op_args *a)
{
    OP_EACH(y, op_count(&a->s[0]), tanh(x[0][i]));
}

static int64_t ref_relu(double *y, const double *const *x, const op_args *a)
{
    OP_EACH(y, op_count(&a->s[0]), fmax(x[0][i], 0));
}

static int64_t ref_sin_squared(double *y, const double *const *x, const op_args *a)
{
    OP_EACH(y, op_count(&a->s[0]), sin(x[0][i]) * sin(x[0][i]));
}

static int64_t ref_gated_add(double *y, const double *const *x, const op_args *a)
{
    OP_EACH(y, op_count(&a->s[0]), x[0][i] + x[1][i] * x[2][op_broadcast(&a->s[0], &a->s[2], i)]);
}

static int64_t ref_mix(double *y, const double *const *x, const op_args *a)
{
    int64_t each = op_count(&a->s[0]) / a->s[0].dim[0];
    OP_EACH(y, op_count(&a->s[0]), x[2][i / each] * x[0][i] + x[3][i / each] * x[1][i]);
}

static int64_t ref_posterior(double *y, const double *const *x, const op_args *a)
{
    const op_shape *s = a->s;
    OP_EACH(y, op_count(s),
            x[0][i] + exp(x[1][op_broadcast(s, &s[1], i)] / 2) * x[2][op_broadcast(s, &s[2], i)]);
}

static int64_t ref_timestep(double *y, const double *const *x, const op_args *a)
{
    int64_t d = (int64_t)a->c->arg[0], half = d / 2, n = a->s[0].dim[0] * d;

    for (int64_t i = 0; y && i < n; i++) {
        int64_t k = i % d;
        double angle = x[0][i / d] * pow(a->c->arg[1], -(double)(k % half) / (double)half);
        y[i] = k < half ? cos(angle) : sin(angle);
    }
    return n;
}

/* ---- losses ---- */

static int64_t ref_mse(double *y, const double *const *x, const op_args *a)
{
    int64_t n = op_count(&a->s[0]);

    if (!y)
        return 1;
    *y = 0;
    for (int64_t i = 0; i < n; i++) {
        double e = x[0][i] - x[1][i], w = a->n > 2 ? x[2][op_broadcast(&a->s[0], &a->s[2], i)] : 1;
        *y += w * e * e / (double)n;
    }
    return 1;
}

/* arg: linear, dropped; 0: none. x[2] may be a weight. */
static int64_t ref_bounded(double *y, const double *const *x, const op_args *a)
{
    int64_t n = op_count(&a->s[0]);
    double linear = a->c->arg[0], dropped = a->c->arg[1];

    if (!y)
        return 1;
    *y = 0;
    for (int64_t i = 0; i < n; i++) {
        double e = fabs(x[0][i] - x[1][i]);
        double w = a->n > 2 ? x[2][op_broadcast(&a->s[0], &a->s[2], i)] : 1;
        double loss = linear > 0 && e > linear ? linear * (2 * e - linear) : e * e;
        if (!(dropped > 0 && e > dropped))
            *y += w * loss / (double)n;
    }
    return 1;
}

static int64_t ref_sum(double *y, const double *const *x, const op_args *a)
{
    if (!y)
        return 1;
    *y = 0;
    for (int64_t i = 0; i < op_count(&a->s[0]); i++)
        *y += x[0][i];
    return 1;
}

/* ---- as ops ---- */

OP_RUN(add, vt_add(g, x[0], x[1]))
OP_RUN(sub, vt_sub(g, x[0], x[1]))
OP_RUN(mul, vt_mul(g, x[0], x[1]))
OP_RUN(scale, vt_scale(g, x[0], OP_ARG(0)))
OP_RUN(silu, vt_silu(g, x[0]))
OP_RUN(gelu, vt_gelu(g, x[0]))
OP_RUN(gelu_erf, vt_gelu_erf(g, x[0]))
OP_RUN(quick_gelu, vt_quick_gelu(g, x[0]))
OP_RUN(sigmoid, vt_sigmoid(g, x[0]))
OP_RUN(hyperbolic, vt_tanh(g, x[0]))
OP_RUN(relu, vt_relu(g, x[0]))
OP_RUN(sin_squared, vt_sin_squared(g, x[0]))
OP_RUN(gated_add, vt_gated_add(g, x[0], x[1], x[2]))
OP_RUN(mix, vt_mix(g, x[0], x[1], x[2], x[3]))
OP_RUN(posterior, vt_posterior(g, x[0], x[1], x[2]))
OP_RUN(timestep, vt_timestep(g, x[0], (int64_t)a->c->arg[0], OP_ARG(1)))
OP_RUN(mse, vt_mse(g, x[0], x[1], OP_OPT(2)))
OP_RUN(bounded, vt_mse_bounded(g, x[0], x[1], OP_OPT(2),
                               &(vt_bounds){ OP_ARG(0), OP_ARG(1) }))
OP_RUN(sum, vt_sum(g, x[0]))

/* ---- rows ---- */

const op_case ops_elem[] = {
    { "add", add, ref_add, { "3 5 7", "3 5 7" }, ROUND },
    { "add: rows", add, ref_add, { "3 5 7", "7" }, SUMS },
    { "add: per sample", add, ref_add, { "3 50 129", "3 1 129" }, SUMS },
    { "add: columns", add, ref_add, { "4 3 6", "4 3 1" }, SUMS },
    { "add: middle axes", add, ref_add, { "2 3 4 5 6", "3 1 5 1" }, SUMS },
    { "add: one", add, ref_add, { "2 9", "1" }, SUMS },
    { "add: long", add, ref_add, { "3 70 257", "70 257" }, SUMS },
    { "sub", sub, ref_sub, { "2 33", "2 33" }, ROUND },
    { "sub: rows", sub, ref_sub, { "2 3 33", "3 33" }, SUMS },
    { "mul", mul, ref_mul, { "4 5 13", "4 5 13" }, CHAIN },
    { "mul: per sample", mul, ref_mul, { "2 40 300", "2 1 300" }, SUMS },
    { "mul: columns", mul, ref_mul, { "2 5 31", "2 5 1" }, SUMS },
    { "mul: scalar", mul, ref_mul, { "", "" }, CHAIN },
    { "scale", scale, ref_scale, { "2 3 5" }, ROUND, { -0.5 } },
    { "silu", silu, ref_silu, { "3 1000" }, CHAIN },
    { "gelu", gelu, ref_gelu, { "7 333" }, CHAIN },
    { "gelu: long", gelu, ref_gelu, { "9 4099" }, CHAIN },
    { "gelu_erf", gelu_erf, ref_gelu_erf, { "5 77" }, CHAIN },
    { "quick_gelu", quick_gelu, ref_quick_gelu, { "3 5 333" }, CHAIN },
    { "sigmoid", sigmoid, ref_sigmoid, { "9 401" }, CHAIN },
    { "tanh", hyperbolic, ref_tanh, { "5 777" }, CHAIN },
    { "relu", relu, ref_relu, { "3 333" }, CHAIN },
    { "sin_squared", sin_squared, ref_sin_squared, { "3 777" }, CHAIN },
    { "gated_add: per sample", gated_add, ref_gated_add, { "2 60 257", "2 60 257", "2 1 257" },
      SUMS },
    { "gated_add: per token", gated_add, ref_gated_add, { "2 5 9", "2 5 9", "2 5 9" }, CHAIN },
    { "gated_add: one gate", gated_add, ref_gated_add, { "2 5 9", "2 5 9", "1" }, SUMS },
    { "mix", mix, ref_mix, { "3 2 5 7", "3 2 5 7", "3", "3" }, CHAIN, .weights = 12, .fixed = 15 },
    { "posterior", posterior, ref_posterior, { "2 4 3 5", "2 4 3 5", "2 4 3 5" }, CHAIN,
      .fixed = 7 },
    { "posterior: one noise", posterior, ref_posterior, { "2 3 5", "1 3 1", "3 5" }, CHAIN,
      .fixed = 7 },
    { "timestep", timestep, ref_timestep, { "3" }, CHAIN, { 10, 10000 }, .weights = 1, .fixed = 1 },
    { "mse", mse, ref_mse, { "2 3 5", "2 3 5" }, SUMS, .fixed = 2 },
    { "mse: long", mse, ref_mse, { "3 70 257", "3 70 257" }, SUMS, .fixed = 2 },
    { "mse: weight per sample", mse, ref_mse, { "3 4 50", "3 4 50", "3 1 1" }, SUMS,
      .weights = 4, .fixed = 6 },
    { "mse: mask", mse, ref_mse, { "2 3 2 5", "2 3 2 5", "2 5" }, SUMS, .fixed = 6 },
    { "mse: linear above 0.5", bounded, ref_bounded, { "3 70 57", "3 70 57" }, SUMS, { 0.5, 0 },
      .fixed = 2 },
    { "mse: none above 1", bounded, ref_bounded, { "3 70 57", "3 70 57" }, SUMS, { 0, 1 },
      .fixed = 2 },
    { "mse: both bounds, weight per sample", bounded, ref_bounded, { "3 4 50", "3 4 50", "3 1 1" },
      SUMS, { 0.25, 1 }, .weights = 4, .fixed = 6 },
    { "mse: no bounds", bounded, ref_bounded, { "3 4 50", "3 4 50", "50" }, SUMS, { 0, 0 },
      .fixed = 6 },
    { "sum", sum, ref_sum, { "3 70 257" }, SUMS },
    { 0 }
};
