/* pillow.h - a picture in another size, with the bytes that Pillow makes: its filters weigh as many
 * pixels as a pixel of the result covers; inside precompute only. Columns are resized before rows,
 * as in all versions before 13, which begins with rows where rows shrink more: some bytes differ
 * by a few then. */
#ifndef PRECOMPUTE_TEXT_PILLOW_H
#define PRECOMPUTE_TEXT_PILLOW_H

#include <stdint.h>

#include "common/base/err.h"

/* One axis of `in` pixels that is resized to `out`, of which n pixels from `first` on are made. */
typedef struct pillow_axis {
    int in, out, first, n;
} pillow_axis;

typedef enum pillow_filter { PILLOW_BICUBIC, PILLOW_LANCZOS } pillow_filter;

/* rgb [y->in,x->in,3] -> out [y->n,x->n,3] */
int pillow_resize(uint8_t *out, const uint8_t *rgb, const pillow_axis *y, const pillow_axis *x,
                  pillow_filter filter, vc_err *err);

#endif
