/* streams.h - a program's stdin, stdout and stderr, and text that others wrote on its way to a
 * terminal. No state. */
#ifndef COMMON_OS_STREAMS_H
#define COMMON_OS_STREAMS_H

#include <stdio.h>

#include "common/base/err.h"

/* The first call of a main: descriptors 0 to 2 that came closed are opened on the null device, so
 * that no file of data gets their numbers and what is printed goes nowhere else. They are open for
 * reading only: what is written to such a stdout fails, and vc_std_flush says so. */
void vc_std_open(void);

/* After the last result: VC_EIO or VC_EFULL if not all of it was written, as to a full disk. */
int vc_std_flush(FILE *out, vc_err *err);

/* "PROGRAM: TEXT" on stderr, with what rc means for an empty text. */
void vc_std_complain(const char *program, const char *text, int rc);

/* What a terminal may get of the character at s, which is not its end: the character; a blank for a
 * line break or a tab; else an escape, \x1b of a control character or of a byte that is no UTF-8,
 * \u202e of what would turn the text around it. Returns the character's bytes. */
enum { VC_SHOWN = 8 };
size_t vc_show(char shown[VC_SHOWN], const char *s);

/* Prints a text so, with "..." after max characters (0: all). */
void vc_print(FILE *f, const char *text, int max);

#endif
