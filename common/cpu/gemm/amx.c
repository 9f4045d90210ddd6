/* amx.c - gemm.h in bf16, compiled for AVX-512 with AMX tiles. */
#define GEMM_SET cpu_gemm_amx
#define GEMM_NAME "amx"
#define GEMM_ROWS cpu_rows_avx512_bf16
#include "common/cpu/gemm/amx.h"
