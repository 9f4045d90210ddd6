/* attn_grad.c - flash attention, backward (Dao et al. 2022, algorithm 4), in transposed form.
 *
 * Rows are keys and columns queries: S' = K Q'. Then P' and dS' are the left operands of
 * dV = P' dO and dK = dS' Q, the statistics per query are plain vectors, and dQ' = K' dS'. A unit
 * of work is one head, or part of its blocks of keys if there are fewer heads than threads. Parts
 * have their own dQ, summed in a fixed order, so that the same number of threads always gives the
 * same bits. */
#include "common/cpu/attn.h"

#include <omp.h>
#include <string.h>

/* Keys of a block. Each block reads and writes all of dQ, so more keys are better while S and dP
 * stay in the second cache: 2 MB or 1 MB where there is AVX-512, often 512 KB elsewhere. */
enum { KEYS = 96, KEYS_512 = 192 };
/* Queries of a block; short sequences have smaller blocks, of whole STEPs. */
enum { QUERIES = 256, STEP = 64 };

typedef struct bwd {
    vt_dev *d;
    const cpu_gemm *g;
    vt_tensor *dq, *dk, *dv;
    const vt_tensor *dout, *q, *k, *v, *o, *lse, *kv_len;
    float scale;
    bool add_q, add_k, add_v;
    size_t heads, sq, sk, dim;
    size_t du, dp, qu, ku;                     /* D in units and as columns; qb, kb in units */
    size_t qb, kb, ldq;                        /* queries and keys of a block; a row of queries */
    size_t q_blocks, k_blocks, parts;          /* parts: units of work per head */
} bwd;

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* The scratch of one unit of work. Queries are packed as panels over D (suffix t: for K Q', V dO')
 * and over queries (suffix n: for dK, dV). */
typedef struct head_areas {
    uint32_t *qt, *ot, *qn, *on;               /* per block: [qb/nr][du][nr]; [dp/nr][qu][nr] */
    float *dq;                                 /* per block: [D][ldq], transposed */
    float *lse, *delta;                        /* [q_blocks qb] */
    uint32_t *k, *v, *kt;                      /* [kb][du + PAD], [D][ku + PAD] */
    float *s, *dp;                             /* [kb][ldq], if g->scores */
    uint32_t *p, *ds;                          /* [kb][ldp] */
    uint32_t *panels;                          /* dS' as B: [qb/nr][ku][nr] */
    float *dk, *dv;                            /* [kb][dp] */
    size_t ldp;
} head_areas;

static size_t place(const bwd *f, uint32_t *base, head_areas *w)
{
    size_t tb = f->qb * f->du, nb = f->qu * f->dp, n = f->q_blocks, at = 0;
    size_t mr = CPU_MR, ldp = f->g->pair == 1 ? f->ldq : f->qu + CPU_ATTN_PAD;
    size_t kv = f->kb * (f->du + CPU_ATTN_PAD);
    size_t kt = cpu_round_up(f->dim, mr) * (f->ku + CPU_ATTN_PAD);
    head_areas x = { .ldp = ldp };

#define TAKE(field, units)                                                   \
    do {                                                                     \
        x.field = base ? (void *)(base + at) : NULL;                         \
        at += cpu_round_up(units, 16);                                       \
    } while (0)

    TAKE(dq, n * f->dim * f->ldq);             /* first, where another thread finds it to sum */
    TAKE(qt, n * tb);
    TAKE(ot, n * tb);
    TAKE(qn, n * nb);
    TAKE(on, n * nb);
    TAKE(lse, n * f->qb);
    TAKE(delta, n * f->qb);
    TAKE(k, kv);
    TAKE(v, kv);
    TAKE(kt, kt);
    TAKE(s, f->g->scores ? f->kb * f->ldq : 0);
    TAKE(dp, f->g->scores ? f->kb * f->ldq : 0);
    TAKE(p, f->kb * ldp);
    TAKE(ds, f->kb * ldp);
    TAKE(panels, f->qb * f->ku);
    TAKE(dk, f->kb * f->dp);
    TAKE(dv, f->kb * f->dp);
#undef TAKE
    if (w)
        *w = x;
    return at;
}

