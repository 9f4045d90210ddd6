/* prompt.h - the functions that text encoders of all families share: the template around a prompt,
 * its tokens and their mask, the choice of stored states, and the key of a text.
 *
 * A family's file describes its encoder by a text_model; its text_class (encoder.h) is made of
 * text_prompt_close, text_prompt_encode and of an `open` that calls text_prompt_open. */
#ifndef PRECOMPUTE_TEXT_PROMPT_H
#define PRECOMPUTE_TEXT_PROMPT_H

#include "precompute/encoder.h"

/* A text as an encoder gets it. */
typedef struct text_tokens {
    const char *text;                /* the prompt in its template */
    const text_picture *picture;     /* NULL: none */
    int n;                           /* tokens to encode */
    const int64_t *ids;              /* [n] */
} text_tokens;

typedef struct text_model {
    const char *class;
    bool masked;                     /* padding is not encoded; else it is, and is stored
                                      * unless rule.masked */
    /* *info gets fingerprint, width and pooled; of a model with words of its own tokenizer too, and
     * rule.max_length. */
    int (*open)(void **model, const encoder_opts *o, text_info *info, vc_err *err);
    void (*close)(void *model);      /* NULL is fine */
    /* Own words: ids and mask, [length]. NULL: those of the tokenizer's folder. */
    void (*words)(const char *text, int length, int64_t *ids, int64_t *mask);
    /* states [n,width], pooled [info's pooled]; what the model has none of is NULL */
    int (*encode)(void *model, const text_tokens *t, float *states, float *pooled, vc_err *err);
    /* Fails where the model cannot encode these tokens, those of the empty prompt: at open it tells
     * another model's tokenizer. NULL: all tokens are possible. */
    int (*check)(const void *model, const text_tokens *t, vc_err *err);
} text_model;

/* VC_EINVAL: a rule that is not possible, or a tokenizer whose ids are not the model's;
 * VC_EMISMATCH: rule.crop is not the number of tokens that stand in front of a prompt. *out is NULL
 * on failure. */
int text_prompt_open(text_enc **out, const text_model *m, const encoder_opts *o, text_info *info,
                     vc_err *err);
void text_prompt_close(text_enc *t);
int text_prompt_encode(text_enc *t, const text_input *in, text_result *r, vc_err *err);

/* The key of a text (docs/format.md). precision: the type that the encoder computes in. */
vf_key text_prompt_key(const text_info *info, vc_dtype precision, vc_dtype stored,
                       const text_input *in);

#endif
