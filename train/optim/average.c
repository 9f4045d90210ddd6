/* average.c - see average.h */
#include "train/optim/average.h"

#include <math.h>

#include "train/parallel/zero.h"

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

int vtrain_average_in(vtrain *t, vc_err *err)
{
    int rc = t->ranks.zero ? vtrain_zero_gather(t->ranks.zero, true, NULL, &t->optim.ema, err) : 0;
    t->optim.averaged = t->optim.ema;
    if (t->optim.averaged)
        vt_ema_swap(t->optim.ema, t->params);
    return rc;
}

void vtrain_average_out(vtrain *t)
{
    if (t->optim.averaged)
        vt_ema_swap(t->optim.ema, t->params);
    t->optim.averaged = false;
    if (t->ranks.zero) {
        vt_ema_close(t->optim.ema, t->params);
        t->optim.ema = NULL;
    }
}
