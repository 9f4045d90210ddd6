/* op_exchange.c - tokens and heads exchanged between processes; see exchange.h */
#include "common/tensor/exchange.h"

#include <string.h>

#include "common/tensor/engine.h"
#include "common/tensor/ops.h"

enum { MOST_PEERS = 1024 };

/* ---- shares ---- */

void vt_set_peers(vt_ctx *g, const vt_peers *p)
{
    g->peers = p;
    g->shared = 0;
}

/* The first of process r's tokens. */
static int64_t first_of(const vt_ctx *g, int64_t tokens, int r)
{
    int64_t n = g->peers->n;
    return tokens / n * r + (r < tokens % n ? r : tokens % n);
}

static int64_t count_of(const vt_ctx *g, int64_t tokens, int r)
{
    return first_of(g, tokens, r + 1) - first_of(g, tokens, r);
}

static int own(const vt_ctx *g)
{
    return g->flags & VT_DRY ? 0 : g->peers->me;
}

void vt_share_tokens(vt_ctx *g, int64_t tokens)
{
    g->shared = g->peers && g->peers->n > 1 ? tokens : 0;
    if (!g->shared)
        return;
    if (g->shared < g->peers->n || g->peers->n > MOST_PEERS)
        vt_fail(g, VC_EINVAL, "a sequence of %lld tokens cannot be shared by %d processes: each "
                "needs a token, and there may be %d of them", (long long)tokens, g->peers->n,
                MOST_PEERS);
}

int64_t vt_shared_tokens(const vt_ctx *g)
{
    return g->shared;
}

int64_t vt_own_first(const vt_ctx *g)
{
    return g->shared ? first_of(g, g->shared, own(g)) : 0;
}

int64_t vt_own_before(const vt_ctx *g, int64_t end)
{
    if (!g->shared)
        return end;
    int64_t before = end - vt_own_first(g), n = count_of(g, g->shared, own(g));
    return before < 0 ? 0 : before > n ? n : before;
}

int64_t vt_own_heads(const vt_ctx *g, int64_t heads, int64_t *first)
{
    int64_t n = g->shared ? heads / g->peers->n : heads;
    *first = g->shared ? n * own(g) : 0;
    return n;
}

/* ---- exchanges ---- */

/* A tensor as rows of tokens, each of `width` bytes; its share is process r's. */
typedef struct rows {
    vt_ctx *g;
    int64_t tokens;
    size_t width;
} rows;

/* The pieces of a sequence of all tokens: process r's tokens, in their places. */
static void by_tokens(const rows *x, vc_piece *p)
{
    for (int r = 0; r < x->g->peers->n; r++)
        p[r] = (vc_piece){ (size_t)first_of(x->g, x->tokens, r) * x->width,
                           (size_t)count_of(x->g, x->tokens, r) * x->width };
}

/* The pieces of one block for each process, `apart` of them after one another. */
static void by_blocks(const rows *x, vc_piece *p, bool apart)
{
    size_t n = (size_t)count_of(x->g, x->tokens, own(x->g)) * x->width;
    for (int r = 0; r < x->g->peers->n; r++)
        p[r] = (vc_piece){ apart ? (size_t)r * n : 0, n };
}

/* Exchanges each row of the batch. */
static void exchange(vt_ctx *g, vt_tensor *to, const vc_piece *in, vt_tensor *from,
                     const vc_piece *out)
{
    if (!to || !from || g->flags & VT_DRY)
        return;
    const vt_peers *p = g->peers;
    size_t row_to = (size_t)(to->stride[0]) * vc_dtype_size(to->dtype);
    size_t row_from = (size_t)(from->stride[0]) * vc_dtype_size(from->dtype);
    double begin = g->profile ? vt_profile_now() : 0;
    for (int64_t b = 0; b < to->dim[0] && !g->err.code; b++) {
        vc_err err = { 0 };
        int rc = p->exchange(p->arg, (char *)to->data + (size_t)b * row_to, in,
                             (const char *)from->data + (size_t)b * row_from, out, &err);
        if (rc)
            vt_fail(g, rc, "%s", err.text);
    }
    if (g->profile)
        vt_profile_add(g, begin);
}

