/* optimizer_run.c - rows whose rules need numbers of the run: Prodigy and schedule-free AdamW; see
 * vt_opt_run in optimizer.h */
#include <math.h>

#include "common/tensor/engine.h"
#include "common/tensor/optimizer.h"

/* ---- Prodigy ---- */

/* Prodigy (Mishchenko & Defazio 2023), algorithm 4 with Adam's moments and decoupled
 * decay: the rate is multiplied by d, an estimate of the distance from the first values to the
 * best. d never falls. */

/* The numbers of the run; USED is the d that this step's rate is multiplied by. */
enum { D, D_MOST, NUMERATOR, STEPS, USED };
/* The states: both moments, the sum of gradients, the first values. */
enum { GRADIENTS = 2, FIRST };
enum { ALONG, MAGNITUDES };

static double d_of(const vt_opt_step *o, const double *number)
{
    return number[D] > 0 ? number[D] : o->prodigy.d0;
}

static double beta3_of(const vt_opt_step *o)
{
    return o->prodigy.beta3 > 0 ? o->prodigy.beta3 : sqrt(o->beta2);
}

static double rate_of(const vt_opt_step *o, double d, double steps)
{
    double k = steps + 1;
    double correction = sqrt(1 - pow(o->beta2, k)) / (1 - pow(o->beta1, k));

    return d * o->lr * (o->prodigy.bias_correction ? correction : 1);
}

static void measure(vt_ctx *g, const vt_opt_part *x, const vt_opt_step *o, const double *number,
                    double *sum)
{
    double d = d_of(o, number), rate = rate_of(o, d, number[STEPS]), by = d / o->prodigy.d0;
    vt_update_args a = vt_opt_update_args(x, o);

    if (!(o->lr > 0))
        return;
    sum[ALONG] += by * rate * o->grad_scale *
                  g->be->sum_along(g->dev, x->grad, x->state[FIRST], x->w);
    a.rule = VF_PRODIGY_MOMENTS;
    a.beta3 = (float)beta3_of(o);
    a.gain[0] = (float)(d * (1 - o->beta1));
    a.gain[1] = (float)(d * d * (1 - o->beta2));
    a.gain[2] = (float)(by * (o->prodigy.safeguard_warmup ? d : rate));
    vt_opt_update(g, x, &a);
    sum[MAGNITUDES] += g->be->sum_magnitudes(g->dev, x->state[GRADIENTS]);
}

static bool settle(const vt_opt_step *o, const double *sum, double *number)
{
    double d = d_of(o, number), hat;

    if (!(sum[MAGNITUDES] > 0))
        return false;
    number[NUMERATOR] = number[NUMERATOR] * beta3_of(o) + sum[ALONG];
    hat = o->prodigy.coef * number[NUMERATOR] / sum[MAGNITUDES];
    number[USED] = d;
    number[D_MOST] = fmax(fmax(number[D_MOST], o->prodigy.d0), hat);
    if (d <= o->prodigy.d0)
        d = fmax(d, hat);
    number[D] = o->prodigy.growth > 0 ? fmin(number[D_MOST], d * o->prodigy.growth)
                                      : number[D_MOST];
    number[STEPS]++;
    return true;
}

static void adjust(vt_update_args *a, const vt_opt_step *o, const double *number)
{
    a->lr = (float)rate_of(o, number[USED], number[STEPS] - 1);
    a->eps = (float)(number[D] * o->eps);
}

const vt_opt_run vt_prodigy = {
    .number = { "d", "d_max", "d_numerator", "k" }, .logged = true,
    .measure = measure, .settle = settle, .adjust = adjust,
};

/* ---- schedule-free AdamW ---- */

/* Schedule-free AdamW (Defazio et al. 2024): the gradients are those of y, between z, which takes
 * the steps, and the weighted mean x of all z, which is evaluated. */

/* The numbers of the run: the largest rate, the sum of the steps' weights; PART is this step's part
 * of the sum. */
enum { MOST, SUM, PART };
enum { Z };

static bool settle_mean(const vt_opt_step *o, const double *sum, double *number)
{
    (void)sum;
    number[MOST] = fmax(number[MOST], o->lr);
    double weight = pow((double)o->step, o->schedule_free.r) *
                    pow(number[MOST], o->schedule_free.power);
    number[SUM] += weight;
    number[PART] = number[SUM] > 0 ? weight / number[SUM] : 0;
    return true;
}

static void adjust_mean(vt_update_args *a, const vt_opt_step *o, const double *number)
{
    const double c = number[PART];

    a->gain[0] = (float)c;
    a->gain[1] = (float)(o->lr * (o->beta1 * (1 - c) - 1));
    a->gain[2] = (float)o->weight_decay;
}

const vt_opt_run vt_schedule_free = {
    .number = { "lr_max", "weight_sum" }, .settle = settle_mean, .adjust = adjust_mean,
    .shown = 1 + Z,
};
