/* products.h - gemm.h's products in registers, shared by f32.h and bf16.h, which define before
 * they include this file:
 *     GEMM_MR                    rows of a block of C
 *     unit, units                one unit of an operand, and a vector of VW units
 *     load_units(p), repeat(p)   units p[0..VW-1]; p[0] in all lanes
 *     add_product(s, x, b)       s + x b, lane by lane
 *
 * The inner kernel holds a block of GEMM_MR rows by two vectors of C in registers. Of 16 registers,
 * 6 x 2 leave two for B and one for A; with 32 registers 8 x 2 already hide the latency of the
 * products. */
#define MR GEMM_MR
#define NR (2 * VW)

#define INLINE static inline __attribute__((always_inline))

/* Computes `rows` (a constant) by NR of C; row i of A is at a + i lda. */
INLINE void multiply(vf acc[MR][2], int rows, size_t k, const unit *a, size_t lda, const unit *b,
                     size_t ld, bool fetch)
{
    vf s[MR][2];

#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
        s[i][0] = s[i][1] = (vf){ 0 };
    for (size_t p = 0; p < k; p++, b += ld) {
        if (fetch)
            __builtin_prefetch(b + NR);
        units b0 = load_units(b), b1 = load_units(b + VW);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            units x = repeat(a + (size_t)i * lda + p);
            s[i][0] = add_product(s[i][0], x, b0);
            s[i][1] = add_product(s[i][1], x, b1);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        acc[i][0] = s[i][0];
        acc[i][1] = s[i][1];
    }
}

INLINE void full(size_t k, const unit *a, size_t lda, const unit *b, size_t ld, bool fetch,
                 float *c, size_t ldc, bool add)
{
    vf acc[MR][2];

    for (size_t i = 0; i < MR; i++) {
        __builtin_prefetch(c + i * ldc, 1);
        __builtin_prefetch(c + i * ldc + NR - 1, 1);
    }
    multiply(acc, MR, k, a, lda, b, ld, fetch);
    for (size_t i = 0; i < MR; i++, c += ldc) {
        v_store(c, add ? v_load(c) + acc[i][0] : acc[i][0]);
        v_store(c + VW, add ? v_load(c + VW) + acc[i][1] : acc[i][1]);
    }
}

/* Computes a block with fewer rows or columns than a full one. */
static __attribute__((noinline)) void edge(size_t m, size_t n, size_t k, const unit *a, size_t lda,
                                           const unit *b, size_t ld, float *c, size_t ldc,
                                           bool add)
{
    vf acc[MR][2];
    size_t n1 = n > VW ? n - VW : 0;

    switch (m) {
#define ROWS(r)                                     \
    case r:                                         \
        multiply(acc, r, k, a, lda, b, ld, false);  \
        break;
        ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5)
#if MR > 6
        ROWS(6) ROWS(7)
#endif
    default:
        multiply(acc, MR, k, a, lda, b, ld, false);
#undef ROWS
    }
    for (size_t i = 0; i < m; i++, c += ldc) {
        v_put(c, add ? v_get(c, n) + acc[i][0] : acc[i][0], n);
        if (n1)
            v_put(c + VW, add ? v_get(c + VW, n1) + acc[i][1] : acc[i][1], n1);
    }
}

static __attribute__((noinline)) void full_packed(size_t k, const unit *a, size_t lda,
                                                  const unit *b, float *c, size_t ldc, bool add)
{
    full(k, a, lda, b, NR, false, c, ldc, add);
}

/* Computes 2 MR rows by n columns of C, at most VW: the panel's second vector is left out, and the
 * block's second column of accumulators takes the further rows. */
static __attribute__((noinline)) void narrow(size_t n, size_t k, const unit *a, size_t lda,
                                             const unit *b, float *c, size_t ldc, bool add)
{
    vf s[2 * MR];

#pragma GCC unroll 16
    for (int i = 0; i < 2 * MR; i++)
        s[i] = (vf){ 0 };
    for (size_t p = 0; p < k; p++, b += NR) {
        units b0 = load_units(b);
#pragma GCC unroll 16
        for (int i = 0; i < 2 * MR; i++)
            s[i] = add_product(s[i], repeat(a + (size_t)i * lda + p), b0);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 2 * MR; i++, c += ldc)
        v_put(c, add ? v_get(c, n) + s[i] : s[i], n);
}

static void block(size_t m, size_t n, size_t k, const uint32_t *a, size_t lda, const uint32_t *b,
                  size_t pb, float *c, size_t ldc, bool add)
{
    for (size_t j = 0; j < n; j += NR, b += pb)
        for (size_t i = 0, rows; i < m; i += rows) {
            const unit *ai = (const unit *)a + i * lda, *bj = (const unit *)b;
            float *cij = c + i * ldc + j;
            rows = n - j <= VW && m - i >= 2 * MR ? 2 * MR : MR;
            if (rows > MR)
                narrow(n - j, k, ai, lda, bj, cij, ldc, add);
            else if (m - i >= MR && n - j >= NR)
                full_packed(k, ai, lda, bj, cij, ldc, add);
            else
                edge(m - i < MR ? m - i : MR, n - j, k, ai, lda, bj, NR, cij, ldc, add);
        }
}

static void nothing(void) {}
