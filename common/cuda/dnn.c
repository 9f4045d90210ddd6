/* dnn.c - attention and convolution by cuDNN; see kernel_list.h. Each shape has a plan of plans.h,
 * kept until the device closes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda/device.h"
#include "common/cuda/plans.h"

/* The memory that dS may take with repeatable gradients, which limits the heads per group. */
static const int64_t DS_BYTES = (int64_t)1 << 30;
/* The most pairs of query and key for which the plain kernels replace a gradient that cuDNN
 * refuses. */
static const double PLAIN_PAIRS = 1e9;

typedef enum plan_kind { ATTENTION, CONV } plan_kind;

typedef struct plan {
    plan_kind kind;
    union {
        cuda_attention_key attention;
        cuda_conv_key conv;
    } key;
    cuda_graph graph;
    int32_t *queries;                          /* with lengths: device memory [B], all Sq */
    bool refused;
    char why[200];
    struct plan *next;
} plan;

struct cuda_dnn {
    cudnnHandle_t handle;
    plan *plans;
};

/* ---- open and close ---- */

int cuda_dnn_open(vt_dev *d, vc_err *err)
{
    int too_old = cuda_graph_supports(cudnnGetVersion(), err);

    if (too_old)
        return too_old;
    d->dnn = calloc(1, sizeof *d->dnn);
    if (!d->dnn)
        return vc_fail(err, VC_ENOMEM, "cuda: out of memory");
    cudnnStatus_t rc = cudnnCreate(&d->dnn->handle);
    if (!rc)
        rc = cudnnSetStream(d->dnn->handle, (cudaStream_t)d->stream);
    return rc ? vc_fail(err, VC_EFAIL, "cuDNN: %s", cudnnGetErrorString(rc)) : 0;
}

static void plan_free(plan *p)
{
    cuda_graph_close(&p->graph);
    cudaFree(p->queries);
    free(p);
}

void cuda_dnn_close(cuda_dnn *c)
{
    if (!c)
        return;
    for (plan *p = c->plans, *next; p; p = next) {
        next = p->next;
        plan_free(p);
    }
    if (c->handle)
        cudnnDestroy(c->handle);
    free(c);
}

const char *cuda_dnn_version(char text[24])
{
    unsigned v = (unsigned)cudnnGetVersion();

    snprintf(text, 24, "cuDNN %u.%u.%u", v / 10000 % 100, v / 100 % 100, v % 100);
    return text;
}

/* ---- plans ---- */

static int build(plan *p, vc_err *err)
{
    return p->kind == CONV ? cuda_plan_conv(&p->graph, &p->key.conv, err)
                           : cuda_plan_attention(&p->graph, &p->key.attention, err);
}

/* Returns device memory with each sample's number of queries, Sq; NULL with a fault when memory is
 * out. */
static int32_t *all_queries(vt_dev *d, const cuda_attention_key *k)
{
    const int32_t n = (int32_t)k->sq;
    int32_t *all = cuda_alloc(d, (size_t)k->b * sizeof *all);

    if (!all)
        cuda_fault(d, VC_ENOMEM, "attention: no memory for %lld lengths", (long long)k->b);
    for (int64_t i = 0; i < k->b && all; i++)
        cuda_upload(d, all + i, &n, sizeof n);
    return all;
}

/* Returns the plan of a key, made at its first use; a refused plan is kept too, so that it is tried
 * once. NULL with a fault when memory is out. */
static plan *plan_of(vt_dev *d, const plan *like)
{
    for (plan *p = d->dnn->plans; p; p = p->next)
        if (p->kind == like->kind && !memcmp(&p->key, &like->key, sizeof p->key))
            return p;
    plan *p = malloc(sizeof *p);
    if (!p) {
        cuda_fault(d, VC_ENOMEM, "cuDNN: out of memory");
        return NULL;
    }
    memcpy(p, like, sizeof *p);
    cuda_graph_init(&p->graph, d->dnn->handle, NULL);
    vc_err err = { 0 };
    p->refused = build(p, &err) != 0;
    snprintf(p->why, sizeof p->why, "%.199s", err.text);
    if (p->refused)
        cuda_graph_close(&p->graph);
    bool lengths = !p->refused && p->kind == ATTENTION && p->key.attention.lengths;
    if (lengths && !(p->queries = all_queries(d, &p->key.attention))) {
        plan_free(p);
        return NULL;
    }
    p->next = d->dnn->plans;
    return d->dnn->plans = p;
}

enum { MOST_TENSORS = 20 };
typedef struct operands {
    int n;
    int64_t id[MOST_TENSORS];
    void *data[MOST_TENSORS];
} operands;

