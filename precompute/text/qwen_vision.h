/* qwen_vision.h - Qwen2.5-VL's vision tower (Bai et al. 2025, 2.1): a picture -> states that take
 * the place of tokens' embeddings; inside precompute only.
 *
 * A picture of any size is cut into patches; a convolution over two frames, which are both the
 * picture, embeds them. Most layers attend within windows, a few of them among all patches;
 * rotations are by row and column. RMSNorm stands before each half, and the feed-forwards are
 * SwiGLU with biases. At the end merge x merge patches become one state.
 *
 * Memory: weights stay in the file's map; the activations of one layer are held besides, as in
 * llm.h. A handle belongs to one thread. */
#ifndef PRECOMPUTE_TEXT_QWEN_VISION_H
#define PRECOMPUTE_TEXT_QWEN_VISION_H

#include "common/tensor/tensor.h"
#include "precompute/encoder.h"

typedef struct qwen_vision qwen_vision;

typedef struct qwen_vision_info {
    vf_key fingerprint;                           /* of the fields that change the states; the
                                                   * weights are those of the text's file */
    int patch, merge;                             /* pixels of a patch; patches of a state */
    int width;                                    /* of a state */
} qwen_vision_info;

/* Opens the vision_config in config.json of o->dir, and the weights beside this file. Uses o's dir,
 * dtype, device and threads. VC_EFORMAT: config.json has a value that this code does not support;
 * the message names the field. VC_ENOENT, VC_EMISMATCH: a tensor of the tower is missing, has
 * another shape, or is not used. *out is NULL on failure. */
int qwen_vision_open(qwen_vision **out, const encoder_opts *o, qwen_vision_info *info, vc_err *err);
void qwen_vision_close(qwen_vision *m);           /* NULL is fine */

/* pixels f32 [h,w,3], normalised, sides multiples of patch * merge -> states f32
 * [h / (patch merge) * w / (patch merge), width], row by row. VC_ENUMERIC: a state is not
 * finite. */
int qwen_vision_encode(qwen_vision *m, const float *pixels, int h, int w, float *states,
                       vc_err *err);
vt_usage qwen_vision_usage(const qwen_vision *m); /* of the last qwen_vision_encode */

#endif
