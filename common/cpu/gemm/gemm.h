/* gemm.h - products of packed blocks, used by matmul, attention and convolution.
 *
 * Each instruction set has a set of kernels, chosen by cpu_gemm_of. The callers are the same for
 * all sets; they see operands packed in units of 32 bits: one f32, or a pair of bf16 that are
 * neighbours along k (AVX512-BF16, AMX). Sizes of packed operands along k are counted in units.
 *
 *     A   rows of k units, `lda` apart
 *     B   panels of nr columns, each [k][nr] units, `pb` apart; zeros fill up the last panel
 *     C   f32 rows, `ldc` apart
 *
 * Each element of C is summed over k in ascending order for any block, so results do not depend on
 * the division of work in m and n. The kernels allocate nothing; any number of threads may run
 * them. */
#ifndef COMMON_CPU_GEMM_GEMM_H
#define COMMON_CPU_GEMM_GEMM_H

#include "common/cpu/simd/rows.h"

enum {
    CPU_MR = 32,                               /* a multiple of every set's block rows */
    CPU_NR = 32,                               /* and columns: packing in these steps suits all */
    CPU_PLACES = 6                             /* of Winograd's tiles along an axis */
};

/* One block row of attention's running softmax (Milakov & Gimelshein 2018), base 2. */
typedef struct cpu_softmax {
    int rows, n;                               /* n scores each; zeros fill P up to whole panels */
    float scale;                               /* score to base 2: softmax scale * log2 e */
    float *s;                                  /* [rows][lds] scores */
    size_t lds;
    uint32_t *p;                         /* [rows][ldp] units: 2^(scale s - max), as A; may be s */
    size_t ldp;
    float *max, *sum;                          /* [rows] running values, updated */
    float *o;                                  /* [rows][ldo] running f32, rescaled if max grew */
    size_t ldo, d;
} cpu_softmax;

/* A block of attention's backward, transposed: rows are keys, columns queries. */
typedef struct cpu_scores_grad {
    size_t rows, n;                            /* keys; queries, a multiple of nr */
    size_t du;                                 /* D in units */
    const uint32_t *k, *v;                     /* [rows][lda] units, as A */
    size_t lda;
    const uint32_t *q, *dout;                  /* as B, du nr units a panel */
    float scale;                               /* as in cpu_softmax */
    const float *lse, *delta;                  /* [n]: log2-sum-exp2, sum of dO O */
    uint32_t *p, *ds;                          /* results as A: P' and dS', [rows][ldp] units */
    size_t ldp;
    uint32_t *panels;                          /* dS' as B too, with k over keys, which zeros pad */
    size_t pb;                                 /* to a whole unit; units of a panel */
    float *s, *dp;                             /* scratch [rows][lds], if `scores` of cpu_gemm */
    size_t lds;
} cpu_scores_grad;

/* Queries of a head against all of its keys, without bias and mask. */
enum { CPU_ATTEND_KEYS = 256 };
typedef struct cpu_attend {
    size_t rows, keys;                         /* queries: a multiple of `rows` of cpu_gemm, at
                                                * most `queries`; at least one key */
    size_t du, dp;                             /* D in units, and as columns of panels */
    const uint32_t *q;                         /* [rows][ldq] units, as A */
    size_t ldq;
    const uint32_t *k, *v;                     /* as B: K; V for each CPU_ATTEND_KEYS keys */
    float scale;                               /* as in cpu_softmax */
    float *s[2];                               /* scratch: [CPU_MR][lds] each */
    uint32_t *p[2];                            /* and [CPU_MR][ldp] units; in f32 the same as s */
    size_t lds, ldp;
    float *sums;                               /* scratch: [rows][nr / 2] */
    float *max, *sum, *o;                      /* results: [rows] references, [rows] sums of
                                                * 2^(scale s - max), [rows][dp] the same times V */
} cpu_attend;

