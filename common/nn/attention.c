/* attention.c - self-attention, cross-attention and joint attention; see attention.h */
#include "common/nn/attention.h"

#include "common/tensor/exchange.h"

/* y, whose last axes are `width` elements of a token in any form, as [B,N,n,width/n]. */
static vt_tensor *in_parts(vt_ctx *g, vt_tensor *y, int64_t n, int64_t width)
{
    if (!y)
        return NULL;
    const int64_t dim[4] = { y->dim[0], y->dim[1], n, width / n };
    return vt_reshape(g, y, 4, dim);
}

vt_tensor *nn_rotate_halves(vt_ctx *g, vt_tensor *y, vt_tensor *cos, vt_tensor *sin)
{
    if (!y || !cos || !sin)
        return NULL;
    const int64_t *d = y->dim, all[4] = { d[0], d[1], d[2], d[3] };
    if (cos->dim[0] == all[1] && 2 * cos->dim[1] == all[3])
        return vt_rope_halves(g, y, cos, sin, 0);
    const int64_t n = all[1] * all[2], of = cos->dim[0] * all[2], table[2] = { of, all[3] / 2 };
    const bool own = of == all[0] * n;         /* a head of a token is a token to vt_rope_halves */
    const int64_t dim[4] = { own ? 1 : all[0], own ? of : n, 1, all[3] };
    y = vt_rope_halves(g, vt_reshape(g, y, 4, dim), vt_reshape(g, cos, 2, table),
                       vt_reshape(g, sin, 2, table), 0);
    return vt_reshape(g, y, 4, all);
}

/* Rotated by h's tables: each head alike, or all of a token at once; all rows alike, or each by
 * its own part of the tables. */
static vt_tensor *rotated(vt_ctx *g, vt_tensor *y, const nn_heads *h, int64_t width)
{
    if (!y)
        return NULL;
    const int64_t rows = y->dim[0], tokens = y->dim[1];
    y = in_parts(g, y, 2 * h->cos->dim[1] == width ? 1 : h->n, width);
    if (!y || h->cos->dim[0] != rows * tokens)
        return vt_rope(g, y, h->cos, h->sin, h->begin);
    const int64_t one[4] = { 1, rows * tokens, y->dim[2], y->dim[3] };
    const int64_t all[4] = { rows, tokens, y->dim[2], y->dim[3] };
    return vt_reshape(g, vt_rope(g, vt_reshape(g, y, 4, one), h->cos, h->sin, 0), 4, all);
}

vt_tensor *nn_in_heads(vt_ctx *g, vt_tensor *y, const nn_norm *norm, const nn_heads *h)
{
    if (!y)
        return NULL;
    const int64_t width = y->dim[2];
    if (norm && norm->w && norm->w->dim[0] != width)
        y = in_parts(g, y, h->n, width);
    if (norm && norm->w)
        y = norm->b ? vt_layer_norm(g, y, norm->w, norm->b, h->eps)
                    : vt_rms_norm(g, y, norm->w, h->eps);
    if (norm && h->cos)
        y = rotated(g, y, h, width);
    return in_parts(g, y, h->n, width);
}

vt_tensor *nn_project(vt_ctx *g, vt_tensor *x, const vt_lin *l, const nn_norm *norm,
                      const nn_heads *h)
{
    return nn_in_heads(g, vt_linear(g, x, l), norm, h);
}

vt_tensor *nn_all_heads(vt_ctx *g, vt_tensor *o)
{
    if (!o)
        return NULL;
    const int64_t dim[3] = { o->dim[0], o->dim[1], o->dim[2] * o->dim[3] };
    return vt_reshape(g, o, 3, dim);
}

static vt_tensor *attend(vt_ctx *g, vt_tensor *q, vt_tensor *k, vt_tensor *v, vt_tensor *kv_len)
{
    return nn_all_heads(g, vt_attention(g, q, k, v, &(vt_attn){ .kv_len = kv_len }));
}

