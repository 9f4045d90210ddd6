/* guidance.h - the prediction of a step of a sample, guided by the negative prompt. Internal to
 * train/sampling. */
#ifndef TRAIN_SAMPLING_GUIDANCE_H
#define TRAIN_SAMPLING_GUIDANCE_H

#include "train/sampling/sampling.h"

/* Writes the guided prediction for s->x at the level of step i to the first row of s->out. */
int sampling_predict(sampling *s, vtrain *t, const vtrain_level *l, int i, vc_err *err);

#endif
