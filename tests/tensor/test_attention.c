/* test_attention.c - attention of every kernel set, forward and backward, against f64 loops. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tensor/kernels_dev.h"

typedef struct at_case {
    int64_t b, h, sq, sk, d;
    vc_dtype t;
    int gap;
    bool head_first;                          /* [B,H,S,D] in memory instead of [B,S,H,D] */
    int32_t kv_len[2];                        /* numbers of keys, or 0 for all */
    float size;                               /* factor of the queries; a large one gives a peak */
    int64_t shared, causal;                   /* query heads for each key head; vt_attn's causal */
} at_case;
static const at_case at_cases[] = {
    { 1, 1, 1, 1, 8, VC_F32, 0, 0, { 0 }, 1, 1, 0 },
    { 1, 2, 3, 7, 16, VC_F32, 0, 0, { 0 }, 1, 1, 0 },
    { 2, 3, 17, 33, 24, VC_F32, 8, 0, { 33, 1 }, 1, 1, 0 },
    { 1, 2, 65, 65, 64, VC_F32, 0, 1, { 0 }, 4, 1, 0 },
    { 2, 1, 100, 300, 40, VC_F32, 3, 1, { 257, 96 }, 1, 1, 0 },
    { 1, 1, 300, 97, 32, VC_F32, 0, 0, { 0 }, 30, 1, 0 },
    { 1, 1, 260, 520, 128, VC_F32, 0, 0, { 0 }, 1, 1, 0 },
    { 1, 1, 33, 40, 256, VC_F32, 0, 0, { 0 }, 1, 1, 0 },
    { 1, 5, 33, 200, 16, VC_F32, 0, 0, { 0 }, 1, 1, 0 },     /* heads do not divide by threads */
    { 1, 1, 1, 9, 8, VC_BF16, 0, 0, { 0 }, 1, 1, 0 },
    { 2, 2, 33, 65, 40, VC_BF16, 8, 0, { 17, 65 }, 1, 1, 0 },
    { 1, 1, 300, 270, 64, VC_BF16, 0, 1, { 0 }, 2, 1, 0 },
    { 1, 2, 65, 31, 72, VC_BF16, 4, 0, { 0 }, 8, 1, 0 },
};
/* Cases without a gradient: texts, a video by frames, wide heads. */
static const at_case at_forward_cases[] = {
    { 1, 2, 65, 600, 64, VC_BF16, 0, 0, { 0 }, 300, 1, 0 },  /* later keys have larger scores */
    { 2, 6, 100, 100, 40, VC_F32, 3, 1, { 97, 5 }, 1, 6, 1 },
    { 2, 4, 130, 300, 64, VC_BF16, 0, 0, { 300, 180 }, 1, 2, 1 },
    { 1, 3, 300, 300, 16, VC_F32, 0, 0, { 0 }, 4, 1, 1 },
    { 1, 1, 290, 290, 512, VC_F32, 0, 0, { 0 }, 1, 1, 58 },
    { 2, 2, 97, 270, 512, VC_BF16, 8, 0, { 270, 31 }, 1, 1, 0 },
    { 2, 1, 100, 290, 1024, VC_F32, 0, 0, { 0 }, 1, 1, 0 },
    { 1, 1, 97, 97, 640, VC_BF16, 0, 0, { 0 }, 1, 1, 0 },
    { 1, 14, 33, 520, 128, VC_F32, 0, 0, { 0 }, 1, 7, 0 },
};

typedef struct at_data {
    vt_tensor *q, *k, *v, *o, *dout, *dq, *dk, *dv, *lse, *kv_len;
    float scale;
} at_data;

