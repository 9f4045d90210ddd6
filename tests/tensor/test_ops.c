/* test_ops.c - every op on every backend and CPU kernel set: value against an independent f64 loop,
 * gradient against central differences of that loop, in f32 and bf16, with packed, sliced and
 * permuted inputs, and the same bits twice. One row per op and shape; see ops.h. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/tensor/backend.h"
#include "tests/tensor/ops.h"

#define RUN(name, expr)                                                                            \
    static vt_tensor *name(vt_ctx *g, vt_tensor *const *x, const op_args *a)                       \
    {                                                                                              \
        (void)a;                                                                                   \
        return expr;                                                                               \
    }
#define ARG(i) ((float)a->c->arg[i])
#define OPT(i) (a->n > (i) ? x[i] : NULL)

RUN(add, vt_add(g, x[0], x[1]))
RUN(sub, vt_sub(g, x[0], x[1]))
RUN(mul, vt_mul(g, x[0], x[1]))
RUN(scale, vt_scale(g, x[0], ARG(0)))
RUN(silu, vt_silu(g, x[0]))
RUN(gelu, vt_gelu(g, x[0]))
RUN(gelu_erf, vt_gelu_erf(g, x[0]))
RUN(quick_gelu, vt_quick_gelu(g, x[0]))
RUN(sigmoid, vt_sigmoid(g, x[0]))
RUN(hyperbolic, vt_tanh(g, x[0]))
RUN(gated_add, vt_gated_add(g, x[0], x[1], x[2]))
RUN(mix, vt_mix(g, x[0], x[1], x[2], x[3]))
RUN(posterior, vt_posterior(g, x[0], x[1], x[2]))
RUN(timestep, vt_timestep(g, x[0], (int64_t)a->c->arg[0], ARG(1)))
RUN(layer_norm, vt_layer_norm(g, x[0], OPT(1), OPT(2), ARG(0)))
RUN(rms_norm, vt_rms_norm(g, x[0], OPT(1), ARG(0)))
RUN(layer_modulate, vt_layer_norm_modulate(g, x[0], OPT(3), OPT(4), x[1], x[2], ARG(0)))
RUN(rms_modulate, vt_rms_norm_modulate(g, x[0], OPT(3), x[1], x[2], ARG(0)))
RUN(modulate_two, vt_layer_norm_modulate_two(g, x[0], OPT(5), OPT(6), (int64_t)a->c->arg[1],
                                             (vt_tensor *[]){ x[1], x[3] },
                                             (vt_tensor *[]){ x[2], x[4] }, ARG(0)))
RUN(gated_two, vt_gated_add_two(g, x[0], x[1], (int64_t)a->c->arg[0],
                                (vt_tensor *[]){ x[2], x[3] }))
RUN(linear, vt_linear(g, x[0], &(vt_lin){ .w = x[1], .b = OPT(2) }))
RUN(linear_f32, vt_linear_f32(g, x[0], &(vt_lin){ .w = x[1], .b = OPT(2) }))
RUN(lora, vt_linear(g, x[0], &(vt_lin){ x[1], x[2], x[3], x[4], ARG(0), NULL }))
RUN(feed_forward, vt_feed_forward(g, x[0], &(vt_lin){ .w = x[1], .b = OPT(3) },
                                  &(vt_lin){ .w = x[2], .b = OPT(4) }))
RUN(lora_forward, vt_feed_forward(g, x[0], &(vt_lin){ x[1], NULL, x[3], x[4], ARG(0), NULL },
                                  &(vt_lin){ x[2], NULL, x[5], x[6], ARG(0), NULL }))
RUN(rope, vt_rope(g, x[0], x[1], x[2], (int64_t)a->c->arg[0]))
RUN(rope_halves, vt_rope_halves(g, x[0], x[1], x[2], (int64_t)a->c->arg[0]))
RUN(mse, vt_mse(g, x[0], x[1], OPT(2)))
RUN(sum, vt_sum(g, x[0]))
RUN(pack, vt_pack(g, x[0]))
RUN(cast, vt_cast(g, vt_cast(g, x[0], VC_F32), VC_BF16))
RUN(flatten, vt_reshape(g, x[0], 1, (int64_t[]){ -1 }))
RUN(split, vt_reshape(g, x[0], 4, (int64_t[]){ x[0]->dim[0], -1, 2, x[0]->dim[2] / 2 }))
RUN(slice, vt_slice(g, x[0], (int)a->c->arg[0], (int64_t)a->c->arg[1], (int64_t)a->c->arg[2]))
RUN(distances, vt_distances(g, x[0], (int64_t)a->c->arg[0]))
RUN(concat, vt_concat(g, (int)a->c->arg[0], a->n, x))
RUN(patchify, vt_patchify(g, x[0], (int)a->c->arg[0], (int)a->c->arg[1], (int)a->c->arg[2],
                          (vt_patch_order)a->c->arg[3]))
RUN(unpatchify, vt_unpatchify(g, x[0], (int64_t[]){ 2, 2, 4, 6 }, (int)a->c->arg[0],
                              (int)a->c->arg[1], (int)a->c->arg[2], (vt_patch_order)a->c->arg[3]))

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

static vt_tensor *attention(vt_ctx *g, vt_tensor *const *x, const op_args *a)
{
    vt_tensor *len = NULL;
    vt_attn how = { .bias = OPT(3), .causal = (int64_t)a->c->arg[4], .scale = ARG(0) };

    if (a->c->arg[1] != 0) {
        int32_t n[4] = { (int32_t)a->c->arg[1], (int32_t)a->c->arg[2], (int32_t)a->c->arg[3] };
        len = vt_from_host(g, VC_I32, 1, &a->s[0].dim[0], n, VC_I32);
    }
    how.kv_len = len;
    return vt_attention(g, x[0], x[1], x[2], &how);
}

static vt_tensor *embedding(vt_ctx *g, vt_tensor *const *x, const op_args *a)
{
    int32_t id[5];
    int64_t n = (int64_t)a->c->arg[0];

    for (int64_t i = 0; i < n; i++)
        id[i] = (int32_t)a->c->arg[1 + i];
    return vt_embedding(g, x[0], vt_from_host(g, VC_I32, 2, (int64_t[]){ 1, n }, id, VC_I32));
}

static vt_tensor *conv3d(vt_ctx *g, vt_tensor *const *x, const op_args *a)
{
    int p = (int)a->c->arg[4], q = (int)a->c->arg[5], edge = (int)a->c->arg[7];
    vt_conv c = { { (int)a->c->arg[0], (int)a->c->arg[1], (int)a->c->arg[2] },
                  { (int)a->c->arg[3], p, p }, { (int)a->c->arg[6], q, q }, OPT(3),
                  { edge & 1, edge & 2, edge & 4 } };
    return vt_conv3d(g, x[0], x[1], OPT(2), &c);
}

RUN(nearest, vt_nearest(g, x[0], (int64_t)a->c->arg[0], (int64_t)a->c->arg[1],
                        (int64_t)a->c->arg[2]))
RUN(pool_frames, vt_pool_frames(g, x[0]))

static vt_tensor *group_norm(vt_ctx *g, vt_tensor *const *x, const op_args *a)
{
    vt_group n = { (int)a->c->arg[0], ARG(1), a->c->arg[2] != 0, a->c->arg[3] != 0, OPT(3),
                   OPT(4) };
    return vt_group_norm(g, x[0], x[1], x[2], &n);
}

/* [a, b], written in two parts */
static vt_tensor *assign(vt_ctx *g, vt_tensor *const *x, const op_args *a)
{
    int64_t n = a->s[0].dim[0], dim[] = { n + a->s[1].dim[0], a->s[0].dim[1] };
    vt_tensor *y = vt_new(g, vt_compute(g), 2, dim);

    vt_assign(g, vt_slice(g, y, 0, 0, n), x[0]);
    vt_assign(g, vt_slice(g, y, 0, n, dim[0]), x[1]);
    return y;
}

