/* attention.c - self-attention of a transformer, and its two halves; see attention.h */
#include "common/nn/attention.h"

vt_tensor *nn_project(vt_ctx *g, vt_tensor *x, const vt_lin *l, const nn_norm *norm,
                      const nn_heads *h)
{
    vt_tensor *y = vt_linear(g, x, l);
    if (!y) return NULL;
    const int64_t dim[4] = { y->dim[0], y->dim[1], h->n, y->dim[2] / h->n };
    y = vt_reshape(g, y, 4, dim);
    if (!norm) return y;
    y = norm->b ? vt_layer_norm(g, y, norm->w, norm->b, h->eps)
                : vt_rms_norm(g, y, norm->w, h->eps);
    return h->cos ? vt_rope(g, y, h->cos, h->sin, h->begin) : y;
}

vt_tensor *nn_attend(vt_ctx *g, vt_tensor *q, vt_tensor *k, vt_tensor *v, vt_tensor *kv_len,
                     const vt_lin *out)
{
    vt_tensor *o = vt_attention(g, q, k, v, &(vt_attn){ .kv_len = kv_len });
    if (!o) return NULL;
    const int64_t dim[3] = { o->dim[0], o->dim[1], o->dim[2] * o->dim[3] };
    return vt_linear(g, vt_reshape(g, o, 3, dim), out);
}

vt_tensor *nn_self_attention(vt_ctx *g, vt_tensor *x, const nn_attention *w, const nn_heads *h,
                             vt_tensor *kv_len)
{
    vt_tensor *q = nn_project(g, x, &w->q, &w->norm_q, h);
    vt_tensor *k = nn_project(g, x, &w->k, &w->norm_k, h);
    vt_tensor *v = nn_project(g, x, &w->v, NULL, h);
    return nn_attend(g, q, k, v, kv_len, &w->out);
}
