/* transfer.c - between host and device, in the kernels' order or beside them: device.h */
#include <stdlib.h>
#include <string.h>

#include "common/cuda/device.h"

/* ---- open and close ---- */

static cudaError_t ring_open(cuda_ring *q, cudaStream_t stream)
{
    cudaError_t e = cudaMallocHost((void **)&q->slots, (size_t)CUDA_SLOTS * CUDA_SLOT_BYTES);

    q->stream = stream;
    for (int i = 0; i < CUDA_SLOTS && !e; i++)
        e = cudaEventCreateWithFlags(&q->sent[i], cudaEventDisableTiming);
    return e;
}

static void destroy(cudaEvent_t e)
{
    if (e)
        cudaEventDestroy(e);
}

static void ring_close(cuda_ring *q)
{
    for (int i = 0; i < CUDA_SLOTS; i++)
        destroy(q->sent[i]);
    cudaFreeHost(q->slots);
}

int cuda_transfer_open(vt_dev *d, vc_err *err)
{
    cuda_runtime *r = d->runtime;
    cudaError_t e = cudaStreamCreateWithFlags(&r->copies, cudaStreamNonBlocking);

    if (!e)
        e = ring_open(&r->up, r->stream);
    if (!e)
        e = ring_open(&r->beside, r->copies);
    for (int i = 0; i < VT_PLACES; i++) {
        r->turn[i] = -1;
        if (!e)
            e = cudaEventCreateWithFlags(&r->left[i], cudaEventDisableTiming);
    }
    return e ? vc_fail(err, VC_ENOMEM, "cuda: transfer buffers: %s", cudaGetErrorString(e)) : 0;
}

void cuda_transfer_close(vt_dev *d)
{
    cuda_runtime *r = d->runtime;

    if (r->copies)
        cudaStreamSynchronize(r->copies);
    ring_close(&r->up);
    ring_close(&r->beside);
    for (int i = 0; i < VT_PLACES; i++)
        destroy(r->left[i]);
    for (int i = 0; i < r->n_turns; i++) {
        destroy(r->turns[i].filled);
        destroy(r->turns[i].reached);
    }
    free(r->turns);
    if (r->copies)
        cudaStreamDestroy(r->copies);
}

/* ---- in the kernels' order ---- */

/* Room in a ring for up to `bytes`; *n of them. NULL after a fault. */
static char *ring_room(vt_dev *d, cuda_ring *q, size_t bytes, size_t *n)
{
    if (q->used == CUDA_SLOT_BYTES) {
        cudaError_t rc = cudaEventRecord(q->sent[q->slot], q->stream);
        q->slot = (q->slot + 1) % CUDA_SLOTS;
        q->used = 0;
        if (!rc)
            rc = cudaEventSynchronize(q->sent[q->slot]);        /* never recorded: done */
        if (!cuda_ok(d, (int)rc, "upload"))
            return NULL;
    }
    *n = CUDA_SLOT_BYTES - q->used < bytes ? CUDA_SLOT_BYTES - q->used : bytes;
    char *p = q->slots + (size_t)q->slot * CUDA_SLOT_BYTES + q->used;
    q->used += *n;
    return p;
}

/* Returns when src is in the ring. */
static void send(vt_dev *d, cuda_ring *q, void *dst, const void *src, size_t bytes)
{
    for (size_t done = 0, n; done < bytes; done += n) {
        char *p = ring_room(d, q, bytes - done, &n);
        if (!p)
            return;
        memcpy(p, (const char *)src + done, n);
        if (!cuda_ok(d, (int)cudaMemcpyAsync((char *)dst + done, p, n, cudaMemcpyHostToDevice,
                                             q->stream), "upload"))
            return;
    }
}

void cuda_upload(vt_dev *d, void *dst, const void *src, size_t bytes)
{
    if (!cuda_kept_from(d, "an upload"))
        send(d, &d->runtime->up, dst, src, bytes);
}

/* Pageable memory: the call returns when the bytes are there. */
void cuda_download(vt_dev *d, void *dst, const void *src, size_t bytes)
{
    cuda_runtime *r = d->runtime;

    bool ok = !cuda_kept_from(d, "a download") &&
              cuda_ok(d, (int)cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, r->stream),
                      "download") &&
              cuda_ok(d, (int)cudaStreamSynchronize(r->stream), "download");
    if (!ok)
        memset(dst, 0, bytes);
}