/* Tolerances: of the largest value. bf16 keeps 8 bits, so one rounding costs up to 2^-9 = 2e-3 of
 * an element and gradients that meet several roundings in a chain get a few of those. */
#define EXACT .tol = 0, .tol16 = 0             /* data only moves */
#define ROUND .tol = 3e-7f, .tol16 = 5e-3f     /* one f32 operation or two, one bf16 rounding */
#define CHAIN .tol = 2e-6f, .tol16 = 1.5e-2f   /* some tens of f32 operations; 2 or 3 roundings */
#define SUMS .tol = 1e-5f, .tol16 = 1.5e-2f    /* f32 sums of hundreds of terms */
#define SOFT .tol = 2e-5f, .tol16 = 4e-2f      /* softmax: P, and in backward differences of
                                                * sums over rounded outputs */

static const op_case cases[] = {
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
    { "rms modulate", rms_modulate, ref_rms_modulate, { "2 7 48", "2 1 48", "2 1 48", "48" }, SUMS,
      { 1e-6 }, .weights = 8 },

    { "modulate two", modulate_two, ref_modulate_two,
      { "2 130 96", "2 1 96", "2 1 96", "2 1 96", "2 1 96", "96", "96" }, SUMS, { 1e-5, 9 },
      .weights = 96 },
    { "modulate two: no affine", modulate_two, ref_modulate_two,
      { "3 5 33", "3 1 33", "3 1 33", "33", "33" }, SUMS, { 1e-6, 4 } },
    { "gated_add two", gated_two, ref_gated_two, { "2 60 257", "2 60 257", "2 1 257", "2 1 257" },
      SUMS, { 7 } },

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

    { "mse", mse, ref_mse, { "2 3 5", "2 3 5" }, SUMS, .fixed = 2 },
    { "mse: long", mse, ref_mse, { "3 70 257", "3 70 257" }, SUMS, .fixed = 2 },
    { "mse: weight per sample", mse, ref_mse, { "3 4 50", "3 4 50", "3 1 1" }, SUMS,
      .weights = 4, .fixed = 6 },
    { "mse: mask", mse, ref_mse, { "2 3 2 5", "2 3 2 5", "2 5" }, SUMS, .fixed = 6 },
    { "sum", sum, ref_sum, { "3 70 257" }, SUMS },

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
    { "conv3d: edges in time, few channels", conv3d, ref_conv3d, { "1 6 4 9 3", "20 3 3 3 3", "20" },
      SUMS, { 1, 1, 1, 1, 1, 1, 1, 1 }, .weights = 6, .fixed = 7 },
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
    { "assign", assign, ref_concat, { "3 5", "4 5" }, EXACT, .fixed = 3 },
};