static at_data at_make(const at_case *c)
{
    static const int head_first[] = { 0, 2, 1, 3 };
    const int *order = c->head_first ? head_first : NULL;
    const int64_t q[] = { c->b, c->sq, c->h, c->d }, k[] = { c->b, c->sk, c->h / c->shared, c->d };
    kd_rng r = { 11 };
    at_data d = { .scale = 1 / sqrtf((float)c->d) };
    vt_tensor **at[] = { &d.q, &d.o, &d.dout, &d.dq, &d.k, &d.v, &d.dk, &d.dv };

    for (size_t i = 0; i < COUNT(at); i++)
        *at[i] = kd_tensor(&r, c->t, 4, i < 4 ? q : k, c->gap, order);
    for (size_t i = 0; i < kd_bytes(d.q) / vc_dtype_size(c->t); i++) {
        float x = c->size * kd_random(&r);
        vc_from_f32((char *)d.q->data + i * vc_dtype_size(c->t), c->t, &x, 1);
    }
    kd_fill(d.o, NAN);
    d.lse = kd_tensor(&r, VC_F32, 3, (int64_t[]){ c->b, c->h, c->sq }, 0, NULL);
    if (c->kv_len[0]) {
        d.kv_len = kd_tensor(&r, VC_I32, 1, &c->b, 0, NULL);
        memcpy(d.kv_len->data, c->kv_len, (size_t)c->b * 4);
    }
    return d;
}

static void at_free(at_data *d)
{
    vt_tensor *all[] = { d->q, d->k, d->v, d->o, d->dout, d->dq, d->dk, d->dv, d->lse, d->kv_len };
    for (size_t i = 0; i < COUNT(all); i++)
        kd_free(all[i]);
}

static void at_forward(const kd_dev *d, const at_data *t)
{
    const vt_attn how = { .kv_len = t->kv_len, .scale = t->scale };

    d->be->attention(d->dev, t->o, t->lse, t->q, t->k, t->v, &how);
}

static void at_backward(const kd_dev *d, const at_data *t)
{
    const vt_attn how = { .kv_len = t->kv_len, .scale = t->scale };

    d->be->attention_grad(d->dev, t->dq, t->dk, t->dv, t->dout, t->q, t->k, t->v, t->o, t->lse,
                          &how);
}

/* One head in f64: tensors [S][D], P [Sq][Sk], lse [Sq]. */
typedef struct at_ref { double *q, *k, *v, *dout, *p, *o, *lse, *dq, *dk, *dv; } at_ref;

static double *doubles(size_t n)
{
    double *p = calloc(n, sizeof *p);
    assert_non_null(p);
    return p;
}

static double *head_of(const vt_tensor *x, int64_t b, int64_t h)
{
    double *p = doubles((size_t)(x->dim[1] * x->dim[3]));
    for (int64_t i = 0; i < x->dim[1] * x->dim[3]; i++)
        p[i] = kd_at(x, b, i / x->dim[3], h, i % x->dim[3]);
    return p;
}

static double dot(const double *x, const double *y, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++)
        s += x[i] * y[i];
    return s;
}

static void at_query(const at_case *c, const at_ref *r, int64_t i, int64_t sk, double scale)
{
    double *p = r->p + i * c->sk, most = -INFINITY, sum = 0, delta = 0;
    const double *q = r->q + i * c->d, *g = r->dout + i * c->d;

    for (int64_t j = 0; j < sk; j++) {
        p[j] = scale * dot(q, r->k + j * c->d, c->d);
        most = fmax(most, p[j]);
    }
    for (int64_t j = 0; j < sk; j++)
        sum += exp(p[j] - most);
    r->lse[i] = most + log(sum);
    for (int64_t j = 0; j < sk; j++) {
        p[j] = exp(p[j] - r->lse[i]);
        delta += p[j] * dot(g, r->v + j * c->d, c->d);
    }
    for (int64_t j = 0; j < sk; j++) {
        double ds = p[j] * (dot(g, r->v + j * c->d, c->d) - delta) * scale;
        for (int64_t e = 0; e < c->d; e++) {
            r->o[i * c->d + e] += p[j] * r->v[j * c->d + e];
            r->dv[j * c->d + e] += p[j] * g[e];
            r->dq[i * c->d + e] += ds * r->k[j * c->d + e];
            r->dk[j * c->d + e] += ds * q[e];
        }
    }
}

