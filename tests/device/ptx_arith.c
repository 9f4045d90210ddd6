/* ptx_arith.c - the arithmetic of PTX on the values of a warp; see ptx_code.h */
#include <fenv.h>
#include <math.h>
#include <string.h>

#include "tests/device/ptx_code.h"

/* ---- values ---- */

int ptx_size(int type)
{
    static const int size[] = { [PTX_U8] = 1, [PTX_S8] = 1, [PTX_U16] = 2, [PTX_S16] = 2,
                                [PTX_U32] = 4, [PTX_S32] = 4, [PTX_U64] = 8, [PTX_S64] = 8,
                                [PTX_F32] = 4, [PTX_F64] = 8, [PTX_BF16] = 2, [PTX_BF16X2] = 4 };

    return size[type];
}

static float as_f32(uint64_t v)
{
    uint32_t u = (uint32_t)v;
    float f;

    memcpy(&f, &u, 4);
    return f;
}

static uint64_t of_f32(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    return u;
}

static double as_f64(uint64_t v)
{
    double f;

    memcpy(&f, &v, 8);
    return f;
}

static uint64_t of_f64(double f)
{
    uint64_t u;

    memcpy(&u, &f, 8);
    return u;
}

/* Flushes subnormals, for the approximations that do. */
static float flush(float f) { return fabsf(f) < 0x1p-126f ? copysignf(0, f) : f; }

