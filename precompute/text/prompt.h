/* prompt.h - functions that the text encoders of all families share: the template around a prompt,
 * its tokens and their mask, the choice of stored states, and the key of a text.
 *
 * A text_model describes an encoder, and an encoder's text_class (encoder.h) names its model. */
#ifndef PRECOMPUTE_TEXT_PROMPT_H
#define PRECOMPUTE_TEXT_PROMPT_H

#include "precompute/text/stack.h"

/* The input of an encoder: one prompt, or several if the model's info has a batch. */
typedef struct text_tokens {
    int prompts;
    char *const *text;               /* [prompts]: each in its template */
    const text_picture *picture;     /* the first prompt's; NULL: none */
    int pictures;                    /* their number */
    const text_ids *ids;             /* [prompts]: the tokens of each to encode. Behind those of a
                                      * masked model its padding follows, up to `length` */
    int length;
} text_tokens;

typedef struct text_model {
    const char *class;
    const void *kind;                /* facts of the class among those that share `open` */
    bool masked;                     /* true: padding is neither encoded nor stored; false: padding
                                      * is encoded unless rule.unpadded, and stored unless
                                      * rule.masked */
    /* Sets fingerprint, width and pooled of *info; a model with a tokenizer of its own also sets
     * tokenizer and rule.max_length; a model whose texts have other numbers of rows than
     * rule.max_length sets rows; one that encodes several prompts at once sets batch. */
    int (*open)(void **model, const void *kind, const encoder_opts *o, text_info *info,
                vc_err *err);
    void (*close)(void *model);      /* NULL is fine */
    /* The model's own tokenizer: fills ids and mask, [length]. NULL: o->tokenizer names one. */
    void (*words)(const char *text, int length, int64_t *ids, int64_t *mask);
    /* Fills states [text_total,width] and pooled [prompts,info->pooled]. Either is NULL where its
     * width is 0. The states of a text's first rule.crop tokens are not read. */
    int (*encode)(void *model, const text_tokens *t, float *states, float *pooled, vc_err *err);
    /* Fills *r in place of `encode`, for a model that chooses the stored states itself. The areas
     * of *r are the model's until its next call. */
    int (*choose)(void *model, const text_tokens *t, text_result *r, vc_err *err);
    /* Fills the state of a row of padding in front of a prompt, which sees no token. Models that
     * have it are given no such rows: their states are put in where the tokenizer's files do not
     * say that padding is behind prompts. NULL: it is always behind. */
    int (*padding)(void *model, int64_t id, float *state, vc_err *err);
    /* Called at open with the tokens of the empty prompt, with one picture where there is a
     * rule.each: fails where they show that the tokenizer belongs to another model. NULL: nothing
     * is checked. */
    int (*check)(void *model, const text_tokens *t, vc_err *err);
} text_model;

/* Of texts that have pictures by rule.each. */
extern const text_model text_model_qwen_vl;

/* VC_EINVAL: the model cannot follow the rule o->text, or the tokenizer's ids are not the model's;
 * VC_EMISMATCH: the tokenizer does not make rule.crop tokens of the template in front of a prompt.
 * *out is NULL on failure. */
int text_prompt_open(text_enc **out, const text_model *m, const encoder_opts *o, text_info *info,
                     vc_err *err);

/* The text that becomes tokens: the prompt, cleaned if the rule says so. The caller frees it; NULL:
 * out of memory. */
char *text_of_prompt(const text_rule *rule, const char *prompt);
/* The scene tokens, NULL-ended, and whether a prompt has one that is a token of its own. */
extern const char *const text_scene_tokens[];
bool text_has_scenes(const text_rule *rule, const char *prompt);

/* The key of a text (docs/format.md). The encoder computes in `precision`, and its states are kept
 * in the type `stored`. */
vf_key text_prompt_key(const text_info *info, vc_dtype precision, vc_dtype stored,
                       const text_input *in);

#endif
