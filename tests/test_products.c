/* test_products.c - matmul, attention and convolution of every kernel set, against f64 loops.
 *
 * The set "emulated" is AMX's source over tiles in plain C, so its packing, edges and softmax run
 * on any machine. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cpu/cpu_dnnl.h"
#include "tests/kernels_dev.h"

#define TEST(name) static void name(void **state)
#define EACH_SET(s) for (const char *const *s = kd_sets(); *s; s++)

/* How far a stored result may be off because of its type. */
static double half_step(vc_dtype t) { return t == VC_BF16 ? 0x1p-8 : 1e-7; }

/* ---- matmul ---- */

typedef struct mm_case {
    int64_t m, n, k;
    bool ta, tb;
    vc_dtype a, b, c;
    float alpha, beta;
    bool bias;
    int gap;                                  /* unused elements between rows */
} mm_case;
#define F VC_F32
#define H VC_BF16
static const mm_case mm_cases[] = {
    { 1, 1, 1, 0, 0, F, F, F, 1, 0, 0, 0 },
    { 3, 7, 17, 0, 1, F, F, F, 1, 0, 1, 0 },
    { 7, 3, 33, 1, 0, F, F, F, 1, 1, 0, 3 },
    { 33, 65, 17, 0, 0, F, F, F, 0.5f, 2, 1, 5 },
    { 65, 33, 300, 1, 1, F, F, F, 1, -0.5f, 0, 1 },
    { 17, 65, 513, 0, 1, F, H, F, 1, 1, 1, 0 },
    { 200, 40, 65, 0, 1, F, VC_F16, F, 1, 0, 1, 0 },
    { 31, 47, 70, 0, 1, F, VC_F8E4M3, F, 2, 0, 0, 0 },
    { 31, 47, 70, 0, 0, F, VC_F8E5M2, H, 1, 1, 1, 2 },
    { 40, 129, 600, 0, 1, H, H, H, 1, 0, 1, 0 },
    { 33, 31, 65, 0, 0, H, H, H, 1, 1, 0, 1 },
    { 65, 97, 31, 1, 0, H, H, F, 1, 0, 0, 1 },
    { 96, 64, 1100, 1, 0, H, H, F, 1, 1, 0, 0 },
    { 1, 33, 1, 0, 1, H, H, H, 1, 0, 0, 0 },
    { 17, 7, 33, 0, 1, H, F, H, 1, 0, 0, 0 },
    { 19, 40, 45, 1, 1, H, VC_F8E4M3, F, 0.25f, 1, 1, 3 },
    { 50, 4, 64, 0, 1, F, F, F, 1, 0, 0, 0 },
    { 4, 50, 130, 1, 0, F, H, F, 1, 1, 0, 0 },
    { 50, 64, 4, 0, 1, H, F, H, 2, 1, 0, 0 },
    { 3, 5, 0, 0, 1, F, F, F, 1, 0.5f, 1, 0 },
    { 3, 5, 0, 0, 1, F, F, F, 1, 0, 0, 0 },
    { 800, 70, 20, 0, 1, F, F, F, 1, 0, 1, 0 },
    /* a LoRA's gradients: few rows, B as it lies, in whole panels and a rest; and turned */
    { 16, 150, 300, 1, 0, F, F, F, 1, 0, 0, 3 },
    { 23, 97, 260, 1, 0, F, F, H, 0.5f, 1, 1, 0 },
    { 4, 64, 140, 0, 0, F, F, F, 1, 1, 1, 2 },
    { 130, 48, 300, 1, 0, F, F, F, 1, 1, 0, 1 },
    { 150, 101, 129, 1, 0, F, F, H, 2, 0.5f, 0, 0 },
};
#undef F
#undef H

typedef struct mm_data {
    vt_tensor *a, *b, *c, *bias, *was;
} mm_data;

static mm_data mm_make(const mm_case *x)
{
    kd_rng r = { 7 }, again;
    mm_data d = { 0 };
    d.a = kd_tensor(&r, x->a, 2, (int64_t[]){ x->ta ? x->k : x->m, x->ta ? x->m : x->k }, x->gap,
                    NULL);
    d.b = kd_tensor(&r, x->b, 2, (int64_t[]){ x->tb ? x->n : x->k, x->tb ? x->k : x->n }, x->gap,
                    NULL);
    if (x->bias)
        d.bias = kd_tensor(&r, VC_F32, 1, &x->n, 0, NULL);
    again = r;
    d.c = kd_tensor(&r, x->c, 2, (int64_t[]){ x->m, x->n }, x->gap, NULL);
    d.was = kd_tensor(&again, x->c, 2, (int64_t[]){ x->m, x->n }, x->gap, NULL);
    if (x->beta == 0)
        kd_fill(d.c, NAN);                    /* must not be read */
    return d;
}

