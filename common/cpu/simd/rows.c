/* rows.c - the kernels of rows.h for the instructions that may be used */
#include <math.h>

#include "common/cpu/simd/rows.h"
#include "common/kernels/moments.h"

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

void cpu_codes_of(cpu_codes *c, float (*value)(uint8_t), bool square)
{
    c->square = square;
    for (int i = 0; i < 256; i++)
        c->value[i] = value((uint8_t)i);
    for (int i = 0; i < 255; i++)
        c->border[i] = 0.5f * (c->value[i] + c->value[i + 1]);
    c->border[255] = INFINITY;
    for (int i = 0, n = 0; i < CPU_CODE_BUCKETS; i++) {
        float lowest = i ? vk_float(CPU_CODE_LEAST + ((uint32_t)i << 16)) : 0;
        while (lowest > c->border[n])
            n++;
        c->first[i] = n;
    }
    for (int i = CPU_CODE_BUCKETS - 1, n = 0; i >= 0; i--) {
        float lowest = -vk_float(CPU_CODE_LEAST + ((uint32_t)i << 16) + 0xffff);
        while (lowest > c->border[n])
            n++;
        c->first[CPU_CODE_BUCKETS + i] = n;
    }
}
