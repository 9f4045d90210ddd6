/* image_processor.h - from a picture to the pixels of a vision model, as transformers'
 * CLIPImageProcessor makes them: the shorter side is resized to `size` by Pillow's bicubic filter,
 * the middle is cut out, and colours are scaled and normalised; or as SiglipImageProcessor does,
 * which resizes the whole picture to a square; inside precompute only. */
#ifndef PRECOMPUTE_TEXT_IMAGE_PROCESSOR_H
#define PRECOMPUTE_TEXT_IMAGE_PROCESSOR_H

#include "formats/json/json.h"
#include "precompute/encoder.h"

/* The scale and the normalisation of bytes, which all image processors have. */
typedef struct image_colours {
    double rescale, mean[3], std[3];
} image_colours;

/* Reads the fields of a preprocessor_config.json; missing ones are CLIP's. Refuses another filter
 * than the bicubic one too. */
int image_colours_read(image_colours *to, const cJSON *o, vc_err *err);
void image_colours_hash(vf_hasher *h, const image_colours *c);
/* n bytes, three colours a pixel -> pixels [n] */
void image_colours_run(const image_colours *c, const uint8_t *rgb, size_t n, float *pixels);

typedef struct image_processor {
    int size, side;                               /* of the shorter side; of the square cut out */
    bool whole;                                   /* nothing is cut: size is 0 */
    image_colours colours;
} image_processor;

/* Reads DIR/preprocessor_config.json for a vision model of side x side pixels; dir NULL: CLIP's own
 * constants, which this file has in diffusers' folders of Wan, or (whole) SigLIP's. VC_EFORMAT
 * names a field whose value is not supported; VC_EMISMATCH: the file makes pictures of another
 * size. */
int image_processor_open(image_processor *p, const char *dir, int side, bool whole, vc_err *err);
void image_processor_hash(vf_hasher *h, const image_processor *p);
/* rgb [h,w,3] -> pixels [side,side,3], the same bytes as Pillow's before they are normalised. */
int image_processor_run(const image_processor *p, const uint8_t *rgb, int h, int w, float *pixels,
                        vc_err *err);

#endif