vt_tensor *nn_attend(vt_ctx *g, vt_tensor *q, vt_tensor *k, vt_tensor *v, vt_tensor *kv_len,
                     const vt_lin *out)
{
    vt_tensor *o = attend(g, q, k, v, kv_len);
    return out ? vt_linear(g, o, out) : o;
}

vt_tensor *nn_attend_shared(vt_ctx *g, vt_tensor *q, vt_tensor *k, vt_tensor *v,
                            vt_tensor *kv_len)
{
    q = vt_to_heads(g, q);
    k = vt_to_heads(g, k);
    v = vt_to_heads(g, v);
    vt_tensor *o = vt_attention(g, q, k, v, &(vt_attn){ .kv_len = kv_len });
    return nn_all_heads(g, vt_to_tokens(g, o));
}

/* This process's rows of a table [B*N,W] of a shared sequence of N tokens. */
static vt_tensor *own_of_all(vt_ctx *g, vt_tensor *table, int64_t tokens)
{
    const int64_t width = table->dim[1], all[3] = { table->dim[0] / tokens, tokens, width };
    vt_tensor *own = vt_own_tokens(g, vt_reshape(g, table, 3, all));
    return own ? vt_reshape(g, own, 2, (int64_t[]){ own->dim[0] * own->dim[1], width }) : NULL;
}

/* The tables may have rows of their own for each row of the batch, and may cover the sequence's
 * first part or both. */
nn_heads nn_own_heads(vt_ctx *g, const nn_heads *h)
{
    nn_heads own = *h;
    const int64_t all = vt_shared_tokens(g);
    int64_t first_part, second_part;
    if (!all || !h->cos || !h->sin)
        return own;
    vt_shared_parts(g, &first_part, &second_part);
    if (h->cos->dim[0] > all || (second_part && h->cos->dim[0] > first_part)) {
        own.cos = own_of_all(g, h->cos, all);
        own.sin = own_of_all(g, h->sin, all);
        return own;
    }
    own.begin = vt_own_before(g, h->begin);
    int64_t n = vt_own_before(g, h->begin + h->cos->dim[0]) - own.begin;
    int64_t first = vt_own_first(g) + own.begin - h->begin;
    own.cos = n ? vt_slice(g, h->cos, 0, first, first + n) : NULL;
    own.sin = n ? vt_slice(g, h->sin, 0, first, first + n) : NULL;
    return own;
}

vt_tensor *nn_heads_attention(vt_ctx *g, vt_tensor *x, const nn_attention *w, const nn_heads *h,
                              vt_tensor *kv_len)
{
    const nn_heads own = nn_own_heads(g, h);
    vt_tensor *q = nn_project(g, x, &w->q, &w->norm_q, &own);
    vt_tensor *k = nn_project(g, x, &w->k, &w->norm_k, &own);
    return nn_attend_shared(g, q, k, nn_project(g, x, &w->v, NULL, &own), kv_len);
}

vt_tensor *nn_gated_out(vt_ctx *g, vt_tensor *o, vt_tensor *x, const nn_attention *w,
                        int64_t heads)
{
    if (!o || !w->gate.w)
        return vt_linear(g, o, &w->out);
    const int64_t *d = o->dim, one[4] = { d[0], d[1], heads, 1 };
    vt_tensor *gate = vt_scale(g, vt_sigmoid(g, vt_linear(g, x, &w->gate)), 2);
    vt_tensor *y = vt_mul(g, in_parts(g, o, heads, d[2]), vt_reshape(g, gate, 4, one));
    return vt_linear(g, nn_all_heads(g, y), &w->out);
}

vt_tensor *nn_self_attention(vt_ctx *g, vt_tensor *x, const nn_attention *w, const nn_heads *h,
                             vt_tensor *kv_len)
{
    return nn_gated_out(g, nn_heads_attention(g, x, w, h, kv_len), x, w, h->n);
}

