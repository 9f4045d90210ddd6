/* train_batches.h - the batches of a test's dataset. */
#ifndef TESTS_LIB_TRAIN_BATCHES_H
#define TESTS_LIB_TRAIN_BATCHES_H

#include "train/data/loader.h"

/* Opens a loader, by default of batches of 2, with 1 thread and 2 batches ahead. An error fails the
 * test, as in batches_next. */
vtrain_loader *batches_open(const vtrain_data *d, vtrain_loader_opts o);
/* Returns the next batch; NULL after the last one. */
const vtrain_batch *batches_next(vtrain_loader *l);

#endif
