/* vec.h - vectors of f32 lanes and their math, for the instruction set that the including file is
 * compiled for.
 *
 * The file uses GNU vector types (and intrinsics only where gcc has no good generic form), so tests
 * with 4 or 8 lanes run the same source as 16 lanes. Only files that are compiled once per target
 * include it. Products and sums contract to fused ones on targets that have them; no function
 * depends on -ffast-math. NaN propagates through every function unless noted. Polynomials are
 * minimax fits of the relative error, made for this file. */
#ifndef COMMON_CPU_SIMD_VEC_H
#define COMMON_CPU_SIMD_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "common/base/dtype.h"

/* The number of lanes. Tests set 16 on any machine, to run AVX-512's source. */
#ifndef VW
#if defined(__AVX512F__)
#define VW 16
#elif defined(__AVX2__)
#define VW 8
#else
#define VW 4
#endif
#endif
#if defined(__AVX512F__) && VW == 16
#define V_AVX512 1
#elif defined(__AVX2__) && VW == 8
#define V_AVX2 1
#endif

typedef float vf __attribute__((vector_size(VW * 4)));
typedef int32_t vi __attribute__((vector_size(VW * 4)));
typedef uint32_t vu __attribute__((vector_size(VW * 4)));
typedef uint16_t vu16 __attribute__((vector_size(VW * 2)));
typedef uint8_t vu8 __attribute__((vector_size(VW)));

/* ---- loads and stores: p may be unaligned; lanes past k are read as 0 and not written ---- */

