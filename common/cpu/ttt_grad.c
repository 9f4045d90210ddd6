/* ttt_grad.c - the inner scan of test-time training, backward; see cpu/ttt.h.
 *
 * A pair's mini-batches are taken from the last to the first. `slope` is the gradient of the state
 * after a mini-batch and becomes that of the state before it, in the order of the calculation
 * reversed: the output, the inner step, the loss's slopes, the model at k. The states within a
 * group are computed again from the one that forward kept. Sums over samples follow when all pairs
 * have ended, so the bits do not depend on the number of threads. */
#include "common/cpu/ttt.h"

#include <omp.h>
#include <string.h>

#include "common/cpu/loops.h"

typedef struct bwd {
    cpu_ttt f;
    const vt_ttt *grad;
    const vt_tensor *dout, *states;
    float *work;                               /* [pairs][s.work] */
} bwd;

static float *of_pair(const bwd *b, size_t pair) { return b->work + pair * b->f.s.work; }

/* Computes dq, and the gradients of the new weights and of the norm, from dout. */
static void output_grad(const cpu_ttt *f, const cpu_ttt_work *w, const float *state, float *slope,
                        float *dgamma, float *dbeta)
{
    const vt_ttt_size *s = &f->s;
    float stats[2];

    cpu_ttt_model(f, state, w->q, w->a1, w->y2, w->a2, w->slope_a, NULL);
    memcpy(w->dq, w->dout, s->m * s->dp * sizeof *w->dq);
    for (size_t i = 0; i < s->m; i++) {
        const float *a2 = w->a2 + i * s->dp;
        f->r->layer_stats(stats, a2, s->d, VT_TTT_EPS);
        f->r->norm_grad(w->da2 + i * s->dp, dgamma, dbeta, NULL, NULL, w->dout + i * s->dp, a2,
                        stats, w->gamma, NULL, NULL, s->d, false);
    }
    if (s->mlp) {
        cpu_ttt_against(f, w, s->ep, s->e, s->d, w->da2, s->dp, state + s->w2, s->dp, w->dy2,
                        false);
        f->r->mul(w->da1, w->dy2, w->slope_a, s->m * s->ep);
        cpu_ttt_outer(f, w, s->dp, s->e, w->y2, s->ep, w->da2, slope + s->w2);
        cpu_ttt_sum(f, s->dp, slope + s->b2, w->da2);
    }
    cpu_ttt_against(f, w, s->dp, s->d, s->e, w->da1, s->ep, state, s->ep, w->dq, true);
    cpu_ttt_outer(f, w, s->ep, s->d, w->q, s->dp, w->da1, slope);
    cpu_ttt_sum(f, s->ep, slope + s->b1, w->da1);
}

/* Computes the gradients dg [m,n] of a layer's slopes g and dx [m,k] of its inputs x through the
 * layer's step, whose weights have the gradients u and ub, and subtracts from deta. */
static void step_grad(const cpu_ttt *f, const cpu_ttt_work *w, size_t n, size_t wide, size_t k,
                      size_t pitch, const float *x, const float *g, const float *u,
                      const float *ub, float *dg, float *dx)
{
    for (size_t i = 0; i < f->s.m; i++)
        memcpy(dg + i * wide, ub, wide * sizeof *dg);
    cpu_ttt_inner(f, wide, k, x, pitch, u, dg, true);
    for (size_t i = 0; i < f->s.m; i++)
        w->deta[i] -= f->r->dot(g + i * wide, dg + i * wide, n);
    cpu_ttt_scale(f, w, wide, dg, dg);
    cpu_ttt_scale(f, w, wide, w->scaled, g);
    cpu_ttt_against(f, w, pitch, k, n, w->scaled, wide, u, wide, dx, false);
}

/* Computes dz1's part through gelu's slope, and adds to dg2 and w2's gradient, from dg1: the way
 * back through g1 = (g2 w2') gelu'(z1). */
static void hidden_grad(const cpu_ttt *f, const cpu_ttt_work *w, const float *state, float *slope)
{
    const vt_ttt_size *s = &f->s;
    size_t n = s->m * s->ep;

    f->r->mul(w->dz1, w->curve, w->h, n);
    f->r->mul(w->dz1, w->dz1, w->dg1, n);
    f->r->mul(w->dg1, w->dg1, w->slope, n);                   /* now h's gradient */
    cpu_ttt_inner(f, s->dp, s->e, w->dg1, s->ep, state + s->w2, w->dg2, true);
    cpu_ttt_outer(f, w, s->dp, s->e, w->dg1, s->ep, w->g2, slope + s->w2);
}

/* Computes row i of dz2 and dtarget from row i of dg2 (u), and adds to dgamma and dbeta. With n the
 * normalised z2, a = gamma error and P the projection of a norm's gradient, g2 = P a; P is
 * symmetric and depends on z2 itself, by n and by 1 / the deviation. */
