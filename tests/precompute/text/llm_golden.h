/* llm_golden.h - opens the decoders of goldens, and compares their states. For tests: failures end
 * the test. */
#ifndef TESTS_PRECOMPUTE_LLM_GOLDEN_H
#define TESTS_PRECOMPUTE_LLM_GOLDEN_H

#include "precompute/text/llm.h"
#include "tests/precompute/text/text_folder.h"

enum { LG_WIDTH = 32, LG_MOST = 150, LG_LAYERS = 4 };

/* The tolerances, relative to the greatest state. f32 sums some tens of terms in another order.
 * bf16 activations are rounded by 2^-9 a handful of times in each of four layers; the errors of
 * PyTorch's own states in bf16 are 1.2e-2 to 3.4e-2. */
#define LG_F32 1e-5
#define LG_BF16 3e-2

encoder_opts lg_options(const char *dir, int skip, vc_dtype type);
llm *lg_open(const char *dir, const llm_kind *kind, int skip, vc_dtype type);
/* Opening ends with rc and an error that has the text `says`. */
void lg_refused(const char *dir, const llm_kind *kind, int skip, int rc, const char *says);
/* Copies the ids of that name in the golden; returns their number. */
int lg_ids(const vf_safetensors *gold, const char *name, int64_t id[LG_MOST]);
/* The error of m's states for the golden's `ids`, compared with its `want`. */
double lg_error(llm *m, const vf_safetensors *gold, const char *ids, const char *want);

#endif
