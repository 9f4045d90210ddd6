/* device.c - what kernels ask the device for: scratch memory, threads, products; and their faults.
 * See cpu.h */
#include "common/cpu/cpu.h"

#include <omp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { ALIGN = 64, HUGE = 2 << 20 };           /* bytes */

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* ---- scratch memory and faults ---- */

static size_t scratch_size(size_t bytes) { return round_up(bytes, 4096); }

/* Large areas get huge pages: packed operands are read all over, and every page costs a look-up. The
 * rest behind the last whole one has small pages, so that it takes no more than was predicted,
 * whether or not the system has huge ones left. */
void *cpu_scratch(vt_dev *d, int t, size_t bytes)
{
    if (d->scratch_bytes[t] >= bytes)
        return d->scratch[t];
    void *area = NULL;
    free(d->scratch[t]);
    bytes = scratch_size(bytes);
    const bool lacks = posix_memalign(&area, bytes < HUGE ? ALIGN : HUGE, bytes);
    d->scratch[t] = lacks ? NULL : area;
    d->scratch_bytes[t] = lacks ? 0 : bytes;
    if (lacks)
        cpu_fault(d, VC_ENOMEM, "no memory for %zu bytes of scratch", bytes);
    else if (bytes >= HUGE)
        madvise(d->scratch[t], bytes / HUGE * HUGE, MADV_HUGEPAGE);
    return d->scratch[t];
}

bool cpu_scratch_one(vt_dev *d, int t, size_t bytes)
{
    if (d->dry && d->scratch_need[t] < bytes)
        d->scratch_need[t] = scratch_size(bytes);
    return !d->dry && (bytes == 0 || cpu_scratch(d, t, bytes));
}

bool cpu_scratch_all(vt_dev *d, int threads, size_t first, size_t each)
{
    for (int t = 0; t < threads; t++)
        if (!cpu_scratch_one(d, t, t ? each : first) && !d->dry)
            return false;
    return !d->dry;
}

size_t cpu_dry(vt_dev *d, bool dry)
{
    size_t sum = 0;

    for (int t = 0; t < cpu_areas(d); t++) {
        if (!dry || !d->dry)
            d->scratch_need[t] = 0;
        sum += d->scratch_need[t] > d->scratch_bytes[t] ? d->scratch_need[t] : d->scratch_bytes[t];
    }
    d->dry = dry;
    return sum;
}

void cpu_fault(vt_dev *d, int code, const char *fmt, ...)
{
    #pragma omp critical(cpu_fault)
    if (!d->fault) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(d->fault_text, sizeof d->fault_text, fmt, ap);
        va_end(ap);
        d->fault = code;
    }
}

/* ---- threads and products ---- */

int cpu_team(int most)
{
    int limit = omp_in_parallel() ? 1 : omp_get_thread_limit();

    if (omp_get_dynamic())
        omp_set_dynamic(0);
    return most < limit ? most : limit;
}

const cpu_gemm *cpu_gemm_of(const vt_dev *d, vc_dtype t)
{
#if defined(__x86_64__)
    if (d->isa.amx_bf16 && t == VC_BF16)
        return &cpu_gemm_amx;
    if (d->isa.avx512_bf16 && t == VC_BF16)
        return &cpu_gemm_avx512_bf16;
    if (d->isa.avx512)
        return &cpu_gemm_avx512;
    if (d->isa.avx2)
        return &cpu_gemm_avx2;
#else
    (void)d, (void)t;
#endif
    return &cpu_gemm_plain;
}
