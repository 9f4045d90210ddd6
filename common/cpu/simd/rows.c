/* rows.c - the kernels of rows.h for the instructions that may be used */
#include "common/cpu/simd/rows.h"

const cpu_rows *cpu_rows_for(const cpu_isa *isa)
{
#if defined(__x86_64__)
    if (isa->avx512_bf16)
        return &cpu_rows_avx512_bf16;
    if (isa->avx512)
        return &cpu_rows_avx512;
    if (isa->avx2)
        return &cpu_rows_avx2;
#else
    (void)isa;
#endif
    return &cpu_rows_plain;
}
