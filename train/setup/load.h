/* load.h - loads the weights of the model into a run. */
#ifndef TRAIN_SETUP_LOAD_H
#define TRAIN_SETUP_LOAD_H

#include "train/vtrain.h"

/* Opens the model and loads its weights, with their progress (VC_ESTOP: a signal came
 * meanwhile), and checks the data by vtrain_fit_data. */
int vtrain_load_model(vtrain *t, vc_err *err);
/* Sets zero_cond_t of the model's configuration, by flags. Weights without a config.json do not say
 * whether they are those of Qwen-Image-Edit-2511, of which the tensors are 2509's: flags do, or the
 * name of the file or its folders. */
int vtrain_settle_zero_cond(vtrain *t, vc_err *err);
/* Refuses with VC_EUSAGE a run without --model that would train the built-in DiT on latents of
 * another family, unless it was asked for (--model builtin). Reads the opened data. */
int vtrain_check_fresh(const vtrain *t, bool asked, vc_err *err);

#endif
