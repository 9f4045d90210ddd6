/* op_exchange.c - tokens and heads exchanged between processes; see exchange.h */
#include "common/tensor/exchange.h"

#include <string.h>

#include "common/tensor/engine.h"
#include "common/tensor/ops.h"

enum { MOST_PEERS = 1024 };

/* ---- shares ---- */

/* The sizes of a sequence's parts. */
typedef struct parts { int64_t n[2]; } parts;

void vt_set_peers(vt_ctx *g, const vt_peers *p)
{
    g->peers = p;
    g->shared = g->shared_first = 0;
}

static parts shared_parts(const vt_ctx *g)
{
    return (parts){ { g->shared_first, g->shared - g->shared_first } };
}

static int64_t total(parts p)
{
    return p.n[0] + p.n[1];
}

/* The first of process r's tokens of a part. */
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

/* This process's number of tokens. */
static int64_t share_of(const vt_ctx *g, parts p)
{
    return count_of(g, p.n[0], own(g)) + count_of(g, p.n[1], own(g));
}

void vt_share_parts(vt_ctx *g, int64_t first, int64_t second)
{
    const bool peers = g->peers && g->peers->n > 1;
    const int64_t least = second && second < first ? second : first;

    g->shared = peers ? first + second : 0;
    g->shared_first = peers ? first : 0;
    if (!g->shared)
        return;
    if (least < g->peers->n || g->peers->n > MOST_PEERS)
        vt_fail(g, VC_EINVAL, "a sequence of %lld tokens cannot be shared by %d processes: each "
                "needs a token, and there may be %d of them", (long long)least, g->peers->n,
                MOST_PEERS);
}

void vt_share_tokens(vt_ctx *g, int64_t tokens)
{
    vt_share_parts(g, tokens, 0);
}

void vt_shared_parts(const vt_ctx *g, int64_t *first, int64_t *second)
{
    const parts p = shared_parts(g);
    *first = p.n[0];
    *second = p.n[1];
}

int64_t vt_shared_tokens(const vt_ctx *g)
{
    return g->shared;
}

int64_t vt_own_count(const vt_ctx *g, int k, int64_t all)
{
    return g->shared ? count_of(g, shared_parts(g).n[k], own(g)) : all;
}

int64_t vt_part_first(const vt_ctx *g, int k)
{
    return g->shared ? first_of(g, shared_parts(g).n[k], own(g)) : 0;
}

int64_t vt_own_first(const vt_ctx *g)
{
    return vt_part_first(g, 0);
}

int64_t vt_own_before(const vt_ctx *g, int64_t end)
{
    int64_t sum = 0, before = end;

    for (int k = 0; k < 2 && g->shared; k++) {
        const int64_t tokens = shared_parts(g).n[k], n = count_of(g, tokens, own(g));
        const int64_t in = before - first_of(g, tokens, own(g));
        sum += in < 0 ? 0 : in > n ? n : in;
        before -= tokens;
    }
    return g->shared ? sum : end;
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
    parts n;
    size_t width;
} rows;

/* The pieces of part k in a sequence of all tokens: process r's tokens, in their places. */
static void by_tokens(const rows *x, int k, vc_piece *p)
{
    const int64_t before = k ? x->n.n[0] : 0;
    for (int r = 0; r < x->g->peers->n; r++)
        p[r] = (vc_piece){ (size_t)(before + first_of(x->g, x->n.n[k], r)) * x->width,
                           (size_t)count_of(x->g, x->n.n[k], r) * x->width };
}

/* The pieces of part k in a block for each process, `apart` of them after one another. */
static void by_blocks(const rows *x, int k, vc_piece *p, bool apart)
{
    const int me = own(x->g);
    const size_t n = (size_t)share_of(x->g, x->n) * x->width;
    const size_t before = k ? (size_t)count_of(x->g, x->n.n[0], me) * x->width : 0;
    for (int r = 0; r < x->g->peers->n; r++)
        p[r] = (vc_piece){ (apart ? (size_t)r * n : 0) + before,
                           (size_t)count_of(x->g, x->n.n[k], me) * x->width };
}

/* Exchanges each row of the batch, part by part: all tokens get into blocks, or blocks into all
 * tokens. */
