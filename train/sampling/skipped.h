/* skipped.h - the blocks of --skip_guidance_layers (skip-layer guidance, Stability 2024): the
 * weighted difference between a prompt's prediction and the one without these blocks is added to
 * the guided one. Internal to train/sampling. */
#ifndef TRAIN_SAMPLING_SKIPPED_H
#define TRAIN_SAMPLING_SKIPPED_H

#include "train/vtrain.h"

/* Sets *blocks to the bits of the flag's blocks; 0: the flag was not given. VC_EUSAGE: it is no
 * list of numbers of the model's blocks, or the model has no such guidance. */
int sampling_skipped(uint64_t *blocks, const vtrain *t, vc_err *err);
/* Whether step i of n has that guidance. */
bool sampling_skips(const vtrain_config *c, int i, int n);

#endif
