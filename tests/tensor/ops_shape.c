/* ops_shape.c - rows of test_ops: shapes, copies and tables (op_shape.c). */
#include "tests/tensor/ops.h"

/* ---- as plain loops ---- */

static int64_t ref_same(double *y, const double *const *x, const op_args *a)
{
    OP_EACH(y, op_count(&a->s[0]), x[0][i]);
}

/* arg: order of the axes */
static int64_t ref_permute(double *y, const double *const *x, const op_args *a)
{
    op_shape to = a->s[0];

    for (int k = 0; k < to.nd; k++)
        to.dim[k] = a->s[0].dim[(int)a->c->arg[k]];
    for (int64_t i = 0; y && i < op_count(&to); i++) {
        int64_t at[VT_DIMS], from[VT_DIMS];
        op_unravel(&to, i, at);
        for (int k = 0; k < to.nd; k++)
            from[(int)a->c->arg[k]] = at[k];
        y[i] = x[0][op_ravel(&a->s[0], from)];
    }
    return op_count(&to);
}

/* arg: axis, begin, end */
static int64_t ref_slice(double *y, const double *const *x, const op_args *a)
{
    op_shape to = a->s[0];
    int axis = (int)a->c->arg[0];

    to.dim[axis] = (int64_t)(a->c->arg[2] - a->c->arg[1]);
    for (int64_t i = 0; y && i < op_count(&to); i++) {
        int64_t at[VT_DIMS];
        op_unravel(&to, i, at);
        at[axis] += (int64_t)a->c->arg[1];
        y[i] = x[0][op_ravel(&a->s[0], at)];
    }
    return op_count(&to);
}

/* arg: number of queries */
static int64_t ref_distances(double *y, const double *const *x, const op_args *a)
{
    int64_t n = op_last(&a->s[0]), sq = (int64_t)a->c->arg[0], sk = n - sq + 1;
    int64_t count = op_count(&a->s[0]) / n * sq * sk;
    OP_EACH(y, count, x[0][i / (sq * sk) * n + sq - 1 + i % sk - i / sk % sq]);
}

/* Input: the table. arg 0: number of ids; arg 1..: ids. */
static int64_t ref_embedding(double *y, const double *const *x, const op_args *a)
{
    int64_t d = op_last(&a->s[0]), n = (int64_t)a->c->arg[0];
    OP_EACH(y, n * d, x[0][(int64_t)a->c->arg[1 + i / d] * d + i % d]);
}

/* arg: the row of x for each of y */
static int64_t ref_reorder(double *y, const double *const *x, const op_args *a)
{
    int64_t d = op_last(&a->s[0]);
    OP_EACH(y, op_count(&a->s[0]), x[0][(int64_t)a->c->arg[i / d] * d + i % d]);
}

/* The last axis has three chunks: y = first * second + third. */
static int64_t ref_chunk(double *y, const double *const *x, const op_args *a)
{
    int64_t d = op_last(&a->s[0]) / 3, n = op_count(&a->s[0]) / 3;
    OP_EACH(y, n, x[0][i / d * 3 * d + i % d] * x[0][i / d * 3 * d + d + i % d] +
               x[0][i / d * 3 * d + 2 * d + i % d]);
}

/* arg: axis */
static int64_t ref_concat(double *y, const double *const *x, const op_args *a)
{
    op_shape to = a->s[0];
    int axis = (int)a->c->arg[0];

    for (int k = 1; k < a->n; k++)
        to.dim[axis] += a->s[k].dim[axis];
    for (int64_t i = 0; y && i < op_count(&to); i++) {
        int64_t at[VT_DIMS] = { 0 };
        int k = 0;
        op_unravel(&to, i, at);
        for (; at[axis] >= a->s[k].dim[axis]; k++)
            at[axis] -= a->s[k].dim[axis];
        y[i] = x[k][op_ravel(&a->s[k], at)];
    }
    return op_count(&to);
}

