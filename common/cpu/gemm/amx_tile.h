/* amx_tile.h - the tile operations that the AMX kernels use: Intel's, or the same in plain C.
 *
 * A tile is 16 rows of 64 bytes. tile_mul adds to 16 x 16 f32 the product of 16 rows of 16 pairs of
 * bf16 (A) and 16 pair rows of 16 columns (B). Tile numbers are constants 0..7. With
 * CPU_AMX_EMULATE the tiles are an array of the thread: the tests run the kernels' own source that
 * way on machines without AMX. Strides are in bytes. */
#ifndef COMMON_CPU_GEMM_AMX_TILE_H
#define COMMON_CPU_GEMM_AMX_TILE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef CPU_AMX_EMULATE
#include <immintrin.h>

/* gcc's intrinsics do not declare that they read and write memory (the configuration declares only
 * its first eight bytes), so fences keep stores before a load, and reads after a store. */
#define TILE_FENCE() __asm__ volatile("" ::: "memory")
#define tile_zero(t) _tile_zero(t)
#define tile_load(t, p, stride) do { TILE_FENCE(); _tile_loadd(t, p, stride); } while (0)
#define tile_store(t, p, stride) do { _tile_stored(t, p, stride); TILE_FENCE(); } while (0)
#define tile_mul(c, a, b) _tile_dpbf16ps(c, a, b)

/* Configures eight full tiles. */
static inline void tile_begin(void)
{
    static const struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {
        .palette = 1,
        .bytes = { 64, 64, 64, 64, 64, 64, 64, 64 },
        .rows = { 16, 16, 16, 16, 16, 16, 16, 16 },
    };
    _tile_loadconfig(&config);
}
static inline void tile_end(void) { _tile_release(); }

#else

typedef struct tile { uint32_t at[16][16]; } tile;
static _Thread_local tile tiles_[8];
#define tile_zero(t) memset(&tiles_[t], 0, sizeof(tile))
#define tile_load(t, p, stride) tile_copy_in(&tiles_[t], p, stride)
#define tile_store(t, p, stride) tile_copy_out(&tiles_[t], p, stride)
#define tile_mul(c, a, b) tile_multiply(&tiles_[c], &tiles_[a], &tiles_[b])

static inline void tile_begin(void) {}
static inline void tile_end(void) {}

static inline void tile_copy_in(tile *t, const void *p, size_t stride)
{
    for (size_t i = 0; i < 16; i++)
        memcpy(t->at[i], (const char *)p + i * stride, 64);
}

static inline void tile_copy_out(const tile *t, void *p, size_t stride)
{
    for (size_t i = 0; i < 16; i++)
        memcpy((char *)p + i * stride, t->at[i], 64);
}

/* Sanitizers leave this and the product out, whose constant bounds are those of the tiles, and
 * which would take most of the time of the tests. */
#define TILE_PLAIN __attribute__((no_sanitize("address", "undefined")))

TILE_PLAIN static inline float tile_half(uint32_t pair, int which)
{
    uint32_t u = which ? pair & 0xffff0000u : pair << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* Every element has its products in the order of k. */
TILE_PLAIN static void tile_multiply(tile *c, const tile *a, const tile *b)
{
    float half[16][2][16], sum[16][16];
    for (int k = 0; k < 16; k++)
        for (int h = 0; h < 2; h++)
            for (int j = 0; j < 16; j++)
                half[k][h][j] = tile_half(b->at[k][j], h);
    memcpy(sum, c->at, sizeof sum);
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 16; k++)
            for (int h = 0; h < 2; h++) {
                const float x = tile_half(a->at[i][k], h);
                for (int j = 0; j < 16; j++)
                    sum[i][j] += x * half[k][h][j];
            }
    memcpy(c->at, sum, sizeof sum);
}

#endif
#endif
