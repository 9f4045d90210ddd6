/* lora.h - the choice of modules that get a LoRA, and the reading of LoRA files.
 *
 * Targets follow PEFT's rules. A value with any of ( ) | * + ? [ ] ^ $ \ is a regular expression
 * over the whole module path, as Python has them. Any other value is a list with commas or blanks between its entries. An entry matches a path that equals the
 * entry or ends in ".entry". An entry that matches nothing is an error that lists near names, and a
 * value that matches a module which holds others is an error that names the module. VideoX-Fun's
 * documents give `ff.0`, `img_mlp.2` and the like for `ff.net.0.proj` and `img_mlp.net.2`, which
 * match no module: a note reports that these entries are left out. "all-linear" matches every
 * linear, and no convolution. Where more entries match the names of one of the family's tables
 * (names.h) than ours, as DiffSynth's "a_to_qkv" for FLUX.1 or "q,ffn.0" for Wan, the entries
 * match by these names.
 *
 * Files. diffusers' pytorch_lora_weights.safetensors (written by export.h) has
 * `transformer.<module>.lora_A.weight` [r,in] and `.lora_B.weight` [out,r] (of a convolution
 * [r,in,kernel] and [out,r,1,1]), and in __metadata__ lora_adapter_metadata with transformer.r,
 * .lora_alpha and .target_modules. All layouts in use are read (tables in names.c): names with
 * prefixes (`transformer.`, `diffusion_model.`, `model.diffusion_model.`, `unet.`, `pipe.dit.`,
 * `base_model.model.`, ...) or without one; `.lora_A[.ADAPTER].weight`, `.lora_down.weight` and
 * other words, each with or without a scalar `.alpha`; `lora_unet_`, `lora_unet__`,
 * `lora_transformer_` and `lycoris_` names with underscores; any float type, and each module with
 * its own rank. `transformer_2.` and `pipe.dit2.` are the second of a model's two transformers.
 * The pair's own alpha comes before the metadata's (alpha.h); without both, alpha is the rank.
 * Those of a DoRA (`.lora_magnitude_vector`, `.dora_scale`), a LoHa (`.hada_w1_a`, ...) and a LoKr
 * (`.lokr_w1`, ...), which may have `.dora_scale` too, are read as well. Changes of layers, norms
 * and biases (`.diff`, `.diff_b`) can be folded in, but not trained. Tensors of other adapters (an
 * OFT) and of text encoders are an error. */
#ifndef TRAIN_LORA_LORA_H
#define TRAIN_LORA_LORA_H

#include "common/adapters/adapter.h"
#include "formats/tensors/model.h"
#include "formats/tensors/safetensors.h"
#include "train/lora/names.h"

typedef struct vtrain_targets vtrain_targets;
/* `modules` are all linears and convolutions of the model, `convs` the convolutions alone; a NULL
 * ends both lists. The tables `names` of other names outlive the targets; they may be NULL. *note
 * is a line for the user, malloc'ed, or NULL. VC_EUSAGE names the flag. *out is NULL on failure. */
int vtrain_targets_open(vtrain_targets **out, const char *value, const char *const *modules,
                        const char *const *convs, const vtrain_rename *const names[2],
                        char **note, vc_err *err);
void vtrain_targets_close(vtrain_targets *t);
/* Returns true if the module gets a LoRA: a callback of vt_params_lora, whose arg is the
 * vtrain_targets. */
bool vtrain_targets_match(void *arg, const char *module);
/* The names of the matched modules inside their blocks ("to_q", "ff.net.0.proj"), each once: the
 * target_modules of PEFT. t owns the *n names. */
const char *const *vtrain_targets_names(const vtrain_targets *t, int *n);

/* Makes the value of --target_name that matches the modules `chosen`, pointers of the list
 * `modules`, and no others of it; a NULL ends both lists. The caller frees *out. */
int vtrain_targets_of(char **out, const char *const *modules, const char *const *chosen,
                      vc_err *err);