static at_ref at_head(const at_case *c, const at_data *t, int64_t b, int64_t h)
{
    size_t nq = (size_t)(c->sq * c->d), nk = (size_t)(c->sk * c->d);
    at_ref r = {
        .q = head_of(t->q, b, h), .k = head_of(t->k, b, h), .v = head_of(t->v, b, h),
        .dout = head_of(t->dout, b, h), .p = doubles((size_t)(c->sq * c->sk)), .o = doubles(nq),
        .lse = doubles((size_t)c->sq), .dq = doubles(nq), .dk = doubles(nk), .dv = doubles(nk),
    };

    for (int64_t i = 0; i < c->sq; i++)
        at_query(c, &r, i, c->kv_len[0] ? c->kv_len[b] : c->sk, t->scale);
    return r;
}

static void at_ref_free(at_ref *r)
{
    free(r->q), free(r->k), free(r->v), free(r->dout), free(r->p);
    free(r->o), free(r->lse), free(r->dq), free(r->dk), free(r->dv);
}

static void at_compare(const char *set, size_t row, const char *name, const vt_tensor *x, int64_t b,
                       int64_t h, const double *want, double base, double within)
{
    double largest = 0;

    for (int64_t i = 0; i < x->dim[1] * x->dim[3]; i++)
        largest = fmax(largest, fabs(want[i]));
    for (int64_t i = 0; i < x->dim[1]; i++)
        for (int64_t e = 0; e < x->dim[3]; e++) {
            double got = kd_at(x, b, i, h, e), w = base + want[i * x->dim[3] + e];
            if (!(fabs(got - w) <= within * (largest + fabs(base)) + 1e-6))
                fail_msg("%s, row %zu: %s[%d,%d,%d,%d] is %.9g, not %.9g", set, row, name, (int)b,
                         (int)i, (int)h, (int)e, got, w);
        }
}

/* Tolerances: bf16 rounds the results, and AMX also rounds P and dS. Measured errors are half as
 * large. */
static double at_tolerance(const kd_dev *d, const at_case *c)
{
    return c->t == VC_F32 ? 5e-6 : d->bf16 ? 1.6e-2 : 5e-3;
}

/* Compares with `refs`, one for each sample and head. The gradients held `base` before. */
static void at_check(const char *set, const kd_dev *d, size_t row, const at_data *t,
                     const at_ref *refs, double base)
{
    const at_case *c = &at_cases[row];
    double tol = at_tolerance(d, c);

    for (int64_t b = 0; b < c->b; b++)
        for (int64_t h = 0; h < c->h; h++) {
            const at_ref *r = &refs[b * c->h + h];
            at_compare(set, row, "o", t->o, b, h, r->o, 0, tol);
            for (int64_t i = 0; i < c->sq; i++)
                if (!(fabs(kd_at(t->lse, b, h, i, 0) - r->lse[i]) <= 3e-6 * (1 + fabs(r->lse[i]))))
                    fail_msg("%s, row %zu: lse[%d,%d,%d] is %.9g, not %.9g", set, row, (int)b,
                             (int)h, (int)i, kd_at(t->lse, b, h, i, 0), r->lse[i]);
            at_compare(set, row, "dq", t->dq, b, h, r->dq, base, tol);
            at_compare(set, row, "dk", t->dk, b, h, r->dk, base, tol);
            at_compare(set, row, "dv", t->dv, b, h, r->dv, base, tol);
        }
}

/* Runs twice: over empty gradients, which hold NaN, and adding to gradients of 0.5. With more
 * threads than heads the threads share blocks of keys. */
static void at_both(const char *set, int threads, size_t row, at_data *t, const at_ref *refs)
{
    vt_tensor *grads[] = { t->dq, t->dk, t->dv };
    kd_dev d = kd_open(set, threads);

    kd_fill(t->o, NAN);
    at_forward(&d, t);
    for (double base = 0; base <= 0.5; base += 0.5) {
        for (size_t k = 0; k < COUNT(grads); k++) {
            kd_fill(grads[k], base == 0 ? NAN : 0.5f);
            grads[k]->buf->empty = base == 0;
        }
        at_backward(&d, t);
        at_check(set, &d, row, t, refs, base);
        for (size_t k = 0; k < COUNT(grads); k++)
            assert_false(grads[k]->buf->empty);
    }
    kd_close(&d);
}

