/* status.c - the errors of CUDA's runtime as faults of a device; see cuda.h */
#include "common/cuda/device.h"

bool cuda_ok(vt_dev *d, int rc, const char *op)
{
    if (rc)
        cuda_fault(d, rc == cudaErrorMemoryAllocation ? VC_ENOMEM : VC_EFAIL, "%s: %s", op,
                   cudaGetErrorString((cudaError_t)rc));
    return !rc;
}
