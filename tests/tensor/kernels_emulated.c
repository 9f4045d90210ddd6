/* kernels_emulated.c - the source of the AMX kernels, compiled for any machine: tiles in plain C,
 * vectors of 16 lanes. */
#define CPU_AMX_EMULATE
#define VW 16
#define GEMM_SET cpu_gemm_emulated
#define GEMM_NAME "emulated"
#define GEMM_ROWS cpu_rows_plain
#include "common/cpu/gemm/amx.h"