TEST(attention_against_f64)
{
    (void)state;
    for (size_t i = 0; i < COUNT(at_cases); i++) {
        const at_case *c = &at_cases[i];
        at_data t = at_make(c);
        at_ref refs[8];
        assert_true(c->b * c->h <= (int64_t)COUNT(refs));
        for (int64_t k = 0; k < c->b * c->h; k++)
            refs[k] = at_head(c, &t, k / c->h, k % c->h);
        EACH_SET(s)
            for (int threads = 1; threads <= 7; threads += 3)
                at_both(*s, threads, i, &t, refs);
        for (int64_t k = 0; k < c->b * c->h; k++)
            at_ref_free(&refs[k]);
        at_free(&t);
    }
}

/* Returns a bias that depends on the distance of query and key: a view of a row for each head, in
 * which a later query begins one element earlier. */
static vt_tensor at_bias(const at_case *c, const vt_tensor *line)
{
    vt_tensor e = *line;                       /* [H, Sq+Sk-1] */

    e.nd = 4;
    memcpy(e.dim, (int64_t[]){ c->b, c->h, c->sq, c->sk }, 4 * sizeof *e.dim);
    memcpy(e.stride, (int64_t[]){ 0, line->stride[0], -1, 1 }, 4 * sizeof *e.stride);
    e.data = (float *)line->data + c->sq - 1;
    return e;
}

/* Computes the output row of query i of a head and returns its log-sum-exp. bias may be NULL. */
static double at_biased_query(const at_case *c, const at_data *t, const vt_tensor *bias, int64_t b,
                              int64_t h, int64_t i, double *o)
{
    int64_t keys = c->kv_len[0] ? c->kv_len[b] : c->sk, hk = h / c->shared;
    double sum = 0;

    if (c->causal && (i / c->causal + 1) * c->causal < keys)
        keys = (i / c->causal + 1) * c->causal;
    memset(o, 0, (size_t)c->d * sizeof *o);
    for (int64_t j = 0; j < keys; j++) {
        double s = bias ? kd_at(bias, b, h, i, j) : 0, p;
        for (int64_t e = 0; e < c->d; e++)
            s += t->scale * kd_at(t->q, b, i, h, e) * kd_at(t->k, b, j, hk, e);
        sum += p = exp(s);
        for (int64_t e = 0; e < c->d; e++)
            o[e] += p * kd_at(t->v, b, j, hk, e);
    }
    for (int64_t e = 0; e < c->d; e++)
        o[e] /= sum;
    return log(sum);
}

/* Compares every eleventh query and the last one. Queries of size 1 need no maximum in exp. */
static void at_biased_check(const char *set, size_t row, const at_case *c, const at_data *t,
                            const vt_tensor *bias, double tol)
{
    double o[1024];

    for (int64_t u = 0; u < c->b * c->h * c->sq; u++) {
        int64_t i = u % c->sq, h = u / c->sq % c->h, b = u / c->sq / c->h;
        if (i % 11 && i + 1 < c->sq)
            continue;
        double lse = at_biased_query(c, t, bias, b, h, i, o), largest = 0;
        for (int64_t e = 0; e < c->d; e++)
            largest = fmax(largest, fabs(o[e]));
        if (!(fabs(kd_at(t->lse, b, h, i, 0) - lse) <= 3e-6 * (1 + fabs(lse))))
            fail_msg("%s, row %zu: lse of query %d", set, row, (int)i);
        for (int64_t e = 0; e < c->d; e++)
            if (!(fabs(kd_at(t->o, b, i, h, e) - o[e]) <= tol * largest + 1e-6))
                fail_msg("%s, row %zu: o[%d,%d,%d,%d] is %.9g, not %.9g", set, row, (int)b, (int)i,
                         (int)h, (int)e, kd_at(t->o, b, i, h, e), o[e]);
    }
}

