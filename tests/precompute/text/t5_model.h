/* t5_model.h - writes the goldens' T5 and UMT5 models as folders, and stands in for the tokenizer.
 * For tests: failures end the test. */
#ifndef TESTS_PRECOMPUTE_T5_MODEL_H
#define TESTS_PRECOMPUTE_T5_MODEL_H

#include "precompute/text/t5.h"
#include "tests/precompute/text/text_folder.h"

enum { TT_WIDTH = 32, TT_MOST = 150 };

/* The tolerances, relative to the greatest state. f32 sums some tens of terms in another order.
 * bf16 activations are rounded by 2^-9 a handful of times in each of two layers. */
#define TT_F32 1e-5
#define TT_BF16 2e-2

/* tf_open, with the query weights with which the golden was made. */
tf_fixture tt_open(const char *name, vc_dtype stored);

/* Options with the tokenizer's double. */
encoder_opts tt_opts(const char *dir, vc_dtype dtype);
/* Opens a model with tt_opts; the caller closes it with t5_close. */
t5 *tt_model(const char *dir, const char *type, vc_dtype dtype);
/* Checks that t5_open fails with the code rc, and that the message contains `says`. */
void tt_refused(const char *dir, const char *type, int rc, const char *says);

/* The error of m's states for the golden's `ids`, compared with all tokens of its `want`. */
double tt_error(t5 *m, const vf_safetensors *gold, const char *ids, const char *want);
/* The error of the T5 model in dir for the golden's 40 tokens. */
double tt_error_in(const char *dir, const vf_safetensors *gold, vc_dtype dtype);

#endif
