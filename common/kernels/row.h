/* row.h - the arithmetic of the GPU's element and row kernels: gcc compiles this file for the tests
 * on a CPU, nvcc for the GPU.
 *
 * A team is the lanes that share a row: on a GPU a warp or a block, on a CPU a single lane. Data is
 * loaded in packs of eight elements, which take one 16-byte access if they are bf16, packed and
 * aligned. Arithmetic is f32; types are converted at load and store, with the results of
 * common/base/dtype.h. Activations and the optimiser come from formulas.h; random numbers equal
 * those of common/base/rng.h. */
#ifndef COMMON_KERNELS_ROW_H
#define COMMON_KERNELS_ROW_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "common/kernels/walk.h"

/* VK_HD functions are copied into each caller. VK_CALL functions are called: copies of large ones
 * would take nvcc many minutes. */
#ifdef __CUDACC__
#define VK_HD __host__ __device__ __forceinline__
#define VK_CALL static __host__ __device__ __noinline__
#else
#define VK_HD static inline
#define VK_CALL static
#endif
#ifdef __CUDA_ARCH__
#define VK_UNROLL _Pragma("unroll")
#else
#define VK_UNROLL
#endif

/* Returns floor(log2 n) of n >= 1. */
VK_HD int vk_log2(uint32_t n)
{
#ifdef __CUDA_ARCH__
    return 31 - __clz((int)n);
#else
    return 31 - __builtin_clz(n);
#endif
}

/* ---- teams ---- */

enum { VK_THREADS = 256, VK_WARP = 32 };       /* threads of a block, of a warp */

typedef struct vk_team {
    int lane, lanes;                           /* lanes: a power of two */
    float *scratch;                            /* VK_WARP floats shared by a block */
} vk_team;

/* Returns the sum of every lane's v to all lanes, always added in the same order. */
VK_HD float vk_team_sum(vk_team t, float v)
{
#ifdef __CUDA_ARCH__
    int wide = t.lanes < VK_WARP ? t.lanes : VK_WARP;
    uint32_t members = wide == VK_WARP ? 0xffffffffu
                                       : ((1u << wide) - 1u) << (threadIdx.x % VK_WARP - t.lane);
    VK_UNROLL
    for (int o = VK_WARP / 2; o > 0; o /= 2)
        if (o < wide)
            v += __shfl_xor_sync(members, v, o);
    if (t.lanes <= VK_WARP)
        return v;
    int warp = t.lane / VK_WARP, lane = t.lane % VK_WARP;
    if (lane == 0)
        t.scratch[warp] = v;
    __syncthreads();
    v = lane < t.lanes / VK_WARP ? t.scratch[lane] : 0.0f;
    for (int o = VK_WARP / 2; o > 0; o /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, o);
    __syncthreads();
#elif defined(VK_HOST_FOLD)                    /* in tests lanes are threads */
    if (t.lanes > 1)
        return VK_HOST_FOLD(t.lane, t.lanes, v, 0);
#else
    (void)t;
#endif
    return v;
}

/* Waits for the lanes of a block, and makes their stores visible to each other. */
VK_HD void vk_team_sync(vk_team t)
{
#ifdef __CUDA_ARCH__
    (void)t;
    __syncthreads();
#elif defined(VK_HOST_FOLD)
    if (t.lanes > 1)
        VK_HOST_FOLD(t.lane, t.lanes, 0, 0);
#else
    (void)t;
#endif
}

/* Returns the largest of every lane's v to all lanes; for teams of at most a warp. */
VK_HD float vk_team_max(vk_team t, float v)
{
#ifdef __CUDA_ARCH__
    for (int o = t.lanes / 2; o > 0; o /= 2)
        v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, o));
#elif defined(VK_HOST_FOLD)
    if (t.lanes > 1)
        return VK_HOST_FOLD(t.lane, t.lanes, v, 1);
#else
    (void)t;
#endif
    return v;
}

/* ---- element types ---- */

VK_HD uint32_t vk_bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    return u;
}

