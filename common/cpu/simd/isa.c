/* isa.c - detects the kernel sets that this machine can run. */
#include "common/cpu/simd/isa.h"

#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux grants the 8 KB of AMX tile state only to processes that request this state. */
static bool ask_for_tiles(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

/* Returns XCR0, whose bits are the register states that the operating system saves. */
static unsigned saved_state(void)
{
    unsigned a, b, c, d;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return a;
}

static void probe(cpu_isa *isa)
{
    enum { YMM = 0x6, ZMM = 0xe6, TILES = 0x60000 };
    unsigned a, b, c, d, c1 = 0, saved = saved_state();

    if (__get_cpuid(1, &a, &b, &c, &d))
        c1 = c;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return;
    bool fma = c1 >> 12 & 1, f16c = c1 >> 29 & 1;
    bool f512 = (b >> 16 & 1) && (b >> 17 & 1) && (b >> 30 & 1) && (b >> 31 & 1);  /* F DQ BW VL */
    bool amx = (d >> 22 & 1) && (d >> 24 & 1);                                     /* BF16 TILE */

    isa->avx2 = (b >> 5 & 1) && fma && f16c && (saved & YMM) == YMM;
    isa->avx512 = isa->avx2 && f512 && (saved & ZMM) == ZMM;
    isa->avx512_bf16 = isa->avx512 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
    isa->amx_bf16 = isa->avx512_bf16 && amx && (saved & TILES) == TILES && ask_for_tiles();
    isa->slow_bf16 = __get_cpuid(0, &a, &b, &c, &d) && b == signature_INTEL_ebx;
}
#else
static void probe(cpu_isa *isa) { (void)isa; }
#endif

int cpu_isa_choose(cpu_isa *isa, const char *forced, vc_err *err)
{
    const struct { const char *name; bool runs, slow; } sets[] = {
        { "plain", true, false },
        { "avx2", isa->avx2, false },
        { "avx512", isa->avx512, false },
        { "avx512_bf16", isa->avx512_bf16, isa->slow_bf16 },
        { "amx", isa->amx_bf16, false },
    };
    enum { SETS = sizeof sets / sizeof *sets };
    char can[64] = "";
    int best = 0, pick = -1;

    for (int i = 0; i < SETS; i++) {
        if (!sets[i].runs)
            continue;
        best = sets[i].slow ? best : i;
        snprintf(can + strlen(can), sizeof can - strlen(can), "%s%s", i ? ", " : "", sets[i].name);
        if (forced && !strcmp(forced, sets[i].name))
            pick = i;
    }
    if (!forced)
        pick = best;
    if (pick < 0)
        return vc_fail(err, VC_EINVAL, "kernel set \"%s\": this machine can run %s", forced, can);
    isa->set = sets[pick].name;
    isa->avx2 &= pick >= 1;                       /* sets above the chosen one are disabled */
    isa->avx512 &= pick >= 2;
    isa->avx512_bf16 &= pick >= 3;
    isa->amx_bf16 &= pick >= 4;
    return 0;
}

int cpu_isa_open(cpu_isa *isa, const char *forced, vc_err *err)
{
    *isa = (cpu_isa){ 0 };
    probe(isa);
    return cpu_isa_choose(isa, forced, err);
}
