/* rows_avx512_bf16.c - rows.h for AVX-512 with the conversions of AVX512-BF16, 16 lanes. */
#define ROWS_SET cpu_rows_avx512_bf16
#define ROWS_NAME "avx512_bf16"
#include "common/cpu/simd/rows_impl.h"
