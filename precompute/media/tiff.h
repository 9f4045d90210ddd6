/* tiff.h - what tiff.c finds in a TIFF's tags and tiff_pixels.c makes pixels of. */
#ifndef PRECOMPUTE_MEDIA_TIFF_H
#define PRECOMPUTE_MEDIA_TIFF_H

#include <tiffio.h>

#include "precompute/media/internal.h"

/* How the samples of a pixel become a colour. */
typedef enum tiff_colours {
    TIFF_GRAY, TIFF_WHITE_IS_0, TIFF_PALETTE, TIFF_RGB, TIFF_CMYK,
    TIFF_BY_LIBTIFF         /* TIFFReadRGBAImage converts them: YCbCr without JPEG, old JPEG */
} tiff_colours;

typedef struct media_tiff {
    TIFF *tif;
    media_io *io;
    int64_t pos;
    char message[192];      /* libtiff's first error, or warning of damage, since it was emptied */
    bool decodes;           /* pixels are being read, where warnings mean damage */
    bool used;              /* they were read before */
    tdir_t page;

    uint32_t w, h;
    uint16_t bits, samples, compression, photometric, orientation;
    bool tiled, planes;     /* planes: each sample has strips or tiles of its own */
    tiff_colours colours;
    int n_colours;
    int alpha;              /* which sample it is; -1: none, or of a form without one here */
    bool associated;        /* the colours are multiplied by it */
} media_tiff;

/* Decodes the page into the empty frame f: RGBA or RGBA64, as stored; without alpha RGB0, or RGBA64
 * that is opaque. */
int media_tiff_pixels(media_tiff *t, AVFrame *f, vc_err *err);

#endif
