/* spans.h - the epochs of a run by their samples, and the order of the samples in them.
 *
 * A span is a sequence of epochs with the same samples in one order (output/ckpt.h). A run has one
 * span, or more where samples joined (follow.c) or a resumed run changed the order (divide.c). The
 * last span is that of the opened data. */
#ifndef TRAIN_SAMPLES_SPANS_H
#define TRAIN_SAMPLES_SPANS_H

#include "train/vtrain.h"

/* The last span, of which there is one once the samples are open. */
vtrain_span *vtrain_span_last(const vtrain_samples *s);
/* The span of micro-batch `micro`: the last one may have begun in a step not finished. */
const vtrain_span *vtrain_span_of(const vtrain_samples *s, uint64_t micro);
/* Adds a span, from origin on, of the samples of d, when `done` epochs are done. */
int vtrain_span_add(vtrain_samples *s, const vtrain_data *d, vtrain_origin origin, double done,
                    vc_err *err);
/* Adds a span that begins a new epoch at the checkpoint's micro-batch. */
int vtrain_span_next(vtrain_samples *s, const vtrain_data *d, const vtrain_state *checkpoint,
                     vc_err *err);

/* The order of a span's samples, of which those marked in done (vtrain_samples.done) are made
 * already; and the order that the run has now. */
vtrain_order_plan vtrain_order_of(const vtrain_span *s, const uint8_t *done);
vtrain_order_plan vtrain_order_now(const vtrain_samples *s);
/* The epoch of micro-batch `micro` in the order now, and the first micro-batch of the epoch after
 * it. */
int vtrain_epoch_at(const vtrain_samples *s, const vtrain_data *d, uint64_t micro, uint64_t *epoch,
                    uint64_t *end, vc_err *err);
/* Hashes the samples that an epoch of d visits. */
int vtrain_visits_hash(uint64_t *hash, const vtrain_data *d, uint64_t epoch, vc_err *err);

/* The number of epochs done, with a fraction. */
double vtrain_epoch(const vtrain *t);

#endif
