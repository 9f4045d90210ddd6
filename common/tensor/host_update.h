/* host_update.h - updates of trained parameters on the host, of a device with its own memory,
 * beside the next forward. States and the gradients of blocks (host_grads.h) are there already, and
 * a copy of the weights, which the CPU's kernels change (U). Parameters outside of blocks are
 * updated at once, since a forward begins with them; their gradients come from the device. A thread
 * updates the others, in the order in which a forward needs them. Whoever enters a block waits for
 * its update, and begins to copy its weights to the device (O). Four blocks:
 *
 *     host       U  U0  U1  U2  U3
 *     copies       O  O0  O1  O2  O3
 *     kernels           K0  K1  K2  K3       of the next forward
 *
 * Whoever reads or writes parameters outside of steps waits for the whole update, and so does the
 * norm of the next gradients. The thread calls the kernels of the CPU alone: the context's own
 * thread makes all calls of the device, as it does those of this header. */
#ifndef COMMON_TENSOR_HOST_UPDATE_H
#define COMMON_TENSOR_HOST_UPDATE_H

#include "common/tensor/optimizer.h"

typedef struct vt_host_update vt_host_update;
/* Takes the step o of a parameter x, whose tensors are on the host. */
typedef void vt_host_rule(vt_ctx *cpu, const vt_opt_part *x, const vt_opt_step *o);

/* For the trained parameters of p, which it borrows, with their gradients; threads as in
 * vt_options. A dry run has no copies. One context has one update. */
int vt_host_update_open(vt_host_update **out, vt_params *p, vt_host_rule *rule, int threads,
                        vc_err *err);
void vt_host_update_close(vt_host_update *h);  /* ends the step; NULL is fine */
size_t vt_host_update_bytes(const vt_host_update *h);        /* of the host; 0 for NULL */
/* The context whose kernels update; to be used after _finish. */
vt_ctx *vt_host_update_context(vt_host_update *h);

/* A step: _begin, once the last backward is queued, waits for the gradients. Then _add for each
 * parameter that the step changes, the i-th of p, whose states are x's; then _start. Kernels that
 * are queued in a block from then on read its new values. */
void vt_host_update_begin(vt_host_update *h);
void vt_host_update_add(vt_host_update *h, int i, const vt_opt_part *x, const vt_opt_step *o);
void vt_host_update_start(vt_host_update *h);
/* Waits for the step's end: kernels that are queued from now on read all new values. */
void vt_host_update_finish(vt_host_update *h);

#endif
