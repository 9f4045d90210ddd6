/* transpose.h - transposition of units, and softmax, shared by the f32 and bf16 kernels. Included
 * once per target, after vec.h and gemm.h, and after the type prob of a stored probability and
 * put_prob(p, x), which stores VW of them. */
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

/* Computes gemm.h's softmax of a block. */
static void softmax(const cpu_softmax *x)
{
    for (int r = 0; r < x->rows; r++) {
        float *s = x->s + (size_t)r * x->lds;
        prob *p = (prob *)(x->p + (size_t)r * x->ldp);
        float top = most(s, (size_t)x->n) * x->scale;
        if (top > x->max[r]) {
            rescale(x, r, x->max[r], top);
            x->max[r] = top;
        }
        float max = x->max[r];
        vf sum = { 0 };
        for (int i = 0; i < x->np; i += VW) {
            vf e = v_exp2(v_load(s + i) * x->scale - max);
            if (i + VW > x->n)
                e = v_if(v_lanes() < x->n - i, e, v_set(0));
            put_prob(p + i, e);
            sum += e;
        }
        x->sum[r] += v_sum(sum);
    }
}
