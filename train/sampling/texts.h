/* texts.h - the texts of a sample as a model takes them: internal to train/sampling. */
#ifndef TRAIN_SAMPLING_TEXTS_H
#define TRAIN_SAMPLING_TEXTS_H

#include "train/vtrain.h"

/* Makes the rows of one slot: the prompt and, with guidance, the negative prompt, zero beyond their
 * lengths, and each of at least slot->rows. The caller frees t's arrays. */
int sampling_text(vtrain_text *t, const vtrain_embeds *const *row, int rows,
                  const vtrain_slot *slot, vc_err *err);
/* Adds the pooled vectors of the rows; width 0: the slot has none. */
int sampling_pooled(vtrain_text *t, const vtrain_embeds *const *row, int rows, int64_t width,
                    vc_err *err);

#endif
