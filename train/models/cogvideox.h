/* cogvideox.h - config.json of a CogVideoX transformer; for cogvideox*.c only. */
#ifndef TRAIN_MODELS_COGVIDEOX_H
#define TRAIN_MODELS_COGVIDEOX_H

#include "formats/json/json.h"

typedef struct cogvideox_config {
    int64_t heads, head, layers, in_channels, out_channels, text, time;
    int64_t ofs, patch, patch_t;              /* ofs and patch_t are 0 where the model has none */
    int64_t rows, columns, frames;            /* sample_height and sample_width, in latents, and
                                               * sample_frames, in pixel frames */
    int64_t compression, max_text;
    double eps, spatial_scale, temporal_scale;
    bool rotary, learned, patch_bias;
} cogvideox_config;

/* Reads config.json; a missing field has diffusers' default. VC_EFORMAT: a field has a value of
 * another kind, out of range or not supported. VC_EINVAL: the fields describe no known variant. The
 * messages name the field. */
int cogvideox_config_read(cogvideox_config *c, const cJSON *o, vc_err *err);

#endif
