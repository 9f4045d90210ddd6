/* inputs.h - what stands beside the validation samples: the pictures and clips that a prompt gives
 * the model, and the clip that a caption from training belongs to.
 *
 * They are the same at every step, so that they are written once a run, as latents that vdecode
 * decodes: OUTPUT_DIR/validation/inputs/003.safetensors of prompt 3 has the prompt's text and
 * tensors [C,f,h,w] in raw VAE space named by their roles (common/roles.h: image, video, control,
 * reference_1 ..), and by what stands beside them (vtrain_aside_names: target, start, last). */
#ifndef TRAIN_SAMPLING_INPUTS_H
#define TRAIN_SAMPLING_INPUTS_H

#include "train/vtrain.h"

/* Writes the file of prompt number i with its conditions of these roles (1 << vc_role), of
 * `frames` latent frames where they are clips; removes an earlier run's file where there is
 * nothing to write. */
int vtrain_inputs_write(const vtrain *t, uint32_t i, const vtrain_prompt *p, unsigned roles,
                        int frames, vc_err *err);

#endif
