/* gemma.h - Gemma 3 as a text encoder: token ids -> the hidden states of all layers; inside
 * precompute only.
 *
 * The layers are those of the Gemma team 2025: RMS norms before and after each half, whose weights
 * are one plus the stored values, queries and keys normalised by heads, and a feed-forward layer
 * gated by GELU. Most layers see a window of tokens and have rotations of their own; a window that
 * is shorter than the longest prompt is refused, so that all layers see all earlier tokens.
 *
 * The states are transformers' hidden_states: the scaled embeddings, the output of each layer but
 * the last, and that of the last after the final norm.
 *
 * Memory: weights stay in the file's map. Of n tokens one layer is in memory at a time. A handle
 * belongs to one thread. */
#ifndef PRECOMPUTE_GEMMA_GEMMA_H
#define PRECOMPUTE_GEMMA_GEMMA_H

#include "precompute/text/stack.h"

typedef struct gemma gemma;

/* Opens config.json of o->dir and the weights beside this file; uses o's dir, dtype, device,
 * threads, weights and text.max_length. *fingerprint is the hash of o->weights and of everything
 * else that changes the states. VC_EFORMAT: config.json has a value that this code does not
 * support; the message names the field. VC_ENOENT, VC_EMISMATCH: a tensor of the decoder is
 * missing, has another shape, or is not used. *out is NULL on failure. */
int gemma_open(gemma **out, const encoder_opts *o, vf_key *fingerprint, vc_err *err);
void gemma_close(gemma *m);                       /* NULL is fine */
int gemma_width(const gemma *m);                  /* hidden_size */
int gemma_states(const gemma *m);                 /* num_hidden_layers + 1 */
int64_t gemma_vocab(const gemma *m);
/* The context that the model computes in. */
vt_ctx *gemma_context(const gemma *m);
/* Fills states f32 [gemma_states,t->n,width] of a text without padding. VC_EINVAL: an id is not in
 * the vocabulary; VC_ENUMERIC: a state is not finite. */
int gemma_encode(gemma *m, const text_ids *t, float *states, vc_err *err);

#endif