/* Rounds to nearest even; a NaN becomes the GPU's. */
static uint32_t bf16_of(float f)
{
    uint32_t u = (uint32_t)of_f32(f);

    return isnan(f) ? 0x7fff : (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
}

/* ---- integers ---- */

#define EACH(result)                                                                               \
    for (int i = 0; i < PTX_LANES; i++)                                                            \
        v[i] = (uint64_t)(result)
/* Computes with integers: T is the type, W one of twice its bits; A, B and C are the operands. */
#define A ((T)a[i])
#define B ((T)b[i])
#define C ((T)c[i])
#define AS(NAME, type, wide, sign, result)                                                         \
    case NAME: {                                                                                   \
        typedef type T;                                                                            \
        typedef wide W;                                                                            \
        const bool has_sign = sign;                                                                \
        EACH(result);                                                                              \
        (void)sizeof(W), (void)has_sign;                                                           \
        return true;                                                                               \
    }
#define UNSIGNED(result)                                                                           \
    AS(PTX_U16, uint16_t, uint32_t, false, result)                                                 \
    AS(PTX_U32, uint32_t, uint64_t, false, result)                                                 \
    AS(PTX_U64, uint64_t, __uint128_t, false, result)
#define SIGNED(result)                                                                             \
    AS(PTX_S16, int16_t, int32_t, true, result)                                                    \
    AS(PTX_S32, int32_t, int64_t, true, result)                                                    \
    AS(PTX_S64, int64_t, __int128_t, true, result)
#define INTEGERS(result)                                                                           \
    switch (x->type) {                                                                             \
        UNSIGNED(result)                                                                           \
        SIGNED(result)                                                                             \
    default: return false;                                                                         \
    }
#define BITS (8 * (int)sizeof(T))
/* Sums without an overflow that C leaves open. */
#define SUM(one, sign, other) (T)((uint64_t)(one) sign (uint64_t)(other))
#define SHIFT ((uint32_t)b[i])

static bool integer(const ptx_ins *x, const uint64_t *a, const uint64_t *b, const uint64_t *c,
                    uint64_t *v)
{
    switch ((ptx_op)x->op) {
    case PTX_OP_add: INTEGERS(SUM(A, +, B))
    case PTX_OP_sub: INTEGERS(SUM(A, -, B))
    case PTX_OP_neg: INTEGERS(SUM(0, -, A))
    case PTX_OP_mul:
        if (x->half == PTX_WIDE)
            INTEGERS((W)A * (W)B)
        if (x->half == PTX_HI)
            INTEGERS((T)((W)A * (W)B >> BITS))
        INTEGERS((T)((uint64_t)A * (uint64_t)B))
    case PTX_OP_mad:
        if (x->half == PTX_WIDE)
            INTEGERS((uint64_t)((W)A * (W)B) + c[i])
        INTEGERS((T)((uint64_t)A * (uint64_t)B + (uint64_t)C))
    case PTX_OP_div: INTEGERS(!B ? (T)-1 : has_sign && B == (T)-1 ? SUM(0, -, A) : (T)(A / B))
    case PTX_OP_rem: INTEGERS(!B || (has_sign && B == (T)-1) ? 0 : (T)(A % B))
    case PTX_OP_min: INTEGERS(A < B ? A : B)
    case PTX_OP_max: INTEGERS(A > B ? A : B)
    case PTX_OP_and: INTEGERS(A & B)
    case PTX_OP_or: INTEGERS(A | B)
    case PTX_OP_xor: INTEGERS(A ^ B)
    case PTX_OP_not: INTEGERS((T)~A)
    case PTX_OP_shl: INTEGERS(SHIFT >= (uint32_t)BITS ? 0 : (T)((uint64_t)A << SHIFT))
    case PTX_OP_shr:
        INTEGERS(SHIFT < (uint32_t)BITS ? (T)(A >> SHIFT) : has_sign ? (T)(A >> (BITS - 1)) : 0)
    case PTX_OP_clz:
        if (x->type == PTX_U64)
            EACH(a[i] ? __builtin_clzll(a[i]) : 64);
        else
            EACH((uint32_t)a[i] ? __builtin_clz((uint32_t)a[i]) : 32);
        return true;
    default: return false;
    }
}

/* ---- floating numbers ---- */

#define F(operand) as_f32(operand[i])
#define D(operand) as_f64(operand[i])
static bool floating(const ptx_ins *x, const uint64_t *a, const uint64_t *b, const uint64_t *c,
                     uint64_t *v)
{
    bool one = x->type == PTX_F32;

#define BOTH(f32, f64)                                                                             \
    if (one)                                                                                       \
        EACH(of_f32(f32));                                                                         \
    else                                                                                           \
        EACH(of_f64(f64));                                                                         \
    break
    switch ((ptx_op)x->op) {
    case PTX_OP_add: BOTH(F(a) + F(b), D(a) + D(b));
    case PTX_OP_sub: BOTH(F(a) - F(b), D(a) - D(b));
    case PTX_OP_mul: BOTH(F(a) * F(b), D(a) * D(b));
    case PTX_OP_fma: BOTH(fmaf(F(a), F(b), F(c)), fma(D(a), D(b), D(c)));
    case PTX_OP_div: BOTH(F(a) / F(b), D(a) / D(b));
    case PTX_OP_rcp: BOTH(1.0f / F(a), 1.0 / D(a));
    case PTX_OP_sqrt: BOTH(sqrtf(F(a)), sqrt(D(a)));
    case PTX_OP_rsqrt: BOTH(1.0f / sqrtf(F(a)), 1.0 / sqrt(D(a)));
    case PTX_OP_ex2: BOTH(exp2f(F(a)), exp2(D(a)));
    case PTX_OP_lg2: BOTH(log2f(F(a)), log2(D(a)));
    case PTX_OP_neg: BOTH(-F(a), -D(a));
    case PTX_OP_abs: BOTH(fabsf(F(a)), fabs(D(a)));
    case PTX_OP_min: BOTH(fminf(F(a), F(b)), fmin(D(a), D(b)));
    case PTX_OP_max: BOTH(fmaxf(F(a), F(b)), fmax(D(a), D(b)));
    case PTX_OP_copysign: BOTH(copysignf(F(b), F(a)), copysign(D(b), D(a)));
    default: return false;
    }
    if (one && x->flushes)
        EACH(of_f32(flush(as_f32(v[i]))));
    return true;
}

static void compare(const ptx_ins *x, const uint64_t *a, const uint64_t *b, uint64_t *v)
{
    for (int i = 0; i < PTX_LANES; i++) {
        bool less, same, none = false;
        if (x->type >= PTX_F32) {
            double p = x->type == PTX_F32 ? (double)as_f32(a[i]) : as_f64(a[i]);
            double q = x->type == PTX_F32 ? (double)as_f32(b[i]) : as_f64(b[i]);
            less = p < q, same = p == q, none = isnan(p) || isnan(q);
        } else {
            int unused = 64 - 8 * ptx_size(x->type);
            uint64_t p = a[i] << unused, q = b[i] << unused;
            bool sign = x->type == PTX_S16 || x->type == PTX_S32 || x->type == PTX_S64;
            less = sign ? (int64_t)p < (int64_t)q : p < q, same = p == q;
        }
        const bool is[] = { [PTX_EQ] = same, [PTX_NE] = !same, [PTX_LT] = less,
                            [PTX_LE] = less || same, [PTX_GT] = !less && !same, [PTX_GE] = !less };
        v[i] = none ? x->compare >= PTX_EQU : is[x->compare % PTX_EQU];
    }
}

static double rounded(double f, int how)
{
    static double (*const to[])(double) = { [PTX_RNI] = rint, [PTX_RZI] = trunc,
                                            [PTX_RMI] = floor, [PTX_RPI] = ceil };

    return how >= PTX_RNI ? to[how](f) : f;
}

uint64_t ptx_extend(uint64_t v, int type)
{
    switch (type) {
    case PTX_U8: return (uint8_t)v;
    case PTX_S8: return (uint64_t)(int8_t)v;
    case PTX_U16: return (uint16_t)v;
    case PTX_S16: return (uint64_t)(int16_t)v;
    case PTX_U32: return (uint32_t)v;
    case PTX_S32: return (uint64_t)(int32_t)v;
    default: return v;
    }
}

static uint64_t to_integer(double f, int type)
{
    int bits = 8 * ptx_size(type);
    bool sign = type == PTX_S16 || type == PTX_S32 || type == PTX_S64;
    double high = ldexp(1, bits - sign), low = sign ? -high : 0;

    if (isnan(f))
        return 0;
    if (f >= high)
        return sign ? (1ull << (bits - 1)) - 1 : ptx_extend(UINT64_MAX, type);
    if (f < low)
        return sign ? ptx_extend(1ull << (bits - 1), type) : 0;
    return sign ? (uint64_t)(int64_t)f : (uint64_t)f;
}

static void convert(const ptx_ins *x, const uint64_t *a, const uint64_t *b, uint64_t *v)
{
    bool sign = x->from == PTX_S8 || x->from == PTX_S16 || x->from == PTX_S32 || x->from == PTX_S64;

    for (int i = 0; i < PTX_LANES; i++) {
        if (x->type == PTX_BF16X2) {
            v[i] = (uint64_t)bf16_of(as_f32(a[i])) << 16 | bf16_of(as_f32(b[i]));
        } else if (x->type == PTX_BF16) {
            v[i] = bf16_of(as_f32(a[i]));
        } else if (x->from == PTX_BF16) {
            v[i] = of_f32(as_f32(a[i] << 16));
        } else if (x->from < PTX_F32) {
            uint64_t n = ptx_extend(a[i], x->from);
            v[i] = x->type == PTX_F32 ? of_f32(sign ? (float)(int64_t)n : (float)n) :
                   x->type == PTX_F64 ? of_f64(sign ? (double)(int64_t)n : (double)n) :
                   ptx_extend(n, x->type);
        } else {
            double f = rounded(x->from == PTX_F32 ? (double)as_f32(a[i]) : as_f64(a[i]), x->round);
            if (x->saturates)
                f = f > 0 ? fmin(f, 1) : 0;
            v[i] = x->type == PTX_F32 ? of_f32((float)f) : x->type == PTX_F64 ? of_f64(f) :
                   to_integer(f, x->type);
        }
    }
}

/* Additions with a carry, of 32 bits. */
static bool carry(uint8_t *flag, const ptx_ins *x, const uint64_t *a, const uint64_t *b,
                  const uint64_t *c, uint32_t mask, uint64_t *v)
{
    if (x->type != PTX_U32 && x->type != PTX_S32)
        return false;
    for (int i = 0; i < PTX_LANES; i++) {
        uint64_t one = (uint32_t)a[i], two = (uint32_t)b[i], sum;
        uint64_t with = x->op == PTX_OP_addc || x->op == PTX_OP_madc || x->op == PTX_OP_subc
                            ? flag[i] : 0;
        if (x->op == PTX_OP_mad || x->op == PTX_OP_madc) {
            one = x->half == PTX_HI ? one * two >> 32 : (uint32_t)(one * two);
            two = (uint32_t)c[i];
        }
        sum = x->op == PTX_OP_sub || x->op == PTX_OP_subc ? one - two - with : one + two + with;
        v[i] = (uint32_t)sum;
        if (x->carries && (mask >> i & 1))
            flag[i] = sum >> 32 & 1;
    }
    return true;
}

static uint32_t permuted(uint32_t a, uint32_t b, uint32_t how)
{
    uint64_t all = (uint64_t)b << 32 | a;
    uint32_t v = 0;

    for (int k = 0; k < 4; k++) {
        uint32_t s = how >> 4 * k & 15, byte = (uint32_t)(all >> 8 * (s & 7)) & 255;
        v |= (s & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * k;
    }
    return v;
}

bool ptx_compute(const ptx_ins *x, const uint64_t *a, const uint64_t *b, const uint64_t *c,
                 const uint64_t *n, uint8_t *flag, uint32_t mask, uint64_t *v)
{
    switch ((ptx_op)x->op) {
    case PTX_OP_setp: compare(x, a, b, v); return true;
    case PTX_OP_selp: EACH(c[i] ? a[i] : b[i]); return true;
    case PTX_OP_cvt: convert(x, a, b, v); return true;
    case PTX_OP_prmt: EACH(permuted((uint32_t)a[i], (uint32_t)b[i], (uint32_t)c[i])); return true;
    case PTX_OP_popc: EACH(__builtin_popcountll(ptx_extend(a[i], x->type))); return true;
    case PTX_OP_bfe:
        EACH(ptx_extend(a[i], x->type) >> (b[i] & 63) & ((1ull << (c[i] & 63)) - 1));
        return x->type == PTX_U32 || x->type == PTX_U64;
    case PTX_OP_bfi:
        EACH((b[i] & ~(((1ull << (n[i] & 63)) - 1) << (c[i] & 63))) |
             (a[i] & ((1ull << (n[i] & 63)) - 1)) << (c[i] & 63));
        return true;
    case PTX_OP_addc: case PTX_OP_subc: case PTX_OP_madc: return carry(flag, x, a, b, c, mask, v);
    default: break;
    }
    if (x->type == PTX_PRED) {
        EACH(x->op == PTX_OP_not ? !a[i] : x->op == PTX_OP_and ? a[i] & b[i] :
             x->op == PTX_OP_or ? a[i] | b[i] : a[i] ^ b[i]);
        return true;
    }
    if (x->carries)
        return carry(flag, x, a, b, c, mask, v);
    if (x->type < PTX_F32)
        return integer(x, a, b, c, v);
    if (x->round == PTX_RM)
        fesetround(FE_DOWNWARD);
    bool known = floating(x, a, b, c, v);
    fesetround(FE_TONEAREST);
    return known;
}
