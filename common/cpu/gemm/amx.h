/* amx.h - gemm.h in bf16 on AMX tiles; a unit is a pair of bf16. amx.c and the tests' emulation
 * define GEMM_SET, GEMM_NAME and GEMM_ROWS, and include this file.
 *
 * A block of 32 x 32 of C is four tiles; two tiles of A and two of B feed four products. A panel
 * of B is two tiles wide, [k][32] units. */
#include "common/cpu/gemm/amx_tile.h"
#include "common/cpu/gemm/gemm.h"
#include "common/cpu/simd/vec.h"

enum { TILE = 16, PANEL = 2 * TILE };

/* ---- products ---- */

/* Computes 32 (with `one`, 16) full rows of 32 columns of C. */
static void tiles(bool one, size_t k, const uint32_t *a, size_t lda, const uint32_t *b, float *c,
                  size_t ldc, bool add)
{
    TILES;
    const uint32_t *a1 = a + TILE * lda;
    float *c1 = c + TILE * ldc;
    size_t as = lda * 4, bs = PANEL * 4, cs = ldc * 4;

    tile_zero(0);
    tile_zero(1);
    tile_zero(2);
    tile_zero(3);
    if (add) {
        tile_load(0, c, cs);
        tile_load(1, c + TILE, cs);
        if (!one) {
            tile_load(2, c1, cs);
            tile_load(3, c1 + TILE, cs);
        }
    }
    for (size_t p = 0; p < k; p += TILE) {
        tile_load(4, a + p, as);
        tile_load(6, b + p * PANEL, bs);
        tile_mul(0, 4, 6);
        tile_load(7, b + p * PANEL + TILE, bs);
        tile_mul(1, 4, 7);
        if (one)
            continue;
        tile_load(5, a1 + p, as);
        tile_mul(2, 5, 6);
        tile_mul(3, 5, 7);
    }
    tile_store(0, c, cs);
    tile_store(1, c + TILE, cs);
    if (!one) {
        tile_store(2, c1, cs);
        tile_store(3, c1 + TILE, cs);
    }
}

/* Computes a block where C ends inside a tile, by way of a whole block, with the same order of
 * sums. */
static void edge(size_t m, size_t n, size_t k, const uint32_t *a, size_t lda, const uint32_t *b,
                 float *c, size_t ldc, bool add)
{
    float block[PANEL * PANEL] = { 0 };

    for (size_t i = 0; add && i < m; i++)
        memcpy(block + i * PANEL, c + i * ldc, n * 4);
    tiles(m <= TILE, k, a, lda, b, block, PANEL, true);
    for (size_t i = 0; i < m; i++)
        memcpy(c + i * ldc, block + i * PANEL, n * 4);
}

static void amx_block(size_t m, size_t n, size_t k, const uint32_t *a, size_t lda,
                      const uint32_t *b, size_t pb, float *c, size_t ldc, bool add)
{
    for (size_t j = 0; j < n; j += PANEL, b += pb)
        for (size_t i = 0; i < m; i += PANEL) {
            size_t rows = m - i < PANEL ? m - i : PANEL, cols = n - j < PANEL ? n - j : PANEL;
            float *cij = c + i * ldc + j;
            if (rows % TILE == 0 && cols == PANEL)
                tiles(rows == TILE, k, a + i * lda, lda, b, cij, ldc, add);
            else
                edge(rows, cols, k, a + i * lda, lda, b, cij, ldc, add);
        }
}

/* ---- packing ---- */

/* Loads up to VW elements of any type as bf16 bits, one per lane; lanes past n are 0. */
static inline vu bits(const void *src, vc_dtype t, size_t i, size_t n)
{
    size_t k = n - i < VW ? n - i : VW;
    if (t == VC_BF16) {
        vu16 h = { 0 };
        memcpy(&h, (const uint16_t *)src + i, k * 2);
        return __builtin_convertvector(h, vu);
    }
    float f[VW] = { 0 };
    GEMM_ROWS.load(f, (const char *)src + i * vc_dtype_size(t), t, k);
    return __builtin_convertvector(v_to_bf16(v_load(f)), vu);
}

