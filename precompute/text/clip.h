/* clip.h - CLIP's text model (Radford et al. 2021): token ids -> hidden states and a pooled one;
 * inside precompute only.
 *
 * Tokens with learned positions go through layers in which no token sees a later one. The pooled
 * state is the one of the end of the text, after the last norm: of the first token that is
 * eos_token_id. Older files say 2 there whatever their tokenizer has; then the first token with the
 * largest id is the end.
 *
 * Memory: weights stay in the file's map; beside it one layer's activations, as in t5.h. A handle
 * belongs to one thread. */
#ifndef PRECOMPUTE_TEXT_CLIP_H
#define PRECOMPUTE_TEXT_CLIP_H

#include "common/tensor/tensor.h"
#include "precompute/encoder.h"

typedef struct clip clip;

/* Opens DIR/config.json and the weights beside it. Uses o's dir, dtype, device, threads, weights.
 * *fingerprint: of o->weights and of the fields that change the states. VC_EFORMAT: a field that
 * this code cannot do, named; VC_ENOENT, VC_EMISMATCH: a tensor is missing, has another shape, or
 * is left over (a projection may be). *out is NULL on failure. */
int clip_open(clip **out, const encoder_opts *o, vf_key *fingerprint, vc_err *err);
void clip_close(clip *m);                         /* NULL is fine */
int clip_width(const clip *m);                    /* hidden_size */
int clip_positions(const clip *m);                /* most tokens of a text */

/* The place of the pooled state among ids [n]. VC_EINVAL: an id that the vocabulary does not have,
 * more tokens than positions, or no end of the text among them. */
int clip_end(const clip *m, const int64_t *ids, int n, int *end, vc_err *err);
/* States f32 [n, width] after the last norm, and the pooled one f32 [width]. states NULL: the
 * pooled one alone, for which the tokens after the end of the text are not encoded. VC_EINVAL: as
 * clip_end; VC_ENUMERIC: states that are not finite. */
int clip_encode(clip *m, const int64_t *ids, int n, float *states, float *pooled, vc_err *err);
vt_usage clip_usage(const clip *m);               /* of the last clip_encode */

#endif
