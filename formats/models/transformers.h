/* transformers.h - the transformers that vtrain trains: their classes, the fields of config.json
 * that must have one value, the channels, and the names of their tensors.
 *
 * Both programs ask here, vtrain before it loads a model and vprep before it encodes for one, so
 * that a variant with more inputs than a dataset has (VACE, Animate, S2V, Fun-Control 1.1, ...) is
 * refused by both in the same words. The sizes of tensors are checked by vtrain alone, when it
 * binds them. Only headers of files are read. */
#ifndef FORMATS_TENSORS_TRANSFORMERS_H
#define FORMATS_TENSORS_TRANSFORMERS_H

#include "common/families.h"
#include "formats/json/json.h"
#include "formats/tensors/model.h"

/* Checks a transformer's config.json, diffusers' or first authors'. VC_EINVAL, VC_EFORMAT: the
 * error names the class or the field, and the variant where it is known. */
int vf_transformer_check_config(const cJSON *config, vc_err *err);
/* Refuses a class that vtrain does not train: returns VC_EINVAL. */
int vf_transformer_refuse_class(const char *class, vc_err *err);
/* The same as vf_transformer_check_config for a config.json that may lack its class; a class that
 * is not listed passes. */
int vf_transformer_check_fields(const char *class, const cJSON *config, vc_err *err);
/* Checks that every tensor of m has a name that transformers of the class have; a class that is not
 * listed passes. VC_EMISMATCH: the error names the tensor, and the variant where it is known. */
int vf_transformer_check_names(const char *class, const vf_model *m, vc_err *err);
/* Whether transformers of a class may have a tensor of this name; true for a class whose names are
 * not listed. */
bool vf_transformer_has(const char *class, const char *name);

/* Calls row(arg, models, reads) for each variant that is refused by name: `models` are those of its
 * class that vtrain trains, and `reads` is what the variant reads besides. Rows of the same models
 * follow each other. */
void vf_transformer_each_refused(void (*row)(void *arg, const char *models, const char *reads),
                                 void *arg);

/* Calls row(arg, model, reads) for each model of diffusers' other pipelines, but for pipelines that
 * run the weights of one here. reads: what it reads that no dataset has; NULL: no family has its
 * network. */
void vf_transformer_each_other(void (*row)(void *arg, const char *model, const char *reads),
                               void *arg);

/* The pipeline for a transformer whose folder names none: that whose flag is set in the
 * transformer's config.json, else the family's first. */
const vc_pipeline *vf_transformer_pipeline(const vc_family *f, const cJSON *config);

/* Checks the _class_name of model/model_index.json. VC_EINVAL: no family has such a pipeline. A
 * folder without the file passes. */
int vf_transformer_check_pipeline(const char *model, vc_err *err);

/* Checks the pipeline and all transformers of a model's folder. *unread becomes malloc'ed text that
 * says why names of tensors could not be read, as in a folder of encoders alone, or NULL. Errors
 * are those of the functions above, with the path in front. The caller frees *unread. */
int vf_transformer_check(char **unread, const char *model, vc_err *err);
/* Checks the transformer in a file or a folder; one that cannot be read passes. */
int vf_transformer_check_file(const char *path, vc_err *err);

#endif