static void mm_free(mm_data *d)
{
    kd_free(d->a), kd_free(d->b), kd_free(d->c), kd_free(d->bias), kd_free(d->was);
}

static void mm_run(const kd_dev *d, const mm_case *x, const mm_data *t)
{
    d->be->matmul(d->dev, t->c, t->a, x->ta, t->b, x->tb, t->bias, x->alpha, x->beta);
}

static void mm_check(const char *set, const kd_dev *d, const mm_case *x, size_t row,
                     const mm_data *t)
{
    bool as_bf16 = d->bf16 && x->a == VC_BF16;

    for (int64_t i = 0; i < x->m; i++)
        for (int64_t j = 0; j < x->n; j++) {
            double sum = 0, size = 0;
            for (int64_t k = 0; k < x->k; k++) {
                double b = x->tb ? kd_at(t->b, j, k, 0, 0) : kd_at(t->b, k, j, 0, 0);
                double p = (x->ta ? kd_at(t->a, k, i, 0, 0) : kd_at(t->a, i, k, 0, 0)) *
                           (as_bf16 ? kd_bf16(b) : b);
                sum += p;
                size += fabs(p);
            }
            double want = x->alpha * sum + (x->bias ? kd_at(t->bias, j, 0, 0, 0) : 0) +
                          (x->beta ? x->beta * kd_at(t->was, i, j, 0, 0) : 0);
            double got = kd_at(t->c, i, j, 0, 0);
            if (!(fabs(got - want) <= 5e-7 * (size + 4) + half_step(x->c) * fabs(want)))
                fail_msg("%s, row %zu: c[%d,%d] is %.9g, not %.9g", set, row, (int)i, (int)j, got,
                         want);
        }
}

TEST(matmul_against_f64)
{
    (void)state;
    EACH_SET(s) {
        kd_dev d = kd_open(*s, 2);
        for (size_t i = 0; i < COUNT(mm_cases); i++) {
            mm_data t = mm_make(&mm_cases[i]);
            mm_run(&d, &mm_cases[i], &t);
            mm_check(*s, &d, &mm_cases[i], i, &t);
            mm_free(&t);
        }
        kd_close(&d);
    }
}

/* What AVX-512 machines do for f32, by whatever oneDNN has for this machine. */
TEST(matmul_by_onednn)
{
    (void)state;
    EACH_SET(s) {
        kd_dev d = kd_open(*s, 2);
        for (size_t i = 0; d.dev->dnnl && i < COUNT(mm_cases); i++) {
            const mm_case *x = &mm_cases[i];
            bool can = x->a == VC_F32 && x->b == VC_F32 && x->c == VC_F32 && x->alpha == 1 &&
                       (x->beta == 0 || x->beta == 1) && x->k > 0 && x->m > 1 && x->n > 1;
            for (int again = 0; again < 2; again++) {     /* the second time from what was kept */
                mm_data t = mm_make(x);
                bool done = cpu_dnnl_matmul(d.dev, t.c, t.a, x->ta, t.b, x->tb, t.bias, x->alpha,
                                            x->beta, true);
                if (done != can)
                    fail_msg("%s, row %zu: oneDNN %s it", *s, i, done ? "did" : "did not do");
                if (done)
                    mm_check(*s, &d, x, i, &t);
                mm_free(&t);
            }
        }
        kd_close(&d);
    }
}

TEST(matmul_same_bits_for_any_threads)
{
    (void)state;
    EACH_SET(s)
        for (size_t i = 0; i < COUNT(mm_cases); i++) {
            mm_data one = mm_make(&mm_cases[i]);
            kd_dev d = kd_open(*s, 1);
            mm_run(&d, &mm_cases[i], &one);
            kd_close(&d);
            for (int threads = 2; threads <= 5; threads += 3) {
                mm_data many = mm_make(&mm_cases[i]);
                d = kd_open(*s, threads);
                mm_run(&d, &mm_cases[i], &many);
                kd_close(&d);
                if (memcmp(one.c->data, many.c->data, kd_bytes(one.c)))
                    fail_msg("%s, row %zu: other bits with %d threads", *s, i, threads);
                mm_free(&many);
            }
            mm_free(&one);
        }
}

