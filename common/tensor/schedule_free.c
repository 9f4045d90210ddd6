/* schedule_free.c - schedule-free AdamW (Defazio et al. 2024): the gradients are those of y,
 * between z, which takes the steps, and the weighted mean x of all z, which is evaluated. */
#include <math.h>

#include "common/tensor/engine.h"
#include "common/tensor/optimizer.h"

/* The numbers of the run: the largest rate, the sum of the steps' weights; PART is this step's part
 * of the sum. */
enum { MOST, SUM, PART };
enum { Z };

static bool settle(const vt_opt_step *o, const double *sum, double *number)
{
    (void)sum;
    number[MOST] = fmax(number[MOST], o->lr);
    double weight = pow((double)o->step, o->schedule_free.r) *
                    pow(number[MOST], o->schedule_free.power);
    number[SUM] += weight;
    number[PART] = number[SUM] > 0 ? weight / number[SUM] : 0;
    return true;
}

static void adjust(vt_update_args *a, const vt_opt_step *o, const double *number)
{
    const double c = number[PART];

    a->gain[0] = (float)c;
    a->gain[1] = (float)(o->lr * (o->beta1 * (1 - c) - 1));
    a->gain[2] = (float)o->weight_decay;
}

const vt_opt_run vt_schedule_free = {
    .number = { "lr_max", "weight_sum" }, .settle = settle, .adjust = adjust, .shown = 1 + Z,
};
