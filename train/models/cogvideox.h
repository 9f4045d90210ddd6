/* cogvideox.h - config.json of a CogVideoX transformer; for cogvideox*.c only. */
#ifndef TRAIN_MODELS_COGVIDEOX_H
#define TRAIN_MODELS_COGVIDEOX_H

#include "formats/json/json.h"

typedef struct cogvideox_config {
    int64_t heads, head, layers, in_channels, out_channels, text, time;
    int64_t ofs, patch, patch_t;              /* ofs, patch_t: 0: none */
    int64_t rows, columns, frames;            /* sample_*: latents, latents, pixels */
    int64_t compression, max_text;
    double eps, spatial_scale, temporal_scale;
    bool rotary, learned, patch_bias;
} cogvideox_config;

/* Fields that are missing have diffusers' defaults. VC_EFORMAT: a field is of another kind, out of
 * range or not supported; VC_EINVAL: the model is none of the known variants. Both name the
 * field. */
int cogvideox_config_read(cogvideox_config *c, const cJSON *o, vc_err *err);

#endif
