/* prompt_targets.h - the clips or stills that samples of validation prompts are compared with: the
 * column target_path, relative to the list; in a list with columns of reference pictures
 * image_path.
 *
 * A target is cut to the row's height and width, else to the bucket of its shape, and has the row's
 * num_frames where the file has as many, else as many as the run's clips have at most. It is
 * encoded as a clip of the dataset, and the record of the prompt has its key as `target` of
 * `conditions`. Models do not see it: vtrain puts it beside the samples. */
#ifndef PRECOMPUTE_ENCODE_PROMPT_TARGETS_H
#define PRECOMPUTE_ENCODE_PROMPT_TARGETS_H

#include "precompute/encode/encode.h"

/* Opens, measures and hashes all targets, after the prompts' pictures. */
int vprep_prompt_targets_find(vprep *p, vc_err *err);
/* The key of row i's target; NULL: the row names none. */
const vf_key *vprep_prompt_target(const vprep *p, int i);
/* Copies values from the datasets of --reuse; *largest and *roles as vprep_prompt_images_settle,
 * but bits are added to *roles. */
int vprep_prompt_targets_settle(vprep *p, vb_choice *largest, unsigned *roles, vc_err *err);
/* Encodes and puts the missing values, each once. */
int vprep_prompt_targets_encode(vprep *p, prep_encoder *e, vc_err *err);
void vprep_prompt_targets_free(vprep_prompts *v);

#endif
