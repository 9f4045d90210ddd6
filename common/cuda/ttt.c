/* ttt.c - the inner scan of test-time training; see kernel_list.h */
#include "common/cuda/cuda.h"

void cuda_ttt_scan(vt_dev *d, vt_tensor *o, vt_tensor *states, const vt_ttt *t)
{
    (void)o, (void)states, (void)t;
    cuda_fault(d, VC_EINVAL, "ttt_scan: this backend has no kernel yet");
}

void cuda_ttt_scan_grad(vt_dev *d, const vt_ttt *grad, const vt_tensor *dout,
                        const vt_tensor *states, vt_tensor *work, const vt_ttt *t)
{
    (void)grad, (void)dout, (void)states, (void)work, (void)t;
    cuda_fault(d, VC_EINVAL, "ttt_scan_grad: this backend has no kernel yet");
}
