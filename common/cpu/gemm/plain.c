/* plain.c - gemm.h in f32, compiled for the target of rows_plain.c. */
#define GEMM_SET cpu_gemm_plain
#define GEMM_NAME "plain"
#define GEMM_ROWS cpu_rows_plain
#define GEMM_MR 6
#include "common/cpu/gemm/f32.h"
