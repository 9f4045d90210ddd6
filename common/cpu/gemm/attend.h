/* attend.h - attention on vectors, for f32.h and bf16.h, which include this file after products.h
 * and transpose.h and define PAIR, the elements of a unit, and put_panel.
 *
 * Scores become probabilities in the registers in which their products are summed, so neither they
 * nor the gradients of probabilities pass through memory, and the exponentials of one tile overlap
 * with the products of the next. */

/* ---- forward ---- */

enum {
    ATTEND_QUERIES = 192,                      /* a multiple of GROUP */
    GROUP = 4 * MR                             /* queries whose probabilities wait for V */
};

/* Computes the probabilities of the MR queries from `row` on and a panel of keys, of which n exist;
 * sums [MR] get their sums by lane. */
INLINE void attend_tile(const cpu_attend *x, size_t row, const unit *k, size_t n, bool whole,
                        prob *p, vf *sums)
{
    vf s[MR][2];

    multiply(s, MR, x->du, (const unit *)x->q + row * x->ldq, x->ldq, k, NR, false);
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++) {
        vf max = v_set(x->max[row + (size_t)i]);
        vf a = prob_exp2(s[i][0] * x->scale - max), b = prob_exp2(s[i][1] * x->scale - max);
        if (!whole) {
            a = v_if(v_lanes() < (int)n, a, v_set(0));
            b = v_if(v_lanes() + VW < (int)n, b, v_set(0));
        }
        put_probs(p + (size_t)i * x->ldp * PAIR, probs_of(a, b));
        sums[i] += a + b;
    }
}

static __attribute__((noinline)) void attend_whole(const cpu_attend *x, size_t row, const unit *k,
                                                   prob *p, vf *sums)
{
    attend_tile(x, row, k, NR, true, p, sums);
}

static __attribute__((noinline)) void attend_part(const cpu_attend *x, size_t row, const unit *k,
                                                  size_t n, prob *p, vf *sums)
{
    attend_tile(x, row, k, n, false, p, sums);
}

/* Computes the probabilities of a group's `rows` queries from `row` on and of the n keys from `key`
 * on, with the references of earlier blocks. False: a sum is too large for its reference. */
static bool attend_group(const cpu_attend *x, size_t row, size_t rows, size_t key, size_t n)
{
    vf sums[GROUP];
    bool fits = true;

    memset(sums, 0, sizeof sums);
    for (size_t j = 0; j < n; j += NR)
        for (size_t i = 0; i < rows; i += MR) {
            const unit *k = (const unit *)x->k + (key + j) * x->du;
            prob *p = (prob *)(x->p[0] + i * x->ldp) + j;
            if (n - j >= NR)
                attend_whole(x, row + i, k, p, sums + i);
            else
                attend_part(x, row + i, k, n - j, p, sums + i);
        }
    for (size_t i = 0; i < rows; i++)
        fits &= !v_any_above(sums[i], ATTEND_LIMIT);
    for (size_t i = 0; fits && i < rows; i++) {
        float *sum = x->sums + (row + i) * VW;
        v_store(sum, v_load(sum) + sums[i]);
    }
    return fits;
}

/* The same with new references: scores are written to memory, where their maximum is looked up. */
static void attend_new_references(const cpu_attend *x, size_t row, size_t rows, size_t key,
                                  size_t n)
{
    block(rows, n, x->du, x->q + row * x->ldq, x->ldq, x->k + key * x->du, x->du * NR, x->s[0],
          x->lds, false);
    for (size_t i = 0; i < rows; i++) {
        size_t r = row + i;
        const float *s = x->s[0] + i * x->lds;
        float *sums = x->sums + r * VW, top = most(s, n) * x->scale;
        if (key == 0) {
            x->max[r] = top;
            v_store(sums, v_set(0));
        } else if (!(top <= x->max[r])) {
            v_store(sums, v_load(sums) * exp2f(x->max[r] - top));
            attend_rescale(x, r, top);
        }
        vf sum = put_row((prob *)(x->p[0] + i * x->ldp), s, n, x->scale, x->max[r]);
        v_store(sums, v_load(sums) + sum);
    }
}