void cuda_copy_bytes(vt_dev *d, void *dst, const void *src, size_t bytes)
{
    cuda_ok(d, (int)cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, d->stream), "copy");
}

/* ---- beside the kernels ---- */

/* Index of a turn nobody has; -1 after a fault. */
static int free_turn(vt_dev *d)
{
    cuda_runtime *r = d->runtime;

    for (int i = 0; i < r->n_turns; i++)
        if (r->turns[i].state == CUDA_TURN_FREE)
            return i;
    cuda_turn *all = realloc(r->turns, (size_t)(r->n_turns + 1) * sizeof *all);
    if (!all) {
        cuda_fault(d, VC_ENOMEM, "fetch: out of memory");
        return -1;
    }
    r->turns = all;
    cuda_turn *t = &all[r->n_turns];
    *t = (cuda_turn){ 0 };
    cudaError_t rc = cudaEventCreate(&t->filled);
    if (!rc)
        rc = cudaEventCreate(&t->reached);
    if (cuda_ok(d, (int)rc, "fetch"))
        return r->n_turns++;
    destroy(t->filled);
    return -1;
}

/* The turn of a place that is to be filled: it begins when the kernels have left. NULL after a
 * fault. */
static cuda_turn *turn_of(vt_dev *d, vt_place place)
{
    cuda_runtime *r = d->runtime;

    if (cuda_kept_from(d, "a fetch"))
        return NULL;
    if (r->turn[place] < 0) {                  /* the first of this turn */
        int i = free_turn(d);
        if (i < 0 || !cuda_ok(d, (int)cudaStreamWaitEvent(r->copies, r->left[place], 0), "fetch"))
            return NULL;
        r->turns[i].state = CUDA_TURN_FETCHED;
        r->turn[place] = i;
    }
    return &r->turns[r->turn[place]];
}

void cuda_fetch(vt_dev *d, vt_place place, void *dst, const void *src, size_t bytes)
{
    cuda_turn *t = turn_of(d, place);

    if (!t)
        return;
    send(d, &d->runtime->beside, dst, src, bytes);
    cuda_ok(d, (int)cudaEventRecord(t->filled, d->runtime->copies), "fetch");
}

void cuda_move(vt_dev *d, vt_place place, void *dst, const void *src, size_t bytes)
{
    cuda_runtime *r = d->runtime;
    cuda_turn *t = turn_of(d, place);

    if (!t)
        return;
    cudaError_t rc = cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, r->copies);
    if (!rc)
        rc = cudaEventRecord(t->filled, r->copies);
    cuda_ok(d, (int)rc, "move");
}

void *cuda_pin(vt_dev *d, size_t bytes)
{
    void *p = NULL;

    (void)d;
    return cudaMallocHost(&p, bytes) ? NULL : p;
}

void cuda_unpin(vt_dev *d, void *p)
{
    if (p)
        cudaStreamSynchronize(d->runtime->copies);
    cudaFreeHost(p);
}

void cuda_enter(vt_dev *d, vt_place place)
{
    cuda_runtime *r = d->runtime;

    if (cuda_kept_from(d, "a place's turn") || r->turn[place] < 0)
        return;
    cuda_turn *t = &r->turns[r->turn[place]];
    r->turn[place] = -1;
    t->state = CUDA_TURN_ENTERED;
    cudaError_t rc = cudaEventRecord(t->reached, r->stream);
    if (!rc)
        rc = cudaStreamWaitEvent(r->stream, t->filled, 0);
    cuda_ok(d, (int)rc, "enter");
}

void cuda_leave(vt_dev *d, vt_place place)
{
    if (!cuda_kept_from(d, "a place's turn"))
        cuda_ok(d, (int)cudaEventRecord(d->runtime->left[place], d->stream), "leave");
}

int64_t cuda_waited(vt_dev *d, double *seconds)
{
    cuda_runtime *r = d->runtime;
    int64_t n = 0;

    *seconds = 0;
    for (int i = 0; i < r->n_turns; i++) {
        cuda_turn *t = &r->turns[i];
        float ms = 0;
        if (t->state != CUDA_TURN_ENTERED)
            continue;
        t->state = CUDA_TURN_FREE;
        if (cuda_ok(d, (int)cudaEventElapsedTime(&ms, t->reached, t->filled), "enter") && ms > 0) {
            *seconds += 1e-3 * (double)ms;
            n++;
        }
    }
    return n;
}