vt_tensor *nn_halves_attention(vt_ctx *g, vt_tensor *x, const nn_attention *w, const nn_heads *h,
                               vt_tensor *kv_len)
{
    const nn_heads plain = { h->n, h->eps, NULL, NULL, 0 }, own = nn_own_heads(g, h);
    vt_tensor *q = nn_project(g, x, &w->q, &w->norm_q, &plain);
    vt_tensor *k = nn_project(g, x, &w->k, &w->norm_k, &plain);
    vt_tensor *v = vt_to_heads(g, nn_project(g, x, &w->v, NULL, &plain));
    q = vt_to_heads(g, nn_rotate_halves(g, q, own.cos, own.sin));
    k = vt_to_heads(g, nn_rotate_halves(g, k, own.cos, own.sin));
    vt_tensor *o = vt_to_tokens(g, vt_attention(g, q, k, v, &(vt_attn){ .kv_len = kv_len }));
    return nn_gated_out(g, nn_all_heads(g, o), x, w, h->n);
}

vt_tensor *nn_cross_attention(vt_ctx *g, vt_tensor *x, vt_tensor *text, const nn_attention *w,
                              const nn_heads *h, vt_tensor *kv_len)
{
    vt_tensor *q = nn_project(g, x, &w->q, &w->norm_q, h);
    vt_tensor *k = nn_project(g, text, &w->k, &w->norm_k, h);
    vt_tensor *v = nn_project(g, text, &w->v, NULL, h);
    return nn_gated_out(g, attend(g, q, k, v, kv_len), x, w, h->n);
}

/* The rows of h's tables for this process's tokens of part k of a shared sequence. */
static nn_heads own_part(vt_ctx *g, const nn_heads *h, int k)
{
    nn_heads own = *h;
    if (!vt_shared_tokens(g) || !h->cos || !h->sin)
        return own;
    const int64_t tokens = h->cos->dim[0], n = vt_own_count(g, k, tokens);
    const int64_t first = vt_part_first(g, k);
    own.cos = vt_slice(g, h->cos, 0, first, first + n);
    own.sin = vt_slice(g, h->sin, 0, first, first + n);
    return own;
}

/* Of a shared sequence of two parts, the results of the first part's queries alone. */
static vt_tensor *attend_first(vt_ctx *g, vt_tensor *q, vt_tensor *k, vt_tensor *v,
                               vt_tensor *kv_len)
{
    int64_t first, second;
    if (!vt_shared_tokens(g))
        return nn_attend_shared(g, q, k, v, kv_len);
    vt_shared_parts(g, &first, &second);
    k = vt_to_heads(g, k);
    v = vt_to_heads(g, v);
    vt_share_tokens(g, first);
    q = vt_attention(g, vt_to_heads(g, q), k, v, &(vt_attn){ .kv_len = kv_len });
    q = nn_all_heads(g, vt_to_tokens(g, q));
    vt_share_parts(g, first, second);
    return q;
}

/* A stream that the block does not change needs no queries: no one would read their results. */
void nn_joint_attention(vt_ctx *g, const nn_stream s[2], vt_tensor *kv_len, vt_tensor *out[2])
{
    vt_tensor *q[2], *k[2], *v[2];
    int64_t first = 0;
    int asking = 0;
    for (int i = 0; i < 2; i++) {
        const nn_attention *w = s[i].w;
        const nn_heads own = own_part(g, s[i].heads, i);
        if (w->out.w)
            q[asking++] = nn_project(g, s[i].x, &w->q, &w->norm_q, &own);
        k[i] = nn_project(g, s[i].x, &w->k, &w->norm_k, &own);
        v[i] = nn_project(g, s[i].x, &w->v, NULL, &own);
    }
    vt_tensor *keys = vt_concat(g, 1, 2, k), *values = vt_concat(g, 1, 2, v);
    vt_tensor *o = asking > 1 ? nn_attend_shared(g, vt_concat(g, 1, 2, q), keys, values, kv_len)
                              : attend_first(g, q[0], keys, values, kv_len);
    for (int i = 0; i < 2; i++) {
        out[i] = NULL;
        if (!o || !s[i].w->out.w)
            continue;
        int64_t n = s[i].x->dim[1];
        out[i] = vt_linear(g, vt_slice(g, o, 1, first, first + n), &s[i].w->out);
        first += n;
    }
}
