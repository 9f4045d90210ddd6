/* distill.h - direct distillation: training steps that walk from noise to a result in a few steps.
 *
 * With --task direct_distill a micro-batch has no level of noise. It begins with the noise from
 * which another program sampled its latents in many steps, and takes the few steps
 *
 *     x <- x + (s' - s) model(x, 1000 s),    s' the next level, in the last step 0,
 *
 * without guidance; the loss compares the result with the stored latents, and its gradient goes
 * through all steps (DiffSynth-Studio's DirectDistillLoss). The levels are even, 1 to 1/N before
 * the run's shift and the stretch of the model's scheduler, or those of --distill_sigmas. The tape
 * keeps the activations of all steps, or the inputs of their blocks where blocks are recomputed,
 * and dry steps walk alike: the memory that is predicted is that of the walk. */
#ifndef TRAIN_STEPS_DISTILL_H
#define TRAIN_STEPS_DISTILL_H

#include "train/vtrain.h"

/* The steps of a walk; n 0: the micro-batch has a level instead. */
typedef struct vtrain_walk {
    int n;
    float sigma[VTRAIN_WALK + 1];             /* the levels, and 0 behind them */
    float time[VTRAIN_WALK];                  /* the timesteps that the model gets */
} vtrain_walk;
/* The tensors of a walk: the timesteps [B] of each step. */
typedef struct vtrain_walk_times { vt_tensor *t[VTRAIN_WALK]; } vtrain_walk_times;

/* Finds the number of steps (t->distill) from the flags, or from the first sample's record, and
 * refuses what a walk does not go together with. Reads the opened data, model and objective. */
int vtrain_distill_open(vtrain *t, vc_err *err);
/* Plans the walk of samples of `tokens` tokens. */
int vtrain_walk_plan(vtrain_walk *w, const vtrain *t, int64_t tokens, vc_err *err);
/* Walks from in->x [B,C,f,h,w] on with the tensors that prepare made. Returns the result, f32. */
vt_tensor *vtrain_walk_run(vt_ctx *g, void *dit, vtrain_in *in, const vtrain_walk *w,
                           const vtrain_walk_times *times);
/* The line of the plan about the loss, malloc'ed. */
char *vtrain_distill_line(const vtrain *t);

#endif
