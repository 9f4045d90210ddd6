/* tensors.h - the tensors that a micro-batch makes in its step, from its inputs to its loss.
 * Internal to train/steps. */
#ifndef TRAIN_STEPS_TENSORS_H
#define TRAIN_STEPS_TENSORS_H

#include "train/steps/noised.h"
#include "train/steps/sound.h"

typedef struct vtrain_tensors {
    vtrain_noised n;
    vtrain_heard heard;
    const vtrain_walk *walk;                  /* n 0: one forward at the rows' levels */
    vtrain_walk_times walk_times;
    vt_tensor *pred, *loss;
    vtrain_in in;
} vtrain_tensors;

#endif