static void add_operand(operands *o, int64_t id, const void *data)
{
    o->id[o->n] = id;
    o->data[o->n++] = (void *)(uintptr_t)data;
}

static bool run(vt_dev *d, const plan *p, const operands *o)
{
    void *workspace = NULL;

    if (p->graph.workspace > 0 &&
        !(workspace = cuda_scratch(d, CUDA_WORKSPACE, (size_t)p->graph.workspace)))
        return false;
    if (d->dry)
        return true;
    cudnnStatus_t rc = cuda_graph_run(&p->graph, o->n, o->id, o->data, workspace);
    if (rc)
        cuda_fault(d, VC_EFAIL, "cuDNN: %s: %s", p->kind == CONV ? "conv3d" : "attention",
                   cudnnGetErrorString(rc));
    return !rc;
}

/* ---- attention ---- */

static cuda_rows_at rows_at(const vt_tensor *t)
{
    return (cuda_rows_at){ t->stride[0], t->stride[1], t->stride[2] };
}

/* cuDNN reads bf16 rows that begin at multiples of 16 bytes. */
static bool readable(const vt_tensor *t)
{
    bool ok = t->dtype == VC_BF16 && (uintptr_t)t->data % 16 == 0 && t->dim[3] % 8 == 0;

    for (int i = 0; i < 3; i++)
        ok = ok && (t->dim[i] == 1 || (t->stride[i] % 8 == 0 && t->stride[i] > 0));
    return ok;
}

static void set_shape(cuda_attention_key *k, const vt_tensor *q, const vt_tensor *kt,
                      const vt_tensor *v, const vt_tensor *o, const vt_tensor *kv_len)
{
    k->b = q->dim[0];
    k->sq = q->dim[1];
    k->h = q->dim[2];
    k->d = q->dim[3];
    k->sk = kt->dim[1];
    k->q = rows_at(q);
    k->k = rows_at(kt);
    k->v = rows_at(v);
    k->o = rows_at(o);
    k->lse_b = k->h * k->sq;
    k->lse_h = k->sq;
    k->lengths = kv_len != NULL;
}

/* Operands passed by value from the host. */
typedef struct numbers { float scale, lowest, one; } numbers;

static void give_common(operands *o, const numbers *n, const plan *p, const vt_tensor *kv_len)
{
    add_operand(o, CUDA_SCALE, &n->scale);
    if (!kv_len)
        return;
    add_operand(o, CUDA_LEN_Q, p->queries);
    add_operand(o, CUDA_LEN_K, kv_len->data);
    add_operand(o, CUDA_LOWEST, &n->lowest);
}

/* Called for a refused gradient: returns true if the plain kernels may replace it, else records a
 * fault. */
static bool plain_instead(vt_dev *d, const plan *p)
{
    const cuda_attention_key *k = &p->key.attention;

    if ((double)k->b * (double)k->h * (double)k->sq * (double)k->sk <= PLAIN_PAIRS)
        return true;
    cuda_fault(d, VC_EINVAL, "%s", p->why);
    return false;
}

void cuda_attention(vt_dev *d, vt_tensor *o, vt_tensor *lse, const vt_tensor *q,
                    const vt_tensor *k, const vt_tensor *v, const vt_attn *how)
{
    const numbers n = { how->scale, -1e30f, 1 };
    const vt_tensor *bias = how->bias, *kv_len = how->kv_len;
    plan like = { .kind = ATTENTION };
    operands ops = { 0 };
    bool fits = readable(q) && readable(k) && readable(v) && readable(o);

    fits = fits && !how->causal && q->dim[2] == k->dim[2];
    if (bias)
        fits = fits && (uintptr_t)bias->data % 16 == 0 && bias->stride[3] == 1 &&
               bias->stride[2] >= bias->dim[3];
    if (!fits) {
        cuda_attend_either(d, cuda_matmul, o, lse, q, k, v, how);
        return;
    }
    cuda_attention_key *key = &like.key.attention;
    set_shape(key, q, k, v, o, kv_len);
    if (bias) {
        key->bias = 1;
        key->bias_b = bias->stride[0];
        key->bias_h = bias->stride[1];
        key->bias_q = bias->stride[2];
        add_operand(&ops, CUDA_BIAS_IN, bias->data);
    }
    const plan *p = plan_of(d, &like);
    if (!p)
        return;
    if (p->refused) {
        cuda_attend_either(d, cuda_matmul, o, lse, q, k, v, how);
        return;
    }
    if (d->dry) {
        run(d, p, NULL);
        return;
    }
    give_common(&ops, &n, p, kv_len);
    add_operand(&ops, CUDA_Q, q->data);
    add_operand(&ops, CUDA_K, k->data);
    add_operand(&ops, CUDA_V, v->data);
    add_operand(&ops, CUDA_O, o->data);
    add_operand(&ops, CUDA_LSE, lse->data);
    run(d, p, &ops);
}

