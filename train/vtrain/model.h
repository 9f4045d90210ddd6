/* model.h - what the model is, before its weights are loaded: its family, its config.json, and the
 * schedule of noise that it was trained with. The calls are made in this order. */
#ifndef TRAIN_VTRAIN_MODEL_H
#define TRAIN_VTRAIN_MODEL_H

#include "train/vtrain.h"

/* Opens the files of t->model's weights, whose names the family has, and reads config.json; or
 * makes the config of a new built-in model. */
int vtrain_open_config(vtrain *t, vc_err *err);
/* Reads t->model.scheduler from the scheduler's file, or takes the family's, and the objective of a
 * built-in model from its config.json. */
int vtrain_open_schedule(vtrain *t, vc_err *err);

#endif
