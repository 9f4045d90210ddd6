/* fault.c - the first fault of a device, which every part reports; see cuda.h */
#include <stdarg.h>
#include <stdio.h>

#include "common/cuda/cuda.h"

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
