/* llm.h - a decoder of LLaMA's kind as a text encoder: token ids -> hidden states; inside
 * precompute only.
 *
 * Touvron et al. 2023: RMSNorm before each half of a layer, attention that sees no later token,
 * with fewer key heads than query heads (Ainslie et al. 2023) and positions as rotations (Su et al.
 * 2021), and SwiGLU (Shazeer 2020). Qwen2.5-VL's text part is the same with biases in q, k and v;
 * its rotations by three axes are those of one axis where there is no picture.
 *
 * The states are transformers' hidden_states[-1 - skip]: of the last layer, after the final norm;
 * or, with `skip` layers left out, of the layer before those, without a norm. Layers that are left
 * out are neither read nor run.
 *
 * Memory: weights stay in the file's map. Beside it, however many layers there are, n tokens take
 * at most n (5 hidden_size + max(4 intermediate_size, 3 (heads + key heads) head_dim) + head_dim)
 * f32, and the backend what it packs (the CPU: 32 MB of a weight, and some MB per thread). Sums of
 * layers are kept in f32.
 *
 * A handle belongs to one thread. */
#ifndef PRECOMPUTE_TEXT_LLM_H
#define PRECOMPUTE_TEXT_LLM_H

#include "common/tensor/tensor.h"
#include "precompute/encoder.h"

typedef struct llm llm;

typedef struct llm_kind {
    const char *model_type;                       /* of config.json */
    const char *part;                             /* the object of config.json for the text part,
                                                   * where there is one; NULL: the whole file */
    bool qkv_bias;                                /* also where config.json does not say so */
} llm_kind;
extern const llm_kind llm_llama, llm_qwen2_5_vl;

/* Opens DIR/config.json and the weights beside it. Uses o's dir, dtype, device, threads, weights
 * and text.skip. *fingerprint: of o->weights and of everything else that the states depend on.
 * VC_EFORMAT: a field that this code cannot do, named; VC_EINVAL: fewer layers than are to be left
 * out; VC_ENOENT, VC_EMISMATCH: a tensor is missing, has another shape, or is left over among the
 * decoder's. *out is NULL on failure. */
int llm_open(llm **out, const llm_kind *kind, const encoder_opts *o, vf_key *fingerprint,
             vc_err *err);
void llm_close(llm *m);                           /* NULL is fine */
int llm_width(const llm *m);                      /* hidden_size */
int64_t llm_vocab(const llm *m);
/* States f32 [n, width] of ids [n]. Padding after the ids would change none of them, so it is not
 * encoded. VC_EINVAL: an id that the vocabulary does not have; VC_ENUMERIC: states that are not
 * finite. */
int llm_encode(llm *m, const int64_t *ids, int n, float *states, vc_err *err);
vt_usage llm_usage(const llm *m);                 /* of the last llm_encode */

#endif
