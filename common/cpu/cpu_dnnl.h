/* cpu_dnnl.h - convolution by oneDNN 2.6 or later, with primitives kept between calls. */
#ifndef CPU_CPU_DNNL_H
#define CPU_CPU_DNNL_H

#include "common/cpu/cpu.h"

/* backend.h's conv3d. False if it was not done: built without oneDNN, or oneDNN has no fast way for
 * these types on this machine; nothing was written then. */
bool cpu_dnnl_conv3d(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *w,
                     const vt_tensor *b, const vt_conv *c);

#endif