/* Sets *to to the memory that cuDNN, which overwrites, writes a gradient into: the target itself if
 * it is empty and readable, else a packed tensor in an area. False after a fault. */
static bool target(vt_dev *d, cuda_area area, const vt_tensor *like, vt_tensor *want,
                   vt_tensor *to)
{
    /* in a dry step no kernel has filled a gradient that is viewed in part */
    bool adds = want && (vt_adds(want) || (d->dry && want->base &&
                                           vt_count(want) < vt_count(want->base)));

    if (want && !adds && readable(want)) {
        *to = *want;
        return true;
    }
    int64_t stride = 1;
    *to = *like;
    to->buf = NULL;
    to->dtype = VC_BF16;
    for (int i = 4; i-- > 0; stride *= like->dim[i])
        to->stride[i] = stride;
    to->data = cuda_scratch(d, area, (size_t)stride * 2);
    return d->dry || to->data;
}

static void deliver(vt_dev *d, vt_tensor *want, const vt_tensor *from)
{
    if (!want)
        return;
    if (want->data != from->data)
        cuda_scale(d, want, from, 1.0f);
    vt_wrote(want);
}

/* Returns the number of heads per group: all, or a divisor of them whose dS fits. */
static int64_t heads_at_once(const vt_dev *d, const cuda_attention_key *k)
{
    int64_t h = k->h, each = 2 * k->b * k->sq * k->sk;

    while (d->repeatable && h > 1 && (k->h % h || h * each > DS_BYTES))
        h--;
    return h;
}

static const void *head(const vt_tensor *t, int64_t h)
{
    return (const char *)t->data + h * t->stride[2] * 2;
}

typedef struct grads {
    const vt_tensor *dout, *q, *k, *v, *o, *lse, *kv_len;
    vt_tensor dq, dk, dv;
    float *sums, *sum_q;
} grads;

static bool run_heads(vt_dev *d, const plan *p, const grads *s, const numbers *n, int64_t h)
{
    const cuda_attention_key *k = &p->key.attention;
    operands o = { 0 };

    give_common(&o, n, p, s->kv_len);
    add_operand(&o, CUDA_ONE, &n->one);
    add_operand(&o, CUDA_Q, head(s->q, h));
    add_operand(&o, CUDA_K, head(s->k, h));
    add_operand(&o, CUDA_V, head(s->v, h));
    add_operand(&o, CUDA_O, head(s->o, h));
    add_operand(&o, CUDA_DOUT, head(s->dout, h));
    add_operand(&o, CUDA_LSE, (const float *)s->lse->data + h * k->lse_h);
    add_operand(&o, CUDA_GRAD_Q, head(&s->dq, h));
    add_operand(&o, CUDA_GRAD_K, head(&s->dk, h));
    add_operand(&o, CUDA_GRAD_V, head(&s->dv, h));
    add_operand(&o, CUDA_ROW_SUMS, s->sums);
    if (!k->repeatable)
        add_operand(&o, CUDA_SUM_Q, s->sum_q);
    return run(d, p, &o);
}

/* Sets the gradients' targets, the rest of the key, and scratch, which a dry step only counts.
 * False after a fault. */
static bool prepare(vt_dev *d, grads *s, cuda_attention_key *key, vt_tensor *dq, vt_tensor *dk,
                    vt_tensor *dv)
{
    if (!target(d, CUDA_DQ, s->q, dq, &s->dq) || !target(d, CUDA_DK, s->k, dk, &s->dk) ||
        !target(d, CUDA_DV, s->v, dv, &s->dv))
        return false;
    key->dout = rows_at(s->dout);
    key->dq = rows_at(&s->dq);
    key->dk = rows_at(&s->dk);
    key->dv = rows_at(&s->dv);
    key->grad = 1;
    key->repeatable = d->repeatable;
    key->h = heads_at_once(d, key);
    size_t rows = (size_t)(key->b * key->h * key->sq);
    size_t all = key->repeatable ? rows : rows * (1 + (size_t)key->d);
    s->sum_q = cuda_scratch(d, CUDA_DSUM, (all + 64) * sizeof(float));
    s->sums = s->sum_q ? s->sum_q + (key->repeatable ? 0 : rows * (size_t)key->d) : NULL;
    return d->dry || s->sums;
}

