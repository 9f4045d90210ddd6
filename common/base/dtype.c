/* dtype.c - names and conversions of element types; see dtype.h */
#include "common/base/dtype.h"

#include <math.h>
#include <stdbool.h>
#include <strings.h>

static const struct {
    size_t size;
    const char *name, *st_name, *spellings;      /* spellings: further ones, blank separated */
} types[VC_DTYPES] = {
    [VC_F32] = { 4, "f32", "F32", "fp32 float32 float" },
    [VC_BF16] = { 2, "bf16", "BF16", "bfloat16" },
    [VC_F16] = { 2, "f16", "F16", "fp16 float16 half" },
    [VC_F8E4M3] = { 1, "fp8", "F8_E4M3", "f8 f8e4m3 fp8_e4m3 float8 float8_e4m3fn" },
    [VC_F8E5M2] = { 1, "fp8_e5m2", "F8_E5M2", "f8e5m2 float8_e5m2" },
    [VC_F64] = { 8, "f64", "F64", "fp64 float64 double" },
    [VC_I64] = { 8, "i64", "I64", "int64 long" },
    [VC_I32] = { 4, "i32", "I32", "int32 int" },
    [VC_I16] = { 2, "i16", "I16", "int16" },
    [VC_I8] = { 1, "i8", "I8", "int8" },
    [VC_U8] = { 1, "u8", "U8", "uint8" },
    [VC_BOOL] = { 1, "bool", "BOOL", "" },
    [VC_NF4] = { 1, "nf4", "", "" },
};

size_t vc_dtype_size(vc_dtype t) { return types[t].size; }
size_t vc_dtype_bytes(vc_dtype t, size_t n)
{
    return t == VC_NF4 ? n / 2 + n % 2 : n * types[t].size;
}
const char *vc_dtype_name(vc_dtype t) { return types[t].name; }
const char *vc_dtype_st_name(vc_dtype t) { return types[t].st_name; }

static bool spelled(const char *list, const char *s)
{
    size_t n = strlen(s);

    while (*list) {
        size_t len = strcspn(list, " ");
        if (len == n && !strncasecmp(list, s, n))
            return true;
        list += len + strspn(list + len, " ");
    }
    return false;
}

vc_dtype vc_dtype_from_name(const char *s)
{
    if (!strncasecmp(s, "torch.", 6))
        s += 6;
    for (int t = 0; t < VC_DTYPES; t++)
        if (!strcasecmp(types[t].name, s) || spelled(types[t].spellings, s))
            return (vc_dtype)t;
    return VC_DTYPE_NONE;
}

vc_dtype vc_dtype_from_st_name(const char *s, size_t len)
{
    for (int t = 0; t < VC_FILE_DTYPES; t++)
        if (strlen(types[t].st_name) == len && !memcmp(types[t].st_name, s, len))
            return (vc_dtype)t;
    return VC_DTYPE_NONE;
}

/* Returns the value of a small binary float with e exponent and m mantissa bits below its sign.
 * inf: the top exponent means infinity and NaN (else only all-ones is NaN, as in f8e4m3). */
static float small_to_f32(uint32_t v, int e, int m, bool inf)
{
    int bias = (1 << (e - 1)) - 1, ex = (int)(v >> m) & ((1 << e) - 1);
    uint32_t man = v & ((1u << m) - 1);
    float sign = v >> (e + m) & 1 ? -1.0f : 1.0f;

    if (ex == (1 << e) - 1 && (inf || man == (1u << m) - 1))
        return man ? copysignf(NAN, sign) : sign * INFINITY;
    if (ex == 0)
        return sign * ldexpf((float)man, 1 - bias - m);
    return sign * ldexpf((float)(man | 1u << m), ex - bias - m);
}

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* Rounds f to such a float. lift is the difference of the exponents' biases. The bits of subnormals
 * are the last bits of a sum. */
