/* sd3.h - the names of Stable Diffusion 3's modules in other programs, and files of its first
 * authors. */
#ifndef TRAIN_MODELS_SD3_H
#define TRAIN_MODELS_SD3_H

#include "train/models/dit.h"

/* Stability's, which ComfyUI and sd-scripts have too. */
extern const vtrain_rename sd3_names[];
int sd3_convert(cJSON **config, const cJSON *theirs, const vt_source *src, vc_err *err);

#endif
