/* loss_mask.h - weights of the loss from the picture or clip of the column loss_mask_path: white
 * pixels count in the loss, black ones do not, and greys count in part.
 *
 * The mask covers the whole source, has the source's shape at any size, and is resized, cut and
 * mirrored with it. A picture holds for all frames; a clip has a frame for each frame of the
 * source. The weight of a latent position is the mean of its r x r pixels, in frame 0 for the first
 * latent frame and in k frames for each later one. */
#ifndef PRECOMPUTE_ENCODE_LOSS_MASK_H
#define PRECOMPUTE_ENCODE_LOSS_MASK_H

#include "precompute/encode/clip_frames.h"

/* The weights 0..1 of a clip, [latent_f,latent_h,latent_w]; the caller frees. Errors begin with the
 * path as written. VC_EMISMATCH: the mask has another shape than the source, or is too short; other
 * errors are those of media_open and media_read. Thread-safe. */
int vprep_loss_mask(const vprep *p, const vprep_item *it, const vprep_clip *clip, float **weights,
                    vc_err *err);

/* Makes a mask of n pixels [n,3]: 1, to be generated, where the grey is at least half of white, as
 * diffusers' mask processor rounds it. */
void vprep_mask_of(uint8_t *out, const uint8_t *rgb, size_t n);
/* Fills the pixels of a mask of the row's mask_file_path. Errors as above. */
int vprep_mask_file(const vprep *p, const vprep_item *it, vprep_clip *clip, vc_err *err);

/* Means of grey frames [h,w,3] over r x r pixels and k frames, as above: out
 * [(f->n-1)/k+1, h/r, w/r]. */
int vprep_loss_weights(float *out, prep_frames *f, int h, int w, int k, int r, vc_err *err);

#endif
