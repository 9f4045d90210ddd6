/* sd3.h - Stable Diffusion 3's transformer as a family of this program, for tests alone. */
#ifndef TESTS_TRAIN_MODELS_SD3_H
#define TESTS_TRAIN_MODELS_SD3_H

#include "train/models/dit.h"

extern const vtrain_family test_sd3;

#endif
