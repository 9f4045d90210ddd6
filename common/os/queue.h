/* queue.h - a bounded queue between threads: producers wait when it is full, consumers when it is
 * empty, and both wake up when it is closed or cancelled. Holds pointers; never frees them. First
 * in, first out; any number of threads on either side. */
#ifndef COMMON_OS_QUEUE_H
#define COMMON_OS_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

typedef struct vc_queue vc_queue;

/* At most `items` entries (VC_EINVAL for 0) and, if bytes > 0, at most that many bytes by what
 * put() is told (one entry always fits, so that a huge one cannot deadlock). */
int vc_queue_open(vc_queue **out, size_t items, size_t bytes, vc_err *err);
void vc_queue_free(vc_queue *q);             /* NULL is fine; all threads must be done with it */

/* Waits for room; item is not NULL. false: the queue is closed or cancelled, the item still is the
 * caller's. */
bool vc_queue_put(vc_queue *q, void *item, size_t bytes);
/* Waits for an item. NULL: closed and empty, or cancelled. */
void *vc_queue_get(vc_queue *q);
/* Without waiting: NULL if there is nothing now. */
void *vc_queue_try(vc_queue *q);

/* No more puts; gets drain what is there. With several producers, vc_queue_producers(q, n) comes
 * before they start (default 1), each of them closes once, and the last one counts. */
void vc_queue_producers(vc_queue *q, int n);
void vc_queue_close(vc_queue *q);
/* Puts and gets return at once from now on; vc_queue_try still drains (for freeing). */
void vc_queue_cancel(vc_queue *q);

/* Seconds that all gets and all puts have waited, and what is in it now: for reports. */
typedef struct vc_queue_stats {
    double get_wait, put_wait;
    size_t items, bytes;
} vc_queue_stats;
vc_queue_stats vc_queue_look(vc_queue *q);

#endif
