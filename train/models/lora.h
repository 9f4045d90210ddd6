/* lora.h - LoRA: which modules, and the files that hold one (diffusers' layout).
 *
 * Targets, by PEFT's rules. A value with any of ( ) | * + ? [ ] ^ $ \ is a regular expression over
 * the whole module path (Python's, without look-around and back references); else it is a list
 * split at commas and blanks, and an entry matches a path that equals it or ends in ".entry". An
 * entry that matches nothing is an error listing near names, a value that matches a module which
 * holds others an error naming it. `ff.0` and `ff.2`, which VideoX-Fun's own documents give and
 * which match no module of any family, are left out with a line. "all-linear": every linear, and no
 * convolution.
 *
 * Files. pytorch_lora_weights.safetensors: `transformer.<module>.lora_A.weight` [r,in],
 * `.lora_B.weight` [out,r] (a convolution's: [r,in,kernel], [out,r,1,1]), and __metadata__'s lora_adapter_metadata with transformer.r,
 * .lora_alpha, .target_modules (export.h writes it). Read are, by what a name has in it, all layouts
 * in use: with any of the prefixes `transformer.`, `diffusion_model.`, `base_model.model.` and
 * `pipe.dit.`, or none; `.lora_A[.ADAPTER].weight` or `.lora_down.weight`, either with a scalar
 * `.alpha`; and `lora_unet_` / `lora_unet__` names with underscores; of any float type, each module
 * with its own rank. Alpha is the pair's own, else the metadata's (alpha_pattern, whose keys are
 * expressions for the end of a path, before lora_alpha; use_rslora; Finetrainers' lora_config; of a
 * file of PEFT's the adapter_config.json beside it), else the rank. What is no such pair (a DoRA, a LoKr, a bias) is refused, not left out. */
#ifndef TRAIN_MODELS_LORA_H
#define TRAIN_MODELS_LORA_H

#include "common/tensor/weights.h"
#include "formats/tensors/safetensors.h"
#include "train/models/lora_names.h"

typedef struct vtrain_targets vtrain_targets;
/* modules: all linears and convolutions of the model, NULL-ended; convs: the latter of them. *note:
 * malloc'ed line or NULL. VC_EUSAGE names the flag. */
int vtrain_targets_open(vtrain_targets **out, const char *value, const char *const *modules,
                        const char *const *convs, char **note, vc_err *err);
void vtrain_targets_close(vtrain_targets *t);
/* As vt_params_lora wants it: arg is the vtrain_targets. */
bool vtrain_targets_match(void *arg, const char *module);
/* The last parts of the matched modules, each once ("to_q", "ff.net.0.proj"): what PEFT calls
 * target_modules. */
const char *const *vtrain_targets_names(const vtrain_targets *t, int *n);

/* A LoRA on disk. */
typedef struct vtrain_lora vtrain_lora;
typedef struct vtrain_lora_pair {
    vf_view a, b;                /* [r,in], [out,r], maybe with a kernel's axes */
    double scale;                /* alpha / r */
    double trained;              /* what it was while it was trained: not scale if export.h baked it */
} vtrain_lora_pair;
/* A file, or a folder with pytorch_lora_weights.safetensors or adapter_model.safetensors in it.
 * VC_EFORMAT, VC_ENUMERIC (NaN, infinity) name the tensor. */
int vtrain_lora_open(vtrain_lora **out, const char *path, vc_err *err);
/* Modules are found by these names of a family too (lora_names.h); a fused one gives each of its
 * modules its rows of B. The table outlives l. */
void vtrain_lora_rename(vtrain_lora *l, const vtrain_rename *table);
void vtrain_lora_close(vtrain_lora *l);
/* VC_EMISMATCH: export.h wrote it for another of a model's two transformers. */
int vtrain_lora_check_of(const vtrain_lora *l, const char *transformer, vc_err *err);
/* The pair of a module; VC_ENOENT: it has none. Checks both shapes against each other. */
int vtrain_lora_get(vtrain_lora *l, const char *module, vtrain_lora_pair *p, vc_err *err);
/* VC_EMISMATCH naming the first module of the file that get() was never asked for, or not for all
 * parts of. */
int vtrain_lora_all_used(const vtrain_lora *l, vc_err *err);

/* w [out,in] += scale * b a, computed in f64 sums of f32 rows. */
void vtrain_lora_merge(float *w, int64_t out, int64_t in, const float *a, const float *b,
                       int64_t r, double scale);
/* A source whose weights have a LoRA folded in: wraps `base`; values stay in base's types. The
 * wrapper lives as long as the lora. */
vt_source vtrain_lora_source(vtrain_lora *l, const vt_source *base);
/* Bytes of the weights it has made so far. */
size_t vtrain_lora_bytes(const vtrain_lora *l);

/* Copies a LoRA's values into the trained pairs of p; every module must be there, ranks and the
 * alpha they were trained with must agree. A baked B is divided by what it was multiplied by. */
int vtrain_lora_load(vt_params *p, vtrain_lora *l, vc_err *err);

#endif
