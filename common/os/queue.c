/* queue.c - a bounded queue between threads; see queue.h */
#include "common/os/queue.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/os/progress.h"

typedef struct slot {
    void *item;
    size_t bytes;
} slot;

struct vc_queue {
    pthread_mutex_t lock;
    pthread_cond_t room, filled;     /* puts wait for room, gets for filled */
    slot *ring;
    size_t cap, head, n;             /* head: the oldest of n entries */
    size_t bytes, max_bytes;         /* max_bytes 0: no bound */
    int producers;                   /* calls of vc_queue_close until it is closed */
    bool closed, cancelled;
    double get_wait, put_wait;
};

int vc_queue_open(vc_queue **out, size_t items, size_t bytes, vc_err *err)
{
    *out = NULL;
    if (!items)
        return vc_fail(err, VC_EINVAL, "a queue needs at least one entry");

    vc_queue *q = calloc(1, sizeof *q);
    slot *ring = calloc(items, sizeof *ring);
    if (!q || !ring) {
        free(q);
        free(ring);
        return vc_fail(err, VC_ENOMEM, "out of memory for a queue of %zu entries", items);
    }
    q->ring = ring;
    q->cap = items;
    q->max_bytes = bytes;
    q->producers = 1;
    /* with default attributes glibc's initialisers cannot fail */
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->room, NULL);
    pthread_cond_init(&q->filled, NULL);
    *out = q;
    return 0;
}

void vc_queue_free(vc_queue *q)
{
    if (!q)
        return;
    pthread_cond_destroy(&q->filled);
    pthread_cond_destroy(&q->room);
    pthread_mutex_destroy(&q->lock);
    free(q->ring);
    free(q);
}

static bool fits(const vc_queue *q, size_t bytes)
{
    if (q->n == q->cap)
        return false;
    if (!q->max_bytes || !q->n)
        return true;
    return q->bytes <= q->max_bytes && bytes <= q->max_bytes - q->bytes;
}

static bool open_for_puts(const vc_queue *q)
{
    return !q->closed && !q->cancelled;
}

bool vc_queue_put(vc_queue *q, void *item, size_t bytes)
{
    assert(item);                    /* vc_queue_get returns NULL at the end */
    pthread_mutex_lock(&q->lock);
    if (open_for_puts(q) && !fits(q, bytes)) {
        double since = vc_seconds();
        while (open_for_puts(q) && !fits(q, bytes))
            pthread_cond_wait(&q->room, &q->lock);
        q->put_wait += vc_seconds() - since;
    }
    bool ok = open_for_puts(q);
    if (ok) {
        q->ring[(q->head + q->n) % q->cap] = (slot){ item, bytes };
        q->n++;
        q->bytes += bytes;
        pthread_cond_signal(&q->filled);
    }
    pthread_mutex_unlock(&q->lock);
    return ok;
}

static void *take(vc_queue *q)
{
    if (!q->n)
        return NULL;
    slot s = q->ring[q->head];
    q->head = (q->head + 1) % q->cap;
    q->n--;
    q->bytes -= s.bytes;
    /* with a byte bound the item of the one woken put may not fit although another's does */
    if (q->max_bytes)
        pthread_cond_broadcast(&q->room);
    else
        pthread_cond_signal(&q->room);
    return s.item;
}

void *vc_queue_get(vc_queue *q)
{
    pthread_mutex_lock(&q->lock);
    if (!q->n && open_for_puts(q)) {
        double since = vc_seconds();
        while (!q->n && open_for_puts(q))
            pthread_cond_wait(&q->filled, &q->lock);
        q->get_wait += vc_seconds() - since;
    }
    void *item = q->cancelled ? NULL : take(q);
    pthread_mutex_unlock(&q->lock);
    return item;
}

void *vc_queue_try(vc_queue *q)
{
    pthread_mutex_lock(&q->lock);
    void *item = take(q);
    pthread_mutex_unlock(&q->lock);
    return item;
}

void vc_queue_producers(vc_queue *q, int n)
{
    assert(n > 0);
    pthread_mutex_lock(&q->lock);
    q->producers = n;
    pthread_mutex_unlock(&q->lock);
}

static void wake_all(vc_queue *q)
{
    pthread_cond_broadcast(&q->room);
    pthread_cond_broadcast(&q->filled);
}

void vc_queue_close(vc_queue *q)
{
    pthread_mutex_lock(&q->lock);
    if (q->producers > 0)
        q->producers--;
    if (!q->producers) {
        q->closed = true;
        wake_all(q);
    }
    pthread_mutex_unlock(&q->lock);
}

void vc_queue_cancel(vc_queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->cancelled = true;
    wake_all(q);
    pthread_mutex_unlock(&q->lock);
}

vc_queue_stats vc_queue_look(vc_queue *q)
{
    pthread_mutex_lock(&q->lock);
    vc_queue_stats s = { .get_wait = q->get_wait, .put_wait = q->put_wait,
                         .items = q->n, .bytes = q->bytes };
    pthread_mutex_unlock(&q->lock);
    return s;
}