VK_HD float vk_float(uint32_t u)
{
    float f;

    memcpy(&f, &u, 4);
    return f;
}

VK_HD float vk_from_bf16(uint16_t h) { return vk_float((uint32_t)h << 16); }

/* Rounds to nearest even without branches; NaN stays NaN, with other bits on a GPU. */
VK_HD uint16_t vk_to_bf16(float f)
{
#ifdef __CUDA_ARCH__
    uint16_t h;

    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
#else
    uint32_t u = vk_bits(f), r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;

    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16 | 0x40u) : r);
#endif
}

/* Rounds two numbers; the first is the low half of the result. */
VK_HD uint32_t vk_to_bf16_pair(float low, float high)
{
#ifdef __CUDA_ARCH__
    uint32_t u;

    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(u) : "f"(high), "f"(low));
    return u;
#else
    return (uint32_t)vk_to_bf16(low) | (uint32_t)vk_to_bf16(high) << 16;
#endif
}

/* The format of a small float: its bits of exponent and mantissa. With ieee the largest exponent
 * means infinity and NaN, else (e4m3) it holds numbers and, at its end, NaN. */
typedef struct vk_small { int exponent, mantissa, ieee; } vk_small;

VK_HD vk_small vk_small_of(int type)
{
    vk_small s = { 5, 10, 1 };                 /* f16 */

    if (type == VK_F8E4M3)
        s.exponent = 4, s.mantissa = 3, s.ieee = 0;
    else if (type == VK_F8E5M2)
        s.mantissa = 2;
    return s;
}

/* Converts to f32. Subnormals are computed as differences of normal numbers, so that a thread that
 * flushes denormals gets them right. */
VK_HD float vk_widen(uint32_t b, vk_small s)
{
    int bits = s.exponent + s.mantissa;
    uint32_t sign = (b >> bits & 1u) << 31, mag = (b & ((1u << bits) - 1u)) << (23 - s.mantissa);
    uint32_t lift = 128u - (1u << (s.exponent - 1)), top = ((1u << s.exponent) - 1u) << 23;
    int none = s.ieee ? mag >= top : (b & 0x7fu) == 0x7fu;
#ifdef __CUDA_ARCH__                           /* a GPU's kernels multiply subnormals exactly */
    uint32_t u = vk_bits(vk_float(mag) * vk_float((lift + 127u) << 23));

    u = none ? mag | 0xffu << 23 : u;
#else
    uint32_t u = mag + (lift << 23);

    if (none)
        u = mag | 0xffu << 23;
    else if (mag < 1u << 23)
        u = vk_bits(vk_float(u + (1u << 23)) - vk_float((lift + 1u) << 23));
#endif
    return vk_float(u | sign);
}

/* Rounds f32 to nearest even. Overflow gives infinity with ieee, else the largest value. */
VK_HD uint32_t vk_narrow(float f, vk_small s)
{
    uint32_t x = vk_bits(f), u = x & 0x7fffffffu, sign = x >> 31 << (s.exponent + s.mantissa);
    uint32_t top = (1u << (s.exponent + s.mantissa)) - 1u, lift = 128u - (1u << (s.exponent - 1));
    uint32_t inf = s.ieee ? ((1u << s.exponent) - 1u) << s.mantissa : top, r;
    int cut = 23 - s.mantissa;

    if (u > 0x7f800000u)
        return sign | (s.ieee ? inf | 1u << (s.mantissa - 1) : top);
    if (u < (lift + 1u) << 23) {               /* the sum's last bit is the smallest subnormal */
        uint32_t one = (lift + 1u + (uint32_t)cut) << 23;
        r = vk_bits(vk_float(u) + vk_float(one)) - one;
    } else {
        r = ((u - (lift << 23)) + ((1u << (cut - 1)) - 1u) + (u >> cut & 1u)) >> cut;
    }
    if (s.ieee)
        return sign | (r > inf ? inf : r);
    return sign | (r >= top ? top - 1u : r);
}

VK_HD int vk_size(int type) { return type == VK_F32 ? 4 : type <= VK_F16 ? 2 : 1; }

