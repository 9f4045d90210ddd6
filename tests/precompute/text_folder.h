/* text_folder.h - the model of a golden as a folder, as it is and changed. For tests: failures end
 * the test. */
#ifndef TESTS_PRECOMPUTE_TEXT_FOLDER_H
#define TESTS_PRECOMPUTE_TEXT_FOLDER_H

#include "tests/lib/golden.h"

enum { TF_TENSORS = 128 };

/* tests/golden/NAME and the folder of its model, all weights in one type. */
typedef struct tf_fixture {
    vf_safetensors *gold;
    char dir[512];
} tf_fixture;

tf_fixture tf_open(const char *name, vc_dtype stored);
void tf_close(tf_fixture *f);

/* How a tensor of the fixture goes into a changed copy: false leaves it out. */
typedef bool tf_edit(vf_view *v, const void *arg);
/* f's tensors through edit (may be NULL), and n_more, into a new folder. config NULL: the
 * golden's. */
void tf_write(const tf_fixture *f, const char *dir, const char *config, tf_edit *edit,
              const void *arg, int shards, const vf_view *more, int n_more);
void tf_put_text(const char *dir, const char *name, const char *text);
/* The golden's config with a field as VALUE (JSON; NULL: without it), malloc'ed. */
char *tf_changed(const tf_fixture *f, const char *field, const char *value);
void tf_put_config(const tf_fixture *f, const char *text);

#endif
