/* t5_model.h - the goldens' T5 and UMT5 models as folders, and a double of the tokenizer. For
 * tests: failures end the test. */
#ifndef TESTS_PRECOMPUTE_T5_MODEL_H
#define TESTS_PRECOMPUTE_T5_MODEL_H

#include "precompute/text/t5.h"
#include "tests/precompute/text_folder.h"

enum { TT_WIDTH = 32, TT_MOST = 150 };

/* Of the greatest state. f32: sums of some tens of terms in another order. bf16 activations: a
 * handful of roundings of 2^-9 in each of two layers. */
#define TT_F32 1e-5
#define TT_BF16 2e-2

/* tf_open, with the queries that the golden was made with. */
tf_fixture tt_open(const char *name, vc_dtype stored);

/* Options with the tokenizer's double; a model opened with them (t5_close). */
encoder_opts tt_opts(const char *dir, vc_dtype dtype);
t5 *tt_model(const char *dir, const char *type, vc_dtype dtype);
/* That opening fails with this code and says this. */
void tt_refused(const char *dir, const char *type, int rc, const char *says);

/* Error of the states of the golden's `ids` against its `want`, of as many tokens as want has. */
double tt_error(t5 *m, const vf_safetensors *gold, const char *ids, const char *want);
/* The same of the T5 model in dir, 40 tokens. */
double tt_error_in(const char *dir, const vf_safetensors *gold, vc_dtype dtype);

#endif
