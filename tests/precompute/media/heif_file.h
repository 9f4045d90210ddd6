/* heif_file.h - makes HEIC and AVIF files for tests: the boxes around pictures that ffmpeg
 * coded. */
#ifndef TESTS_PRECOMPUTE_MEDIA_HEIF_FILE_H
#define TESTS_PRECOMPUTE_MEDIA_HEIF_FILE_H

#include <stddef.h>
#include <stdint.h>

typedef struct heif_bytes {
    uint8_t *p;
    size_t n, room;
} heif_bytes;

void heif_put(heif_bytes *b, const void *p, size_t n);
void heif_put_int(heif_bytes *b, uint64_t v, int bytes);        /* big-endian */
size_t heif_begin(heif_bytes *b, const char *type);             /* a box; returns its place */
void heif_end(heif_bytes *b, size_t place);

enum { HEIF_PROPERTIES = 8, HEIF_PARTS = 16 };

/* An item: its number is its place in the list, from 1 on. */
typedef struct heif_item {
    const char *type;
    heif_bytes data;
    heif_bytes property[HEIF_PROPERTIES];   /* whole boxes, in their order; the first empty one ends
                                             * them; all are essential */
    int part[HEIF_PARTS];                   /* items that it is made of; 0 ends them */
    int of;                                 /* it is auxiliary to that item; 0: to none */
} heif_item;

typedef struct heif_coded {
    heif_bytes config, sample;              /* config: the whole box */
} heif_coded;

/* Codes a picture, without loss, by ffmpeg with libx265 or libaom-av1. */
heif_coded heif_code(const char *png, const char *encoder, const char *config);
/* The properties of a coded item: its config and size. */
void heif_describe(heif_item *it, const heif_coded *c, int w, int h);
/* Adds a property whose body is n bytes. */
void heif_add(heif_item *it, const char *type, const void *body, size_t n);
/* The file; item 1 is shown first. */
heif_bytes heif_file_of(const char *brand, const heif_item *items, int n);

#endif
