/* kernels_wide.c - the f32 kernels in AVX-512's 16 lanes, compiled for any machine: gcc splits the
 * vectors. */
#define VW 16
#define ROWS_SET cpu_rows_wide
#define ROWS_NAME "wide"
#define GEMM_SET cpu_gemm_wide
#define GEMM_NAME "wide"
#define GEMM_ROWS cpu_rows_wide
#define GEMM_MR 8
#include "common/cpu/simd/rows_impl.h"

#include "common/cpu/gemm/f32.h"