static inline vf v_set(float x) { return x - (vf){ 0 }; }
static inline vi v_lanes(void)
{
#if VW == 16
    return (vi){ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
#elif VW == 8
    return (vi){ 0, 1, 2, 3, 4, 5, 6, 7 };
#else
    return (vi){ 0, 1, 2, 3 };
#endif
}

static inline vf v_load(const float *p)
{
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void v_store(float *p, vf v) { memcpy(p, &v, sizeof v); }

static inline vf v_get(const float *p, size_t k)
{
    if (k >= VW)
        return v_load(p);
#if defined(V_AVX512)
    return _mm512_maskz_loadu_ps((__mmask16)((1u << k) - 1), p);
#else
    float t[VW] = { 0 };
    for (size_t i = 0; i < k; i++)
        t[i] = p[i];
    return v_load(t);
#endif
}

static inline void v_put(float *p, vf v, size_t k)
{
    if (k >= VW) {
        v_store(p, v);
        return;
    }
#if defined(V_AVX512)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << k) - 1), v);
#else
    for (size_t i = 0; i < k; i++)
        p[i] = v[i];
#endif
}

/* The same for halves, bytes and units. A full vector is copied with a constant size, since gcc
 * makes a slow loop of a copy whose size it does not know. */
#define V_COPIES(name, type, lane)                                                                 \
    static inline type v_get_##name(const void *p, size_t k)                                       \
    {                                                                                              \
        type v = { 0 };                                                                            \
        if (k >= VW)                                                                               \
            memcpy(&v, p, sizeof v);                                                               \
        else                                                                                       \
            memcpy(&v, p, k * sizeof(lane));                                                       \
        return v;                                                                                  \
    }                                                                                              \
    static inline void v_put_##name(void *p, type v, size_t k)                                     \
    {                                                                                              \
        if (k >= VW)                                                                               \
            memcpy(p, &v, sizeof v);                                                               \
        else                                                                                       \
            memcpy(p, &v, k * sizeof(lane));                                                       \
    }
V_COPIES(u16, vu16, uint16_t)
V_COPIES(u8, vu8, uint8_t)
V_COPIES(u32, vu, uint32_t)

/* ---- selection ---- */

static inline vf v_if(vi mask, vf yes, vf no)
{
    return (vf)((mask & (vi)yes) | (~mask & (vi)no));
}
/* Returns b in lanes where either is NaN, so that v_max(bound, x) keeps a NaN in x. */
static inline vf v_max(vf a, vf b)
{
#if defined(V_AVX512)
    return _mm512_max_ps(a, b);
#elif defined(V_AVX2)
    return _mm256_max_ps(a, b);
#else
    return v_if(a > b, a, b);
#endif
}
static inline vf v_min(vf a, vf b)
{
#if defined(V_AVX512)
    return _mm512_min_ps(a, b);
#elif defined(V_AVX2)
    return _mm256_min_ps(a, b);
#else
    return v_if(a < b, a, b);
#endif
}
static inline vf v_abs(vf x) { return (vf)((vi)x & 0x7fffffff); }
static inline vf v_sqrt(vf x)
{
#if defined(V_AVX512)
    return _mm512_sqrt_ps(x);
#elif defined(V_AVX2)
    return _mm256_sqrt_ps(x);
#else
    for (int i = 0; i < VW; i++)
        x[i] = __builtin_sqrtf(x[i]);
    return x;
#endif
}

/* ---- permutation of lanes ---- */

/* F(lane, s) for every lane, as the index list of __builtin_shufflevector, in which VW and above
 * select from the second vector. */
#define V_LANES4(F, l, s) F(l, s), F((l) + 1, s), F((l) + 2, s), F((l) + 3, s)
#if VW == 16
#define V_LANES(F, s) V_LANES4(F, 0, s), V_LANES4(F, 4, s), V_LANES4(F, 8, s), V_LANES4(F, 12, s)
#elif VW == 8
#define V_LANES(F, s) V_LANES4(F, 0, s), V_LANES4(F, 4, s)
#else
#define V_LANES(F, s) V_LANES4(F, 0, s)
#endif
#define V_OTHER(lane, s) ((lane) ^ (s))
#define V_TWICE(lane, s) ((lane) / 2 + (s))
/* v_swap exchanges neighbours; the others take each lane of the low or high half twice. */
static inline vf v_swap(vf x) { return __builtin_shufflevector(x, x, V_LANES(V_OTHER, 1)); }
static inline vf v_twice_low(vf x) { return __builtin_shufflevector(x, x, V_LANES(V_TWICE, 0)); }
static inline vf v_twice_high(vf x)
{
    return __builtin_shufflevector(x, x, V_LANES(V_TWICE, VW / 2));
}

/* ---- reductions, always in the same order ---- */

#if VW == 16
#define V_REDUCE(x, sum)                                                                           \
    sum(x, 8);                                                                                     \
    sum(x, 4);                                                                                     \
    sum(x, 2);                                                                                     \
    sum(x, 1)
#elif VW == 8
#define V_REDUCE(x, sum)                                                                           \
    sum(x, 4);                                                                                     \
    sum(x, 2);                                                                                     \
    sum(x, 1)
#else
#define V_REDUCE(x, sum)                                                                           \
    sum(x, 2);                                                                                     \
    sum(x, 1)
#endif
#define V_ACROSS(x, s) __builtin_shufflevector(x, x, V_LANES(V_OTHER, s))
#define V_ADD_ACROSS(x, s) x += V_ACROSS(x, s)
#define V_MAX_ACROSS(x, s) x = v_max(x, V_ACROSS(x, s))

static inline float v_sum(vf x)
{
    V_REDUCE(x, V_ADD_ACROSS);
    return x[0];
}
static inline float v_most(vf x)
{
    V_REDUCE(x, V_MAX_ACROSS);
    return x[0];
}

/* Tells whether a lane is above the limit or NaN. */
static inline bool v_any_above(vf x, float limit)
{
#if defined(V_AVX512)
    return _mm512_cmp_ps_mask(x, v_set(limit), _CMP_NLE_UQ) != 0;
#else
    return !(v_most(v_if(x <= limit, v_set(0), v_set(1))) <= 0);
#endif
}

/* ---- element types ---- */

static inline vf v_from_bf16(vu16 h) { return (vf)(__builtin_convertvector(h, vu) << 16); }
/* Rounds to even. (AVX512-BF16 also flushes denormals.) */
static inline vu16 v_to_bf16(vf x)
{
#if defined(V_AVX512) && defined(__AVX512BF16__)
    return (vu16)_mm512_cvtneps_pbh(x);
#else
    vu u = (vu)x, even = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    vu nan = (vu)(x != x);
    return __builtin_convertvector((nan & (u >> 16 | 0x40)) | (~nan & even), vu16);
#endif
}

/* Converts small floats to f32. mag has their exponent and mantissa, shifted so that the mantissa
 * is at the top of an f32's; lift is the difference of the exponents' biases; special marks the
 * lanes with infinity or NaN. Subnormals are computed by subtracting normal numbers, so that a
 * thread that flushes denormals gets them right. */
static inline vf v_widen(vu mag, uint32_t lift, vu special)
{
    vu u = mag + (lift << 23);
    vu one = (vu){ 0 } + ((lift + 1) << 23);
    vf sub = (vf)(u + (1u << 23)) - (vf)one;
    vu low = (vu)(mag < (1u << 23));
    u = (low & (vu)sub) | (~low & u);
    return (vf)((special & (mag | 0xffu << 23)) | (~special & u));
}
static inline vf v_from_f16(vu16 h)
{
#if defined(V_AVX512)
    return _mm512_cvtph_ps((__m256i)h);
#elif defined(V_AVX2) && defined(__F16C__)
    return _mm256_cvtph_ps((__m128i)h);
#else
    vu u = __builtin_convertvector(h, vu), mag = (u & 0x7fff) << 13;
    vf x = v_widen(mag, 127 - 15, (vu)((u & 0x7c00) == 0x7c00));
    return (vf)((vu)x | (u & 0x8000) << 16);
#endif
}
static inline vu16 v_to_f16(vf x)
{
#if defined(V_AVX512)
    return (vu16)_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(V_AVX2) && defined(__F16C__)
    return (vu16)_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
#else
    vu u = (vu)x & 0x7fffffff, sign = ((vu)x >> 16) & 0x8000;
    vu norm = (u - ((127u - 15) << 23) + 0xfff + ((u >> 13) & 1)) >> 13;
    vu sub = (vu)((vf)u + 0.5f) - (126u << 23);          /* 0.5 + x: the sum's last bit is 2^-24 */
    vu small = (vu)(u < (127u - 14) << 23), big = (vu)(u >= (127u + 16) << 23);
    vu nan = (vu)(x != x), r = (small & sub) | (~small & norm);
    r = (big & 0x7c00) | (~big & r);
    return __builtin_convertvector(((nan & 0x7e00) | (~nan & r)) | sign, vu16);
#endif
}
/* Compilers divide this conversion into single bytes. */
static inline vu v_widen_u8(vu8 b)
{
#if defined(V_AVX512)
    return (vu)_mm512_cvtepu8_epi32((__m128i)b);
#elif defined(V_AVX2)
    return (vu)_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)b));
