/* golden.h - what the reference computed (scripts/golden.py), and the tiny models it computed with.
 *
 * A golden holds inputs and outputs; its metadata holds the model's config and the names and shapes
 * of its weights, whose values follow from their names. For tests: failures end the test. */
#ifndef TESTS_LIB_GOLDEN_H
#define TESTS_LIB_GOLDEN_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/tensors/safetensors.h"

/* tests/golden/NAME.safetensors */
vf_safetensors *golden_open(const char *name);
/* A tensor as f32 (integers too), malloc'ed; its shape in dim (8 places) if not NULL. */
float *golden_values(const vf_safetensors *f, const char *tensor, int64_t *dim);
/* The value of element i of a weight. */
float golden_fill(const char *weight, int nd, const int64_t *dim, int64_t i);
/* Writes DIR/config.json and DIR/diffusion_pytorch_model.safetensors, all weights in `dtype`, from
 * the golden's metadata `config` and `weights`. Makes the folder. */
void golden_model(const vf_safetensors *f, const char *dir, vc_dtype dtype);
/* What to compute on: VLT_DEVICE, or "cpu". */
const char *golden_device(void);
/* Whether that is there; says so if it is not. */
bool golden_has_device(void);
/* Greatest |a - b| over greatest |b|. */
double golden_error(const float *a, const float *b, int64_t n);
/* A temporary folder of this process, made if it is not there, gone when it ends; static. */
const char *golden_tmp(const char *name);

#endif