TEST(attention_with_a_bias)
{
    (void)state;
    for (size_t i = 0; i < COUNT(at_cases); i++) {
        const at_case *c = &at_cases[i];
        if (c->size > 8)
            continue;
        at_data t = at_make(c);
        kd_rng r = { 5 };
        vt_tensor *line = kd_tensor(&r, VC_F32, 2, (int64_t[]){ c->h, c->sq + c->sk - 1 }, 3, NULL);
        vt_tensor bias = at_bias(c, line);
        EACH_SET(s) {
            kd_dev d = kd_open(*s, 3);
            kd_fill(t.o, NAN);
            d.be->attention(d.dev, t.o, t.lse, t.q, t.k, t.v,
                            &(vt_attn){ t.kv_len, &bias, 0, t.scale });
            at_biased_check(*s, i, c, &t, &bias, at_tolerance(&d, c));
            kd_close(&d);
        }
        kd_free(line);
        at_free(&t);
    }
}

/* Attention with fewer key heads, a causal mask or wide heads, without and with a bias. */
TEST(attention_without_a_gradient)
{
    (void)state;
    for (size_t i = 0; i < 2 * COUNT(at_forward_cases); i++) {
        const at_case *c = &at_forward_cases[i / 2];
        at_data t = at_make(c);
        kd_rng r = { 6 };
        vt_tensor *line = kd_tensor(&r, VC_F32, 2, (int64_t[]){ c->h, c->sq + c->sk - 1 }, 0, NULL);
        vt_tensor bias = at_bias(c, line), *some = i % 2 ? &bias : NULL;
        EACH_SET(s) {
            kd_dev d = kd_open(*s, 3);
            kd_fill(t.o, NAN);
            d.be->attention(d.dev, t.o, t.lse, t.q, t.k, t.v,
                            &(vt_attn){ t.kv_len, some, c->causal, t.scale });
            at_biased_check(*s, i, c, &t, some, at_tolerance(&d, c));
            kd_close(&d);
        }
        kd_free(line);
        at_free(&t);
    }
}

TEST(attention_repeats_its_bits)
{
    (void)state;
    EACH_SET(s)
        for (int threads = 1; threads <= 4; threads += 3)
            for (size_t i = 0; i < COUNT(at_cases); i++) {
                kd_dev d = kd_open(*s, threads);
                at_data a = at_make(&at_cases[i]), b = at_make(&at_cases[i]);
                at_forward(&d, &a);
                at_backward(&d, &a);
                at_forward(&d, &b);
                at_backward(&d, &b);
                assert_memory_equal(a.lse->data, b.lse->data, kd_bytes(a.lse));
                assert_memory_equal(a.dq->data, b.dq->data, kd_bytes(a.dq));
                assert_memory_equal(a.dk->data, b.dk->data, kd_bytes(a.dk));
                assert_memory_equal(a.dv->data, b.dv->data, kd_bytes(a.dv));
                at_free(&a);
                at_free(&b);
                kd_close(&d);
            }
}

TEST(attention_only_some_gradients)
{
    (void)state;
    EACH_SET(s) {
        kd_dev d = kd_open(*s, 3);
        at_data a = at_make(&at_cases[3]), b = at_make(&at_cases[3]);
        at_forward(&d, &a);
        at_forward(&d, &b);
        at_backward(&d, &a);
        const vt_attn how = { .scale = b.scale };
        d.be->attention_grad(d.dev, b.dq, NULL, NULL, b.dout, b.q, b.k, b.v, b.o, b.lse, &how);
        d.be->attention_grad(d.dev, NULL, b.dk, b.dv, b.dout, b.q, b.k, b.v, b.o, b.lse, &how);
        assert_memory_equal(a.dq->data, b.dq->data, kd_bytes(a.dq));
        assert_memory_equal(a.dk->data, b.dk->data, kd_bytes(a.dk));
        assert_memory_equal(a.dv->data, b.dv->data, kd_bytes(a.dv));
        at_free(&a);
        at_free(&b);
        kd_close(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_against_f64),
        cmocka_unit_test(attention_with_a_bias),
        cmocka_unit_test(attention_without_a_gradient),
        cmocka_unit_test(attention_repeats_its_bits),
        cmocka_unit_test(attention_only_some_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
