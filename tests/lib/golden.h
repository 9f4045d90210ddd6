/* golden.h - goldens: results of the reference (scripts/golden.py), and their tiny models.
 *
 * A golden holds inputs and outputs; its metadata holds the model's config and the names and shapes
 * of its weights, whose values are computed from their names. A failure ends the test. */
#ifndef TESTS_LIB_GOLDEN_H
#define TESTS_LIB_GOLDEN_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/json/json.h"
#include "formats/tensors/safetensors.h"

/* Opens tests/golden/NAME.safetensors. */
vf_safetensors *golden_open(const char *name);
/* Returns a tensor's values as f32 (integers are converted too), malloc'ed. Its shape is stored in
 * dim[8], unless dim is NULL. */
float *golden_values(const vf_safetensors *f, const char *tensor, int64_t *dim);
/* Checks that the file has a tensor of this shape. */
void golden_has_shape(const vf_safetensors *f, const char *tensor, int nd, const int64_t *dim);
/* Returns an entry of the metadata that is JSON; the caller deletes the tree. */
cJSON *golden_json(const vf_safetensors *f, const char *key);
/* Returns the value of element i of a weight. */
float golden_fill(const char *weight, int nd, const int64_t *dim, int64_t i);
/* Makes the folder DIR with config.json and diffusion_pytorch_model.safetensors, all weights in
 * `dtype`, from the golden's metadata `config` and `weights`. */
void golden_model(const vf_safetensors *f, const char *dir, vc_dtype dtype);
/* Makes such a folder of the golden NAME, in f32. */
void golden_folder(const char *name, const char *dir);
/* Makes the folder as golden_model does, in f32, with another value, which is JSON, of a field of
 * its config.json. */
void golden_model_with(const vf_safetensors *f, const char *dir, const char *field,
                       const char *value);
/* Returns the device that tests compute on: $VLT_DEVICE, or "cpu". */
const char *golden_device(void);
/* Returns true if golden_device() can be opened; else prints "SKIPPED" and the reason. */
bool golden_has_device(void);
/* Returns a tolerance of activations in bf16: that of the CPU, or that of a GPU and of the device
 * "host", which round f32 operands of products to bf16, as the CPU does not. */
double golden_tolerance(double cpu, double gpu);
/* Returns the greatest |a - b| divided by the greatest |b|. */
double golden_error(const float *a, const float *b, int64_t n);
/* Makes the folder `name` in a temporary folder of this process, which is removed when the process
 * ends, and returns its path, which stays valid until the next call. */
const char *golden_tmp(const char *name);

#endif
