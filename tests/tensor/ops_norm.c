/* ops_norm.c - rows of test_ops: norms and modulation (op_norm.c). */
#include <stdlib.h>

#include "tests/tensor/ops.h"

/* ---- as plain loops ---- */

/* w, b, shift and scale may be NULL. */
static int64_t norm(double *y, const double *x, const double *w, const double *b,
                    const double *shift, const op_shape *shape, const double *scale,
                    const op_args *a, int rms)
{
    int64_t n = op_count(&a->s[0]), d = op_last(&a->s[0]);

    for (int64_t r = 0; y && r < n / d; r++) {
        const double *row = x + r * d;
        double mean = 0, var = 0;
        for (int64_t i = 0; i < d && !rms; i++)
            mean += row[i] / (double)d;
        for (int64_t i = 0; i < d; i++)
            var += (row[i] - mean) * (row[i] - mean) / (double)d;
        for (int64_t i = 0; i < d; i++) {
            double v = (row[i] - mean) / sqrt(var + a->c->arg[0]);
            v = v * (w ? w[i] : 1) + (b ? b[i] : 0);
            if (shift) {
                int64_t k = op_broadcast(&a->s[0], shape, r * d + i);
                v = v * (1 + scale[k]) + shift[k];
            }
            y[r * d + i] = v;
        }
    }
    return n;
}

static int64_t ref_layer_norm(double *y, const double *const *x, const op_args *a)
{
    return norm(y, x[0], a->n > 1 ? x[1] : NULL, a->n > 2 ? x[2] : NULL, NULL, NULL, NULL, a, 0);
}

static int64_t ref_rms_norm(double *y, const double *const *x, const op_args *a)
{
    return norm(y, x[0], a->n > 1 ? x[1] : NULL, NULL, NULL, NULL, NULL, a, 1);
}

static int64_t ref_l2_norm(double *y, const double *const *x, const op_args *a)
{
    int64_t n = op_count(&a->s[0]), d = op_last(&a->s[0]);

    for (int64_t i = 0; y && i < n; i++) {
        double sum = a->c->arg[0] * a->c->arg[0];
        for (int64_t j = i / d * d; j < i / d * d + d; j++)
            sum += x[0][j] * x[0][j];
        y[i] = x[0][i] / sqrt(sum) * (a->n > 1 ? x[1][i % d] : 1);
    }
    return n;
}

/* Inputs: x, shift, scale, and perhaps w and b. */
static int64_t ref_layer_modulate(double *y, const double *const *x, const op_args *a)
{
    return norm(y, x[0], a->n > 3 ? x[3] : NULL, a->n > 4 ? x[4] : NULL, x[1], &a->s[1], x[2], a,
                0);
}

static int64_t ref_rms_modulate(double *y, const double *const *x, const op_args *a)
{
    return norm(y, x[0], a->n > 3 ? x[3] : NULL, NULL, x[1], &a->s[1], x[2], a, 1);
}

/* x has two groups of tokens, split at token `split`. Returns the index in `pair`, an operand of
 * the group of element i, that belongs to this element; pair has a row for each token of the group,
 * or one row. */
static int64_t index_of_two(const op_shape *x, const op_shape *pair, int64_t split, int64_t i)
{
    int64_t d = x->dim[2], token = i / d % x->dim[1], row = i / d / x->dim[1];
    op_shape group = *x;

    group.dim[1] = token < split ? split : x->dim[1] - split;
    token -= token < split ? 0 : split;
    return op_broadcast(&group, pair, (row * group.dim[1] + token) * d + i % d);
}

/* Inputs: x, shift and scale of the tokens below arg 1, shift and scale of the others, w and b. */
static int64_t ref_modulate_two(double *y, const double *const *x, const op_args *a)
{
    const op_shape *s = a->s;
    int64_t split = (int64_t)a->c->arg[1];
    int64_t n = norm(y, x[0], a->n > 5 ? x[5] : NULL, a->n > 6 ? x[6] : NULL, NULL, NULL, NULL, a,
                     0);

    for (int64_t i = 0; y && i < n; i++) {
        int shift = i / s->dim[2] % s->dim[1] < split ? 1 : 3;
        int64_t k = index_of_two(s, &s[shift], split, i);
        y[i] = y[i] * (1 + x[shift + 1][k]) + x[shift][k];
    }
    return n;
}

/* Inputs: x, y, the gates of both groups; arg 0: split. */
static int64_t ref_gated_two(double *y, const double *const *x, const op_args *a)
{
    const op_shape *s = a->s;
    int64_t tokens = s->dim[1], d = s->dim[2], split = (int64_t)a->c->arg[0];
    OP_EACH(y, op_count(s), x[0][i] + x[1][i] * (i / d % tokens < split
                                                     ? x[2][index_of_two(s, &s[2], split, i)]
                                                     : x[3][index_of_two(s, &s[3], split, i)]));
}

/* ---- as ops ---- */

