/* op_attn.c - attention and rotary positions: see ops.h */
#include <math.h>

#include "common/tensor/engine.h"

enum { Q, K, V, KV_LEN, LSE, INPUTS };

/* Scores and their product with v: 2 matmuls forward; backward scores again, and 4 gradients. */
static void count_flops(vt_ctx *g, const vt_tensor *q, const vt_tensor *k, int matmuls)
{
    g->usage.flops += 2.0 * matmuls * (double)vt_count(q) * (double)k->dim[1];
}

static void attention_grad(vt_ctx *g, const vt_node *n)
{
    vt_tensor *const *in = n->in;
    vt_tensor *dq = vt_grad(g, in[Q]), *dk = vt_grad(g, in[K]), *dv = vt_grad(g, in[V]);

    count_flops(g, in[Q], in[K], 5);
    VT_RUN_HEAVY(g, attention_grad, dq, dk, dv, n->out->grad, in[Q], in[K], in[V], n->out, in[LSE],
           in[KV_LEN], n->f[0]);
}

static const char *wrong(const vt_tensor *q, const vt_tensor *k, const vt_tensor *v,
                         const vt_tensor *kv_len)
{
    if (q->nd != 4 || k->nd != 4 || !vt_same_shape(k, v))
        return "q must be [B,Sq,H,D], k and v equal [B,Sk,H,D]";
    if (q->dim[0] != k->dim[0] || q->dim[2] != k->dim[2] || q->dim[3] != k->dim[3])
        return "batch, heads or head sizes differ";
    if (q->dim[3] % 8 || q->dim[3] > 256)
        return "the head size must be a multiple of 8, at most 256";
    if (q->dtype > VC_BF16 || k->dtype != q->dtype || v->dtype != q->dtype)
        return "q, k and v must have one type, f32 or bf16";
    if (kv_len && (kv_len->dtype != VC_I32 || kv_len->nd != 1 || kv_len->dim[0] != q->dim[0] ||
                   !vt_packed(kv_len) || (kv_len->buf && kv_len->buf->refs <= 0)))
        return "kv_len must be i32 [B], and not given back yet";
    return NULL;
}

static vt_tensor *attention(vt_ctx *g, vt_tensor *q, vt_tensor *k, vt_tensor *v,
                            const vt_tensor *bias, vt_tensor *kv_len, float scale)
{
    vt_tensor *in[INPUTS] = { q, k, v, kv_len, NULL };

    for (int i = Q; i <= V; i++)
        if (!(in[i] = vt_rows_packed(g, in[i])))
            return NULL;
    if (scale == 0.0f)
        scale = 1.0f / sqrtf((float)q->dim[3]);
    vt_tensor *o = vt_new_like(g, q);
    in[LSE] = vt_new(g, VC_F32, 3, (int64_t[]){ q->dim[0], q->dim[2], q->dim[1] });
    if (!o || !in[LSE])
        return NULL;
    count_flops(g, q, k, 2);
    VT_RUN_HEAVY(g, attention, o, in[LSE], in[Q], in[K], in[V], kv_len, bias, scale);
    vt_node *node;
    o = vt_record(g, o, "attention", attention_grad, INPUTS, in, (1u << INPUTS) - 1, true, &node);
    if (node)
        node->f[0] = scale;
    return o;
}

vt_tensor *vt_attention(vt_ctx *g, vt_tensor *q, vt_tensor *k, vt_tensor *v, vt_tensor *kv_len,
                        float scale)
{
    vt_tensor *in[] = { q, k, v, kv_len };

    if (!vt_ok(g, "attention", 3, in))
        return NULL;
    const char *why = wrong(q, k, v, kv_len);
    if (why)
        return vt_bad(g, "attention", why, 4, in);
    return attention(g, q, k, v, NULL, kv_len, scale);
}

vt_tensor *vt_attention_biased(vt_ctx *g, vt_tensor *q, vt_tensor *k, vt_tensor *v,
                               vt_tensor *bias, vt_tensor *kv_len, float scale)
{
    vt_tensor *in[] = { q, k, v, bias };

    if (!vt_ok(g, "attention_biased", 4, in))
        return NULL;
    const char *why = wrong(q, k, v, kv_len);
    if (why)
        return vt_bad(g, "attention_biased", why, 4, in);
    const vt_tensor scores = { .nd = 4, .dim = { q->dim[0], q->dim[2], q->dim[1], k->dim[1] } };
    if (bias->dtype != VC_F32 || !vt_broadcasts(bias, &scores) || vt_last(bias) != k->dim[1])
        return vt_bad(g, "attention_biased", "the bias must be f32, broadcast to [B,H,Sq,Sk] and "
                      "have Sk columns", 4, in);
    if (q->needs_grad || k->needs_grad || v->needs_grad || bias->needs_grad)
        return vt_bad(g, "attention_biased", "it has no gradient", 4, in);
    if (!(bias = vt_rows_packed(g, bias)))
        return NULL;
    const vt_tensor e = vt_expand(bias, &scores);
    return attention(g, q, k, v, &e, kv_len, scale);
}

static void rope_grad(vt_ctx *g, const vt_node *n)
{
    vt_tensor *dx = vt_grad(g, n->in[0]);
    if (dx)
        VT_RUN(g, rope, dx, n->out->grad, n->in[1], n->in[2], n->i[0], -1.0f);
}

vt_tensor *vt_rope(vt_ctx *g, vt_tensor *x, vt_tensor *c, vt_tensor *s, int64_t begin)
{
    vt_tensor *in[] = { x, c, s };

    if (!vt_ok(g, "rope", 3, in))
        return NULL;
    if (x->nd != 4 || x->dim[3] % 2 || c->nd != 2 || c->dim[1] != x->dim[3] / 2 || begin < 0 ||
        begin > x->dim[1] - c->dim[0] || !vt_same_shape(c, s) || c->dtype != VC_F32 ||
        s->dtype != VC_F32 || !vt_packed(c) || !vt_packed(s))
        return vt_bad(g, "rope", "x must be [B,N,H,D], cos and sin f32 [N',D/2] within N", 3, in);
    if (c->needs_grad || s->needs_grad)
        return vt_bad(g, "rope", "the tables get no gradient", 3, in);
    in[0] = vt_rows_packed(g, x);
    vt_tensor *y = in[0] ? vt_new(g, vt_result(g, x), 4, x->dim) : NULL;
    if (!y)
        return NULL;
    VT_RUN(g, rope, y, in[0], c, s, begin, 1.0f);
    vt_node *node;
    y = vt_record(g, y, "rope", rope_grad, 3, in, 6, false, &node);
    if (node)
        node->i[0] = begin;
    return y;
}
