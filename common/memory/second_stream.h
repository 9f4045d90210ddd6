/* second_stream.h - rows of values on a device, and a second stream for work that runs concurrently
 * with steps: sums of gradients between ranks, gathers of weights (train/parallel/dist.c).
 *
 *     vt_record_event(g, ready);            // the thread of the steps
 *     vt_after(second, ready);              // from here on another thread, or the same
 *     ... vt_values_add(second, ...), sums over ranks ...
 *     vt_record_event(second, over);
 *     vt_after(g, over);                    // later kernels of the steps see the result
 *
 * No function here waits for the device, but vt_second_stream_status. On a device whose memory is
 * the host's, work is done when a call returns, and events are NULL. The next vt_step_end reports
 * faults; vt_second_stream_status reports those of a second stream. */
#ifndef COMMON_MEMORY_SECOND_STREAM_H
#define COMMON_MEMORY_SECOND_STREAM_H

#include "common/tensor/backend.h"

/* ---- rows: [n] on the device, 64-byte aligned, usable outside steps and during them ---- */

/* Returns zeros, which the caller frees by vt_values_free (x NULL is fine), or NULL with
 * VC_ENOMEM. */
float *vt_values_new(vt_ctx *g, size_t n, vc_err *err);
void vt_values_free(vt_ctx *g, float *x, size_t n);
void vt_values_zero(vt_ctx *g, float *y, size_t n);
void vt_values_copy(vt_ctx *g, float *y, const float *x, size_t n);
void vt_values_add(vt_ctx *g, float *y, const float *x, size_t n);         /* y += x */
/* y = x converted to another type, both on the device. */
void vt_values_cast(vt_ctx *g, void *y, vc_dtype to, const void *x, vc_dtype from, size_t n);
/* y = x converted to y's type; x is host data of any alignment. Not for a second stream. */
void vt_values_put(vt_ctx *g, void *y, vc_dtype to, const void *x, vc_dtype from, size_t n);

/* Copies bytes from the device to the host's y, after the kernels that are queued. */
void vt_values_get(vt_ctx *g, void *y, const void *x, size_t bytes);

/* ---- a second stream ---- */

/* Opens a context on g's device for the calls of this header; it makes no steps. One thread at a
 * time uses it, concurrently with g's own thread; vt_adopt is the first call of a thread other than
 * g's. It is closed by vt_close before g. */
int vt_second_stream_open(vt_ctx **out, vt_ctx *g, vc_err *err);
void vt_adopt(vt_ctx *g);
/* Waits for the second stream and returns its first fault since the last call. */
int vt_second_stream_status(vt_ctx *second, vc_err *err);

/* vt_after does not wait for an event that was never recorded. On a device without streams *out is
 * NULL, which all calls accept. */
int vt_event_open(vt_event **out, vt_ctx *g, vc_err *err);
void vt_event_close(vt_ctx *g, vt_event *e);
void vt_record_event(vt_ctx *g, vt_event *e);
void vt_after(vt_ctx *g, vt_event *e);

/* Returns the collective operations of the device (NULL: none), and the device of a second
 * stream. */
const vt_links *vt_links_of(const vt_ctx *second, vt_dev **dev);

#endif
