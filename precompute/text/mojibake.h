/* mojibake.h - text whose UTF-8 was decoded in another encoding ("cafÃ©"), decoded properly.
 *
 * The rules are those of ftfy 6 (fix_encoding): text is touched only where pairs of its characters
 * are such as people do not write. */
#ifndef PRECOMPUTE_TEXT_MOJIBAKE_H
#define PRECOMPUTE_TEXT_MOJIBAKE_H

#include <stdint.h>

/* s is valid UTF-8. The caller frees the result; NULL: out of memory. Time is linear in the length
 * of s and in the number of times that it was wrongly decoded. */
char *text_decode_again(const char *s);

/* The character that windows-1252 has for byte 128 + i, i in 0..31; an unused byte's own number. */
uint32_t text_windows_1252(unsigned i);

#endif