static void loss_grad(const cpu_ttt *f, const cpu_ttt_work *w, size_t i, float *dgamma,
                      float *dbeta)
{
    const cpu_rows *r = f->r;
    size_t d = f->s.d, at = i * f->s.dp;
    const float *z2 = w->z2 + at, *stats = w->stats + 2 * i, *u = w->dg2 + at;
    float *da = w->dtarget + at, *dn = w->dz2 + at, *n = w->scaled, *a = n + f->s.dp;

    r->norm(n, z2, stats, NULL, NULL, NULL, NULL, d);
    r->mul(a, w->error + at, w->gamma, d);
    float an = r->dot(a, n, d) / (float)d, un = r->dot(u, n, d) / (float)d;
    float ug = r->dot(u, w->g2 + at, d) / (float)d;

    r->norm_grad(da, NULL, NULL, NULL, NULL, u, z2, stats, NULL, NULL, NULL, d, false);
    r->muladd(dgamma, da, w->error + at, d);
    r->axpby(dn, -stats[1] * an, u, 0, d);
    r->axpby(dn, -stats[1] * un, a, 1, d);
    r->mul(da, da, w->gamma, d);                              /* now error's gradient */
    r->add(dbeta, dbeta, da, d);
    r->muladd(dgamma, da, n, d);
    r->muladd(dn, da, w->gamma, d);
    r->norm_grad(dn, NULL, NULL, NULL, NULL, dn, z2, stats, NULL, NULL, NULL, d, false);
    r->axpby(dn, -stats[1] * ug, n, 1, d);
    r->axpby(da, -1, da, 0, d);
}

/* Adds to dk, and to the gradients of the weights before the step, from dz2. */
static void model_grad(const cpu_ttt *f, const cpu_ttt_work *w, const float *state, float *slope)
{
    const vt_ttt_size *s = &f->s;

    if (s->mlp) {
        cpu_ttt_outer(f, w, s->dp, s->e, w->x2, s->ep, w->dz2, slope + s->w2);
        cpu_ttt_sum(f, s->dp, slope + s->b2, w->dz2);
        cpu_ttt_against(f, w, s->ep, s->e, s->d, w->dz2, s->dp, state + s->w2, s->dp, w->dx2,
                        true);
        f->r->muladd(w->dz1, w->dx2, w->slope, s->m * s->ep);
    }
    cpu_ttt_against(f, w, s->dp, s->d, s->e, w->dz1, s->ep, state, s->ep, w->dk, true);
    cpu_ttt_outer(f, w, s->ep, s->d, w->k, s->dp, w->dz1, slope);
    cpu_ttt_sum(f, s->ep, slope + s->b1, w->dz1);
}

/* to (+)= x, n numbers at an element's address, `step` elements apart. */
static void store(const cpu_ttt *f, const vt_tensor *to, void *at, int64_t step, const float *x,
                  size_t n)
{
    size_t size = (size_t)step * vc_dtype_size(to->dtype);

    for (size_t i = 0; i < n; i += CPU_SPAN)
        (vt_adds(to) ? cpu_store_add : cpu_store)(f->r, (char *)at + i * size, to->dtype, step,
                                                  x + i, n - i < CPU_SPAN ? n - i : CPU_SPAN);
}

static void store_rows(const cpu_ttt *f, const vt_tensor *to, const float *x, size_t pair,
                       size_t step)
{
    const vt_ttt_size *s = &f->s;

    for (size_t i = 0; to && i < s->m; i++)
        store(f, to, cpu_token(to, pair / s->heads, step * s->m + i, pair % s->heads), 1,
              x + i * s->dp, s->d);
}

static void store_eta(const cpu_ttt *f, const vt_tensor *to, const float *x, size_t pair,
                      size_t step)
{
    if (to)
        store(f, to, cpu_token(to, pair / f->s.heads, step * f->s.m, pair % f->s.heads),
              to->stride[1], x, f->s.m);
}

static void read_inputs(const bwd *b, const cpu_ttt_work *w, size_t pair, size_t step)
{
    cpu_ttt_read(&b->f, w->k, b->f.t->k, pair, step);
    cpu_ttt_read(&b->f, w->target, b->f.t->target, pair, step);
    cpu_ttt_read_eta(&b->f, w->eta, pair, step);
}

/* Computes one mini-batch with the states before and after it. */
static void step_back(const bwd *b, const cpu_ttt_work *w, const float *before, const float *after,
                      size_t pair, size_t step)
{
    const cpu_ttt *f = &b->f;
    const vt_ttt_size *s = &f->s;
    float *at = of_pair(b, pair), *slope = at + s->slope;

    cpu_ttt_read(f, w->q, f->t->q, pair, step);
    cpu_ttt_read(f, w->dout, b->dout, pair, step);
    output_grad(f, w, after, slope, at + s->gamma, at + s->beta);

    read_inputs(b, w, pair, step);
    cpu_ttt_slopes(f, w, before);
    memset(w->deta, 0, s->m * sizeof *w->deta);
    if (s->mlp)
        step_grad(f, w, s->d, s->dp, s->e, s->ep, w->x2, w->g2, slope + s->w2, slope + s->b2,
                  w->dg2, w->dx2);
    step_grad(f, w, s->e, s->ep, s->d, s->dp, w->k, w->g1, slope, slope + s->b1, w->dg1, w->dk);
    if (s->mlp)
        hidden_grad(f, w, before, slope);
    for (size_t i = 0; i < s->m; i++)
        loss_grad(f, w, i, at + s->gamma, at + s->beta);
    model_grad(f, w, before, slope);

    store_rows(f, b->grad->q, w->dq, pair, step);
    store_rows(f, b->grad->k, w->dk, pair, step);
    store_rows(f, b->grad->target, w->dtarget, pair, step);
    store_eta(f, b->grad->eta, w->deta, pair, step);
}

