/* ops_conv.c - rows of test_ops: channels-last video (op_conv.c). */
#include "tests/tensor/ops.h"

/* ---- as plain loops ---- */

/* Convolution. Inputs: x, w, b, front. arg 0-2: stride of t, h and w; arg 3: padding before t; arg
 * 4: before h and w; arg 5: after h and w; arg 6: after t; arg 7: a bit for each axis that is
 * padded by its edge. */

static double input_at(const double *const *x, const op_args *a, const int64_t at[VT_DIMS])
{
    int64_t p[VT_DIMS] = { 0 };
    int front = at[1] < 0 && a->n > 3;

    for (int k = 0; k < 5; k++)
        p[k] = at[k];
    if (front)
        p[1] = a->s[3].dim[1] == 1 ? 0 : at[1] + (int64_t)a->c->arg[3];
    const op_shape *s = &a->s[front ? 3 : 0];
    for (int k = 1; k < 4; k++)
        if (p[k] < 0 || p[k] >= s->dim[k])
            return 0;
    return x[front ? 3 : 0][op_ravel(s, p)];
}

/* Returns i, or the nearest element of an axis of n elements. With `front`, elements below 0 are
 * frames in front of the axis. */
static int64_t at_edge(int64_t i, int64_t n, int edge, int front)
{
    if (!edge || (i < 0 && front))
        return i;
    return i < 0 ? 0 : i < n ? i : n - 1;
}

static int64_t ref_conv3d(double *y, const double *const *x, const op_args *a)
{
    const int64_t *in = a->s[0].dim, *w = a->s[1].dim;
    int64_t before[3] = { (int64_t)a->c->arg[3], (int64_t)a->c->arg[4], (int64_t)a->c->arg[4] };
    int64_t after[3] = { (int64_t)a->c->arg[6], (int64_t)a->c->arg[5], (int64_t)a->c->arg[5] };
    int64_t step[3];
    int edge = (int)a->c->arg[7];
    op_shape to = { 5, { in[0], 0, 0, 0, w[0] } };

    for (int k = 0; k < 3; k++) {
        step[k] = (int64_t)a->c->arg[k];
        to.dim[1 + k] = (in[1 + k] + before[k] + after[k] - w[2 + k]) / step[k] + 1;
    }
    for (int64_t i = 0; y && i < op_count(&to); i++) {
        int64_t at[VT_DIMS];
        op_unravel(&to, i, at);
        y[i] = a->n > 2 ? x[2][at[4]] : 0;
        for (int64_t j = 0; j < op_count(&a->s[1]) / w[0]; j++) {
            int64_t c = j / (w[2] * w[3] * w[4]), p[VT_DIMS] = { at[0], 0, 0, 0, c };
            int64_t tap[3] = { j / (w[3] * w[4]) % w[2], j / w[4] % w[3], j % w[4] };
            for (int k = 0; k < 3; k++)
                p[1 + k] = at_edge(at[1 + k] * step[k] + tap[k] - before[k], in[1 + k],
                                   edge >> k & 1, k == 0 && a->n > 3);
            y[i] += input_at(x, a, p) * x[1][at[4] * (op_count(&a->s[1]) / w[0]) + j];
        }
    }
    return op_count(&to);
}

/* Group norm. Inputs: x, w, b, scale, shift; arg: groups, eps, silu, first. */

/* Returns the element of v, which has fewer positions, for position `at` of x. */
static double spatial_value(const double *v, const op_shape *s, const op_shape *x,
                    const int64_t at[VT_DIMS], int first)
{
    int64_t p[VT_DIMS] = { at[0], 0, 0, 0, at[4] };

    for (int k = 1; k < 4; k++)
        p[k] = at[k] * s->dim[k] / x->dim[k];
    if (first)
        p[1] = at[1] == 0 ? 0 : 1 + (at[1] - 1) * (s->dim[1] - 1) / (x->dim[1] - 1);
    return v[op_ravel(s, p)];
}

static int64_t ref_group_norm(double *y, const double *const *x, const op_args *a)
{
    const op_shape *s = &a->s[0];
    int64_t n = op_count(s), c = op_last(s), each = c / (int64_t)a->c->arg[0];
    int64_t rows = n / s->dim[0] / c;

    for (int64_t g = 0; y && g < s->dim[0] * (int64_t)a->c->arg[0]; g++) {
        int64_t base = g / (int64_t)a->c->arg[0] * rows * c, c0 = g % (int64_t)a->c->arg[0] * each;
        double mean = 0, var = 0, count = (double)(rows * each);
        for (int pass = 0; pass < 3; pass++)
            for (int64_t i = 0; i < rows * each; i++) {
                int64_t k = c0 + i % each, to = base + i / each * c + k, at[VT_DIMS];
                double v = x[0][to];
                if (pass == 0)
                    mean += v / count;
                else if (pass == 1)
                    var += (v - mean) * (v - mean) / count;
                else {
                    v = (v - mean) / sqrt(var + a->c->arg[1]) * x[1][k] + x[2][k];
                    op_unravel(s, to, at);
                    if (a->n > 3)
                        v = v * spatial_value(x[3], &a->s[3], s, at, a->c->arg[3] != 0) +
                            spatial_value(x[4], &a->s[4], s, at, a->c->arg[3] != 0);
                    y[to] = a->c->arg[2] != 0 ? v / (1 + exp(-v)) : v;
                }
            }
    }
    return n;
}

