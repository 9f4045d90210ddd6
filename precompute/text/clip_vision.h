/* clip_vision.h - the vision models of CLIP (Radford et al. 2021; Dosovitskiy et al. 2021) and
 * SigLIP (Zhai et al. 2023): a picture -> states of its patches; inside precompute only.
 *
 * A picture of image_size x image_size is cut into patches, and a class token is put in front of
 * the patches. These tokens get learned positions and a norm, and go through layers in which every
 * token attends to every other. The states are transformers' hidden_states[-1 - skip]: the output
 * of the last layer but `skip`, without a norm. Wan and LLaVA use a skip of 1. The last `skip`
 * layers are neither read nor run. SigLIP has no class token and no norm in front of the layers;
 * its states are those after the last norm. Pixels on the right and below that fill no patch are
 * not seen.
 *
 * Memory: weights stay in the file's map; the activations of one layer are held besides, as in
 * llm.h. A handle belongs to one thread. */
#ifndef PRECOMPUTE_TEXT_CLIP_VISION_H
#define PRECOMPUTE_TEXT_CLIP_VISION_H

#include "common/tensor/tensor.h"
#include "precompute/encoder.h"

typedef struct clip_vision clip_vision;

typedef struct clip_vision_info {
    vf_key fingerprint;                           /* hash of the weights and of the fields that
                                                   * change the states */
    int size;                                     /* height and width of the picture, in pixels */
    int tokens;                                   /* CLIP's class token; the patches, row by row */
    int width;                                    /* hidden_size */
} clip_vision_info;

/* Opens config.json of o->dir, or its vision_config where the folder is that of a larger model, and
 * the weights beside this file. Uses o's dir, dtype, device, threads and weights. VC_EFORMAT:
 * config.json has a value that this code does not support; the message names the field. VC_EINVAL:
 * the model has fewer than `skip` layers. VC_ENOENT, VC_EMISMATCH: a tensor is missing, has another
 * shape, or is not used (a projection may be there, and the rest of a larger model). *out is NULL
 * on failure. */
int clip_vision_open(clip_vision **out, const encoder_opts *o, int skip, clip_vision_info *info,
                     vc_err *err);
/* Does the same for SigLIP, all of whose layers are run; the head that makes a pooled state may be
 * in the file, and clip_vision_encode makes none. */
int clip_vision_open_siglip(clip_vision **out, const encoder_opts *o, clip_vision_info *info,
                            vc_err *err);
void clip_vision_close(clip_vision *m);           /* NULL is fine */

/* pixels f32 [size,size,3], normalised as by the model's image processor -> states f32
 * [tokens,width], and pooled f32 [width], the class token's state after the last norm. pooled may
 * be NULL. VC_EINVAL: a pooled state is asked for where layers are left out; VC_ENUMERIC: a state
 * is not finite. */
int clip_vision_encode(clip_vision *m, const float *pixels, float *states, float *pooled,
                       vc_err *err);
/* The memory of clip_vision_encode beside the weights, by a dry step. */
int clip_vision_memory(clip_vision *m, size_t *bytes, vc_err *err);
vt_usage clip_vision_usage(const clip_vision *m); /* of the last clip_vision_encode */

#endif
