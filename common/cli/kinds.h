/* kinds.h - the kinds of pictures (edges, depths, ..) that a ControlNet-Union of FLUX.1 tells
 * apart, each a number. */
#ifndef COMMON_CLI_KINDS_H
#define COMMON_CLI_KINDS_H

#include <stdint.h>

enum { VC_NO_KIND = -1 };

/* The kind that a word says: a whole number, or the name that the published ControlNet-Unions give
 * to one of 0..6. VC_NO_KIND: it says none. */
int32_t vc_kind_of(const char *word);

#endif
