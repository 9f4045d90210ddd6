/* flux.h - the parts of FLUX.1's family that flux.c shares with flux_names.c. */
#ifndef TRAIN_MODELS_FLUX_H
#define TRAIN_MODELS_FLUX_H

#include "common/tensor/weights.h"
#include "formats/json/json.h"
#include "train/lora/names.h"

#define FLUX_CLASS "FluxTransformer2DModel"

/* Makes config.json of a file of the first authors: vtrain_family.convert. */
int flux_convert(cJSON **config, const cJSON *theirs, const vt_source *src, vc_err *err);

/* The names of modules that Black Forest Labs gave them, which ComfyUI and kohya's sd-scripts use,
 * and DiffSynth-Studio's. */
extern const vtrain_rename flux_names[], flux_diffsynth_names[];

#endif
