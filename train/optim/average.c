/* average.c - see average.h */
#include "train/optim/average.h"

#include <math.h>

double vtrain_average_decay(const vtrain_average *a, int64_t n)
{
    double s = (double)(n - a->after - 1);
    if (s <= 0)
        return 0;
    double d = a->power > 0 ? 1 - pow(1 + s / a->inv_gamma, -a->power) : (1 + s) / (10 + s);
    return fmax(fmin(d, a->decay), a->min);
}

double vtrain_decay(const vtrain *t)
{
    const vtrain_config *c = &t->cfg;
    const vtrain_average a = { c->ema_decay, c->ema_min_decay, c->ema_power, c->ema_inv_gamma,
                               c->ema_update_after_step };
    return vtrain_average_decay(&a, t->at.step + 1 - t->optim.average_from);
}
