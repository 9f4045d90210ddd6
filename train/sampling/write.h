/* write.h - the end of a sample: from the last step's latents to its file. Internal to
 * train/sampling. */
#ifndef TRAIN_SAMPLING_WRITE_H
#define TRAIN_SAMPLING_WRITE_H

#include "train/sampling/sampling.h"

/* Checks that the sample is finite (VC_ENUMERIC), drops the frames that were padding, scales it
 * back to raw VAE space, and writes dir/NUMBER.safetensors. */
int sampling_write(sampling *s, const vtrain *t, const char *dir, vc_err *err);

#endif
