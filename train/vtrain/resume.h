/* resume.h - finds the checkpoint that a run goes on from, and reads it. */
#ifndef TRAIN_VTRAIN_RESUME_H
#define TRAIN_VTRAIN_RESUME_H

#include "train/vtrain.h"

/* Finds the checkpoint that --resume_from_checkpoint names and reads its trainer.json into t->from
 * and t->samples: a checkpoint that is named is used or refused, "latest" is the newest whole one.
 * Collective. */
int vtrain_resume_find(vtrain *t, vc_err *err);
/* Loads the state of that checkpoint and sets t->at. Everything but loader and metrics is open by
 * then. */
int vtrain_resume(vtrain *t, vc_err *err);
/* After vtrain_plan_steps: a warning if the checkpoint's run had another number of steps and the
 * learning rate depends on it. */
void vtrain_resume_compare_length(const vtrain *t);
/* Under the lock of the run's folder: VC_EBUSY if another run wrote a checkpoint there since
 * vtrain_resume_find. */
int vtrain_resume_check_again(const vtrain *t, vc_err *err);
/* Under that lock, before the first step: moves what the folder holds of an abandoned branch aside
 * (output/aside.h). */
int vtrain_resume_set_aside(const vtrain *t, vc_err *err);

#endif
