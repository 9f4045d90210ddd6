/* rate.h - learning-rate schedules, and the clipping of gradients. Optimisers are in
 * common/tensor/optimizer.h. */
#ifndef TRAIN_OPTIM_RATE_H
#define TRAIN_OPTIM_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

typedef enum vtrain_schedule {
#define SCHEDULE(NAME, name, has, value) VTRAIN_##NAME,
#include "train/optim/schedules.def"
    VTRAIN_SCHEDULES
} vtrain_schedule;
/* "|constant|constant_with_warmup|..", by vtrain_schedule. */
extern const char vtrain_schedule_words[];

/* The settings that a schedule has. */
typedef enum vtrain_schedule_has {
    VTRAIN_HAS_WARM = 1,               /* a warm-up */
    VTRAIN_HAS_FALL = 2,               /* a fall until the end of the run, to 1e-7 or END's rate */
    VTRAIN_HAS_END = 4,                /* a rate that is given for the end */
    VTRAIN_HAS_CYCLES = 8, VTRAIN_HAS_POWER = 16, VTRAIN_HAS_RULES = 32
} vtrain_schedule_has;
bool vtrain_schedule_is(vtrain_schedule how, vtrain_schedule_has has);

/* Settings of a schedule, as get_scheduler of diffusers (optimization.py) takes them. With a
 * warm-up of w steps, or of a share w of the steps where it is below 1, the factor is (s + from)/w
 * at steps s below w. After it the factor is that of schedules.def; one that falls is
 * e + (1 - e) value, with e = end / rate, and e past the end. */
typedef struct vtrain_rate {
    vtrain_schedule how;
    double warmup;                     /* steps; below 1: a share of them */
    int64_t steps, cycles;
    double power, rate;                /* rate: the base rate */
    const char *rules;                 /* "1:10,0.1:20,0.01": 1 below step 10, 0.1 below 20, then
                                        * 0.01 */
    double end;                        /* linear, cosines, polynomial: the rate that they fall to */
    int64_t from;                      /* step of the warm-up that step 0 is */
} vtrain_rate;

/* The learning-rate schedule of a run of `steps` steps. */
struct vtrain_config;
vtrain_rate vtrain_rate_of(const struct vtrain_config *c, int64_t steps);

/* Finds the schedule of n letters of a name as above; false: there is no such schedule. */
bool vtrain_schedule_named(vtrain_schedule *out, const char *name, size_t n);

const char *vtrain_schedule_name(vtrain_schedule how);

/* Steps of the warm-up. */
int64_t vtrain_rate_warmup(const vtrain_rate *r);
/* Factor of the base rate at step s, from 0. The caller has checked r by vtrain_rate_check. */
double vtrain_rate_factor(const vtrain_rate *r, int64_t s);
/* VC_EUSAGE: the rules are not valid, or a polynomial schedule would rise. */
int vtrain_rate_check(const vtrain_rate *r, vc_err *err);

/* Factor that clips a gradient of norm `norm` to at most `max` (0: no clipping): min(1, max /
 * (norm + 1e-6)). */
double vtrain_clip_factor(double norm, double max);

#endif