static inline uint32_t f32_to_small(float f, int e, int m, bool inf)
{
    uint32_t u = bits_of(f) & 0x7fffffff, sign = bits_of(f) >> 31 << (e + m), r;
    uint32_t top = (1u << (e + m)) - 1, lift = 128u - (1u << (e - 1)), cut = 23u - (uint32_t)m;
    uint32_t nan = inf ? (((1u << e) - 1) << m | 1u << (m - 1)) : top;
    uint32_t most = inf ? ((1u << e) - 1) << m : top - 1;       /* infinity, or largest finite */

    if (u > 0x7f800000)
        return sign | nan;
    if (u < (lift + 1) << 23) {
        uint32_t unit = (lift + 1 + cut) << 23;
        r = bits_of(float_of(u) + float_of(unit)) - unit;
    } else {
        r = (u - (lift << 23) + (1u << (cut - 1)) - 1 + (u >> cut & 1)) >> cut;
    }
    return sign | (r > most ? most : r);
}

/* f16 has functions of its own, which a compiler vectorises. Its subnormals are computed by adding
 * and subtracting normal numbers, so that a thread that flushes denormals to zero gets them right
 * too. */
static inline float f16_value(uint32_t h)
{
    uint32_t u = ((h & 0x7fff) << 13) + (112u << 23), top = h & 0x7c00, sub = u + (1u << 23);
    float f;

    memcpy(&f, &sub, 4);
    f -= 0x1p-14f;
    memcpy(&sub, &f, 4);
    u = top == 0x7c00 ? u + (112u << 23) : top == 0 ? sub : u;
    u |= (h & 0x8000) << 16;
    memcpy(&f, &u, 4);
    return f;
}

static inline uint16_t f16_of(float f)
{
    uint32_t u, sum;
    memcpy(&u, &f, 4);
    uint32_t sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;

    memcpy(&f, &u, 4);
    f += 0.5f;                                                 /* the unit rounds to 2^-24 */
    memcpy(&sum, &f, 4);
    uint32_t normal = (u - (112u << 23) + 0xfff + (u >> 13 & 1)) >> 13;
    uint32_t small = sum - 0x3f000000;
    uint32_t large = u > 0x7f800000 ? 0x7e00 : 0x7c00;
    return (uint16_t)(sign | (u >= 0x47800000 ? large : u < 0x38800000 ? small : normal));
}

float vc_f16_to_f32(uint16_t h) { return f16_value(h); }
float vc_f8e4m3_to_f32(uint8_t b) { return small_to_f32(b, 4, 3, false); }
float vc_f8e5m2_to_f32(uint8_t b) { return small_to_f32(b, 5, 2, true); }
uint16_t vc_f32_to_f16(float f) { return f16_of(f); }
uint8_t vc_f32_to_f8e4m3(float f) { return (uint8_t)f32_to_small(f, 4, 3, false); }
uint8_t vc_f32_to_f8e5m2(float f) { return (uint8_t)f32_to_small(f, 5, 2, true); }

/* ---- nf4 ---- */

const float vc_nf4[16] = {
    -1.0f,                 -0.6961928009986877f,  -0.5250730514526367f, -0.39491748809814453f,
    -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
    0.07958029955625534f,  0.16093020141124725f,  0.24611230194568634f,  0.33791524171829224f,
    0.44070982933044434f,  0.5626170039176941f,   0.7229568362236023f,   1.0f,
};
enum { NF4_ZERO = 7, NF4_STAGE = 64 };     /* values at a time: even */

static void from_nf4(float *dst, const uint8_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = vc_nf4[i % 2 ? src[i / 2] & 15 : src[i / 2] >> 4];
}

/* Writes the codes of the nearest numbers, a byte each; NaN becomes 0. A code is the number of
 * boundaries below the value: all are compared, since a search's branches are slow to mispredict,
 * and processors do many comparisons at a time. */
static void nf4_codes(uint8_t *code, const float *src, size_t n)
{
    int32_t count[NF4_STAGE] = { 0 };

    for (int c = 0; c < 15; c++) {
        const float between = (vc_nf4[c] + vc_nf4[c + 1]) / 2;
        for (size_t i = 0; i < n; i++)
            count[i] += src[i] > between;
    }
    for (size_t i = 0; i < n; i++)
        code[i] = (uint8_t)(isnan(src[i]) ? NF4_ZERO : count[i]);
}

