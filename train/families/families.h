/* families.h - the table of the transformers that vtrain can train. A row is what the file of a
 * family's model defines (train/models/dit.h); rows are constant, and any thread may read them. */
#ifndef TRAIN_FAMILIES_H
#define TRAIN_FAMILIES_H

#include "train/models/dit.h"

/* The family with this _class_name, diffusers' or the first authors'; NULL: no family has it. */
const vtrain_family *vtrain_family_of_class(const char *class_name);
/* The family of the same models with the layers of --ssm_layer; NULL: there is none. */
const vtrain_family *vtrain_family_with_ssm(const vtrain_family *family);
/* The family of the same models with their sound; NULL: there is none. */
const vtrain_family *vtrain_family_with_sound(const vtrain_family *family);
/* The family that can start from noise, and is trained without --model. */
const vtrain_family *vtrain_family_fresh(void);
/* The family's name in manifests ("builtin"), or its class where no row of vc_families has this
 * class. */
const char *vtrain_family_name(const vtrain_family *f);

#endif
