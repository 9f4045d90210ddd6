/* op_ttt.c - the inner scan of test-time training; see ops.h and ttt.h */
#include <math.h>

#include "common/tensor/engine.h"
#include "common/tensor/ttt.h"

enum { Q, K, TARGET, ETA, GAMMA, BETA, W1, B1, W2, B2, OPERANDS, STATES = OPERANDS, INPUTS };

static void collect(const vt_ttt *t, vt_tensor *in[])
{
    vt_tensor *const all[OPERANDS] = { t->q, t->k, t->target, t->eta, t->gamma, t->beta,
                                       t->w1, t->b1, t->w2, t->b2 };

    for (int i = 0; i < OPERANDS; i++)
        in[i] = all[i];
}

static vt_ttt struct_of(vt_tensor *const in[], int64_t mini_batch, int64_t group)
{
    return (vt_ttt){ .q = in[Q], .k = in[K], .target = in[TARGET], .eta = in[ETA],
                     .gamma = in[GAMMA], .beta = in[BETA], .w1 = in[W1], .b1 = in[B1],
                     .w2 = in[W2], .b2 = in[B2], .mini_batch = mini_batch, .group = group };
}

/* Counts the products of a layer's matrix with the tokens. Forward has 3 with one layer (the value
 * at k, the step of the matrix, the value at q); backward has 4 of these and 6 gradients. Two
 * layers add the slope of the hidden layer. */
static void count_flops(vt_ctx *g, const vt_ttt_size *s, int of_one, int of_two)
{
    double layer = 2.0 * (double)(s->pairs * s->length) * (double)(s->d * s->e);

    g->usage.flops += layer * (s->mlp ? of_two : of_one);
}

static void ttt_scan_grad(vt_ctx *g, const vt_node *n)
{
    const vt_ttt t = struct_of(n->in, n->i[0], n->i[1]);
    const vt_ttt_size s = vt_ttt_size_of(&t);
    vt_tensor *d[OPERANDS];
    vt_tensor *work = vt_new(g, VC_F32, 2, (int64_t[]){ (int64_t)s.pairs, (int64_t)s.work });

    for (int i = 0; i < OPERANDS; i++)
        d[i] = vt_grad(g, n->in[i]);
    if (!work)
        return;
    const vt_ttt grad = struct_of(d, t.mini_batch, t.group);
    count_flops(g, &s, 10, 24);
    VT_RUN_HEAVY(g, ttt_scan_grad, &grad, n->out->grad, n->in[STATES], work, &t);
}

static bool is(const vt_tensor *t, int nd, const int64_t *dim)
{
    const vt_tensor want = { .nd = nd, .dim = { dim[0], dim[1], nd > 2 ? dim[2] : 0 } };

    return vt_same_shape(t, &want);
}

/* Returns true if t is a bias: [heads,n] or [heads,1,n]. */
static bool is_bias(const vt_tensor *t, int64_t heads, int64_t n)
{
    return is(t, 2, (int64_t[]){ heads, n }) || is(t, 3, (int64_t[]){ heads, 1, n });
}

static const char *wrong_weights(const vt_ttt *t)
{
    int64_t heads = t->q->dim[2], d = t->q->dim[3], e = t->w1->nd ? vt_last(t->w1) : 0;

    if (!t->w2 != !t->b2)
        return "w2 and b2 go together";
    if (e < 1 || !is(t->w1, 3, (int64_t[]){ heads, d, e }) || !is_bias(t->b1, heads, e))
        return "w1 must be [H,D,E], b1 [H,E] or [H,1,E]";
    if (!t->w2 && e != d)
        return "w1 must be [H,D,D] without w2";
    if (t->w2 && (!is(t->w2, 3, (int64_t[]){ heads, e, d }) || !is_bias(t->b2, heads, d)))
        return "w2 must be [H,E,D], b2 [H,D] or [H,1,D]";
    return NULL;
}

static const char *wrong(const vt_ttt *t)
{
    const vt_tensor *q = t->q;

    if (q->nd != 4 || !vt_same_shape(q, t->k) || !vt_same_shape(q, t->target) || q->dim[3] < 1)
        return "q, k and target must be equal [B,L,H,D]";
    if (!is(t->eta, 3, q->dim))
        return "eta must be [B,L,H]";
    if (!is(t->gamma, 2, q->dim + 2) || !is(t->beta, 2, q->dim + 2))
        return "gamma and beta must be [H,D]";
    return wrong_weights(t);
}

static vt_tensor *bad_length(vt_ctx *g, const vt_ttt *t)
{
    return vt_fail(g, VC_EINVAL, "ttt_scan: a sequence of %lld tokens is no multiple of a "
                   "mini-batch of %lld", (long long)t->q->dim[1], (long long)t->mini_batch);
}

/* Sets the group, and replaces operands by copies whose rows the kernels can read. */
static bool prepare(vt_ctx *g, vt_tensor *in[], vt_ttt *t)
{
    int64_t steps = t->q->dim[1] / t->mini_batch;

    for (int i = Q; i < OPERANDS; i++)
        if (in[i] && i != ETA &&
            !(in[i] = i <= TARGET ? vt_rows_packed(g, in[i]) : vt_pack(g, in[i])))
            return false;
    if (t->group < 1)
        t->group = (int64_t)ceil(sqrt((double)steps));
    t->group = t->group < steps ? t->group : steps < 1 ? 1 : steps;
    *t = struct_of(in, t->mini_batch, t->group);
    return true;
}

vt_tensor *vt_ttt_scan(vt_ctx *g, const vt_ttt *operands)
{
    static const char op[] = "ttt_scan";
    vt_ttt t = *operands;
    vt_tensor *in[INPUTS] = { NULL };
    int n = t.w2 && t.b2 ? OPERANDS : W2;

    collect(&t, in);
    if (!vt_ok(g, op, n, in))
        return NULL;
    const char *why = wrong(&t);
    if (why)
        return vt_bad(g, op, why, n, in);
    if (t.mini_batch < 1 || t.q->dim[1] % t.mini_batch)
        return bad_length(g, &t);
    if (!prepare(g, in, &t))
        return NULL;
    const vt_ttt_size s = vt_ttt_size_of(&t);
    vt_tensor *o = vt_new(g, vt_result(g, t.q), 4, t.q->dim);
    if (!o)
        return NULL;
    if (vt_tracks(g, OPERANDS, in) &&
        !(in[STATES] = vt_new(g, VC_F32, 3, (int64_t[]){ (int64_t)s.groups, (int64_t)s.pairs,
                                                         (int64_t)s.state })))
        return NULL;
    count_flops(g, &s, 3, 7);
    VT_RUN_HEAVY(g, ttt_scan, o, in[STATES], &t);
    vt_node *node;
    o = vt_record(g, o, op, ttt_scan_grad, INPUTS, in, (1u << INPUTS) - 1, false, &node);
    if (node) {
        node->i[0] = t.mini_batch;
        node->i[1] = t.group;
    }
    return o;
}