static void to_nf4(uint8_t *dst, const float *src, size_t n)
{
    uint8_t code[NF4_STAGE];

    for (size_t at = 0, m; at < n; at += m) {
        m = n - at < NF4_STAGE ? n - at : NF4_STAGE;
        code[m - 1 + m % 2] = NF4_ZERO;        /* behind an odd number of values */
        nf4_codes(code, src + at, m);
        for (size_t i = 0; i < m; i += 2)
            dst[(at + i) / 2] = (uint8_t)(code[i] << 4 | code[i + 1]);
    }
}

/* ---- rows of any type ---- */

/* Values in a file may be unaligned, so they are copied, not dereferenced. */
#define EACH(ctype, expr)                                                   \
    for (size_t i = 0; i < n; i++) {                                        \
        ctype v;                                                            \
        memcpy(&v, (const char *)src + i * sizeof v, sizeof v);             \
        dst[i] = (expr);                                                    \
    }                                                                       \
    break

void vc_to_f32(float *dst, const void *src, vc_dtype t, size_t n)
{
    switch (t) {
    case VC_F32: EACH(float, v);
    case VC_BF16: EACH(uint16_t, vc_bf16_to_f32(v));
    case VC_F16: EACH(uint16_t, f16_value(v));
    case VC_F8E4M3: EACH(uint8_t, vc_f8e4m3_to_f32(v));
    case VC_F8E5M2: EACH(uint8_t, vc_f8e5m2_to_f32(v));
    case VC_F64: EACH(double, (float)v);
    case VC_I64: EACH(int64_t, (float)v);
    case VC_I32: EACH(int32_t, (float)v);
    case VC_I16: EACH(int16_t, (float)v);
    case VC_I8: EACH(int8_t, (float)v);
    case VC_U8: EACH(uint8_t, (float)v);
    case VC_BOOL: EACH(uint8_t, v ? 1.0f : 0.0f);
    case VC_NF4: from_nf4(dst, src, n); break;
    default: break;
    }
}
#undef EACH

/* Returns f without its fraction, limited to lo..hi, or 0 for NaN: C leaves the cast of a value out
 * of range undefined. */
static int64_t whole(float f, int64_t lo, int64_t hi)
{
    if (isnan(f))
        return 0;
    if (f < -0x1p63f || f >= 0x1p63f)
        return f < 0 ? lo : hi;
    int64_t v = (int64_t)f;
    return v < lo ? lo : v > hi ? hi : v;
}

#define EACH(ctype, expr)                                                   \
    for (size_t i = 0; i < n; i++) {                                        \
        ctype v = (ctype)(expr);                                            \
        memcpy((char *)dst + i * sizeof v, &v, sizeof v);                   \
    }                                                                       \
    break

void vc_from_f32(void *dst, vc_dtype t, const float *src, size_t n)
{
    switch (t) {
    case VC_F32: EACH(float, src[i]);
    case VC_BF16: EACH(uint16_t, vc_f32_to_bf16(src[i]));
    case VC_F16: EACH(uint16_t, f16_of(src[i]));
    case VC_F8E4M3: EACH(uint8_t, vc_f32_to_f8e4m3(src[i]));
    case VC_F8E5M2: EACH(uint8_t, vc_f32_to_f8e5m2(src[i]));
    case VC_F64: EACH(double, src[i]);
    case VC_I64: EACH(int64_t, whole(src[i], INT64_MIN, INT64_MAX));
    case VC_I32: EACH(int32_t, whole(src[i], INT32_MIN, INT32_MAX));
    case VC_I16: EACH(int16_t, whole(src[i], INT16_MIN, INT16_MAX));
    case VC_I8: EACH(int8_t, whole(src[i], INT8_MIN, INT8_MAX));
    case VC_U8: EACH(uint8_t, whole(src[i], 0, UINT8_MAX));
    case VC_BOOL: EACH(uint8_t, src[i] != 0);
    case VC_NF4: to_nf4(dst, src, n); break;
    default: break;
    }
}
#undef EACH