#else
    return __builtin_convertvector(b, vu);
#endif
}
static inline vf v_from_f8e4m3(vu8 b)
{
    vu u = v_widen_u8(b), mag = (u & 0x7f) << 20;
    vf x = v_widen(mag, 127 - 7, (vu)((u & 0x7f) == 0x7f));
    return (vf)((vu)x | (u & 0x80) << 24);
}
static inline vf v_from_f8e5m2(vu8 b)
{
    return v_from_f16(__builtin_convertvector(b, vu16) << 8);
}

static inline vf v_from_i8(vu8 b)
{
    return __builtin_convertvector((vi)(v_widen_u8(b) ^ 0x80) - 0x80, vf);
}

/* The values of VW codes of nf4, in VW / 2 bytes. */
static inline vf v_from_nf4(const uint8_t *p)
{
#if defined(V_AVX512)
    __m128i b = _mm_loadl_epi64((const __m128i *)p);
    b = _mm_unpacklo_epi8(_mm_srli_epi16(b, 4), b);
    __m512i code = _mm512_cvtepu8_epi32(b);    /* permutexvar reads the low four bits alone */
    return _mm512_permutexvar_ps(code, _mm512_loadu_ps(vc_nf4));
#elif defined(V_AVX2)
    int32_t four;
    memcpy(&four, p, sizeof four);
    __m128i b = _mm_cvtsi32_si128(four);
    b = _mm_unpacklo_epi8(_mm_srli_epi16(b, 4), b);
    __m256i code = _mm256_cvtepu8_epi32(b);    /* permutevar8x32 reads the low three */
    __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(vc_nf4), code);
    __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(vc_nf4 + 8), code);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(code, 28)));
#else
    float f[VW];
    for (int i = 0; i < VW; i++)
        f[i] = vc_nf4[i % 2 ? p[i / 2] & 15 : p[i / 2] >> 4];
    return v_load(f);
