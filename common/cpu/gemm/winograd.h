/* winograd.h - the transforms of winograd.c, F(4x4, 3x3) in f32, for f32.h.
 *
 * Along one axis six inputs d make four outputs y of a kernel w of three, y = A' ((G w) * (B' d)),
 * by the polynomials' values at the points 0, P, -P, Q, -Q and infinity (Winograd 1980; Cook-Toom).
 * The points are 5/8 and 3/2, not the usual 1 and 2: the errors of f32 are half as large, less than
 * twice those of the direct sum (random inputs, 128 channels: 1.0e-6 against 2.1e-6 and 6.3e-7). */

enum { PLACES = CPU_PLACES };
#define P 0.625f
#define Q 1.5f
#define PP (P * P)
#define QQ (Q * Q)

/* Places go in pairs, whose sums share their parts: 0 and infinity, P and -P, Q and -Q. Makes the
 * two inputs of a pair of products: B' d. */
INLINE void pair_in(int pair, vf g[2], vf d0, vf d1, vf d2, vf d3, vf d4, vf d5)
{
    if (pair == 0) {
        g[0] = d4 - (PP + QQ) * d2 + (PP * QQ) * d0;
        g[1] = d5 - (PP + QQ) * d3 + (PP * QQ) * d1;
    } else {
        float other = pair == 1 ? QQ : PP, point = pair == 1 ? P : Q;
        vf even = d4 - other * d2, odd = point * (d3 - other * d1);
        g[0] = even + odd;
        g[1] = even - odd;
    }
}

/* The sums of six rows for a pair of places down, at element i. */
INLINE void mixed(int pair, vf g[2], const float *const row[PLACES], size_t i, size_t k)
{
    vf none = { 0 };

    pair_in(pair, g, pair ? none : v_get(row[0] + i, k), v_get(row[1] + i, k),
            v_get(row[2] + i, k), v_get(row[3] + i, k), v_get(row[4] + i, k),
            pair ? none : v_get(row[5] + i, k));
}

/* Loads elements i.. of a row of f32 or bf16. */
INLINE vf typed(const void *row, bool bf16, size_t i, size_t k)
{
    if (bf16)
        return v_from_bf16(v_get_u16((const uint16_t *)row + i, k));
    return v_get((const float *)row + i, k);
}

INLINE void mix_rows(float *to, const void *a, const void *b, bool bf16, float by, size_t n)
{
    for (size_t i = 0; i < n; i += VW) {
        size_t k = n - i;
        vf x = typed(a, bf16, i, k);
        v_put(to + i, b ? x + by * typed(b, bf16, i, k) : by * x, k);
    }
}

static void tiles_row(float *to, const void *a, const void *b, vc_dtype t, float by, size_t n)
{
    if (t == VC_BF16)
        mix_rows(to, a, b, true, by, n);
    else
        mix_rows(to, a, b, false, by, n);
}

INLINE void tiles_in_pair(int pair, float *v, size_t plane, size_t ldv,
                          const float *const row[PLACES], size_t tiles, size_t c)
{
    for (size_t t = 0; t < tiles; t++, v += ldv)
        for (size_t i = 0; i < c; i += VW) {
            size_t k = c - i, at = 4 * t * c + i;
            vf d[PLACES][2];
#pragma GCC unroll 6
            for (size_t x = 0; x < PLACES; x++)
                mixed(pair, d[x], row, at + x * c, k);
#pragma GCC unroll 2
            for (int down = 0; down < 2; down++)
#pragma GCC unroll 3
                for (int p = 0; p < PLACES / 2; p++) {
                    float *to = v + (size_t)(down * PLACES + 2 * p) * plane + i;
                    vf g[2];
                    pair_in(p, g, d[0][down], d[1][down], d[2][down], d[3][down], d[4][down],
                            d[5][down]);
                    v_put(to, g[0], k);
                    v_put(to + plane, g[1], k);
                }
        }
}

static void tiles_in(int pair, float *v, size_t plane, size_t ldv, const float *const *row,
                     size_t tiles, size_t c)
{
    if (pair == 0)
        tiles_in_pair(0, v, plane, ldv, row, tiles, c);
    else if (pair == 1)
        tiles_in_pair(1, v, plane, ldv, row, tiles, c);
    else
        tiles_in_pair(2, v, plane, ldv, row, tiles, c);
}

/* y = x, y += x or, if `minus`, y -= x. */
INLINE void put_out(float *y, vf x, bool first, bool minus)
{
    v_store(y, minus ? v_load(y) - x : first ? x : v_load(y) + x);
}

