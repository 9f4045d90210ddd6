/* ops_matmul.c - rows of test_ops: matrix products (op_matmul.c). */
#include <stdlib.h>

#include "tests/tensor/ops.h"

/* ---- as plain loops ---- */

/* Inputs: x, w, b. */
static int64_t ref_linear(double *y, const double *const *x, const op_args *a)
{
    int64_t k = a->s[1].dim[1], n = a->s[1].dim[0], m = op_count(&a->s[0]) / k;
    OP_EACH(y, m * n, op_dot(x[0] + i / n * k, x[1] + i % n * k, k) + (a->n > 2 ? x[2][i % n] : 0));
}

/* Inputs: x, w, b, LoRA's A and B; arg 0: LoRA's scale. */
static int64_t ref_lora(double *y, const double *const *x, const op_args *a)
{
    int64_t count = ref_linear(y, x, &(op_args){ a->c, 3, { a->s[0], a->s[1], a->s[2] } });
    int64_t k = a->s[1].dim[1], n = a->s[1].dim[0], rank = a->s[3].dim[0];

    for (int64_t i = 0; y && i < count; i++)
        for (int64_t r = 0; r < rank; r++)
            y[i] += a->c->arg[0] * op_dot(x[0] + i / n * k, x[3] + r * k, k) *
                    x[4][i % n * rank + r];
    return count;
}

/* Inputs: x, w1, w2, both biases, or with arg 1 LoRA's A and B of each; arg 0: LoRA's scale. */
static int64_t ref_feed_forward(double *y, const double *const *x, const op_args *a)
{
    const op_shape *s = a->s;
    bool lora = a->c->arg[1] > 0;
    int64_t m = op_count(s) / s[1].dim[1], f = s[1].dim[0];
    const op_args up = { a->c, lora ? 5 : a->n > 3 ? 3 : 2, { s[0], s[1], s[3], s[3], s[4] } };
    op_args down = { a->c, lora ? 5 : a->n > 4 ? 3 : 2,
                     { { 2, { m, f } }, s[2], s[4], s[5], s[6] } };
    const double *no = calloc((size_t)(f + s[2].dim[0]), sizeof *no);
    double *h = malloc((size_t)(m * f) * sizeof *h);

    (lora ? ref_lora : ref_linear)(h, (const double *[]){ x[0], x[1], lora ? no : x[3], x[3],
                                                          x[4] }, &up);
    for (int64_t i = 0; i < m * f; i++)
        h[i] = op_gelu(h[i]);
    int64_t n = (lora ? ref_lora : ref_linear)(y, (const double *[]){ h, x[2], lora ? no : x[4],
                                                                      x[5], x[6] }, &down);
    free((void *)(uintptr_t)no);
    free(h);
    return n;
}

/* ---- as ops ---- */

OP_RUN(linear, vt_linear(g, x[0], &(vt_lin){ .w = x[1], .b = OP_OPT(2) }))
OP_RUN(linear_f32, vt_linear_f32(g, x[0], &(vt_lin){ .w = x[1], .b = OP_OPT(2) }))
OP_RUN(lora, vt_linear(g, x[0], &(vt_lin){ .w = x[1], .b = x[2], .lora_a = x[3], .lora_b = x[4],
                                          .lora_scale = OP_ARG(0) }))
OP_RUN(feed_forward, vt_feed_forward(g, x[0], &(vt_lin){ .w = x[1], .b = OP_OPT(3) },
                                     &(vt_lin){ .w = x[2], .b = OP_OPT(4) }))
OP_RUN(lora_forward,
       vt_feed_forward(g, x[0], &(vt_lin){ .w = x[1], .lora_a = x[3], .lora_b = x[4],
                                           .lora_scale = OP_ARG(0) },
                       &(vt_lin){ .w = x[2], .lora_a = x[5], .lora_b = x[6],
                                  .lora_scale = OP_ARG(0) }))

/* ---- rows ---- */

const op_case ops_matmul[] = {
    { "linear", linear, ref_linear, { "2 7 24", "40 24", "40" }, SUMS, .weights = 6 },
    { "linear: no bias, odd", linear, ref_linear, { "3 5 7", "11 7" }, SUMS, .weights = 2 },
    { "linear: one row", linear, ref_linear, { "64", "9 64", "9" }, SUMS, .weights = 6 },
    { "linear: one column", linear, ref_linear, { "6 1", "4 1", "4" }, SUMS, .weights = 6 },
    { "linear in f32", linear_f32, ref_linear, { "2 1 24", "40 24", "40" }, SUMS, .weights = 6 },
    { "linear: large", linear, ref_linear, { "2 67 70", "66 70", "66" }, SUMS, .weights = 6 },
    { "linear: frozen bf16", linear, ref_linear, { "2 9 48", "33 48", "33" }, SUMS, .weights = 6,
      .stored = VC_BF16 },
    { "linear: frozen f16", linear, ref_linear, { "2 9 48", "33 48", "33" }, SUMS, .weights = 6,
      .stored = VC_F16 },
    { "linear: frozen fp8", linear, ref_linear, { "2 9 48", "33 48", "33" }, SUMS, .weights = 6,
      .stored = VC_F8E4M3 },
    { "lora", lora, ref_lora, { "2 9 24", "20 24", "20", "4 24", "20 4" }, SUMS, { 0.5 },
      .weights = 30 },
    { "lora: frozen base", lora, ref_lora, { "2 37 65", "31 65", "31", "3 65", "31 3" }, SUMS,
      { 2 }, .weights = 30, .fixed = 6 },
    { "feed_forward", feed_forward, ref_feed_forward, { "2 7 24", "40 24", "16 40", "40", "16" },
      SUMS, .weights = 30 },
    { "feed_forward: odd, no bias", feed_forward, ref_feed_forward, { "3 5 7", "13 7", "5 13" },
      SUMS, .weights = 6 },
    { "feed_forward: large", feed_forward, ref_feed_forward,
      { "2 67 70", "130 70", "70 130", "130", "70" }, SUMS, .weights = 30 },
    { "feed_forward: only the bias", feed_forward, ref_feed_forward,
      { "2 9 24", "33 24", "24 33", "33" }, SUMS, .weights = 14, .fixed = 7 },
    { "feed_forward: frozen bf16", feed_forward, ref_feed_forward,
      { "2 9 48", "64 48", "48 64" }, SUMS, .weights = 6, .stored = VC_BF16 },
    { "feed_forward: lora", lora_forward, ref_feed_forward,
      { "2 9 24", "40 24", "16 40", "4 24", "40 4", "3 40", "16 3" }, SUMS, { 0.5, 1 },
      .weights = 126, .fixed = 6 },
    { 0 }
};
