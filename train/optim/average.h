/* average.h - the decay of the moving average of the trained weights (--use_ema), which is kept
 * beside the optimiser's state (train/parallel/state.h). */
#ifndef TRAIN_OPTIM_AVERAGE_H
#define TRAIN_OPTIM_AVERAGE_H

#include "train/vtrain.h"

/* Settings of the moving average of the weights, as EMAModel of diffusers (training_utils.py) takes
 * them. The decay of its n-th update, from 1, with s = n - after - 1, is 0 where s <= 0, and else
 * between min and decay the value of
 *     power 0    (1 + s) / (10 + s)
 *     else       1 - (1 + s / inv_gamma)^-power                         (use_ema_warmup) */
typedef struct vtrain_average {
    double decay, min, power, inv_gamma;
    int64_t after;
} vtrain_average;
double vtrain_average_decay(const vtrain_average *a, int64_t n);

/* The decay of the average at the step that is being taken. */
double vtrain_decay(const vtrain *t);

#endif