/* ---- packs ---- */

typedef struct vk_f8 { float v[8]; } vk_f8;

/* Loads element i at p, which has at least 16 bits. */
VK_HD float vk_get2(const char *p, int type, int64_t i)
{
    if (type == VK_F32)
        return ((const float *)p)[i];
    if (type == VK_BF16)
        return vk_from_bf16(((const uint16_t *)p)[i]);
    return vk_widen(((const uint16_t *)p)[i], vk_small_of(VK_F16));
}

/* Loads element i at p. */
VK_HD float vk_get(const char *p, int type, int64_t i)
{
    if (type <= VK_F16)
        return vk_get2(p, type, i);
    return vk_widen(((const uint8_t *)p)[i], vk_small_of(type));
}

VK_HD void vk_put(char *p, int type, int64_t i, float f)
{
    if (type == VK_F32)
        ((float *)p)[i] = f;
    else if (type == VK_BF16)
        ((uint16_t *)p)[i] = vk_to_bf16(f);
    else if (type == VK_F16)
        ((uint16_t *)p)[i] = (uint16_t)vk_narrow(f, vk_small_of(type));
    else
        ((uint8_t *)p)[i] = (uint8_t)vk_narrow(f, vk_small_of(type));
}

typedef struct vk_quad { uint32_t u[4]; } vk_quad;

/* Loads 16 aligned bytes. */
VK_HD vk_quad vk_load_quad(const void *p)
{
    vk_quad q;
#ifdef __CUDA_ARCH__
    uint4 v = *(const uint4 *)p;
    q.u[0] = v.x, q.u[1] = v.y, q.u[2] = v.z, q.u[3] = v.w;
#else
    memcpy(&q, p, sizeof q);
#endif
    return q;
}

VK_HD void vk_store_quad(void *p, vk_quad q)
{
#ifdef __CUDA_ARCH__
    *(uint4 *)p = make_uint4(q.u[0], q.u[1], q.u[2], q.u[3]);
#else
    memcpy(p, &q, sizeof q);
#endif
}

VK_HD int vk_whole(const void *p, int64_t step, int n)
{
    return step == 1 && n == 8 && ((uintptr_t)p & 15) == 0;
}

/* Loads a pack of bf16 or f32 from an address that vk_whole allows. */
VK_HD vk_f8 vk_load8_whole(const char *p, int type)
{
    vk_f8 r;
    vk_quad a = vk_load_quad(p);

    if (type == VK_BF16) {
        VK_UNROLL
        for (int i = 0; i < 4; i++) {
            r.v[2 * i] = vk_float(a.u[i] << 16);
            r.v[2 * i + 1] = vk_float(a.u[i] & 0xffff0000u);
        }
        return r;
    }
    vk_quad b = vk_load_quad(p + 16);
    VK_UNROLL
    for (int i = 0; i < 4; i++) {
        r.v[i] = vk_float(a.u[i]);
        r.v[4 + i] = vk_float(b.u[i]);
    }
    return r;
}

VK_HD void vk_store8_whole(char *p, int type, vk_f8 x)
{
    vk_quad a, b;

    if (type == VK_BF16) {
        VK_UNROLL
        for (int i = 0; i < 4; i++)
            a.u[i] = vk_to_bf16_pair(x.v[2 * i], x.v[2 * i + 1]);
        vk_store_quad(p, a);
        return;
    }
    VK_UNROLL
    for (int i = 0; i < 4; i++) {
        a.u[i] = vk_bits(x.v[i]);
        b.u[i] = vk_bits(x.v[4 + i]);
    }
    vk_store_quad(p, a);
    vk_store_quad(p + 16, b);
}

/* Loads n (1..8) bytes `step` apart, eight in one access where their address allows it. */
VK_HD void vk_load_bytes(const char *p, int64_t step, int n, uint32_t u[8])
{
    if (step == 1 && n == 8 && ((uintptr_t)p & 7) == 0) {
        uint64_t q = *(const uint64_t *)p;
        VK_UNROLL
        for (int i = 0; i < 8; i++)
            u[i] = (uint32_t)(q >> 8 * i) & 255u;
        return;
    }
    VK_UNROLL
    for (int i = 0; i < 8; i++)
        u[i] = i < n ? ((const uint8_t *)p)[i * step] : 0u;
}

