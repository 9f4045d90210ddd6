/* lora.h - which modules get a LoRA, and how LoRA files are read.
 *
 * Targets follow PEFT's rules. A value with any of ( ) | * + ? [ ] ^ $ \ is a regular expression
 * over the whole module path (Python's, without look-around and back references). Any other value
 * is a list split at commas and blanks, whose entry matches a path that equals it or ends in
 * ".entry". An entry that matches nothing is an error that lists near names, and a value that
 * matches a module which holds others is an error that names the module. VideoX-Fun's documents
 * give `ff.0` and `ff.2`, which match no module of any family: these are left out with a line.
 * "all-linear" is every linear, and no convolution.
 *
 * Files. diffusers' pytorch_lora_weights.safetensors (export.h writes it) has
 * `transformer.<module>.lora_A.weight` [r,in] and `.lora_B.weight` [out,r] (of a convolution
 * [r,in,kernel] and [out,r,1,1]), and in __metadata__ lora_adapter_metadata with transformer.r,
 * .lora_alpha and .target_modules. All layouts in use are read: names with any of the prefixes
 * `transformer.`, `diffusion_model.`, `base_model.model.` and `pipe.dit.`, or none;
 * `.lora_A[.ADAPTER].weight` or `.lora_down.weight`, either with a scalar `.alpha`; `lora_unet_`
 * and `lora_unet__` names with underscores; any float type, and each module with its own rank.
 * Alpha is the pair's own, else the metadata's (alpha_pattern, whose keys are expressions for the
 * end of a path, before lora_alpha; use_rslora; Finetrainers' lora_config; the adapter_config.json
 * beside a file of PEFT), else the rank. Tensors of other adapters (a DoRA, a LoKr, a bias) are an
 * error. */
#ifndef TRAIN_MODELS_LORA_H
#define TRAIN_MODELS_LORA_H

#include "common/tensor/weights.h"
#include "formats/tensors/safetensors.h"
#include "train/models/lora_names.h"

typedef struct vtrain_targets vtrain_targets;
/* modules are all linears and convolutions of the model, convs the convolutions alone; both end in
 * NULL. *note is a malloc'ed line or NULL. VC_EUSAGE names the flag. */
int vtrain_targets_open(vtrain_targets **out, const char *value, const char *const *modules,
                        const char *const *convs, char **note, vc_err *err);
void vtrain_targets_close(vtrain_targets *t);
/* A callback of vt_params_lora; arg is the vtrain_targets. */
bool vtrain_targets_match(void *arg, const char *module);
/* The names of the matched modules inside their blocks ("to_q", "ff.net.0.proj"), each once: PEFT
 * calls them target_modules. */
const char *const *vtrain_targets_names(const vtrain_targets *t, int *n);

/* A LoRA on disk. */
typedef struct vtrain_lora vtrain_lora;
typedef struct vtrain_lora_pair {
    vf_view a, b;                /* [r,in], [out,r], maybe with a kernel's axes */
    double scale;                /* alpha / r */
    double trained;              /* the scale in training, which differs if alpha was baked in */
} vtrain_lora_pair;
/* path is a file, or a folder with pytorch_lora_weights.safetensors or adapter_model.safetensors.
 * VC_EFORMAT and VC_ENUMERIC (NaN, infinity) name the tensor. */
int vtrain_lora_open(vtrain_lora **out, const char *path, vc_err *err);
/* Modules are found by these names of a family too (lora_names.h); a fused module gives each of our
 * modules its rows of B. The table outlives l. */
void vtrain_lora_rename(vtrain_lora *l, const vtrain_rename *table);
void vtrain_lora_close(vtrain_lora *l);
/* VC_EMISMATCH: the file is for the other one of a model's two transformers. */
int vtrain_lora_check_of(const vtrain_lora *l, const char *transformer, vc_err *err);
/* Gives the pair of a module, whose shapes fit each other. VC_ENOENT: the file has no such
 * module. */
int vtrain_lora_get(vtrain_lora *l, const char *module, vtrain_lora_pair *p, vc_err *err);
/* VC_EMISMATCH names the first module of the file whose parts were not all asked for with get(). */
int vtrain_lora_all_used(const vtrain_lora *l, vc_err *err);

/* w [out,in] += scale * b a, computed in f64 sums of f32 rows. */
void vtrain_lora_merge(float *w, int64_t out, int64_t in, const float *a, const float *b,
                       int64_t r, double scale);
/* A source that folds a LoRA into the weights of `base`; values stay in the types of base. The
 * source lives as long as the LoRA. */
vt_source vtrain_lora_source(vtrain_lora *l, const vt_source *base);
/* Bytes of the weights that the source has made so far. */
size_t vtrain_lora_bytes(const vtrain_lora *l);

/* Copies a LoRA's values into the trained pairs of p. Every module must be in the file, with the
 * rank and the alpha of this run. A B with alpha in it is divided by that factor. */
int vtrain_lora_load(vt_params *p, vtrain_lora *l, vc_err *err);

#endif
