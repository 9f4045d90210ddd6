/* loss_line.h - the plan's line about the loss: the objective, the levels that are drawn, their
 * weights and shift, and the error that is taken. */
#ifndef TRAIN_PLAN_LOSS_LINE_H
#define TRAIN_PLAN_LOSS_LINE_H

#include "train/vtrain.h"

/* The line without its first word, malloc'ed; NULL when out of memory. The data are open. */
char *vtrain_loss_line(const vtrain *t);
/* The value of a flag in the run's settings, in buf; "none" for a flag that they do not have. */
const char *vtrain_plan_word(const vtrain *t, const char *flag, char *buf, size_t size);

#endif