typedef struct cpu_gemm {
    const char *name;                          /* "plain", "avx2", "avx512", "avx512_bf16", "amx" */
    const cpu_rows *row_kernels;               /* of the same instructions, which unpack codes */
    int pair;                                  /* elements of k in a unit: 1 or 2 */
    int nr;                                    /* columns of a panel of B */
    int kr;                                    /* zeros pad k to a multiple of kr units */
    int mr;                                    /* A's memory has a multiple of mr rows, of any
                                                * values */
    int rows;                                  /* of a block of C that a kernel sums in registers */
    int step;                                  /* elements of k at a time in matmul, a multiple of
                                                * 32: a panel of B stays in L1 */
    int columns;                               /* most columns of a tile of matmul's: with more, A
                                                * is packed less often; with fewer, C stays in the
                                                * cache. A multiple of CPU_NR */
    void (*begin)(void);                       /* a thread's first call, and end its last */
    void (*end)(void);
    /* c (+)= a b */
    void (*block)(size_t m, size_t n, size_t k, const uint32_t *a, size_t lda, const uint32_t *b,
                  size_t pb, float *c, size_t ldc, bool add);
    /* the same for a B of f32 rows, ldb apart, and n a multiple of nr; NULL: the set is not f32 */
    void (*block_as_is)(size_t m, size_t n, size_t k, const uint32_t *a, size_t lda, const float *b,
                        size_t ldb, float *c, size_t ldc, bool add);
    /* packs n elements that are adjacent along k to (n + pair - 1) / pair units */
    void (*along)(uint32_t *dst, const void *src, vc_dtype t, size_t n);
    /* packs two rows of k: unit i has element i of row 0 and, in a pair, of row 1; NULL is zeros */
    void (*across)(uint32_t *dst, const void *row0, const void *row1, vc_dtype t, size_t n);
    /* dst[c ldd + r] = src[r lds + c] */
    void (*transpose)(uint32_t *dst, size_t ldd, const uint32_t *src, size_t lds, size_t rows,
                      size_t cols);
    void (*softmax)(const cpu_softmax *x);
    void (*attend)(const cpu_attend *x);
    int queries;                               /* most rows of a call of attend */
    void (*scores_grad)(const cpu_scores_grad *x);
    bool scores;                               /* scores_grad needs its scratch */
    /* The transforms of winograd.c, which explains the places; NULL: the set is not f32. They
     * convert rows of n numbers, f32 or bf16, to a + by b or, if b is NULL, to by a; */
    void (*tiles_row)(float *to, const void *a, const void *b, vc_dtype t, float by, size_t n);
    /* rows of the input [4 tiles + 2][c], for a pair of places down, to both of them and all places
     * across, v [2][CPU_PLACES][tiles][ldv], planes `plane` apart; */
    void (*tiles_in)(int pair, float *v, size_t plane, size_t ldv, const float *const *row,
                     size_t tiles, size_t c);
    /* products m [2][CPU_PLACES][tiles][ldm] of a pair to rows y[0..3] [4 tiles][ldy], to which the
     * pairs 0, 1, 2 are added one after another, or subtracted from what was there if `minus`; k is
     * rounded up to a vector; */
    void (*tiles_out)(int pair, bool minus, float *const *y, size_t ldy, const float *m,
                      size_t plane, size_t ldm, size_t tiles, size_t k);
    /* kernels w [3 or, for one place in time, 1][3][3][nr] to the first `places` in time of
     * u [4][CPU_PLACES][CPU_PLACES][nr], places `each` apart. */
    void (*tiles_weights)(float *u, size_t each, const float *w, int places);
} cpu_gemm;

extern const cpu_gemm cpu_gemm_plain;
#if defined(__x86_64__)
extern const cpu_gemm cpu_gemm_avx2, cpu_gemm_avx512, cpu_gemm_avx512_bf16, cpu_gemm_amx;
#endif

/* ---- packing (pack.c) ---- */

/* Vectors over k: the rows of op(a), or the columns of op(b). along: element k of vector i is
 * data[i stride + k]; else data[k stride + i]. */
typedef struct cpu_vectors {
    const void *data;
    vc_dtype type;
    size_t stride;
    bool along;
    const float *scale;                        /* of codes with scales, or NULL: row r of the data
                                                * has `scales` of them, for `block` elements each */
    size_t scales, block;
} cpu_vectors;
/* These describe matmul's operands as such vectors. */
cpu_vectors cpu_rows_of(const vt_tensor *a, bool ta);
cpu_vectors cpu_columns_of(const vt_tensor *b, bool tb);

/* Loads n elements of row `row` of the data, from `at` on, times their scales. */
void cpu_unpack(const cpu_rows *r, float *to, const cpu_vectors *x, size_t row, size_t at,
                size_t n);

/* Returns the units of n elements along k, padded. */
static inline size_t cpu_units(const cpu_gemm *g, size_t n)
{
    size_t u = (n + (size_t)g->pair - 1) / (size_t)g->pair, kr = (size_t)g->kr;
    return (u + kr - 1) / kr * kr;
}
static inline size_t cpu_round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* These pack vectors i0..i0+n-1, elements k0..k0+k-1, as A or as B; pb and lda are in units, at
 * least cpu_units(k) (times nr for pb). Units past k become zeros, and so do B's columns past n. */
void cpu_pack_a(const cpu_gemm *g, uint32_t *dst, size_t lda, cpu_vectors x, size_t i0, size_t n,
                size_t k0, size_t k);
void cpu_pack_b(const cpu_gemm *g, uint32_t *dst, size_t pb, cpu_vectors x, size_t i0, size_t n,
                size_t k0, size_t k);

#endif
