/* stack.h - the parts of a text encoder around its layers: the reading of config.json and of the
 * weights, the context that computes, the check of token ids, and the copy of states to the host.
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
    bool batches;
} text_stack;

/* Reads config.json of o->dir; the caller deletes *out, and calls text_config_bad for an error in
 * its fields. VC_EINVAL: o->dir is NULL, or o->dtype is neither f32 nor bf16. */
int text_config_open(cJSON **out, const encoder_opts *o, const char *model_type, vc_err *err);
/* Puts the file's name before an error rc of its fields; 0 stays 0. Returns rc. */
int text_config_bad(const encoder_opts *o, int rc, vc_err *err);

/* Opens the weights and the context of an all-zero *s, whose texts are encoded in batches or one by
 * one. The caller closes *s even after a failure. */
int text_stack_open(text_stack *s, const encoder_opts *o, bool batches, vc_err *err);
void text_stack_close(text_stack *s);             /* an all-zero *s is fine */

/* Whether a tensor may stay unread; name: the part behind the prefix. */
typedef bool text_spare(const void *arg, const char *name);
/* Checks, after the weights were bound, that all tensors below a prefix of names are among them or
 * spare (NULL: none is); those elsewhere belong to other parts of the model. VC_EMISMATCH. */
int text_stack_all_bound(const text_stack *s, const char *prefix, text_spare *spare,
                         const void *arg, vc_err *err);

/* The ids of a text's tokens. */
typedef struct text_ids {
    const int64_t *id;               /* [n] */
    int n;
    int seen;                        /* the first `seen` tokens are the text's own, and padding,
                                      * which a mask hides from all tokens, is behind them; 0:
                                      * nothing is hidden */
    int at;                          /* the place of the first token in its text: padding in front,
                                      * which no token sees, is left out */
} text_ids;

/* The most texts of a batch, and the fewest tokens of a text in one: alone, a text of fewer would
 * have other bits. */
enum { TEXT_BATCH = 8, TEXT_FEW = 8 };
/* Returns TEXT_BATCH, or 1 if a text's bits would depend on the others, or batches are off. */
int text_batch(const text_stack *s);
int text_total(const text_ids *t, int texts);     /* tokens of all texts */

/* VC_EINVAL: a text has no token, or an id is not within 0..vocab-1. */
int text_ids_known(const text_ids *t, int64_t vocab, vc_err *err);
/* Checks the ids likewise and copies those of all texts, one after the other, to *out, i32
 * [text_total] for vt_embedding; the caller frees *out. */
int text_ids_copy(int32_t **out, const text_ids *t, int texts, int64_t vocab, vc_err *err);
/* VC_ENUMERIC: one of the n values x is not finite. */
int text_finite(const text_stack *s, const float *x, size_t n, vc_err *err);
/* Copies x to the host and ends the step. VC_ENUMERIC: a value is not finite. */
int text_stack_end(text_stack *s, const vt_tensor *x, float *states, vc_err *err);

/* x [1,n,heads*d] -> [1,n,heads,d] */
vt_tensor *text_heads(vt_ctx *g, vt_tensor *x, int64_t heads);
/* Tokens in front of texts, for attention alone: text i has the first n[i] of q, k, v
 * [1,most,.,d] in front of its own. Their queries' results are dropped. */
typedef struct text_front {
    vt_tensor *q, *k, *v;
    const int *n;
} text_front;

/* Attention of each token to the tokens of its own text, where the tokens of all texts are in one
 * row: q, k, v [1,total,.,d] -> [1,total,heads*d]. bias [texts] in place of how->bias, seen [texts]
 * in place of how->kv_len, with the tokens in front; NULL: none. front NULL: none. */
vt_tensor *text_attention(vt_ctx *g, vt_tensor *q, vt_tensor *k, vt_tensor *v, const text_ids *t,
                          int texts, vt_tensor *const *bias, vt_tensor *const *seen,
                          const text_front *front, const vt_attn *how);

#endif
