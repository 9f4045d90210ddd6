/* plan.h - the plan of a run: the number of its steps, its memory and its work. */
#ifndef TRAIN_PLAN_PLAN_H
#define TRAIN_PLAN_PLAN_H

#include "train/vtrain.h"

/* vtrain_plan_steps counts the steps. vtrain_plan_memory, with model and loader open,
 * predicts memory and work, and prints the plan. */
int vtrain_plan_steps(vtrain *t, vc_err *err);
int vtrain_plan_memory(vtrain *t, vc_err *err);
/* Makes the plan anew, between two steps, if samples have joined since, and prints nothing. Its dry
 * steps treat the gradients as already written. */
int vtrain_plan_again(vtrain *t, vc_err *err);
/* The plan's lines about a part, malloc'ed; NULL when out of memory. */
typedef enum { VTRAIN_TEXT_MODEL, VTRAIN_TEXT_DATA } vtrain_plan_part;
char *vtrain_plan_text(const vtrain *t, vtrain_plan_part part);

#endif
