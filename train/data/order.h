/* order.h - chooses the samples of each micro-batch of a run.
 *
 * vb_sampler orders an epoch whose groups are known. This part adds repeats and variants: each
 * sample number is visited as often as its repeats require, each time in its next variant, across
 * epochs too. Where the variants differ in shape, the groups of the visits, and thereby the number
 * of micro-batches, change from epoch to epoch; the epoch of a micro-batch is then found by
 * counting from the first epoch, at some nanoseconds a visit.
 *
 * The order is a pure function of (data, origin, seed, batch, number of the micro-batch). One
 * thread may use a handle. */
#ifndef TRAIN_DATA_ORDER_H
#define TRAIN_DATA_ORDER_H

#include "train/data/data.h"

typedef struct vtrain_order vtrain_order;

/* The place in a run where training on these data begins; both 0, except for data that joined
 * later. */
typedef struct vtrain_origin {
    uint64_t epoch, micro;       /* the data's first epoch and first micro-batch in the run */
} vtrain_origin;

int vtrain_order_open(vtrain_order **out, const vtrain_data *d, uint32_t batch, uint64_t seed,
                      vtrain_origin origin, vc_err *err);
void vtrain_order_close(vtrain_order *o);                   /* NULL is fine */
/* Writes the *n samples of micro-batch m, from origin.micro on and below 2^32, to rows, which has
 * room for `batch`. Fastest when m ascends. */
int vtrain_order_get(vtrain_order *o, uint64_t m, uint32_t *rows, uint32_t *n, vc_err *err);
/* Finds the epoch of micro-batch m, and the first micro-batch of the epoch after. */
int vtrain_order_epoch(vtrain_order *o, uint64_t m, uint64_t *epoch, uint64_t *end, vc_err *err);
/* Counts the micro-batches of the first `epochs` epochs from the origin on, to `limit` at most. */
uint64_t vtrain_order_count(vtrain_order *o, uint64_t epochs, uint64_t limit);

#endif
