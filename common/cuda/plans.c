/* plans.c - the graphs of attention and convolution; see plans.h. cuDNN matches the order of
 * operations, so it must not change. */
#include "common/cuda/plans.h"

#define F32 CUDNN_DATA_FLOAT
#define BF16 CUDNN_DATA_BFLOAT16

/* The workspace of a convolution beyond which engines that need less are preferred. */
static const int64_t WORKSPACE = 256 << 20;

/* ---- attention ---- */

/* Returns [b,h,s,d] of a tensor stored as [B,S,H,D]. */
static cuda_dims heads(const cuda_attention_key *a, int64_t s, const cuda_rows_at *at)
{
    return (cuda_dims){ 4, { a->b, a->h, s, a->d }, { at->b, at->h, at->s, 1 } };
}

static cuda_dims packed(int64_t b, int64_t h, int64_t s, int64_t d)
{
    return (cuda_dims){ 4, { b, h, s, d }, { h * s * d, s * d, d, 1 } };
}

static cuda_dims transposed(cuda_dims s)
{
    return (cuda_dims){ 4, { s.dim[0], s.dim[1], s.dim[3], s.dim[2] },
                        { s.stride[0], s.stride[1], s.stride[3], s.stride[2] } };
}

/* Nodes and shapes that forward and backward share. */
typedef struct attention {
    cuda_graph *g;
    const cuda_attention_key *a;
    cuda_dims scores, rows;                    /* [b,h,sq,sk], [b,h,sq,1] */
    cuda_node q, k, len_q, len_k, scale;       /* k is transposed */
} attention;

static cuda_node point(attention *t, cudnnPointwiseMode_t mode, cuda_node x, cuda_node b)
{
    cuda_node y = cuda_graph_between(t->g, F32, &t->scores);

    cuda_graph_point(t->g, mode, F32, -1, x, b, NULL, y);
    return y;
}

static void begin(attention *t, cuda_graph *g, const cuda_attention_key *a)
{
    const cuda_dims lengths = { 4, { a->b, 1, 1, 1 }, { 1, 1, 1, 1 } };
    cuda_dims q = heads(a, a->sq, &a->q), k = transposed(heads(a, a->sk, &a->k));

    *t = (attention){ .g = g, .a = a, .scores = packed(a->b, a->h, a->sq, a->sk) };
    t->rows = (cuda_dims){ 4, { a->b, a->h, a->sq, 1 }, { a->lse_b, a->lse_h, 1, 1 } };
    t->q = cuda_graph_tensor(g, CUDA_Q, BF16, &q);
    t->k = cuda_graph_tensor(g, CUDA_K, BF16, &k);
    t->scale = cuda_graph_number(g, CUDA_SCALE);
    if (a->lengths) {
        t->len_q = cuda_graph_tensor(g, CUDA_LEN_Q, CUDNN_DATA_INT32, &lengths);
        t->len_k = cuda_graph_tensor(g, CUDA_LEN_K, CUDNN_DATA_INT32, &lengths);
    }
}

/* scale q k' [+ bias] */
static cuda_node scaled_scores(attention *t)
{
    const cuda_attention_key *a = t->a;
    cuda_node s = cuda_graph_between(t->g, F32, &t->scores);

    cuda_graph_matmul(t->g, t->q, t->k, s, t->len_q, t->len_k, NULL);
    s = point(t, CUDNN_POINTWISE_MUL, s, t->scale);
    if (!a->bias)
        return s;
    const cuda_dims bias = { 4, { a->bias_b ? a->b : 1, a->bias_h ? a->h : 1, a->sq, a->sk },
                             { a->bias_b ? a->bias_b : a->sq * a->bias_q,
                               a->bias_h ? a->bias_h : a->sq * a->bias_q, a->bias_q, 1 } };
    return point(t, CUDNN_POINTWISE_ADD, s, cuda_graph_tensor(t->g, CUDA_BIAS_IN, F32, &bias));
}

/* s where row < len_q and column < len_k, else the lowest number */
static cuda_node padded(attention *t, cuda_node s)
{
    cuda_graph *g = t->g;
    cuda_node inside[2], len[2] = { t->len_q, t->len_k };

    if (!t->a->lengths)
        return s;
    cuda_node lowest = cuda_graph_number(g, CUDA_LOWEST);
    cuda_node index[2];
    for (int i = 0; i < 2; i++) {
        index[i] = cuda_graph_between(g, CUDNN_DATA_INT32, &t->scores);
        cuda_graph_point(g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, 2 + i, s, NULL, NULL,
                         index[i]);
    }
    for (int i = 0; i < 2; i++) {
        inside[i] = cuda_graph_between(g, CUDNN_DATA_BOOLEAN, &t->scores);
        cuda_graph_point(g, CUDNN_POINTWISE_CMP_LT, CUDNN_DATA_BOOLEAN, -1, index[i], len[i], NULL,
                         inside[i]);
    }
    cuda_node both = cuda_graph_between(g, CUDNN_DATA_BOOLEAN, &t->scores);
    cuda_node y = cuda_graph_between(g, F32, &t->scores);
    cuda_graph_point(g, CUDNN_POINTWISE_LOGICAL_AND, CUDNN_DATA_BOOLEAN, -1, inside[0], inside[1],
                     NULL, both);
    cuda_graph_point(g, CUDNN_POINTWISE_BINARY_SELECT, F32, -1, s, lowest, both, y);
    return y;
}

