/* host_copies.c - copies beside the kernels; see host_parts.h */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/device/host_parts.h"

/* A copy that is queued; its bytes arrive when the place is entered. */
struct host_copy {
    host_copy *next;
    void *dst;
    const void *from;                          /* src, or memory that is read at the arrival */
    size_t bytes;
    char src[];                                /* a fetch copies its source at once */
};

double host_byte_time = 1e-6;

void host_download(vt_dev *d, void *dst, const void *src, size_t bytes)
{
    d->runtime->host = d->runtime->kernels.now;
    cuda_download(d, dst, src, bytes);
}

static bool overlap(const host_copy *a, const host_copy *b, const void *x, const void *y)
{
    return (const char *)x < (const char *)y + b->bytes &&
           (const char *)y < (const char *)x + a->bytes;
}

/* True if a copy meets memory of one that kernels may read. */
static bool meets(const host_copy *a, const host_copy *read)
{
    for (const host_copy *b = read; b; b = b->next)
        if (overlap(a, b, a->dst, b->dst) || overlap(a, b, a->dst, b->from) ||
            overlap(a, b, a->from, b->dst) || overlap(a, b, a->from, b->from))
            return true;
    return false;
}

static void queue_copy(vt_dev *d, vt_place place, host_copy *f)
{
    cuda_runtime *r = d->runtime;

    if (cuda_in_capture(d, "a fetch")) {
        free(f);
        return;
    }
    if (meets(f, r->place[place].read))
        cuda_fault(d, VC_EFAIL, "place %d is filled while kernels read it", (int)place);
    memset(f->dst, 0xff, f->bytes);
    host_copy **last = &r->place[place].queued;
    while (*last)
        last = &(*last)->next;
    *last = f;
    r->copies = fmax(r->copies, fmax(r->place[place].left, r->host)) +
                (double)f->bytes * host_byte_time;
    r->place[place].filled = r->copies;
}

void host_fetch(vt_dev *d, vt_place place, void *dst, const void *src, size_t bytes)
{
    host_copy *f = malloc(sizeof *f + bytes);

    *f = (host_copy){ NULL, dst, f->src, bytes };
    memcpy(f->src, src, bytes);
    queue_copy(d, place, f);
}

void host_move(vt_dev *d, vt_place place, void *dst, const void *src, size_t bytes)
{
    host_copy *f = malloc(sizeof *f);

    *f = (host_copy){ NULL, dst, src, bytes };
    queue_copy(d, place, f);
}

void *host_pin(vt_dev *d, size_t bytes)
{
    (void)d;
    return malloc(bytes);
}

static void finish_copies(cuda_runtime *r, vt_place place)
{
    for (host_copy *f; (f = r->place[place].queued);) {
        memcpy(f->dst, f->from, f->bytes);
        r->place[place].queued = f->next;
        f->next = r->place[place].read;
        r->place[place].read = f;
    }
}

void host_forget_read(cuda_runtime *r, vt_place place)
{
    for (host_copy *f; (f = r->place[place].read); free(f))
        r->place[place].read = f->next;
}

void host_finish_copies(cuda_runtime *r)
{
    for (int i = 0; i < VT_PLACES; i++) {
        finish_copies(r, (vt_place)i);
        host_forget_read(r, (vt_place)i);
    }
}

void host_unpin(vt_dev *d, void *p)
{
    host_finish_copies(d->runtime);
    free(p);
}

void host_enter(vt_dev *d, vt_place place)
{
    cuda_runtime *r = d->runtime;
    double wait = r->place[place].filled - r->kernels.now;

    if (cuda_in_capture(d, "the use of a place"))
        return;
    if (!r->place[place].queued)
        return;
    finish_copies(r, place);
    if (wait <= 0)
        return;
    r->waits++;
    r->waited += wait;
    r->kernels.now += wait;
}

void host_leave(vt_dev *d, vt_place place)
{
    if (cuda_in_capture(d, "the use of a place"))
        return;
    host_forget_read(d->runtime, place);
    d->runtime->place[place].left = d->runtime->kernels.now;
}

int64_t host_waited(vt_dev *d, double *seconds)
{
    cuda_runtime *r = d->runtime;
    int64_t n = r->waits;

    *seconds = r->waited;
    r->waited = 0;
    r->waits = 0;
    return n;
}
