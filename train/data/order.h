/* order.h - chooses the samples of each micro-batch of a run.
 *
 * vb_sampler orders an epoch whose groups are known. This part adds repeats and variants: each
 * sample number is visited as often as its repeats require, each time in its next variant, across
 * epochs too. Where the variants differ in shape, the groups of the visits, and thereby the number
 * of micro-batches, change from epoch to epoch; the epoch of a micro-batch is then found by
 * counting from the first epoch, at some nanoseconds a visit.
 *
 * A run whose batch or seed changes within an epoch begins an order anew there: its first epoch has
 * the rest of the visits, those that the order before has not made.
 *
 * The order is a pure function of (data, plan, number of the micro-batch). One thread may use a
 * handle. */
#ifndef TRAIN_DATA_ORDER_H
#define TRAIN_DATA_ORDER_H

#include "train/data/data.h"

typedef struct vtrain_order vtrain_order;

/* The place in a run where an order begins; both 0, except for data that joined later, and for
 * another batch or seed. */
typedef struct vtrain_origin {
    uint64_t epoch, micro;       /* the order's first epoch and first micro-batch in the run */
} vtrain_origin;

typedef struct vtrain_order_plan {
    uint32_t batch;              /* rows of a full micro-batch */
    uint64_t seed;
    vtrain_origin origin;
    const uint8_t *done;         /* [vtrain_data_visits] 1: made in the first epoch before the
                                  * origin; borrowed; NULL: none is */
} vtrain_order_plan;

/* VC_EINVAL: batch 0, or all visits of the first epoch are done. */
int vtrain_order_open(vtrain_order **out, const vtrain_data *d, const vtrain_order_plan *plan,
                      vc_err *err);
void vtrain_order_close(vtrain_order *o);                   /* NULL is fine */
size_t vtrain_order_bytes(const vtrain_order *o);           /* of all its buffers */
/* Writes the *n samples of micro-batch m, from origin.micro on and below 2^32, to rows, which has
 * room for `batch`. Fastest when m ascends. */
int vtrain_order_get(vtrain_order *o, uint64_t m, uint32_t *rows, uint32_t *n, vc_err *err);
/* The same as numbers of the epoch's visits. */
int vtrain_order_visits(vtrain_order *o, uint64_t m, uint32_t *visits, uint32_t *n, vc_err *err);
/* Finds the epoch of micro-batch m, its first micro-batch, and that of the epoch after. */
int vtrain_order_epoch(vtrain_order *o, uint64_t m, uint64_t *epoch, uint64_t *begin,
                       uint64_t *end, vc_err *err);
/* Counts the micro-batches of the first `epochs` epochs from the origin on, to `limit` at most. */
uint64_t vtrain_order_count(vtrain_order *o, uint64_t epochs, uint64_t limit);

#endif
