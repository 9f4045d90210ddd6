/* trace_step.h - what a step adds to the trace (trace.h): the tensors of its forward, the trained
 * parameters and their gradients. */
#ifndef TRAIN_STEPS_TRACE_STEP_H
#define TRAIN_STEPS_TRACE_STEP_H

#include "train/steps/tensors.h"

/* The trace of a micro-batch that is being run; a first error sticks. */
typedef struct vtrain_tracing {
    vtrain *t;
    int rc;
    vc_err *err;
} vtrain_tracing;

/* Receives the tensors that a model's forward adds, as vtrain_in's note; arg: a vtrain_tracing. */
void vtrain_trace_note(void *arg, const char *name, const vt_tensor *x);
/* Add the tensors of the forward; the values of the trained parameters, or their gradients. */
void vtrain_trace_forward(vtrain_tracing *j, const vtrain_tensors *p, const vtrain_levels *v);
int vtrain_trace_params(vtrain *t, bool grads, vc_err *err);
/* Writes the file of the step's last micro-batch, when the gradients are whole. Without a trace it
 * does nothing. */
int vtrain_trace_step(vtrain *t, vc_err *err);

#endif
