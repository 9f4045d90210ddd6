/* transfer.c - copies between host and device, in the kernels' order or concurrent with kernels;
 * see device.h */
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
        r->filling[i] = -1;
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
    for (int i = 0; i < r->n_fills; i++) {
        destroy(r->fills[i].filled);
        destroy(r->fills[i].reached);
    }
    free(r->fills);
    if (r->copies)
        cudaStreamDestroy(r->copies);
}

/* ---- in the kernels' order ---- */

/* Returns room in a ring for *n bytes, at most `bytes`; NULL after a fault. */
static char *ring_room(vt_dev *d, cuda_ring *q, size_t bytes, size_t *n)
{
    if (q->used == CUDA_SLOT_BYTES) {
        cudaError_t rc = cudaEventRecord(q->sent[q->slot], q->stream);
        q->slot = (q->slot + 1) % CUDA_SLOTS;
        q->used = 0;
        if (!rc)
            rc = cudaEventSynchronize(q->sent[q->slot]);        /* returns if never recorded */
        if (!cuda_ok(d, (int)rc, "upload"))
            return NULL;
    }
    *n = CUDA_SLOT_BYTES - q->used < bytes ? CUDA_SLOT_BYTES - q->used : bytes;
    char *p = q->slots + (size_t)q->slot * CUDA_SLOT_BYTES + q->used;
    q->used += *n;
    return p;
}

/* Copies src into the ring, piece by piece, and queues the copies from the ring to dst. */
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
    if (!cuda_in_capture(d, "an upload"))
        send(d, &d->runtime->up, dst, src, bytes);
}

/* Copies to pageable memory and waits for the copy. */
void cuda_download(vt_dev *d, void *dst, const void *src, size_t bytes)
{
    cuda_runtime *r = d->runtime;

    bool ok = !cuda_in_capture(d, "a download");
    if (ok && bytes)
        ok = cuda_ok(d, (int)cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, r->stream),
                     "download");
    ok = ok && cuda_ok(d, (int)cudaStreamSynchronize(r->stream), "download");
    if (!ok && bytes)
        memset(dst, 0, bytes);
}

void cuda_copy_bytes(vt_dev *d, void *dst, const void *src, size_t bytes)
{
    cuda_ok(d, (int)cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, d->stream), "copy");
}

/* ---- concurrent with the kernels ---- */

/* Returns the index of a free fill, or -1 after a fault. */
static int free_fill(vt_dev *d)
{
    cuda_runtime *r = d->runtime;

    for (int i = 0; i < r->n_fills; i++)
        if (r->fills[i].state == CUDA_FILL_FREE)
            return i;
    cuda_place_fill *all = realloc(r->fills, (size_t)(r->n_fills + 1) * sizeof *all);
    if (!all) {
        cuda_fault(d, VC_ENOMEM, "fetch: out of memory");
        return -1;
    }
    r->fills = all;
    cuda_place_fill *f = &all[r->n_fills];
    *f = (cuda_place_fill){ 0 };
    cudaError_t rc = cudaEventCreate(&f->filled);
    if (!rc)
        rc = cudaEventCreate(&f->reached);
    if (cuda_ok(d, (int)rc, "fetch"))
        return r->n_fills++;
    destroy(f->filled);
    return -1;
}

/* Returns the fill of a place that is fetched into. The copies of a new fill begin when the kernels
 * have left the place. NULL after a fault. */
static cuda_place_fill *fill_of(vt_dev *d, vt_place place)
{
    cuda_runtime *r = d->runtime;

    if (cuda_in_capture(d, "a fetch"))
        return NULL;
    if (r->filling[place] < 0) {
        int i = free_fill(d);
        if (i < 0 || !cuda_ok(d, (int)cudaStreamWaitEvent(r->copies, r->left[place], 0), "fetch"))
            return NULL;
        r->fills[i].state = CUDA_FILL_FETCHED;
        r->filling[place] = i;
    }
    return &r->fills[r->filling[place]];
}

void cuda_fetch(vt_dev *d, vt_place place, void *dst, const void *src, size_t bytes)
{
    cuda_place_fill *f = fill_of(d, place);

    if (!f)
        return;
    send(d, &d->runtime->beside, dst, src, bytes);
    cuda_ok(d, (int)cudaEventRecord(f->filled, d->runtime->copies), "fetch");
}

void cuda_move(vt_dev *d, vt_place place, void *dst, const void *src, size_t bytes)
{
    cuda_runtime *r = d->runtime;
    cuda_place_fill *f = fill_of(d, place);

    if (!f)
        return;
    cudaError_t rc = cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, r->copies);
    if (!rc)
        rc = cudaEventRecord(f->filled, r->copies);
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

    if (cuda_in_capture(d, "the use of a place") || r->filling[place] < 0)
        return;
    cuda_place_fill *f = &r->fills[r->filling[place]];
    r->filling[place] = -1;
    f->state = CUDA_FILL_ENTERED;
    cudaError_t rc = cudaEventRecord(f->reached, r->stream);
    if (!rc)
        rc = cudaStreamWaitEvent(r->stream, f->filled, 0);
    cuda_ok(d, (int)rc, "enter");
}

void cuda_leave(vt_dev *d, vt_place place)
{
    if (!cuda_in_capture(d, "the use of a place"))
        cuda_ok(d, (int)cudaEventRecord(d->runtime->left[place], d->stream), "leave");
}

int64_t cuda_waited(vt_dev *d, double *seconds)
{
    cuda_runtime *r = d->runtime;
    int64_t n = 0;

    *seconds = 0;
    for (int i = 0; i < r->n_fills; i++) {
        cuda_place_fill *f = &r->fills[i];
        float ms = 0;
        if (f->state != CUDA_FILL_ENTERED)
            continue;
        f->state = CUDA_FILL_FREE;
        if (cuda_ok(d, (int)cudaEventElapsedTime(&ms, f->reached, f->filled), "enter") && ms > 0) {
            *seconds += 1e-3 * (double)ms;
            n++;
        }
    }
    return n;
}
