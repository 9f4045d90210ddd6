/* clip.h - CLIP's text model (Radford et al. 2021): token ids -> hidden states and a pooled state;
 * inside precompute only.
 *
 * Tokens with learned positions go through causal layers: no token attends to a later one. The
 * pooled state is the state of the token that ends the text, after the last norm. This token is the
 * first whose id is eos_token_id. Older files have an eos_token_id of 2 with every tokenizer; for
 * them the first token with the largest id ends the text.
 *
 * Memory: weights stay in the file's map; the activations of one layer are held besides, as in
 * t5.h. A handle belongs to one thread. */
#ifndef PRECOMPUTE_TEXT_CLIP_H
#define PRECOMPUTE_TEXT_CLIP_H

#include "common/tensor/tensor.h"
#include "precompute/text/stack.h"

typedef struct clip clip;

/* Opens config.json of o->dir and the weights beside this file. Uses o's dir, dtype, device,
 * threads, weights and text.skip. projected: the pooled state goes through the model's
 * text_projection (CLIPTextModelWithProjection). *fingerprint is the hash of o->weights and of the
 * fields that change the states. VC_EFORMAT: config.json has a value that this code does not
 * support; the message names the field. VC_ENOENT, VC_EMISMATCH: a tensor is missing, has another shape, or is not used (a
 * projection may be there). *out is NULL on failure. */
int clip_open(clip **out, const encoder_opts *o, bool projected, vf_key *fingerprint, vc_err *err);
void clip_close(clip *m);                         /* NULL is fine */
int clip_width(const clip *m);                    /* hidden_size */
int clip_pooled(const clip *m);                   /* width of a pooled state */
int clip_positions(const clip *m);                /* the most tokens that a text may have */

int clip_batch(const clip *m);                    /* text_batch */

/* *end is the index of the token that ends the text. VC_EINVAL: an id is not in the vocabulary,
 * there are more tokens than positions, or no token ends the text. */
int clip_end(const clip *m, const text_ids *t, int *end, vc_err *err);
/* Fills states f32 [text_total, width], after the last norm or, with text.skip, those in front of
 * the last text.skip layers without a norm, and pooled f32 [texts, clip_pooled] of at most
 * TEXT_BATCH texts. Where states is NULL, tokens after the end of a text are not encoded, except
 * the first TEXT_FEW. VC_EINVAL: as clip_end; VC_ENUMERIC: a state is not finite. */
int clip_encode(clip *m, const text_ids *t, int texts, float *states, float *pooled, vc_err *err);
vt_usage clip_usage(const clip *m);               /* of the last clip_encode */

#endif
