/* heif.h - the picture that a HEIF file (HEIC, AVIF) shows first, as its boxes describe it: ISO/IEC
 * 23008-12. heif_boxes.c finds boxes, items and their bytes, heif_look.c an item's
 * properties; heif.c makes the picture. */
#ifndef PRECOMPUTE_MEDIA_HEIF_H
#define PRECOMPUTE_MEDIA_HEIF_H

#include "precompute/media/internal.h"

/* No honest file has more; a hostile one is searched no longer. */
enum { HEIF_MAX_TILES = 8192, HEIF_MAX_BOXES = 256, HEIF_MAX_ITEMS = 1 << 14 };

#define HEIF_TYPE(a, b, c, d) ((uint32_t)(a) << 24 | (b) << 16 | (c) << 8 | (d))

typedef struct heif_span {
    const uint8_t *p;
    size_t n;
} heif_span;

/* ---- boxes ---- */
typedef struct heif_reader {
    heif_span s;
    bool ended;             /* a number was wanted behind the end */
} heif_reader;

uint64_t heif_take(heif_reader *r, size_t bytes);   /* big-endian; behind the end 0 */
static inline uint32_t heif_take32(heif_reader *r)
{
    return (uint32_t)heif_take(r, 4);
}
void heif_skip(heif_reader *r, size_t bytes);
/* Takes the next box of r. false: there is none, or it does not fit. */
bool heif_next_box(heif_reader *r, uint32_t *type, heif_reader *body);
bool heif_find_box(heif_span in, uint32_t want, heif_reader *body);
/* The same of a full box, whose version and flags are taken. */
bool heif_find_full(heif_span in, uint32_t want, heif_reader *body, int *version, uint32_t *flags);
int heif_damaged(vc_err *err, const char *box);
typedef struct heif_letters { char s[5]; } heif_letters;
heif_letters heif_letters_of(uint32_t type);        /* for messages */

/* ---- the file ---- */
/* What an item's properties say. */
typedef struct heif_properties {
    heif_span config;       /* the body of its av1C, hvcC or avcC */
    bool turned, cut;       /* turned: it has irot, imir or clap; cut: clap */
    int crop_x, crop_y, crop_w, crop_h; /* of the picture as stored */
    media_orient orient;    /* of what is left */
    bool has_colour;        /* of a colr box of type nclx: */
    uint16_t primaries, transfer, matrix;
    bool full_range;
} heif_properties;

typedef struct heif_file {
    media_io *io;
    uint8_t *meta;          /* the body of the box "meta" */
    size_t n;
    uint32_t primary;       /* the number of the item that is shown first */
} heif_file;

/* MEDIA_NOT_MINE: no HEIF file, or one of tracks. The caller closes f after a failure too. */
int heif_open(heif_file *f, media_io *io, vc_err *err);
void heif_close(heif_file *f);
heif_span heif_meta(const heif_file *f);
/* The references of one kind from an item to others. */
typedef struct heif_references {
    heif_reader iref, to;
    int version, left;
    uint32_t from;
    unsigned n;             /* items that heif_reference gives, one after the other */
} heif_references;
bool heif_references_open(heif_references *r, const heif_file *file);   /* false: there are none */
bool heif_references_next(heif_references *r, uint32_t type);
uint32_t heif_reference(heif_references *r);
/* Whether the alpha of the primary item is another item. */
bool heif_has_alpha(const heif_file *f);

/* *type: four letters, the first one highest. */
int heif_type(const heif_file *f, uint32_t item, uint32_t *type, vc_err *err);
/* The item's bytes with `room` zero bytes behind them, for the caller to free. */
int heif_data(const heif_file *f, uint32_t item, size_t room, uint8_t **data, size_t *n,
              vc_err *err);
/* The items from which an item is derived: *n of them, at most HEIF_MAX_TILES. */
int heif_sources(const heif_file *f, uint32_t item, uint32_t source[HEIF_MAX_TILES], int *n,
                 vc_err *err);
/* p of an item that is w x h as stored; later calls for items derived from it turn and crop
 * further. p begins all zero. */
int heif_find_properties(const heif_file *f, uint32_t item, int w, int h, heif_properties *p,
                         vc_err *err);
/* The width and height that an item's box "ispe" has, of MEDIA_MAX_PIXELS at most. */
int heif_size(const heif_file *f, uint32_t item, int *w, int *h, vc_err *err);

#endif
