/* optim.h - learning-rate schedules. AdamW itself is weights.h. */
#ifndef VTRAIN_OPTIM_H
#define VTRAIN_OPTIM_H

#include <stdint.h>

typedef enum vtrain_schedule {
    VTRAIN_CONSTANT, VTRAIN_CONSTANT_WITH_WARMUP, VTRAIN_LINEAR, VTRAIN_COSINE
} vtrain_schedule;

/* Factor of the base rate at step s (from 0) of `steps`: with warm-up of w steps s/w below w
 * (all but `constant`), then 1, or down to 0 at `steps`: linearly, or by (1 + cos(pi p)) / 2
 * with p the part done. The formulas of diffusers' get_scheduler. */
double vtrain_lr_factor(vtrain_schedule how, int64_t s, int64_t warmup, int64_t steps);

/* Factor that clips a gradient of norm `norm` to at most `max` (0: no clipping): min(1, max /
 * (norm + 1e-6)). */
double vtrain_clip_factor(double norm, double max);

#endif
