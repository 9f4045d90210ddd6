/* lines.h - the lines of a text in memory, as of a mapped file. A line that never ends is refused
 * without reading on. */
#ifndef COMMON_OS_LINES_H
#define COMMON_OS_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

typedef struct vc_lines {
    const char *at, *end;                    /* what is left of the text */
    size_t most;                             /* bytes of the longest line */
    int64_t number;                          /* of the line that was given last, from 1 */
    bool ended;                              /* that line has an end */
} vc_lines;

/* `text` may be NULL if n is 0. */
vc_lines vc_lines_of(const void *text, size_t n, size_t most);
/* Gives the next line without its end, which may be empty; *line is NULL after the last one.
 * VC_EFORMAT "line 7: longer than N bytes". VC_ESTOP: the user asked for an end. */
int vc_lines_next(vc_lines *l, const char **line, size_t *n, vc_err *err);

#endif
