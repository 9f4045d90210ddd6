/* heard.h - the sound of a validation sample, which is stepped beside its video: from noise of its
 * own (VC_DRAW_SOUND_VALIDATION), by the same solver, at a guidance of its own. */
#ifndef TRAIN_SAMPLING_HEARD_H
#define TRAIN_SAMPLING_HEARD_H

#include "train/steps/predict.h"

typedef struct sampling_heard {
    int64_t dim[5];              /* [rows,C,L,1,bins] of a forward; dim[1] 0: no sound */
    size_t n;                    /* elements of a row; 0: no sound */
    int32_t *length;             /* [rows] */
    float *x, *in, *out, *past, *noise;      /* as those of the video in sample.c */
} sampling_heard;

/* Finds the sizes of a sample of `frames` pixel frames at a rate, with `rows` rows a forward. */
void heard_size(sampling_heard *s, const vtrain *t, int64_t rows, int frames, double fps);
/* Allocates what `prompts` predictions need, and draws the noise at the start. */
int heard_open(sampling_heard *s, int prompts, uint64_t seed, uint32_t number, vc_err *err);
void heard_close(sampling_heard *s);
/* Adds the sound to a question; predictions go behind those of the first `prompt` prompts. */
void heard_ask(sampling_heard *s, vtrain_question *q, int prompt);
/* Guides the prediction, and takes a step. */
void heard_guide(sampling_heard *s, double weight, double rescale);
void heard_step(sampling_heard *s, const vtrain_solver_step *step, uint64_t seed, uint32_t number,
                int i);
/* Scales the sound back to raw latents, and makes a view of it for the sample's file. VC_ENUMERIC:
 * a value is not finite. */
int heard_end(sampling_heard *s, const vtrain *t, vf_view *v, vc_err *err);

#endif
