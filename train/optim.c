#include "train/optim.h"

#include <math.h>

double vtrain_lr_factor(vtrain_schedule how, int64_t s, int64_t warmup, int64_t steps)
{
    if (how != VTRAIN_CONSTANT && s < warmup) return (double)s / (double)warmup;
    if (how != VTRAIN_LINEAR && how != VTRAIN_COSINE) return 1;
    int64_t span = steps > warmup ? steps - warmup : 1;
    double done = (double)(s - warmup) / (double)span;
    if (done >= 1) return 0;
    return how == VTRAIN_LINEAR ? 1 - done : 0.5 * (1 + cos(M_PI * done));
}

double vtrain_clip_factor(double norm, double max)
{
    if (max <= 0) return 1;
    double f = max / (norm + 1e-6);
    return f < 1 ? f : 1;
}
