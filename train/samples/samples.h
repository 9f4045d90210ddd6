/* samples.h - the samples of each epoch, and their division into micro-batches and parts; what
 * falls due after a step by its epochs. */
#ifndef TRAIN_SAMPLES_SAMPLES_H
#define TRAIN_SAMPLES_SAMPLES_H

#include "train/vtrain.h"

/* follow.c. Opens the samples that the run begins or resumes with; with --follow waits until there
 * are enough for a batch (VC_ESTOP: a signal came meanwhile). */
int vtrain_samples_open(vtrain *t, vc_err *err);
/* Finds t->samples.epoch_end from a micro-batch of the current epoch. The run calls this before its
 * first step, and again after each change of samples. */
int vtrain_samples_begin(vtrain *t, uint64_t micro, vc_err *err);
/* Before each step, collective: polls the datasets for new shards if an epoch ends in the step. */
int vtrain_samples_look(vtrain *t, vc_err *err);
/* Where an epoch ended before micro-batch `micro`, adds the new samples, and opens a new loader
 * that begins with `own`, the number of this rank's next part. A step calls this before its
 * checkpoint, so that a checkpoint between two epochs records the samples of the second. */
int vtrain_samples_upto(vtrain *t, uint64_t micro, uint64_t own, vc_err *err);
/* Opens a loader for this rank's parts from number `own` on (loader.h): to the end of the run
 * or, while it follows its datasets, of the epoch. */
int vtrain_start_loader(vtrain *t, uint64_t own, vc_err *err);

/* fit.c. Checks that the model and the data just opened fit each other. */
int vtrain_fit_data(vtrain *t, vc_err *err);

/* divide.c. A step's samples come in micro-batches, whose samples are chosen together, and these in
 * equal parts of --train_batch_size samples, of which each group of ranks runs
 * --gradient_accumulation_steps. */
/* Decides the micro-batches, once the settings are resolved: a resumed run keeps those of its
 * checkpoint where its steps have as many samples, and sets --train_batch_size and
 * --gradient_accumulation_steps so that they divide them. Where it cannot, the rest of the epoch
 * follows in another order, each sample once. */
int vtrain_divide(vtrain *t, vc_err *err);

/* epochs.c. A step ends an epoch if the step's micro-batches hold the last ones of the epoch. The
 * position is a function of the order of samples alone, so that a run divided or resumed otherwise
 * has its checkpoints after the same samples. */
/* Finds the position where the run begins or resumes. Collective calls are not made. */
int vtrain_epochs_begin(vtrain *t, vc_err *err);
/* Moves the position, after each step that was taken. */
int vtrain_epochs_move(vtrain *t, vc_err *err);
/* True if a checkpoint, the held-out loss, or validation samples are due after the last step. */
bool vtrain_save_due(const vtrain *t);
bool vtrain_eval_due(const vtrain *t);
bool vtrain_samples_due(const vtrain *t);

#endif
