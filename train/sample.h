/* sample.h - samples during training, from stored prompt embeddings; never decoded here.
 *
 * Flow: Euler over num_inference_steps sigmas, linspace(1, 1/1000) shifted as in training, then
 * 0. v: DDIM (Song et al. 2021, eta 0) over the same number of trailing timesteps. Guidance (Ho
 * & Salimans 2022): neg + scale (pos - neg), both in one batch; scale 1: positive only. The
 * first noise is a pure function of (prompt's seed, else the run's; its number):
 * VC_DRAW_VALIDATION. */
#ifndef VTRAIN_SAMPLE_H
#define VTRAIN_SAMPLE_H

#include "train/vtrain.h"

/* Samples every prompt with the weights as they are (or EMA's) into
 * out/validation/step-N/000.safetensors: `latents` f32 [C,f,h,w] in raw VAE space, with prompt,
 * negative_prompt, seed, fps, frames, steps, guidance_scale as metadata. */
int vtrain_validate(vtrain *t, vc_err *err);

#endif
