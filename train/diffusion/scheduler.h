/* scheduler.h - scheduler/scheduler_config.json of a model's folder: the noise schedule that the
 * model was trained with, and how it is sampled.
 *
 * The classes CogVideoXDDIMScheduler and CogVideoXDPMScheduler (v-prediction over 1000 times),
 * FlowMatchEulerDiscreteScheduler, whose shift may follow from the number of tokens, and
 * UniPCMultistepScheduler with flow sigmas are known. A missing field has the class's default, as
 * in diffusers; a value that this program does not support is an error that names the field. Fields
 * that change neither training nor our samplers (clip_sample, thresholds, eta) are ignored. */
#ifndef TRAIN_DIFFUSION_SCHEDULER_H
#define TRAIN_DIFFUSION_SCHEDULER_H

#include <stdbool.h>

#include "common/families.h"
#include "train/diffusion/objective.h"
#include "train/diffusion/solver.h"

typedef struct vtrain_scheduler {
    char *path;                               /* of the file; NULL: there is none */
    vtrain_kind kind;
    vtrain_sampler sampler;                   /* the class's */
    double shift;                             /* flow: of sigmas; 0: by tokens */
    bool flow_sigmas;                         /* of UniPC */
    vtrain_by_tokens by_tokens;
    bool karras;                              /* flow, Euler: the file has use_karras_sigmas */
    double terminal;                          /* flow: the last sigma of a sample; 0: as it falls */
    double beta_start, beta_end, snr_shift;   /* v: as vtrain_objective_opts */
    bool zero_snr;
    bool alpha_to_one;                        /* v: samples end at A = 1, not at A[0] */
    vtrain_spacing spacing;
} vtrain_scheduler;

/* given is the file or its folder (VC_ENOENT if there is none), or NULL: then the file is in
 * model/scheduler, which may be missing, as model may be NULL. Without a file s has the schedule of
 * CogVideoX-5B with DDIM and trailing times, for a model that predicts v, and path is NULL.
 * VC_EINVAL names field, value and file. */
int vtrain_scheduler_read(vtrain_scheduler *s, const char *model, const char *given, vc_err *err);
/* Fails where the file's levels (use_karras_sigmas) are those of a pipeline of other families. */
int vtrain_scheduler_check(const vtrain_scheduler *s, const vc_pipeline *pipeline, vc_err *err);
/* The plan of a sample of `steps` steps and `tokens` tokens by this sampler, with the levels and
 * the shift that the pipeline gives its scheduler; NULL: even levels. o is the run's objective,
 * whose kind is the sampler's; its alphas are borrowed. */
vtrain_solver_opts vtrain_scheduler_plan(const vtrain_scheduler *s, vtrain_sampler sampler,
                                         const vc_pipeline *pipeline, const vtrain_objective *o,
                                         int64_t tokens, int steps);
void vtrain_scheduler_free(vtrain_scheduler *s);            /* an all-zero one is fine */

#endif
