/* cosmos2.h - the names of Cosmos-Predict2's modules (cosmos2.c) in its first authors' files. */
#ifndef TRAIN_MODELS_COSMOS2_H
#define TRAIN_MODELS_COSMOS2_H

#include "train/lora/names.h"

extern const vtrain_rename cosmos2_names[];

#endif
