/* ltx2_file.h - files of LTX-2 as its authors and ComfyUI's users have them: one of the whole
 * pipeline but for the text encoder (ltx-2-19b-dev.safetensors), or one of a component. Internal to
 * formats/tensors.
 *
 * Names become those of diffusers' classes. config.json is made of the sizes of tensors, and of
 * what no tensor shows (heads without gates, the kind of rotation, the decoder's padding) by the
 * authors' own configuration, which their files have as "config" in the metadata. A file without it
 * has the values of the released version that its tensors are of. */
#ifndef FORMATS_TENSORS_LTX2_FILE_H
#define FORMATS_TENSORS_LTX2_FILE_H

#include "formats/tensors/component.h"

extern const vf_rename vf_ltx2_transformer[], vf_ltx2_vae[], vf_ltx2_connectors[];
extern const vf_sized vf_ltx2_transformer_sizes[], vf_ltx2_vae_sizes[];
/* The prefixes of the connectors' tensors. */
extern const char *const vf_ltx2_connectors_only[];

/* As vf_layout.more. VC_EFORMAT: the file is of a model that is not known; the message names the
 * tensor. */
int vf_ltx2_transformer_config(cJSON *config, const vf_model *m, vc_err *err);
int vf_ltx2_vae_config(cJSON *config, const vf_model *m, vc_err *err);
int vf_ltx2_connectors_config(cJSON *config, const vf_model *m, vc_err *err);

#endif
