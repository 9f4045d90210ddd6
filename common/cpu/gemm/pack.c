/* pack.c - packs operands of any layout and type for the products of gemm.h. */
#include "common/cpu/gemm/gemm.h"

#include <string.h>

cpu_vectors cpu_rows_of(const vt_tensor *a, bool ta)
{
    return (cpu_vectors){ a->data, a->dtype, (size_t)a->stride[0], !ta };
}

cpu_vectors cpu_columns_of(const vt_tensor *b, bool tb)
{
    return (cpu_vectors){ b->data, b->dtype, (size_t)b->stride[0], tb };
}

static const char *element(cpu_vectors x, size_t i, size_t k)
{
    size_t at = x.along ? i * x.stride + k : k * x.stride + i;
    return (const char *)x.data + at * vc_dtype_size(x.type);
}

/* Packs one unit of n vectors whose elements lie across: row k and, in a pair, the next row. */
static void fetch_across(const cpu_gemm *g, uint32_t *dst, cpu_vectors x, size_t i, size_t n,
                         size_t k, size_t last)
{
    const char *row1 = g->pair > 1 && k + 1 < last ? element(x, i, k + 1) : NULL;
    g->across(dst, element(x, i, k), row1, x.type, n);
}

enum {
    STAGE_K = 32, STAGE_N = 128,               /* units staged on the stack to be transposed */
    AHEAD = 16                                 /* rows of k prefetched: each may lie on its own
                                                * page, which processors do not prefetch */
};

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Prefetches row k of n vectors whose elements lie across. */
static void expect(cpu_vectors x, size_t i, size_t n, size_t k, size_t last)
{
    if (k >= last)
        return;
    const char *at = element(x, i, k), *end = at + n * vc_dtype_size(x.type);
    for (; at < end; at += 64)
        __builtin_prefetch(at);
}

void cpu_pack_a(const cpu_gemm *g, uint32_t *dst, size_t lda, cpu_vectors x, size_t i0, size_t n,
                size_t k0, size_t k)
{
    size_t pair = (size_t)g->pair, used = (k + pair - 1) / pair, units = cpu_units(g, k);

    if (x.along) {
        for (size_t i = 0; i < n; i++)
            g->along(dst + i * lda, element(x, i0 + i, k0), x.type, k);
    } else {
        uint32_t stage[STAGE_K * STAGE_N];
        for (size_t i = 0; i < n; i += STAGE_N)
            for (size_t u = 0; u < used; u += STAGE_K) {
                size_t nn = least(STAGE_N, n - i), nu = least(STAGE_K, used - u);
                for (size_t j = 0; j < nu; j++) {
                    expect(x, i0 + i, nn, k0 + (u + j + AHEAD) * pair, k0 + k);
                    fetch_across(g, stage + j * STAGE_N, x, i0 + i, nn, k0 + (u + j) * pair,
                                 k0 + k);
                }
                g->transpose(dst + i * lda + u, lda, stage, STAGE_N, nu, nn);
            }
    }
    if (units > used)
        for (size_t i = 0; i < n; i++)
            memset(dst + i * lda + used, 0, (units - used) * 4);
}

/* Prefetches elements k..k+n of nr vectors along k to the second-level cache: rows of a matrix are
 * often a power of two apart, and so many of them would displace each other in the first. The
 * vectors may lie behind the operand: to prefetch memory that does not exist has no effect. */
static void expect_along(size_t nr, cpu_vectors x, size_t i, size_t k, size_t n)
{
    size_t size = vc_dtype_size(x.type);
    uintptr_t at = (uintptr_t)x.data + (i * x.stride + k) * size, bytes = n * size;

    for (size_t j = 0; j < nr; j++, at += x.stride * size)
        for (uintptr_t c = 0; c < bytes; c += 64)
            __builtin_prefetch((const void *)(at + c), 0, 2);
}