static void scan_back(const bwd *b, const cpu_ttt_work *w, size_t pair)
{
    const vt_ttt_size *s = &b->f.s;
    float *at = of_pair(b, pair);

    cpu_ttt_norm(&b->f, w, pair % s->heads);
    memset(at + s->slope, 0, (s->work - s->slope) * sizeof *at);
    for (size_t n = s->groups; n-- > 0;) {
        size_t first = n * s->group, end = first + s->group;
        end = end < s->steps ? end : s->steps;
        memcpy(at, (const float *)b->states->data + (n * s->pairs + pair) * s->state,
               s->state * sizeof *at);
        for (size_t j = first; j < end; j++) {
            float *state = at + (j - first) * s->state, *next = state + s->state;
            read_inputs(b, w, pair, j);
            cpu_ttt_slopes(&b->f, w, state);
            memcpy(next, state, s->state * sizeof *at);
            cpu_ttt_learn(&b->f, w, next);
        }
        for (size_t j = end; j-- > first;) {
            const float *state = at + (j - first) * s->state;
            step_back(b, w, state, state + s->state, pair, j);
        }
    }
}

/* Stores a head's gradient of a parameter [heads,rows,n]: the sum over samples of the numbers at
 * `offset` in a pair's memory, which are rows of `wide`. */
static void store_sum(const bwd *b, const vt_tensor *to, size_t offset, size_t h, size_t rows,
                      size_t n, size_t wide)
{
    const vt_ttt_size *s = &b->f.s;
    float *sum = of_pair(b, h) + offset;

    if (!to)
        return;
    for (size_t i = 1; i < s->samples; i++)
        b->f.r->add(sum, sum, of_pair(b, i * s->heads + h) + offset, rows * wide);
    for (size_t i = 0; i < rows; i++)
        store(&b->f, to, (char *)to->data + (h * rows + i) * n * vc_dtype_size(to->dtype), 1,
              sum + i * wide, n);
}

static void store_head(const bwd *b, size_t h)
{
    const vt_ttt_size *s = &b->f.s;

    store_sum(b, b->grad->gamma, s->gamma, h, 1, s->d, s->dp);
    store_sum(b, b->grad->beta, s->beta, h, 1, s->d, s->dp);
    store_sum(b, b->grad->w1, s->slope, h, s->d, s->e, s->ep);
    store_sum(b, b->grad->b1, s->slope + s->b1, h, 1, s->e, s->ep);
    store_sum(b, b->grad->w2, s->slope + s->w2, h, s->e, s->d, s->dp);
    store_sum(b, b->grad->b2, s->slope + s->b2, h, 1, s->d, s->dp);
}

static void wrote(const vt_ttt *grad)
{
    vt_tensor *const all[] = { grad->q, grad->k, grad->target, grad->eta, grad->gamma,
                               grad->beta, grad->w1, grad->b1, grad->w2, grad->b2 };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            vt_wrote(all[i]);
}

void cpu_ttt_scan_grad(vt_dev *d, const vt_ttt *grad, const vt_tensor *dout,
                       const vt_tensor *states, vt_tensor *work, const vt_ttt *t)
{
    const bwd b = { .f = cpu_ttt_of(d, t), .grad = grad, .dout = dout, .states = states,
                    .work = work->data };
    const vt_ttt_size *s = &b.f.s;
    size_t bytes = cpu_ttt_place(s, true, NULL, NULL);
    int threads = s->pairs < (size_t)d->threads ? (int)s->pairs : d->threads;

    if (s->pairs == 0 || !cpu_scratch_all(d, threads, bytes, bytes))
        return;
#pragma omp parallel num_threads(threads)
    {
        float *base = cpu_scratch(d, omp_get_thread_num(), bytes);
        cpu_ttt_work w;
        memset(base, 0, bytes);
        cpu_ttt_place(s, true, base, &w);
        b.f.g->begin();
#pragma omp for schedule(static)
        for (size_t pair = 0; pair < s->pairs; pair++)
            scan_back(&b, &w, pair);
#pragma omp for schedule(static)
        for (size_t h = 0; h < s->heads; h++)
            store_head(&b, h);
        b.f.g->end();
    }
    wrote(grad);
}
