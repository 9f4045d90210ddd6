/* streams.h - a program's stdin, stdout and stderr, and escaping of foreign text for terminals. No
 * state. */
#ifndef COMMON_OS_STREAMS_H
#define COMMON_OS_STREAMS_H

#include <stdio.h>

#include "common/base/err.h"

/* The first call of a main: opens those of descriptors 0 to 2 that are closed on the null device,
 * so that no data file gets their numbers and printed text cannot end up in one. They are opened
 * for reading only: writes to such a stdout fail, and vc_std_flush reports the failure. */
void vc_std_open(void);

/* Called after the last result: VC_EIO or VC_EFULL if stdout was not written completely, as on a
 * full disk. */
int vc_std_flush(FILE *out, vc_err *err);

/* Prints "PROGRAM: TEXT" on stderr, without the passwords of addresses (base/secrets.h); an empty
 * text is replaced by the name of code rc. */
void vc_std_complain(const char *program, const char *text, int rc);

/* Writes the printable form of the character at s, which is not the text's end: a blank for a line
 * break or a tab, an escape for other control characters and for bytes that are no UTF-8 (\x1b) and
 * for controls of text direction (\u202e), else the character. Returns the number of bytes that the
 * character has in s. */
enum { VC_SHOWN = 8 };
size_t vc_show(char shown[VC_SHOWN], const char *s);

/* Prints a text in this form, with "..." after max characters (0: all). */
void vc_print(FILE *f, const char *text, int max);

#endif
