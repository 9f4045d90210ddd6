/* host_update.h - updates of trained parameters on the host, of a device with its own memory.
 * States and the gradients of blocks (host_grads.h) are there already. The host has a copy of the
 * weights, which the CPU's kernels change, one parameter after the other; each goes to the
 * device beside the update of the next. Gradients of parameters outside of blocks come from the
 * device.
 *
 *     host       U0  U1  U2  ..
 *     copies         O0  O1  O2  ..      of the weights, to the device
 */
#ifndef COMMON_TENSOR_HOST_UPDATE_H
#define COMMON_TENSOR_HOST_UPDATE_H

#include "common/tensor/params.h"

typedef struct vt_host_update vt_host_update;

/* For the trained parameters of p, which it borrows, with their gradients; threads as in
 * vt_options. A dry run has no copies. */
int vt_host_update_open(vt_host_update **out, vt_params *p, int threads, vc_err *err);
void vt_host_update_close(vt_host_update *h);  /* NULL is fine */
size_t vt_host_update_bytes(const vt_host_update *h);        /* of the host; 0 for NULL */
/* The context whose kernels update. */
vt_ctx *vt_host_update_context(vt_host_update *h);

/* A step: begins, once the last backward is queued: waits for the gradients. Then for each
 * parameter that it changes, the i-th of p: gives its values and its gradient on the host, and
 * begins to copy the values to the device. Kernels that are queued after _end read the new ones. */
void vt_host_update_begin(vt_host_update *h);
void vt_host_update_enter(vt_host_update *h, int i, vt_tensor **w, const vt_tensor **grad);
void vt_host_update_leave(vt_host_update *h, int i);
void vt_host_update_end(vt_host_update *h);

#endif
