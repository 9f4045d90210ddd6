/* repair.h - text as ftfy 6 repairs it (fix_text): characters that come of copying, of wrong
 * decoding and of typesetting become those that people write. */
#ifndef PRECOMPUTE_TEXT_REPAIR_H
#define PRECOMPUTE_TEXT_REPAIR_H

#include <stdbool.h>

/* Repairs valid UTF-8, line by line, until nothing changes (a long line: some rounds): HTML's
 * names of characters (up to the first line with a "<"), UTF-8 that was decoded wrongly
 * (mojibake.h), control characters, ligatures of Latin letters, full-width and half-width forms,
 * curly quotation marks, line ends, and the escapes of terminals; the result is in normal form C.
 * The caller frees it; NULL: out of memory. */
char *text_repair(const char *text);

/* False: the repair leaves this text as it is. Fast. */
bool text_needs_repair(const char *text);

#endif