enum { CONTEXTS = 8 };

/* All rows of one compute type on n contexts. */
static int check_all(vt_ctx *const *g, int n, vc_dtype type)
{
    static const char *const layout[] = { "packed", "sliced", "permuted" };
    const char *only = getenv("VLT_OP");       /* one op's rows, while working on it */
    char why[256];
    int bad = 0;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (only && strncmp(cases[i].name, only, strlen(only)))
            continue;
        op_want *w = op_want_open(&cases[i], type);
        for (int k = 0; k < n; k++)
            for (int l = 0; l < OP_LAYOUTS; l++)
                if (op_check(g[k], w, l, why)) {
                    print_error("%s, %s on %s: %s\n", cases[i].name, layout[l],
                                vt_describe(g[k]), why);
                    bad++;
                }
        op_want_close(w);
    }
    return bad;
}

/* Each kernel set that this machine can run, with one thread and with two. */
static int open_cpu(vt_ctx **g, vc_dtype type)
{
    static const char *const sets[] = { "plain", "avx2", "avx512", "amx" };
    int n = 0;

    for (int i = 0; i < 4; i++)
        for (int threads = 1; threads <= 2; threads++) {
            vt_options o = { .device = "cpu", .kernels = sets[i], .threads = threads,
                             .compute = type, .pool_limit = 64 << 20 };
            if (!vt_open(&g[n], &o, NULL))
                n++;
            else if (threads == 1)
                print_message("this machine cannot run kernel set %s\n", sets[i]);
        }
    return n;
}