/* o = softmax(s) v, lse = max + log(sum) */
static void forward(attention *t)
{
    cuda_graph *g = t->g;
    const cuda_attention_key *a = t->a;
    cuda_dims v = heads(a, a->sk, &a->v), o = heads(a, a->sq, &a->o);
    cuda_node s = padded(t, scaled_scores(t));
    cuda_node most = cuda_graph_between(g, F32, &t->rows);
    cuda_node sum = cuda_graph_between(g, F32, &t->rows);
    cuda_node log_sum = cuda_graph_between(g, F32, &t->rows);
    cuda_node p = cuda_graph_between(g, BF16, &t->scores);

    cuda_graph_reduce(g, CUDNN_REDUCE_TENSOR_MAX, s, most);
    cuda_node e = point(t, CUDNN_POINTWISE_EXP, point(t, CUDNN_POINTWISE_SUB, s, most), NULL);
    cuda_graph_reduce(g, CUDNN_REDUCE_TENSOR_ADD, e, sum);
    cuda_graph_point(g, CUDNN_POINTWISE_LOG, F32, -1, sum, NULL, NULL, log_sum);
    cuda_graph_point(g, CUDNN_POINTWISE_ADD, F32, -1, most, log_sum, NULL,
                     cuda_graph_tensor(g, CUDA_LSE, F32, &t->rows));
    cuda_graph_point(g, CUDNN_POINTWISE_DIV, F32, -1, e, sum, NULL, p);
    cuda_graph_matmul(g, p, cuda_graph_tensor(g, CUDA_V, BF16, &v),
                      cuda_graph_tensor(g, CUDA_O, BF16, &o), t->len_q, NULL, t->len_k);
}

/* Returns x [b,h,sq,sk] with its last two axes transposed, bf16. */
static cuda_node across(attention *t, cuda_node x)
{
    const cuda_attention_key *a = t->a;
    cuda_dims s = transposed(packed(a->b, a->h, a->sq, a->sk));

    s.stride[2] = 1;
    s.stride[3] = a->sk;
    cuda_node y = cuda_graph_between(t->g, BF16, &s);
    cuda_graph_reshape(t->g, x, y);
    return y;
}

/* Returns the row sums of dout o, f32 [b,h,sq,1]. */
static cuda_node row_sums(attention *t, cuda_node dout)
{
    cuda_graph *g = t->g;
    cuda_dims at = heads(t->a, t->a->sq, &t->a->o), rows = packed(t->a->b, t->a->h, t->a->sq, 1);
    cuda_node o = cuda_graph_tensor(g, CUDA_O, BF16, &at), d = cuda_graph_between(g, F32, &at);
    cuda_node sum = cuda_graph_between(g, F32, &rows);
    cuda_node y = cuda_graph_tensor(g, CUDA_ROW_SUMS, F32, &rows);

    cuda_graph_point(g, CUDNN_POINTWISE_MUL, F32, -1, dout, o, NULL, d);
    cuda_graph_reduce(g, CUDNN_REDUCE_TENSOR_ADD, d, sum);
    cuda_graph_point(g, CUDNN_POINTWISE_MUL, F32, -1, sum, cuda_graph_number(g, CUDA_ONE), NULL, y);
    return y;
}

/* dq = dS k: directly, or through an f32 sum that several parts of the kernel add to */
static void grad_of_q(attention *t, cuda_node ds)
{
    cuda_graph *g = t->g;
    const cuda_attention_key *a = t->a;
    cuda_dims k = heads(a, a->sk, &a->k), dq = heads(a, a->sq, &a->dq);
    cuda_dims sum = packed(a->b, a->h, a->sq, a->d);
    cuda_node plain = cuda_graph_between(g, BF16, &k);
    cuda_node to = cuda_graph_tensor(g, CUDA_GRAD_Q, BF16, &dq);

    cuda_graph_reshape(g, t->k, plain);
    if (a->repeatable) {
        cuda_graph_matmul(g, ds, plain, to, t->len_q, NULL, t->len_k);
        return;
    }
    cuda_node all = cuda_graph_tensor(g, CUDA_SUM_Q, F32, &sum);
    cuda_graph_matmul(g, ds, plain, all, t->len_q, NULL, t->len_k);
    cuda_graph_point(g, CUDNN_POINTWISE_IDENTITY, F32, -1, all, NULL, NULL, to);
}

