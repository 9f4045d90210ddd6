/* ttt.c - the inner scan of test-time training, forward; see cpu/ttt.h. */
#include "common/cpu/ttt.h"

#include <omp.h>
#include <string.h>

#include "common/cpu/loops.h"

/* ---- operands ---- */

cpu_ttt cpu_ttt_of(vt_dev *d, const vt_ttt *t)
{
    return (cpu_ttt){ .g = cpu_gemm_of(d, VC_F32), .r = d->rows, .t = t,
                      .s = vt_ttt_size_of(t) };
}

size_t cpu_ttt_place(const vt_ttt_size *s, bool backward, float *base, cpu_ttt_work *w)
{
    size_t wide = s->ep > s->dp ? s->ep : s->dp, tall = s->e > s->d ? s->e : s->d, at = 0;
    size_t narrow = s->m * s->dp, hidden = s->mlp ? s->m * s->ep : 0;
    cpu_ttt_work x = { 0 };

#define TAKE(field, n)                                                       \
    do {                                                                     \
        x.field = base && (n) > 0 ? base + at : NULL;                        \
        at += cpu_round_up(n, 16);                                           \
    } while (0)

    TAKE(gamma, s->dp);
    TAKE(beta, s->dp);
    TAKE(eta, s->m);
    TAKE(stats, 2 * s->m);
    TAKE(q, narrow);
    TAKE(k, narrow);
    TAKE(target, narrow);
    TAKE(z2, narrow);
    TAKE(error, narrow);
    TAKE(g2, narrow);
    TAKE(a2, narrow);
    TAKE(z1, hidden);
    TAKE(x2, hidden);
    TAKE(h, hidden);
    TAKE(g1, hidden);
    TAKE(a1, hidden);
    TAKE(y2, hidden);
    TAKE(slope, hidden);
    TAKE(scaled, (s->m + 1) * wide);
    TAKE(turned, tall * (wide > s->m ? wide : s->m));
    if (backward) {
        TAKE(dout, narrow);
        TAKE(da2, narrow);
        TAKE(dq, narrow);
        TAKE(dk, narrow);
        TAKE(deta, s->m);
        TAKE(dtarget, narrow);
        TAKE(dg2, narrow);
        TAKE(dz2, narrow);
        TAKE(curve, hidden);
        TAKE(slope_a, hidden);
        TAKE(da1, hidden);
        TAKE(dy2, hidden);
        TAKE(dg1, hidden);
        TAKE(dx2, hidden);
        TAKE(dz1, hidden);
    }
#undef TAKE
    if (!s->mlp) {
        x.z1 = x.z2, x.g1 = x.g2, x.a1 = x.a2;
        x.da1 = x.da2, x.dg1 = x.dg2, x.dz1 = x.dz2;
    }
    if (w)
        *w = x;
    return at * sizeof *base;
}

/* Reads the matrix [rows,n] of a head as rows of `wide` numbers. */
static void read_matrix(const cpu_ttt *f, float *to, const vt_tensor *x, size_t h, size_t rows,
                        size_t n, size_t wide)
{
    size_t size = vc_dtype_size(x->dtype);

    memset(to, 0, rows * wide * sizeof *to);
    for (size_t i = 0; i < rows; i++)
        f->r->load(to + i * wide, (const char *)x->data + (h * rows + i) * n * size, x->dtype, n);
}

void cpu_ttt_norm(const cpu_ttt *f, const cpu_ttt_work *w, size_t h)
{
    read_matrix(f, w->gamma, f->t->gamma, h, 1, f->s.d, f->s.dp);
    read_matrix(f, w->beta, f->t->beta, h, 1, f->s.d, f->s.dp);
}

void cpu_ttt_start(const cpu_ttt *f, float *state, size_t h)
{
    const vt_ttt_size *s = &f->s;

    read_matrix(f, state, f->t->w1, h, s->d, s->e, s->ep);
    read_matrix(f, state + s->b1, f->t->b1, h, 1, s->e, s->ep);
    if (!s->mlp)
        return;
    read_matrix(f, state + s->w2, f->t->w2, h, s->e, s->d, s->dp);
    read_matrix(f, state + s->b2, f->t->b2, h, 1, s->d, s->dp);
}

