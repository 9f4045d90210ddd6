/* losses.h - the loss of a micro-batch, and the losses of its rows. Internal to train/steps. */
#ifndef TRAIN_STEPS_LOSSES_H
#define TRAIN_STEPS_LOSSES_H

#include "train/steps/tensors.h"

/* The losses of a row: its own and, of a model with sound, those of its streams. */
enum { VTRAIN_OF_ROW, VTRAIN_OF_VIDEO, VTRAIN_OF_SOUND, VTRAIN_ROW_LOSSES };

/* The loss; of a model with sound, the sum of those of both streams. */
vt_tensor *vtrain_loss_of(const vtrain *t, const vtrain_tensors *p);
/* Returns the loss and behind it the losses of each row, [1 + rows] or [1 + rows *
 * VTRAIN_ROW_LOSSES], or the loss of a single row without sound. The gradient goes through the loss
 * alone. */
vt_tensor *vtrain_losses_of(const vtrain *t, const vtrain_tensors *p);
/* Adds the losses of the rows, the values of vtrain_losses_of, to those of their kind and, where
 * they are learned, to the quarters of the levels that their noise is in; a part of a micro-batch
 * weighs its rows' losses by its share. */
void vtrain_losses_note(const vtrain *t, const vtrain_levels *v, vtrain_micro *m,
                        const float *losses);

#endif
