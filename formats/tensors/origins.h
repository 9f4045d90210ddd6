/* origins.h - models as the users of DiffSynth-Studio name them: by their files.
 *
 * --model_paths is JSON, a list of files and of lists of shards. --model_id_with_origin_paths has
 * ID:PATTERN, ..., with files of models that DiffSynth-Studio has downloaded to BASE/ID, where BASE
 * is $DIFFSYNTH_MODEL_BASE_PATH or "./models". Here nothing is downloaded. */
#ifndef FORMATS_TENSORS_ORIGINS_H
#define FORMATS_TENSORS_ORIGINS_H

#include "common/base/err.h"

/* Gets each component: its slot ("vae", "text_encoder", "transformer", ...) and its file or folder;
 * and with the slot "model" the folder of the model that the transformer belongs to, if there is
 * one. The texts are borrowed for the call. */
typedef int (*vf_origin_found)(void *arg, const char *slot, const char *path, vc_err *err);

/* Reads both texts, each of which may be NULL. VC_EUSAGE: no JSON, a file that is missing (with the
 * command that downloads it), or one of no known kind. */
int vf_origins(const char *paths, const char *ids, vf_origin_found found, void *arg, vc_err *err);
/* Makes the path of "ID:PATTERN", as --tokenizer_path names a folder, malloc'ed; *out is NULL where
 * the text has another form or is a path that is there. VC_EUSAGE: the file is missing. */
int vf_origin_path(char **out, const char *text, vc_err *err);

#endif
