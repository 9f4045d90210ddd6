/* trained.h - chooses the parameters that a run trains. */
#ifndef TRAIN_SETUP_TRAINED_H
#define TRAIN_SETUP_TRAINED_H

#include "train/vtrain.h"

/* Opens --lora_checkpoint; modules, ranks and alphas that no flag gives become the
 * file's, and one line says so. Call between vtrain_load_model and vtrain_select_trained. */
int vtrain_adopt_lora(vtrain *t, const vc_flags *set, vc_err *err);
/* Selects the parameters that the run trains: a LoRA's factors, or the weights that
 * --trainable_modules names. */
int vtrain_select_trained(vtrain *t, vc_err *err);

#endif