void cuda_attention_grad(vt_dev *d, vt_tensor *dq, vt_tensor *dk, vt_tensor *dv,
                         const vt_tensor *dout, const vt_tensor *q, const vt_tensor *k,
                         const vt_tensor *v, const vt_tensor *o, const vt_tensor *lse,
                         const vt_attn *how)
{
    const numbers n = { how->scale, -1e30f, 1 };
    const vt_tensor *kv_len = how->kv_len;
    grads s = { dout, q, k, v, o, lse, kv_len, .sums = NULL };
    plan like = { .kind = ATTENTION };
    cuda_attention_key *key = &like.key.attention;
    bool fits = readable(q) && readable(k) && readable(v) && readable(o) && readable(dout);
    const plan *p = NULL;

    if (fits) {
        set_shape(key, q, k, v, o, kv_len);
        if (!prepare(d, &s, key, dq, dk, dv) || !(p = plan_of(d, &like)) ||
            (p->refused && !plain_instead(d, p)))
            return;
    }
    if (!fits || p->refused) {
        cuda_attend_grad(d, dq, dk, dv, dout, q, k, v, o, lse, how);
        return;
    }
    if (d->dry) {
        run(d, p, NULL);
        return;
    }
    if (kv_len) {                              /* keys past a length have gradient 0 */
        cuda_fill(d, &s.dk, 0.0f);
        cuda_fill(d, &s.dv, 0.0f);
    }
    for (int64_t h = 0; h < q->dim[2]; h += key->h)
        if (!run_heads(d, p, &s, &n, h))
            return;
    deliver(d, dq, &s.dq);
    deliver(d, dk, &s.dk);
    deliver(d, dv, &s.dv);
}

/* ---- convolution ---- */

/* Copies x, with its channels (axis c) innermost, to `wide` channels of y. */
static void repack(vt_dev *d, vt_tensor *y, const vt_tensor *x, int c, int64_t wide)
{
    int64_t stride = wide;

    y->nd = 5;
    for (int i = 5; i-- > 0;) {
        y->dim[i] = x->dim[i];
        y->stride[i] = i == c ? 1 : stride;
        stride *= i == c ? 1 : x->dim[i];
    }
    cuda_copy(d, y, x);
}

/* Returns room for n elements in an area, zeroed if `zeros`. */
static void *room(vt_dev *d, cuda_area area, vc_dtype type, int64_t n, bool zeros)
{
    vt_tensor all = { .dtype = type, .nd = 1, .dim = { n }, .stride = { 1 } };

    all.data = cuda_scratch(d, area, (size_t)n * vc_dtype_size(type));
    if (all.data && zeros)
        cuda_fill(d, &all, 0.0f);
    return all.data;
}

/* Returns w [K,C,..] as [K,..,wide]. */
static const void *weight(vt_dev *d, vc_dtype type, const vt_tensor *w, int64_t wide)
{
    vt_tensor y = { .dtype = type };

    y.data = room(d, CUDA_RIGHT, type, vt_count(w) / w->dim[1] * wide, wide != w->dim[1]);
    if (y.data)
        repack(d, &y, w, 1, wide);
    return y.data;
}

void cuda_conv3d(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *w,
                 const vt_tensor *b, const vt_conv *c)
{
    const int64_t wide = (x->dim[4] + 7) / 8 * 8;
    plan like = { .kind = CONV };
    cuda_conv_key *k = &like.key.conv;
    operands o = { 0 };
    vt_conv rest;
    vt_tensor in = cuda_conv_input(&rest, y->dtype, wide, x, c);

    *k = (cuda_conv_key){ .n = x->dim[0], .c = wide, .k = w->dim[0], .bias = b != NULL,
                          .f32 = y->dtype == VC_F32 };
    for (int i = 0; i < 3; i++) {
        k->size[i] = in.dim[1 + i];
        k->kernel[i] = w->dim[2 + i];
        k->stride[i] = rest.stride[i];
        k->before[i] = rest.before[i];
        k->after[i] = rest.after[i];
    }
    const plan *p = plan_of(d, &like);
    if (!p)
        return;
    if (p->refused) {
        cuda_fault(d, VC_EINVAL, "%s", p->why);
        return;
    }
    const void *xs = cuda_conv_fill(d, &in, x, c, &rest);
    const void *ws = weight(d, y->dtype, w, wide);
    const void *bs = b ? cuda_convert(d, CUDA_BIAS, y->dtype, b) : NULL;
    if (d->dry)
        run(d, p, NULL);
    if (d->dry || !xs || !ws || (b && !bs))
        return;
    add_operand(&o, CUDA_X, xs);
    add_operand(&o, CUDA_W, ws);
    add_operand(&o, CUDA_Y, y->data);
    if (b)
        add_operand(&o, CUDA_B, bs);
    run(d, p, &o);
}
