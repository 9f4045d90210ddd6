/* rows.c - the kernel sets of this build that this machine can run; see rows.h */
#include "common/cpu/simd/rows.h"

#include "common/cpu/simd/isa.h"

#if defined(__x86_64__)
static const cpu_rows *const sets_avx512[] = { &cpu_rows_avx512, &cpu_rows_avx2, &cpu_rows_plain,
                                               NULL };
static const cpu_rows *const sets_avx2[] = { &cpu_rows_avx2, &cpu_rows_plain, NULL };
#endif
static const cpu_rows *const sets_plain[] = { &cpu_rows_plain, NULL };

const cpu_rows *const *cpu_rows_sets(void)
{
#if defined(__x86_64__)
    cpu_isa isa;
    if (cpu_isa_open(&isa, NULL, NULL) == 0 && isa.avx512)
        return sets_avx512;
    if (isa.avx2)
        return sets_avx2;
#endif
    return sets_plain;
}
