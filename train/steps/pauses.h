/* pauses.h - the work between steps (checkpoints, held-out losses, samples): its time so far, which
 * the rate of the steps leaves out, and the time that it will take, which the ETA counts. */
#ifndef TRAIN_STEPS_PAUSES_H
#define TRAIN_STEPS_PAUSES_H

#include "train/vtrain.h"

typedef enum { VTRAIN_PAUSE_SAVE, VTRAIN_PAUSE_EVAL, VTRAIN_PAUSE_SAMPLES, VTRAIN_PAUSE_KINDS }
    vtrain_pause;

/* All zero at first. */
typedef struct vtrain_pauses {
    double spent[VTRAIN_PAUSE_KINDS];          /* seconds */
    int64_t n[VTRAIN_PAUSE_KINDS];             /* pauses that ended */
    double begun;                              /* seconds: the present one began */
} vtrain_pauses;

/* The present pause has a note in the line of progress ("checkpoint"). Pauses are not nested. */
void vtrain_pause_begin(vtrain_pauses *p, const vtrain *t, const char *note);
void vtrain_pause_end(vtrain_pauses *p, const vtrain *t, vtrain_pause kind);
/* Seconds of all pauses. */
double vtrain_pauses_spent(const vtrain_pauses *p);
/* Estimates the seconds of the pauses that are left in the run, where a step takes `each` seconds.
 * A kind that has not occurred yet counts by its arithmetic, and a checkpoint not at all. */
double vtrain_pauses_ahead(const vtrain_pauses *p, const vtrain *t, double each);

#endif