/* Computes the statistics of block j: log2-sum-exp2, and delta = sum of dO O (eq. 4); past the last
 * query they make P 0. */
static void statistics(const bwd *f, const head_areas *w, size_t b, size_t h, size_t j)
{
    const float *lse = cpu_lse(f->lse, b, h);
    float o[256], g[256];                      /* D is at most 256 */

    for (size_t i = j * f->qb; i < (j + 1) * f->qb; i++) {
        w->lse[i] = INFINITY;
        w->delta[i] = 0;
        if (i >= f->sq)
            continue;
        f->d->rows->load(o, cpu_token(f->o, b, i, h), f->o->dtype, f->dim);
        f->d->rows->load(g, cpu_token(f->dout, b, i, h), f->dout->dtype, f->dim);
        w->lse[i] = lse[i] * CPU_LOG2E;
        w->delta[i] = f->d->rows->dot(o, g, f->dim);
    }
}

static void pack_queries(const bwd *f, const head_areas *w, size_t b, size_t h)
{
    const cpu_gemm *g = f->g;
    size_t nr = (size_t)g->nr, tb = f->qb * f->du, nb = f->qu * f->dp;

    for (size_t j = 0; j < f->q_blocks; j++) {
        size_t q0 = j * f->qb, n = least(f->qb, f->sq - q0);
        cpu_pack_b(g, w->qt + j * tb, f->du * nr, cpu_head(f->q, b, h, true), q0, n, 0, f->dim);
        cpu_pack_b(g, w->ot + j * tb, f->du * nr, cpu_head(f->dout, b, h, true), q0, n, 0, f->dim);
        cpu_pack_b(g, w->qn + j * nb, f->qu * nr, cpu_head(f->q, b, h, false), 0, f->dim, q0, n);
        cpu_pack_b(g, w->on + j * nb, f->qu * nr, cpu_head(f->dout, b, h, false), 0, f->dim, q0, n);
        statistics(f, w, b, h, j);
    }
}

/* Computes block j of queries against the packed block of `keys` keys; first: the key block is the
 * unit's first. */
static void multiply(const bwd *f, const head_areas *w, size_t keys, size_t j, bool first)
{
    const cpu_gemm *g = f->g;
    size_t nr = (size_t)g->nr, n = least(f->qb, f->sq - j * f->qb), cols = cpu_round_up(n, nr);
    size_t ldk = f->du + CPU_ATTN_PAD, tb = f->qb * f->du, nb = f->qu * f->dp,
           units = cpu_units(g, keys);

    cpu_scores_grad x = {
        .rows = keys, .n = cols, .du = f->du, .k = w->k, .v = w->v, .lda = ldk,
        .q = w->qt + j * tb, .dout = w->ot + j * tb, .scale = f->scale * CPU_LOG2E,
        .lse = w->lse + j * f->qb, .delta = w->delta + j * f->qb, .p = w->p, .ds = w->ds,
        .ldp = w->ldp, .panels = w->panels, .pb = f->ku * nr, .s = w->s, .dp = w->dp, .lds = f->ldq,
    };
    g->scores_grad(&x);

    size_t k = cpu_units(g, n);
    g->block(keys, f->dim, k, w->p, w->ldp, w->on + j * nb, f->qu * nr, w->dv, f->dp, j > 0);
    g->block(keys, f->dim, k, w->ds, w->ldp, w->qn + j * nb, f->qu * nr, w->dk, f->dp, j > 0);
    g->block(f->dim, cols, units, w->kt, f->ku + CPU_ATTN_PAD, w->panels, f->ku * nr,
             w->dq + j * f->dim * f->ldq, f->ldq, !first);
}

