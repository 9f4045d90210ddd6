/* text_folder.h - writes the model of a golden as a folder, unchanged or changed. For tests:
 * failures end the test. */
#ifndef TESTS_PRECOMPUTE_TEXT_FOLDER_H
#define TESTS_PRECOMPUTE_TEXT_FOLDER_H

#include "precompute/encoder.h"
#include "tests/lib/golden.h"

enum { TF_TENSORS = 128 };

/* The golden tests/golden/NAME, and the folder of its model, whose weights have one type. */
typedef struct tf_fixture {
    vf_safetensors *gold;
    char dir[512];
} tf_fixture;

tf_fixture tf_open(const char *name, vc_dtype stored);
void tf_close(tf_fixture *f);

/* Changes a tensor for a copy of the model; false: the copy lacks this tensor. */
typedef bool tf_edit(vf_view *v, const void *arg);
/* Writes a copy of the model into the new folder dir: f's tensors, changed by edit (NULL: not
 * changed), and the n_more tensors `more`. config NULL: the golden's config.json. */
void tf_write(const tf_fixture *f, const char *dir, const char *config, tf_edit *edit,
              const void *arg, int shards, const vf_view *more, int n_more);
/* The edit that makes the tensor of this name, [n] in f32 with n of up to TF_ROW, a row of NaNs. */
enum { TF_ROW = 64 };
bool tf_poison(vf_view *v, const void *name);
/* The edits that put a prefix before the names of all tensors, and that leave out the tensor of
 * this name. */
bool tf_below(vf_view *v, const void *prefix);
bool tf_without(vf_view *v, const void *name);
void tf_put_text(const char *dir, const char *name, const char *text);
/* The golden's config with `value` (JSON) for a field, or for a NULL value without the field;
 * malloc'ed. */
char *tf_changed(const tf_fixture *f, const char *field, const char *value);
void tf_put_config(const tf_fixture *f, const char *text);

/* The rule by which a slot of a family's pipeline encodes its prompts; pipeline NULL: the family's
 * first. */
text_rule tf_pipeline_rule(const char *family, const char *pipeline, int slot);
text_rule tf_rule(const char *family, int slot);
/* Puts the golden's tokenizer beside the model. */
void tf_put_tokenizer(const tf_fixture *f, const char *pad);
/* How the model in a folder is opened, alone or as a part of a family. */
encoder_opts tf_alone(const char *dir, vc_dtype type);
encoder_opts tf_options(const tf_fixture *f, const char *family, int slot, vc_dtype type);

#endif