void cpu_ttt_read(const cpu_ttt *f, float *to, const vt_tensor *x, size_t pair, size_t step)
{
    const vt_ttt_size *s = &f->s;

    for (size_t i = 0; i < s->m; i++)
        f->r->load(to + i * s->dp,
                   cpu_token(x, pair / s->heads, step * s->m + i, pair % s->heads), x->dtype,
                   s->d);
}

void cpu_ttt_read_eta(const cpu_ttt *f, float *to, size_t pair, size_t step)
{
    const vt_tensor *x = f->t->eta;
    const void *at = cpu_token(x, pair / f->s.heads, step * f->s.m, pair % f->s.heads);
    const float *v = cpu_load(f->r, to, at, x->dtype, x->stride[1], f->s.m);

    if (v != to)
        memcpy(to, v, f->s.m * sizeof *to);
}

/* ---- products ---- */

void cpu_ttt_inner(const cpu_ttt *f, size_t wide, size_t k, const float *a, size_t pitch,
                   const float *b, float *c, bool add)
{
    f->g->block_as_is(f->s.m, wide, k, (const uint32_t *)a, pitch, b, wide, c, wide, add);
}

void cpu_ttt_outer(const cpu_ttt *f, const cpu_ttt_work *w, size_t wide, size_t rows,
                   const float *a, size_t pitch, const float *b, float *c)
{
    f->g->transpose((uint32_t *)w->turned, f->s.m, (const uint32_t *)a, pitch, f->s.m, rows);
    f->g->block_as_is(rows, wide, f->s.m, (const uint32_t *)w->turned, f->s.m, b, wide, c, wide,
                      true);
}

void cpu_ttt_against(const cpu_ttt *f, const cpu_ttt_work *w, size_t wide, size_t n, size_t k,
                     const float *a, size_t pitch, const float *b, size_t pitch_b, float *c,
                     bool add)
{
    f->g->transpose((uint32_t *)w->turned, wide, (const uint32_t *)b, pitch_b, n, k);
    cpu_ttt_inner(f, wide, k, a, pitch, w->turned, c, add);
}

void cpu_ttt_scale(const cpu_ttt *f, const cpu_ttt_work *w, size_t wide, float *y, const float *x)
{
    for (size_t i = 0; i < f->s.m; i++)
        f->r->axpby(y + i * wide, -w->eta[i], x + i * wide, 0, wide);
}

void cpu_ttt_sum(const cpu_ttt *f, size_t wide, float *sum, const float *x)
{
    for (size_t i = 0; i < f->s.m; i++)
        f->r->add(sum, sum, x + i * wide, wide);
}

/* ---- the inner model ---- */

/* z = x w + b for m rows x [m,k]. */
static void layer(const cpu_ttt *f, size_t wide, size_t k, const float *x, size_t pitch,
                  const float *weight, const float *bias, float *z)
{
    for (size_t i = 0; i < f->s.m; i++)
        memcpy(z + i * wide, bias, wide * sizeof *z);
    cpu_ttt_inner(f, wide, k, x, pitch, weight, z, true);
}

void cpu_ttt_model(const cpu_ttt *f, const float *state, const float *x, float *z1, float *x2,
                   float *z2, float *slope, float *curve)
{
    const vt_ttt_size *s = &f->s;

    layer(f, s->ep, s->d, x, s->dp, state, state + s->b1, z1);
    if (!s->mlp)
        return;
    f->r->gelu_tanh_jet(x2, slope, curve, z1, s->m * s->ep);
    layer(f, s->dp, s->e, x2, s->ep, state + s->w2, state + s->b2, z2);
}

void cpu_ttt_slopes(const cpu_ttt *f, const cpu_ttt_work *w, const float *state)
{
    const vt_ttt_size *s = &f->s;

    cpu_ttt_model(f, state, w->k, w->z1, w->x2, w->z2, w->slope, w->curve);
    for (size_t i = 0; i < s->m; i++) {
        float *stats = w->stats + 2 * i, *error = w->error + i * s->dp, *z2 = w->z2 + i * s->dp;
        f->r->layer_stats(stats, z2, s->d, VT_TTT_EPS);
        f->r->norm(error, z2, stats, w->gamma, w->beta, NULL, NULL, s->d);
        f->r->sub(error, error, w->target + i * s->dp, s->d);
        f->r->norm_grad(w->g2 + i * s->dp, NULL, NULL, NULL, NULL, error, z2, stats, w->gamma,
                        NULL, NULL, s->d, false);
    }
    if (!s->mlp)
        return;
    cpu_ttt_against(f, w, s->ep, s->e, s->d, w->g2, s->dp, state + s->w2, s->dp, w->h, false);
    f->r->mul(w->g1, w->h, w->slope, s->m * s->ep);
}