static void test_cpu(void **state)
{
    int bad = 0;

    (void)state;
    for (vc_dtype type = VC_F32; type <= VC_BF16; type++) {
        vt_ctx *g[CONTEXTS];
        int n = open_cpu(g, type);
        assert_true(n >= 2);
        bad += check_all(g, n, type);
        while (n--)
            vt_close(g[n]);
    }
    assert_int_equal(bad, 0);
}

static void test_other_backends(void **state)
{
    int others = 0, bad = 0;

    (void)state;
    for (const vt_backend *const *be = vt_backends(); *be; be++)
        for (vc_dtype type = VC_F32; strcmp((*be)->name, "cpu") && type <= VC_BF16; type++) {
            vt_options o = { .device = (*be)->name, .compute = type, .pool_limit = 64 << 20 };
            vt_ctx *g;
            vc_err err;
            if (vt_open(&g, &o, &err)) {
                print_message("%s: %s\n", (*be)->name, err.text);
                continue;
            }
            bad += check_all(&g, 1, type);
            vt_close(g);
            others++;
        }
    if (!others)
        skip();
    assert_int_equal(bad, 0);
}

/* The noise of a step is the noise rng.h promises, whatever the threads. */
static void test_randn(void **state)
{
    enum { B = 2, N = 5003 };
    float have[B * N], want[B * N];

    (void)state;
    for (uint32_t b = 0; b < B; b++)
        vc_train_normals(want + b * N, 0, N, 11, 4 + b, 9, VC_DRAW_NOISE);
    for (int threads = 1; threads <= 2; threads++) {
        vt_options o = { .device = "cpu", .threads = threads, .pool_limit = 1 << 20 };
        vt_ctx *g;
        assert_int_equal(vt_open(&g, &o, NULL), 0);
        vt_step_begin(g, 0);
        vt_tensor *z = vt_randn(g, 2, (int64_t[]){ B, N }, 11, 4, 9, VC_DRAW_NOISE);
        assert_int_equal(vt_to_host(g, z, have, NULL), 0);
        assert_memory_equal(have, want, sizeof want);
        assert_int_equal(vt_step_end(g, NULL), 0);
        vt_close(g);
    }
}

/* An id that the table does not have is named, and fails the step. */
static void test_embedding_range(void **state)
{
    static const float table[6];
    const int32_t ids[2][2] = { { 1, 3 }, { -1, 2 } };
    const char *said[2] = { "id 3 at 1, the table has 3 rows", "id -1 at 0" };
    const vt_options o = { .device = "cpu", .pool_limit = 1 << 20 };
    vt_ctx *g;
    vc_err err;

    (void)state;
    assert_int_equal(vt_open(&g, &o, NULL), 0);
    vt_tensor *t = vt_param_new(g, VC_F32, 2, (int64_t[]){ 3, 2 }, table, VC_F32, true, NULL);
    for (int i = 0; i < 2; i++) {
        vt_step_begin(g, 0);
        vt_embedding(g, t, vt_from_host(g, VC_I32, 1, (int64_t[]){ 2 }, ids[i], VC_I32));
        assert_int_equal(vt_step_end(g, &err), VC_EINVAL);
        if (!strstr(err.text, said[i]))
            fail_msg("%s", err.text);
    }
    vt_param_free(g, t);
    vt_close(g);
}

