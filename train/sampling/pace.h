/* pace.h - the steps of samples whose latent frames have noise levels of their own (diffusion
 * forcing), as diffusers' SkyReelsV2DiffusionForcingPipeline takes them.
 *
 * A block of frames takes its steps together. The first block begins; each later one is `lag` steps
 * behind the block before until that is done. A sample longer than a window is made of windows,
 * whose first frames are the last ones of the window before:
 *
 *     sampling_pace p;
 *     sampling_pace_open(&p, blocks, known, steps, lag, &err);
 *     while (sampling_pace_next(&p))
 *         ... ask the model, then let each block i of which p.moves[i] take its step p.at[i] - 1
 *     sampling_pace_close(&p); */
#ifndef TRAIN_SAMPLING_PACE_H
#define TRAIN_SAMPLING_PACE_H

#include <stdbool.h>

#include "common/base/err.h"

typedef struct sampling_pace {
    int blocks, steps, lag;
    int *at;                     /* [blocks] 0: it has not begun, k: step k - 1 of `steps`,
                                  * steps + 1: it is done */
    bool *moves;                 /* [blocks] it takes that step in this forward */
} sampling_pace;

/* Begins `blocks` blocks, of which the first `known` are done. VC_ENOMEM leaves p closed. */
int sampling_pace_open(sampling_pace *p, int blocks, int known, int steps, int lag, vc_err *err);
/* Goes to the next forward; false: all steps were taken. */
bool sampling_pace_next(sampling_pace *p);
void sampling_pace_close(sampling_pace *p);

/* Frames of a sample in windows. */
typedef struct sampling_windows {
    int n;                       /* latent frames; 0: all frames of the sample have one level */
    int window, shared;          /* frames of a window, and those known from the one before */
    int known;                   /* those of the first window that are known */
    int behind;                  /* known frames behind the last window, which are no part of the
                                  * sample: 1 or 0 */
    int block;                   /* frames of a block */
    int lag;
    double noise;                /* share of noise that the model is given in known frames */
} sampling_windows;

/* The first frame of the window behind the one that begins at `first`, 0 before any (first < 0);
 * -1: there is no further one. */
int sampling_window_next(const sampling_windows *w, int first);
/* The frames of the window that begins at `first`. */
int sampling_window_size(const sampling_windows *w, int first);
/* The known frames behind that window. */
int sampling_window_behind(const sampling_windows *w, int first);

#endif