/* A descriptor of x [B,n,P*h,D] as [B,P,n,h,D]: a block of heads for each process. */
static vt_tensor blocks_of(const vt_tensor *x, int64_t p)
{
    vt_tensor y = *x;
    int64_t h = x->dim[2] / p;
    y.nd = 5;
    memcpy(y.dim, (int64_t[]){ x->dim[0], p, x->dim[1], h, x->dim[3] }, 5 * sizeof *y.dim);
    memcpy(y.stride, (int64_t[]){ x->stride[0], h * x->stride[2], x->stride[1], x->stride[2],
                                  x->stride[3] }, 5 * sizeof *y.stride);
    return y;
}

/* y [B,N,h,D], packed, gets this process's heads of all tokens from x [B,n,H,D] of each process. */
static void heads_from(vt_ctx *g, vt_tensor *y, const vt_tensor *x, int64_t tokens)
{
    vc_piece in[MOST_PEERS], out[MOST_PEERS];
    vt_tensor block = blocks_of(x, g->peers->n);
    const rows r = { g, tokens, (size_t)(block.dim[3] * block.dim[4]) * vc_dtype_size(x->dtype) };
    vt_scope s = vt_scope_begin(g);
    vt_tensor *sent = vt_new(g, x->dtype, 5, block.dim);
    if (sent)
        VT_RUN(g, copy, sent, &block);
    by_tokens(&r, in);
    by_blocks(&r, out, true);
    exchange(g, y, in, sent, out);
    vt_scope_end(g, s, 0, NULL);
}

/* y [B,n,H,D] (+)= all heads of this process's tokens, from x [B,N,h,D] of each process, packed. */
static void tokens_from(vt_ctx *g, vt_tensor *y, vt_tensor *x, int64_t tokens)
{
    vc_piece in[MOST_PEERS], out[MOST_PEERS];
    vt_tensor block = blocks_of(y, g->peers->n);
    const rows r = { g, tokens, (size_t)(block.dim[3] * block.dim[4]) * vc_dtype_size(x->dtype) };
    vt_scope s = vt_scope_begin(g);
    vt_tensor *got = vt_new(g, x->dtype, 5, block.dim);
    by_blocks(&r, in, true);
    by_tokens(&r, out);
    exchange(g, got, in, x, out);
    if (got)
        VT_RUN(g, scale, &block, got, 1.0f);
    vt_scope_end(g, s, 0, NULL);
}

/* ---- ops ---- */

static bool right(vt_ctx *g, const char *op, vt_tensor *x, int nd, int64_t tokens)
{
    if (x->nd >= nd && x->dim[1] == tokens)
        return true;
    vt_bad(g, op, "another number of tokens than this process's share", 1, &x);
    return false;
}

static int64_t share(const vt_ctx *g)
{
    return count_of(g, g->shared, own(g));
}

vt_tensor *vt_own_tokens(vt_ctx *g, vt_tensor *x)
{
    if (!g->shared || !vt_ok(g, "own_tokens", 1, &x))
        return g->shared ? NULL : x;
    if (!right(g, "own_tokens", x, 2, g->shared))
        return NULL;
    int64_t first = vt_own_first(g);
    vt_tensor *part = vt_slice(g, x, 1, first, first + share(g));
    return vt_concat(g, 1, 1, &part);
}

/* The gradient of vt_to_tokens: a tensor of its own is exchanged, since the gradient may hold
 * other terms. */
