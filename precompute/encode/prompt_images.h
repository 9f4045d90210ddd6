/* prompt_images.h - the pictures of validation prompts: the column `image_path`, relative to the list.
 *
 *   i2v      the picture is encoded alone, as the first frame that the sample begins with
 *   inpaint  it is the first frame of a clip that is masked from the second on, encoded with its mask
 *            as VideoX-Fun samples: known pixels with noise of VPREP_PROMPT_SIGMA where
 *            the transformer was trained with noise
 *
 * A picture is cut to the row's height and width, else to the bucket that a video of its shape has; a
 * clip has the row's num_frames, else as many as the run's clips at most. The size is written back
 * into the row. */
#ifndef PRECOMPUTE_ENCODE_PROMPT_IMAGES_H
#define PRECOMPUTE_ENCODE_PROMPT_IMAGES_H

#include "precompute/encode/encode.h"

typedef struct vprep_image vprep_image;

/* Opens, measures and hashes them all: what cannot be used is told before anything is encoded. */
int vprep_prompt_images_find(vprep *p, vc_err *err);
/* VALUE_BITs of what row i's picture becomes, 0 without one; their latent keys by VALUE_*. */
unsigned vprep_prompt_values(const vprep *p, int i, const vf_key **key);
/* Takes what --reuse has. *any: some are to be encoded; *largest becomes the largest clip of
 * these if that is larger. */
int vprep_prompt_images_settle(vprep *p, vb_choice *largest, bool *any, vc_err *err);
/* Encodes and puts what is missing, once. */
int vprep_prompt_images_encode(vprep *p, prep_encoder *e, vc_err *err);
void vprep_prompt_images_free(vprep_prompts *v);

#endif
