/* rows_impl.h - the kernels of rows.h. Each rows_*.c defines ROWS_SET and ROWS_NAME, includes this
 * file and is compiled with its own -m flags. */
#include <math.h>

#include "common/cpu/simd/rows.h"
#include "common/cpu/simd/vec.h"
#include "common/kernels/moments.h"

/* A loop over a span by vectors: k lanes at i, VW of them except at the end. */
#define SPAN(n) for (size_t i = 0, k; i < (n) && (k = (n) - i); i += VW)

/* Long sums are f32 in a vector over a stretch, which keeps them exact to a few ulp, then f64. */
enum { STRETCH = 4096 };

/* ---- conversions ---- */

static void load_half(float *dst, const uint16_t *src, size_t n, bool bf16)
{
    SPAN(n) {
        vu16 h = v_get_u16(src + i, k);
        v_put(dst + i, bf16 ? v_from_bf16(h) : v_from_f16(h), k);
    }
}

static void load_f8(float *dst, const uint8_t *src, size_t n, bool e4m3)
{
    SPAN(n) {
        vu8 b = v_get_u8(src + i, k);
        v_put(dst + i, e4m3 ? v_from_f8e4m3(b) : v_from_f8e5m2(b), k);
    }
}

static void load_i8(float *dst, const uint8_t *src, size_t n)
{
    SPAN(n)
        v_put(dst + i, v_from_i8(v_get_u8(src + i, k)), k);
}

static void load_nf4(float *dst, const uint8_t *src, size_t n)
{
    size_t whole = n / VW * VW;

    for (size_t i = 0; i < whole; i += VW)
        v_store(dst + i, v_from_nf4(src + i / 2));
    vc_to_f32(dst + whole, src + whole / 2, VC_NF4, n - whole);
}

static void rows_load(float *dst, const void *src, vc_dtype t, size_t n)
{
    switch (t) {
    case VC_F32:
        if (n && dst != src)
            memcpy(dst, src, n * 4);
        break;
    case VC_BF16: load_half(dst, src, n, true); break;
    case VC_F16: load_half(dst, src, n, false); break;
    case VC_F8E4M3: load_f8(dst, src, n, true); break;
    case VC_F8E5M2: load_f8(dst, src, n, false); break;
    case VC_I8: load_i8(dst, src, n); break;
    case VC_NF4: load_nf4(dst, src, n); break;
    default: vc_to_f32(dst, src, t, n); break;
    }
}

static void rows_store(void *dst, vc_dtype t, const float *src, size_t n)
{
    if (t == VC_F32) {
        if (n && dst != src)
            memcpy(dst, src, n * 4);
        return;
    }
    if (t != VC_BF16 && t != VC_F16) {
        vc_from_f32(dst, t, src, n);
        return;
    }
    uint16_t *d = dst;
    SPAN(n) {
        vf x = v_get(src + i, k);
        v_put_u16(d + i, t == VC_BF16 ? v_to_bf16(x) : v_to_f16(x), k);
    }
}

enum { DRAWN = 32 };                       /* packs of eight whose draws are computed together */

static inline uint32_t high_word(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}

/* Computes 16 bits for each element of DRAWN packs from pack `at` on. These are vk_philox's rounds;
 * compilers do not vectorise its array of words, and a call of it takes twice the time. */
