/* hosted.h - state of the optimiser that is in the host's memory, of a device with its own: a step
 * copies the state of one parameter after the other to the device and back. Two places hold the
 * states alternately, so that the copies (in: I, out: O) run beside the updates (U):
 *
 *     copies   I0  I1  O0  I2  O1  I3  O2 ..
 *     kernels      U0      U1      U2     ..
 */
#ifndef COMMON_TENSOR_HOSTED_H
#define COMMON_TENSOR_HOSTED_H

#include "common/tensor/tensor.h"

typedef struct vt_hosted vt_hosted;

/* Makes two places of `bytes` bytes each: the most that vt_hosted_room gives for a parameter.
 * host_of: gives a tensor's memory on the host (vt_param_host_memory). */
typedef void *vt_host_of_fn(const vt_ctx *g, vt_tensor *t);
int vt_hosted_open(vt_hosted **out, vt_ctx *g, size_t bytes, vt_host_of_fn *host_of, vc_err *err);
void vt_hosted_close(vt_hosted *h);           /* NULL is fine */
/* Bytes of a place that a tensor of state takes. */
size_t vt_hosted_room(size_t bytes);
size_t vt_hosted_bytes(const vt_hosted *h);   /* of the device, for both places; 0 for NULL */

/* Of the i-th parameter's n tensors of state, some of which may be NULL: begins to copy them to the
 * device; lets kernels that are queued from now on use them (t->data is set); begins to copy them
 * back. A step calls these in this order for each i, from 0 on, and _begin for i + 1 before _enter
 * for i. Then it calls _end. */
void vt_hosted_begin(vt_hosted *h, int i, int n, vt_tensor *const *t);
void vt_hosted_enter(vt_hosted *h, int i, int n, vt_tensor *const *t);
void vt_hosted_leave(vt_hosted *h, int i, int n, vt_tensor *const *t);
void vt_hosted_end(vt_hosted *h);

#endif
