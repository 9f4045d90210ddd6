/* loop.h - the state of the loop over steps, which the files of the loop alone see: loop.c has the
 * steps and what happens between them, gradients.c the micro-batches of a step, progress.c the
 * reports while the run goes on. */
#ifndef TRAIN_VTRAIN_LOOP_H
#define TRAIN_VTRAIN_LOOP_H

#include "train/steps/notes.h"
#include "train/steps/pauses.h"
#include "train/vtrain.h"

/* A run's outputs beside its checkpoints. An output that cannot be written is a warning while
 * training continues, and an error of the run if it is still missing at the end. */
typedef enum vtrain_other_output {
    VTRAIN_METRICS, VTRAIN_REPORT, VTRAIN_SAMPLES, VTRAIN_OUTPUTS
} vtrain_other_output;

/* State and buffers of the steps. */
typedef struct vtrain_loop_state {
    vtrain_notes notes;                       /* of the step's micro-batches, on all ranks */
    int64_t saved;                            /* step of the last checkpoint, -1: none */
    vtrain_counts count;                      /* of this process, for the summary */
    vtrain_pauses pauses;                     /* of this process, between its steps */
    double begun_at;                          /* seconds: this process began its steps */
    double micro_flops;                       /* of the current micro-batch */
    int64_t micro;                            /* its place in this rank's part of the step */
    double step_at, reported_at;              /* seconds: the step began; was last reported */
    double report_at, report_took;            /* seconds: report.html was last written; that took */
    bool report_live, ending;                 /* report.html says that steps follow; none does */
    vtrain *t;
    vc_err missing[VTRAIN_OUTPUTS];           /* why an output is missing; code 0: it is not */
} vtrain_loop_state;

/* ---- gradients.c ---- */

/* Computes the gradients of a step, the sum of its micro-batches on all ranks, and their notes.
 * Where a rank lacks memory and less can be used (room.h), the step begins anew. Collective: all
 * ranks return the same. VC_ESTOP: the run is to stop, and the step was not taken. */
int vtrain_gradients(vtrain *t, vtrain_loop_state *l, vc_err *err);

/* ---- progress.c ---- */

/* A function of vt_watch, given the state of the loop: reports every 30 seconds how much of a long
 * step is done, by its arithmetic. */
void vtrain_progress_within(void *state, double flops);
/* Reports a step and, after the first few, how long the rest of the run will take. */
void vtrain_progress_step(const vtrain *t, const vtrain_loop_state *l, const vtrain_record *r);

/* Records whether an output was written, rc and its error. Samples of a step that are missing stay
 * missing. */
void vtrain_output_note(const vtrain *t, vtrain_loop_state *l, vtrain_other_output o, int rc,
                        const vc_err *why);
/* Writes report.html. */
void vtrain_output_report(vtrain *t, vtrain_loop_state *l);
/* True after the first step, and whenever report.html is old. The page of a long run takes longer
 * to write, so it is written less often: about 1 % of the time is spent with it. */
bool vtrain_output_report_due(const vtrain_loop_state *l);
/* After the last step: an error if an output is missing. */
int vtrain_outputs_check(const vtrain *t, vtrain_loop_state *l, vc_err *err);

#endif
