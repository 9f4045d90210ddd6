/* op_attn.c - attention and rotary positions; see ops.h */
#include <math.h>

#include "common/tensor/engine.h"

enum { Q, K, V, KV_LEN, LSE, INPUTS };
enum { WIDEST = 1024, WIDEST_GRAD = 256 };      /* largest head sizes */

/* Forward has 2 matmuls, the scores and their product with v; backward has 5, the scores again and
 * 4 gradients. */
static void count_flops(vt_ctx *g, const vt_tensor *q, const vt_tensor *k, int matmuls)
{
    g->usage.flops += 2.0 * matmuls * (double)vt_count(q) * (double)k->dim[1];
}

static void attention_grad(vt_ctx *g, const vt_node *n)
{
    vt_tensor *const *in = n->in;
    vt_tensor *dq = vt_grad(g, in[Q]), *dk = vt_grad(g, in[K]), *dv = vt_grad(g, in[V]);
    const vt_attn how = { .kv_len = in[KV_LEN], .scale = n->f[0] };

    count_flops(g, in[Q], in[K], 5);
    VT_RUN_HEAVY(g, attention_grad, dq, dk, dv, n->out->grad, in[Q], in[K], in[V], n->out, in[LSE],
                 &how);
}

static const char *wrong_shape(const vt_tensor *q, const vt_tensor *k, const vt_tensor *v)
{
    if (q->nd != 4 || k->nd != 4 || !vt_same_shape(k, v))
        return "q must be [B,Sq,H,D], k and v equal [B,Sk,K,D]";
    if (q->dim[0] != k->dim[0] || q->dim[3] != k->dim[3])
        return "batch or head sizes differ";
    if (k->dim[2] < 1 || q->dim[2] % k->dim[2])
        return "the query heads must be a multiple of the key heads";
    if (q->dim[3] % 8 || q->dim[3] > WIDEST)
        return "the head size must be a multiple of 8, at most 1024";
    if (q->dtype > VC_BF16 || k->dtype != q->dtype || v->dtype != q->dtype)
        return "q, k and v must have one type, f32 or bf16";
    return NULL;
}

static const char *wrong(const vt_tensor *q, const vt_tensor *k, const vt_tensor *v,
                         const vt_attn *how)
{
    const vt_tensor *len = how->kv_len, *bias = how->bias;
    const char *why = wrong_shape(q, k, v);

    if (why)
        return why;
    const vt_tensor scores = { .nd = 4, .dim = { q->dim[0], q->dim[2], q->dim[1], k->dim[1] } };
    if (len && (len->dtype != VC_I32 || len->nd != 1 || len->dim[0] != q->dim[0] ||
                !vt_packed(len) || (len->buf && len->buf->refs <= 0)))
        return "kv_len must be i32 [B], and not given back yet";
    if (bias && (bias->dtype != VC_F32 || !vt_broadcasts(bias, &scores) ||
                 vt_last(bias) != k->dim[1]))
        return "the bias must be f32, broadcast to [B,H,Sq,Sk] and have Sk columns";
    if (how->causal < 0)
        return "a causal run is negative";
    if (!q->needs_grad && !k->needs_grad && !v->needs_grad && !(bias && bias->needs_grad))
        return NULL;
    if (bias || how->causal)
        return "it has no gradient with a bias or a causal mask";
    if (q->dim[2] != k->dim[2] || q->dim[3] > WIDEST_GRAD)
        return "it has no gradient with fewer key heads than query heads, or heads above 256";
    return NULL;
}

/* Returns the result for packed inputs, and sets in[LSE]. In the second run of a block that keeps
 * them, they are those of the first run. */
static vt_tensor *compute(vt_ctx *g, vt_tensor **in, const vt_attn *how)
{
    const bool tracked = in[Q]->needs_grad || in[K]->needs_grad || in[V]->needs_grad;
    vt_tensor *r[2] = { NULL };                  /* the result, and its lse */

    if (!tracked || !vt_results_again(g, 2, r)) {
        r[0] = vt_new_like(g, in[Q]);
        r[1] = vt_new(g, VC_F32, 3, (int64_t[]){ in[Q]->dim[0], in[Q]->dim[2], in[Q]->dim[1] });
        if (!r[0] || !r[1])
            return NULL;
        count_flops(g, in[Q], in[K], 2);
        VT_RUN_HEAVY(g, attention, r[0], r[1], in[Q], in[K], in[V], how);
        if (tracked)
            vt_results_keep(g, 2, r);
    }
    in[LSE] = r[1];
    return r[0];
}

