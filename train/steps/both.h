/* both.h - the steps of a run that trains both transformers of a model (setup/experts.h): each
 * micro-batch goes to one of them. In a run of one transformer these functions do nothing. */
#ifndef TRAIN_STEPS_BOTH_H
#define TRAIN_STEPS_BOTH_H

#include "train/vtrain.h"

/* Where both are trained, lets t->model.dit be the one for low noise, or the one for high noise. */
void vtrain_both_use(vtrain *t, bool low);
/* After the gradients were summed: counts a parameter as reached that any rank's backward reached.
 * Collective. */
int vtrain_both_reached(vtrain *t, vc_err *err);
/* Before an update: sets vt_param.missed. After it: counts the update. ran: whether a micro-batch
 * of the step went to each. */
void vtrain_both_before(vtrain *t);
void vtrain_both_after(vtrain *t, const bool ran[VTRAIN_HALVES]);

#endif
