/* term.h - a picture in a terminal: by kitty's graphics protocol, as sixels, or as half blocks in
 * true colour. No state; any thread. */
#ifndef FORMATS_REPORT_TERM_H
#define FORMATS_REPORT_TERM_H

#include <stdint.h>

#include "common/base/buf.h"

typedef enum vf_term { VF_TERM_NONE, VF_TERM_KITTY, VF_TERM_SIXEL, VF_TERM_BLOCKS } vf_term;

/* The best that the terminal told by these environment variables can be trusted to show; env is
 * getenv. Inside tmux and screen, which pass no graphics on, at most blocks. */
vf_term vf_term_of(char *(*env)(const char *name));

/* Columns that a picture may take: COLUMNS of the environment if it is sane, else 80. */
int vf_term_columns(char *(*env)(const char *name));

/* Adds u8 RGB [h,w,3] as `how` to b, from the beginning of a line to the beginning of the next.
 * Blocks: one pixel a column and two a line, reduced to at most `columns` and 24 lines. Sixels: in
 * 216 colours, dithered. */
void vf_term_draw(vc_buf *b, vf_term how, const uint8_t *rgb, int w, int h, int columns);

#endif
