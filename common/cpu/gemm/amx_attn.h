/* amx_attn.h - attention in bf16 on AMX tiles, for amx.h.
 *
 * Tiles multiply in a unit of their own, so products and exponentials can run at the same time, but
 * only if the instructions of both stand close together: a processor looks some 500 instructions
 * ahead. So products wait in a queue, and the loops over scores take a step from it, four products
 * of tiles, every few vectors: while block b of scores becomes probabilities, the scores of block
 * b + 1 and the output of block b - 1 are multiplied. */

/* ---- products in steps ---- */

/* c (+)= a b for 32 rows and n columns, a multiple of 32 */
typedef struct product {
    const uint32_t *a, *b;
    float *c;
    size_t lda, pb, ldc, n, k;
    bool add;
} product;

enum { QUEUE = 8 };
typedef struct queue {
    product list[QUEUE];
    int count, at;                             /* products in the list; the one in work */
    size_t j, p;                               /* its next column and unit */
    size_t steps;                              /* of all products in the list */
} queue;

static inline void put_product(queue *q, product x)
{
    q->list[q->count++] = x;
    q->steps += x.n / PANEL * (x.k / TILE);
}

/* Multiplies a 32 x 32 block of C by TILE units of k. */
static inline void step(queue *q)
{
    const product *x = &q->list[q->at];
    const uint32_t *a = x->a + q->p, *b = x->b + q->j / PANEL * x->pb + q->p * PANEL;
    float *c = x->c + q->j, *c1 = c + TILE * x->ldc;
    size_t as = x->lda * 4, bs = PANEL * 4, cs = x->ldc * 4;

    if (q->p == 0 && x->add) {
        tile_load(0, c, cs);
        tile_load(1, c + TILE, cs);
        tile_load(2, c1, cs);
        tile_load(3, c1 + TILE, cs);
    } else if (q->p == 0) {
        tile_zero(0);
        tile_zero(1);
        tile_zero(2);
        tile_zero(3);
    }
    tile_load(4, a, as);
    tile_load(6, b, bs);
    tile_mul(0, 4, 6);
    tile_load(7, b + TILE, bs);
    tile_mul(1, 4, 7);
    tile_load(5, a + TILE * x->lda, as);
    tile_mul(2, 5, 6);
    tile_mul(3, 5, 7);
    q->p += TILE;
    if (q->p < x->k)
        return;
    tile_store(0, c, cs);
    tile_store(1, c + TILE, cs);
    tile_store(2, c1, cs);
    tile_store(3, c1 + TILE, cs);
    q->p = 0;
    q->j += PANEL;
    if (q->j < x->n)
        return;
    q->j = 0;
    q->at++;
}

/* Takes all steps that remain, and empties the list. */
static inline void finish(queue *q)
{
    while (q->at < q->count)
        step(q);
    q->at = q->count = 0;
    q->steps = 0;
}

/* Spreads the steps of a queue over `turns` calls of turn(). */
typedef struct pace { size_t steps, turns, due; } pace;
static inline void turn(pace *p, queue *q)
{
    for (p->due += p->steps; p->due >= p->turns; p->due -= p->turns)
        step(q);
}

/* ---- forward ---- */

/* The probabilities of one group of 32 queries and one block of keys are a task. */
typedef struct attend_task {
    size_t row, key, n, b;                     /* its first query and key, keys, and key block */
    float *s;
    uint32_t *p;
} attend_task;

static attend_task attend_task_of(const cpu_attend *x, size_t t)
{
    size_t groups = x->rows / PANEL, b = t / groups, key = b * CPU_ATTEND_KEYS;
    size_t left = x->keys - key;

    return (attend_task){ .row = t % groups * PANEL, .key = key, .b = b,
                          .n = left < CPU_ATTEND_KEYS ? left : CPU_ATTEND_KEYS,
                          .s = x->s[t % 2], .p = x->p[t % 2] };
}

/* A task's products: scores, and output. */
static product attend_scores(const cpu_attend *x, attend_task t)
{
    return (product){ .a = x->q + t.row * x->ldq, .lda = x->ldq, .b = x->k + t.key * x->du,
                      .pb = x->du * PANEL, .c = t.s, .ldc = x->lds,
                      .n = cpu_round_up(t.n, PANEL), .k = x->du };
}
static product attend_output(const cpu_attend *x, attend_task t)
{
    return (product){ .a = t.p, .lda = x->ldp, .b = x->v + t.key / 2 * x->dp,
                      .pb = CPU_ATTEND_KEYS / 2 * PANEL, .c = x->o + t.row * x->dp,
                      .ldc = x->dp, .n = x->dp, .k = cpu_round_up(t.n, PANEL) / 2,
                      .add = t.b > 0 };
}

