/* isa.h - the instruction sets that this machine can run, and the one in use. */
#ifndef COMMON_CPU_SIMD_ISA_H
#define COMMON_CPU_SIMD_ISA_H

#include <stdbool.h>

#include "common/base/err.h"

/* What start-up probing found and the options chose. */
typedef struct cpu_isa {
    bool avx2, avx512, avx512_bf16, amx_bf16;   /* usable now: CPU, kernel and permission */
    const char *set;                            /* in use: "plain", "avx2", "avx512", "amx" */
} cpu_isa;
/* Probes, asks the kernel for AMX, applies a forced name (VC_EINVAL lists what this machine can
 * run). */
int cpu_isa_open(cpu_isa *isa, const char *forced, vc_err *err);

#endif