/* Makes four columns of outputs of one place down, A' m. */
INLINE void columns_out(vf o[4], const float *m, size_t plane)
{
    vf even_p = v_load(m + 2 * plane) + v_load(m + 3 * plane);
    vf odd_p = v_load(m + 2 * plane) - v_load(m + 3 * plane);
    vf even_q = v_load(m + 4 * plane) + v_load(m + 5 * plane);
    vf odd_q = v_load(m + 4 * plane) - v_load(m + 5 * plane);

    o[0] = v_load(m) + even_p + even_q;
    o[1] = P * odd_p + Q * odd_q;
    o[2] = PP * even_p + QQ * even_q;
    o[3] = (P * PP) * odd_p + (Q * QQ) * odd_q + v_load(m + plane);
}

INLINE void tiles_out_pair(int pair, bool minus, float *const y[4], size_t ldy, const float *m,
                           size_t plane, size_t ldm, size_t tiles, size_t k)
{
    const float point = pair == 1 ? P : Q;

    for (size_t t = 0; t < tiles; t++, m += ldm)
        for (size_t i = 0; i < k; i += VW) {
            vf a[4], b[4];
            columns_out(a, m + i, plane);
            columns_out(b, m + PLACES * plane + i, plane);
#pragma GCC unroll 4
            for (size_t x = 0; x < 4; x++) {
                size_t at = (4 * t + x) * ldy + i;
                if (pair == 0) {
                    put_out(y[0] + at, a[x], true, minus);
                    put_out(y[3] + at, b[x], true, minus);
                    continue;
                }
                vf even = a[x] + b[x], odd = a[x] - b[x];
                put_out(y[0] + at, even, false, minus);
                put_out(y[1] + at, point * odd, pair == 1, minus);
                put_out(y[2] + at, (point * point) * even, pair == 1, minus);
                put_out(y[3] + at, (point * point * point) * odd, false, minus);
            }
        }
}

static void tiles_out(int pair, bool minus, float *const *y, size_t ldy, const float *m,
                      size_t plane, size_t ldm, size_t tiles, size_t k)
{
    switch (2 * pair + minus) {
#define TILES_OUT(p, minus)                                                                        \
    case 2 * (p) + (minus):                                                                        \
        tiles_out_pair(p, minus, y, ldy, m, plane, ldm, tiles, k);                                 \
        break;
        TILES_OUT(0, 0) TILES_OUT(0, 1) TILES_OUT(1, 0) TILES_OUT(1, 1) TILES_OUT(2, 0)
        TILES_OUT(2, 1)
#undef TILES_OUT
    }
}

/* Makes the factors of the six places, in the order of the pairs, from three weights: G w. */
INLINE void tile_weights(vf g[PLACES], vf w0, vf w1, vf w2)
{
    const float p = 1 / (2 * PP * (PP - QQ)), q = 1 / (2 * QQ * (QQ - PP));
    vf even_p = p * w0 + (p * PP) * w2, even_q = q * w0 + (q * QQ) * w2;

    g[0] = (1 / (PP * QQ)) * w0;
    g[1] = w2;
    g[2] = even_p + (p * P) * w1;
    g[3] = even_p - (p * P) * w1;
    g[4] = even_q + (q * Q) * w1;
    g[5] = even_q - (q * Q) * w1;
}

/* The 36 products of a kernel w [3][3]. */
INLINE void kernel_weights(float *u, size_t each, const vf w[9])
{
    vf down[3][PLACES];

#pragma GCC unroll 3
    for (int x = 0; x < 3; x++)
        tile_weights(down[x], w[x], w[3 + x], w[6 + x]);
#pragma GCC unroll 6
    for (int p = 0; p < PLACES; p++) {
        vf g[PLACES];
        tile_weights(g, down[0][p], down[1][p], down[2][p]);
#pragma GCC unroll 6
        for (int x = 0; x < PLACES; x++)
            v_store(u + (size_t)(p * PLACES + x) * each, g[x]);
    }
}

static void tiles_weights(float *u, size_t each, const float *w, int places)
{
    enum { KERNEL = PLACES * PLACES };

    for (size_t i = 0; i < NR; i += VW, u += VW) {
        vf one[9];
        if (places == 1) {
            for (size_t t = 0; t < 9; t++)
                one[t] = v_load(w + t * NR + i);
            kernel_weights(u, each, one);
            continue;
        }
        for (int p = 0; p < places; p++) {     /* in time: w0, (w0 + w1 + w2)/2, (w0 - w1 + w2)/2,
                                                * w2 */
            for (size_t t = 0; t < 9; t++) {
                const float *at = w + t * NR + i;
                vf w0 = v_load(at), w1 = v_load(at + 9 * NR), w2 = v_load(at + 18 * NR);
                one[t] = p == 0 ? w0 : p == 3 ? w2 : 0.5f * (p == 1 ? w0 + w1 + w2 : w0 - w1 + w2);
            }
            kernel_weights(u + (size_t)(p * KERNEL) * each, each, one);
        }
    }
}

#undef P
#undef Q
#undef PP
#undef QQ
