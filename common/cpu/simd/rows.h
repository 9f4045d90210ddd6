/* rows.h - the inner loops of the CPU backend over spans of f32, one set per instruction set.
 *
 * Each set is the same source (rows_impl.h), compiled once per target with GNU vector types, so all
 * sets compute the same formulas; results may differ in the last bit between sets, never between
 * runs. AVX512-BF16 also stores denormals as zeros in bf16. Spans may be unaligned; an output may
 * be the same span as an input, but must not overlap it otherwise. No function allocates. */
#ifndef COMMON_CPU_SIMD_ROWS_H
#define COMMON_CPU_SIMD_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cpu/simd/isa.h"
#include "common/tensor/backend.h"

struct vk_draws;

/* Codes of eight bits of an optimiser's states (moments.h). A bucket holds the numbers of one sign
 * whose bits agree but for the last 16; it is so narrow that at most one border lies in it. The
 * first bucket of a sign also has all magnitudes below CPU_CODE_LEAST (2^-24), which is less than
 * the least border. */
enum {
    CPU_CODE_LEAST = 0x33800000, CPU_CODE_MOST = 0x3f800000,                     /* bits of 1 */
    CPU_CODE_BUCKETS = ((CPU_CODE_MOST - CPU_CODE_LEAST) >> 16) + 1,
};
typedef struct cpu_codes {
    float value[256];                        /* in ascending order */
    float border[256];                       /* midpoints of neighbours; the last is infinite */
    int32_t first[2 * CPU_CODE_BUCKETS];     /* of x >= 0, then of x < 0: a bucket's least code */
    bool square;                             /* no number above 0 gets code 0 */
} cpu_codes;

/* Fills c from the values of the codes. */
void cpu_codes_of(cpu_codes *c, float (*value)(uint8_t), bool square);

typedef struct cpu_rows {
    const char *name;                        /* "plain", "avx2", "avx512", "avx512_bf16" */
    /* conversions: f32, bf16, f16, f8e4m3, f8e5m2; load also i8 and nf4 */
    void (*load)(float *dst, const void *src, vc_dtype t, size_t n);
    void (*store)(void *dst, vc_dtype t, const float *src, size_t n);
    /* stores bf16 with stochastic rounding (moments.h): src begins with pack `pack` of eight, and
     * its bits are those of vk_store8_randomly on every set */
    void (*store_randomly)(void *dst, const float *src, size_t n, const struct vk_draws *d,
                           uint64_t pack, int value);
    /* x = values of codes, times peak; and the codes of x / largest magnitude, which is returned
     * (NaN counts as 0) */
    void (*load_codes)(float *x, const uint8_t *code, size_t n, float peak, const cpu_codes *c);
    float (*store_codes)(uint8_t *code, const float *x, size_t n, const cpu_codes *c);
    /* codes of x / its largest magnitude * 127, nearest first; and the scale that they are to be
     * multiplied by, which is no finite number if one of x is none */
    float (*store_i8)(int8_t *code, const float *x, size_t n);
    void (*load_i32)(float *y, const int32_t *x, float by, size_t n);       /* y = x by */
    /* y = a op b */
    void (*add)(float *y, const float *a, const float *b, size_t n);
    void (*sub)(float *y, const float *a, const float *b, size_t n);
    void (*mul)(float *y, const float *a, const float *b, size_t n);
    void (*axpby)(float *y, float a, const float *x, float b, size_t n);    /* y = a x + b y */
    void (*muladd)(float *y, const float *a, const float *b, size_t n);     /* y += a b */
    float (*sum)(const float *x, size_t n);
    double (*sumsq)(const float *x, size_t n);
    float (*dot)(const float *a, const float *b, size_t n);
    /* activations (formulas.h) and their gradients: dx = dy f'(x) */
#define ROWS_UNARY(with, NAME, name)                                                               \
    void (*name)(float *y, const float *x, size_t n);                                              \
    void (*name##_grad)(float *dx, const float *dy, const float *x, size_t n);
    VF_UNARIES(ROWS_UNARY, )
#undef ROWS_UNARY
    void (*exp)(float *y, const float *x, size_t n);
    /* y = gelu(x), slope and curve its first and second slopes; y alone is never NULL */
    void (*gelu_tanh_jet)(float *y, float *slope, float *curve, const float *x, size_t n);
    /* per column, over packed rows of n: sum += x - at, sumsq += (x - at)^2 */
    void (*moments)(float *sum, float *sumsq, const float *x, const float *at, size_t rows,
                    size_t n);
    /* mean and 1/sqrt(var + eps), or 0 and 1/sqrt(mean(x^2) + eps) */
    void (*layer_stats)(float stats[2], const float *x, size_t n, float eps);
    void (*rms_stats)(float stats[2], const float *x, size_t n, float eps);
    /* y = ((x - mean) rstd w + b)(1 + scale) + shift; w NULL is 1, the others NULL are 0 */
    void (*norm)(float *y, const float *x, const float stats[2], const float *w, const float *b,
                 const float *shift, const float *scale, size_t n);
    /* dx = rstd (g - mean(g) - xhat mean(g xhat)), g = dy (1 + scale) w; rms: without the mean(g)
     * term. dw += dy (1+scale) xhat, db += dy (1+scale), dscale += dy (xhat w + b), dshift += dy.
     * Targets that are NULL are skipped. */
    void (*norm_grad)(float *dx, float *dw, float *db, float *dshift, float *dscale,
                      const float *dy, const float *x, const float stats[2], const float *w,
                      const float *b, const float *scale, size_t n, int rms);
    /* pairs: (a,b) -> (a c - s b sign, b c + s a sign); n = pairs */
    void (*rope)(float *y, const float *x, const float *c, const float *s, float sign, size_t n);
    /* the same from pairs (x0[i], x1[i]) to (y0[i], y1[i]) */
    void (*rope_halves)(float *y0, float *y1, const float *x0, const float *x1, const float *c,
                        const float *s, float sign, size_t n);
    /* a step of each rule of formulas.h; s: spans of its states */
#define ROWS_RULE(with, NAME, name, states, squares)                                               \
    void (*name)(float *w, float *const *s, const float *grad, size_t n, const vf_step *a);
    VF_RULES(ROWS_RULE, )
#undef ROWS_RULE
} cpu_rows;

extern const cpu_rows cpu_rows_plain;
#if defined(__x86_64__)
extern const cpu_rows cpu_rows_avx2, cpu_rows_avx512, cpu_rows_avx512_bf16;
#endif

/* Returns the kernels for the instructions that `isa` allows. */
const cpu_rows *cpu_rows_for(const cpu_isa *isa);

#endif
