/* rng_normal.c - standard normals of rng.h, many at a time.
 *
 * Box-Muller needs a logarithm, a root, a sine and a cosine for two numbers; the C library's would
 * take most of a loader's time, and differ in the last bit between libraries. Here they consist of
 * plain IEEE operations without branches, in loops that compilers vectorise at any width, so the
 * bits are the same on every machine. So this file must not be compiled with contraction of
 * a * b + c (common/CMakeLists.txt disables it) or with relaxed arithmetic. */
#include "common/base/rng.h"

#include <math.h>
#include <string.h>

enum { LANES = 32 };                           /* blocks computed together */

#define INLINE static inline __attribute__((always_inline))

/* ---- four words of LANES counters ---- */

typedef struct lanes {
    uint32_t w[4][LANES];
} lanes;

INLINE uint32_t high(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}

/* vc_philox for counters that differ in their first word. */
INLINE void philox_lanes(const uint32_t key[2], lanes *x)
{
    for (int i = 0; i < LANES; i++) {
        uint32_t k0 = key[0], k1 = key[1];
        uint32_t c0 = x->w[0][i], c1 = x->w[1][i], c2 = x->w[2][i], c3 = x->w[3][i];
#pragma GCC unroll 10
        for (int round = 0; round < 10; round++) {
            uint32_t n0 = high(0xCD9E8D57u, c2) ^ c1 ^ k0, n2 = high(0xD2511F53u, c0) ^ c3 ^ k1;
            c1 = 0xCD9E8D57u * c2;
            c3 = 0xD2511F53u * c0;
            c0 = n0;
            c2 = n2;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        x->w[0][i] = c0;
        x->w[1][i] = c1;
        x->w[2][i] = c2;
        x->w[3][i] = c3;
    }
}

/* ---- functions of one number ---- */

INLINE uint64_t bits_of(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

INLINE double double_of(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* Converts an integer below 2^52 exactly: in a double of 2^52 the last bit has the value one. */
INLINE double from_int(uint64_t n)
{
    return double_of(0x4330000000000000u | n) - 0x1p52;
}

/* ln u for u in [2^-33, 1): u = 2^k m with m in [sqrt(1/2), sqrt(2)), and ln m = 2 atanh(s) with
 * s = (m-1)/(m+1), |s| < 0.172: the relative error of eleven terms is below 2^-60. Even and odd
 * terms are summed apart, here and below, so that two sums run concurrently. */
INLINE double log_unit(double u)
{
    const uint64_t one = 0x3FF0000000000000u, root = 0x3FE6A09E667F3BCDu;     /* 1, sqrt(1/2) */
    const double ln2 = 0x1.62E42FEEp-1, ln2_rest = 0x1.A39EF35793C76p-33;
    uint64_t biased = (bits_of(u) + (one - root)) >> 52;
    double f = double_of(bits_of(u) + ((uint64_t)1023 << 52) - (biased << 52)) - 1;
    double k = from_int(biased) - 1023, s = f / (2 + f), z = s * s;
    double y = z * z;
    double even = 2.0 / 3 + y * (2.0 / 7 + y * (2.0 / 11 + y * (2.0 / 15 + y * (2.0 / 19))));
    double odd = 2.0 / 5 + y * (2.0 / 9 + y * (2.0 / 13 + y * (2.0 / 17 + y * (2.0 / 21))));
    return k * ln2 + (2 * s + (s * z * (even + z * odd) + k * ln2_rest));
}

/* Sine and cosine for |x| <= pi/4 by their series; the first omitted terms are below 2^-58. */
INLINE double sin_near(double x)
{
    double z = x * x, y = z * z;
    double even = -1.0 / 6 + y * (-1.0 / 5040 + y * (-1.0 / 39916800 + y * (-1.0 / 1307674368000)));
    double odd = 1.0 / 120 + y * (1.0 / 362880 + y * (1.0 / 6227020800 +
                                                      y * (1.0 / 355687428096000)));
    return x + x * z * (even + z * odd);
}

INLINE double cos_near(double x)
{
    double z = x * x, y = z * z;
    double even = 1.0 / 24 + y * (1.0 / 40320 + y * (1.0 / 479001600 + y * (1.0 / 20922789888000)));
    double odd = -1.0 / 720 + y * (-1.0 / 3628800 + y * (-1.0 / 87178291200));
    return 1 - 0.5 * z + y * (even + z * odd);
}

/* ---- Box-Muller ---- */

/* Computes two normals: the radius from word u, the angle from word v, reduced to the nearest
 * multiple of pi/2. The second part of pi/2 corrects the rounding of its 53 bits. */
INLINE void pair(uint32_t u, uint32_t v, float *cosine, float *sine)
{
    const double quarter = 0x1.921FB54442D18p0, rest = 0x1.1A62633145C07p-54;
    double r = sqrt(-2 * log_unit((from_int(u) + 0.5) * 0x1p-32));
    double a = 4 * quarter * ((from_int(v) + 0.5) * 0x1p-32);
    uint64_t quarters = ((uint64_t)v + (1u << 29)) >> 30;
    double q = from_int(quarters), x = (a - q * quarter) - q * rest;
    uint64_t s = bits_of(sin_near(x)), c = bits_of(cos_near(x)), swap = 0 - (quarters & 1);
    uint64_t ca = ((c & ~swap) | (s & swap)) ^ ((quarters + 1) & 2) << 62;
    uint64_t sa = ((s & ~swap) | (c & swap)) ^ (quarters & 2) << 62;
    *cosine = (float)(r * double_of(ca));
    *sine = (float)(r * double_of(sa));
}

INLINE void pairs(const uint32_t u[LANES], const uint32_t v[LANES], float cosine[LANES],
                  float sine[LANES])
{
    for (int i = 0; i < LANES; i++)
        pair(u[i], v[i], &cosine[i], &sine[i]);
}

void vc_normal4(const uint32_t w[4], float out[4])
{
    pair(w[0], w[1], &out[0], &out[1]);
    pair(w[2], w[3], &out[2], &out[3]);
}

/* Computes n normals of the counters ctr, ctr with 1 added to its first word, and so on. */
INLINE void fill_lanes(float *out, size_t n, const uint32_t key[2], const uint32_t ctr[4])
{
    for (size_t done = 0; done < n; done += 4 * LANES) {
        lanes x;
        float z[4][LANES];
        for (int i = 0; i < LANES; i++) {
            x.w[0][i] = ctr[0] + (uint32_t)(done / 4) + (uint32_t)i;
            for (int k = 1; k < 4; k++)
                x.w[k][i] = ctr[k];
        }
        philox_lanes(key, &x);
        pairs(x.w[0], x.w[1], z[0], z[1]);
        pairs(x.w[2], x.w[3], z[2], z[3]);
        float turned[LANES][4];
        for (int i = 0; i < LANES; i++)
            for (int k = 0; k < 4; k++)
                turned[i][k] = z[k][i];
        memcpy(out + done, turned, sizeof *out * (n - done < 4 * LANES ? n - done : 4 * LANES));
    }
}

static void fill_plain(float *out, size_t n, const uint32_t key[2], const uint32_t ctr[4])
{
    fill_lanes(out, n, key, ctr);
}

#ifdef __x86_64__
/* The same with vectors of four doubles: half the time, the same bits. */
__attribute__((target("avx2"))) static void fill_avx2(float *out, size_t n, const uint32_t key[2],
                                                      const uint32_t ctr[4])
{
    fill_lanes(out, n, key, ctr);
}
#endif

static void fill(float *out, size_t n, const uint32_t key[2], const uint32_t ctr[4])
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        fill_avx2(out, n, key, ctr);
        return;
    }
#endif
    fill_plain(out, n, key, ctr);
}

void vc_train_normals(float *out, uint64_t first, size_t n, uint64_t seed, uint32_t row,
                      uint32_t micro, uint32_t purpose)
{
    const uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    const uint32_t ctr[4] = { (uint32_t)(first / 4), row, micro, purpose };
    fill(out, n, key, ctr);
}

void vc_draw_normals(float *out, size_t n, uint64_t seed, uint64_t id, uint32_t variant,
                     uint32_t purpose)
{
    vc_draws d = vc_draws_of(seed, id, variant, purpose);
    fill(out, n, d.key, d.ctr);
}
