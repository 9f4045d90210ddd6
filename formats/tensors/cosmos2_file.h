/* cosmos2_file.h - files of Cosmos-Predict2's transformer with NVIDIA's names, as ComfyUI's and
 * diffusion-pipe's users have them (cosmos_predict2_2B_t2i.safetensors): names become those of
 * diffusers' class. Internal to formats/tensors. */
#ifndef FORMATS_TENSORS_COSMOS2_FILE_H
#define FORMATS_TENSORS_COSMOS2_FILE_H

#include "formats/tensors/component.h"

#define COSMOS2_MARK "blocks.0.adaln_modulation_cross_attn.1.weight"
/* A row of the layouts behind its marks; `within` as there. */
#define COSMOS2_TRANSFORMER(within_) \
    .within = within_, .class = "CosmosTransformer3DModel", .slot = "transformer", \
    .names = vf_cosmos2_names, .config = vf_cosmos2_config, .sizes = vf_cosmos2_sizes

extern const vf_rename vf_cosmos2_names[];
extern const vf_sized vf_cosmos2_sizes[];
extern const char vf_cosmos2_config[];

#endif
