/* controlnet.h - a blockwise ControlNet: weights beside those of a transformer, in a file of their
 * own with the names of DiffSynth-Studio's QwenImageBlockWiseControlNet.
 *
 * The family's tables have its weights under names with "controlnet.":
 *
 *     here                                            in the file
 *     controlnet.img_in.weight                        img_in.weight
 *     transformer_blocks.7.controlnet.x_rms.weight    controlnet_blocks.7.x_rms.weight
 *
 * A new one begins with zeros in its first and last layers, and changes nothing. */
#ifndef TRAIN_MODELS_CONTROLNET_H
#define TRAIN_MODELS_CONTROLNET_H

#include "formats/tensors/values.h"
#include "train/models/dit.h"

#define VTRAIN_CONTROL_PART "controlnet."     /* in the names of its weights */
#define VTRAIN_CONTROL_FILE "blockwise_controlnet.safetensors"       /* of a checkpoint */

typedef struct vtrain_controlnet vtrain_controlnet;

/* Opens a file, or, with path "new", one that begins. *out is NULL on failure. */
int vtrain_controlnet_open(vtrain_controlnet **out, const char *path, vc_err *err);
void vtrain_controlnet_close(vtrain_controlnet *c);         /* NULL is fine */
/* The source of a transformer's weights `base` and of the ControlNet's; valid while c lives. */
vt_source vtrain_controlnet_source(vtrain_controlnet *c, const vt_source *base);
/* Fails unless p holds every tensor of the file. */
int vtrain_controlnet_check(const vtrain_controlnet *c, vt_params *p, vc_err *err);
/* True for the name of a parameter of a ControlNet. */
bool vtrain_controlnet_has(const char *name);
/* Writes the ControlNet's parameters to dir/VTRAIN_CONTROL_FILE, in the types of its file, those of
 * a new one in f32. */
int vtrain_controlnet_write(const vtrain_controlnet *c, const char *dir, vt_params *p,
                            vf_sums *sums, vc_err *err);

#endif
