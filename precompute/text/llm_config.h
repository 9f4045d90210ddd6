/* llm_config.h - config.json of a decoder with LLaMA's architecture: sizes, rotary positions and
 * biases; for llm.c. */
#ifndef PRECOMPUTE_TEXT_LLM_CONFIG_H
#define PRECOMPUTE_TEXT_LLM_CONFIG_H

#include "precompute/text/llm.h"

enum { LLM_MAX_HEAD = 256 };

typedef enum llm_rope_kind { ROPE_DEFAULT, ROPE_LLAMA3, ROPE_MROPE, ROPE_YARN } llm_rope_kind;

/* The rule that makes angles of positions; ROPE_LLAMA3 and ROPE_YARN alone use the fields after
 * theta. */
typedef struct llm_rope {
    llm_rope_kind kind;
    double theta, factor, low, high;              /* low, high: of ROPE_YARN the rotations in
                                                   * `original` tokens up to which frequencies are
                                                   * slowed, and from which they stay */
    double scale, all_scale;                      /* of ROPE_YARN: mscale, mscale_all_dim */
    int64_t original;                             /* tokens that the model was first trained with */
    int section[3], n_section;                    /* angles of a head on each of the three axes of a
                                                   * token with a picture's place; 0: not given */
} llm_rope;

typedef struct llm_config {
    int64_t width, hidden, layers, heads, kv_heads, head, vocab;
    int64_t used;                                 /* layers that are run */
    int taps, tap[VC_TAPS];                       /* layers whose states a token has; 0: the last
                                                   * one that is run */
    bool inner;                                   /* the states of a channel stand together */
    int64_t window;                               /* tokens that a token sees; 0: all before it */
    double eps;
    bool qkv_bias, o_bias, mlp_bias, head_norms;
    bool final_norm;                              /* states after the last layer are normalised */
    llm_rope rope;
} llm_config;

/* Reads and checks the fields; text.skip and text.taps choose the layers that are run. */
int llm_config_read(llm_config *c, const llm_kind *kind, const text_rule *text, const cJSON *o,
                    vc_err *err);
/* Fills frequency [head / 2], in radians per token. */
void llm_config_frequencies(const llm_config *c, float *frequency);
/* The hash of the weights and of everything else that changes the states. */
vf_key llm_config_fingerprint(const llm_config *c, const llm_kind *kind, vf_key weights);

#endif
