/* loss_mask.h - which parts of a sample count in the loss: the picture or clip of the column
 * loss_mask_path, white where the loss counts and black where it does not, greys in between.
 *
 * It covers the whole source, at any size of its shape, and is resized, cut and mirrored like it. A
 * picture holds for all frames, of a clip the frames of the source's numbers are taken. A latent
 * position's weight is the mean over the pixels that it stands for: r x r of them, of frame 0 in
 * the first latent frame and of k frames in each later one. */
#ifndef PRECOMPUTE_ENCODE_LOSS_MASK_H
#define PRECOMPUTE_ENCODE_LOSS_MASK_H

#include "precompute/run/vprep.h"

/* The weights 0..1 of a clip, [latent_f,latent_h,latent_w]; the caller frees. Errors begin with the
 * path as written: VC_EMISMATCH: of another shape than the source, or too short; else those of
 * media_open and media_read. Thread-safe. */
int vprep_loss_mask(const vprep *p, const vprep_item *it, const vprep_clip *clip, float **weights,
                    vc_err *err);

/* Means of grey frames u8 RGB [f,h,w,3] over r x r pixels and k frames, as above: out
 * [(f-1)/k+1, h/r, w/r]. */
void vprep_loss_weights(float *out, const uint8_t *rgb, int f, int h, int w, int k, int r);

#endif
