/* offload.h - where the optimiser's state is between two steps (--offload_optimizer). */
#ifndef TRAIN_SETUP_OFFLOAD_H
#define TRAIN_SETUP_OFFLOAD_H

#include "train/vtrain.h"

/* *folder becomes the folder of the state's file, borrowed from the settings, which exists unless
 * the run is dry; NULL: the state is in memory. Reports what has no effect on this device. VC_EUSAGE:
 * the device cannot do it, or there is no such folder. */
int vtrain_offload_folder(const char **folder, const vtrain *t, vc_err *err);

#endif