/* ---- attention ---- */

typedef struct at_case {
    int64_t b, h, sq, sk, d;
    vc_dtype t;
    int gap;
    bool head_first;                          /* [B,H,S,D] in memory instead of [B,S,H,D] */
    int32_t kv_len[2];                        /* 0: no kv_len */
    float size;                               /* of the queries: large ones make a peaked softmax */
} at_case;
static const at_case at_cases[] = {
    { 1, 1, 1, 1, 8, VC_F32, 0, 0, { 0 }, 1 },
    { 1, 2, 3, 7, 16, VC_F32, 0, 0, { 0 }, 1 },
    { 2, 3, 17, 33, 24, VC_F32, 8, 0, { 33, 1 }, 1 },
    { 1, 2, 65, 65, 64, VC_F32, 0, 1, { 0 }, 4 },
    { 2, 1, 100, 300, 40, VC_F32, 3, 1, { 257, 96 }, 1 },
    { 1, 1, 300, 97, 32, VC_F32, 0, 0, { 0 }, 30 },
    { 1, 1, 260, 520, 128, VC_F32, 0, 0, { 0 }, 1 },
    { 1, 1, 33, 40, 256, VC_F32, 0, 0, { 0 }, 1 },
    { 1, 5, 33, 200, 16, VC_F32, 0, 0, { 0 }, 1 },          /* more heads than threads, unevenly */
    { 1, 1, 1, 9, 8, VC_BF16, 0, 0, { 0 }, 1 },
    { 2, 2, 33, 65, 40, VC_BF16, 8, 0, { 17, 65 }, 1 },
    { 1, 1, 300, 270, 64, VC_BF16, 0, 1, { 0 }, 2 },
    { 1, 2, 65, 31, 72, VC_BF16, 4, 0, { 0 }, 8 },
};

typedef struct at_data {
    vt_tensor *q, *k, *v, *o, *dout, *dq, *dk, *dv, *lse, *kv_len;
    float scale;
} at_data;

static at_data at_make(const at_case *c)
{
    static const int head_first[] = { 0, 2, 1, 3 };
    const int *order = c->head_first ? head_first : NULL;
    const int64_t q[] = { c->b, c->sq, c->h, c->d }, k[] = { c->b, c->sk, c->h, c->d };
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
    d->be->attention(d->dev, t->o, t->lse, t->q, t->k, t->v, t->kv_len, NULL, t->scale);
}

static void at_backward(const kd_dev *d, const at_data *t)
{
    d->be->attention_grad(d->dev, t->dq, t->dk, t->dv, t->dout, t->q, t->k, t->v, t->o, t->lse,
                          t->kv_len, t->scale);
}

/* One head in f64: [S][D] each, P [Sq][Sk], lse [Sq]. */
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

static void at_compare(const char *set, size_t row, const char *what, const vt_tensor *x, int64_t b,
                       int64_t h, const double *want, double base, double within)
{
    double largest = 0;

    for (int64_t i = 0; i < x->dim[1] * x->dim[3]; i++)
        largest = fmax(largest, fabs(want[i]));
    for (int64_t i = 0; i < x->dim[1]; i++)
        for (int64_t e = 0; e < x->dim[3]; e++) {
            double got = kd_at(x, b, i, h, e), w = base + want[i * x->dim[3] + e];
            if (!(fabs(got - w) <= within * (largest + fabs(base)) + 1e-6))
                fail_msg("%s, row %zu: %s[%d,%d,%d,%d] is %.9g, not %.9g", set, row, what, (int)b,
                         (int)i, (int)h, (int)e, got, w);
        }
}

/* bf16 rounds the results; AMX also rounds P and dS. Measured: half of these. */
static double at_tolerance(const kd_dev *d, const at_case *c)
{
    return c->t == VC_F32 ? 5e-6 : d->bf16 ? 1.6e-2 : 5e-3;
}

/* refs: one per sample and head. base: what the gradients held before. */
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

