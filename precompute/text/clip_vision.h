/* clip_vision.h - CLIP's vision model (Radford et al. 2021; Dosovitskiy et al. 2021): a picture ->
 * states of its patches; inside precompute only.
 *
 * A picture of image_size x image_size is cut into patches, a class token is put in front of them,
 * all get learned positions and a norm, and go through layers in which every token sees every
 * other. The states are transformers' hidden_states[-1 - skip]: after the last layer, or `skip`
 * layers before it, without a norm: Wan and LLaVA take 1. Layers that are left out are neither read
 * nor run.
 *
 * Memory: weights stay in the file's map; beside it one layer's activations, as in llm.h. A handle
 * belongs to one thread. */
#ifndef PRECOMPUTE_TEXT_CLIP_VISION_H
#define PRECOMPUTE_TEXT_CLIP_VISION_H

#include "common/tensor/tensor.h"
#include "precompute/encoder.h"

typedef struct clip_vision clip_vision;

typedef struct clip_vision_info {
    vf_key fingerprint;                           /* of weights and fields that change the states */
    int size;                                     /* of a side of the picture, in pixels */
    int tokens;                                   /* the class token and the patches, row by row */
    int width;                                    /* hidden_size */
} clip_vision_info;

/* Opens DIR/config.json and the weights beside it. Uses o's dir, dtype, device, threads, weights.
 * VC_EFORMAT: a field that this code cannot do, named; VC_EINVAL: fewer layers than are to be left
 * out; VC_ENOENT, VC_EMISMATCH: a tensor is missing, has another shape, or is left over (a
 * projection may be). *out is NULL on failure. */
int clip_vision_open(clip_vision **out, const encoder_opts *o, int skip, clip_vision_info *info,
                     vc_err *err);
void clip_vision_close(clip_vision *m);           /* NULL is fine */

/* pixels f32 [size,size,3], normalised as the model's image processor does -> states f32
 * [tokens,width]; pooled f32 [width], the class token's state after the last norm, or NULL.
 * VC_EINVAL: a pooled state where layers are left out; VC_ENUMERIC: states that are not finite. */
int clip_vision_encode(clip_vision *m, const float *pixels, float *states, float *pooled,
                       vc_err *err);
vt_usage clip_vision_usage(const clip_vision *m); /* of the last clip_vision_encode */

#endif
