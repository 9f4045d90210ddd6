/* attend.c - attention without cuDNN: by the kernels of attend.h, or by products; see cuda.h */
#include "common/cuda/cuda.h"

static vk_heads heads(const vt_tensor *t)
{
    if (!t)
        return (vk_heads){ 0 };
    return (vk_heads){ t->data, (int)t->dtype, vt_adds(t), t->stride[0], t->stride[1],
                       t->stride[2] };
}

static vk_attend_args attend_args(const vt_tensor *q, const vt_tensor *k, const vt_tensor *v,
                                  const vt_attn *how)
{
    const int64_t run = how->causal < k->dim[1] ? how->causal : k->dim[1];

    return (vk_attend_args){ .q = heads(q), .k = heads(k), .v = heads(v),
                             .kv_len = how->kv_len ? how->kv_len->data : NULL,
                             .batch = (uint32_t)q->dim[0], .causal = (uint32_t)run,
                             .shared = (uint32_t)(q->dim[2] / k->dim[2]),
                             .sq = (uint32_t)q->dim[1], .heads = (uint32_t)q->dim[2],
                             .d = (uint32_t)q->dim[3], .sk = (uint32_t)k->dim[1],
                             .scale = how->scale };
}

/* The arguments of the forward. */
static vk_attend_args forward_args(const vt_tensor *o, const vt_tensor *lse, const vt_tensor *q,
                                   const vt_tensor *k, const vt_tensor *v, const vt_attn *how)
{
    vk_attend_args s = attend_args(q, k, v, how);

    s.o = heads(o);
    s.o.adds = 0;
    s.lse = lse->data;
    if (how->bias) {
        s.bias = how->bias->data;
        for (int i = 0; i < 4; i++)
            s.bias_stride[i] = how->bias->stride[i];
    }
    return s;
}

void cuda_attend(vt_dev *d, vt_tensor *o, vt_tensor *lse, const vt_tensor *q, const vt_tensor *k,
                 const vt_tensor *v, const vt_attn *how)
{
    const vk_attend_args s = forward_args(o, lse, q, k, v, how);

    if (d->dry)                                /* these kernels need no scratch */
        return;
    if (s.d > VK_HEAD) {
        cuda_fault(d, VC_EINVAL, "attention: heads of size %u, at most %d is possible", s.d,
                   VK_HEAD);
        return;
    }
    cuda_ok(d, vk_attend(d->stream, &s), "attention");
}

/* ---- by products ---- */

/* Returns tokens first.. of a head of t [B,S,H,D] as a matrix. */
static vt_tensor head_of(const vt_tensor *t, int64_t b, int64_t h, int64_t first, int64_t tokens)
{
    const int64_t at = b * t->stride[0] + first * t->stride[1] + h * t->stride[2];
    vt_tensor m = { .dtype = t->dtype, .nd = 2, .dim = { tokens, t->dim[3] },
                    .stride = { t->stride[1], 1 } };

    m.data = t->data ? (char *)t->data + at * (int64_t)vc_dtype_size(t->dtype) : NULL;
    return m;
}

/* Returns n columns of `rows` rows of scratch, each of `wide` elements. */
static vt_tensor columns_of(void *data, vc_dtype type, int64_t rows, int64_t n, int64_t wide)
{
    return (vt_tensor){ .data = data, .dtype = type, .nd = 2, .dim = { rows, n },
                        .stride = { wide, 1 } };
}

