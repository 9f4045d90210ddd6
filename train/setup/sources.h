/* sources.h - what a run takes its numbers from beside its flags, its data and the weights of
 * base.h: the LoRA of --preset_lora_path, and the scheduler's file. A checkpoint records them, and
 * a resumed run compares them, since each may be replaced under its path. */
#ifndef TRAIN_SETUP_SOURCES_H
#define TRAIN_SETUP_SOURCES_H

#include "train/vtrain.h"

/* Call after vtrain_base_open. Makes t->compared.sources, which the caller deletes. VC_EMISMATCH:
 * the checkpoint that t resumes from was trained with others (--allow_mismatch: a warning). */
int vtrain_sources_open(vtrain *t, vc_err *err);

#endif
