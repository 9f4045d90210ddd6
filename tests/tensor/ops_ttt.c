/* ops_ttt.c - rows of test_ops: the inner scan of test-time training (op_ttt.c). */
#include <stdlib.h>
#include <string.h>

#include "tests/tensor/ops.h"

enum { Q, K, TARGET, ETA, GAMMA, BETA, W1, B1, W2, B2 };

/* The inner model of one head, and what a token computes with it. */
typedef struct model {
    int64_t d, e, layers;
    const double *gamma, *beta;
    double *w1, *b1, *w2, *b2;                 /* [d,e], [e], [e,d], [d] */
} model;

static double gelu_slope(double x)
{
    double a = sqrt(2 / M_PI), t = tanh(a * (x + 0.044715 * x * x * x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * a * (1 + 3 * 0.044715 * x * x);
}

/* Computes z [d] = f(x), and z1 and x2 [e] of two layers. */
static void forward(const model *m, const double *x, double *z1, double *x2, double *z)
{
    for (int64_t j = 0; j < m->e; j++) {
        z1[j] = m->b1[j];
        for (int64_t i = 0; i < m->d; i++)
            z1[j] += x[i] * m->w1[i * m->e + j];
        x2[j] = op_gelu(z1[j]);
    }
    for (int64_t i = 0; i < m->d; i++) {
        z[i] = m->layers == 2 ? m->b2[i] : z1[i];
        for (int64_t j = 0; m->layers == 2 && j < m->e; j++)
            z[i] += x2[j] * m->w2[j * m->d + i];
    }
}

/* Normalises z in place; returns 1 / deviation. */
static double normalise(double *z, int64_t d)
{
    double mean = 0, var = 0;

    for (int64_t i = 0; i < d; i++)
        mean += z[i] / (double)d;
    for (int64_t i = 0; i < d; i++)
        var += (z[i] - mean) * (z[i] - mean) / (double)d;
    double scale = 1 / sqrt(var + 1e-8);
    for (int64_t i = 0; i < d; i++)
        z[i] = (z[i] - mean) * scale;
    return scale;
}

/* Subtracts eta times the slopes of one token's loss in `from` from `to`. */
static void learn(const model *from, model *to, const double *k, const double *target, double eta,
                  double *tmp)
{
    int64_t d = from->d, e = from->e;
    double *z1 = tmp, *x2 = z1 + e, *g1 = x2 + e, *z = g1 + e, *g = z + d, mg = 0, mgz = 0;

    forward(from, k, z1, x2, z);
    double scale = normalise(z, d);
    for (int64_t i = 0; i < d; i++) {
        g[i] = (from->gamma[i] * z[i] + from->beta[i] - target[i]) * from->gamma[i];
        mg += g[i] / (double)d;
        mgz += g[i] * z[i] / (double)d;
    }
    for (int64_t i = 0; i < d; i++)
        g[i] = scale * (g[i] - mg - z[i] * mgz);
    for (int64_t j = 0; j < e; j++)
        g1[j] = from->layers == 1 ? g[j] : op_dot(from->w2 + j * d, g, d) * gelu_slope(z1[j]);
    for (int64_t j = 0; j < e; j++) {
        to->b1[j] -= eta * g1[j];
        for (int64_t i = 0; i < d; i++) {
            to->w1[i * e + j] -= eta * k[i] * g1[j];
            if (from->layers == 2)
                to->w2[j * d + i] -= eta * x2[j] * g[i];
        }
    }
    for (int64_t i = 0; i < d && from->layers == 2; i++)
        to->b2[i] -= eta * g[i];
}

static void copy(const model *m, model *to)
{
    memcpy(to->w1, m->w1, (size_t)(m->d * m->e) * 8);
    memcpy(to->b1, m->b1, (size_t)m->e * 8);
    if (m->layers == 2) {
        memcpy(to->w2, m->w2, (size_t)(m->d * m->e) * 8);
        memcpy(to->b2, m->b2, (size_t)m->d * 8);
    }
}

/* Scans one head of one sample; token t of x is at x + t stride. */
static void scan(double *y, const double *const *x, const op_args *a, int64_t b, int64_t h,
                 double *tmp)
{
    int64_t length = a->s[Q].dim[1], heads = a->s[Q].dim[2], d = a->s[Q].dim[3];
    int64_t e = op_last(&a->s[W1]), m = (int64_t)a->c->arg[0], at = b * length * heads + h;
    model old = { d, e, a->n > W2 ? 2 : 1, x[GAMMA] + h * d, x[BETA] + h * d, tmp, tmp + d * e,
                  tmp + d * e + e, tmp + 2 * d * e + e }, new = old;
    model start = old;

    tmp += 2 * d * e + e + d;
    new.w1 = tmp, new.b1 = tmp + d * e, new.w2 = new.b1 + e, new.b2 = new.w2 + d * e;
    tmp = new.b2 + d;
    start.w1 = (double *)x[W1] + h * d * e, start.b1 = (double *)x[B1] + h * e;
    if (start.layers == 2)
        start.w2 = (double *)x[W2] + h * d * e, start.b2 = (double *)x[B2] + h * d;
    copy(&start, &old);
    for (int64_t t0 = 0; t0 < length; t0 += m) {
        copy(&old, &new);
        for (int64_t t = t0; t < t0 + m; t++) {
            int64_t i = at + t * heads;
            learn(&old, &new, x[K] + i * d, x[TARGET] + i * d, x[ETA][i] * a->c->arg[2], tmp);
        }
        for (int64_t t = t0; t < t0 + m; t++) {
            int64_t i = (at + t * heads) * d;
            double *z = tmp + 2 * e;
            forward(&new, x[Q] + i, tmp, tmp + e, z);
            normalise(z, d);
            for (int64_t k = 0; k < d; k++)
                y[i + k] = x[Q][i + k] + old.gamma[k] * z[k] + old.beta[k];
        }
        copy(&new, &old);
    }
}

/* arg: mini-batch, group, a factor of the step sizes. */
static int64_t ref_ttt(double *y, const double *const *x, const op_args *a)
{
    int64_t d = a->s[Q].dim[3], e = op_last(&a->s[W1]);
    double *tmp = y ? malloc((size_t)(4 * d * e + 8 * (d + e)) * sizeof *tmp) : NULL;

    for (int64_t b = 0; tmp && b < a->s[Q].dim[0]; b++)
        for (int64_t h = 0; h < a->s[Q].dim[2]; h++)
            scan(y, x, a, b, h, tmp);
    free(tmp);
    return op_count(&a->s[Q]);
}

OP_RUN(ttt, vt_ttt_scan(g, &(vt_ttt){ .q = x[Q], .k = x[K], .target = x[TARGET],
                                      .eta = vt_scale(g, x[ETA], OP_ARG(2)), .gamma = x[GAMMA],
                                      .beta = x[BETA], .w1 = x[W1], .b1 = x[B1], .w2 = OP_OPT(W2),
                                      .b2 = OP_OPT(B2), .mini_batch = (int64_t)a->c->arg[0],
                                      .group = (int64_t)a->c->arg[1] }))

/* Four inner steps amplify the rounding of products of some tens of terms; in bf16 the inputs are
 * exact, and values and gradients are rounded once, but eta is rounded when the row scales it. */
#define INNER .tol = 1e-4f, .tol16 = 3e-2f


const op_case ops_ttt[] = {
    { .name = "ttt_scan linear", .run = ttt, .ref = ref_ttt, INNER, .arg = { 4, 2, 0.05 },
      .in = { "2 12 2 8", "2 12 2 8", "2 12 2 8", "2 12 2", "2 8", "2 8", "2 8 8", "2 8" } },
    { .name = "ttt_scan mlp", .run = ttt, .ref = ref_ttt, INNER, .arg = { 4, 2, 0.05 },
      .in = { "2 12 2 8", "2 12 2 8", "2 12 2 8", "2 12 2", "2 8", "2 8", "2 8 20", "2 20",
              "2 20 8", "2 8" } },
    { .name = 0 },
};
