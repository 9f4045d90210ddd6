/* two_models.h - a model folder with two small built-in transformers. */
#ifndef TESTS_LIB_TWO_MODELS_H
#define TESTS_LIB_TWO_MODELS_H

#include <stddef.h>

#define TWO_BOUNDARY 0.6
#define TWO_FILE "diffusion_pytorch_model.safetensors"

/* Writes DIR/name, and makes its folders. */
void two_put(const char *dir, const char *name, const char *text, size_t n);
/* The bytes of DIR/name, malloc'ed. */
char *two_text(const char *dir, const char *name, size_t *n);
/* Makes DIR/two, below a folder of run_dir_make(), with the transformer of the run `high`, the
 * transformer_2 of the run `low`, and a model_index.json with the boundary; and DIR/same, whose two
 * transformers are that of `high`. */
void two_make(const char *dir);

#endif
