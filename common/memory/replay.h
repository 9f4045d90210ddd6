/* replay.h - captures the kernels of a step as a graph and launches them by one call.
 *
 * Queueing kernels one by one runs the model's C code, which costs the host some microseconds per
 * kernel: in small buckets more than the device takes to run it. On a device with capture
 * (backend.h, capture_begin)
 *
 *     the first work of a kind is queued kernel by kernel, which makes plans and scratch,
 *     the second of its kind is captured while it is queued, and launched,
 *     later ones are launched, and none of their C code runs.
 *
 * Two works are of one kind if they begin with equal tensors of the step (types, shapes,
 * addresses), equal parameters (the same properties of values and gradients, and the same empty
 * gradients) and an equal `variant`. So the kernels of a work must depend on these alone: host
 * values that differ between steps go into tensors made before the work. A launched graph gives the
 * same bits as kernels queued one by one. */
#ifndef COMMON_MEMORY_REPLAY_H
#define COMMON_MEMORY_REPLAY_H

#include "common/tensor/weights.h"

typedef struct vt_work {
    vt_tensor *(*queue)(void *arg);           /* runs the ops, with vt_backward at the end or
                                               * without, and returns the tensor to be read; it
                                               * copies nothing from or to the host */
    void *arg;
    int variant;                              /* number of the kernel sequence, beside shapes: the
                                               * recomputed blocks */
    bool watched;                             /* the host reads values within it: never captured */
} vt_work;

/* Queues a work of a step on the model p, after the step's other tensors were made; a step with
 * VT_OFFLOAD is never captured. Returns the tensor of `queue`, or NULL if the step has
 * failed. No other tensor of the step can be read afterwards. */
vt_tensor *vt_replay(vt_ctx *g, vt_params *p, const vt_work *w);
/* Returns the reason why works are not captured at present (one line, borrowed), or NULL if they
 * are. */
const char *vt_replay_off(const vt_ctx *g);
/* Called after a failed step: returns true, once, if the device could not capture its work. None of
 * the work has run and gradients are unchanged; the step can be repeated, and no work is captured
 * from then on. */
bool vt_replay_gave_up(vt_ctx *g);

#endif
