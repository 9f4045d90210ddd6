/* isa.h - the instruction sets that this machine can run, and the one in use. */
#ifndef COMMON_CPU_SIMD_ISA_H
#define COMMON_CPU_SIMD_ISA_H

#include <stdbool.h>

#include "common/base/err.h"

/* The result of probing the machine and of the options. */
typedef struct cpu_isa {
    bool avx2, avx512, avx512_bf16, amx_bf16;   /* usable now: CPU, kernel and permission */
    bool slow_bf16;                             /* AVX512-BF16's products take longer than f32's, as
                                                 * on Intel's processors (docs/engine.md) */
    const char *set;                            /* in use: "plain", "avx2", "avx512", "avx512_bf16",
                                                 * "amx" */
} cpu_isa;
/* Probes the machine, requests AMX from the kernel and chooses a set. */
int cpu_isa_open(cpu_isa *isa, const char *forced, vc_err *err);
/* Chooses the forced set, or the best of those that isa's machine can run, and clears the features
 * above the set; avx512_bf16 is not the best one where it is slow. VC_EINVAL lists the sets that
 * the machine can run. */
int cpu_isa_choose(cpu_isa *isa, const char *forced, vc_err *err);

#endif
