/* amx.h - gemm.h in bf16 on AMX tiles; a unit is a pair of bf16. amx.c and the tests' emulation
 * define GEMM_SET, GEMM_NAME and GEMM_ROWS, and include this file.
 *
 * A block of 32 x 32 of C is four tiles; two tiles of A and two of B feed four products. A panel
 * of B is two tiles wide, [k][32] units. */
#include "common/cpu/gemm/amx_tile.h"
#include "common/cpu/gemm/pairs.h"

enum { TILE = PANEL / 2 };

/* Computes 32 (with `one`, 16) full rows of 32 columns of C. */
static void tiles(bool one, size_t k, const uint32_t *a, size_t lda, const uint32_t *b, float *c,
                  size_t ldc, bool add)
{
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

#include "common/cpu/gemm/amx_attn.h"

static void amx_begin(void) { tile_begin(); }
static void amx_end(void) { tile_end(); }

const cpu_gemm GEMM_SET = {
    .name = GEMM_NAME,
    .row_kernels = &GEMM_ROWS,
    .pair = 2,
    .nr = PANEL,
    .kr = TILE,
    .mr = PANEL,
    .rows = PANEL,
    .step = 256,
    .columns = 768,
    .begin = amx_begin,
    .end = amx_end,
    .block = amx_block,
    .along = pairs_along,
    .across = pairs_across,
    .transpose = transpose_units,
    .softmax = softmax,
    .attend = amx_attend,
    .queries = 256,
    .scores_grad = amx_scores_grad,
    .scores = true,
};
