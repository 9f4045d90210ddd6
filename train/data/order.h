/* order.h - which samples each micro-batch of a run has.
 *
 * vb_sampler orders an epoch whose groups are known. Here is what it leaves open: a sample number
 * with several variants is visited as often as its repeats say, each time in its next variant,
 * across epochs too. Where its variants differ in shape, the groups of the visits change from epoch
 * to epoch and with them, a little, the number of micro-batches; then the epoch of a micro-batch is
 * found by counting from the first one, some nanoseconds a visit passed.
 *
 * A pure function of (data, origin, seed, batch, number of the micro-batch). One thread. */
#ifndef TRAIN_DATA_ORDER_H
#define TRAIN_DATA_ORDER_H

#include "train/data/data.h"

typedef struct vtrain_order vtrain_order;

/* Where a run comes to train on these data: both 0, but for data that joined it later. */
typedef struct vtrain_origin {
    uint64_t epoch, micro;       /* of the run: their first epoch, and its first micro-batch */
} vtrain_origin;

int vtrain_order_open(vtrain_order **out, const vtrain_data *d, uint32_t batch, uint64_t seed,
                      vtrain_origin origin, vc_err *err);
void vtrain_order_close(vtrain_order *o);                   /* NULL is fine */
/* Samples of micro-batch m, from origin.micro on and below 2^32, into rows, which has room for
 * `batch`; *n how many. Cheapest when m ascends. */
int vtrain_order_get(vtrain_order *o, uint64_t m, uint32_t *rows, uint32_t *n, vc_err *err);
/* The epoch of micro-batch m, and the first micro-batch after it. */
int vtrain_order_epoch(vtrain_order *o, uint64_t m, uint64_t *epoch, uint64_t *end, vc_err *err);
/* Micro-batches of the first `epochs` epochs from the origin on, but counted no further than to
 * `limit`. */
uint64_t vtrain_order_count(vtrain_order *o, uint64_t epochs, uint64_t limit);

#endif
