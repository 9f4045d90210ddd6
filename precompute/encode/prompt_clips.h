/* prompt_clips.h - the clips and stills that rows of validation prompts name beside their pictures
 * (prompt_images.h), each encoded as a clip of the dataset is: a row of the table in prompt_clips.c
 * names the column, relative to the list, and the value in `conditions` of the prompt's record.
 *
 *   target_path      `target`: what the sample is compared with; in a list with columns of
 *                    reference pictures image_path. It has the row's num_frames where the file has
 *                    as many, else as many as the run's clips have at most. No model sees it
 *   video_path       `start`: the sample goes on from the last frames of this clip, as many as the
 *                    row's overlap_history, else all, and at most those of whole latent frames
 *   last_image_path  `last`: a picture behind the sample's last frame
 *
 * The last two are read for families whose samples have known frames (known_frames) in mode normal.
 * All are cut to the row's height and width, else to the bucket of their shape; those of `start`
 * are written back into the row. */
#ifndef PRECOMPUTE_ENCODE_PROMPT_CLIPS_H
#define PRECOMPUTE_ENCODE_PROMPT_CLIPS_H

#include "precompute/encode/encode.h"

enum { VPREP_PROMPT_CLIPS = 3 };     /* rows of the table */

/* Opens, measures and hashes all of them, after the prompts' pictures. */
int vprep_prompt_clips_find(vprep *p, vc_err *err);
/* The key and the name in the record of row i's clip `which`; NULL: the row names none. */
const vf_key *vprep_prompt_clip_key(const vprep *p, int i, int which, const char **name);
/* Copies values from the datasets of --reuse; *largest and *roles as vprep_prompt_images_settle,
 * but bits are added to *roles. */
int vprep_prompt_clips_settle(vprep *p, vb_choice *largest, unsigned *roles, vc_err *err);
/* Encodes and puts the missing values, each once. */
int vprep_prompt_clips_encode(vprep *p, prep_encoder *e, vc_err *err);
void vprep_prompt_clips_free(vprep_prompts *v);

#endif
