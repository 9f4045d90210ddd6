/* ops_attn.c - rows of test_ops: attention and positions (op_attn.c). */
#include <stdlib.h>

#include "tests/tensor/ops.h"

/* ---- as plain loops ---- */

/* Inputs: q, k, v, and perhaps a bias [H,Sq,Sk]. arg 0: scale; arg 1..: numbers of keys, or 0 for
 * all. */
static int64_t ref_attention(double *y, const double *const *x, const op_args *a)
{
    const int64_t *q = a->s[0].dim, *k = a->s[1].dim;
    int64_t h = q[2], d = q[3], n = op_count(&a->s[0]);
    double scale = a->c->arg[0] != 0 ? a->c->arg[0] : 1 / sqrt((double)d);
    int64_t run = (int64_t)a->c->arg[4], shared = h / k[2];
    op_shape scores = { 4, { q[0], h, q[1], k[1] } };
    double *p = malloc((size_t)k[1] * sizeof *p);

    for (int64_t i = 0; y && i < n / d; i++) {
        int64_t head = i % h, b = i / h / q[1];
        int64_t len = a->c->arg[1] != 0 ? (int64_t)a->c->arg[1 + b] : k[1];
        int64_t at = i / h % q[1], row = (b * h + head) * q[1] + at;
        if (run && (at / run + 1) * run < len)
            len = (at / run + 1) * run;
        double most = -INFINITY, sum = 0;
        for (int64_t j = 0; j < len; j++) {
            const double *key = x[1] + ((b * k[1] + j) * k[2] + head / shared) * d;
            p[j] = scale * op_dot(x[0] + i * d, key, d);
            if (a->n > 3)
                p[j] += x[3][op_broadcast(&scores, &a->s[3], row * k[1] + j)];
            most = fmax(most, p[j]);
        }
        for (int64_t j = 0; j < len; j++)
            sum += p[j] = exp(p[j] - most);
        for (int64_t e = 0; e < d; e++) {
            y[i * d + e] = 0;
            for (int64_t j = 0; j < len; j++)
                y[i * d + e] += p[j] / sum * x[2][((b * k[1] + j) * k[2] + head / shared) * d + e];
        }
    }
    free(p);
    return n;
}

/* Inputs: x, cos, sin; arg 0: first token. Pair j has the elements j step and j step + apart of a
 * row. */
static int64_t rotated(double *y, const double *const *x, const op_args *a, int64_t step,
                      int64_t apart)
{
    const int64_t *s = a->s[0].dim;
    int64_t n = op_count(&a->s[0]), d = s[3], first = (int64_t)a->c->arg[0];

    for (int64_t i = 0; y && i < n / 2; i++) {
        int64_t row = i / (d / 2), j = i % (d / 2), token = row / s[2] % s[1] - first;
        int64_t low = row * d + j * step, high = low + apart, at = token * (d / 2) + j;
        int rotates = token >= 0 && token < a->s[1].dim[0];
        double c = rotates ? x[1][at] : 1, sn = rotates ? x[2][at] : 0;
        y[low] = x[0][low] * c - x[0][high] * sn;
        y[high] = x[0][high] * c + x[0][low] * sn;
    }
    return n;
}

static int64_t ref_rope(double *y, const double *const *x, const op_args *a)
{
    return rotated(y, x, a, 2, 1);
}

static int64_t ref_rope_halves(double *y, const double *const *x, const op_args *a)
{
    return rotated(y, x, a, 1, a->s[0].dim[3] / 2);
}

/* ---- as ops ---- */

OP_RUN(rope, vt_rope(g, x[0], x[1], x[2], (int64_t)a->c->arg[0]))
OP_RUN(rope_halves, vt_rope_halves(g, x[0], x[1], x[2], (int64_t)a->c->arg[0]))

static vt_tensor *attention(vt_ctx *g, vt_tensor *const *x, const op_args *a)
{
    vt_tensor *len = NULL;
    vt_attn how = { .bias = OP_OPT(3), .causal = (int64_t)a->c->arg[4], .scale = OP_ARG(0) };

    if (a->c->arg[1] != 0) {
        int32_t n[4] = { (int32_t)a->c->arg[1], (int32_t)a->c->arg[2], (int32_t)a->c->arg[3] };
        len = vt_from_host(g, VC_I32, 1, &a->s[0].dim[0], n, VC_I32);
    }
    how.kv_len = len;
    return vt_attention(g, x[0], x[1], x[2], &how);
}

/* ---- rows ---- */

