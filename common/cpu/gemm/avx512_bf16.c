/* avx512_bf16.c - gemm.h in bf16, compiled for AVX-512 with its bf16 products. */
#define GEMM_SET cpu_gemm_avx512_bf16
#define GEMM_NAME "avx512_bf16"
#define GEMM_ROWS cpu_rows_avx512_bf16
#define GEMM_MR 8
#include "common/cpu/gemm/bf16.h"