static void exchange(const rows *x, vt_tensor *to, vt_tensor *from, bool into_blocks, bool apart)
{
    vc_piece in[2][MOST_PEERS], out[2][MOST_PEERS];
    vt_ctx *g = x->g;
    if (!to || !from || g->flags & VT_DRY)
        return;
    for (int k = 0; k < 2 && x->n.n[k]; k++) {
        by_tokens(x, k, into_blocks ? out[k] : in[k]);
        by_blocks(x, k, into_blocks ? in[k] : out[k], apart);
    }
    const vt_peers *p = g->peers;
    size_t row_to = (size_t)(to->stride[0]) * vc_dtype_size(to->dtype);
    size_t row_from = (size_t)(from->stride[0]) * vc_dtype_size(from->dtype);
    double begin = g->profile ? vt_profile_now() : 0;
    for (int64_t b = 0; b < to->dim[0]; b++)
        for (int k = 0; k < 2 && x->n.n[k] && !g->err.code; k++) {
            vc_err err = { 0 };
            int rc = p->exchange(p->arg, (char *)to->data + (size_t)b * row_to, in[k],
                                 (const char *)from->data + (size_t)b * row_from, out[k], &err);
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
static void heads_from(vt_ctx *g, vt_tensor *y, const vt_tensor *x, parts n)
{
    vt_tensor block = blocks_of(x, g->peers->n);
    const rows r = { g, n, (size_t)(block.dim[3] * block.dim[4]) * vc_dtype_size(x->dtype) };
    vt_scope s = vt_scope_begin(g);
    vt_tensor *sent = vt_new(g, x->dtype, 5, block.dim);
    if (sent)
        VT_RUN(g, copy, sent, &block);
    exchange(&r, y, sent, false, true);
    vt_scope_end(g, s, 0, NULL);
}

/* y [B,n,H,D] (+)= all heads of this process's tokens, from x [B,N,h,D] of each process, packed. */
static void tokens_from(vt_ctx *g, vt_tensor *y, vt_tensor *x, parts n)
{
    vt_tensor block = blocks_of(y, g->peers->n);
    const rows r = { g, n, (size_t)(block.dim[3] * block.dim[4]) * vc_dtype_size(x->dtype) };
    vt_scope s = vt_scope_begin(g);
    vt_tensor *got = vt_new(g, x->dtype, 5, block.dim);
    exchange(&r, got, x, true, true);
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

/* Part k alone. */
static parts only(const vt_ctx *g, int k)
{
    return (parts){ { shared_parts(g).n[k], 0 } };
}

static vt_tensor *own_tokens(vt_ctx *g, vt_tensor *x, parts p)
{
    vt_tensor *part[2];
    int n = 0;
    int64_t before = 0;
    if (!vt_ok(g, "own_tokens", 1, &x) || !right(g, "own_tokens", x, 2, total(p)))
        return NULL;
    for (int k = 0; k < 2 && p.n[k]; k++) {
        const int64_t first = before + first_of(g, p.n[k], own(g));
        part[n++] = vt_slice(g, x, 1, first, first + count_of(g, p.n[k], own(g)));
        before += p.n[k];
    }
    return vt_concat(g, 1, n, part);
}

vt_tensor *vt_own_tokens(vt_ctx *g, vt_tensor *x)
{
    return g->shared ? own_tokens(g, x, shared_parts(g)) : x;
}

vt_tensor *vt_own_part(vt_ctx *g, vt_tensor *x, int k)
{
    return g->shared ? own_tokens(g, x, only(g, k)) : x;
}

/* The parts that a node's op was given. */
static parts parts_of(const vt_node *n)
{
    return (parts){ { n->i[0], n->i[1] } };
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
        heads_from(g, y, n->out->grad, parts_of(n));
    if (y)
        VT_RUN(g, scale, dx, y, 1.0f);
    vt_scope_end(g, s, 0, NULL);
}

static void to_heads_grad(vt_ctx *g, const vt_node *n)
{
    vt_tensor *dx = vt_grad(g, n->in[0]);
    if (dx)
        tokens_from(g, dx, n->out->grad, parts_of(n));
}

static vt_tensor *record(vt_ctx *g, vt_tensor *y, const char *op, vt_grad_fn grad, vt_tensor *x,
                         parts p)
{
    vt_node *node;
    y = vt_record(g, y, op, grad, 1, &x, 0, false, &node);
    for (int k = 0; k < 2 && node; k++)
        node->i[k] = p.n[k];
    return y;
}

vt_tensor *vt_to_heads(vt_ctx *g, vt_tensor *x)
{
    const parts of = shared_parts(g);
    if (!g->shared || !vt_ok(g, "to_heads", 1, &x))
        return g->shared ? NULL : x;
    int64_t p = g->peers->n;
    if (!right(g, "to_heads", x, 4, share_of(g, of)))
        return NULL;
    if (x->dim[2] % p)
        return vt_fail(g, VC_EINVAL, "to_heads: %lld heads do not divide among %lld processes",
                       (long long)x->dim[2], (long long)p);
    vt_tensor *y = vt_new(g, x->dtype, 4, (int64_t[]){ x->dim[0], g->shared, x->dim[2] / p,
                                                       x->dim[3] });
    if (!y)
        return NULL;
    heads_from(g, y, x, of);
    return record(g, y, "to_heads", to_heads_grad, x, of);
}

vt_tensor *vt_to_tokens(vt_ctx *g, vt_tensor *x)
{
    const parts of = shared_parts(g);
    if (!g->shared || !vt_ok(g, "to_tokens", 1, &x))
        return g->shared ? NULL : x;
    if (!right(g, "to_tokens", x, 4, g->shared) || !(x = vt_pack(g, x)))
        return NULL;
    vt_tensor *y = vt_new(g, x->dtype, 4, (int64_t[]){ x->dim[0], share_of(g, of),
                                                       x->dim[2] * g->peers->n, x->dim[3] });
    if (!y)
        return NULL;
    tokens_from(g, y, x, of);
    return record(g, y, "to_tokens", to_tokens_grad, x, of);
}

/* dx [B,n,..] (+)= this process's tokens of dy [B,N,..]. */
static void all_tokens_grad(vt_ctx *g, const vt_node *n)
{
    vt_tensor *dx = vt_grad(g, n->in[0]);
    const parts p = parts_of(n);
    int64_t from = 0, to = 0;
    for (int k = 0; k < 2 && p.n[k] && dx; k++) {
        vt_tensor dy = *n->out->grad, part = *dx;
        const int64_t at = from + first_of(g, p.n[k], own(g));
        dy.dim[1] = part.dim[1] = count_of(g, p.n[k], own(g));
        if (dy.data)
            dy.data = (char *)dy.data + at * dy.stride[1] * (int64_t)vc_dtype_size(dy.dtype);
        if (part.data)
            part.data = (char *)part.data + to * part.stride[1] *
                        (int64_t)vc_dtype_size(part.dtype);
        VT_RUN(g, scale, &part, &dy, 1.0f);
        from += p.n[k];
        to += part.dim[1];
    }
}

static vt_tensor *all_tokens(vt_ctx *g, vt_tensor *x, parts p)
{
    int64_t dim[VT_DIMS];
    if (!vt_ok(g, "all_tokens", 1, &x) || !right(g, "all_tokens", x, 2, share_of(g, p)) ||
        !(x = vt_pack(g, x)))
        return NULL;
    memcpy(dim, x->dim, sizeof dim);
    dim[1] = total(p);
    vt_tensor *y = vt_new(g, x->dtype, x->nd, dim);
    if (!y)
        return NULL;
    const rows r = { g, p, (size_t)x->stride[1] * vc_dtype_size(x->dtype) };
    exchange(&r, y, x, false, false);
    return record(g, y, "all_tokens", all_tokens_grad, x, p);
}

vt_tensor *vt_all_tokens(vt_ctx *g, vt_tensor *x)
{
    return g->shared ? all_tokens(g, x, shared_parts(g)) : x;
}

vt_tensor *vt_all_part(vt_ctx *g, vt_tensor *x, int k)
{
    return g->shared ? all_tokens(g, x, only(g, k)) : x;
}
