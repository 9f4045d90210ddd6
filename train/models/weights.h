/* weights.h - the transformer's files: config.json, values, and what becomes of their types. */
#ifndef TRAIN_MODELS_WEIGHTS_H
#define TRAIN_MODELS_WEIGHTS_H

#include "formats/tensors/model.h"
#include "train/models/dit.h"

typedef struct vtrain_weights vtrain_weights;

/* Of a folder with two transformers (Wan 2.2 A14B): the level from which on `transformer` is asked,
 * below it `transformer_2`: boundary_ratio of model/model_index.json. 0: there is one for all. */
int vtrain_weights_boundary(double *at, const char *model, vc_err *err);

/* transformer: its folder; else model/<name>, or model itself if config.json is there. held: the
 * type the weights of linears are held in (NONE: as in the file); preset: a LoRA to fold in, or
 * NULL. Errors name the flag. */
int vtrain_weights_open(vtrain_weights **out, const char *model, const char *name,
                        const char *transformer, vc_dtype held, const char *preset, vc_err *err);
void vtrain_weights_close(vtrain_weights *w);               /* NULL is fine */
const cJSON *vtrain_weights_config(const vtrain_weights *w);
const char *vtrain_weights_path(const vtrain_weights *w);
/* vf_model_files of them as they were opened, and vf_model_hash, which reads them all. */
vf_key vtrain_weights_files(const vtrain_weights *w);
int vtrain_weights_hash(vf_key *k, const vtrain_weights *w, const atomic_int *stop, vc_err *err);
/* The preset's modules are found by these names too (vtrain_lora_rename). Call it before values are
 * read. */
void vtrain_weights_rename(vtrain_weights *w, const vtrain_rename *table);
/* Values for vt_params_bind; valid while w lives. */
vt_source vtrain_weights_source(vtrain_weights *w);
/* Private memory of values that have the preset in them. */
size_t vtrain_weights_bytes(const vtrain_weights *w);       /* NULL: 0 */
/* Fails unless p holds every tensor of the file, and every module of the preset was folded in. */
int vtrain_weights_check(const vtrain_weights *w, vt_params *p, vc_err *err);
/* Gives the memory of the files' maps back: what was copied is not read again. */
void vtrain_weights_release(const vtrain_weights *w);
/* Type of a tensor in the file; f32 if it has none (or w is NULL). */
vc_dtype vtrain_weights_type(const vtrain_weights *w, const char *name);

#endif
