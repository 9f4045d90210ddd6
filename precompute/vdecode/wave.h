/* wave.h - a picture of a sound's wave, for pages that have the clip. */
#ifndef PRECOMPUTE_VDECODE_WAVE_H
#define PRECOMPUTE_VDECODE_WAVE_H

#include "precompute/media/write.h"

enum { WAVE_WIDTH = 352, WAVE_HEIGHT = 64 };

/* Draws the wave, -1..1 from bottom to top, to rgb [WAVE_HEIGHT,WAVE_WIDTH,3]: a column is what all
 * channels reach in its part of the time. */
void wave_draw(uint8_t *rgb, const media_wave *w);
/* Writes it as PNG. */
int wave_write(const char *path, const media_wave *w, vc_err *err);

#endif
