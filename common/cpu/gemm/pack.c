/* pack.c - packs operands of any layout and type for the products of gemm.h. */
#include "common/cpu/gemm/gemm.h"

#include <string.h>

cpu_vectors cpu_rows_of(const vt_tensor *a, bool ta)
{
    return (cpu_vectors){ .data = a->data, .type = a->dtype, .stride = (size_t)a->stride[0],
                          .along = !ta };
}

cpu_vectors cpu_columns_of(const vt_tensor *b, bool tb)
{
    cpu_vectors x = { .data = b->data, .type = b->dtype, .stride = (size_t)b->stride[0],
                      .along = tb };
    const vt_tensor *s = b->scale;

    if (s) {
        x.scale = s->data;
        x.scales = s->nd > 1 ? (size_t)s->dim[1] : 1;
        x.block = (size_t)b->dim[1] / x.scales;
    }
    return x;
}

/* Codes are unpacked, and multiplied in bf16 or f32, which costs a tenth of a product of 512 tokens
 * and a hundredth of one of 4096 (bench_kernels 1 1 codes). Processors' products of int8 need the
 * other operand in int8 too, which the user chooses (matmul_int8.c). */
void cpu_unpack(const cpu_rows *r, float *to, const cpu_vectors *x, size_t row, size_t at,
                size_t n)
{
    const size_t first = row * x->stride + at, skip = x->type == VC_NF4 ? first % 2 : 0;
    const char *p = (const char *)x->data + vc_dtype_bytes(x->type, first - skip);
    size_t i = 0;

    if (skip && n)                             /* the second half of a byte */
        to[i++] = vc_nf4[*(const uint8_t *)p++ & 15];
    r->load(to + i, p, x->type, n - i);
    for (size_t m; n > 0 && x->scale; n -= m, to += m, at += m) {
        const size_t b = at / x->block, left = (b + 1) * x->block - at;
        m = left < n ? left : n;
        r->axpby(to, x->scale[row * x->scales + b], to, 0, m);
    }
}

enum { STAGE_N = 128 };                        /* most units staged on the stack along a row */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static const char *element(cpu_vectors x, size_t i, size_t k)
{
    size_t at = x.along ? i * x.stride + k : k * x.stride + i;
    return (const char *)x.data + vc_dtype_bytes(x.type, at);
}

/* Packs one unit of n vectors whose elements lie across: row k and, in a pair, the next row. */
static void fetch_across(const cpu_gemm *g, uint32_t *dst, cpu_vectors x, size_t i, size_t n,
                         size_t k, size_t last)
{
    const bool two = g->pair > 1 && k + 1 < last;
    float f[2][STAGE_N];

    if (x.scale) {
        cpu_unpack(g->row_kernels, f[0], &x, k, i, n);
        if (two)
            cpu_unpack(g->row_kernels, f[1], &x, k + 1, i, n);
        g->across(dst, f[0], two ? f[1] : NULL, VC_F32, n);
        return;
    }
    g->across(dst, element(x, i, k), two ? element(x, i, k + 1) : NULL, x.type, n);
}

/* Packs elements k..k+n of vector i, which lie along. */
static void fetch_along(const cpu_gemm *g, uint32_t *dst, cpu_vectors x, size_t i, size_t k,
                        size_t n)
{
    float f[STAGE_N];

    if (!x.scale) {
        g->along(dst, element(x, i, k), x.type, n);
        return;
    }
    for (size_t m; n > 0; n -= m, k += m, dst += m / (size_t)g->pair) {
        m = least(n, STAGE_N);
        cpu_unpack(g->row_kernels, f, &x, i, k, m);
        g->along(dst, f, VC_F32, m);
    }
}

enum {
    STAGE_K = 32,                              /* units staged on the stack to be transposed */
    AHEAD = 16                                 /* rows of k prefetched: each may lie on its own
                                                * page, which processors do not prefetch */
};

/* Prefetches row k of n vectors whose elements lie across. */
static void expect(cpu_vectors x, size_t i, size_t n, size_t k, size_t last)
{
    if (k >= last)
        return;
    const char *at = element(x, i, k), *end = at + vc_dtype_bytes(x.type, n);
    for (; at < end; at += 64)
        __builtin_prefetch(at);
}

void cpu_pack_a(const cpu_gemm *g, uint32_t *dst, size_t lda, cpu_vectors x, size_t i0, size_t n,
                size_t k0, size_t k)
{
    size_t pair = (size_t)g->pair, used = (k + pair - 1) / pair, units = cpu_units(g, k);

    if (x.along) {
        for (size_t i = 0; i < n; i++)
            fetch_along(g, dst + i * lda, x, i0 + i, k0, k);
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
    const size_t stride = vc_dtype_bytes(x.type, x.stride), bytes = vc_dtype_bytes(x.type, n);
    uintptr_t at = (uintptr_t)x.data + vc_dtype_bytes(x.type, i * x.stride + k);

    for (size_t j = 0; j < nr; j++, at += stride)
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
            fetch_along(g, stage + j * LD, x, i + j, at, n);
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
