/* pictured.h - what tests of text encoders that see pictures share: a golden's model as a folder
 * with its tokenizer and image processor, its pictures, and folders that are refused. */
#ifndef TESTS_PRECOMPUTE_TEXT_PICTURED_H
#define TESTS_PRECOMPUTE_TEXT_PICTURED_H

#include "precompute/text/prompt.h"
#include "tests/precompute/text/text_folder.h"

/* Of the greatest state: as in test_llm.c. */
#define PICTURED_F32 1e-5
#define PICTURED_BF16 3e-2

/* Writes tokenizer.json, and a tokenizer_config.json that names the token which pads. */
void pictured_tokenizer(const char *dir, const char *json, const char *pad);
/* The golden's model, tokenizer and image processor in a folder; tf_close closes it. */
tf_fixture pictured_open(const char *golden, const char *pad);
/* Writes the golden's tokenizer and image processor to another folder. */
void pictured_put(const tf_fixture *f, const char *dir, const char *pad);
encoder_opts pictured_options(const char *dir, text_rule rule, vc_dtype type);

/* The golden's tensor KIND_i, and its picture i, in its own size. */
vf_view pictured_view(const tf_fixture *f, const char *kind, int i);
text_picture pictured_picture(const tf_fixture *f, int i);

/* Opening the encoder must fail with this code and text. */
void pictured_refused(const text_class *encoder, const encoder_opts *o, int rc, const char *says);
/* The same with a field of config.json that is changed to `value` (JSON). */
void pictured_refused_with(const text_class *encoder, const tf_fixture *f, const encoder_opts *o,
                           const char *field, const char *value, int rc, const char *says);
/* Returns the path of a file or folder of the test data, malloc'ed; without it skips the test. */
char *pictured_data(const char *name);

#endif
