/* resize.h - the one resize between a decoded frame and the encoder's pixels.
 *
 * Separable triangle filter with low-pass when shrinking (what PIL and torchvision call
 * antialiased bilinear). For output i of a side in -> out: scale = in/out, r = max(scale, 1),
 * centre = (i + 0.5) * scale, taps j from max(0, trunc(centre - r + 0.5)) to
 * min(in, trunc(centre + r + 0.5)) - 1, weight max(0, 1 - |j + 0.5 - centre| / r), normalised to
 * sum 1. Works on 8-bit RGB in f32, columns first, then rows; the same bits on every machine. A
 * source may be a function that makes each row when the resize needs the row. */
#ifndef PRECOMPUTE_MEDIA_RESIZE_H
#define PRECOMPUTE_MEDIA_RESIZE_H

#include <stdint.h>

#include "common/base/err.h"

typedef struct resize resize;

/* A plan for sources of (h, w), the whole resized to (rh, rw), of which only the rectangle
 * (top, left, out_h, out_w) is computed. Holds the weights, and as many source rows in f32 as an
 * output row is made of (about 2 h/rh): one thread at a time. VC_EINVAL: a side that is not in
 * 1..RESIZE_MAX_SIDE, a rectangle that leaves (rh, rw). */
#define RESIZE_MAX_SIDE (1 << 20)
int resize_open(resize **out, int h, int w, int rh, int rw, int top, int left, int out_h,
                int out_w, vc_err *err);
/* src: h rows of 3*w bytes, stride bytes apart; dst packed [out_h, out_w, 3], rounded once, half
 * up. A source of the target's size is copied unchanged. */
void resize_run(resize *r, uint8_t *dst, const uint8_t *src, int64_t stride);
/* The same without the rounding: 0..255. */
void resize_run_f32(resize *r, float *dst, const uint8_t *src, int64_t stride);
/* A source by rows: writes row y, [w] whole numbers of 0..255 for each colour. Called once for each
 * row that the rectangle needs, in ascending order. */
typedef void resize_row(void *arg, int y, float *r, float *g, float *b);
void resize_run_rows(resize *r, uint8_t *dst, resize_row *source, void *arg);
void resize_close(resize *r);                       /* NULL is fine */

/* VideoX-Fun's first resize of a video: bilinear between the four nearest pixels, half-pixel
 * centres, edges repeated, no low-pass, rounded to 8 bits. dst packed [oh, ow, 3]. No
 * allocation. */
void resize_bilinear(uint8_t *dst, int oh, int ow, const uint8_t *src, int h, int w,
                     int64_t stride);

#endif
