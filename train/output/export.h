/* export.h - exports trained weights in the formats of other programs.
 *
 * A LoRA is DIR/pytorch_lora_weights.safetensors in diffusers' layout (lora.h), which has no tensor
 * for alpha: its metadata has alpha, which diffusers reads from 0.33 on and most other programs
 * never do. With `bake` the strength alpha / rank is therefore multiplied into B and alpha equals
 * the rank, so that all programs agree; the metadata's vlt_network_alpha is the trained alpha. If
 * wanted, more files have the same values as `.lora_down.weight`, `.lora_up.weight` and a
 * scalar `.alpha`, with modules by the names of the family's first authors (tables in
 * train/lora/names.h), or in lora_kohya by ours where VideoX-Fun's model has them:
 *   DIR/lora_kohya.safetensors     lora_unet__<module, _ for .>: VideoX-Fun's merge_lora; or
 *                                  lora_unet_<module>: kohya's sd-scripts
 *   DIR/lora_comfyui.safetensors   diffusion_model.<module>: ComfyUI, musubi-tuner's convert_lora
 *   DIR/lora_diffsynth.safetensors <module> by our names: DiffSynth-Studio's models that have these
 * Where the first authors' names have one module for n of ours, its A has our A one below the
 * other, its B has our B along the diagonal, and its rank and alpha are the sums of ours; if ours
 * have other strengths, they are multiplied into B. Where their halves of a module are in the other
 * order (VTRAIN_SWAPPED), so are those of B in their file. A module's own rank and alpha are PEFT's
 * rank_pattern and alpha_pattern in the metadata. All files are sealed (safetensors.h).
 *
 * A transformer is a folder that diffusers' from_pretrained loads: config.json, a copy of the
 * model's, and diffusion_pytorch_model.safetensors, above `most` bytes in shards with an index.
 * Every tensor is saved in the type that it had in the model's file, and tensors of the file that
 * the model does not use, such as those of LTX-2's sound, are kept as they are. */
#ifndef TRAIN_OUTPUT_EXPORT_H
#define TRAIN_OUTPUT_EXPORT_H

#include "common/tensor/weights.h"
#include "formats/json/json.h"
#include "formats/tensors/sums.h"
#include "train/lora/names.h"
#include "train/models/weights.h"

#define VTRAIN_SHARD_BYTES 10000000000u       /* a shard's most bytes, as in diffusers */

typedef struct vtrain_export_lora_opts {
    const char *const *target;                /* as PEFT's target_modules */
    int n_targets;
    int64_t rank;                             /* of most modules */
    double alpha;
    bool bake;                                /* multiplies B by alpha / rank; alpha is then rank */
    const vtrain_naming *kohya;               /* of lora_kohya.safetensors; NULL: not written */
    bool comfyui, diffsynth;
    const char *data, *plan;                  /* for the metadata: roots and plans of the training
                                               * datasets, blank-separated; or NULL */
    const char *transformer;                  /* trained one of a model's two, or NULL */
    int model;                                /* whose pairs are exported (vt_param.model) */
    const char *suffix;                       /* of the names lora_kohya, lora_comfyui..; or
                                               * NULL */
    const char *more;                         /* folder of these files; NULL: dir */
    vf_sums *sums;                            /* gets the files' checksums, or NULL */
    const vtrain_rename *renames;             /* of the family, or NULL */
} vtrain_export_lora_opts;
int vtrain_export_lora(const char *dir, vt_params *p, const vtrain_export_lora_opts *o,
                       vc_err *err);

/* Makes the folder and exports a transformer. w: the files that the parameters were loaded from;
 * NULL: the parameters began as noise, and are saved in their types in memory, with `config` as
 * config.json. Needs memory for a copy of the largest tensor. sums as above. */
int vtrain_export_full(const char *folder, vt_params *p, const vtrain_weights *w,
                       const cJSON *config, size_t most, vf_sums *sums, vc_err *err);

/* Makes `dir`, which has transformer/ and scheduler/ already, a folder that diffusers' Pipeline
 * .from_pretrained opens: copies model_index.json of `model`, and adds a link to the model's folder
 * for each component that the index names and dir lacks. The links are absolute paths, so the
 * checkpoint needs the model in its place (cp -rL makes a copy without links). Does nothing if the
 * model has no model_index.json. dir NULL: only reads model_index.json, so that the run fails on a
 * damaged one before its first step. sums as above; links have no checksums. *linked is false if
 * the file system has no links, so that components lack; NULL if dir is. VC_EFORMAT: the file is
 * damaged; the error names it. */
int vtrain_export_pipeline(const char *dir, const char *model, vf_sums *sums, bool *linked,
                           vc_err *err);

#endif
