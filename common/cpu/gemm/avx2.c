/* avx2.c - gemm.h in f32, compiled for the target of rows_avx2.c. */
#define GEMM_SET cpu_gemm_avx2
#define GEMM_NAME "avx2"
#define GEMM_ROWS cpu_rows_avx2
#define GEMM_MR 6
#include "common/cpu/gemm/f32.h"