/* Returns the index in [B,C,T,H,W] of element i of the tokens. arg: pt, ph, pw, order */
static int64_t pixel_of(const op_shape *v, const double *arg, int64_t i)
{
    int64_t pt = (int64_t)arg[0], ph = (int64_t)arg[1], pw = (int64_t)arg[2];
    int64_t c = v->dim[1], size = c * pt * ph * pw, in = i % size, token = i / size;
    int64_t nh = v->dim[3] / ph, nw = v->dim[4] / pw, nt = v->dim[2] / pt, p;
    int64_t at[VT_DIMS] = { 0 };

    if (arg[3] == VT_C_FIRST) {
        at[1] = in / (pt * ph * pw);
        p = in % (pt * ph * pw);
    } else {
        at[1] = in % c;
        p = in / c;
    }
    at[0] = token / (nt * nh * nw);
    at[2] = token / (nh * nw) % nt * pt + p / (ph * pw);
    at[3] = token / nw % nh * ph + p / pw % ph;
    at[4] = token % nw * pw + p % pw;
    return op_ravel(v, at);
}

static int64_t ref_patchify(double *y, const double *const *x, const op_args *a)
{
    OP_EACH(y, op_count(&a->s[0]), x[0][pixel_of(&a->s[0], a->c->arg, i)]);
}

/* The tokens' video is [B,2,2,4,6]. */
static int64_t ref_unpatchify(double *y, const double *const *x, const op_args *a)
{
    op_shape v = { 5, { a->s[0].dim[0], 2, 2, 4, 6 } };
    int64_t n = op_count(&a->s[0]);

    for (int64_t i = 0; y && i < n; i++)
        y[pixel_of(&v, a->c->arg, i)] = x[0][i];
    return n;
}

/* ---- as ops ---- */

OP_RUN(pack, vt_pack(g, x[0]))
OP_RUN(cast, vt_cast(g, vt_cast(g, x[0], VC_F32), VC_BF16))
OP_RUN(flatten, vt_reshape(g, x[0], 1, (int64_t[]){ -1 }))
OP_RUN(split, vt_reshape(g, x[0], 4, (int64_t[]){ x[0]->dim[0], -1, 2, x[0]->dim[2] / 2 }))
OP_RUN(slice, vt_slice(g, x[0], (int)a->c->arg[0], (int64_t)a->c->arg[1], (int64_t)a->c->arg[2]))
OP_RUN(distances, vt_distances(g, x[0], (int64_t)a->c->arg[0]))
OP_RUN(concat, vt_concat(g, (int)a->c->arg[0], a->n, x))
OP_RUN(patchify, vt_patchify(g, x[0], (int)a->c->arg[0], (int)a->c->arg[1], (int)a->c->arg[2],
                             (vt_patch_order)a->c->arg[3]))
OP_RUN(unpatchify, vt_unpatchify(g, x[0], (int64_t[]){ 2, 2, 4, 6 }, (int)a->c->arg[0],
                                 (int)a->c->arg[1], (int)a->c->arg[2],
                                 (vt_patch_order)a->c->arg[3]))

static vt_tensor *permute(vt_ctx *g, vt_tensor *const *x, const op_args *a)
{
    int order[VT_DIMS];

    for (int i = 0; i < a->s[0].nd; i++)
        order[i] = (int)a->c->arg[i];
    return vt_permute(g, x[0], order);
}

static vt_tensor *chunk(vt_ctx *g, vt_tensor *const *x, const op_args *a)
{
    vt_tensor *e[3];

    (void)a;
    vt_chunk(g, x[0], -1, 3, e);
    return vt_add(g, vt_mul(g, e[0], e[1]), e[2]);
}

static vt_tensor *embedding(vt_ctx *g, vt_tensor *const *x, const op_args *a)
{
    int32_t id[5];
    int64_t n = (int64_t)a->c->arg[0];

    for (int64_t i = 0; i < n; i++)
        id[i] = (int32_t)a->c->arg[1 + i];
    return vt_embedding(g, x[0], vt_from_host(g, VC_I32, 2, (int64_t[]){ 1, n }, id, VC_I32));
}

static vt_tensor *reorder(vt_ctx *g, vt_tensor *const *x, const op_args *a)
{
    int32_t order[8], inverse[8];
    const int64_t n = op_count(&a->s[0]) / op_last(&a->s[0]);

    for (int64_t i = 0; i < n; i++) {
        order[i] = (int32_t)a->c->arg[i];
        inverse[order[i]] = (int32_t)i;
    }
    return vt_reorder(g, x[0], vt_from_host(g, VC_I32, 1, &n, order, VC_I32),
                      vt_from_host(g, VC_I32, 1, &n, inverse, VC_I32));
}