/* Twice: over empty gradients that hold NaN, and added to gradients that hold 0.5. Also with more
 * threads than heads, so that blocks of keys are shared out. */
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

/* A bias that depends on the distance: a row per head, walked backwards by queries. */
static vt_tensor at_bias(const at_case *c, const vt_tensor *line)
{
    vt_tensor e = *line;                       /* [H, Sq+Sk-1] */

    e.nd = 4;
    memcpy(e.dim, (int64_t[]){ c->b, c->h, c->sq, c->sk }, 4 * sizeof *e.dim);
    memcpy(e.stride, (int64_t[]){ 0, line->stride[0], -1, 1 }, 4 * sizeof *e.stride);
    e.data = (float *)line->data + c->sq - 1;
    return e;
}

/* Query i of a head: its output row and log-sum-exp. */
static double at_biased_query(const at_case *c, const at_data *t, const vt_tensor *bias, int64_t b,
                              int64_t h, int64_t i, double *o)
{
    int64_t keys = c->kv_len[0] ? c->kv_len[b] : c->sk;
    double sum = 0;

    memset(o, 0, (size_t)c->d * sizeof *o);
    for (int64_t j = 0; j < keys; j++) {
        double s = kd_at(bias, b, h, i, j), p;
        for (int64_t e = 0; e < c->d; e++)
            s += t->scale * kd_at(t->q, b, i, h, e) * kd_at(t->k, b, j, h, e);
        sum += p = exp(s);
        for (int64_t e = 0; e < c->d; e++)
            o[e] += p * kd_at(t->v, b, j, h, e);
    }
    for (int64_t e = 0; e < c->d; e++)
        o[e] /= sum;
    return log(sum);
}

/* Every eleventh query and the last: q of size 1, so that exp needs no maximum. */
static void at_biased_check(const char *set, size_t row, const at_data *t, const vt_tensor *bias,
                            double tol)
{
    const at_case *c = &at_cases[row];
    double o[256];

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
            d.be->attention(d.dev, t.o, t.lse, t.q, t.k, t.v, t.kv_len, &bias, t.scale);
            at_biased_check(*s, i, &t, &bias, at_tolerance(&d, c));
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
        d.be->attention_grad(d.dev, b.dq, NULL, NULL, b.dout, b.q, b.k, b.v, b.o, b.lse, NULL,
                             b.scale);
        d.be->attention_grad(d.dev, NULL, b.dk, b.dv, b.dout, b.q, b.k, b.v, b.o, b.lse, NULL,
                             b.scale);
        assert_memory_equal(a.dq->data, b.dq->data, kd_bytes(a.dq));
        assert_memory_equal(a.dk->data, b.dk->data, kd_bytes(a.dk));
        assert_memory_equal(a.dv->data, b.dv->data, kd_bytes(a.dv));
        at_free(&a);
        at_free(&b);
        kd_close(&d);
    }
}

/* ---- convolution ---- */

typedef struct cv_case {
    int64_t x[5], k, kernel[3];               /* [N,T,H,W,C]; output channels; kernel sizes */
    vt_conv c;
    vc_dtype t, w;
    bool bias;
} cv_case;
#define F VC_F32
#define H VC_BF16
/* Weights of bf16 inputs are exact in bf16, so that all sets multiply the same numbers. */
static const cv_case cv_cases[] = {
    { { 1, 1, 1, 1, 1 }, 1, { 1, 1, 1 }, { { 1, 1, 1 }, { 0 }, { 0 }, NULL }, F, F, false },
    { { 1, 1, 5, 7, 3 }, 8, { 1, 3, 3 },
      { { 1, 1, 1 }, { 0, 1, 1 }, { 0, 1, 1 }, NULL }, F, F, true },
    { { 1, 1, 6, 5, 3 }, 8, { 1, 3, 3 },
      { { 1, 1, 1 }, { 0, 0, 1 }, { 0, 2, 1 }, NULL }, F, F, true },
    { { 2, 3, 4, 5, 16 }, 17, { 3, 3, 3 },
      { { 1, 1, 1 }, { 2, 1, 1 }, { 0, 1, 1 }, NULL }, F, H, true },
    { { 1, 1, 9, 8, 7 }, 33, { 1, 3, 3 },
      { { 1, 2, 2 }, { 0, 0, 0 }, { 0, 1, 1 }, NULL }, F, F, true },
    { { 1, 5, 3, 3, 4 }, 5, { 3, 1, 1 }, { { 2, 1, 1 }, { 0 }, { 0 }, NULL }, F, VC_F16, false },
    { { 1, 2, 6, 6, 32 }, 3, { 1, 1, 1 }, { { 1, 1, 1 }, { 0 }, { 0 }, NULL }, F, F, true },
    { { 1, 1, 4, 4, 2 }, 2, { 1, 5, 5 },
      { { 1, 3, 3 }, { 0, 4, 4 }, { 0, 3, 3 }, NULL }, F, F, true },
    { { 1, 3, 5, 35, 20 }, 40, { 3, 3, 3 },
      { { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 }, NULL }, H, H, true },
    { { 1, 1, 7, 9, 3 }, 9, { 1, 3, 3 },
      { { 1, 2, 2 }, { 0, 1, 1 }, { 0, 1, 1 }, NULL }, H, H, false },
    { { 2, 1, 7, 9, 6 }, 70,
      { 1, 3, 3 }, { { 1, 2, 2 }, { 0, 1, 1 }, { 0, 1, 1 }, NULL }, H, VC_F8E5M2, 1 },
};
#undef F
#undef H

