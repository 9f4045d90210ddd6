/* spans.h - the epochs of a run by their samples, and the order of the samples in them.
 *
 * A span is a sequence of epochs with the same samples in one order (output/ckpt.h). A run has one
 * span, or more where samples joined (follow.c) or a resumed run changed the order (divide.c). */
#ifndef TRAIN_SAMPLES_SPANS_H
#define TRAIN_SAMPLES_SPANS_H

#include "train/vtrain.h"

/* Adds a span, from origin on, of the samples of t->data, when `done` epochs are done. */
int vtrain_span_add(vtrain *t, vtrain_origin origin, double done, vc_err *err);
/* Adds a span that begins a new epoch at the checkpoint's micro-batch. */
int vtrain_span_next(vtrain *t, vc_err *err);
/* The span of the steps done. */
const vtrain_span *vtrain_span_now(const vtrain *t);
/* The number of epochs done, with a fraction. */
double vtrain_epoch(const vtrain *t);
/* The order of a span's samples, of which those marked in done (vtrain.done) are made already; and
 * the order that the run has now. */
vtrain_order_plan vtrain_order_of(const vtrain_span *s, const uint8_t *done);
vtrain_order_plan vtrain_order_now(const vtrain *t);
/* The epoch of micro-batch `micro`, and the first micro-batch of the epoch after it. */
int vtrain_epoch_at(const vtrain *t, uint64_t micro, uint64_t *epoch, uint64_t *end, vc_err *err);
/* Hashes the samples that an epoch visits. */
int vtrain_visits_hash(uint64_t *hash, const vtrain *t, uint64_t epoch, vc_err *err);

#endif