static void amx_along(uint32_t *dst, const void *src, vc_dtype t, size_t n)
{
    if (n & 1)
        dst[n / 2] = 0;
    if (t == VC_BF16) {
        memcpy(dst, src, n * 2);
        return;
    }
    for (size_t i = 0; i < n; i += VW) {
        vu16 h = __builtin_convertvector(bits(src, t, i, n), vu16);
        memcpy((uint16_t *)dst + i, &h, n - i < VW ? (n - i) * 2 : sizeof h);
    }
}

static void amx_across(uint32_t *dst, const void *row0, const void *row1, vc_dtype t, size_t n)
{
    for (size_t i = 0; i < n; i += VW) {
        vu u = bits(row0, t, i, n);
        if (row1)
            u |= bits(row1, t, i, n) << 16;
        memcpy(dst + i, &u, n - i < VW ? (n - i) * 4 : sizeof u);
    }
}

#include "common/cpu/gemm/transpose.h"

/* ---- softmax ---- */

static void put_bf16(uint16_t *p, vf x)
{
    vu16 h = v_to_bf16(x);
    memcpy(p, &h, sizeof h);
}

static void amx_softmax(const cpu_softmax *x)
{
    for (int r = 0; r < x->rows; r++) {
        float *s = x->s + (size_t)r * x->lds;
        uint16_t *p = (uint16_t *)(x->p + (size_t)r * x->ldp);
        float top = most(s, (size_t)x->n) * x->scale;
        if (top > x->max[r]) {
            rescale(x, r, x->max[r], top);
            x->max[r] = top;
        }
        float max = x->max[r];
        vf sum = { 0 };
        for (int i = 0; i < x->np; i += VW) {
            vf e = v_exp2(v_load(s + i) * x->scale - max);
            if (i + VW > x->n)
                e = v_if(v_lanes() < x->n - i, e, v_set(0));
            put_bf16(p + i, e);
            sum += e;
        }
        x->sum[r] += v_sum(sum);
    }
}

/* Computes one row's P and dS at queries j.. and stores them as A; returns dS. */
static inline vf grad_row(const cpu_softmax_grad *x, int r, int j)
{
    const float *s = x->s + (size_t)r * x->lds + j, *dp = x->dp + (size_t)r * x->lds + j;
    vf e = v_exp2(v_load(s) * x->scale - v_load(x->lse + j));
    vf d = e * (v_load(dp) - v_load(x->delta + j));

    put_bf16((uint16_t *)(x->p + (size_t)r * x->ldp) + j, e);
    put_bf16((uint16_t *)(x->ds + (size_t)r * x->ldp) + j, d);
    return d;
}

static void amx_softmax_grad(const cpu_softmax_grad *x)
{
    for (int j = 0; j < x->n; j += VW) {
        uint32_t *panel = x->panels + (size_t)(j / PANEL) * x->pb + j % PANEL;
        for (int r = 0; r < x->padded; r += 2, panel += PANEL) {
            vu pair = { 0 };
            if (r < x->rows)
                pair = __builtin_convertvector(v_to_bf16(grad_row(x, r, j)), vu);
            if (r + 1 < x->rows)
                pair |= __builtin_convertvector(v_to_bf16(grad_row(x, r + 1, j)), vu) << 16;
            memcpy(panel, &pair, sizeof pair);
        }
    }
}

static void amx_begin(void) { tile_begin(); }
static void amx_end(void) { tile_end(); }

const cpu_gemm GEMM_SET = {
    .name = GEMM_NAME,
    .pair = 2,
    .nr = PANEL,
    .kr = TILE,
    .mr = PANEL,
    .begin = amx_begin,
    .end = amx_end,
    .block = amx_block,
    .along = amx_along,
    .across = amx_across,
    .transpose = transpose_units,
    .softmax = amx_softmax,
    .softmax_grad = amx_softmax_grad,
};
