/* muon.c - Muon (Jordan et al. 2024) as torch has it: the step of a matrix is its moment, made
 * nearly orthogonal by a Newton-Schulz iteration of matrix products, which are computed in f32
 * here, where torch rounds to bf16. */
#include <math.h>

#include "common/tensor/engine.h"
#include "common/tensor/optimizer.h"

static const float A = 3.4445f, B = -4.775f, C = 2.0315f;
static const double LEAST_NORM = 1e-7;

static int64_t least_of(const vt_tensor *w)
{
    return w->dim[0] < w->dim[1] ? w->dim[0] : w->dim[1];
}

/* Two matrices of the parameter's size, two of its shorter side squared. */
static int64_t scratch(const vt_tensor *w)
{
    return 2 * vt_count(w) + 2 * least_of(w) * least_of(w);
}

static vt_tensor matrix(const vt_tensor *x, int64_t at, int64_t rows, int64_t columns)
{
    return (vt_tensor){ .dtype = VC_F32, .nd = 2, .dim = { rows, columns },
                        .stride = { columns, 1 }, .data = (float *)x->data + at };
}

static vt_tensor flat(const vt_tensor *x, int64_t at, int64_t n)
{
    return (vt_tensor){ .dtype = VC_F32, .nd = 1, .dim = { n }, .stride = { 1 },
                        .data = (float *)x->data + at };
}

/* y = a x, over what y had */
static void multiply(vt_ctx *g, vt_tensor *y, const vt_tensor *x, float a)
{
    g->be->fill(g->dev, y, 0);
    g->be->scale(g->dev, y, x, a);
}

/* Makes x [rows, columns] nearly orthogonal; returns the place of the result, x or `other`. With
 * S = x x' the iteration is x (A + B S + C S^2), by the shorter side of x. */
static const vt_tensor *orthogonal(vt_ctx *g, const vt_opt_part *p, vt_tensor *x, vt_tensor *other,
                                   int steps)
{
    const int64_t rows = x->dim[0], columns = x->dim[1], n = rows < columns ? rows : columns;
    const int64_t free = 2 * rows * columns;
    const bool tall = rows > columns;
    vt_tensor gram = matrix(p->scratch, free, n, n), by = matrix(p->scratch, free + n * n, n, n);
    double norm = fmax(vt_opt_length(g, x), LEAST_NORM);

    multiply(g, other, x, (float)(1 / norm));
    for (int i = 0; i < steps; i++) {
        vt_tensor *from = i % 2 ? x : other, *to = i % 2 ? other : x;
        g->be->matmul(g->dev, &gram, from, tall, from, !tall, NULL, 1, 0);
        multiply(g, &by, &gram, B);
        g->be->matmul(g->dev, &by, &gram, false, &gram, false, NULL, C, 1);
        multiply(g, to, from, A);
        if (tall)
            g->be->matmul(g->dev, to, from, false, &by, false, NULL, 1, 1);
        else
            g->be->matmul(g->dev, to, &by, false, from, false, NULL, 1, 1);
    }
    return steps % 2 ? x : other;
}

/* torch's match_rms_adamw and original */
static double factor_of(const vt_opt_step *o, int64_t rows, int64_t columns)
{
    const double r = (double)rows, c = (double)columns;

    return o->muon.rate == VT_MUON_ORIGINAL ? sqrt(fmax(1, r / c)) : 0.2 * sqrt(fmax(r, c));
}

static void whole(vt_ctx *g, const vt_opt_part *x, const vt_opt_step *o, const double *number)
{
    const int64_t n = vt_count(x->w), rows = x->w->dim[0], columns = x->w->dim[1];
    vt_update_args a = vt_opt_update_args(x, o);
    vt_tensor w = flat(x->w, 0, n), grad = flat(x->grad, 0, n), moment = flat(x->state[0], 0, n);
    vt_tensor mix = flat(x->scratch, 0, n), *states[VF_STATES] = { &moment };
    vt_tensor one = matrix(x->scratch, 0, rows, columns);
    vt_tensor other = matrix(x->scratch, n, rows, columns);

    (void)number;
    a.rule = VF_MUON_MOMENT;
    a.beta1 = (float)o->muon.momentum;
    a.gain[0] = o->muon.nesterov ? 1 - a.beta1 : 0;
    a.gain[1] = o->muon.nesterov ? a.beta1 : 1;
    g->be->update(g->dev, &mix, states, NULL, &grad, &a);
    vt_tensor step = flat(orthogonal(g, x, &one, &other, o->muon.steps), 0, n);
    a.rule = VF_ALONG;
    a.lr = (float)(o->lr * factor_of(o, rows, columns));
    a.weight_decay = (float)(o->weight_decay / factor_of(o, rows, columns));
    states[0] = &step;
    w.rounded = x->w->rounded;
    g->be->update(g->dev, &w, states, NULL, &grad, &a);
}

const vt_opt_run vt_muon = { .whole = whole, .scratch = scratch };