/* Takes the step of one layer with inputs x [m,k] and slopes g [m,wide]. */
static void learn_layer(const cpu_ttt *f, const cpu_ttt_work *w, size_t wide, size_t k,
                        const float *x, size_t pitch, const float *g, float *weight, float *bias)
{
    cpu_ttt_scale(f, w, wide, w->scaled, g);
    cpu_ttt_outer(f, w, wide, k, x, pitch, w->scaled, weight);
    cpu_ttt_sum(f, wide, bias, w->scaled);
}

void cpu_ttt_learn(const cpu_ttt *f, const cpu_ttt_work *w, float *state)
{
    const vt_ttt_size *s = &f->s;

    learn_layer(f, w, s->ep, s->d, w->k, s->dp, w->g1, state, state + s->b1);
    if (s->mlp)
        learn_layer(f, w, s->dp, s->e, w->x2, s->ep, w->g2, state + s->w2, state + s->b2);
}

/* ---- forward ---- */

/* Computes and stores o of a mini-batch by the new weights. */
static void emit(const cpu_ttt *f, const cpu_ttt_work *w, const float *state, vt_tensor *o,
                 size_t pair, size_t step)
{
    const vt_ttt_size *s = &f->s;
    float stats[2];

    cpu_ttt_read(f, w->q, f->t->q, pair, step);
    cpu_ttt_model(f, state, w->q, w->a1, w->y2, w->a2, NULL, NULL);
    for (size_t i = 0; i < s->m; i++) {
        float *row = w->a2 + i * s->dp;
        f->r->layer_stats(stats, row, s->d, VT_TTT_EPS);
        f->r->norm(row, row, stats, w->gamma, w->beta, NULL, NULL, s->d);
        f->r->add(row, row, w->q + i * s->dp, s->d);
        f->r->store(cpu_token(o, pair / s->heads, step * s->m + i, pair % s->heads), o->dtype, row,
                    s->d);
    }
}

static void scan(const cpu_ttt *f, const cpu_ttt_work *w, float *state, vt_tensor *o,
                 vt_tensor *states, size_t pair)
{
    const vt_ttt_size *s = &f->s;

    cpu_ttt_norm(f, w, pair % s->heads);
    cpu_ttt_start(f, state, pair % s->heads);
    for (size_t j = 0; j < s->steps; j++) {
        if (states && j % s->group == 0)
            memcpy((float *)states->data + (j / s->group * s->pairs + pair) * s->state, state,
                   s->state * sizeof *state);
        cpu_ttt_read(f, w->k, f->t->k, pair, j);
        cpu_ttt_read(f, w->target, f->t->target, pair, j);
        cpu_ttt_read_eta(f, w->eta, pair, j);
        cpu_ttt_slopes(f, w, state);
        cpu_ttt_learn(f, w, state);
        emit(f, w, state, o, pair, j);
    }
}

void cpu_ttt_scan(vt_dev *d, vt_tensor *o, vt_tensor *states, const vt_ttt *t)
{
    const cpu_ttt f = cpu_ttt_of(d, t);
    size_t buffers = cpu_ttt_place(&f.s, false, NULL, NULL);
    size_t bytes = buffers + f.s.state * sizeof(float);
    int threads = f.s.pairs < (size_t)d->threads ? (int)f.s.pairs : d->threads;

    if (f.s.pairs == 0 || f.s.steps == 0 || !cpu_scratch_all(d, threads, bytes, bytes))
        return;
#pragma omp parallel num_threads(threads)
    {
        char *base = cpu_scratch(d, omp_get_thread_num(), bytes);
        cpu_ttt_work w;
        memset(base, 0, buffers);
        cpu_ttt_place(&f.s, false, (float *)base, &w);
        f.g->begin();
#pragma omp for schedule(static)
        for (size_t pair = 0; pair < f.s.pairs; pair++)
            scan(&f, &w, (float *)(base + buffers), o, states, pair);
        f.g->end();
    }
}
