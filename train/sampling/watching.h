/* watching.h - reports how far the validation samples of a step are, in the line of progress. */
#ifndef TRAIN_SAMPLING_WATCHING_H
#define TRAIN_SAMPLING_WATCHING_H

#include "train/vtrain.h"

/* The samples of one validation on this rank. The caller sets the first three. */
typedef struct vtrain_watching {
    const vtrain *t;
    double begun;                /* seconds */
    int samples;                 /* number of all */
    int sample;                  /* the present one, from 1 */
    int step, steps;             /* of the present sample, from 1 */
    int part, parts;             /* forward in the step, from 0; number in a step */
    double flops;                /* of the sample's last forward; 0: it had none */
} vtrain_watching;

/* The next sample, its step i of n, and the step's forward i of n begin; the forward ends. */
void vtrain_watch_sample(vtrain_watching *w);
void vtrain_watch_step(vtrain_watching *w, int i, int n);
void vtrain_watch_forward(vtrain_watching *w, int i, int n);
void vtrain_watch_end(vtrain_watching *w);
/* Says where the n samples of all ranks are, and how long they took. */
void vtrain_watch_report(const vtrain_watching *w, const char *dir, uint32_t n);

#endif
