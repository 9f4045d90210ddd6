/* run.h - a run of vtrain, and the state of one by its folder. */
#ifndef TRAIN_VTRAIN_RUN_H
#define TRAIN_VTRAIN_RUN_H

#include "train/vtrain.h"

/* Trains to the end. Returns 0; VC_ESTOP after a signal, when the run can be resumed; or an
 * error. A dry run prints its plan to out; any other run reports it to ui. Collective over comm:
 * all ranks return the same. Rank 0 alone writes and prints, except traces and validation
 * samples. */
int vtrain_run(const vtrain_config *c, vc_flags *set, vc_comm *comm, FILE *out,
               vc_progress *ui, const atomic_int *stop, vc_err *err);
/* loop.c. Runs the steps from t->at.step on. */
int vtrain_loop(vtrain *t, vc_err *err);

/* status.c. Prints where the run of the output folder dir is. VC_ENOENT: dir is no such folder. */
int vtrain_status(const char *dir, FILE *out, vc_err *err);

#endif