vt_tensor *vt_attention(vt_ctx *g, vt_tensor *q, vt_tensor *k, vt_tensor *v, const vt_attn *how)
{
    vt_attn h = how ? *how : (vt_attn){ 0 };
    vt_tensor *in[INPUTS] = { q, k, v, h.kv_len, NULL }, *said[] = { q, k, v, h.bias, h.kv_len };
    int n = h.kv_len ? 5 : h.bias ? 4 : 3;

    if (!vt_ok(g, "attention", 3, in) || (h.bias && !vt_ok(g, "attention", 1, &h.bias)))
        return NULL;
    const char *why = wrong(q, k, v, &h);
    if (why)
        return vt_bad(g, "attention", why, n, said);
    for (int i = Q; i <= V; i++)
        if (!(in[i] = vt_rows_packed(g, in[i])))
            return NULL;
    const vt_tensor scores = { .nd = 4, .dim = { q->dim[0], q->dim[2], q->dim[1], k->dim[1] } };
    vt_tensor bias;
    if (h.bias) {
        if (!(h.bias = vt_rows_packed(g, h.bias)))
            return NULL;
        bias = vt_expand(h.bias, &scores);
        h.bias = &bias;
    }
    if (h.scale == 0.0f)
        h.scale = 1.0f / sqrtf((float)q->dim[3]);
    vt_tensor *o = compute(g, in, &h);
    vt_node *node;
    o = vt_record(g, o, "attention", attention_grad, INPUTS, in, (1u << INPUTS) - 1, true, &node);
    if (node)
        node->f[0] = h.scale;
    return o;
}

static void rope_grad(vt_ctx *g, const vt_node *n)
{
    vt_tensor *dx = vt_grad(g, n->in[0]);
    if (dx)
        VT_RUN(g, rope, dx, n->out->grad, n->in[1], n->in[2], n->i[0], n->i[1] != 0,
               -1.0f);
}

static vt_tensor *rope(vt_ctx *g, const char *op, vt_tensor *x, vt_tensor *c, vt_tensor *s,
                       int64_t begin, bool halves)
{
    vt_tensor *in[] = { x, c, s };

    if (!vt_ok(g, op, 3, in))
        return NULL;
    if (x->nd != 4 || x->dim[3] % 2 || c->nd != 2 || c->dim[1] != x->dim[3] / 2 || begin < 0 ||
        begin > x->dim[1] - c->dim[0] || !vt_same_shape(c, s) || c->dtype != VC_F32 ||
        s->dtype != VC_F32 || !vt_packed(c) || !vt_packed(s))
        return vt_bad(g, op, "x must be [B,N,H,D], cos and sin f32 [N',D/2] within N", 3, in);
    if (c->needs_grad || s->needs_grad)
        return vt_bad(g, op, "the tables get no gradient", 3, in);
    in[0] = vt_rows_packed(g, x);
    vt_tensor *y = in[0] ? vt_new(g, vt_result(g, x), 4, x->dim) : NULL;
    if (!y)
        return NULL;
    VT_RUN(g, rope, y, in[0], c, s, begin, halves, 1.0f);
    vt_node *node;
    y = vt_record(g, y, op, rope_grad, 3, in, 6, false, &node);
    if (node) {
        node->i[0] = begin;
        node->i[1] = halves;
    }
    return y;
}

vt_tensor *vt_rope(vt_ctx *g, vt_tensor *x, vt_tensor *c, vt_tensor *s, int64_t begin)
{
    return rope(g, "rope", x, c, s, begin, false);
}

vt_tensor *vt_rope_halves(vt_ctx *g, vt_tensor *x, vt_tensor *c, vt_tensor *s, int64_t begin)
{
    return rope(g, "rope_halves", x, c, s, begin, true);
}
