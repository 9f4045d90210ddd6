/* adafactor.c - Adafactor (Shazeer & Stern 2018) as transformers has it, without a first moment:
 * the mean squares of a matrix's gradients are kept by rows and by columns, and a step is clipped
 * by its own root mean square. */
#include <math.h>

#include "common/tensor/engine.h"
#include "common/tensor/optimizer.h"

enum { RELATIVE };               /* the number of the run: the rate's factor in this step */
enum { ROWS, COLUMNS };          /* states of a matrix; a vector has one state, v */
static const double LEAST_SQUARE = 1e-30, LEAST_SCALE = 1e-3;

/* A parameter's last two axes; a tensor of more axes has several matrices. */
typedef struct sizes { int64_t matrices, rows, columns; } sizes;

static sizes sizes_of(const vt_tensor *w)
{
    const int64_t rows = w->nd < 2 ? 1 : w->dim[w->nd - 2], columns = w->dim[w->nd - 1];

    return (sizes){ vt_count(w) / (rows * columns), rows, columns };
}

/* The update, and of a matrix the means and factors of its rows and columns. */
static int64_t scratch(const vt_tensor *w)
{
    const sizes n = sizes_of(w);

    return vt_count(w) + (w->nd < 2 ? 0 : 2 * (n.rows + n.columns));
}

/* A view of [rows, columns] values from `at` on, with steps of `by` and `along` values. */
static vt_tensor view(const vt_tensor *x, int64_t at, int64_t rows, int64_t columns, int64_t by,
                      int64_t along)
{
    return (vt_tensor){ .dtype = VC_F32, .nd = 2, .dim = { rows, columns },
                        .stride = { by, along }, .data = (float *)x->data + at };
}

static vt_tensor packed(const vt_tensor *x, int64_t at, int64_t n)
{
    return (vt_tensor){ .dtype = VC_F32, .nd = 1, .dim = { n }, .stride = { 1 },
                        .data = (float *)x->data + at };
}

/* Updates the average of the mean squares of n rows or columns by their means, and sets their
 * factors: the roots of the inverse. */
static void average(vt_ctx *g, const vt_tensor *factor, const vt_tensor *state,
                    const vt_tensor *mean, vt_update_args a)
{
    vt_tensor w = *factor, s = *state, *states[VF_STATES] = { &s };

    a.rule = VF_ADAFACTOR_FACTOR;
    g->be->update(g->dev, &w, states, NULL, mean, &a);
}

/* Computes the update of matrix i into `to`. */
static void matrix(vt_ctx *g, const vt_opt_part *x, int64_t i, const vt_update_args *a)
{
    const sizes n = sizes_of(x->w);
    const int64_t r = n.rows, c = n.columns, at = i * r * c, free = vt_count(x->w);
    vt_tensor grad = view(x->grad, at, r, c, c, 1), to = view(x->scratch, at, r, c, c, 1);
    vt_tensor rows = packed(x->scratch, free, r), columns = packed(x->scratch, free + r, c);
    vt_tensor by_row = packed(x->scratch, free + r + c, r);
    vt_tensor by_column = packed(x->scratch, free + 2 * r + c, c);
    vt_tensor row_state = packed(x->state[ROWS], i * r, r);
    vt_tensor column_state = packed(x->state[COLUMNS], i * c, c);
    vt_tensor each_row = view(&rows, 0, r, c, 1, 0), each_column = view(&columns, 0, r, c, 0, 1);
    const float squared = a->grad_scale * a->grad_scale;

    g->be->fill(g->dev, &rows, 0);
    g->be->fill(g->dev, &columns, 0);
    g->be->reduce(g->dev, &each_row, &grad, &grad, squared / (float)c);
    g->be->reduce(g->dev, &each_column, &grad, &grad, squared / (float)r);
    average(g, &by_row, &row_state, &rows, *a);
    average(g, &by_column, &column_state, &columns, *a);
    each_row = view(&by_row, 0, r, c, 1, 0);
    each_column = view(&by_column, 0, r, c, 0, 1);
    g->be->binary(g->dev, VT_MUL, &to, &grad, &each_row);
    g->be->binary(g->dev, VT_MUL, &to, &to, &each_column);
    /* The factor of rows is relative to the mean of all rows. */
    double mean = g->be->sum_magnitudes(g->dev, &row_state) / (double)r;
    vt_tensor values = packed(&to, 0, r * c), by = { 0 };
    by = view(&by_row, 0, 1, 1, 0, 0);
    g->be->fill(g->dev, &by, (float)sqrt(mean) * a->grad_scale);
    by = (vt_tensor){ .dtype = VC_F32, .nd = 1, .dim = { r * c }, .stride = { 0 },
                      .data = by_row.data };
    g->be->binary(g->dev, VT_MUL, &values, &values, &by);
}

static double rate_of(const vt_opt_step *o)
{
    double step = (double)o->step, least = o->adafactor.warmup_init ? 1e-6 * step : 1e-2;

    return o->adafactor.relative_step ? fmin(least, 1 / sqrt(step)) : 1;
}

static bool settle(const vt_opt_step *o, const double *sum, double *number)
{
    (void)sum;
    number[RELATIVE] = rate_of(o) * o->lr;
    return true;
}

/* The root of the mean square of a tensor. */
static double size_of(vt_ctx *g, const vt_tensor *x)
{
    return vt_opt_length(g, x) / sqrt((double)vt_count(x));
}

static void whole(vt_ctx *g, const vt_opt_part *x, const vt_opt_step *o, const double *number)
{
    const int64_t n = vt_count(x->w);
    double size = size_of(g, x->w);
    double rate = o->lr * rate_of(o);
    vt_update_args a = vt_opt_update_args(x, o);
    vt_tensor update = packed(x->scratch, 0, n), w = packed(x->w, 0, n);
    vt_tensor grad = packed(x->grad, 0, n), *states[VF_STATES] = { 0 };

    (void)number;
    if (o->adafactor.scale_parameter)
        rate *= fmax(LEAST_SCALE, size);
    a.beta2 = (float)(1 - pow((double)o->step, o->adafactor.power));
    a.eps = (float)LEAST_SQUARE;
    if (x->w->nd < 2) {
        vt_tensor v = packed(x->state[0], 0, n);
        states[0] = &v;
        a.rule = VF_ADAFACTOR_VECTOR;
        g->be->update(g->dev, &update, states, NULL, &grad, &a);
    }
    for (int64_t i = 0; x->w->nd >= 2 && i < sizes_of(x->w).matrices; i++)
        matrix(g, x, i, &a);
    double over = size_of(g, &update) / o->adafactor.clip;
    a.rule = VF_ALONG;
    a.weight_decay = (float)(o->weight_decay * fmax(over, 1));    /* decay is not clipped */
    a.lr = (float)(rate / fmax(over, 1));
    states[0] = &update;
    w.rounded = x->w->rounded;
    g->be->update(g->dev, &w, states, NULL, &grad, &a);
}

const vt_opt_run vt_adafactor = {
    .logged = true, .number = { "relative_step" }, .settle = settle, .whole = whole,
    .scratch = scratch,
};
