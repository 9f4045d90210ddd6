/* kernels_emulated.c - the AMX kernels' own source over tiles in plain C and in 16 lanes, on any
 * machine. */
#define CPU_AMX_EMULATE
#define VW 16
#define GEMM_SET cpu_gemm_emulated
#define GEMM_NAME "emulated"
#define GEMM_ROWS cpu_rows_plain
#include "common/cpu/gemm/amx.h"
