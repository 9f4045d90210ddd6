/* room.h - a training micro-batch that takes more memory than the plan foretold. */
#ifndef TRAIN_VTRAIN_ROOM_H
#define TRAIN_VTRAIN_ROOM_H

#include "train/steps/step.h"

/* Runs a micro-batch of a training step as vtrain_micro_run does. Where memory runs out and
 * vtrain_memory_less finds blocks to recompute, a line reports them and the micro-batch runs again:
 * the first of a step with its gradients begun anew, a later one only if its backward, which adds
 * to them, had not begun. The bits are those of a run that had planned so. */
int vtrain_micro_in_room(vtrain *t, vtrain_micro *m, vc_err *err);
/* Waits for the device and returns rc or, on all ranks, the fault of a kernel that ran after the last
 * micro-batch, as the gradients' norm does: it must not be taken for one of the next micro-batch,
 * which would run again after an update by wrong numbers. */
int vtrain_device_agree(vtrain *t, int rc, vc_err *err);

#endif
