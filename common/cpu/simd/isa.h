/* isa.h - the instruction sets that this machine can run, and the one in use. */
#ifndef COMMON_CPU_SIMD_ISA_H
#define COMMON_CPU_SIMD_ISA_H

#include <stdbool.h>

#include "common/base/err.h"

/* The result of probing the machine and of the options. */
typedef struct cpu_isa {
    bool avx2, avx512, avx512_bf16, amx_bf16;   /* usable now: CPU, kernel and permission */
    const char *set;                            /* in use: "plain", "avx2", "avx512", "amx" */
} cpu_isa;
/* Probes the machine, requests AMX from the kernel and applies a forced set name. VC_EINVAL lists
 * the sets that this machine can run. */
int cpu_isa_open(cpu_isa *isa, const char *forced, vc_err *err);

#endif