static void draw_bits(uint16_t *bits, const vk_draws *d, uint64_t at, int value)
{
    uint32_t word[DRAWN][4];

    for (int i = 0; i < DRAWN; i++) {
        uint64_t pack = at + (uint64_t)i;
        uint32_t k0 = d->key[0], k1 = d->key[1], c0 = (uint32_t)pack, c2 = d->step;
        uint32_t c1 = (uint32_t)(pack >> 32) << 2 | (uint32_t)value, c3 = d->purpose;
#pragma GCC unroll 10
        for (int round = 0; round < 10; round++) {
            uint32_t n0 = high_word(0xCD9E8D57u, c2) ^ c1 ^ k0;
            uint32_t n2 = high_word(0xD2511F53u, c0) ^ c3 ^ k1;
            c1 = 0xCD9E8D57u * c2;
            c3 = 0xD2511F53u * c0;
            c0 = n0;
            c2 = n2;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        word[i][0] = c0;
        word[i][1] = c1;
        word[i][2] = c2;
        word[i][3] = c3;
    }
    for (int i = 0; i < DRAWN; i++)
        for (int j = 0; j < 8; j++)
            bits[8 * i + j] = (uint16_t)(word[i][j / 2] >> 16 * (j % 2));
}

static void rows_store_randomly(void *dst, const float *src, size_t n, const vk_draws *d,
                                uint64_t pack, int value)
{
    uint16_t *to = dst, bits[8 * DRAWN];

    for (size_t at = 0; at < n; at += 8 * DRAWN) {
        size_t some = n - at < 8 * DRAWN ? n - at : 8 * DRAWN;
        draw_bits(bits, d, d->first + pack + at / 8, value);
        for (size_t i = 0; i < some; i++)
            to[at + i] = vk_to_bf16_randomly(src[at + i], bits[i]);
    }
}

static void rows_load_codes(float *x, const uint8_t *code, size_t n, float peak,
                            const cpu_codes *c)
{
    for (size_t i = 0; i < n; i++)
        x[i] = c->value[code[i]] * peak;
}

/* Bits of magnitudes have their order, and compilers vectorise the largest integer. nan: a NaN is
 * the largest, and else it counts as 0. */
static inline float largest(const float *x, size_t n, bool nan)
{
    int32_t most = 0;

    for (size_t i = 0; i < n; i++) {
        int32_t size;
        memcpy(&size, x + i, sizeof size);
        size &= 0x7fffffff;
        size = !nan && size > 0x7f800000 ? 0 : size;
        most = size > most ? size : most;
    }
    return vk_float((uint32_t)most);
}

static float rows_store_i8(int8_t *restrict code, const float *restrict x, size_t n)
{
    const float scale = largest(x, n, true) / 127;

    if (!(scale >= 0x1p-126f) || !isfinite(scale)) {      /* too small to divide by, or no number */
        memset(code, 0, n);
        return scale < 0x1p-126f ? 1 : NAN;
    }
    /* A sum with 1.5 * 2^23 has no room for a fraction. */
    for (size_t i = 0; i < n; i++)
        code[i] = (int8_t)(int32_t)((x[i] / scale + 0x1.8p23f) - 0x1.8p23f);
    return scale;
}

static void rows_load_i32(float *restrict y, const int32_t *restrict x, float by, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = (float)x[i] * by;
}

/* The code of the value nearest to x is the number of borders below x. */
static float rows_store_codes(uint8_t *restrict code, const float *restrict x, size_t n,
                              const cpu_codes *restrict c)
{
    float peak = largest(x, n, false), over = peak > 0 ? peak : 1;
    int square = c->square;

    for (size_t i = 0; i < n; i++) {
        float part = x[i] / over;
        int32_t u;
        memcpy(&u, &part, sizeof u);
        int32_t size = (u & 0x7fffffff) - CPU_CODE_LEAST, sign = u < 0 ? CPU_CODE_BUCKETS : 0;
        size = size > CPU_CODE_MOST - CPU_CODE_LEAST ? 0 : size;         /* NaN */
        int32_t k = c->first[sign + ((size > 0 ? size : 0) >> 16)];
        k += part > c->border[k];
        code[i] = (uint8_t)(k + (square & (k == 0) & (part > 0)));
    }
    return peak;
}

/* ---- element by element ---- */

static void rows_add(float *y, const float *a, const float *b, size_t n)
{
    SPAN(n)
        v_put(y + i, v_get(a + i, k) + v_get(b + i, k), k);
}

static void rows_sub(float *y, const float *a, const float *b, size_t n)
{
    SPAN(n)
        v_put(y + i, v_get(a + i, k) - v_get(b + i, k), k);
}

static void rows_mul(float *y, const float *a, const float *b, size_t n)
{
    SPAN(n)
        v_put(y + i, v_get(a + i, k) * v_get(b + i, k), k);
}

static void rows_axpby(float *y, float a, const float *x, float b, size_t n)
{
    SPAN(n)                                        /* b = 0: y may be anything, even NaN */
        v_put(y + i, b == 0 ? a * v_get(x + i, k) : a * v_get(x + i, k) + b * v_get(y + i, k), k);
}

static void rows_muladd(float *y, const float *a, const float *b, size_t n)
{
    SPAN(n)
        v_put(y + i, v_get(y + i, k) + v_get(a + i, k) * v_get(b + i, k), k);
}

static void rows_exp(float *y, const float *x, size_t n)
{
    SPAN(n)
        v_put(y + i, v_exp(v_get(x + i, k)), k);
}

static void rows_gelu_tanh_jet(float *y, float *slope, float *curve, const float *x, size_t n)
{
    SPAN(n) {
        vf d1, d2, v = v_gelu_tanh_jet(v_get(x + i, k), &d1, &d2);
        v_put(y + i, v, k);
        if (slope)
            v_put(slope + i, d1, k);
        if (curve)
            v_put(curve + i, d2, k);
    }
}

#define UNARY(with, NAME, name)                                                                    \
    static void rows_##name(float *y, const float *x, size_t n)                                    \
    {                                                                                              \
        SPAN(n)                                                                                    \
            v_put(y + i, v_##name(v_get(x + i, k)), k);                                            \
    }                                                                                              \
    static void rows_##name##_grad(float *dx, const float *dy, const float *x, size_t n)           \
    {                                                                                              \
        SPAN(n)                                                                                    \
            v_put(dx + i, v_get(dy + i, k) * v_##name##_slope(v_get(x + i, k)), k);                \
    }
VF_UNARIES(UNARY, )

/* ---- sums ---- */

/* Sums TERM(i, k lanes) over a span in four vectors, so that additions overlap. */
#define FOLD(n)                                                         \
    double total = 0;                                                   \
    for (size_t j = 0; j < (n); j += STRETCH) {                         \
        size_t end = (n) - j < STRETCH ? (n) : j + STRETCH, i = j;      \
        vf s[4] = { { 0 } };                                            \
        for (; i + 4 * VW <= end; i += 4 * VW)                          \
            for (int l = 0; l < 4; l++)                                 \
                s[l] += TERM(i + l * VW, VW);                           \
        for (; i < end; i += VW)                                        \
            s[0] += TERM(i, end - i);                                   \
        total += v_sum((s[0] + s[1]) + (s[2] + s[3]));                  \
    }

static float rows_sum(const float *x, size_t n)
{
#define TERM(i, k) v_get(x + (i), (k))
    FOLD(n)
#undef TERM
    return (float)total;
}

static double rows_sumsq(const float *x, size_t n)
{
#define TERM(i, k) (v_get(x + (i), (k)) * v_get(x + (i), (k)))
    FOLD(n)
#undef TERM
    return total;
}

static float rows_dot(const float *a, const float *b, size_t n)
{
#define TERM(i, k) (v_get(a + (i), (k)) * v_get(b + (i), (k)))
    FOLD(n)
#undef TERM
    return (float)total;
}

/* Sums two vectors of columns at a time: four chains of sums hide the latency of additions. */
static void rows_moments(float *sum, float *sumsq, const float *x, const float *at, size_t rows,
                         size_t n)
{
    for (size_t i = 0; i < n; i += 2 * VW) {
        size_t k = n - i, k2 = k > VW ? k - VW : 0;
        vf a = v_get(at + i, k), s = v_get(sum + i, k), q = v_get(sumsq + i, k);
        vf a2 = { 0 }, s2 = { 0 }, q2 = { 0 };
        if (k2) {
            a2 = v_get(at + i + VW, k2);
            s2 = v_get(sum + i + VW, k2);
            q2 = v_get(sumsq + i + VW, k2);
        }
        for (size_t r = 0; r < rows; r++) {
            const float *p = x + r * n + i;
            vf d = v_get(p, k) - a, d2 = k2 ? v_get(p + VW, k2) - a2 : a2;
            s += d;
            q += d * d;
            s2 += d2;
            q2 += d2 * d2;
        }
        v_put(sum + i, s, k);
        v_put(sumsq + i, q, k);
        if (k2) {
            v_put(sum + i + VW, s2, k2);
            v_put(sumsq + i + VW, q2, k2);
        }
    }
}

/* ---- norms ---- */

static void rows_layer_stats(float stats[2], const float *x, size_t n, float eps)
{
    float mean = rows_sum(x, n) / (float)n;
    double var = 0;

    for (size_t j = 0; j < n; j += STRETCH) {
        size_t m = n - j < STRETCH ? n - j : STRETCH;
        const float *p = x + j;
        vf s = { 0 };
        SPAN(m) {
            vf d = v_get(p + i, k) - mean;
            if (k < VW)
                d = v_if(v_lanes() < (int32_t)k, d, v_set(0));
            s += d * d;
        }
        var += v_sum(s);
    }
    stats[0] = mean;
    stats[1] = 1.0f / sqrtf((float)(var / (double)n) + eps);
}

static void rows_rms_stats(float stats[2], const float *x, size_t n, float eps)
{
    stats[0] = 0;
    stats[1] = 1.0f / sqrtf((float)(rows_sumsq(x, n) / (double)n) + eps);
}

static void rows_norm(float *y, const float *x, const float stats[2], const float *w,
                      const float *b, const float *shift, const float *scale, size_t n)
{
    float mean = stats[0], rstd = stats[1];

    SPAN(n) {
        vf v = (v_get(x + i, k) - mean) * rstd;
        if (w)
            v *= v_get(w + i, k);
        if (b)
            v += v_get(b + i, k);
        if (scale)
            v += v * v_get(scale + i, k);
        if (shift)
            v += v_get(shift + i, k);
        v_put(y + i, v, k);
    }
}

/* Adds v to k lanes at p. */
static inline void accumulate(float *p, vf v, size_t k)
{
    v_put(p, v_get(p, k) + v, k);
}

static void rows_norm_grad(float *dx, float *dw, float *db, float *dshift, float *dscale,
                           const float *dy, const float *x, const float stats[2], const float *w,
                           const float *b, const float *scale, size_t n, int rms)
{
    float mean = stats[0], rstd = stats[1];
    vf sum_g = { 0 }, sum_gx = { 0 };

    SPAN(n) {                                 /* lanes past the end have dy = 0, so add nothing */
        vf d = v_get(dy + i, k), xhat = (v_get(x + i, k) - mean) * rstd;
        vf wi = w ? v_get(w + i, k) : v_set(1), ds = scale ? d + d * v_get(scale + i, k) : d;
        vf g = ds * wi;
        sum_g += g;
        sum_gx += g * xhat;
        if (dw)
            accumulate(dw + i, ds * xhat, k);
        if (db)
            accumulate(db + i, ds, k);
        if (dshift)
            accumulate(dshift + i, d, k);
        if (dscale)
            accumulate(dscale + i, d * (b ? xhat * wi + v_get(b + i, k) : xhat * wi), k);
    }
    if (!dx)
        return;
    float mg = rms ? 0 : v_sum(sum_g) / (float)n, mgx = v_sum(sum_gx) / (float)n;
    SPAN(n) {
        vf d = v_get(dy + i, k), xhat = (v_get(x + i, k) - mean) * rstd;
        vf g = scale ? d + d * v_get(scale + i, k) : d;
        if (w)
            g *= v_get(w + i, k);
        v_put(dx + i, rstd * (g - mg - xhat * mgx), k);
    }
}

/* ---- the rest ---- */

static void rows_rope(float *y, const float *x, const float *c, const float *s, float sign,
                      size_t n)
{
    const vf signs = v_if((v_lanes() & 1) == 0, v_set(-sign), v_set(sign));
    size_t i = 0;

    for (; i + VW <= n; i += VW) {                 /* VW pairs are two vectors */
        vf ci = v_load(c + i), si = v_load(s + i), p = v_load(x + 2 * i),
           q = v_load(x + 2 * i + VW);
        v_store(y + 2 * i, p * v_twice_low(ci) + v_swap(p) * (v_twice_low(si) * signs));
        v_store(y + 2 * i + VW, q * v_twice_high(ci) + v_swap(q) * (v_twice_high(si) * signs));
    }
    for (; i < n; i++) {
        float p = x[2 * i], q = x[2 * i + 1];
        y[2 * i] = p * c[i] - q * s[i] * sign;
        y[2 * i + 1] = q * c[i] + p * s[i] * sign;
    }
}

static void rows_rope_halves(float *y0, float *y1, const float *x0, const float *x1,
                             const float *c, const float *s, float sign, size_t n)
{
    SPAN(n) {
        vf ci = v_get(c + i, k), si = v_get(s + i, k) * sign;
        vf p = v_get(x0 + i, k), q = v_get(x1 + i, k);
        v_put(y0 + i, p * ci - q * si, k);
        v_put(y1 + i, q * ci + p * si, k);
    }
}

#define RULE(with, NAME, name, states, squares)                                                    \
    static void rows_##name(float *w, float *const *s, const float *grad, size_t n,                \
                            const vf_step *a)                                                      \
    {                                                                                              \
        SPAN(n) {                                                                                  \
            vf x[states];                                                                          \
            for (int j = 0; j < (states); j++)                                                     \
                x[j] = v_get(s[j] + i, k);                                                         \
            v_put(w + i, v_##name##_rule(a, v_get(w + i, k), x, v_get(grad + i, k)), k);           \
            for (int j = 0; j < (states); j++)                                                     \
                v_put(s[j] + i, x[j], k);                                                          \
        }                                                                                          \
    }
VF_RULES(RULE, )

#define VALUES(with, NAME, name) .name = rows_##name, .name##_grad = rows_##name##_grad,
#define RULES(with, NAME, name, states, squares) .name = rows_##name,
const cpu_rows ROWS_SET = {
    .name = ROWS_NAME,
    .load = rows_load,
    .store = rows_store,
    .store_randomly = rows_store_randomly,
    .load_codes = rows_load_codes,
    .store_codes = rows_store_codes,
    .store_i8 = rows_store_i8,
    .load_i32 = rows_load_i32,
    .add = rows_add,
    .sub = rows_sub,
    .mul = rows_mul,
    .axpby = rows_axpby,
    .muladd = rows_muladd,
    .sum = rows_sum,
    .sumsq = rows_sumsq,
    .dot = rows_dot,
    VF_UNARIES(VALUES, )
    .exp = rows_exp,
    .gelu_tanh_jet = rows_gelu_tanh_jet,
    .moments = rows_moments,
    .layer_stats = rows_layer_stats,
    .rms_stats = rows_rms_stats,
    .norm = rows_norm,
    .norm_grad = rows_norm_grad,
    .rope = rows_rope,
    .rope_halves = rows_rope_halves,
    VF_RULES(RULES, )
};