/* Returns the sums, by lane, of the probabilities of n scores; it stores zeros up to a multiple of
 * 2 VW. */
static inline vf attend_row(const float *s, prob *p, size_t n, float scale, float max, pace *at,
                            queue *q)
{
    vf low = { 0 }, high = { 0 };

    for (size_t i = 0; i < n; i += PANEL) {
        vf a = v_exp2_bf16(v_load(s + i) * scale - max);
        vf b = v_exp2_bf16(v_load(s + i + VW) * scale - max);
        if (i + PANEL > n) {
            a = v_if(v_lanes() < (int)(n - i), a, v_set(0));
            b = v_if(v_lanes() + VW < (int)(n - i), b, v_set(0));
        }
        put_probs(p + i, probs_of(a, b));
        low += a;
        high += b;
        turn(at, q);
    }
    return low + high;
}

/* Makes a task's probabilities while the queue is worked off. */
static void attend_probs(const cpu_attend *x, attend_task t, queue *q)
{
    pace at = { q->steps, PANEL * ((t.n + PANEL - 1) / PANEL), 0 }, none = { 0, 1, 0 };
    float top[PANEL];
    bool grew = false;

    for (size_t i = 0; i < PANEL; i++) {
        const float *s = t.s + i * x->lds;
        prob *p = (prob *)(t.p + i * x->ldp);
        size_t r = t.row + i;
        float *sums = x->sums + r * VW;
        if (t.b == 0) {
            x->max[r] = most(s, t.n) * x->scale;
            v_store(sums, v_set(0));
        }
        vf sum = attend_row(s, p, t.n, x->scale, x->max[r], &at, q);
        top[i] = x->max[r];
        if (t.b > 0 && v_any_above(sum, ATTEND_LIMIT)) {
            top[i] = most(s, t.n) * x->scale;
            grew = true;
            sum = attend_row(s, p, t.n, x->scale, top[i], &none, q);
            v_store(sums, v_load(sums) * exp2f(x->max[r] - top[i]));
        }
        v_store(sums, v_load(sums) + sum);
    }
    finish(q);
    for (size_t i = 0; grew && i < PANEL; i++)
        if (top[i] != x->max[t.row + i])
            attend_rescale(x, t.row + i, top[i]);
}

static void amx_attend(const cpu_attend *x)
{
    const size_t blocks = (x->keys + CPU_ATTEND_KEYS - 1) / CPU_ATTEND_KEYS;
    const size_t tasks = blocks * (x->rows / PANEL);
    queue q = { .count = 0 };

    for (size_t t = 0; t <= tasks + 1; t++) {
        if (t > 1)
            put_product(&q, attend_output(x, attend_task_of(x, t - 2)));
        if (t < tasks)
            put_product(&q, attend_scores(x, attend_task_of(x, t)));
        if (t > 0 && t <= tasks)
            attend_probs(x, attend_task_of(x, t - 1), &q);
        finish(&q);
    }
    for (size_t r = 0; r < x->rows; r++)
        x->sum[r] = v_sum(v_load(x->sums + r * VW));
}

/* ---- backward ---- */

/* Stores one row's P and dS at queries j.. as A; returns dS. */
static inline vf grad_row(const cpu_scores_grad *x, size_t r, size_t j)
{
    const float *s = x->s + r * x->lds + j, *dp = x->dp + r * x->lds + j;
    vf e = v_exp2(v_load(s) * x->scale - v_load(x->lse + j));
    vf d = e * (v_load(dp) - v_load(x->delta + j));
    vu16 p = v_to_bf16(e), ds = v_to_bf16(d);

    memcpy((prob *)(x->p + r * x->ldp) + j, &p, sizeof p);
    memcpy((prob *)(x->ds + r * x->ldp) + j, &ds, sizeof ds);
    return d;
}

static void amx_scores_grad(const cpu_scores_grad *x)
{
    size_t padded = (x->rows + 2 * TILE - 1) / (2 * TILE) * (2 * TILE);

    amx_block(x->rows, x->n, x->du, x->k, x->lda, x->q, x->du * PANEL, x->s, x->lds, false);
    amx_block(x->rows, x->n, x->du, x->v, x->lda, x->dout, x->du * PANEL, x->dp, x->lds, false);
    for (size_t j = 0; j < x->n; j += VW) {
        uint32_t *panel = x->panels + j / PANEL * x->pb + j % PANEL;
        for (size_t r = 0; r < padded; r += 2, panel += PANEL) {
            vu pair = { 0 };
            if (r < x->rows)
                pair = __builtin_convertvector(v_to_bf16(grad_row(x, r, j)), vu);
            if (r + 1 < x->rows)
                pair |= __builtin_convertvector(v_to_bf16(grad_row(x, r + 1, j)), vu) << 16;
            memcpy(panel, &pair, sizeof pair);
        }
    }
}
