/* cpu_dnnl.h - convolution and f32 products by oneDNN 2.6 or later, with primitives kept between
 * calls. */
#ifndef CPU_CPU_DNNL_H
#define CPU_CPU_DNNL_H

#include "common/cpu/cpu.h"

/* backend.h's conv3d. False if it was not done: built without oneDNN, or oneDNN has no fast way for
 * these types on this machine; nothing was written then. */
bool cpu_dnnl_conv3d(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *w,
                     const vt_tensor *b, const vt_conv *c);

/* backend.h's matmul of f32 operands. False if it was not done, as above, or for a vector, or for
 * an alpha or beta that oneDNN would not do in the same pass. any: also where oneDNN's way
 * allocates in every call, as its products for AVX2 do up to 2.7 (tests and benchmarks). */
bool cpu_dnnl_matmul(vt_dev *d, vt_tensor *c, const vt_tensor *a, bool ta, const vt_tensor *b,
                     bool tb, const vt_tensor *bias, float alpha, float beta, bool any);

/* Whether oneDNN is the better choice. With AVX2 the products here have 0.85 to 1.1 times its
 * speed and convolutions 0.7 to 1.8 times, more where it counts (bench_kernels); its kernels for
 * AVX-512 and AMX are the better ones. */
static inline bool cpu_dnnl_preferred(const vt_dev *d) { return d->dnnl && d->isa.avx512; }

#endif
