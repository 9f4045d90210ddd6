/* t5.h - the encoder stack of T5 v1.1 and UMT5: token ids -> hidden states; inside precompute only.
 *
 * Raffel et al. 2020 (T5) with the changes of v1.1 (gated GELU, no tied output) and Chung et al.
 * 2023 (UMT5: a table of relative positions in each layer). RMSNorm before each half of a layer, no
 * biases in the linears, scores unscaled with a learned bias per head and bucket of distances.
 *
 * Memory: weights stay in the file's map. Beside it, however many layers there are, at most
 * 4n (d_model + max(d_ff, heads * d_kv)) f32 for n tokens, 6 heads * (2n - 1) for their distances,
 * and what the backend packs (the CPU: 32 MB of a weight, and some MB per thread). Sums of layers
 * are kept in f32: trained weights make them large.
 *
 * A handle belongs to one thread. */
#ifndef PRECOMPUTE_TEXT_T5_H
#define PRECOMPUTE_TEXT_T5_H

#include "common/tensor/tensor.h"
#include "precompute/encoder.h"

typedef struct t5 t5;

/* Opens DIR/config.json and the weights beside it. model_type: "t5" or "umt5", what config.json
 * must say. Uses o's dir, dtype, device, threads, weights. *fingerprint: of o->weights and of the
 * fields that change the states.
 * VC_EFORMAT: a field that this code cannot do, named; VC_ENOENT, VC_EMISMATCH: a tensor is
 * missing, has another shape, or is left over (a decoder may be). *out is NULL on failure. */
int t5_open(t5 **out, const encoder_opts *o, const char *model_type, vf_key *fingerprint,
            vc_err *err);
void t5_close(t5 *m);                             /* NULL is fine */
int t5_width(const t5 *m);                        /* d_model */
int64_t t5_vocab(const t5 *m);
/* States f32 [n, width] after the final norm, of ids [n]; every token sees every other.
 * VC_EINVAL: an id that the vocabulary does not have; VC_ENUMERIC: states that are not finite. */
int t5_encode(t5 *m, const int64_t *ids, int n, float *states, vc_err *err);
vt_usage t5_usage(const t5 *m);                   /* of the last t5_encode */

#endif
