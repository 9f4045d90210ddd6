/* aside.h - takes an abandoned branch out of a run's folder, so that the folder holds one line of
 * descent.
 *
 * A run that goes back to step 10 of 40 leaves the checkpoints, samples and metrics of the later
 * steps behind. They move to out/abandoned-after-step-10/, under the names that they had, and
 * nothing is removed: a checkpoint of that folder can be resumed by its path. */
#ifndef TRAIN_OUTPUT_ASIDE_H
#define TRAIN_OUTPUT_ASIDE_H

#include <stdint.h>

#include "common/base/err.h"

/* Moves checkpoints, validation samples and lines of metrics.jsonl after `step` aside, if out holds
 * a checkpoint after `step`; step -1 moves all of them, to out/abandoned-run/. *name, malloc'ed, is
 * the new folder's name; NULL if nothing had to move. The newest checkpoint moves last, so that a
 * killed call leaves "latest" as it was, and the next call moves the rest. The caller holds the
 * lock of the run's folder. */
int vtrain_set_aside(char **name, const char *out, int64_t step, vc_err *err);

#endif
