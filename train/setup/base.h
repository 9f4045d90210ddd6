/* base.h - the weights that a run began with, where it does not train all of them: a LoRA or a part
 * of a model is worth nothing on other weights. Checkpoints record the hash of these weights, and a
 * resumed run compares the hash. */
#ifndef TRAIN_SETUP_BASE_H
#define TRAIN_SETUP_BASE_H

#include "train/vtrain.h"

typedef struct vtrain_base vtrain_base;

/* Call once the trained parameters are chosen. VC_EMISMATCH: the checkpoint that t resumes from was
 * trained on other weights (--allow_mismatch: a warning). Files that changed are hashed for the
 * comparison, and a message reports this. Where the hash is not known yet, rank 0 computes the hash
 * in a background thread. */
int vtrain_base_open(vtrain *t, vc_err *err);
/* Waits for the hash. to->path is borrowed from t, and NULL where all weights are trained. */
int vtrain_base_id_get(vtrain_base_id *to, const vtrain *t, vc_err *err);
void vtrain_base_close(vtrain_base *b);                     /* NULL is fine */

#endif
