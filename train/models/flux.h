/* flux.h - the parts of FLUX.1's family that flux.c shares with flux_names.c and chroma.c. */
#ifndef TRAIN_MODELS_FLUX_H
#define TRAIN_MODELS_FLUX_H

#include "train/models/dit.h"

#define FLUX_CLASS "FluxTransformer2DModel"
#define CHROMA_CLASS "ChromaTransformer2DModel"

/* Makes config.json of a file of the first authors: vtrain_family.convert. */
int flux_convert(cJSON **config, const cJSON *theirs, const vt_source *src, vc_err *err);
int chroma_convert(cJSON **config, const cJSON *theirs, const vt_source *src, vc_err *err);

/* The names of modules that Black Forest Labs gave them, which ComfyUI and kohya's sd-scripts use,
 * and DiffSynth-Studio's; and those of Chroma's authors. */
extern const vtrain_rename flux_names[], flux_diffsynth_names[], chroma_names[];

/* Makes the rotations cos and sin of the picture's tokens and of a reference's behind them, whose
 * heads have axis[i] numbers for axis i, and traces the places. Returns the number of the picture's
 * tokens. */
int64_t flux_make_places(vt_ctx *g, const int64_t axis[3], vtrain_in *in, vt_tensor **rotations);
/* Traces the places of a prompt's tokens: all of them stand at 0. */
void flux_note_text_places(vt_ctx *g, const vtrain_in *in, const vtrain_cond *text);

#endif
