/* solver.h - how a sampler goes from noise to a sample, as numbers: no tensors, no model.
 *
 * A plan is an array of steps. A step says at which level the model is asked, and with which
 * factors the next sample follows from this one, from the clean picture that the answer implies,
 * from the clean picture of the step before and from fresh noise:
 *
 *     vtrain_solver_plan(step, &o, &err);
 *     for (int i = 0; i < o.steps; i++) {
 *         ... v = the model's answer for x at step[i].level
 *         ... noise = standard normals, if step[i].noise is not 0
 *         vtrain_solver_apply(&step[i], x, last, v, noise, n);
 *     }
 *
 * DDIM (Song et al. 2021) with eta 0 and stochastic DPM-Solver++ 2M (Lu et al. 2022) walk down a
 * discrete schedule of 1000 alphas_cumprod with a model that predicts v; what they do equals
 * diffusers' CogVideoXDDIMScheduler and CogVideoXDPMScheduler: a step goes from A[t] to
 * A[t - 1000 / steps] (a whole division, so that where steps does not divide 1000 this is not the
 * next t of the list), and to final_alpha below 0. Euler follows a straight flow between sigmas:
 * 1, 1 - 1/N .. 1/N before they are shifted and stretched (shift.h), as diffusers' pipelines give
 * them to their scheduler, then 0.
 *
 * Where diffusers' DPM draws noise twice in a step, the second counts: here a step has one noise.
 * */
#ifndef TRAIN_DIFFUSION_SOLVER_H
#define TRAIN_DIFFUSION_SOLVER_H

#include <stddef.h>

#include "common/base/err.h"

enum { VTRAIN_TIMES = 1000 };                 /* of a discrete schedule */

typedef enum { VTRAIN_DDIM, VTRAIN_DPM, VTRAIN_EULER } vtrain_sampler;
/* Which times of the schedule: 999, 979, .. 19; 999, .. 0 evenly; 980, 960, .. 0. */
typedef enum { VTRAIN_TRAILING, VTRAIN_LINSPACE, VTRAIN_LEADING } vtrain_spacing;

typedef struct vtrain_solver_opts {
    vtrain_sampler sampler;
    int steps;                                /* 1..1000 */
    vtrain_spacing spacing;                   /* DDIM, DPM */
    const double *alpha_bar;                  /* [1000], falling; of the last one 0 is fine */
    double final_alpha;                       /* of the end of the last step: 1, or alpha_bar[0] */
    double shift, terminal;                   /* Euler: of its sigmas; terminal 0: no stretch */
} vtrain_solver_opts;

typedef struct vtrain_solver_step {
    double level;                             /* t in 0..999; Euler: sigma */
    double clean_x, clean_v;                  /* clean = clean_x x + clean_v v */
    double x, clean, last, noise;             /* next = x x + clean clean + last last + noise n */
} vtrain_solver_step;

/* The times of a discrete schedule, largest first, into t[steps]. Trailing: round(1000 + i d) - 1
 * to even, with d rounded as diffusers' range rounds it, which decides ties. */
void vtrain_solver_times(int *t, int steps, vtrain_spacing spacing);
/* Fills step[o->steps]. VC_EINVAL: steps or alphas out of range. */
int vtrain_solver_plan(vtrain_solver_step *step, const vtrain_solver_opts *o, vc_err *err);
/* One step over n numbers: x becomes the next sample, last the clean picture of this one (the first
 * step does not read it). noise is read if s->noise is not 0. Sums in f64, rounded once. */
void vtrain_solver_apply(const vtrain_solver_step *s, float *x, float *last, const float *v,
                         const float *noise, size_t n);

#endif
