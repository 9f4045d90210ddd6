/* flux.h - the parts of FLUX.1's family that flux.c shares with flux_names.c. */
#ifndef TRAIN_MODELS_FLUX_H
#define TRAIN_MODELS_FLUX_H

#include "train/models/lora_names.h"

/* The names of modules that Black Forest Labs gave them, which ComfyUI and kohya's sd-scripts use,
 * and DiffSynth-Studio's. */
extern const vtrain_rename flux_names[], flux_diffsynth_names[];

#endif
