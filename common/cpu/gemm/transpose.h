/* transpose.h - transposition of units, and softmax, shared by the f32 and bf16 kernels. Included
 * once per target, after vec.h and gemm.h, and after these:
 *     prob                   a stored probability
 *     prob_exp2(x)           2^x, as exact as a probability is stored
 *     probs, probs_of(a, b)  two vectors of probabilities, as they are stored
 *     put_probs(p, x)        stores them at a prob *p */
#include <math.h>

/* Indices that exchange, between rows i and i + s, the lanes whose number has bit s and the lanes
 * without. */
#define UPPER(lane, s) ((lane) & (s) ? (lane) - (s) + VW : (lane))
#define LOWER(lane, s) ((lane) & (s) ? (lane) + VW : (lane) + (s))
#define EXCHANGE(r, s)                                                          \
    _Pragma("GCC unroll 16")                                                    \
    for (int i = 0; i < VW; i++)                                                \
        if (!(i & (s))) {                                                       \
            vu a = r[i], b = r[i + (s)];                                        \
            r[i] = __builtin_shufflevector(a, b, V_LANES(UPPER, s));            \
            r[i + (s)] = __builtin_shufflevector(a, b, V_LANES(LOWER, s));      \
        }

/* Transposes VW x VW units in registers: log2 VW rounds exchange blocks of 8, 4, 2, 1 lanes between
 * rows. */
static inline void transpose_square(uint32_t *dst, size_t ldd, const uint32_t *src, size_t lds)
{
    vu r[VW];

#pragma GCC unroll 16
    for (int i = 0; i < VW; i++)
        memcpy(&r[i], src + (size_t)i * lds, sizeof r[i]);
#if VW == 16
    EXCHANGE(r, 8)
#endif
#if VW >= 8
    EXCHANGE(r, 4)
#endif
    EXCHANGE(r, 2)
    EXCHANGE(r, 1)
#pragma GCC unroll 16
    for (int i = 0; i < VW; i++)
        memcpy(dst + (size_t)i * ldd, &r[i], sizeof r[i]);
}

static void transpose_units(uint32_t *dst, size_t ldd, const uint32_t *src, size_t lds, size_t rows,
                 size_t cols)
{
    size_t full_rows = rows / VW * VW, full_cols = cols / VW * VW;

    for (size_t r = 0; r < full_rows; r += VW)
        for (size_t c = 0; c < full_cols; c += VW)
            transpose_square(dst + c * ldd + r, ldd, src + r * lds + c, lds);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = r < full_rows ? full_cols : 0; c < cols; c++)
            dst[c * ldd + r] = src[r * lds + c];
}

/* Returns the largest of n values. */
static float most(const float *s, size_t n)
{
    vf m = v_set(-INFINITY);
    size_t i = 0;

    for (; i + VW <= n; i += VW)
        m = v_max(m, v_load(s + i));
    float best = v_most(m);
    for (; i < n; i++)
        best = s[i] > best ? s[i] : best;
    return best;
}

/* Rescales a row's sum and output after its maximum grew from `old` to `now`. */
static void rescale(const cpu_softmax *x, int r, float old, float now)
{
    if (old == -INFINITY)                         /* o is not written yet */
        return;
    float f = exp2f(old - now), *o = x->o + (size_t)r * x->ldo;

    x->sum[r] *= f;
    for (size_t i = 0; i < x->d; i += VW)
        v_put(o + i, v_get(o + i, x->d - i) * f, x->d - i);
}

/* Stores 2^(scale s - max) of n scores, and zeros up to a multiple of 2 VW; returns the sums by
 * lane. */
static inline vf put_row(prob *p, const float *s, size_t n, float scale, float max)
{
    vf sum = { 0 };

    for (size_t i = 0; i < n; i += 2 * VW) {
        vf a = prob_exp2(v_load(s + i) * scale - max);
        vf b = prob_exp2(v_load(s + i + VW) * scale - max);
        if (i + 2 * VW > n) {
            a = v_if(v_lanes() < (int)(n - i), a, v_set(0));
            b = v_if(v_lanes() + VW < (int)(n - i), b, v_set(0));
        }
        put_probs(p + i, probs_of(a, b));
        sum += a + b;
    }
    return sum;
}

/* Computes gemm.h's softmax of a block. */
static void softmax(const cpu_softmax *x)
{
    for (int r = 0; r < x->rows; r++) {
        float *s = x->s + (size_t)r * x->lds;
        float top = most(s, (size_t)x->n) * x->scale;
        if (top > x->max[r]) {
            rescale(x, r, x->max[r], top);
            x->max[r] = top;
        }
        x->sum[r] += v_sum(put_row((prob *)(x->p + (size_t)r * x->ldp), s, (size_t)x->n, x->scale,
                                   x->max[r]));
    }
}

/* The reference of a row of cpu_attend is the maximum of its first block. A sum above this limit,
 * or a NaN, takes the maximum of a later block instead: f32 has room for larger probabilities, and
 * what is 2^126 below an old reference is as far below the largest score. */
#define ATTEND_LIMIT 0x1p40f

/* Rescales the output of row r to a larger reference. */
static void attend_rescale(const cpu_attend *x, size_t r, float top)
{
    float f = exp2f(x->max[r] - top), *o = x->o + r * x->dp;

    x->max[r] = top;
    for (size_t i = 0; i < x->dp; i += VW)
        v_store(o + i, v_load(o + i) * f);
}
