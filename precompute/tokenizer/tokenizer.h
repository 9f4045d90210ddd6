/* tokenizer.h - text to token ids, by a model's own tokenizer files.
 *
 * Four kinds of folder are read, in this order of preference:
 *   tokenizer.json            models Unigram and BPE with their normalisers, pre-tokenisers, added
 *                             tokens and post-processors
 *   spiece.model              SentencePiece unigram, as the T5 tokenizer uses it
 *   vocab.json + merges.txt   byte-level BPE of CLIPTokenizer and Qwen2Tokenizer
 *   tokenizer_config.json     alone, of ByT5Tokenizer, whose tokens are bytes
 * and, where they exist: tokenizer_config.json (added tokens and their flags, pad token, class,
 * extra_ids, whether BOS and EOS are added), special_tokens_map.json, added_tokens.json.
 *
 * The ids are those of the `tokenizers` library that the diffusers pipelines call, version 0.23,
 * but for characters that the Unicode tables of this machine's PCRE2 and utf8proc do not know yet.
 * Time is n log n in the text's length. Immutable after open: one handle may serve many threads. */
#ifndef PRECOMPUTE_TOKENIZER_TOKENIZER_H
#define PRECOMPUTE_TOKENIZER_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "formats/dataset/dataset.h"

typedef struct tokenizer tokenizer;

enum { TOKENIZER_TEXT_MAX = 1 << 28 };             /* bytes of a text */

/* Opens a tokenizer's folder, or one of the files named above. VC_ENOENT: dir has none of them;
 * VC_EFORMAT, with file and field: a file is damaged, or of an unknown kind. */
int tokenizer_open(tokenizer **out, const char *dir, vc_err *err);
/* Does the same, and adds special tokens (NULL-ended) to the folder's: each gets the next id, in
 * order. */
int tokenizer_open_with(tokenizer **out, const char *dir, const char *const *added, vc_err *err);
void tokenizer_close(tokenizer *t);                          /* NULL is fine */

/* Returns the hash of everything that changes ids, without file names and unrelated fields. The
 * same tokenizer as spiece.model and as tokenizer.json has one fingerprint. */
vf_key tokenizer_fingerprint(const tokenizer *t);

/* Sets *ids, malloc'ed, to a text's *n ids without the special tokens of a template; NULL on
 * failure. Text that spells a special token becomes that token. The text need not be UTF-8 (each
 * maximal part that is none becomes U+FFFD, as Python decodes with errors="replace") nor end in
 * NUL, and may hold NULs. VC_EINVAL: the text is longer than TOKENIZER_TEXT_MAX. */
int tokenizer_ids(const tokenizer *t, const char *text, size_t bytes, int64_t **ids, size_t *n,
                  vc_err *err);

/* Makes a prompt as an encoder gets it: with the special tokens of the model's post-processor (T5:
 * EOS at the end; CLIP: BOS and EOS; LLaMA 3: BOS), its text cut so that all fit into max_length,
 * padded on the right. text ends in NUL; ids and mask are [max_length], and mask is 1 before the
 * padding and 0 in the padding; *n becomes the number of tokens before the padding. VC_EINVAL:
 * max_length does not hold the special tokens, or padding is needed and the files name no pad
 * token. */
int tokenizer_prompt(const tokenizer *t, const char *text, int max_length, int64_t *ids,
                     int64_t *mask, int *n, vc_err *err);
/* Does the same for a text that a chat template made, which spells all its special tokens itself:
 * the post-processor adds none. */
int tokenizer_chat(const tokenizer *t, const char *text, int max_length, int64_t *ids,
                   int64_t *mask, int *n, vc_err *err);

/* Returns the number of tokens that a prompt has besides those of its text. */
size_t tokenizer_specials(const tokenizer *t);
int64_t tokenizer_pad(const tokenizer *t);                   /* id of the pad token; -1: none */

/* Where the files say that padding goes, which tokenizer_prompt and tokenizer_chat leave to the
 * caller. */
typedef enum tokenizer_side {
    TOKENIZER_SIDE_UNSAID, TOKENIZER_LEFT, TOKENIZER_RIGHT
} tokenizer_side;
tokenizer_side tokenizer_padding_side(const tokenizer *t);

#endif