/* arg: the result's t, h, w */
static int64_t ref_nearest(double *y, const double *const *x, const op_args *a)
{
    op_shape to = a->s[0];

    for (int k = 0; k < 3; k++)
        to.dim[1 + k] = (int64_t)a->c->arg[k];
    for (int64_t i = 0; y && i < op_count(&to); i++) {
        int64_t at[VT_DIMS] = { 0 };
        op_unravel(&to, i, at);
        y[i] = spatial_value(x[0], &a->s[0], &to, at, 0);
    }
    return op_count(&to);
}

static int64_t ref_pool_frames(double *y, const double *const *x, const op_args *a)
{
    const op_shape *s = &a->s[0];
    op_shape to = *s;
    int64_t odd = s->dim[1] % 2;

    to.dim[1] = (s->dim[1] + 1) / 2;
    for (int64_t i = 0; y && i < op_count(&to); i++) {
        int64_t at[VT_DIMS] = { 0 };
        op_unravel(&to, i, at);
        int64_t t = at[1];
        at[1] = odd && t == 0 ? 0 : 2 * t - odd;
        y[i] = x[0][op_ravel(s, at)];
        at[1] = odd && t == 0 ? 0 : 2 * t + 1 - odd;
        y[i] = (y[i] + x[0][op_ravel(s, at)]) / 2;
    }
    return op_count(&to);
}

/* ---- as ops ---- */

static vt_tensor *conv3d(vt_ctx *g, vt_tensor *const *x, const op_args *a)
{
    int p = (int)a->c->arg[4], q = (int)a->c->arg[5], edge = (int)a->c->arg[7];
    vt_conv c = { { (int)a->c->arg[0], (int)a->c->arg[1], (int)a->c->arg[2] },
                  { (int)a->c->arg[3], p, p }, { (int)a->c->arg[6], q, q }, OP_OPT(3),
                  { edge & 1, edge & 2, edge & 4 } };
    return vt_conv3d(g, x[0], x[1], OP_OPT(2), &c);
}

OP_RUN(nearest, vt_nearest(g, x[0], (int64_t)a->c->arg[0], (int64_t)a->c->arg[1],
                        (int64_t)a->c->arg[2]))
OP_RUN(pool_frames, vt_pool_frames(g, x[0]))

static vt_tensor *group_norm(vt_ctx *g, vt_tensor *const *x, const op_args *a)
{
    vt_group n = { (int)a->c->arg[0], OP_ARG(1), a->c->arg[2] != 0, a->c->arg[3] != 0, OP_OPT(3),
                   OP_OPT(4) };
    return vt_group_norm(g, x[0], x[1], x[2], &n);
}

/* ---- rows ---- */

