/* export.h - trained weights as other programs load them.
 *
 * A LoRA: DIR/pytorch_lora_weights.safetensors in diffusers' layout (lora.h), which has no tensor for
 * alpha; its metadata has one, which diffusers reads from 0.33 on and most other programs never do.
 * With `bake` the strength is therefore in B itself, alpha equals the rank, and every reader agrees;
 * what it was trained with is then the metadata's vlt_network_alpha. Beside it, if wanted, the same
 * values as `.lora_down.weight`, `.lora_up.weight` and a scalar `.alpha`, modules by the names of
 * the family's first authors (lora_names.h has all names as tables):
 *   DIR/lora_kohya.safetensors     lora_unet__<module, _ for .>: VideoX-Fun's merge_lora, kohya's
 *   DIR/lora_comfyui.safetensors   diffusion_model.<module>: ComfyUI; VideoX-Fun since 12/2025
 * Where they have several modules of ours as one, A of it is ours one below the other, B ours along
 * the diagonal, and rank and alpha are as many times ours.
 * All of them are sealed (safetensors.h).
 *
 * A transformer: FOLDER/config.json, the bytes it came with, and FOLDER/diffusion_pytorch_model
 * .safetensors, above `most` bytes in shards with their index: what diffusers' from_pretrained
 * loads. Every tensor is saved in the type that it had in the file. */
#ifndef TRAIN_OUTPUT_EXPORT_H
#define TRAIN_OUTPUT_EXPORT_H

#include "common/tensor/weights.h"
#include "formats/json/json.h"
#include "formats/tensors/sums.h"
#include "train/models/lora_names.h"
#include "train/models/weights.h"

#define VTRAIN_SHARD_BYTES 10000000000u       /* where diffusers begins a new shard */

typedef struct vtrain_export_lora_opts {
    const char *const *target;                /* as PEFT's target_modules */
    int n_targets;
    int64_t rank;
    double alpha;
    bool bake;                                /* alpha / rank goes into B, alpha becomes rank */
    bool kohya, comfyui;
    const char *data, *plan;                  /* what it was trained on, for the metadata: roots and
                                               * plans of the datasets, blank-separated; or NULL */
    const char *transformer;                  /* of two, the one it is for, or NULL */
    vf_sums *sums;                            /* the files are added to them, or NULL */
    const vtrain_rename *renames;             /* of the family, or NULL */
} vtrain_export_lora_opts;
int vtrain_export_lora(const char *dir, vt_params *p, const vtrain_export_lora_opts *o,
                       vc_err *err);

/* w: what the parameters were loaded from; NULL: they began from noise, and are saved as held.
 * config: written where w has no file of it. Makes the folder. Needs memory for the
 * largest tensor once more. sums as above. */
int vtrain_export_full(const char *folder, vt_params *p, const vtrain_weights *w,
                       const cJSON *config, size_t most, vf_sums *sums, vc_err *err);

/* Makes `dir`, which has its transformer/ and scheduler/, a folder that diffusers' Pipeline
 * .from_pretrained opens: model_index.json of `model` byte for byte, and a link to the model's own
 * folder for each component that it names and dir lacks. The links are absolute paths: the checkpoint
 * needs the model where it is (cp -rL makes a copy that does not). Does nothing where the model has no
 * model_index.json. dir NULL: only reads that file, so that a damaged one is known before the first
 * step. sums as above: links have none. VC_EFORMAT names it. */
int vtrain_export_pipeline(const char *dir, const char *model, vf_sums *sums, vc_err *err);

#endif