/* Returns true if vectors along k consist of units in memory already. */
static bool has_units(const cpu_gemm *g, cpu_vectors x, size_t k)
{
    size_t pair = (size_t)g->pair;

    return x.type == (pair == 1 ? VC_F32 : VC_BF16) && k % pair == 0 && x.stride % pair == 0 &&
           (uintptr_t)x.data % 4 == 0;
}

/* Packs one panel from nn vectors along k, which are transposed. They are staged unless they are
 * whole units already. The next panel's elements are prefetched. */
static void panel_along(const cpu_gemm *g, uint32_t *dst, cpu_vectors x, size_t i, size_t nn,
                        size_t k0, size_t k)
{
    enum { STEP = 32, LD = STEP + 8 };              /* LD: no power of two, to spread cache sets */
    size_t pair = (size_t)g->pair, nr = (size_t)g->nr, used = (k + pair - 1) / pair;
    bool as_is = nn == nr && has_units(g, x, k0 | k);
    uint32_t stage[CPU_NR * LD];

    for (size_t j = nn; j < nr; j++)
        memset(stage + j * LD, 0, STEP * 4);
    for (size_t u = 0; u < used; u += STEP) {
        size_t nu = least(STEP, used - u), at = k0 + u * pair, n = least(nu * pair, k - u * pair);
        expect_along(nr, x, i + nr, at, n);
        for (size_t j = 0; j < nn && !as_is; j++)
            g->along(stage + j * LD, element(x, i + j, at), x.type, n);
        const uint32_t *from = as_is ? (const uint32_t *)element(x, i, at) : stage;
        g->transpose(dst + u * nr, nr, from, as_is ? x.stride / pair : LD, nr, nu);
    }
}

/* Packs all panels from vectors across: each slice of k is distributed to the panels. */
static void panels_across(const cpu_gemm *g, uint32_t *dst, size_t pb, cpu_vectors x, size_t i0,
                          size_t n, size_t k0, size_t k)
{
    size_t pair = (size_t)g->pair, nr = (size_t)g->nr, used = (k + pair - 1) / pair;
    enum { STEP = 8 };                        /* divides every nr; memcpy of a constant size */
    uint32_t stage[STAGE_N];

    for (size_t i = 0; i < n; i += STAGE_N) {
        size_t nn = least(STAGE_N, n - i), full = cpu_round_up(nn, nr);
        memset(stage + nn, 0, (full - nn) * 4);
        bool as_is = pair == 1 && x.type == VC_F32 && nn == full;
        for (size_t u = 0; u < used; u++) {
            expect(x, i0 + i, nn, k0 + (u + AHEAD) * pair, k0 + k);
            const char *from = as_is ? element(x, i0 + i, k0 + u) : (const char *)stage;
            if (!as_is)
                fetch_across(g, stage, x, i0 + i, nn, k0 + u * pair, k0 + k);
            uint32_t *to = dst + i / nr * pb + u * nr;
            for (size_t j = 0; j < full; j += nr, to += pb)
                for (size_t c = 0; c < nr; c += STEP)
                    memcpy(to + c, from + (j + c) * 4, STEP * 4);
        }
    }
}

void cpu_pack_b(const cpu_gemm *g, uint32_t *dst, size_t pb, cpu_vectors x, size_t i0, size_t n,
                size_t k0, size_t k)
{
    size_t pair = (size_t)g->pair, nr = (size_t)g->nr;
    size_t used = (k + pair - 1) / pair, units = cpu_units(g, k);

    if (x.along)
        for (size_t i = 0; i < n; i += nr)
            panel_along(g, dst + i / nr * pb, x, i0 + i, least(nr, n - i), k0, k);
    else
        panels_across(g, dst, pb, x, i0, n, k0, k);
    if (units > used)
        for (size_t i = 0; i < n; i += nr)
            memset(dst + i / nr * pb + used * nr, 0, (units - used) * nr * 4);
}
