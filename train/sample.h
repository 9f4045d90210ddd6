/* sample.h - samples during training, from stored prompt embeddings; never decoded here.
 *
 * --validation_sampler by solver.h: flow by Euler, v by DDIM or the stochastic DPM-Solver++, auto
 * as the model's scheduler file names its class. Guidance (Ho & Salimans 2022): neg + scale (pos -
 * neg) in f32, both in one batch; scale 1 and below: positive only. A prompt's own number of steps
 * and scale come before the run's. All noise is a pure function of (prompt's seed, else the run's;
 * its number; the step): VC_DRAW_VALIDATION, micro 0 what the sample starts from, i + 1 what step i
 * adds.
 *
 * A model that takes pictures beside the noise gets the prompt's (a first frame; a masked clip and
 * its mask), scaled as in training; zeros if it has none.
 * A model that wants whole groups of frames, padded in front (CogVideoX 1.5), samples them all, and
 * the frames in front are dropped before the sample is written. */
#ifndef TRAIN_SAMPLE_H
#define TRAIN_SAMPLE_H

#include "train/vtrain.h"

/* Whether each prompt can be read, and sampled in its size: before the first step, not at the first
 * sample. Computes nothing. Errors name the prompt. */
int vtrain_validate_check(vtrain *t, vc_err *err);
/* Samples every prompt with the weights as they are (or EMA's) into
 * out/validation/step-N/000.safetensors: `latents` f32 [C,f,h,w] in raw VAE space, with prompt,
 * negative_prompt, seed, fps, frames, steps, sampler, guidance_scale as metadata. */
int vtrain_validate(vtrain *t, vc_err *err);
/* Whether the files of all prompts at this step are there. */
bool vtrain_validated(const vtrain *t);

#endif
