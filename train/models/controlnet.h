/* controlnet.h - a ControlNet: weights beside those of a transformer, in a file of their own. Two
 * kinds exist. A blockwise one (DiffSynth-Studio's QwenImageBlockWiseControlNet) has a small net
 * behind each block of the transformer, and its weights are rows of the family's tables. One of
 * copied blocks (diffusers' FluxControlNetModel, QwenImageControlNetModel) is a smaller model of
 * the family beside the transformer (vtrain_family.copied).
 *
 * Their weights have names with "controlnet.":
 *
 *     here                                            in the file
 *     controlnet.img_in.weight                        img_in.weight
 *     transformer_blocks.7.controlnet.x_rms.weight    controlnet_blocks.7.x_rms.weight
 *     controlnet.transformer_blocks.0.attn.to_q.bias  transformer_blocks.0.attn.to_q.bias
 *     controlnet.controlnet_blocks.0.weight           controlnet_blocks.0.weight
 *
 * A new one changes nothing at first: the last layers of a blockwise one, and the layers before and
 * behind copied blocks, are zeros. Copied blocks begin with the transformer's values. */
#ifndef TRAIN_MODELS_CONTROLNET_H
#define TRAIN_MODELS_CONTROLNET_H

#include "formats/tensors/values.h"
#include "train/models/dit.h"

#define VTRAIN_CONTROL_FILE "blockwise_controlnet.safetensors"       /* of a checkpoint */
#define VTRAIN_CONTROL_FOLDER "controlnet"    /* of one with copied blocks, as diffusers reads it */

typedef struct vtrain_controlnet vtrain_controlnet;

/* Opens a file, or, with path "new", one that begins. Errors name the flag, which lives as long.
 * *out is NULL on failure. */
int vtrain_controlnet_open(vtrain_controlnet **out, const char *flag, const char *path,
                           vc_err *err);
void vtrain_controlnet_close(vtrain_controlnet *c);         /* NULL is fine */
/* What a new one has. */
typedef struct vtrain_controlnet_new {
    int64_t blocks[2];                        /* copied ones of each kind, at most the
                                               * transformer's */
    int64_t kinds;                            /* of pictures that it knows; 0: it is no Union */
    bool masked;                              /* its condition is a masked picture with its mask */
} vtrain_controlnet_new;
/* Makes c one of copied blocks, and adds its config.json as the field "controlnet" to `config`, the
 * transformer's. Errors name the field of config.json or the tensor by which the file is of another
 * transformer or has inputs that are not trained here. */
int vtrain_controlnet_copies(vtrain_controlnet *c, cJSON *config, const vtrain_family *of,
                             const vtrain_controlnet_new *want, vc_err *err);
/* Makes c a blockwise one: sets the field (vtrain_family.controlnet) of `config`. */
int vtrain_controlnet_blockwise(const vtrain_controlnet *c, cJSON *config, const char *field,
                                bool masked, vc_err *err);
/* The source of a transformer's weights `base` and of the ControlNet's; valid while c lives. */
vt_source vtrain_controlnet_source(vtrain_controlnet *c, const vt_source *base);
/* Fails unless p holds every tensor of the file. */
int vtrain_controlnet_check(const vtrain_controlnet *c, vt_params *p, vc_err *err);
/* True for the name of a parameter of a ControlNet. */
bool vtrain_controlnet_has(const char *name);
/* The name of what vtrain_controlnet_write writes to a checkpoint, and who opens it. */
const char *vtrain_controlnet_name(const vtrain_controlnet *c);
const char *vtrain_controlnet_reader(const vtrain_controlnet *c);
/* Writes the ControlNet's parameters, in the types of its file, those of a new one in f32: to
 * dir/VTRAIN_CONTROL_FILE, or with copied blocks to the folder dir/VTRAIN_CONTROL_FOLDER. */
int vtrain_controlnet_write(const vtrain_controlnet *c, const char *dir, vt_params *p,
                            vf_sums *sums, vc_err *err);

#endif
