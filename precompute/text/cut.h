/* cut.h - the end of a caption that has more tokens than its encoder reads. */
#ifndef PRECOMPUTE_TEXT_CUT_H
#define PRECOMPUTE_TEXT_CUT_H

#include "precompute/encoder.h"
#include "precompute/tokenizer/map.h"

/* A slot's tokenizer and rule, without the encoder. Immutable: one may serve many threads. */
typedef struct text_cut text_cut;

/* Opens the tokenizer of an encoder that has one (o->tokenizer). The rule borrows its template.
 * Errors are those of tokenizer_open. *out is NULL on failure. */
int text_cut_open(text_cut **out, const encoder_opts *o, const text_rule *rule, vc_err *err);
void text_cut_close(text_cut *c);                 /* NULL is fine */

/* Sets *lost to the number of the prompt's tokens that the encoder does not read. VC_EINVAL,
 * VC_EFORMAT: the prompt makes no tokens (its encoding fails likewise). */
int text_cut_tokens(const text_cut *c, const char *prompt, size_t *lost, vc_err *err);
/* The numbers of tokens that words have, for one thread. An all-zero one is empty. */
typedef struct text_words {
    tok_map tokens;                               /* hash of a word -> tokens */
} text_words;
void text_words_free(text_words *w);

/* Whether the encoder does not read all tokens of the prompt. It is many times as fast as
 * text_cut_tokens: a text of common words has the tokens of its words, and only a text near the
 * limit, or of other characters, is made into tokens. False also where a prompt makes no tokens. */
bool text_cut_is_longer(const text_cut *c, text_words *w, const char *prompt);
/* Sets *end to the text of these tokens, malloc'ed: the end of the prompt, cleaned if the rule says
 * so. It begins with a whole character. */
int text_cut_end(const text_cut *c, const char *prompt, char **end, vc_err *err);

#endif
