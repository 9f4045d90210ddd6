/* memory.h - predicts the memory of a run by dry steps, and places weights by it. */
#ifndef TRAIN_PLAN_MEMORY_H
#define TRAIN_PLAN_MEMORY_H

#include "train/vtrain.h"

/* After the model was opened, before other parts are: counts what this left in memory beside
 * values, of each tensor a name and descriptions, in the model, in its files and in those of what
 * runs with it. */
void vtrain_memory_opened(vtrain *t);
/* Fills in the plan, except steps and batches, by a dry step of every group. The blocks
 * that are not recomputed are the last ones: backward frees their memory before it reaches the
 * others. */
int vtrain_memory_plan(vtrain *t, vc_err *err);
/* After vtrain_memory_plan: copies the weights that are on the host to the device, except those of
 * --blocks_to_swap or, with --low_vram, of the fewest blocks. */
int vtrain_memory_place(vtrain *t, vc_err *err);
/* Returns true if a step of that usage fits into the memory that the run has. */
bool vtrain_memory_holds(const vtrain *t, const vt_usage *use);
/* VC_ENOMEM if the plan is above --memory_limit; a plan above the free memory is a warning. */
int vtrain_memory_check(const vtrain *t, vc_err *err);
/* After a step in which a micro-batch of the group had no memory in spite of the plan, on the
 * ranks that give `lacks`: with --gradient_checkpointing=auto, plans the group again on all ranks,
 * with the next number of recomputed blocks that needs less on those. *made is false, and nothing
 * changes, if there is none. Fails if ranks cannot agree. Collective. */
int vtrain_memory_less(vtrain *t, uint32_t group, bool lacks, bool *made, vc_err *err);
/* Adds to an error of a step the group's bucket and, where memory ran out, the flags that would
 * need less; returns rc. */
int vtrain_memory_remedy(const vtrain *t, uint32_t group, int rc, vc_err *err);
/* Private (unshared) memory of the process now, in bytes. */
int64_t vtrain_private_bytes(void);

#endif
