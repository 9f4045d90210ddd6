/* replay.h - a step's work, queued again by one call of the device instead of kernel by kernel.
 *
 * Queueing runs the model's C code, which costs the host some microseconds a kernel: in small
 * buckets more than the device takes to run it. Where a device can keep what is queued (backend.h,
 * capture_begin), a work
 *
 *     of a new kind is queued as ever, which makes plans and scratch,
 *     the second of its kind is kept while it is queued, and launched,
 *     later ones are launched: none of their C code runs.
 *
 * Works are of one kind if they begin with equal tensors of the step (types, shapes, addresses),
 * equal parameters (the same of them and of their gradients, which of these are empty) and an equal
 * `variant`. So what a work queues must follow from these alone: host values that differ from step
 * to step go into tensors made before it. The bits are those of the work queued as ever. */
#ifndef COMMON_MEMORY_REPLAY_H
#define COMMON_MEMORY_REPLAY_H

#include "common/tensor/weights.h"

typedef struct vt_work {
    vt_tensor *(*queue)(void *arg);           /* ops, vt_backward at the end or not; gives the loss.
                                               * Nothing in it comes from the host or goes there */
    void *arg;
    int variant;                              /* how it queues, beside shapes: recomputed blocks */
    bool watched;                             /* the host does read within it: queued as ever */
} vt_work;

/* Queues the work of a step on the model p, whose rest has been made before; steps with VT_OFFLOAD
 * are queued as ever. Returns a scalar that vt_item reads, NULL where the step has failed. Nothing
 * else of the step can be read after it. */
vt_tensor *vt_replay(vt_ctx *g, vt_params *p, const vt_work *w);
/* Why works are queued as ever at present (one line, borrowed); NULL: they are replayed. */
const char *vt_replay_off(const vt_ctx *g);
/* After a failed step: true, once, if the device could not keep its work. None of that has run and
 * gradients are as before it: the same step done anew is queued as ever, and so are all others. */
bool vt_replay_gave_up(vt_ctx *g);

#endif
