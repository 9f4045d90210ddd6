/* base.h - which weights a run began with, where it does not train all of them: a LoRA or a part of
 * a model is worth nothing on others. Checkpoints tell it, and a run that goes on compares it. */
#ifndef TRAIN_BASE_H
#define TRAIN_BASE_H

#include "train/vtrain.h"

typedef struct vtrain_base vtrain_base;

/* Once it is known what is trained. VC_EMISMATCH: the checkpoint that t goes on from has other
 * weights under it (--allow_mismatch: a warning); files that changed are read for that, a line says
 * so. Where the hash is not known yet, rank 0 finds it in a thread beside the steps. */
int vtrain_base_open(vtrain *t, vc_err *err);
/* Waits for the hash. to->path is borrowed from t, and NULL where all weights are trained. */
int vtrain_base_id_get(vtrain_base_id *to, const vtrain *t, vc_err *err);
void vtrain_base_close(vtrain_base *b);                     /* NULL is fine */

#endif