/* Ops without a gradient say so when one is asked for, and refuse operands that do not fit. */
static void test_forward_only(void **state)
{
    const vt_options o = { .device = "cpu", .pool_limit = 1 << 20 };
    const int64_t shape[] = { 1, 4, 2, 8 }, wide[] = { 2, 4, 5 };
    vt_ctx *g;
    vc_err err;

    (void)state;
    assert_int_equal(vt_open(&g, &o, NULL), 0);
    vt_tensor *w = vt_param_new(g, VC_F32, 4, shape, NULL, VC_F32, false, NULL);
    vt_tensor *b = vt_param_new(g, VC_F32, 2, shape + 1, NULL, VC_F32, false, NULL);
    vt_tensor *odd = vt_param_new(g, VC_F32, 3, wide, NULL, VC_F32, false, NULL);
    vt_tensor *half = vt_param_new(g, VC_BF16, 1, (int64_t[]){ 4 }, NULL, VC_BF16, false, NULL);
    assert_int_equal(vt_param_train(g, b, VC_F32, NULL), 0);
    vt_tensor *train[3];
    for (int k = 0; k < 3; k++) {
        const int64_t n[] = { 64, 264, 520 };
        train[k] = vt_param_new(g, VC_F32, 1, &n[k], NULL, VC_F32, false, NULL);
        assert_int_equal(vt_param_train(g, train[k], VC_F32, NULL), 0);
    }
    for (int i = 0; i < 16; i++) {
        static const char *const says[] = {
            "attention: it has no gradient with a bias", "distances: it has no gradient",
            "embedding: it has no gradient", "have Sk columns: ", "have Sk columns: ",
            "attention: a causal run is negative", "x must be [..,Sq+Sk-1]",
            "x must be [..,Sq+Sk-1]", "embedding: operand 2 is missing", "packed [V,D], ids i32",
            "packed [V,D], ids i32",               /* what follows a failure says nothing */
            "a bias or a causal mask: ", "fewer key heads than query heads", "heads above 256",
            "must be a multiple of the key heads", "at most 512",
        };
        vt_step_begin(g, VT_RECORD);
        vt_tensor *bias = vt_reshape(g, b, 3, (int64_t[]){ 2, 1, 4 });
        vt_tensor *id = vt_from_host(g, VC_I32, 1, (int64_t[]){ 1 }, &(int32_t){ 0 }, VC_I32);
        vt_tensor *one = vt_slice(g, w, 2, 0, 1), *heads[3];
        for (int k = 0; k < 3; k++)
            heads[k] = vt_reshape(g, train[k], 4, k ? (int64_t[]){ 1, 1, 1, -1 } : shape);
        vt_tensor *y = i == 0 ? vt_attention(g, w, w, w, &(vt_attn){ .bias = bias })
                     : i == 1 ? vt_distances(g, b, 2)
                     : i == 2 ? vt_embedding(g, b, id)
                     : i == 3 ? vt_attention(g, w, w, w, &(vt_attn){ .bias = odd })
                     : i == 4 ? vt_attention(g, w, w, w, &(vt_attn){ .bias = half })
                     : i == 5 ? vt_attention(g, w, w, w, &(vt_attn){ .causal = -1 })
                     : i == 6 ? vt_distances(g, odd, 6)
                     : i == 7 ? vt_distances(g, odd, 0)
                     : i == 8 ? vt_embedding(g, half, NULL)
                     : i == 9 ? vt_embedding(g, half, id)
                     : i == 10 ? vt_distances(g, vt_embedding(g, half, id), 2)
                     : i == 11 ? vt_attention(g, heads[0], w, w, &(vt_attn){ .causal = 1 })
                     : i == 12 ? vt_attention(g, heads[0], one, one, NULL)
                     : i == 13 ? vt_attention(g, heads[1], heads[1], heads[1], NULL)
                     : i == 14 ? vt_attention(g, one, w, w, NULL)
                     : vt_attention(g, heads[2], heads[2], heads[2], NULL);
        assert_null(y);
        assert_int_not_equal(vt_step_end(g, &err), 0);
        if (!strstr(err.text, says[i]))
            fail_msg("%d: %s", i, err.text);
    }
    vt_param_free(g, w);
    vt_param_free(g, b);
    vt_param_free(g, odd);
    vt_param_free(g, half);
    for (int k = 0; k < 3; k++)
        vt_param_free(g, train[k]);
    vt_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_other_backends),
        cmocka_unit_test(test_randn),
        cmocka_unit_test(test_embedding_range),
        cmocka_unit_test(test_forward_only),
    };
    cmocka_set_test_filter(getenv("VLT_TEST"));    /* one test's name, * for any letters */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
