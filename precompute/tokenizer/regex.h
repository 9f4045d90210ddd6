/* regex.h - regular expressions as tokenizer files have them (Oniguruma's Ruby syntax), run by
 * PCRE2. Compiled ones are immutable and serve many threads; a matcher belongs to one. */
#ifndef PRECOMPUTE_TOKENIZER_REGEX_H
#define PRECOMPUTE_TOKENIZER_REGEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

typedef struct tok_regex tok_regex;
typedef struct tok_matcher tok_matcher;

/* Compiles a pattern. Items that the two syntaxes read differently are translated (\s, \w, \d and
 * their opposites) or refused (\h, \R, \X, nested or intersected classes): VC_EFORMAT with the
 * reason and the place. */
int tok_regex_open(tok_regex **out, const char *pattern, vc_err *err);
void tok_regex_close(tok_regex *r);                      /* NULL is fine */

int tok_matcher_open(tok_matcher **out, vc_err *err);
void tok_matcher_close(tok_matcher *m);                  /* NULL is fine */

/* Limits the items of patterns and the characters of texts that all later matches may try. */
void tok_matcher_allow(tok_matcher *m, uint64_t steps);

/* Sets *start and *end to the first match in s[0..n), valid UTF-8, that begins at `from` or later;
 * *found becomes false if there is none. VC_EFORMAT: the pattern takes too long on this text. */
int tok_regex_find(const tok_regex *r, tok_matcher *m, const char *s, size_t n, size_t from,
                   bool *found, size_t *start, size_t *end, vc_err *err);

#endif
