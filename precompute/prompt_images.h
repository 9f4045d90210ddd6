/* prompt_images.h - the first frames of validation prompts (--train_mode i2v): the column
 * `image_path`, relative to the list. A picture is cut to the row's height and width, else to the
 * bucket that a video of its shape has; the latent's size is written back into the row. */
#ifndef VPREP_PROMPT_IMAGES_H
#define VPREP_PROMPT_IMAGES_H

#include "precompute/encode.h"

typedef struct vprep_image vprep_image;

/* Opens, measures and hashes them all: what cannot be used is told before anything is encoded. */
int vprep_prompt_images_find(vprep *p, vc_err *err);
/* The latent key of row i's picture, or NULL. */
const vf_key *vprep_prompt_image(const vprep *p, int i);
bool vprep_prompt_images_missing(const vprep *p);
int vprep_prompt_images_encode(vprep *p, prep_encoder *e, vc_err *err);
void vprep_prompt_images_free(vprep_prompts *v);

#endif
