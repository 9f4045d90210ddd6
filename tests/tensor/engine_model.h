/* engine_model.h - a model for the engine's tests: an embedding, residual blocks of two streams
 * with joint attention and modulation, a head. Failures end the test. */
#ifndef TESTS_TENSOR_ENGINE_MODEL_H
#define TESTS_TENSOR_ENGINE_MODEL_H

#include "common/tensor/weights.h"

enum { LAYERS = 4, WIDTH = 32, TOKENS = 24, TEXT = 5, BATCH = 2, HEADS = 2 };

typedef struct em_layer {
    vt_lin q, k, v, out, mod, up, down;
    vt_tensor *norm_w, *norm_b;
} em_layer;

typedef struct em_model {
    vt_params *p;
    vt_lin in, head;
    em_layer layer[LAYERS];
    vt_block block[LAYERS];
} em_model;

/* Opens a context with two threads and a pool of 64 MiB. */
vt_ctx *em_context(vc_dtype compute);
vt_ctx *em_context_of(vc_dtype compute, int threads, size_t limit);

void em_open(em_model *m, vt_ctx *g, uint64_t seed);
void em_open_from(em_model *m, vt_ctx *g, const vt_source *src);
/* Computes the loss over `layers` blocks inside a step; beyond LAYERS the blocks repeat. */
vt_tensor *em_loss(vt_ctx *g, em_model *m, vt_remat how, int layers);
/* Runs a step with backward and returns the loss. flags is VT_DRY or 0. */
float em_step(vt_ctx *g, em_model *m, vt_remat how, int flags);
/* Returns all gradients one after another, n values; the caller frees. */
float *em_gradients(em_model *m, size_t *n);

/* Returns n <= 8192 numbers, which are the same in every call. */
const float *em_data(size_t n);
vt_tensor *em_input(vt_ctx *g, int nd, const int64_t *dim);

#endif
