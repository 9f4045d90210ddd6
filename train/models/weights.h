/* weights.h - reads the transformer's files: config.json and the weights, which are converted to
 * the type that they are held in. */
#ifndef TRAIN_MODELS_WEIGHTS_H
#define TRAIN_MODELS_WEIGHTS_H

#include "formats/tensors/model.h"
#include "train/models/dit.h"

typedef struct vtrain_weights vtrain_weights;

/* Reads *at, boundary_ratio of model/model_index.json: in a folder with two transformers (Wan 2.2
 * A14B) `transformer` predicts at noise levels from *at on, and `transformer_2` at lower levels. A
 * folder of first authors has no such file, and the level of vc_first. 0: the folder has one
 * transformer. */
int vtrain_weights_boundary(double *at, const char *model, vc_err *err);

/* Opens the folder or file `transformer`; if that is NULL, the folder model/<name> or its first
 * authors' (vf_component_find), or model itself if it has a config.json. Weights of linears are
 * held in the type `held` (NONE: in the file's type). Errors name the flag. *out is NULL on
 * failure. */
int vtrain_weights_open(vtrain_weights **out, const char *model, const char *name,
                        const char *transformer, vc_dtype held, vc_err *err);
/* Adds a preset, a LoRA's file that is folded into the weights, times `strength`, behind those that
 * were added before; `name` as of the opening. VC_EUSAGE: there are too many. */
int vtrain_weights_fold(vtrain_weights *w, const char *path, double strength, const char *name,
                        vc_err *err);
void vtrain_weights_close(vtrain_weights *w);               /* NULL is fine */
/* *out is the pipeline in model/model_index.json, else vf_transformer_pipeline; NULL for a family
 * that has none. Sets the field that this pipeline implies (vc_pipeline.flag), and is_distilled
 * where model_index.json has it, in config, the config.json of a transformer of this family, unless
 * config has the field. model may be NULL. */
int vtrain_weights_pipeline(const vc_pipeline **out, cJSON *config, const vtrain_family *family,
                            const char *model, vc_err *err);
const cJSON *vtrain_weights_config(const vtrain_weights *w);
/* A line for the user about what of preset i is not read, or NULL. */
const char *vtrain_weights_note(const vtrain_weights *w, int i);
const char *vtrain_weights_path(const vtrain_weights *w);
/* vf_model_files of the files, taken when they were opened. */
vf_key vtrain_weights_files(const vtrain_weights *w);
/* vf_model_hash of the files, all of which this call reads. */
int vtrain_weights_hash(vf_key *k, const vtrain_weights *w, const atomic_int *stop, vc_err *err);
/* Prepares w for a family, before the caller binds weights. The presets' modules are also found by
 * the family's tables of names (vtrain_lora_rename), and its spare tensors may be in the file. If
 * the folder or file is the first authors', its config becomes ours, and its tensors are found by
 * our names. */
int vtrain_weights_family(vtrain_weights *w, const vtrain_family *family, vc_err *err);
/* True if the transformer's config.json is not that of the files: it was converted, or has settings
 * of this run. */
bool vtrain_weights_config_made(const vtrain_weights *w);
double vtrain_weights_file_bytes(const vtrain_weights *w);  /* NULL: 0 */
/* The source of the weights, for vt_params_bind; valid while w lives. sizes_only: as of vt_options;
 * the presets are not folded in, only their memory is counted. */
vt_source vtrain_weights_source(vtrain_weights *w, bool sizes_only);
/* Bytes of private memory that hold weights with presets folded in. */
size_t vtrain_weights_bytes(const vtrain_weights *w);       /* NULL: 0 */
/* Fails unless p holds every tensor of the file and every module of the presets was folded in. */
int vtrain_weights_check(const vtrain_weights *w, vt_params *p, vc_err *err);
/* Finds the tensors of the file that p does not hold, which a whole model keeps: *v, borrowed and
 * in an array that the caller frees, and *n of them. VC_EMISMATCH: one is of fp8, whose scale no
 * file of a whole model has. */
int vtrain_weights_kept(vf_view **v, int *n, const vtrain_weights *w, vt_params *p, vc_err *err);
/* Hashes preset i, and sets its strength; false: there is none. */
bool vtrain_weights_preset(const vtrain_weights *w, int i, vf_key *k, double *strength);
/* Releases the resident pages of the files' maps, once the values have been copied. */
void vtrain_weights_release(const vtrain_weights *w);
/* The type in which a trained tensor is written: the file's, or bf16 where the file has codes;
 * f32 where the file has no such tensor or w is NULL. */
vc_dtype vtrain_weights_type(const vtrain_weights *w, const char *name);

#endif
