/* room.h - a training step that takes more memory than the plan foretold. */
#ifndef TRAIN_VTRAIN_ROOM_H
#define TRAIN_VTRAIN_ROOM_H

#include "train/vtrain.h"

/* A micro-batch of this rank that found no memory. */
typedef struct vtrain_lack {
    bool memory;                 /* there is one, and it is this rank's failure in the step */
    uint32_t group;              /* its bucket */
} vtrain_lack;

/* Called by all ranks after a step's gradients that failed for want of memory on at least one:
 * `own` is what this rank met, and *err is the error that all agreed on. All collective calls of
 * the step are done by then, and the step was not taken. Where memory ran out in micro-batches
 * alone and vtrain_memory_less finds blocks to recompute, a line reports them, *again becomes true
 * and the caller repeats the whole step from its first micro-batch; the bits are those of a run
 * that had planned so. Else VC_ENOMEM, and *err gets the flags that would need less. Collective. */
int vtrain_room_made(vtrain *t, int own, const vtrain_lack *lack, bool *again, vc_err *err);
/* Waits for the device and returns rc or, on all ranks, the fault of a kernel that ran after the
 * last micro-batch, as the gradients' norm does: it must not be taken for one of the next
 * micro-batch, which would run again after an update by wrong numbers. */
int vtrain_device_agree(vtrain *t, int rc, vc_err *err);

#endif
