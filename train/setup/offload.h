/* offload.h - where the optimiser's state is between two steps (--offload_optimizer). */
#ifndef TRAIN_SETUP_OFFLOAD_H
#define TRAIN_SETUP_OFFLOAD_H

#include "train/vtrain.h"

/* *folder becomes the folder of the state's file, borrowed from the settings, which exists unless
 * the run is dry; NULL: the state is in memory. *host: in the host's, beside a device with its own.
 * Reports what has no effect on this device. VC_EUSAGE: the device cannot do it, or there is no
 * such folder. */
int vtrain_offload_where(const char **folder, bool *host, const vtrain *t, vc_err *err);
/* True if --offload_optimizer lets the gradients of blocks be on the host too: those of a full
 * finetune on one device with its own memory. Call before parameters are trained. */
bool vtrain_offloads_grads(const vtrain *t);
/* *update: the host updates the parameters (--offload_update). Reports it where it has no effect.
 * VC_EUSAGE: this run's gradients are not on the host, or its optimiser needs the device. */
int vtrain_offload_update(bool *update, const vtrain *t, vc_err *err);
/* Makes their memory, and hooks that copy them; t->optim.host_grads becomes its bytes. */
int vtrain_offload_grads(vtrain *t, vc_err *err);

#endif
