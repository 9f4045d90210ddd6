/* qwen_pictures.h - from a picture to the pixels of Qwen2.5-VL's vision tower, as transformers'
 * Qwen2VLImageProcessorPil makes them: Pillow's bicubic filter brings the whole picture to sides
 * that are multiples of a merged patch, and colours are scaled and normalised; inside precompute
 * only. transformers' processor for torchvision differs from it by up to 2 of 255 levels. */
#ifndef PRECOMPUTE_TEXT_QWEN_PICTURES_H
#define PRECOMPUTE_TEXT_QWEN_PICTURES_H

#include "precompute/pictures/image_processor.h"

typedef struct qwen_pictures {
    int64_t least, most;                          /* pixels of a picture */
    int side;                                     /* of a merged patch, in pixels */
    image_colours colours;
} qwen_pictures;

/* Reads DIR/preprocessor_config.json, or the image_processor of DIR/processor_config.json, for a
 * tower with patches of `patch` pixels of which merge x merge become one state. VC_EFORMAT names a
 * field whose value is not supported; VC_EMISMATCH: the file's patches are of another size. */
int qwen_pictures_open(qwen_pictures *p, const char *dir, int patch, int merge, vc_err *err);
void qwen_pictures_hash(vf_hasher *h, const qwen_pictures *p);
/* The sides that a picture of h x w gets. VC_EINVAL: one side is over 200 times the other. */
int qwen_pictures_size(const qwen_pictures *p, int h, int w, int *to_h, int *to_w, vc_err *err);
/* rgb [h,w,3] -> pixels [to_h,to_w,3] of qwen_pictures_size */
int qwen_pictures_run(const qwen_pictures *p, const uint8_t *rgb, int h, int w, int to_h, int to_w,
                      float *pixels, vc_err *err);

#endif
