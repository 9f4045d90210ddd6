/* weights.h - the transformer's files: config.json, the values, and the types they are held in. */
#ifndef TRAIN_MODELS_WEIGHTS_H
#define TRAIN_MODELS_WEIGHTS_H

#include "formats/tensors/model.h"
#include "train/models/dit.h"

typedef struct vtrain_weights vtrain_weights;

/* *at is boundary_ratio of model/model_index.json: in a folder of two transformers (Wan 2.2 A14B)
 * `transformer` is asked at levels from *at on, and `transformer_2` below. 0: the folder has one
 * transformer. */
int vtrain_weights_boundary(double *at, const char *model, vc_err *err);

/* transformer is the folder, or NULL: then it is model/<name>, or model itself if config.json is
 * there. held is the type that weights of linears are held in (NONE: that of the file). preset is a
 * LoRA to fold in, or NULL. Errors name the flag. */
int vtrain_weights_open(vtrain_weights **out, const char *model, const char *name,
                        const char *transformer, vc_dtype held, const char *preset, vc_err *err);
void vtrain_weights_close(vtrain_weights *w);               /* NULL is fine */
/* Sets in config, of that family's transformer, the field that the pipeline of
 * model/model_index.json says (vc_pipeline.flag), unless config has the field. model may be NULL. */
int vtrain_weights_pipeline(cJSON *config, const vtrain_family *family, const char *model,
                            vc_err *err);
const cJSON *vtrain_weights_config(const vtrain_weights *w);
const char *vtrain_weights_path(const vtrain_weights *w);
/* vf_model_files of the files as they were opened, and vf_model_hash, which reads all of them. */
vf_key vtrain_weights_files(const vtrain_weights *w);
int vtrain_weights_hash(vf_key *k, const vtrain_weights *w, const atomic_int *stop, vc_err *err);
/* The preset's modules are found by these names too (vtrain_lora_rename). To be called before
 * values are read. */
void vtrain_weights_rename(vtrain_weights *w, const vtrain_rename *table);
/* The values, for vt_params_bind; valid while w lives. */
vt_source vtrain_weights_source(vtrain_weights *w);
/* Bytes of private memory that values with the preset take. */
size_t vtrain_weights_bytes(const vtrain_weights *w);       /* NULL: 0 */
/* Fails unless p holds every tensor of the file and every module of the preset was folded in. */
int vtrain_weights_check(const vtrain_weights *w, vt_params *p, vc_err *err);
/* Gives the memory of the files' maps back, for values that have been copied. */
void vtrain_weights_release(const vtrain_weights *w);
/* The type of a tensor in the file; f32 if the file has no such tensor, or w is NULL. */
vc_dtype vtrain_weights_type(const vtrain_weights *w, const char *name);

#endif
