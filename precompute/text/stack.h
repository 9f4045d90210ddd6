/* stack.h - the surroundings of an encoder's layers: config.json, the weights beside it, a context
 * to compute in, checks of token ids, and the copy of states to the host.
 *
 * Weights stay in the file's map. A handle belongs to one thread. */
#ifndef PRECOMPUTE_TEXT_STACK_H
#define PRECOMPUTE_TEXT_STACK_H

#include "common/tensor/weights.h"
#include "formats/json/config.h"
#include "formats/tensors/model.h"
#include "precompute/encoder.h"

typedef struct text_stack {
    vf_model *model;
    vt_ctx *g;
    vt_params *p;
} text_stack;

/* The config.json of o->dir; the caller deletes it and gives errors of its fields to
 * text_config_bad. VC_EINVAL: o names no folder, or activations that are neither f32 nor bf16. */
int text_config_open(cJSON **out, const encoder_opts *o, const char *model_type, vc_err *err);
/* Puts the file's name before an error of its fields. */
int text_config_bad(const encoder_opts *o, int rc, vc_err *err);

/* Opens the weights and the context. Whether it fails or not, close ends it. */
int text_stack_open(text_stack *s, const encoder_opts *o, vc_err *err);
void text_stack_close(text_stack *s);             /* an all-zero one is fine */

/* VC_EINVAL: there is no id, or one is not within 0..vocab-1. */
int text_ids_known(const int64_t *ids, int n, int64_t vocab, vc_err *err);
/* The same, and the ids as an embedding takes them, malloc'ed. */
int text_ids(int32_t **out, const int64_t *ids, int n, int64_t vocab, vc_err *err);
/* VC_ENUMERIC: one of n values of the encoder is not finite. */
int text_finite(const text_stack *s, const float *x, size_t n, vc_err *err);
/* Copies x to the host and ends the step. VC_ENUMERIC: a value is not finite. */
int text_stack_end(text_stack *s, const vt_tensor *x, float *states, vc_err *err);

/* x [1,n,heads*d] -> [1,n,heads,d], and back */
vt_tensor *text_heads(vt_ctx *g, vt_tensor *x, int64_t heads);
vt_tensor *text_joined(vt_ctx *g, vt_tensor *x);

#endif
