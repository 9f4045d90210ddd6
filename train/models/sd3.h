/* sd3.h - the names of Stable Diffusion 3's modules in other programs. */
#ifndef TRAIN_MODELS_SD3_H
#define TRAIN_MODELS_SD3_H

#include "train/lora/names.h"

extern const vtrain_rename sd3_names[];       /* Stability's, which ComfyUI and sd-scripts have too */

#endif
