/* rows_avx2.c - rows.h for AVX2, FMA and F16C, 8 lanes. */
#define ROWS_SET cpu_rows_avx2
#define ROWS_NAME "avx2"
#include "common/cpu/simd/rows_impl.h"
