/* encoders.h - compares the VAE and the text encoders in --model with those that the datasets were
 * made with. No step needs them, but trained weights are worth nothing with other encoders. The
 * comparison is by the hash of the weights: manifests record the datasets', and OUT/weights.json
 * caches the model's. A dataset without a hash, or a model without the encoder, is not compared.
 * Rank 0 compares; on other ranks these functions do nothing. */
#ifndef TRAIN_SETUP_ENCODERS_H
#define TRAIN_SETUP_ENCODERS_H

#include "train/vtrain.h"

typedef struct vtrain_encoders vtrain_encoders;

/* Call once the samples are open. Hashes the VAE's weights unless their hash is known. VC_EMISMATCH
 * names all components that are known to differ (--allow_mismatch: a warning). */
int vtrain_encoders_open(vtrain *t, vc_err *err);
/* Call once the run's folder is open. Hashes the other components in a background thread. */
int vtrain_encoders_begin(vtrain *t, vc_err *err);
/* VC_EMISMATCH as above, once the thread has ended; with `wait` waits for its end or a signal. */
int vtrain_encoders_check(vtrain *t, bool wait, vc_err *err);
void vtrain_encoders_close(vtrain_encoders *e);             /* NULL is fine */

#endif
