/* rows_avx512.c - rows.h for AVX-512 F, BW, DQ and VL, 16 lanes. */
#define ROWS_SET cpu_rows_avx512
#define ROWS_NAME "avx512"
#include "common/cpu/simd/rows_impl.h"
