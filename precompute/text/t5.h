/* t5.h - the encoder stack of T5 and UMT5: token ids -> hidden states; inside precompute only.
 *
 * The models are those of Raffel et al. 2020 (T5 v1.0, whose feed-forward layers have a ReLU), also
 * with the changes of v1.1 (gated GELU, no tied output), and of Chung et al. 2023 (UMT5: a table of
 * relative positions in each layer). Each half of a layer begins with RMSNorm, linear layers have
 * no biases, and attention scores are unscaled, with a learned bias per head and bucket of
 * distances.
 *
 * Memory: weights stay in the file's map. n tokens in all take, for any number of layers, at most
 * 4n (d_model + max(d_ff, heads * d_kv)) f32, and 6 heads * (2m - 1) f32 for the distances of the m
 * tokens of a text. The backend's packed panels come on top (on the CPU 32 MB of a weight, and some
 * MB per thread). The residual stream is f32, since trained weights make it large.
 *
 * A handle belongs to one thread. */
#ifndef PRECOMPUTE_TEXT_T5_H
#define PRECOMPUTE_TEXT_T5_H

#include "precompute/text/stack.h"

typedef struct t5 t5;

/* Opens config.json of o->dir, whose model_type must be the one given, "t5" or "umt5", and the
 * weights beside this file. Uses o's dir, dtype, device, threads and weights. *fingerprint is the
 * hash of o->weights and of the fields that change the states.
 * VC_EFORMAT: config.json has a value that this code does not support; the message names the field.
 * VC_ENOENT, VC_EMISMATCH: a tensor is missing, has another shape, or is not used (a decoder may be
 * there). *out is NULL on failure. */
int t5_open(t5 **out, const encoder_opts *o, const char *model_type, vf_key *fingerprint,
            vc_err *err);
void t5_close(t5 *m);                             /* NULL is fine */
int t5_width(const t5 *m);                        /* d_model */
int64_t t5_vocab(const t5 *m);
int t5_batch(const t5 *m);                        /* text_batch */
/* Fills states f32 [text_total, width], after the final norm, of at most TEXT_BATCH texts; every
 * token attends to every other of its text, or with o->text.unpadded to the seen ones.
 * VC_EINVAL: an id is not in the vocabulary; VC_ENUMERIC:
 * a state is not finite. */
int t5_encode(t5 *m, const text_ids *t, int texts, float *states, vc_err *err);
vt_usage t5_usage(const t5 *m);                   /* of the last t5_encode */

#endif
