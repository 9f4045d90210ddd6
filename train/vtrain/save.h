/* save.h - writes checkpoints, and says what a checkpoint holds. */
#ifndef TRAIN_VTRAIN_SAVE_H
#define TRAIN_VTRAIN_SAVE_H

#include "train/vtrain.h"

/* Writes a checkpoint of t->at.step. */
int vtrain_save(vtrain *t, vc_err *err);
/* Lets the link to the best checkpoint lead there, which is reported if it changed. */
void vtrain_save_best(const vtrain *t);
/* Reads all values that a checkpoint would hold; an error if a mapped file cannot be read.
 * Collective. */
int vtrain_check_weights(const vtrain *t, vc_err *err);
/* Before the first step: warns where there is no room for a checkpoint, and says which weights it
 * will have. */
void vtrain_save_foresee(vtrain *t);
/* Fills in the content of trainer.json. The caller frees s->sets, s->settings and
 * s->numbers; the other strings are borrowed from t. */
int vtrain_state_of(const vtrain *t, vtrain_state *s, vc_err *err);

#endif