OP_RUN(layer_norm, vt_layer_norm(g, x[0], OP_OPT(1), OP_OPT(2), OP_ARG(0)))
OP_RUN(rms_norm, vt_rms_norm(g, x[0], OP_OPT(1), OP_ARG(0)))
OP_RUN(l2_norm, vt_l2_norm(g, x[0], OP_OPT(1), OP_ARG(0)))
OP_RUN(layer_modulate, vt_layer_norm_modulate(g, x[0], OP_OPT(3), OP_OPT(4), x[1], x[2], OP_ARG(0)))
OP_RUN(rms_modulate, vt_rms_norm_modulate(g, x[0], OP_OPT(3), x[1], x[2], OP_ARG(0)))
OP_RUN(modulate_two, vt_layer_norm_modulate_two(g, x[0], OP_OPT(5), OP_OPT(6),
                                                (int64_t)a->c->arg[1],
                                                (vt_tensor *[]){ x[1], x[3] },
                                                (vt_tensor *[]){ x[2], x[4] }, OP_ARG(0)))
OP_RUN(gated_two, vt_gated_add_two(g, x[0], x[1], (int64_t)a->c->arg[0],
                                (vt_tensor *[]){ x[2], x[3] }))

/* ---- rows ---- */

const op_case ops_norm[] = {
    { "layer_norm", layer_norm, ref_layer_norm, { "3 5 64", "64", "64" }, SUMS, { 1e-5 },
      .weights = 6 },
    { "layer_norm: odd, many rows", layer_norm, ref_layer_norm, { "2 301 33", "33", "33" }, SUMS,
      { 1e-6 }, .weights = 6 },
    { "layer_norm: no affine", layer_norm, ref_layer_norm, { "2 3 2 17" }, SUMS, { 1e-6 } },
    { "layer_norm: weight only", layer_norm, ref_layer_norm, { "9 40", "40" }, SUMS, { 1e-6 },
      .weights = 2 },
    { "layer_norm: frozen f16", layer_norm, ref_layer_norm, { "9 40", "40", "40" }, SUMS, { 1e-6 },
      .weights = 6, .stored = VC_F16 },
    { "modulate: per sample", layer_modulate, ref_layer_modulate,
      { "2 130 96", "2 1 96", "2 1 96" }, SUMS, { 1e-6 } },
    { "modulate: affine", layer_modulate, ref_layer_modulate,
      { "3 17 33", "3 1 33", "3 1 33", "33", "33" }, SUMS, { 1e-5 }, .weights = 24 },
    { "modulate: per token", layer_modulate, ref_layer_modulate,
      { "2 9 24", "2 9 24", "2 9 24", "24", "24" }, SUMS, { 1e-5 }, .weights = 24 },
    { "modulate: per position", layer_modulate, ref_layer_modulate,
      { "5 40 96", "40 96", "40 96", "96", "96" }, SUMS, { 1e-5 }, .weights = 24 },
    { "modulate: all", layer_modulate, ref_layer_modulate, { "2 200 50", "50", "50" }, SUMS,
      { 1e-5 } },
    { "rms_norm", rms_norm, ref_rms_norm, { "2 3 4 16", "16" }, SUMS, { 1e-6 }, .weights = 2 },
    { "rms_norm: no affine", rms_norm, ref_rms_norm, { "200 129" }, SUMS, { 1e-6 } },
    { "rms_norm: frozen bf16", rms_norm, ref_rms_norm, { "4 129", "129" }, SUMS, { 1e-6 },
      .weights = 2, .stored = VC_BF16 },
    { "l2_norm", l2_norm, ref_l2_norm, { "2 3 4 96", "96" }, SUMS, { 1e-12 }, .weights = 2 },
    { "l2_norm: no affine, eps", l2_norm, ref_l2_norm, { "31 129" }, SUMS, { 3 } },
    { "rms modulate", rms_modulate, ref_rms_modulate, { "2 7 48", "2 1 48", "2 1 48", "48" }, SUMS,
      { 1e-6 }, .weights = 8 },
    { "modulate two", modulate_two, ref_modulate_two,
      { "2 130 96", "2 1 96", "2 1 96", "2 1 96", "2 1 96", "96", "96" }, SUMS, { 1e-5, 9 },
      .weights = 96 },
    { "modulate two: no affine", modulate_two, ref_modulate_two,
      { "3 5 33", "3 1 33", "3 1 33", "33", "33" }, SUMS, { 1e-6, 4 } },
    { "modulate two: per token", modulate_two, ref_modulate_two,
      { "2 9 24", "2 4 24", "2 4 24", "2 5 24", "2 5 24", "24", "24" }, SUMS, { 1e-5, 4 },
      .weights = 96 },
    { "modulate two: per token, then per sample", modulate_two, ref_modulate_two,
      { "3 70 33", "3 61 33", "3 61 33", "3 1 33", "3 1 33" }, SUMS, { 1e-6, 61 } },
    { "gated_add two", gated_two, ref_gated_two, { "2 60 257", "2 60 257", "2 1 257", "2 1 257" },
      SUMS, { 7 } },
    { "gated_add two: per token", gated_two, ref_gated_two,
      { "2 11 48", "2 11 48", "2 8 48", "2 1 48" }, SUMS, { 8 } },
    { 0 }
};