static double cv_at(const cv_case *c, const vt_tensor *x, const vt_tensor *w, const int64_t o[5],
                    double *size)
{
    double sum = 0;

    for (int64_t kt = 0; kt < c->kernel[0]; kt++)
        for (int64_t kh = 0; kh < c->kernel[1]; kh++)
            for (int64_t kw = 0; kw < c->kernel[2]; kw++) {
                int64_t t = o[1] * c->c.stride[0] + kt - c->c.before[0];
                int64_t h = o[2] * c->c.stride[1] + kh - c->c.before[1];
                int64_t v = o[3] * c->c.stride[2] + kw - c->c.before[2];
                if (t < 0 || h < 0 || v < 0 || t >= c->x[1] || h >= c->x[2] || v >= c->x[3])
                    continue;
                for (int64_t ch = 0; ch < c->x[4]; ch++) {
                    float wf, xf;
                    int64_t wi = (((o[4] * c->x[4] + ch) * c->kernel[0] + kt) * c->kernel[1] + kh) *
                                     c->kernel[2] + kw;
                    int64_t xi =
                        (((o[0] * c->x[1] + t) * c->x[2] + h) * c->x[3] + v) * c->x[4] + ch;
                    vc_to_f32(&wf, (char *)w->data + (size_t)wi * vc_dtype_size(c->w), c->w, 1);
                    vc_to_f32(&xf, (char *)x->data + (size_t)xi * vc_dtype_size(c->t), c->t, 1);
                    sum += (double)wf * xf;
                    *size += fabs(wf * xf);
                }
            }
    return sum;
}

/* dnnl: by oneDNN itself, where it can; else whatever the device prefers. */
static void cv_check(const char *set, const kd_dev *d, const cv_case *c, size_t row, bool dnnl)
{
    kd_rng r = { 13 };
    int64_t yd[5] = { c->x[0], 0, 0, 0, c->k };
    for (int i = 0; i < 3; i++)
        yd[i + 1] =
            (c->x[i + 1] + c->c.before[i] + c->c.after[i] - c->kernel[i]) / c->c.stride[i] + 1;
    vt_tensor *x = kd_tensor(&r, c->t, 5, c->x, 0, NULL), *y = kd_tensor(&r, c->t, 5, yd, 0, NULL);
    vt_tensor *b = c->bias ? kd_tensor(&r, c->w, 1, &c->k, 0, NULL) : NULL;
    vt_tensor *w = kd_tensor(&r, c->w, 5, (int64_t[]){ c->k, c->x[4], c->kernel[0], c->kernel[1],
                                                       c->kernel[2] }, 0, NULL);

    for (int again = 0; again < 2; again++) { /* the second time from what was kept */
        kd_fill(y, NAN);
        bool done = dnnl && cpu_dnnl_conv3d(d->dev, y, x, w, b, &c->c);
        if (dnnl && d->dev->dnnl && c->t == VC_F32 && !done)
            fail_msg("%s, row %zu: oneDNN did not do it", set, row);
        if (!done)
            d->be->conv3d(d->dev, y, x, w, b, &c->c);
        for (int64_t i = 0; i < vt_count(y); i++) {
            int64_t o[5], rest = i;
            for (int k = 4; k >= 0; k--) {
                o[k] = rest % yd[k];
                rest /= yd[k];
            }
            double size = 1, want = cv_at(c, x, w, o, &size);
            if (b)
                want += kd_at(b, o[4], 0, 0, 0);
            float got;
            vc_to_f32(&got, (char *)y->data + (size_t)i * vc_dtype_size(c->t), c->t, 1);
            if (!(fabs(got - want) <= 5e-7 * size + half_step(c->t) * fabs(want)))
                fail_msg("%s, row %zu: y[%d] is %.9g, not %.9g", set, row, (int)i, got, want);
        }
    }
    kd_free(x), kd_free(y), kd_free(w), kd_free(b);
}

