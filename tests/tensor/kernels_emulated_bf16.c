/* kernels_emulated_bf16.c - the source of the AVX512-BF16 kernels, compiled for any machine: dot
 * products in plain C, vectors of 16 lanes. */
#define VW 16
#define GEMM_SET cpu_gemm_emulated_bf16
#define GEMM_NAME "emulated_bf16"
#define GEMM_ROWS cpu_rows_plain
#define GEMM_MR 8
#include "common/cpu/gemm/bf16.h"