/* An open LoRA file. */
typedef struct vtrain_lora vtrain_lora;
typedef struct vtrain_lora_pair {
    vf_view a, b;                /* [r,in] and [out,r], of a convolution with a kernel's axes */
    double scale;                /* alpha / r */
    double trained;              /* scale in training; differs where alpha was baked into b */
    vf_view magnitude;           /* [out] of a DoRA, if `scaled` */
    bool scaled;
    int part, parts;             /* of a fused module, whose a is that of all its parts */
} vtrain_lora_pair;
/* Opens a file, or the pytorch_lora_weights.safetensors or adapter_model.safetensors of a folder.
 * VC_EFORMAT and VC_ENUMERIC (NaN, infinity) name the tensor. *out is NULL on failure. */
int vtrain_lora_open(vtrain_lora **out, const char *path, vc_err *err);
/* Modules are also found by the names of a family's tables (names.h), which may be NULL; each
 * of our modules gets its rows of a fused module's B. The tables outlive l. */
void vtrain_lora_rename(vtrain_lora *l, const vtrain_rename *first, const vtrain_rename *peer);
void vtrain_lora_close(vtrain_lora *l);
/* Hashes the file's tensors and alphas: equal keys mean that the LoRA adds the same to a model. */
vf_key vtrain_lora_hash(const vtrain_lora *l);
/* Of a file with the LoRAs of both of a model's transformers, only those of this one are left.
 * VC_EMISMATCH: the file was trained for the other one alone. */
int vtrain_lora_check_of(vtrain_lora *l, const char *transformer, vc_err *err);
/* A line for the user about what of the file is not read, or NULL. */
const char *vtrain_lora_note(const vtrain_lora *l);
/* Sets *p to the pair of a module; the shapes of its halves fit each other. Its views last as long
 * as l. VC_ENOENT: the file has no such module. */
int vtrain_lora_get(vtrain_lora *l, const char *module, vtrain_lora_pair *p, vc_err *err);
/* VC_EMISMATCH: vtrain_lora_get was not called for all parts of a module of the file; the message
 * names the first such module, and says whether the transformer p (NULL: any) has it. */
int vtrain_lora_all_used(vtrain_lora *l, vt_params *p, vc_err *err);

/* Adds scale * b a to w [out,in]: each row is summed in f64 and rounded to f32 once. */
void vtrain_lora_merge(float *w, int64_t out, int64_t in, const float *a, const float *b,
                       int64_t r, double scale);
/* Multiplies what the file's source adds. VC_EUSAGE: the file has magnitudes, whose strength means
 * something else to each program. */
int vtrain_lora_weaken(vtrain_lora *l, double strength, vc_err *err);
double vtrain_lora_strength(const vtrain_lora *l);
/* A source that folds a LoRA into the weights of `base`, whose types stay, except that codes become
 * bf16. The source is valid as long as l. sizes_only: the source has the values of `base`, and only
 * counts the memory. A base may be such a source too: a weight that both change is rounded twice,
 * and one copy of it stays. */
vt_source vtrain_lora_source(vtrain_lora *l, const vt_source *base, bool sizes_only);
/* Bytes of the weights that the source, and those that it is the base of, have made by now. */
size_t vtrain_lora_bytes(const vtrain_lora *l);

/* Sets *s to the adapter with which the file's module was trained; s->factor is the one that is
 * tried first for a LoKr. VC_ENOENT: the file does not have the module. VC_EMISMATCH: its alpha or
 * its factors cannot be trained with. */
int vtrain_lora_size(vtrain_lora *l, const char *module, vt_adapter_size *s, vc_err *err);
/* Copies a LoRA's values into the trained pairs of one model (vt_param.model) of p. The file must
 * have every module of it, with the rank and the alpha of this run. A baked alpha is divided out of
 * B. A fused module whose B is block-diagonal, as vtrain writes them, is split into the pairs of
 * its parts. */
int vtrain_lora_load(vt_params *p, vtrain_lora *l, int model, vc_err *err);

#endif
