/* fault.c - the first fault of a device, which every part reports; see cuda.h */
#include <stdarg.h>
#include <stdio.h>

#include "common/cuda/device.h"

void cuda_fault(vt_dev *d, int code, const char *fmt, ...)
{
    if (d->fault)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(d->fault_text, sizeof d->fault_text, fmt, ap);
    va_end(ap);
    d->fault = code;
}

bool cuda_ok(vt_dev *d, int rc, const char *op)
{
    if (rc)
        cuda_fault(d, rc == cudaErrorMemoryAllocation ? VC_ENOMEM : VC_EFAIL, "%s: %s", op,
                   cudaGetErrorString((cudaError_t)rc));
    return !rc;
}
