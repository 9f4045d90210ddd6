/* queue.h - a bounded first-in first-out queue between any number of threads: producers wait while
 * it is full, consumers while it is empty, and both wake up when it is closed or cancelled. The
 * queue holds pointers and never frees them. */
#ifndef COMMON_OS_QUEUE_H
#define COMMON_OS_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

typedef struct vc_queue vc_queue;

/* Opens a queue of at most `items` entries (VC_EINVAL for 0) and, if bytes > 0, of at most that
 * many bytes in all, as given to vc_queue_put. An empty queue accepts an entry of any size, so that
 * a huge one cannot deadlock. */
int vc_queue_open(vc_queue **out, size_t items, size_t bytes, vc_err *err);
void vc_queue_free(vc_queue *q);             /* NULL is fine; no thread may use q any more */

/* Waits for room and puts in an item, which is not NULL. Returns false if the queue is closed or
 * cancelled; the caller then still owns the item. */
bool vc_queue_put(vc_queue *q, void *item, size_t bytes);
/* Waits for an item; NULL: the queue is closed and empty, or cancelled. */
void *vc_queue_get(vc_queue *q);
/* Takes an item without waiting; NULL if the queue is empty. */
void *vc_queue_try(vc_queue *q);

/* vc_queue_close ends puts; gets drain the remaining items. A queue with n producers is closed when
 * vc_queue_close was called n times; vc_queue_producers sets n (default 1) before they start. */
void vc_queue_producers(vc_queue *q, int n);
void vc_queue_close(vc_queue *q);
/* Makes puts and gets return at once from now on; vc_queue_try still drains the queue, so that its
 * items can be freed. */
void vc_queue_cancel(vc_queue *q);

/* The seconds that all gets and all puts have waited, and the queue's present contents. */
typedef struct vc_queue_stats {
    double get_wait, put_wait;
    size_t items, bytes;
} vc_queue_stats;
vc_queue_stats vc_queue_look(vc_queue *q);

#endif
