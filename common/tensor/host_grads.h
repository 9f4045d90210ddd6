/* host_grads.h - gradients of blocks that are in the host's memory, of a device with its own. The
 * device has two rows, which the gradients of the blocks have alternately: a block's come to its
 * row before its backward, unless it is the step's first, and go back after it, beside the backward
 * of the block before. The norm and the update fetch them again. Gradients of parameters outside of
 * blocks stay on the device.
 *
 *     kernels    B3  B2  B1  B0          backward of four blocks, in a later micro-batch
 *     copies  I3     O3  I2 O2  ..       in and out
 */
#ifndef COMMON_TENSOR_HOST_GRADS_H
#define COMMON_TENSOR_HOST_GRADS_H

#include "common/tensor/params.h"

typedef struct vt_host_grads vt_host_grads;

/* For the trained parameters of p, which it borrows: a dry run has no memory on the host. */
int vt_host_grads_open(vt_host_grads **out, vt_params *p, vc_err *err);
void vt_host_grads_close(vt_host_grads *h);   /* NULL is fine */
/* The place of a parameter's gradient in a row, where the caller lends it; NULL: it is of no block.
 */
float *vt_host_grads_row(const vt_host_grads *h, const vt_param *p);
size_t vt_host_grads_bytes(const vt_host_grads *h);          /* of both rows; 0 for NULL */
size_t vt_host_grads_on_host(const vt_host_grads *h);        /* 0 for NULL */

/* A step begins; a block's backward begins, and has ended: called by hooks. */
void vt_host_grads_reset(vt_host_grads *h);
void vt_host_grads_enter(vt_host_grads *h, int block);
void vt_host_grads_ready(vt_host_grads *h, int block);
/* After the step's last backward: waits until all gradients of blocks are on the host. */
void vt_host_grads_arrive(vt_host_grads *h);
/* A parameter's gradient on the host, valid then unless no backward has reached it; NULL: it is of
 * no block. */
const vt_tensor *vt_host_grads_of(const vt_host_grads *h, const vt_param *p);
/* After the step's last backward, kernels that are queued from now on find a block's gradients in
 * its row, until another block is needed. */
void vt_host_grads_need(vt_host_grads *h, int block);

#endif
