/* config.h - config.json of Gemma 3's text part; for gemma.c. */
#ifndef PRECOMPUTE_GEMMA_CONFIG_H
#define PRECOMPUTE_GEMMA_CONFIG_H

#include "precompute/gemma/gemma.h"

enum { GEMMA_LAYERS = 256, GEMMA_HEAD = 512 };
typedef enum gemma_layer { GEMMA_SLIDING, GEMMA_FULL, GEMMA_KINDS } gemma_layer;

typedef struct gemma_config {
    int64_t width, hidden, layers, heads, kv_heads, head, vocab;
    int64_t window;                               /* tokens that a sliding layer sees */
    double eps;
    double scalar;                                /* the square of what products of queries and keys
                                                   * are divided by */
    double theta[GEMMA_KINDS], factor[GEMMA_KINDS];          /* of the rotations: their base, and
                                                   * what their frequencies are divided by */
    int kind[GEMMA_LAYERS], n_kinds;              /* of each layer */
} gemma_config;

/* Reads the object text_config of o, or o itself where that is missing, and checks the fields. */
int gemma_config_read(gemma_config *c, const text_rule *text, const cJSON *o, vc_err *err);
/* Fills frequency [head / 2] of a kind of layers, in radians per token. */
void gemma_config_frequencies(const gemma_config *c, gemma_layer kind, float *frequency);
/* The hash of the weights and of everything else that changes the states. */
vf_key gemma_config_fingerprint(const gemma_config *c, vf_key weights);

#endif