const op_case ops_conv[] = {
    { "conv3d", conv3d, ref_conv3d, { "1 4 6 7 16", "24 16 3 3 3", "24" }, SUMS,
      { 1, 1, 1, 2, 1, 1 }, .weights = 6, .fixed = 7 },
    { "conv3d: 2-D stride 2", conv3d, ref_conv3d, { "2 1 8 9 3", "8 3 1 3 3", "8" }, SUMS,
      { 1, 2, 2, 0, 0, 1 }, .weights = 6, .fixed = 7 },
    { "conv3d: 1x1x1, no bias", conv3d, ref_conv3d, { "1 2 3 5 20", "12 20 1 1 1" }, SUMS,
      { 1, 1, 1, 0, 0, 0 }, .weights = 2, .fixed = 3 },
    { "conv3d: frozen bf16", conv3d, ref_conv3d, { "1 3 5 5 16", "16 16 3 3 3", "16" }, SUMS,
      { 2, 2, 2, 2, 1, 1 }, .weights = 6, .fixed = 7, .stored = VC_BF16 },
    { "conv3d: frames in front", conv3d, ref_conv3d,
      { "1 4 5 6 16", "24 16 3 3 3", "24", "1 2 5 6 16" }, SUMS, { 1, 1, 1, 2, 1, 1 },
      .weights = 6, .fixed = 15 },
    { "conv3d: first frame in front", conv3d, ref_conv3d,
      { "1 3 5 4 6", "5 6 3 3 3", "5", "1 1 5 4 6" }, SUMS, { 1, 1, 1, 2, 1, 1 },
      .weights = 6, .fixed = 15 },
    { "conv3d: front of two samples", conv3d, ref_conv3d,
      { "2 5 4 5 8", "16 8 5 1 3", "16", "2 4 4 5 8" }, SUMS, { 2, 1, 1, 4, 0, 0 },
      .weights = 6, .fixed = 15 },
    { "conv3d: one frame and its front", conv3d, ref_conv3d,
      { "1 1 4 5 8", "16 8 3 3 3", "16", "1 2 4 5 8" }, SUMS, { 1, 1, 1, 2, 1, 1 },
      .weights = 6, .fixed = 15 },
    { "conv3d: edges", conv3d, ref_conv3d, { "1 4 5 6 16", "24 16 3 3 3", "24" }, SUMS,
      { 1, 1, 1, 2, 1, 1, 0, 7 }, .weights = 6, .fixed = 7 },
    { "conv3d: edges around two samples", conv3d, ref_conv3d, { "2 7 4 5 10", "9 10 3 3 3", "9" },
      SUMS, { 2, 1, 2, 1, 1, 1, 1, 7 }, .weights = 6, .fixed = 7 },
    { "conv3d: edges in time, few channels", conv3d, ref_conv3d,
      { "1 6 4 9 3", "20 3 3 3 3", "20" }, SUMS, { 1, 1, 1, 1, 1, 1, 1, 1 }, .weights = 6,
      .fixed = 7 },
    { "conv3d: wide edges of one row, odd channels", conv3d, ref_conv3d,
      { "1 1 1 2 3", "4 3 1 4 4", "4" }, SUMS, { 1, 1, 1, 0, 3, 2, 0, 6 }, .weights = 6,
      .fixed = 7 },
    { "conv3d: edges and a front", conv3d, ref_conv3d,
      { "1 3 5 4 6", "5 6 4 3 3", "5", "1 2 5 4 6" }, SUMS, { 1, 1, 1, 2, 1, 1, 2, 7 },
      .weights = 6, .fixed = 15 },
    { "conv3d: edges in time and a front", conv3d, ref_conv3d,
      { "1 5 5 4 6", "5 6 4 3 3", "5", "1 1 5 4 6" }, SUMS, { 1, 1, 1, 2, 1, 1, 2, 1 },
      .weights = 6, .fixed = 15 },
    { "group_norm", group_norm, ref_group_norm, { "2 3 5 7 24", "24", "24" }, SUMS, { 4, 1e-6 },
      .weights = 6, .fixed = 7 },
    { "group_norm: silu, odd", group_norm, ref_group_norm, { "1 3 17 9 21", "21", "21" }, SUMS,
      { 7, 1e-6, 1 }, .weights = 6, .fixed = 7 },
    { "group_norm: frozen bf16", group_norm, ref_group_norm, { "1 2 9 8 64", "64", "64" }, SUMS,
      { 32, 1e-5, 1 }, .weights = 6, .fixed = 7, .stored = VC_BF16 },
    { "group_norm: one position", group_norm, ref_group_norm, { "1 1 1 1 8", "8", "8" }, SUMS,
      { 2, 1e-6 }, .weights = 6, .fixed = 7 },
    { "group_norm: spatial", group_norm, ref_group_norm,
      { "2 4 6 10 8", "8", "8", "2 2 3 5 8", "2 2 3 5 8" }, SUMS, { 2, 1e-6, 1 }, .weights = 6,
      .fixed = 31 },
    { "group_norm: spatial, first frame", group_norm, ref_group_norm,
      { "1 9 6 8 12", "12", "12", "1 3 3 4 12", "1 3 3 4 12" }, SUMS, { 3, 1e-6, 1, 1 },
      .weights = 6, .fixed = 31 },
    { "nearest", nearest, ref_nearest, { "2 2 3 5 7" }, EXACT, { 4, 6, 10 }, .fixed = 1 },
    { "nearest: any sizes", nearest, ref_nearest, { "1 3 4 5 3" }, EXACT, { 4, 3, 13 },
      .fixed = 1 },
    { "pool_frames", pool_frames, ref_pool_frames, { "2 4 3 5 7" }, ROUND, .fixed = 1 },
    { "pool_frames: odd", pool_frames, ref_pool_frames, { "1 5 9 31 8" }, ROUND, .fixed = 1 },
    { "pool_frames: one", pool_frames, ref_pool_frames, { "1 1 2 3 4" }, EXACT, .fixed = 1 },
    { 0 }
};