#endif
}

/* ---- exponentials ---- */

/* e^x over all of f32, within 1.3 ulp; overflow is infinity, underflow 0 (or a denormal). */
static inline vf v_exp(vf x)
{
    x = v_min(v_set(89.0f), v_max(v_set(-104.0f), x));
#if defined(V_AVX512)
    vf k = _mm512_roundscale_ps(x * 1.44269504f, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    const float magic = 12582912.0f;               /* 1.5 * 2^23: a sum's low bits are an integer */
    vf t = x * 1.44269504f + magic, k = t - magic;
    vi n = (vi)t - (vi)v_set(magic);
#endif
    vf r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
    vf p = r * 0.0013901529599f + 0.0083637395874f;
    p = p * r + 0.0416668616235f;
    p = p * r + 0.1666657328606f;
    p = p * r + 0.5f;
    p = (p * r) * r + r + 1.0f;
#if defined(V_AVX512)
    return _mm512_scalef_ps(p, k);
#else
    vi half = n >> 1;                                 /* 2^n in two factors: n may be -150 or 128 */
    return p * (vf)((vu)(half + 127) << 23) * (vf)((vu)(n - half + 127) << 23);
#endif
}

/* 2^x for x <= 127, relative error 2e-7; below -126.5 it is 0 (or a denormal). For softmax. */
static inline vf v_exp2(vf x)
{
#if defined(V_AVX512)
    vf f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);  /* x - round x */
#else
    const float magic = 12582912.0f + 127;          /* leaves the biased exponent in the low bits */
    x = v_max(v_set(-127.0f), x);
    vf t = x + magic, f = x - (t - magic);
#endif
    vf p = f * 0.0013264727313f + 0.0096715129912f;
    p = p * f + 0.0555073358119f;
    p = p * f + 0.2402224242687f;
    p = p * f + 0.6931470036507f;
    p = p * f + 1.0f;
#if defined(V_AVX512)
    return _mm512_scalef_ps(p, x - f);
#else
    return p * (vf)((vu)t << 23);
#endif
}

/* 2^x where the result is rounded to bf16: relative error 3e-6; above 2^127 at least 2^127. */
static inline vf v_exp2_bf16(vf x)
{
#if defined(V_AVX512)
    vf f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);     /* x - floor x */
    vf p = f * 0.0135341678f + 0.0520114601f;
    p = p * f + 0.2414427549f;
    p = p * f + 0.6930038333f;
    p = p * f + 1.0000026226f;
    return _mm512_scalef_ps(p, x);                                             /* p 2^(floor x) */
#else
    return v_exp2(v_min(v_set(127.0f), x));
#endif
}

/* e^(-x^2/2), the normal density without its 1/sqrt(2 pi). x^2 is split so that its rounding does
 * not grow in the exponential. */
static inline vf v_bell(vf x)
{
    vf hi = (vf)((vi)x & ~0xfff), lo = x - hi;
    return v_exp(hi * hi * -0.5f) * v_exp(lo * (x + hi) * -0.5f); 
}
/* The integral of the normal density up to x; relative error 5e-7 where it is above 1e-38. */
static inline vf v_normal_cdf(vf x)
{
    vf z = v_min(v_set(20.0f), v_abs(x)), t = 1.0f / (1.0f + 0.24748737f * z);   /* 0.35 / sqrt 2 */
    vf p = t * 0.0384013541043f - 0.1589299142361f;      /* e^(z^2/2) erfc(z / sqrt 2) / t */
    p = p * t + 0.1814650446177f;
    p = p * t - 0.0277107376605f;
    p = p * t + 0.0870229825377f;
    p = p * t + 0.1460399180651f;
    p = p * t + 0.1511869728565f;
    p = p * t + 0.1879022419453f;
    p = p * t + 0.1971383690834f;
    p = p * t + 0.1974837779999f;
    vf tail = 0.5f * (p * t) * v_bell(z);
    return v_if(x < 0.0f, tail, 1.0f - tail);
}

static inline vf v_clamp(vf x, float limit)
{
    return v_min(v_set(limit), v_max(v_set(-limit), x));
}

#define VF vf
#define VF_FN static inline
#define VF_(name) v_##name
#include "common/kernels/formulas.h"

#endif
