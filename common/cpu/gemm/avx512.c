/* avx512.c - gemm.h in f32, compiled for the target of rows_avx512.c. */
#define GEMM_SET cpu_gemm_avx512
#define GEMM_NAME "avx512"
#define GEMM_ROWS cpu_rows_avx512
#define GEMM_MR 8
#include "common/cpu/gemm/f32.h"