/* Computes queries s->first.. of a head. */
static void attend_rows(vt_dev *d, cuda_product *product, const vk_softmax_args *s, vt_tensor *o,
                        const vt_tensor *q, const vt_tensor *k, const vt_tensor *v)
{
    const int64_t b = s->b, h = s->h, rows = s->rows, shared = h / s->of.shared;
    int64_t keys = s->of.sk;

    if (s->of.causal) {                        /* those that the last of the queries sees */
        const int64_t seen = ((s->first + rows - 1) / s->of.causal + 1) * s->of.causal;
        keys = seen < keys ? seen : keys;
    }
    vt_tensor scores = columns_of(s->scores, VC_F32, rows, keys, s->wide);
    vt_tensor weights = columns_of(s->weights, (vc_dtype)s->type, rows, keys, s->wide);
    const vt_tensor hq = head_of(q, b, h, s->first, rows), hk = head_of(k, b, shared, 0, keys);
    const vt_tensor hv = head_of(v, b, shared, 0, keys);
    vt_tensor ho = head_of(o, b, h, s->first, rows);
    product(d, &scores, &hq, false, &hk, true, NULL, s->of.scale, 0.0f);
    if (!d->dry)
        cuda_ok(d, vk_softmax(d->stream, s), "attention");
    product(d, &ho, &weights, false, &hv, false, NULL, 1.0f, 0.0f);
}

void cuda_attend_products(vt_dev *d, cuda_product *product, size_t room, vt_tensor *o,
                          vt_tensor *lse, const vt_tensor *q, const vt_tensor *k,
                          const vt_tensor *v, const vt_attn *how)
{
    vk_softmax_args s = { .of = forward_args(o, lse, q, k, v, how), .type = (int)q->dtype };
    const uint32_t sq = s.of.sq;

    s.wide = (s.of.sk + 7) / 8 * 8;            /* rows begin at multiples of 16 bytes */
    const size_t row = s.wide * sizeof(float), fit = room / row;
    const uint32_t most = fit < 1 ? 1 : fit < sq ? (uint32_t)fit : sq;
    s.scores = cuda_scratch(d, CUDA_DSUM, most * row);
    s.weights = s.type == VK_F32 ? (char *)s.scores : cuda_scratch(d, CUDA_DQ, most * row / 2);
    if (!d->dry && (!s.scores || !s.weights))
        return;
    for (s.b = 0; s.b < s.of.batch; s.b++)
        for (s.h = 0; s.h < s.of.heads; s.h++)
            for (s.first = 0; s.first < sq; s.first += s.rows) {
                s.rows = sq - s.first < most ? sq - s.first : most;
                attend_rows(d, product, &s, o, q, k, v);
                if (d->dry)                    /* the others need no more scratch */
                    return;
            }
}

void cuda_attend_either(vt_dev *d, cuda_product *product, vt_tensor *o, vt_tensor *lse,
                        const vt_tensor *q, const vt_tensor *k, const vt_tensor *v,
                        const vt_attn *how)
{
    static const double PAIRS = 1e9;           /* of query and key: minutes of the plain kernels */
    static const size_t ROOM = (size_t)256 << 20;
    const double pairs = (double)vt_count(q) / (double)q->dim[3] * (double)k->dim[1];

    if (q->dim[3] > VK_HEAD || pairs > PAIRS)
        cuda_attend_products(d, product, ROOM, o, lse, q, k, v, how);
    else
        cuda_attend(d, o, lse, q, k, v, how);
}

/* ---- the gradient ---- */

void cuda_attend_grad(vt_dev *d, vt_tensor *dq, vt_tensor *dk, vt_tensor *dv,
                      const vt_tensor *dout, const vt_tensor *q, const vt_tensor *k,
                      const vt_tensor *v, const vt_tensor *o, const vt_tensor *lse,
                      const vt_attn *how)
{
    vk_attend_args s = attend_args(q, k, v, how);

    if (d->dry)
        return;
    s.o = heads(o);
    s.dout = heads(dout);
    s.lse = lse->data;
    s.dq = heads(dq);
    s.dk = heads(dk);
    s.dv = heads(dv);
    if (dq && cuda_ok(d, vk_attend_dq(d->stream, &s), "attention"))
        vt_wrote(dq);
    if ((dk || dv) && cuda_ok(d, vk_attend_dkv(d->stream, &s), "attention")) {
        if (dk)
            vt_wrote(dk);
        if (dv)
            vt_wrote(dv);
    }
}