TEST(convolution_against_f64)
{
    (void)state;
    EACH_SET(s)
        for (int dnnl = 0; dnnl < 2; dnnl++) {
            kd_dev d = kd_open(*s, 2);
            cpu_dnnl *kept = d.dev->dnnl;
            if (!dnnl)                        /* as in a build without it */
                d.dev->dnnl = NULL;
            for (size_t i = 0; i < COUNT(cv_cases); i++)
                cv_check(*s, &d, &cv_cases[i], i, dnnl);
            d.dev->dnnl = kept;
            kd_close(&d);
        }
}

/* Frames in front give what they would give as part of the input, on every set, by oneDNN too. */
static void cv_front(const char *set, const kd_dev *d, vc_dtype t, bool one)
{
    enum { T = 4, H = 5, W = 9, C = 12, K = 20, N = H * W };
    kd_rng r = { 17 };
    vt_conv c = { { 1, 1, 1 }, { 2, 1, 1 }, { 0, 1, 1 }, NULL }, whole = c;
    vt_tensor *all = kd_tensor(&r, t, 5, (int64_t[]){ 1, T + 2, H, W, C }, 0, NULL);
    vt_tensor *y = kd_tensor(&r, t, 5, (int64_t[]){ 1, T, H, W, K }, 0, NULL);
    vt_tensor *want = kd_tensor(&r, t, 5, (int64_t[]){ 1, T, H, W, K }, 0, NULL);
    vt_tensor *w = kd_tensor(&r, VC_BF16, 5, (int64_t[]){ K, C, 3, 3, 3 }, 0, NULL);
    size_t frame = (size_t)N * C * vc_dtype_size(t);

    if (one)
        memcpy((char *)all->data + frame, all->data, frame);
    vt_tensor front = *all, x = *all;
    front.dim[1] = one ? 1 : 2;
    x.dim[1] = T;
    x.data = (char *)x.data + 2 * frame;
    c.front = &front;
    whole.before[0] = 0;
    d->be->conv3d(d->dev, want, all, w, NULL, &whole);
    kd_fill(y, NAN);
    d->be->conv3d(d->dev, y, &x, w, NULL, &c);
    for (int64_t i = 0; i < vt_count(y); i++) {
        float a, b;
        vc_to_f32(&a, (char *)y->data + (size_t)i * vc_dtype_size(t), t, 1);
        vc_to_f32(&b, (char *)want->data + (size_t)i * vc_dtype_size(t), t, 1);
        if (!(fabsf(a - b) <= 1e-5f + (t == VC_BF16 ? 0.01f * fabsf(b) : 0)))
            fail_msg("%s: y[%d] is %.9g, not %.9g", set, (int)i, (double)a, (double)b);
    }
    kd_free(all), kd_free(y), kd_free(want), kd_free(w);
}

TEST(convolution_reads_frames_in_front)
{
    (void)state;
    EACH_SET(s) {
        kd_dev d = kd_open(*s, 2);
        for (int i = 0; i < 4; i++)
            cv_front(*s, &d, i & 1 ? VC_BF16 : VC_F32, i & 2);
        kd_close(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matmul_against_f64), cmocka_unit_test(matmul_by_onednn),
        cmocka_unit_test(matmul_same_bits_for_any_threads),
        cmocka_unit_test(attention_against_f64), cmocka_unit_test(attention_with_a_bias),
        cmocka_unit_test(attention_repeats_its_bits),
        cmocka_unit_test(attention_only_some_gradients), cmocka_unit_test(convolution_against_f64),
        cmocka_unit_test(convolution_reads_frames_in_front),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
