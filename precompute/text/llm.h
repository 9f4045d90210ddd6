/* llm.h - a decoder with LLaMA's architecture as a text encoder: token ids -> hidden states; inside
 * precompute only.
 *
 * The layers are those of Touvron et al. 2023: RMSNorm before each half, causal attention with
 * fewer key heads than query heads (Ainslie et al. 2023) and rotary positions (Su et al. 2021), and
 * SwiGLU (Shazeer 2020). Mistral has the same. Qwen2.5-VL's text part adds biases to q, k and v;
 * its rotary positions have three axes, which are equal for a text without a picture. Qwen3 has no
 * biases, and an RMSNorm of each head's queries and keys before their rotation (Henry et al. 2020);
 * so has Qwen3-VL's text part, whose three axes are equal for a text too. Ministral 3 has Mistral's
 * layers, and slows its slow rotations (Peng et al. 2023).
 *
 * The states are transformers' hidden_states[-1 - skip]: with a skip of 0 the output of the last
 * layer after the final norm, else the output of the last layer but `skip`, without a norm. The
 * last `skip` layers are neither read nor run. With taps a token has the states after each of these
 * layers, [taps,hidden_size] or (taps_inner) [hidden_size,taps], and no layer after the last of
 * them is read; unnormed: nor is the last norm.
 *
 * Memory: weights stay in the file's map. n tokens in all take, for any number of layers, at most
 * n (5 hidden_size + max(4 intermediate_size, 3 (heads + key heads) head_dim) + head_dim) f32, with
 * norms of heads 4 (heads + key heads) head_dim in place of 3. The backend's packed panels come on
 * top (on the CPU 32 MB of a weight, and some MB per thread). The residual stream is f32. Where all
 * texts begin with the same text.crop tokens, those of a template, the keys and values of these are
 * computed once and held: 2 layers text.crop key heads head_dim numbers in the type of activations.
 *
 * A handle belongs to one thread. */
#ifndef PRECOMPUTE_TEXT_LLM_H
#define PRECOMPUTE_TEXT_LLM_H

#include "precompute/text/stack.h"

typedef struct llm llm;

typedef struct llm_kind {
    const char *model_type;                       /* of config.json */
    const char *part;                             /* field of config.json whose object describes
                                                   * the text part, where the file has this field;
                                                   * NULL: the whole file does */
    bool qkv_bias;                                /* q, k and v have biases, whatever
                                                   * attention_bias of config.json is */
    bool head_norms;                              /* queries and keys are normalised by heads */
    int64_t head;                                 /* head_dim where config.json lacks it; 0:
                                                   * hidden_size / num_attention_heads */
    const char *part_type;                        /* model_type of that object, one of "a|b"; NULL:
                                                   * any */
    const char *part_default;                     /* that of an object without one; NULL:
                                                   * part_type */
    bool windowed;                                /* sliding_window bounds what a token sees,
                                                   * unless it is null */
    bool part_defaults;                           /* the object may lack sizes: they are then
                                                   * transformers' defaults, LLaMA's of 7 billion
                                                   * weights */
} llm_kind;
extern const llm_kind llm_llama, llm_qwen2_5_vl, llm_qwen2_5_vl_text, llm_qwen3, llm_qwen3_vl,
                      llm_mistral3, llm_ministral3, llm_llava;

/* Opens config.json of o->dir and the weights beside this file. Uses o's dir, dtype, device,
 * threads, weights, text.skip, text.taps, text.crop, and text.interleave, with which texts have
 * pictures and are encoded one by one. *fingerprint is the hash of o->weights and of everything
 * else that changes the states. VC_EFORMAT: config.json has a value that this code does not
 * support; the message names the field. VC_EINVAL: the model has too few layers for text.skip or
 * text.taps. VC_ENOENT, VC_EMISMATCH: a tensor of the decoder is missing, has another shape, or is
 * not used. *out is NULL on failure. */
int llm_open(llm **out, const llm_kind *kind, const encoder_opts *o, vf_key *fingerprint,
             vc_err *err);
void llm_close(llm *m);                           /* NULL is fine */
int llm_width(const llm *m);                      /* hidden_size, times the number of taps */
int64_t llm_vocab(const llm *m);
int llm_batch(const llm *m);                      /* text_batch */
/* Fills states f32 [text_total, width] of at most TEXT_BATCH texts, except those of a text's first
 * text.crop tokens, which it may leave unset. The caller may leave out padding at the end of a
 * text, which changes none of these states; padding has states too, which see the text's own tokens
 * alone. VC_EINVAL: an id is not in the vocabulary; VC_ENUMERIC:
 * a state is not finite. */
int llm_encode(llm *m, const text_ids *t, int texts, float *states, vc_err *err);
enum { LLM_GIVEN = VC_REFERENCES };
/* Rows [count,hidden_size] in place of the embeddings of tokens at..at+count-1. */
typedef struct llm_given {
    const float *rows;
    int at, count;
} llm_given;
/* The same for one text with n given ranges of rows, in ascending order. place [3][t->n]: where its
 * tokens stand on the three axes of Qwen2.5-VL's rotations; NULL: at their numbers. */
int llm_encode_with(llm *m, const text_ids *t, const llm_given *given, int n, const int32_t *place,
                    float *states, vc_err *err);
/* Fills the state [width] of a token `id` that sees no token, itself neither: of padding in front
 * of a text, where PyTorch's attention gives zeros. VC_EINVAL: the id is not in the vocabulary. */
int llm_padding(llm *m, int64_t id, float *state, vc_err *err);
/* The division of a head's angles among the three axes, for fingerprints. VC_EFORMAT: config.json
 * has none (mrope_section) that fills a head. */
int llm_hash_axes(const llm *m, vf_hasher *h, vc_err *err);
vt_usage llm_usage(const llm *m);                 /* of the last llm_encode */

#endif