static void attend(const cpu_attend *x)
{
    for (size_t key = 0, n; key < x->keys; key += n) {
        const uint32_t *v = x->v + key / PAIR * x->dp;
        n = x->keys - key < CPU_ATTEND_KEYS ? x->keys - key : CPU_ATTEND_KEYS;
        for (size_t row = 0, rows; row < x->rows; row += rows) {
            rows = x->rows - row < GROUP ? x->rows - row : GROUP;
            if (key == 0 || !attend_group(x, row, rows, key, n))
                attend_new_references(x, row, rows, key, n);
            block(rows, x->dp, (n + PAIR - 1) / PAIR, x->p[0], x->ldp, v,
                  CPU_ATTEND_KEYS / PAIR * NR, x->o + row * x->dp, x->dp, key > 0);
        }
    }
    for (size_t r = 0; r < x->rows; r++)
        x->sum[r] = v_sum(v_load(x->sums + r * VW));
}

/* ---- backward ---- */

enum { HALF = MR / 2 };                        /* keys of a tile, which has two products */

/* s = k q', d = v o' of HALF keys and a panel of queries. */
INLINE void multiply_both(vf s[HALF][2], vf d[HALF][2], const cpu_scores_grad *x, const unit *k,
                          const unit *v, const unit *q, const unit *o)
{
    vf a[HALF][2], b[HALF][2];

#pragma GCC unroll 16
    for (int i = 0; i < HALF; i++)
        a[i][0] = a[i][1] = b[i][0] = b[i][1] = (vf){ 0 };
    for (size_t p = 0; p < x->du; p++, q += NR, o += NR) {
        units q0 = load_units(q), q1 = load_units(q + VW);
#pragma GCC unroll 16
        for (int i = 0; i < HALF; i++) {
            units y = repeat(k + (size_t)i * x->lda + p);
            a[i][0] = add_product(a[i][0], y, q0);
            a[i][1] = add_product(a[i][1], y, q1);
        }
        units o0 = load_units(o), o1 = load_units(o + VW);
#pragma GCC unroll 16
        for (int i = 0; i < HALF; i++) {
            units y = repeat(v + (size_t)i * x->lda + p);
            b[i][0] = add_product(b[i][0], y, o0);
            b[i][1] = add_product(b[i][1], y, o1);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < HALF; i++) {
        s[i][0] = a[i][0];
        s[i][1] = a[i][1];
        d[i][0] = b[i][0];
        d[i][1] = b[i][1];
    }
}

/* Computes P' and dS' of HALF keys from r on, of which `rows` exist, and a panel of queries from j
 * on. */
INLINE void grad_tile(const cpu_scores_grad *x, size_t r, size_t rows, bool whole, size_t j)
{
    vf s[HALF][2], d[HALF][2];
    probs ds[HALF];
    size_t at = r * x->lda, panel = j * x->du, to = r * x->ldp * PAIR + j;

    multiply_both(s, d, x, (const unit *)x->k + at, (const unit *)x->v + at,
                  (const unit *)x->q + panel, (const unit *)x->dout + panel);
    vf lse0 = v_load(x->lse + j), lse1 = v_load(x->lse + j + VW);
    vf delta0 = v_load(x->delta + j), delta1 = v_load(x->delta + j + VW);
#pragma GCC unroll 16
    for (int i = 0; i < HALF; i++, to += x->ldp * PAIR) {
        vf e0 = prob_exp2(s[i][0] * x->scale - lse0), e1 = prob_exp2(s[i][1] * x->scale - lse1);
        put_probs((prob *)x->p + to, probs_of(e0, e1));
        ds[i] = probs_of(e0 * (d[i][0] - delta0), e1 * (d[i][1] - delta1));
        if (!whole && (size_t)i >= rows)
            ds[i] = probs_of(v_set(0), v_set(0));
        put_probs((prob *)x->ds + to, ds[i]);
    }
    put_panel(x->panels + j / NR * x->pb, r, ds, HALF);
}

static __attribute__((noinline)) void grad_whole(const cpu_scores_grad *x, size_t r, size_t j)
{
    grad_tile(x, r, HALF, true, j);
}

static __attribute__((noinline)) void grad_part(const cpu_scores_grad *x, size_t r, size_t j)
{
    grad_tile(x, r, x->rows - r, false, j);
}

static void scores_grad(const cpu_scores_grad *x)
{
    for (size_t j = 0; j < x->n; j += NR)
        for (size_t r = 0; r < x->rows; r += HALF)
            if (x->rows - r >= HALF)
                grad_whole(x, r, j);
            else
                grad_part(x, r, j);
}
