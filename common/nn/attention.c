/* attention.c - self-attention and joint attention of a transformer; see attention.h */
#include "common/nn/attention.h"

vt_tensor *nn_project(vt_ctx *g, vt_tensor *x, const vt_lin *l, const nn_norm *norm,
                      const nn_heads *h)
{
    vt_tensor *y = vt_linear(g, x, l);
    if (!y) return NULL;
    const int64_t dim[4] = { y->dim[0], y->dim[1], h->n, y->dim[2] / h->n };
    y = vt_reshape(g, y, 4, dim);
    if (!norm) return y;
    if (norm->w)
        y = norm->b ? vt_layer_norm(g, y, norm->w, norm->b, h->eps)
                    : vt_rms_norm(g, y, norm->w, h->eps);
    return h->cos ? vt_rope(g, y, h->cos, h->sin, h->begin) : y;
}

/* The result is [B,N,D]: all heads of a token lie in one row. */
static vt_tensor *attend(vt_ctx *g, vt_tensor *q, vt_tensor *k, vt_tensor *v, vt_tensor *kv_len)
{
    vt_tensor *o = vt_attention(g, q, k, v, &(vt_attn){ .kv_len = kv_len });
    if (!o) return NULL;
    const int64_t dim[3] = { o->dim[0], o->dim[1], o->dim[2] * o->dim[3] };
    return vt_reshape(g, o, 3, dim);
}

vt_tensor *nn_attend(vt_ctx *g, vt_tensor *q, vt_tensor *k, vt_tensor *v, vt_tensor *kv_len,
                     const vt_lin *out)
{
    return vt_linear(g, attend(g, q, k, v, kv_len), out);
}

vt_tensor *nn_self_attention(vt_ctx *g, vt_tensor *x, const nn_attention *w, const nn_heads *h,
                             vt_tensor *kv_len)
{
    vt_tensor *q = nn_project(g, x, &w->q, &w->norm_q, h);
    vt_tensor *k = nn_project(g, x, &w->k, &w->norm_k, h);
    vt_tensor *v = nn_project(g, x, &w->v, NULL, h);
    return nn_attend(g, q, k, v, kv_len, &w->out);
}

/* A stream that the block does not change needs no queries: no one would read their results. */
void nn_joint_attention(vt_ctx *g, const nn_stream s[2], vt_tensor *kv_len, vt_tensor *out[2])
{
    vt_tensor *q[2], *k[2], *v[2];
    int64_t first = 0;
    int asking = 0;
    for (int i = 0; i < 2; i++) {
        const nn_attention *w = s[i].w;
        if (w->out.w) q[asking++] = nn_project(g, s[i].x, &w->q, &w->norm_q, s[i].heads);
        k[i] = nn_project(g, s[i].x, &w->k, &w->norm_k, s[i].heads);
        v[i] = nn_project(g, s[i].x, &w->v, NULL, s[i].heads);
    }
    vt_tensor *o = attend(g, asking > 1 ? vt_concat(g, 1, 2, q) : q[0], vt_concat(g, 1, 2, k),
                          vt_concat(g, 1, 2, v), kv_len);
    for (int i = 0; i < 2; i++) {
        out[i] = NULL;
        if (!o || !s[i].w->out.w) continue;
        int64_t n = s[i].x->dim[1];
        out[i] = vt_linear(g, vt_slice(g, o, 1, first, first + n), &s[i].w->out);
        first += n;
    }
}