/* dst (+)= scale x for one token; x NULL is zeros. */
static void emit(const bwd *f, vt_tensor *dst, bool add, size_t b, size_t s, size_t h,
                 const float *x, float scale)
{
    const cpu_rows *r = f->d->rows;
    float row[256] = { 0 };
    void *at = cpu_token(dst, b, s, h);

    if (add) {
        if (!x)
            return;
        r->load(row, at, dst->dtype, f->dim);
        r->axpby(row, scale, x, 1, f->dim);
    } else if (x) {
        r->axpby(row, scale, x, 0, f->dim);
    }
    r->store(at, dst->dtype, row, f->dim);
}

/* Computes the key blocks of one part of a head. */
static void head_part(const bwd *f, const head_areas *w, size_t bh, size_t part)
{
    const cpu_gemm *g = f->g;
    size_t b = bh / f->heads, h = bh % f->heads, keys = cpu_keys(f->k, f->kv_len, b);
    size_t begin = part * f->k_blocks / f->parts, end = (part + 1) * f->k_blocks / f->parts;
    size_t ldk = f->du + CPU_ATTN_PAD;
    bool first = true;

    pack_queries(f, w, b, h);
    for (size_t i = begin; i < end && i * f->kb < keys; i++, first = false) {
        size_t k0 = i * f->kb, n = least(f->kb, keys - k0);
        cpu_pack_a(g, w->k, ldk, cpu_head(f->k, b, h, true), k0, n, 0, f->dim);
        cpu_pack_a(g, w->v, ldk, cpu_head(f->v, b, h, true), k0, n, 0, f->dim);
        cpu_pack_a(g, w->kt, f->ku + CPU_ATTN_PAD, cpu_head(f->k, b, h, false), 0, f->dim, k0, n);
        for (size_t j = 0; j < f->q_blocks; j++)
            multiply(f, w, n, j, first);
        for (size_t s = 0; s < n; s++) {
            if (f->dk)
                emit(f, f->dk, f->add_k, b, k0 + s, h, w->dk + s * f->dp, f->scale);
            if (f->dv)
                emit(f, f->dv, f->add_v, b, k0 + s, h, w->dv + s * f->dp, 1);
        }
    }
    if (first)
        memset(w->dq, 0, f->q_blocks * f->dim * f->ldq * 4);
    size_t unseen = begin * f->kb > keys ? begin * f->kb : keys;
    for (size_t s = unseen; s < least(end * f->kb, f->sk); s++) {
        if (f->dk)
            emit(f, f->dk, f->add_k, b, s, h, NULL, 0);
        if (f->dv)
            emit(f, f->dv, f->add_v, b, s, h, NULL, 0);
    }
}

/* Adds up and stores block j of a head's dQ from the parts' transposed sums dq[0..parts-1]. */
static void emit_queries(const bwd *f, float *const *dq, size_t bh, size_t j)
{
    enum { ROWS = 16 };
    size_t b = bh / f->heads, h = bh % f->heads, q0 = j * f->qb, n = least(f->qb, f->sq - q0);
    size_t block = j * f->dim * f->ldq;
    float rows[ROWS * 256];

    for (size_t p = 1; p < f->parts; p++)
        f->d->rows->add(dq[0] + block, dq[0] + block, dq[p] + block, f->dim * f->ldq);
    for (size_t s = 0; s < n; s += ROWS) {
        size_t m = least(ROWS, n - s);
        f->g->transpose((uint32_t *)rows, f->dim, (const uint32_t *)(dq[0] + block + s), f->ldq,
                        f->dim, m);
        for (size_t i = 0; i < m; i++)
            emit(f, f->dq, f->add_q, b, q0 + s + i, h, rows + i * f->dim, f->scale);
    }
}

