/* frames.h - samples whose latent frames have noise levels of their own: blocks that lag behind
 * each other (--ar_step, --causal_block_size), long samples in windows that share frames
 * (--overlap_history, --base_num_frames), and those that go on from a clip or end with a picture.
 * Internal to train/sampling.
 *
 * Known frames, those of the window before, a clip's end or a clean first frame, have time 0 and
 * take no step; with --addnoise_condition T the model is given them with T / 1000 of noise, at time
 * T. A last picture is one more frame behind the last window, always clean, and no part of the
 * sample. The noise
 * at the start is that of the whole sample, so that a frame's does not depend on the windows; the
 * noise of known frames in forward i, counted over all windows, is that of step i (sample.h). */
#ifndef TRAIN_SAMPLING_FRAMES_H
#define TRAIN_SAMPLING_FRAMES_H

#include "train/sampling/sampling.h"

/* Checks that the model goes together with the flags. Errors name the flag. */
int sampling_frames_check(const vtrain *t, vc_err *err);
/* Finds the windows of the sample, and gives s->dim the frames of a forward. VC_EUSAGE: its frames
 * are no blocks, or its known frames do not go together with the model, the flags or its size. */
int sampling_frames_size(sampling *s, const vtrain *t, const vtrain_fit *fit, vc_err *err);
/* What a dry forward needs to know; NULL: the frames have one level. */
const vtrain_paced *sampling_frames_paced(const sampling *s, vtrain_paced *p);
/* The number of forwards that each prompt of guidance takes. */
int sampling_frames_forwards(const sampling *s, int *n, vc_err *err);
/* Makes the sample, of s->windows.n frames; s->x, s->dim and s->n become those of all of them. */
int sampling_frames_walk(sampling *s, vtrain *t, vc_err *err);

#endif
