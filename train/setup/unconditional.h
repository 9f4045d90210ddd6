/* unconditional.h - the second transformer of families whose samples are guided by a prediction
 * without a prompt (vtrain_family.unconditional). It is never trained, and has no part in steps. */
#ifndef TRAIN_SETUP_UNCONDITIONAL_H
#define TRAIN_SETUP_UNCONDITIONAL_H

#include "train/vtrain.h"

/* Opens --unconditional_transformer, or the folder of --model, in a run that makes guided samples.
 * Without either the samples are guided by the negative prompt, which a warning says. The weights
 * have the type of the transformer's. VC_EMISMATCH: it takes other latents than the transformer. */
int vtrain_unconditional_open(vtrain *t, vc_err *err);
void vtrain_unconditional_close(vtrain *t);

#endif
