/* text.h - characters: repairing UTF-8, classes, normal forms, and SentencePiece's character
 * map. No state. Where a vc_buf is written to, running out of memory sticks to the buffer. */
#ifndef PRECOMPUTE_TOKENIZER_TEXT_H
#define PRECOMPUTE_TOKENIZER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/err.h"

/* Returns the character at s, which is valid UTF-8 and not at its end; *n becomes its bytes. */
uint32_t tok_char(const char *s, size_t *n);
void tok_put_char(vc_buf *b, uint32_t c);
/* Returns the character that ends where s[0..n) ends; n > 0. */
uint32_t tok_last_char(const char *s, size_t n);

/* Adds s[0..n) to out, with U+FFFD for each maximal part that is no UTF-8. */
void tok_repair(vc_buf *out, const char *s, size_t n);

typedef enum {
    TOK_IS_SPACE,                        /* White_Space */
    TOK_IS_LETTER,                       /* L */
    TOK_IS_NUMBER,                       /* N */
    TOK_IS_PUNCT,                        /* P, and all of ASCII's */
    TOK_IS_MARK,                         /* M */
    TOK_IS_WORD,                         /* Alphabetic, M, Nd, Pc, Join_Control */
} tok_class;
bool tok_is(uint32_t c, tok_class k);

typedef enum { TOK_NFC, TOK_NFD, TOK_NFKC, TOK_NFKD } tok_form;
/* Adds s[0..n), valid UTF-8, to out in a normal form. */
int tok_normalize(vc_buf *out, const char *s, size_t n, tok_form form, vc_err *err);
/* Adds s[0..n) to out in full lower case, character by character (no final sigma). */
void tok_lower(vc_buf *out, const char *s, size_t n);
uint32_t tok_upper(uint32_t c);          /* c where upper case is several characters */

/* A precompiled_charsmap: u32 bytes of a double array (darts-clone), the array, and the NUL-ended
 * strings it points to. The struct borrows the blob. */
typedef struct tok_charsmap {
    const uint8_t *units;                /* [n_units] u32, little-endian */
    size_t n_units;
    const char *strings;                 /* valid UTF-8 */
    size_t n_strings;
} tok_charsmap;
/* Finds the parts of a blob. VC_EFORMAT: the blob is damaged. */
int tok_charsmap_of(tok_charsmap *m, const void *blob, size_t n, vc_err *err);
/* Adds s[0..n) to out with whole grapheme clusters of less than 6 bytes, else single characters,
 * replaced by the value of their shortest prefix in the map, as the `tokenizers` library does.
 * VC_EFULL as soon as out has more than `most` bytes. */
int tok_charsmap_apply(const tok_charsmap *m, vc_buf *out, size_t most, const char *s, size_t n);

#endif
