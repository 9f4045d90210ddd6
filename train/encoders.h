/* encoders.h - whether the VAE and the text encoders that lie in --model are those that the
 * datasets were made with. No step needs them, but what a run trains is worth nothing with others.
 * They are compared by the hash of their weights, which manifests tell and OUT/weights.json
 * remembers; a dataset or a model that has none is not compared. Rank 0 looks; on others these do
 * nothing. */
#ifndef TRAIN_ENCODERS_H
#define TRAIN_ENCODERS_H

#include "train/vtrain.h"

typedef struct vtrain_encoders vtrain_encoders;

/* Once the samples are open. Reads the VAE's weights, where their hash is not known. VC_EMISMATCH
 * names all that are known to differ (--allow_mismatch: a warning). */
int vtrain_encoders_open(vtrain *t, vc_err *err);
/* Once the run's folder is open: hashes what is not known yet in a thread beside the steps. */
int vtrain_encoders_begin(vtrain *t, vc_err *err);
/* VC_EMISMATCH as above, once the thread is done; wait: waits for it, unless a signal came. */
int vtrain_encoders_check(vtrain *t, bool wait, vc_err *err);
void vtrain_encoders_close(vtrain_encoders *e);             /* NULL is fine */

#endif
