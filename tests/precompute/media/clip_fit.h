/* clip_fit.h - transport streams one after the other, the first of which ends with a picture that
 * fills its last packet, so that the packets do not show whether it is whole. */
#ifndef TESTS_PRECOMPUTE_MEDIA_CLIP_FIT_H
#define TESTS_PRECOMPUTE_MEDIA_CLIP_FIT_H

#include <stddef.h>

/* Writes OUT, in the folder of the clips: IN, in which the last picture fills its last packet,
 * without its last `less` packets (or one more, since FFmpeg sees no leap from count 15 to 0),
 * without the last `bytes` bytes of the picture, and without empty packets behind it. A packet has
 * 188 or 192 bytes. */
void clip_fit_last(const char *in, size_t packet, size_t less, size_t bytes, const char *out);

/* Writes the file OUT, in the folder of the clips: A, then B. */
void clip_join(const char *a, const char *b, const char *out);

#endif
