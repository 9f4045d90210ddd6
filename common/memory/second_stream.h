/* second_stream.h - plain rows of values on a device, and a second stream for what goes on beside steps:
 * sums of gradients between ranks, gathers of weights (train/parallel/dist.c).
 *
 *     vt_record_event(g, ready);            // the thread of the steps
 *     vt_after(second, ready);                // from here on another thread, or the same
 *     ... vt_values_add(second, ...), sums over ranks ...
 *     vt_record_event(second, over);
 *     vt_after(g, over);                    // the steps' kernels from here on see the result
 *
 * Nothing here waits for the device. On a device whose memory is the host's everything is done when
 * a call returns, and events have no job. Faults surface in the next vt_step_end (of a second
 * stream: in vt_second_stream_status). */
#ifndef COMMON_MEMORY_SECOND_STREAM_H
#define COMMON_MEMORY_SECOND_STREAM_H

#include "common/tensor/backend.h"

/* ---- rows: [n] on the device, 64-byte aligned; outside steps, or beside them ---- */

/* Zeros; the caller's until vt_values_free (x NULL is fine). NULL and VC_ENOMEM. */
float *vt_values_new(vt_ctx *g, size_t n, vc_err *err);
void vt_values_free(vt_ctx *g, float *x, size_t n);
void vt_values_zero(vt_ctx *g, float *y, size_t n);
void vt_values_copy(vt_ctx *g, float *y, const float *x, size_t n);
void vt_values_add(vt_ctx *g, float *y, const float *x, size_t n);         /* y += x */
/* y = x in another type, both on the device. */
void vt_values_cast(vt_ctx *g, void *y, vc_dtype to, const void *x, vc_dtype from, size_t n);
/* y = x in its type, host data of any alignment. Not on a second stream. */
void vt_values_put(vt_ctx *g, void *y, vc_dtype to, const void *x, vc_dtype from, size_t n);

/* ---- a second stream ---- */

/* A context on g's device for the calls of this header: it makes no steps. One thread at a time,
 * beside g's own; vt_adopt is the first call of a thread other than g's. vt_close before g's. */
int vt_second_stream_open(vt_ctx **out, vt_ctx *g, vc_err *err);
void vt_adopt(vt_ctx *g);
/* Waits for it; its first fault since the last call. */
int vt_second_stream_status(vt_ctx *second, vc_err *err);

/* An event that was never recorded is no reason to wait. *out NULL where events have no job: all
 * calls take that. */
int vt_event_open(vt_event **out, vt_ctx *g, vc_err *err);
void vt_event_close(vt_ctx *g, vt_event *e);
void vt_record_event(vt_ctx *g, vt_event *e);
void vt_after(vt_ctx *g, vt_event *e);

/* How ranks share what is on the device (NULL: they cannot), and the device of a second stream. */
const vt_links *vt_links_of(const vt_ctx *second, vt_dev **dev);

#endif
