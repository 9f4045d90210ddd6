/* prompt_images.h - the pictures of validation prompts: the column `image_path`, for models that
 * know the last frame too and for inpainting `last_image_path`, and for masked pictures (FLUX.1
 * Fill) `mask_file_path`, relative to the list.
 *
 *   i2v      the picture is encoded alone, as the first frame of the sample
 *   normal   the same for a family that begins_with_latent; no picture is read for others
 *   inpaint  the picture is the first frame of a clip that is masked from the second frame on,
 *            encoded with this mask as VideoX-Fun samples: known pixels have noise of
 *            VPREP_PROMPT_SIGMA where the transformer was trained with noise; i2v of families
 *            with masked_frames is the same. Of families with pixel_masks it is a still, whose
 *            mask is that of its file
 *
 *   control  the column control_file_path: the first frames of a clip, or a still for all frames;
 *            control_ref has the picture as the first frame, encoded alone, besides
 *
 *   vace     the column vace_video or control_file_path, as control's, with the mask of
 *            vace_video_mask or mask_file_path, a picture or a clip; without one all pixels are to
 *            be made again; and references
 *
 *   edit     the columns of references that lists have (formats/metadata/references.c); without
 *            them image_path: references, each encoded alone in its own size. The row keeps its
 *            height and width
 *
 * Another picture is cut to the row's height and width, else to the bucket that a video of its
 * shape has.
 * A clip has the row's num_frames, else the most frames of the run's clips. The size is written
 * back into the row.
 *
 * Prompts are no items of the plan: an item's size, frames and captions are drawn by its id, and a
 * prompt, whose keys must stay, has none of these draws. Both share clips, keys, jobs and sizes of
 * references. */
#ifndef PRECOMPUTE_ENCODE_PROMPT_IMAGES_H
#define PRECOMPUTE_ENCODE_PROMPT_IMAGES_H

#include "precompute/encode/encode.h"

typedef struct vprep_image vprep_image;

/* Opens, measures and hashes all pictures, so that unusable ones end the run before anything is
 * encoded. */
int vprep_prompt_images_find(vprep *p, vc_err *err);
/* VC_ROLE_BITs of the values of row i's picture, 0 without one. *key: their latent keys by role. */
unsigned vprep_prompt_values(const vprep *p, int i, const vf_key **key);
/* The pictures in the texts of row i: none, the first frame, which the row has wherever texts have
 * it, or its references. */
void vprep_prompt_pictures_of(const vprep *p, int i, prep_pictures *is);
/* *rgb: row i's picture as the first frame of its sample, malloc'ed bytes [h,w,3]. */
int vprep_prompt_picture(const vprep *p, int i, uint8_t **rgb, int *h, int *w, vc_err *err);
/* The same of reference k, as its text gets it: fills *rgb and the sizes of *t. */
int vprep_prompt_look(const vprep *p, int i, int k, uint8_t **rgb, text_picture *t, vc_err *err);
/* Copies values from the datasets of --reuse. *roles: VC_ROLE_BITs of the values to be encoded;
 * *largest becomes the largest of their clips if that is larger. */
int vprep_prompt_images_settle(vprep *p, vb_choice *largest, unsigned *roles, vc_err *err);
/* Encodes and puts the missing values, each once. */
int vprep_prompt_images_encode(vprep *p, prep_encoder *e, vc_err *err);
void vprep_prompt_images_free(vprep_prompts *v);

#endif