/* p = exp(s - lse); dv = p' dout; dS = scale p (dout v' - row sums); dk = dS' q */
static void backward(attention *t)
{
    cuda_graph *g = t->g;
    const cuda_attention_key *a = t->a;
    cuda_dims v = transposed(heads(a, a->sk, &a->v)), dout_at = heads(a, a->sq, &a->dout);
    cuda_dims dk = heads(a, a->sk, &a->dk), dv = heads(a, a->sk, &a->dv);
    cuda_node dout = cuda_graph_tensor(g, CUDA_DOUT, BF16, &dout_at);
    cuda_node sums = row_sums(t, dout);
    cuda_node lse = cuda_graph_tensor(g, CUDA_LSE, F32, &t->rows);

    cuda_node s = padded(t, point(t, CUDNN_POINTWISE_SUB, scaled_scores(t), lse));
    cuda_node p = point(t, CUDNN_POINTWISE_EXP, s, NULL);
    cuda_graph_matmul(g, across(t, p), dout, cuda_graph_tensor(g, CUDA_GRAD_V, BF16, &dv),
                      t->len_k, NULL, t->len_q);
    cuda_node dp = cuda_graph_between(g, F32, &t->scores);
    cuda_graph_matmul(g, dout, cuda_graph_tensor(g, CUDA_V, BF16, &v), dp, t->len_q, t->len_k,
                      NULL);
    dp = point(t, CUDNN_POINTWISE_MUL, point(t, CUDNN_POINTWISE_SUB, dp, sums), p);
    cuda_node ds = cuda_graph_between(g, a->repeatable ? BF16 : F32, &t->scores);
    cuda_graph_point(g, CUDNN_POINTWISE_MUL, F32, -1, dp, t->scale, NULL, ds);
    cuda_graph_matmul(g, across(t, ds), t->q, cuda_graph_tensor(g, CUDA_GRAD_K, BF16, &dk),
                      t->len_k, NULL, t->len_q);
    grad_of_q(t, ds);
}

int cuda_plan_attention(cuda_graph *g, const cuda_attention_key *a, vc_err *err)
{
    attention t;

    if (a->grad && a->sq == 1 && a->sk == 1)
        return vc_fail(err, VC_EINVAL, "attention's gradient of one query and one key: cuDNN does "
                       "not support it");
    begin(&t, g, a);
    if (!a->grad || a->repeatable)
        g->avoid = CUDA_NOTE(NONDETERMINISTIC);
    if (a->grad)
        backward(&t);
    else
        forward(&t);
    int rc = cuda_graph_plan(g, err);
    if (rc)
        vc_context(err, rc, "attention %s, %lld x %lld heads, %lld queries, %lld keys, size %lld",
                   a->grad ? "gradient" : "forward", (long long)a->b, (long long)a->h,
                   (long long)a->sq, (long long)a->sk, (long long)a->d);
    return rc;
}

/* ---- convolution ---- */

/* Returns [n,c,size] with c innermost. */
static cuda_dims channels_last(int64_t n, int64_t c, const int64_t *s)
{
    return (cuda_dims){ 5, { n, c, s[0], s[1], s[2] },
                        { c * s[0] * s[1] * s[2], 1, c * s[1] * s[2], c * s[2], c } };
}

int cuda_plan_conv(cuda_graph *g, const cuda_conv_key *s, vc_err *err)
{
    const cudnnDataType_t type = s->f32 ? F32 : BF16;
    const int64_t one[3] = { 1, 1, 1 };
    int64_t out[3];

    for (int i = 0; i < 3; i++)
        out[i] = (s->size[i] + s->before[i] + s->after[i] - s->kernel[i]) / s->stride[i] + 1;
    cuda_dims x = channels_last(s->n, s->c, s->size), w = channels_last(s->k, s->c, s->kernel);
    cuda_dims y = channels_last(s->n, s->k, out), b = channels_last(1, s->k, one);
    g->enough = WORKSPACE;
    g->avoid = CUDA_NOTE(NONDETERMINISTIC) | (s->f32 ? CUDA_NOTES_INEXACT : 0);
    cuda_node to = cuda_graph_tensor(g, CUDA_Y, type, &y);
    cuda_node raw = s->bias ? cuda_graph_between(g, F32, &y) : to;
    cuda_graph_conv(g, cuda_graph_tensor(g, CUDA_X, type, &x),
                    cuda_graph_tensor(g, CUDA_W, type, &w), raw, s->before, s->after, s->stride);
    if (s->bias)
        cuda_graph_point(g, CUDNN_POINTWISE_ADD, F32, -1, raw,
                         cuda_graph_tensor(g, CUDA_B, type, &b), NULL, to);
    int rc = cuda_graph_plan(g, err);
    if (rc)
        vc_context(err, rc, "conv3d of %lld to %lld channels, %lld x %lld x %lld", (long long)s->c,
                   (long long)s->k, (long long)s->size[0], (long long)s->size[1],
                   (long long)s->size[2]);
    return rc;
}
