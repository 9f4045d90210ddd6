/* sample.h - makes latent samples during training, from stored prompt embeddings; vdecode decodes
 * them.
 *
 * The samplers of --validation_sampler are in solver.h: Euler for flow; DDIM or the stochastic
 * DPM-Solver++ for v, where auto takes the class in the model's scheduler file. Guidance (Ho &
 * Salimans 2022) is neg + scale (pos - neg) in f32, both in one batch, or one after the other where
 * the memory holds only one; at scales of 1 and below only the positive prompt is computed. The
 * scale may be a weight that changes with the steps (--guidance_schedule, vtrain_guidance). A
 * prompt's own number of steps and scale come before the run's. All noise is a pure function of
 * (the prompt's seed, else the run's; the prompt's number; the step) with VC_DRAW_VALIDATION: micro
 * 0 is the sample's initial noise, micro i + 1 the noise that step i adds.
 *
 * A model with image conditions gets the prompt's (a first frame; a masked clip and its mask),
 * scaled as in training, and zeros where the prompt has none. A model that takes whole groups of
 * frames, padded in front (CogVideoX 1.5), samples all frames, and the frames in front are dropped
 * before the sample is written. HunyuanVideo's samples start from noise with a little of the
 * prompt's image in all frames. */
#ifndef TRAIN_SAMPLING_SAMPLE_H
#define TRAIN_SAMPLING_SAMPLE_H

#include "train/vtrain.h"

/* Checks before the first step that each prompt can be read, and sampled in its size, by a dry
 * step. Errors name the prompt. */
int vtrain_validate_check(vtrain *t, vc_err *err);
/* Samples every prompt with the current weights, or their EMA, into
 * out/validation/step-N/000.safetensors: `latents` f32 [C,f,h,w] in raw VAE space, with prompt,
 * negative_prompt, seed, fps, frames, steps, sampler, guidance_scale as metadata, and skip_frames
 * where the first frames of the decoded clip are not to be shown. Of a model with sound, `audio`
 * [C,L,1,bins] stands beside it. */
int vtrain_validate(vtrain *t, vc_err *err);
/* True if the files of all prompts at this step exist. */
bool vtrain_validated(const vtrain *t);

#endif
