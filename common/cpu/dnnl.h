/* dnnl.h - convolution and products by oneDNN 2.6 or later, whose primitives are cached. */
#ifndef COMMON_CPU_DNNL_H
#define COMMON_CPU_DNNL_H

#include "common/cpu/cpu.h"

/* Computes kernel_list.h's conv3d. Returns false, and writes nothing, if the build has no oneDNN or
 * oneDNN has no fast implementation for these types on this machine. */
bool cpu_dnnl_conv3d(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *w,
                     const vt_tensor *b, const vt_conv *c);

/* Computes kernel_list.h's matmul where a, b and c are f32, or a and b are i8 without scales and c
 * is i32, on processors whose products of int8 do not saturate. Returns false, and writes nothing,
 * as above, or for a vector, or for an alpha or beta that oneDNN cannot apply in the same pass.
 * any: accepts an implementation that allocates memory in every call, as oneDNN's f32 products for
 * AVX2 do (some MB, freed at its end). */
bool cpu_dnnl_matmul(vt_dev *d, vt_tensor *c, const vt_tensor *a, bool ta, const vt_tensor *b,
                     bool tb, const vt_tensor *bias, float alpha, float beta, bool any);

/* Computes kernel_list.h's matmul of operands of any type in f32, unless cpu_gemm_of() has kernels
 * in bf16 for them or oneDNN is not the better choice (matmul_dnnl.c). Returns false, and writes
 * nothing, in these cases. */
bool cpu_matmul_dnnl(vt_dev *d, vt_tensor *c, const vt_tensor *a, bool ta, const vt_tensor *b,
                     bool tb, const vt_tensor *bias, float alpha, float beta);

#endif
