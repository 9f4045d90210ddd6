/* solver.h - the arithmetic of samplers, without tensors and models.
 *
 * A plan is an array of steps. A step has the level at which the model is asked, and the factors by
 * which the next sample follows from this one, from the clean picture that the answer implies, from
 * the clean pictures of the two steps before, and from fresh noise:
 *
 *     vtrain_solver_plan(step, &o, &err);
 *     for (int i = 0; i < o.steps; i++) {
 *         ... v = the model's answer for x at step[i].level
 *         ... noise = standard normals, if step[i].noise is not 0
 *         vtrain_solver_apply(&step[i], x, past, v, noise, n);
 *     }
 *
 * DDIM (Song et al. 2021) with eta 0 and stochastic DPM-Solver++ 2M (Lu et al. 2022) walk down a
 * discrete schedule of 1000 alphas_cumprod with a model that predicts v, and give the samples of
 * diffusers' CogVideoXDDIMScheduler and CogVideoXDPMScheduler: a step goes from A[t] to
 * A[t - 1000 / steps], and to final_alpha where that index is below 0. The division is whole, so
 * that the index is not the next t of the list where steps does not divide 1000. Euler follows a
 * straight flow between sigmas, then to 0: those that the pipeline gives its scheduler (vc_sigmas)
 * or diffusers' FlowMatchEulerDiscreteScheduler has, shifted and stretched (shift.h).
 *
 * UniPC (Zhao et al. 2023; order 2, B2) follows the same flow as diffusers' UniPCMultistepScheduler
 * with flow sigmas does: 1 - 1e-6, then down to 0.001 evenly before the shift, unless the pipeline
 * gives others, each rounded to f32, and 0 at the end. A step corrects the sample that the model
 * was asked at before it predicts the next one; both are sums of the same pictures, so that a step
 * of the plan has one sum. The model's t is cut to a whole number, as in diffusers and in the first
 * authors' code.
 *
 * diffusers' DPM draws noise twice in some steps and uses the second; here a step has one noise. */
#ifndef TRAIN_DIFFUSION_SOLVER_H
#define TRAIN_DIFFUSION_SOLVER_H

#include <stddef.h>

#include "common/base/err.h"
#include "common/families.h"

enum { VTRAIN_TIMES = 1000 };                 /* of a discrete schedule */

typedef enum { VTRAIN_DDIM, VTRAIN_DPM, VTRAIN_EULER, VTRAIN_UNIPC } vtrain_sampler;
/* The times of the schedule that are steps: 999, 979, .. 19; 999, .. 0 evenly; 980, 960, .. 0. */
typedef enum { VTRAIN_TRAILING, VTRAIN_LINSPACE, VTRAIN_LEADING } vtrain_spacing;

typedef struct vtrain_solver_opts {
    vtrain_sampler sampler;
    int steps;                                /* 1..1000 */
    vtrain_spacing spacing;                   /* DDIM, DPM */
    const double *alpha_bar;                  /* [1000], falling; the last may be 0 */
    double final_alpha;                       /* at the end of the last step: 1, or alpha_bar[0] */
    double shift, terminal;                   /* Euler, UniPC: of sigmas; terminal 0: no stretch */
    vc_sigmas sigmas;                         /* Euler, UniPC: before the shift */
} vtrain_solver_opts;

typedef struct vtrain_solver_step {
    double level;                             /* t in 0..999; Euler, UniPC: sigma */
    double t;                                 /* the timestep that the model gets */
    double clean_x, clean_v;                  /* clean = clean_x x + clean_v v */
    double x, clean, last, before, noise;     /* next = x x + clean clean + noise n, and the clean
                                               * pictures of the last step and of the one before */
} vtrain_solver_step;

/* The weight of guidance in step i of N, at the model's time t: the scale g, or
 * 1 + g (1 - cos(pi p^power)) / 2 with p = i / N, which rises from 1 to 1 + g, or, as ttt-video and
 * diffusers' use_dynamic_cfg compute p, with p = (N - t) / N, by which neighbouring steps have
 * unrelated weights. */
typedef enum { VTRAIN_GUIDE_EVENLY, VTRAIN_GUIDE_BY_STEP, VTRAIN_GUIDE_BY_TIME } vtrain_guiding;
double vtrain_guidance(vtrain_guiding how, double scale, int power, int i, int steps, double t);

/* Guides the prompt's prediction out[n] by the negative prompt's: neg + scale (out - neg). The
 * share `rescale` of the result has the deviation of the prompt's prediction (Lin et al. 2024,
 * 3.4). */
void vtrain_guide(float *out, const float *neg, size_t n, double scale, double rescale);

/* Writes the times of a discrete schedule, largest first, into t[steps]. Trailing times are
 * round(1000 + i d) - 1, to even, with d rounded as in diffusers, which decides ties. */
void vtrain_solver_times(int *t, int steps, vtrain_spacing spacing);
/* Fills step[o->steps]. VC_EINVAL: steps or alphas are out of range. */
int vtrain_solver_plan(vtrain_solver_step *step, const vtrain_solver_opts *o, vc_err *err);
/* What the standard normals of the first sample are multiplied by: the first level where that is
 * below 1 and the sample has no clean picture yet (VC_SIGMAS_KARRAS), else 1. */
double vtrain_solver_start(const vtrain_solver_opts *o);
/* Takes one step over n numbers: x becomes the next sample. past [2,n] has the clean pictures of
 * the last step and of the one before, and gets those of this step and of the last; the first step
 * reads none of them, the second step one. noise is read if s->noise is not 0. Sums are in f64 and
 * rounded once. */
void vtrain_solver_apply(const vtrain_solver_step *s, float *x, float *past, const float *v,
                         const float *noise, size_t n);

#endif
