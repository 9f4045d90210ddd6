/* turns.c - see turns.h */
#include "common/os/turns.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/os/progress.h"

typedef struct slot {                /* of an item in the window */
    void *result;
    size_t bytes;
    bool there;                      /* the item's result was put, or passed */
} slot;

struct vc_turns {
    pthread_mutex_t lock;
    pthread_cond_t moved, filled;    /* `turn` moved on or bytes left; the result of `turn` came */
    slot *ring;                      /* of item i at i % window */
    uint32_t n, window;
    uint32_t next, turn;             /* next item to begin; item whose turn it is */
    size_t bytes, max_bytes;
    bool cancelled;
    double put_wait;
};

int vc_turns_open(vc_turns **out, uint32_t n, uint32_t window, size_t bytes, vc_err *err)
{
    *out = NULL;
    vc_turns *t = calloc(1, sizeof *t);
    slot *ring = calloc(window, sizeof *ring);
    if (!t || !ring) {
        free(t);
        free(ring);
        return vc_fail(err, VC_ENOMEM, "out of memory for %u turns", (unsigned)window);
    }
    t->ring = ring;
    t->n = n;
    t->window = window;
    t->max_bytes = bytes;
    /* with default attributes glibc's initialisers cannot fail */
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->moved, NULL);
    pthread_cond_init(&t->filled, NULL);
    *out = t;
    return 0;
}

void vc_turns_free(vc_turns *t)
{
    if (!t)
        return;
    pthread_cond_destroy(&t->filled);
    pthread_cond_destroy(&t->moved);
    pthread_mutex_destroy(&t->lock);
    free(t->ring);
    free(t);
}

static slot *slot_of(vc_turns *t, uint32_t item)
{
    return &t->ring[item % t->window];
}

static bool may_begin(const vc_turns *t, uint32_t item)
{
    return item == t->turn || (item - t->turn < t->window && t->bytes < t->max_bytes);
}

bool vc_turns_begin(vc_turns *t, uint32_t *item)
{
    pthread_mutex_lock(&t->lock);
    bool ok = t->next < t->n;
    if (ok)
        *item = t->next++;
    while (ok && !t->cancelled && !may_begin(t, *item))
        pthread_cond_wait(&t->moved, &t->lock);
    ok &= !t->cancelled;
    pthread_mutex_unlock(&t->lock);
    return ok;
}

/* Moves over the items that passed. */
static void pass(vc_turns *t)
{
    const uint32_t before = t->turn;
    while (t->turn < t->next && slot_of(t, t->turn)->there && !slot_of(t, t->turn)->result)
        *slot_of(t, t->turn++) = (slot){ 0 };
    if (t->turn != before)
        pthread_cond_broadcast(&t->moved);
}

/* True while a put of another item waits: the thread that gets has something to do, and will make
 * room. */
static bool is_full(vc_turns *t, uint32_t item)
{
    return item != t->turn && t->bytes >= t->max_bytes && slot_of(t, t->turn)->there;
}

bool vc_turns_put(vc_turns *t, uint32_t item, void *result, size_t bytes)
{
    pthread_mutex_lock(&t->lock);
    assert(item - t->turn < t->window && !slot_of(t, item)->there);
    if (result && !t->cancelled && is_full(t, item)) {
        const double since = vc_seconds();
        while (!t->cancelled && is_full(t, item))
            pthread_cond_wait(&t->moved, &t->lock);
        t->put_wait += vc_seconds() - since;
    }
    const bool ok = !t->cancelled;
    if (ok) {
        *slot_of(t, item) = (slot){ result, result ? bytes : 0, true };
        t->bytes += result ? bytes : 0;
        pass(t);
        pthread_cond_signal(&t->filled);
    }
    pthread_mutex_unlock(&t->lock);
    return ok;
}

/* Takes the result of the item whose turn it is, which is there. */
static void *take(vc_turns *t)
{
    slot *s = slot_of(t, t->turn);
    void *result = s->result;
    t->bytes -= s->bytes;
    *s = (slot){ 0 };
    t->turn++;
    pass(t);
    pthread_cond_broadcast(&t->moved);
    return result;
}

void *vc_turns_get(vc_turns *t)
{
    pthread_mutex_lock(&t->lock);
    while (!t->cancelled && t->turn < t->n && !slot_of(t, t->turn)->there)
        pthread_cond_wait(&t->filled, &t->lock);
    void *result = t->cancelled || t->turn == t->n ? NULL : take(t);
    pthread_mutex_unlock(&t->lock);
    return result;
}

void *vc_turns_try(vc_turns *t)
{
    void *result = NULL;
    pthread_mutex_lock(&t->lock);
    for (uint32_t i = 0; i < t->window && !result; i++) {
        result = t->ring[i].result;
        t->ring[i].result = NULL;
    }
    pthread_mutex_unlock(&t->lock);
    return result;
}

void vc_turns_cancel(vc_turns *t)
{
    pthread_mutex_lock(&t->lock);
    t->cancelled = true;
    pthread_cond_broadcast(&t->moved);
    pthread_cond_broadcast(&t->filled);
    pthread_mutex_unlock(&t->lock);
}

double vc_turns_put_wait(vc_turns *t)
{
    pthread_mutex_lock(&t->lock);
    const double wait = t->put_wait;
    pthread_mutex_unlock(&t->lock);
    return wait;
}