const op_case ops_attn[] = {
    { "attention", attention, ref_attention, { "2 17 3 32", "2 9 3 32", "2 9 3 32" }, SOFT },
    { "attention: self", attention, ref_attention, { "1 70 2 64", "1 70 2 64", "1 70 2 64" },
      SOFT },
    { "attention: head 8, scale", attention, ref_attention, { "1 5 2 8", "1 3 2 8", "1 3 2 8" },
      SOFT, { 0.7 } },
    { "attention: lengths", attention, ref_attention, { "3 6 2 16", "3 11 2 16", "3 11 2 16" },
      SOFT, { 0, 11, 1, 6 } },
    { "attention: head 128", attention, ref_attention, { "1 9 1 128", "1 13 1 128", "1 13 1 128" },
      SOFT },
    { "attention: q alone", attention, ref_attention, { "1 5 2 16", "1 6 2 16", "1 6 2 16" }, SOFT,
      .fixed = 6 },
    { "attention: v alone", attention, ref_attention, { "1 5 2 16", "1 6 2 16", "1 6 2 16" }, SOFT,
      .fixed = 3 },
    { "attention biased", attention, ref_attention,
      { "2 17 3 32", "2 9 3 32", "2 9 3 32", "3 17 9" }, SOFT, { 1 }, .weights = 8, .fixed = 15 },
    { "attention biased: blocks", attention, ref_attention,
      { "1 100 2 16", "1 300 2 16", "1 300 2 16", "2 100 300" }, SOFT, { 1 }, .weights = 8,
      .fixed = 15 },
    { "attention biased: per key", attention, ref_attention,
      { "3 6 2 16", "3 11 2 16", "3 11 2 16", "3 1 1 11" }, SOFT, { 0, 11, 1, 6 }, .weights = 8,
      .fixed = 15 },
    { "attention causal", attention, ref_attention, { "2 17 3 32", "2 17 3 32", "2 17 3 32" }, SOFT,
      { 0, 0, 0, 0, 1 }, .fixed = 7 },
    { "attention causal: blocks", attention, ref_attention,
      { "1 300 1 16", "1 600 1 16", "1 600 1 16" }, SOFT, { 0, 0, 0, 0, 1 }, .fixed = 7 },
    { "attention causal: frames, lengths", attention, ref_attention,
      { "3 110 2 8", "3 110 2 8", "3 110 2 8" }, SOFT, { 0, 110, 1, 40, 23 }, .fixed = 7 },
    { "attention causal: a run longer than the keys", attention, ref_attention,
      { "1 9 1 8", "1 5 1 8", "1 5 1 8" }, SOFT, { 0, 0, 0, 0, 5e9 }, .fixed = 7 },
    { "attention causal: fewer key heads, bias", attention, ref_attention,
      { "2 40 6 16", "2 40 2 16", "2 40 2 16", "6 40 40" }, SOFT, { 0.3, 33, 40, 0, 1 },
      .weights = 8, .fixed = 15 },
    { "attention: fewer key heads", attention, ref_attention,
      { "2 130 7 32", "2 99 1 32", "2 99 1 32" }, SOFT, .fixed = 7 },
    { "attention: head 512", attention, ref_attention, { "1 35 1 512", "1 41 1 512", "1 41 1 512" },
      SOFT, .fixed = 7 },
    { "attention: head 1024", attention, ref_attention,
      { "2 35 2 1024", "2 41 1 1024", "2 41 1 1024" }, SOFT, { 0, 41, 7 }, .fixed = 7 },
    { "attention: head 640, bias", attention, ref_attention,
      { "1 9 2 640", "1 5 2 640", "1 5 2 640", "2 1 5" }, SOFT, { 1 }, .weights = 8, .fixed = 15 },
    { "attention causal: head 768", attention, ref_attention,
      { "1 20 1 768", "1 20 1 768", "1 20 1 768" }, SOFT, { 0, 0, 0, 0, 6 }, .fixed = 7 },
    { "rope", rope, ref_rope, { "2 5 3 8", "5 4", "5 4" }, CHAIN, .weights = 6, .fixed = 6 },
    { "rope: part", rope, ref_rope, { "2 9 3 18", "4 9", "4 9" }, CHAIN, { 3 }, .weights = 6,
      .fixed = 6 },
    { "rope: full width", rope, ref_rope, { "1 9 1 2500", "9 1250", "9 1250" }, CHAIN,
      .weights = 6, .fixed = 6 },
    { "rope halves", rope_halves, ref_rope_halves, { "2 5 3 8", "5 4", "5 4" }, CHAIN,
      .weights = 6, .fixed = 6 },
    { "rope halves: part, odd", rope_halves, ref_rope_halves, { "2 9 3 26", "4 13", "4 13" }, CHAIN,
      { 3 }, .weights = 6, .fixed = 6 },
    { "rope halves: full width", rope_halves, ref_rope_halves, { "1 9 1 5000", "9 2500", "9 2500" },
      CHAIN, .weights = 6, .fixed = 6 },
    { 0 }
};
