/* moments.h - state of an optimiser in fewer bits than f32: bf16 with stochastic rounding, and
 * codes of eight bits. The CPU backend computes with these functions too.
 *
 * Stochastic rounding rounds up with the probability that makes the expected value exact, so that
 * updates below half a unit of the last place are not lost. Its draws are a function of a counter
 * (pack, value and step) under the parameter's key.
 *
 * Eight bits are the dynamic map of Dettmers, "8-bit approximations for parallelism in deep
 * learning" (2016), scaled by the largest magnitude of each block of 256 elements (Dettmers et al.,
 * "8-bit optimizers via block-wise quantization", 2022). The range from 0 to 1 consists of decades;
 * each decade has twice as many values as the one below, at the midpoints of equal parts. With
 * j = floor(log2 n), level n has the value
 *
 *     10^(j - top) (0.1 + 0.9 (n - 2^j + 0.5) / 2^j)      n = first .. 2^(top+1) - 1
 *
 * and the level below all these is 0, the one above is 1. A first moment (m) has a sign and top 6;
 * a second one (v), which is never negative, has none and top 7. Codes count the values in
 * ascending order. */
#ifndef COMMON_KERNELS_MOMENTS_H
#define COMMON_KERNELS_MOMENTS_H

#include "common/kernels/row.h"

/* ---- stochastic rounding ---- */

enum { VK_ROUND_W, VK_ROUND_STATE };           /* the value that is rounded: w, or state k at
                                                * VK_ROUND_STATE + k, up to 3 */

/* The key and counter of the draws of a parameter's step. */
typedef struct vk_draws {
    uint32_t key[2], step, purpose;
    uint64_t first;                            /* of a part: index of its pack 0 in the parameter */
} vk_draws;

/* Rounds x to the bf16 below or above; infinity and NaN are kept. */
VK_HD uint16_t vk_to_bf16_randomly(float x, uint32_t bits16)
{
    uint32_t u = vk_bits(x);

    return (u & 0x7f800000u) == 0x7f800000u ? vk_to_bf16(x) : (uint16_t)((u + bits16) >> 16);
}

/* Stores n (1..8) elements of pack `pack` as packed bf16 at p. */
VK_HD void vk_store8_randomly(char *p, int n, vk_f8 x, const vk_draws *d, uint64_t pack, int value)
{
    uint64_t at = d->first + pack;
    uint32_t w[4] = { (uint32_t)at, (uint32_t)(at >> 32) << 2 | (uint32_t)value, d->step,
                      d->purpose };

    vk_philox(d->key[0], d->key[1], w);
    VK_UNROLL
    for (int i = 0; i < 8; i++)
        x.v[i] = vk_from_bf16(vk_to_bf16_randomly(x.v[i], w[i / 2] >> 16 * (i % 2) & 0xffffu));
    vk_store8(p, VK_BF16, 1, n, x);
}

/* ---- eight bits ---- */

enum { VK_MOMENT_BLOCK = 256 };                /* elements that share a largest magnitude */
#define VK_MOMENT_BLOCKS(n) (((uint64_t)(n) + VK_MOMENT_BLOCK - 1) / VK_MOMENT_BLOCK)

typedef struct vk_levels { int top, first; } vk_levels;
VK_HD vk_levels vk_levels_of(int has_sign)
{
    vk_levels l = { has_sign ? 6 : 7, has_sign ? 1 : 2 };

    return l;
}

VK_HD float vk_decade(int e)                   /* 10^-e, e 0..7 */
{
#ifdef __CUDA_ARCH__                           /* a table would be in each lane's memory */
    float a = e & 1 ? 1e-1f : 1.0f, b = e & 1 ? 1e-3f : 1e-2f;
    float c = e & 1 ? 1e-5f : 1e-4f, d = e & 1 ? 1e-7f : 1e-6f;

    return e & 4 ? (e & 2 ? d : c) : (e & 2 ? b : a);
#else
    const float d[8] = { 1.0f, 1e-1f, 1e-2f, 1e-3f, 1e-4f, 1e-5f, 1e-6f, 1e-7f };

    return d[e];
#endif
}

VK_HD float vk_half_to(int j) { return vk_float((uint32_t)(127 - j) << 23); }      /* 2^-j */

/* Returns the value of level n, first - 1 (value 0) to 2^(top+1) (value 1). */
VK_HD float vk_level(vk_levels l, int n)
{
    if (n < l.first)
        return 0.0f;
    int j = vk_log2((uint32_t)n);
    if (j > l.top)
        return 1.0f;
    float part = ((float)(n - (1 << j)) + 0.5f) * vk_half_to(j);
    return vk_decade(l.top - j) * (0.1f + 0.9f * part);
}

/* Returns the level nearest to x in 0..1. Inside a decade it is the level of the part that contains
 * x, as far as rounding shows, or its neighbour on x's side. */
VK_HD int vk_nearest_level(vk_levels l, float x)
{
    int j = l.top;
    float decade = 1.0f, inverse = 1.0f;

    VK_UNROLL
    for (int e = 1; e <= l.top - l.first + 1; e++) {
        int below = x < vk_decade(e);
        j -= below;
        decade = below ? vk_decade(e) : decade;
        inverse = below ? 1.0f / vk_decade(e) : inverse;
    }
    float parts = (float)(1 << j), at = (x * inverse - 0.1f) * (1.0f / 0.9f) * parts;
    int part = (int)fminf(fmaxf(at, 0.0f), parts - 1.0f), n = (1 << j) + part;
    float level = n < l.first ? 0.0f
                              : decade * (0.1f + 0.9f * (((float)part + 0.5f) * vk_half_to(j)));
    int aside = x < level ? n - 1 : n + 1;
    return fabsf(x - vk_level(l, aside)) < fabsf(x - level) ? aside : n;
}

/* In codes of the first moment 127 is 0 and 255 is 1; -1 has no code. */
VK_HD float vk_m_value(uint8_t code)
{
    int n = (int)code - 127;
    float x = vk_level(vk_levels_of(1), n < 0 ? -n : n);

    return n < 0 ? -x : x;
}

VK_HD uint8_t vk_m_code(float x)
{
    int n = vk_nearest_level(vk_levels_of(1), fabsf(x));

    return (uint8_t)(x < 0.0f ? 127 - (n < 128 ? n : 127) : 127 + n);
}

/* In codes of the second moment 0 is 0 and 255 is 1. A value above 0 never gets code 0, because the
 * update divides by the moment. */
VK_HD float vk_v_value(uint8_t code) { return vk_level(vk_levels_of(0), code + 1); }
VK_HD uint8_t vk_v_code(float x)
{
    int n = vk_nearest_level(vk_levels_of(0), x);

    return (uint8_t)(n == 1 && x > 0.0f ? 1 : n - 1);
}

/* Returns x / peak for the codes; a block of zeros has peak 0. */
VK_HD float vk_part_of(float x, float peak) { return peak > 0.0f ? x / peak : 0.0f; }

#endif
