/* turns.h - brings the results of work on the items 0, 1, 2, ... back into this order. Threads take
 * the items in order, finish them in any order, and one thread gets the results in order.
 *
 * What waits for its turn is bounded: while an early item takes long, new ones are not begun once
 * `window` items, or `bytes` of results, are ahead of the thread that gets. The item whose turn it
 * is may always begin, so that nothing can wait for ever. */
#ifndef COMMON_OS_TURNS_H
#define COMMON_OS_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

typedef struct vc_turns vc_turns;

/* Opens turns for n items, of which 0 < window <= 2^31 may be begun at once. Beyond `bytes`, only
 * results of items that had begun before are added. */
int vc_turns_open(vc_turns **out, uint32_t n, uint32_t window, size_t bytes, vc_err *err);
void vc_turns_free(vc_turns *t);             /* NULL is fine; no thread may use t any more */

/* Takes the next item and waits until it may begin. False: no item is left, or cancelled. */
bool vc_turns_begin(vc_turns *t, uint32_t *item);
/* Gives the result of an item that was begun; NULL: it has none, and its turn passes. The call
 * waits for room only while the thread that gets is behind with results that are there. Returns
 * false if t is cancelled; the caller then still owns the result. */
bool vc_turns_put(vc_turns *t, uint32_t item, void *result, size_t bytes);
/* Waits for the result whose turn it is, over those that passed. NULL: all n had their turns, or
 * cancelled. */
void *vc_turns_get(vc_turns *t);
/* Takes any result that was not got, without waiting; NULL: there is none. For the end. */
void *vc_turns_try(vc_turns *t);
/* Makes all calls return at once from now on; vc_turns_try still finds the results. */
void vc_turns_cancel(vc_turns *t);
/* The seconds that all puts have waited for the thread that gets. */
double vc_turns_put_wait(vc_turns *t);

#endif
