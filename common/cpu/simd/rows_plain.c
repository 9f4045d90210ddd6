/* rows_plain.c - rows.h for any machine: the compiler's base target. */
#define ROWS_SET cpu_rows_plain
#define ROWS_NAME "plain"
#include "common/cpu/simd/rows_impl.h"