VK_HD vk_f8 vk_widen8(const uint32_t u[8], int type)
{
    vk_f8 r;

    VK_UNROLL
    for (int i = 0; i < 8; i++)
        r.v[i] = vk_widen(u[i], vk_small_of(type));
    return r;
}

/* Loads n (1..8) elements `step` apart (0 repeats one) from p; the rest of the pack is 0. */
VK_HD vk_f8 vk_load8(const char *p, int type, int64_t step, int n)
{
    vk_f8 r;

    if (type == VK_BF16 && vk_whole(p, step, n))
        return vk_load8_whole(p, VK_BF16);
    if (type == VK_F32 && vk_whole(p, step, n))
        return vk_load8_whole(p, VK_F32);
    if (type >= VK_F8E4M3) {
        uint32_t u[8];
        vk_load_bytes(p, step, n, u);
        return type == VK_F8E4M3 ? vk_widen8(u, VK_F8E4M3) : vk_widen8(u, VK_F8E5M2);
    }
    VK_UNROLL
    for (int i = 0; i < 8; i++)
        r.v[i] = i < n ? vk_get2(p, type, i * step) : 0.0f;
    return r;
}

VK_HD void vk_store8(char *p, int type, int64_t step, int n, vk_f8 x)
{
    if (type == VK_BF16 && vk_whole(p, step, n)) {
        vk_store8_whole(p, VK_BF16, x);
        return;
    }
    if (type == VK_F32 && vk_whole(p, step, n)) {
        vk_store8_whole(p, VK_F32, x);
        return;
    }
    VK_UNROLL
    for (int i = 0; i < 8; i++)
        if (i < n)
            vk_put(p, type, i * step, x.v[i]);
}

VK_HD float vk_sum8(vk_f8 x)
{
    return ((x.v[0] + x.v[1]) + (x.v[2] + x.v[3])) + ((x.v[4] + x.v[5]) + (x.v[6] + x.v[7]));
}

/* ---- activations, optimiser ---- */

VK_HD float vk_exp(float x) { return expf(x); }
VK_HD float vk_abs(float x) { return fabsf(x); }
VK_HD float vk_sqrt(float x) { return sqrtf(x); }
VK_HD float vk_clamp(float x, float limit) { return fminf(limit, fmaxf(-limit, x)); }
VK_HD float vk_if(int mask, float yes, float no) { return mask ? yes : no; }
VK_HD float vk_bell(float x) { return expf(-0.5f * x * x); }
VK_HD float vk_normal_cdf(float x) { return 0.5f * erfcf(x * -0.70710678119f); }

#define VF float
#define VF_FN VK_HD
#define VF_(name) vk_##name
#include "common/kernels/formulas.h"

/* ---- random numbers: common/base/rng.h ---- */

VK_HD void vk_philox(uint32_t k0, uint32_t k1, uint32_t c[4])
{
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
        c[1] = (uint32_t)p1;
        c[3] = (uint32_t)p0;
        c[0] = n0;
        c[2] = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* Computes Box-Muller in f64 and rounds once: a GPU's libm gives the CPU's f32 unless an f64 result
 * is next to a rounding boundary (about one number in 10^8). */
VK_HD void vk_normal4(const uint32_t w[4], float out[4])
{
    VK_UNROLL
    for (int i = 0; i < 4; i += 2) {
        double u = ((double)w[i] + 0.5) * 2.3283064365386963e-10;
        double v = ((double)w[i + 1] + 0.5) * 2.3283064365386963e-10;
        double r = sqrt(-2.0 * log(u)), a = 6.283185307179586476925 * v;
        out[i] = (float)(r * cos(a));
        out[i + 1] = (float)(r * sin(a));
    }
}

#endif