/* Writes [a, b] in two parts. */
static vt_tensor *assign(vt_ctx *g, vt_tensor *const *x, const op_args *a)
{
    int64_t n = a->s[0].dim[0], dim[] = { n + a->s[1].dim[0], a->s[0].dim[1] };
    vt_tensor *y = vt_new(g, vt_compute(g), 2, dim);

    vt_assign(g, vt_slice(g, y, 0, 0, n), x[0]);
    vt_assign(g, vt_slice(g, y, 0, n, dim[0]), x[1]);
    return y;
}

/* ---- rows ---- */

const op_case ops_shape[] = {
    { "pack", pack, ref_same, { "3 4 5" }, EXACT },
    { "cast", cast, ref_same, { "3 4 5" }, .tol = 5e-3f, .tol16 = 0 },  /* to bf16 */
    { "reshape: flat", flatten, ref_same, { "3 4 5" }, EXACT },
    { "reshape: heads", split, ref_same, { "2 3 8" }, EXACT },
    { "permute", permute, ref_permute, { "2 3 4 5" }, EXACT, { 0, 2, 1, 3 } },
    { "permute: reverse", permute, ref_permute, { "2 3 4" }, EXACT, { 2, 1, 0 } },
    { "slice", slice, ref_slice, { "2 9 5" }, EXACT, { 1, 2, 7 } },
    { "slice: last axis", slice, ref_slice, { "2 9 5" }, EXACT, { 2, 4, 5 } },
    { "distances", distances, ref_distances, { "3 11" }, EXACT, { 4 }, .fixed = 1 },
    { "distances: one query", distances, ref_distances, { "5" }, EXACT, { 1 }, .fixed = 1 },
    { "distances: one key", distances, ref_distances, { "2 2 5" }, EXACT, { 5 }, .fixed = 1 },
    { "embedding", embedding, ref_embedding, { "7 40" }, ROUND,
      { 5, 6, 0, 3, 3, 6 }, .weights = 1, .fixed = 1 },          /* f32 table to bf16 */
    { "embedding: bf16", embedding, ref_embedding, { "4 4100" }, EXACT, { 2, 3, 1 }, .weights = 1,
      .stored = VC_BF16 },
    { "embedding: f16", embedding, ref_embedding, { "4 33" }, ROUND,
      { 3, 3, 1, 0 }, .weights = 1, .stored = VC_F16 },
    { "reorder", reorder, ref_reorder, { "2 3 40" }, EXACT, { 3, 0, 5, 1, 4, 2 } },
    { "reorder: short rows", reorder, ref_reorder, { "7 3" }, EXACT, { 1, 2, 3, 4, 5, 6, 0 } },
    { "chunk", chunk, ref_chunk, { "2 4 21" }, CHAIN },
    { "concat: tokens", concat, ref_concat, { "2 3 5", "2 4 5", "2 1 5" }, EXACT, { 1 } },
    { "concat: channels", concat, ref_concat, { "2 3 5", "2 3 8" }, EXACT, { 2 } },
    { "patchify: c first", patchify, ref_patchify, { "2 3 4 6 8" }, EXACT,
      { 2, 3, 2, VT_C_FIRST } },
    { "patchify: c last", patchify, ref_patchify, { "2 3 1 4 6" }, EXACT, { 1, 2, 2, VT_C_LAST } },
    { "patchify: single", patchify, ref_patchify, { "1 2 2 3 5" }, EXACT, { 1, 1, 1, VT_C_LAST } },
    { "unpatchify: c first", unpatchify, ref_unpatchify, { "2 12 8" }, EXACT,
      { 2, 2, 1, VT_C_FIRST } },
    { "unpatchify: c last", unpatchify, ref_unpatchify, { "2 12 8" }, EXACT,
      { 1, 2, 2, VT_C_LAST } },
    { "assign", assign, ref_concat, { "3 5", "4 5" }, EXACT, .fixed = 3 },
    { 0 }
};
