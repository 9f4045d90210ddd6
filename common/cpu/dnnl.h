/* dnnl.h - convolution and f32 products by oneDNN 2.6 or later, with primitives kept between
 * calls. */
#ifndef COMMON_CPU_DNNL_H
#define COMMON_CPU_DNNL_H

#include "common/cpu/cpu.h"

/* backend.h's conv3d. False if it was not done: built without oneDNN, or oneDNN has no fast way for
 * these types on this machine; nothing was written then. */
bool cpu_dnnl_conv3d(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *w,
                     const vt_tensor *b, const vt_conv *c);

/* backend.h's matmul of f32 operands. False if it was not done, as above, or for a vector, or for
 * an alpha or beta that oneDNN would not do in the same pass. any: also where oneDNN's way takes
 * memory in every call, as its products for AVX2 do (some MB, given back at its end). */
bool cpu_dnnl_matmul(vt_dev *d, vt_tensor *c, const vt_tensor *a, bool ta, const vt_tensor *b,
                     bool tb, const vt_tensor *bias, float alpha, float beta, bool any);

/* backend.h's matmul of operands of any type that is computed in f32, where oneDNN is the better
 * choice (matmul_dnnl.c). False if it was not done; nothing was written then. */
bool cpu_matmul_dnnl(vt_dev *d, vt_tensor *c, const vt_tensor *a, bool ta, const vt_tensor *b,
                     bool tb, const vt_tensor *bias, float alpha, float beta);

#endif