static void to_tokens_grad(vt_ctx *g, const vt_node *n)
{
    vt_tensor *dx = vt_grad(g, n->in[0]);
    if (!dx)
        return;
    vt_scope s = vt_scope_begin(g);
    vt_tensor *y = vt_new(g, n->out->dtype, 4, n->in[0]->dim);
    if (y)
        heads_from(g, y, n->out->grad, n->i[0]);
    if (y)
        VT_RUN(g, scale, dx, y, 1.0f);
    vt_scope_end(g, s, 0, NULL);
}

static void to_heads_grad(vt_ctx *g, const vt_node *n)
{
    vt_tensor *dx = vt_grad(g, n->in[0]);
    if (dx)
        tokens_from(g, dx, n->out->grad, n->i[0]);
}

static vt_tensor *record(vt_ctx *g, vt_tensor *y, const char *op, vt_grad_fn grad, vt_tensor *x)
{
    vt_node *node;
    y = vt_record(g, y, op, grad, 1, &x, 0, false, &node);
    if (node)
        node->i[0] = g->shared;
    return y;
}

vt_tensor *vt_to_heads(vt_ctx *g, vt_tensor *x)
{
    if (!g->shared || !vt_ok(g, "to_heads", 1, &x))
        return g->shared ? NULL : x;
    int64_t p = g->peers->n;
    if (!right(g, "to_heads", x, 4, share(g)))
        return NULL;
    if (x->dim[2] % p)
        return vt_fail(g, VC_EINVAL, "to_heads: %lld heads do not divide among %lld processes",
                       (long long)x->dim[2], (long long)p);
    vt_tensor *y = vt_new(g, x->dtype, 4, (int64_t[]){ x->dim[0], g->shared, x->dim[2] / p,
                                                       x->dim[3] });
    if (!y)
        return NULL;
    heads_from(g, y, x, g->shared);
    return record(g, y, "to_heads", to_heads_grad, x);
}

vt_tensor *vt_to_tokens(vt_ctx *g, vt_tensor *x)
{
    if (!g->shared || !vt_ok(g, "to_tokens", 1, &x))
        return g->shared ? NULL : x;
    if (!right(g, "to_tokens", x, 4, g->shared) || !(x = vt_pack(g, x)))
        return NULL;
    vt_tensor *y = vt_new(g, x->dtype, 4, (int64_t[]){ x->dim[0], share(g),
                                                       x->dim[2] * g->peers->n, x->dim[3] });
    if (!y)
        return NULL;
    tokens_from(g, y, x, g->shared);
    return record(g, y, "to_tokens", to_tokens_grad, x);
}

static void all_tokens_grad(vt_ctx *g, const vt_node *n)
{
    vt_tensor *dx = vt_grad(g, n->in[0]), dy = *n->out->grad;
    if (!dx)
        return;
    int64_t first = first_of(g, n->i[0], own(g));
    dy.dim[1] = dx->dim[1];
    if (dy.data)
        dy.data = (char *)dy.data + first * dy.stride[1] * (int64_t)vc_dtype_size(dy.dtype);
    VT_RUN(g, scale, dx, &dy, 1.0f);
}

vt_tensor *vt_all_tokens(vt_ctx *g, vt_tensor *x)
{
    vc_piece in[MOST_PEERS], out[MOST_PEERS];
    int64_t dim[VT_DIMS];
    if (!g->shared || !vt_ok(g, "all_tokens", 1, &x))
        return g->shared ? NULL : x;
    if (!right(g, "all_tokens", x, 2, share(g)) || !(x = vt_pack(g, x)))
        return NULL;
    memcpy(dim, x->dim, sizeof dim);
    dim[1] = g->shared;
    vt_tensor *y = vt_new(g, x->dtype, x->nd, dim);
    if (!y)
        return NULL;
    const rows r = { g, g->shared, (size_t)x->stride[1] * vc_dtype_size(x->dtype) };
    by_tokens(&r, in);
    by_blocks(&r, out, false);
    exchange(g, y, in, x, out);
    return record(g, y, "all_tokens", all_tokens_grad, x);
}
