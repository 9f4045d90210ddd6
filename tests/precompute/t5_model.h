/* t5_model.h - the goldens' T5 and UMT5 models as folders, as they are and changed, and a double of
 * the tokenizer. For tests: failures end the test. */
#ifndef TESTS_PRECOMPUTE_T5_MODEL_H
#define TESTS_PRECOMPUTE_T5_MODEL_H

#include "precompute/text/t5.h"
#include "tests/lib/golden.h"

enum { TT_WIDTH = 32, TT_MOST = 150, TT_TENSORS = 64 };

/* Of the greatest state. f32: sums of some tens of terms in another order. bf16 activations: a
 * handful of roundings of 2^-9 in each of two layers. */
#define TT_F32 1e-5
#define TT_BF16 2e-2

/* tests/golden/NAME and the folder of its model, all weights in one type. */
typedef struct tt_fixture {
    vf_safetensors *gold;
    char dir[512];
} tt_fixture;

tt_fixture tt_open(const char *name, vc_dtype stored);
void tt_close(tt_fixture *f);

/* Options with the tokenizer's double; a model opened with them (t5_close). */
encoder_opts tt_opts(const char *dir, vc_dtype dtype);
t5 *tt_model(const char *dir, const char *type, vc_dtype dtype);
/* That opening fails with this code and says this. */
void tt_refused(const char *dir, const char *type, int rc, const char *says);

/* Error of the states of the golden's `ids` against its `want`, of as many tokens as want has. */
double tt_error(t5 *m, const vf_safetensors *gold, const char *ids, const char *want);
/* The same of the T5 model in dir, 40 tokens. */
double tt_error_in(const char *dir, const vf_safetensors *gold, vc_dtype dtype);

/* How a tensor of the fixture goes into a changed copy: false leaves it out. */
typedef bool tt_edit(vf_view *v, const void *arg);
/* f's tensors through edit (may be NULL), and n_more, into a new folder. config NULL: the
 * golden's. */
void tt_write(const tt_fixture *f, const char *dir, const char *config, tt_edit *edit,
              const void *arg, int shards, const vf_view *more, int n_more);
void tt_put_text(const char *dir, const char *name, const char *text);
/* The golden's config with a field as VALUE (JSON; NULL: without it), malloc'ed. */
char *tt_changed(const tt_fixture *f, const char *field, const char *value);
void tt_put_config(const tt_fixture *f, const char *text);

#endif