/* For at least as many heads as threads: a head's dQ is stored as soon as the head is done. */
static void run_heads(const bwd *f, size_t all, size_t bytes)
{
#pragma omp parallel num_threads((int)least((size_t)f->d->threads, all))
    {
        head_areas w;
        place(f, cpu_scratch(f->d, omp_get_thread_num(), bytes), &w);
        f->g->begin();
#pragma omp for schedule(dynamic, 1)
        for (size_t bh = 0; bh < all; bh++) {
            head_part(f, &w, bh, 0);
            for (size_t j = 0; f->dq && j < f->q_blocks; j++)
                emit_queries(f, &w.dq, bh, j);
        }
        f->g->end();
    }
}

/* For fewer heads than threads: unit u has scratch u, which keeps its dQ until all are done. */
static void run_parts(const bwd *f, size_t all, size_t bytes)
{
    size_t units = all * f->parts;

#pragma omp parallel num_threads((int)units)
    {
        f->g->begin();
#pragma omp for schedule(static, 1)
        for (size_t u = 0; u < units; u++) {
            head_areas w;
            place(f, cpu_scratch(f->d, (int)u, bytes), &w);
            head_part(f, &w, u / f->parts, u % f->parts);
        }
#pragma omp for schedule(static) collapse(2)
        for (size_t bh = 0; bh < all; bh++)
            for (size_t j = 0; j < f->q_blocks; j++) {
                float *dq[64];
                for (size_t p = 0; p < f->parts; p++)
                    dq[p] = cpu_scratch(f->d, (int)(bh * f->parts + p), bytes);
                if (f->dq)
                    emit_queries(f, dq, bh, j);
            }
        f->g->end();
    }
}

void cpu_attention_grad(vt_dev *d, vt_tensor *dq, vt_tensor *dk, vt_tensor *dv,
                        const vt_tensor *dout, const vt_tensor *q, const vt_tensor *k,
                        const vt_tensor *v, const vt_tensor *o, const vt_tensor *lse,
                        const vt_attn *how)
{
    enum { MOST_PARTS = 64 };
    size_t all = (size_t)(q->dim[0] * q->dim[2]), threads = (size_t)d->threads;
    bwd f = {
        .d = d, .g = cpu_gemm_of(d, q->dtype), .dq = dq, .dk = dk, .dv = dv, .dout = dout, .q = q,
        .k = k, .v = v, .o = o, .lse = lse, .kv_len = how->kv_len, .scale = how->scale,
        .add_q = dq && vt_adds(dq), .add_k = dk && vt_adds(dk), .add_v = dv && vt_adds(dv),
        .heads = (size_t)q->dim[2], .sq = (size_t)q->dim[1], .sk = (size_t)k->dim[1],
        .dim = (size_t)q->dim[3], .parts = 1,
    };

    if (all == 0 || f.sq == 0)
        return;
    f.kb = f.g->nr == CPU_NR ? KEYS_512 : KEYS;
    f.kb = least(f.kb, cpu_round_up(f.sk ? f.sk : 1, KEYS));
    f.qb = least(QUERIES, cpu_round_up(f.sq, STEP));
    f.ldq = f.qb + CPU_ATTN_PAD;
    f.du = cpu_units(f.g, f.dim);
    f.dp = cpu_round_up(f.dim, (size_t)f.g->nr);
    f.qu = cpu_units(f.g, f.qb);
    f.ku = cpu_units(f.g, f.kb);
    f.q_blocks = (f.sq + f.qb - 1) / f.qb;
    f.k_blocks = (f.sk + f.kb - 1) / f.kb;
    if (all < threads && f.k_blocks > 1)
        f.parts = least(least(threads / all, f.k_blocks), MOST_PARTS);

    size_t bytes = place(&f, NULL, NULL) * 4;
    if (!cpu_scratch_all(d, (int)least(threads, all * f.parts), bytes, bytes))
        return;
    if (f.parts > 1)
        run_parts(&f, all, bytes);
    else
        run_heads(&f, all, bytes);
    if (dq)
        vt_wrote(dq);
    if (dk)
        vt_wrote(dk);
    if (dv)
        vt_wrote(dv);
}
