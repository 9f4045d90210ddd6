/* attn.c - flash attention, forward (Dao et al. 2022; running softmax of Milakov & Gimelshein
 * 2018).
 *
 * A unit of work is a run of query blocks of one head. Its thread packs the head's K and V into
 * panels, unless it packed them for its last unit, then takes each block of BQ queries over blocks
 * of BK keys, with a running maximum and sum per query. No thread waits for another, and no sum is
 * split between threads, so results do not depend on their number. */
#include "common/cpu/attn.h"

#include <omp.h>
#include <string.h>

enum {
    BQ = 96, BK = CPU_ATTEND_KEYS,
    SHARE = 4                             /* units per thread, so that threads end together */
};

typedef struct fwd {
    vt_dev *d;
    const cpu_gemm *g;
    vt_tensor *o, *lse;
    const vt_tensor *q, *k, *v, *kv_len, *bias;
    size_t causal;                             /* vt_attn.causal */
    float scale;
    size_t heads, shared, sq, sk, dim;         /* shared: query heads per key head */
    bool at_once;                              /* by cpu_gemm.attend */
    size_t bq, q_blocks, parts;                /* queries of a block; blocks; units of work per
                                                * head */
    size_t du, dp;                             /* D in units; D as columns of panels */
    size_t ku;                                 /* BK keys in units */
    size_t head_units;                         /* units of one head's K (and V) panels */
} fwd;

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* A thread's scratch; P overwrites S where a score and a unit have the same size. */
typedef struct block_areas {
    uint32_t *panels;                          /* K's, then V's */
    uint32_t *q, *p;                           /* [bq][du + PAD], [bq][ldp] */
    float *s, *o, *max, *sum;                  /* [bq][lds], [bq][dp], [bq], [bq] */
    float *sums;                               /* the rest is attend's */
    size_t lds, ldp;
} block_areas;

static size_t place(const fwd *f, uint32_t *at, block_areas *w)
{
    size_t kv = 2 * f->head_units, q = f->bq * (f->du + CPU_ATTN_PAD), lds = BK + CPU_ATTN_PAD;
    size_t rows = f->at_once ? 2 * CPU_MR : f->bq, s = rows * lds, o = f->bq * f->dp;
    size_t sums = f->at_once ? f->bq * (size_t)f->g->nr / 2 : 0, ldp = lds, p = 0;

    if (f->g->pair > 1) {
        ldp = f->ku + CPU_ATTN_PAD;
        p = rows * ldp;
    }
    if (w) {
        float *x = (float *)(at + kv + q);
        *w = (block_areas){ .panels = at, .q = at + kv, .s = x, .o = x + s, .max = x + s + o,
                    .sum = x + s + o + f->bq, .sums = x + s + o + 2 * f->bq, .lds = lds, .ldp = ldp,
                    .p = p ? (uint32_t *)(x + s + o + 2 * f->bq + sums) : (uint32_t *)x };
    }
    return kv + q + s + o + 2 * f->bq + sums + p;
}

/* Packs a key head's K as panels over D, and its V as panels over each block of keys. */
static void pack_keys(const fwd *f, const block_areas *w, size_t bk)
{
    size_t heads = f->heads / f->shared, b = bk / heads, h = bk % heads;
    size_t keys = cpu_keys(f->k, f->kv_len, b);
    size_t nr = (size_t)f->g->nr;
    uint32_t *v = w->panels + f->head_units;

    for (size_t j0 = 0; j0 < keys; j0 += BK, v += f->ku * f->dp) {
        size_t n = least(BK, keys - j0);
        cpu_pack_b(f->g, w->panels + j0 * f->du, f->du * nr, cpu_head(f->k, b, h, true), j0, n, 0,
                   f->dim);
        cpu_pack_b(f->g, v, f->ku * nr, cpu_head(f->v, b, h, false), 0, f->dim, j0, n);
    }
}

/* Scales the scores of queries q0.. and keys j0.. to base 2 and adds the bias. */
static void add_bias(const fwd *f, const block_areas *w, size_t bh, size_t q0, size_t rows,
                     size_t j0, size_t n)
{
    const int64_t *by = f->bias->stride;
    const float *bias = (const float *)f->bias->data + (int64_t)(bh / f->heads) * by[0] +
                        (int64_t)(bh % f->heads) * by[1] + (int64_t)j0;

    for (size_t i = 0; i < rows; i++) {
        float *s = w->s + i * w->lds;
        f->d->rows->axpby(s, CPU_LOG2E, bias + (int64_t)(q0 + i) * by[2], f->scale * CPU_LOG2E, n);
    }
}

/* Returns how many of `keys` keys query i sees. */
static size_t seen(const fwd *f, size_t i, size_t keys)
{
    return f->causal ? least(keys, (i / f->causal + 1) * f->causal) : keys;
}

/* Masks the scores of keys j0.. that a query of q0.. does not see. All queries see key 0. */
static void leave_out(const fwd *f, const block_areas *w, size_t q0, size_t rows, size_t j0,
                      size_t n)
{
    for (size_t i = 0; i < rows; i++) {
        size_t end = seen(f, q0 + i, j0 + n);
        for (size_t j = end > j0 ? end - j0 : 0; j < n; j++)
            w->s[i * w->lds + j] = -INFINITY;
    }
}

/* Computes queries q0.. of a head against its packed keys. */
static void query_block(const fwd *f, const block_areas *w, size_t bh, size_t q0)
{
    const cpu_gemm *g = f->g;
    size_t b = bh / f->heads, h = bh % f->heads, keys = cpu_keys(f->k, f->kv_len, b);
    size_t rows = least(f->bq, f->sq - q0), ldq = f->du + CPU_ATTN_PAD, nr = (size_t)g->nr;

    keys = seen(f, q0 + rows - 1, keys);
    cpu_pack_a(g, w->q, ldq, cpu_head(f->q, b, h, true), q0, rows, 0, f->dim);
    for (size_t i = 0; i < rows; i++) {
        w->max[i] = -INFINITY;
        w->sum[i] = 0;
    }
    for (size_t j0 = 0; j0 < keys; j0 += BK) {
        size_t n = least(BK, keys - j0), units = cpu_units(g, n);
        g->block(rows, cpu_round_up(n, nr), f->du, w->q, ldq, w->panels + j0 * f->du, f->du * nr,
                 w->s, w->lds, false);
        if (f->bias)
            add_bias(f, w, bh, q0, rows, j0, n);
        if (f->causal && j0 + n > seen(f, q0, j0 + n))
            leave_out(f, w, q0, rows, j0, n);
        cpu_softmax x = {
            .rows = (int)rows, .n = (int)n, .scale = f->bias ? 1 : f->scale * CPU_LOG2E,
            .s = w->s, .lds = w->lds, .p = w->p, .ldp = w->ldp, .max = w->max, .sum = w->sum,
            .o = w->o, .ldo = f->dp, .d = f->dim,
        };
        g->softmax(&x);
        g->block(rows, f->dim, units, w->p, w->ldp,
                 w->panels + f->head_units + j0 / BK * f->ku * f->dp, f->ku * nr, w->o, f->dp,
                 j0 > 0);
    }
}

/* The same where neither bias nor mask stands between the products. */
static void query_block_at_once(const fwd *f, const block_areas *w, size_t bh, size_t q0)
{
    size_t b = bh / f->heads, h = bh % f->heads, rows = least(f->bq, f->sq - q0);
    size_t ldq = f->du + CPU_ATTN_PAD, s = CPU_MR * w->lds, p = CPU_MR * w->ldp;
    cpu_attend x = {
        .rows = cpu_round_up(rows, (size_t)f->g->rows), .keys = cpu_keys(f->k, f->kv_len, b),
        .du = f->du, .dp = f->dp, .q = w->q, .ldq = ldq, .k = w->panels,
        .v = w->panels + f->head_units, .scale = f->scale * CPU_LOG2E,
        .s = { w->s, w->s + s }, .p = { w->p, w->p + p }, .lds = w->lds, .ldp = w->ldp,
        .sums = w->sums, .max = w->max, .sum = w->sum, .o = w->o,
    };

    if (x.keys == 0) {
        memset(w->sum, 0, rows * 4);
        return;
    }
    cpu_pack_a(f->g, w->q, ldq, cpu_head(f->q, b, h, true), q0, rows, 0, f->dim);
    memset(w->q + rows * ldq, 0, (x.rows - rows) * ldq * 4);
    f->g->attend(&x);
}

static void emit(const fwd *f, const block_areas *w, size_t bh, size_t q0)
{
    size_t b = bh / f->heads, h = bh % f->heads, rows = least(f->bq, f->sq - q0);
    float *lse = f->lse ? cpu_lse(f->lse, b, h) + q0 : NULL;

    for (size_t i = 0; i < rows; i++) {
        float *o = w->o + i * f->dp, sum = w->sum[i];
        if (sum == 0)                          /* the sample has no keys */
            memset(o, 0, f->dim * 4);
        else
            f->d->rows->axpby(o, 1 / sum, o, 0, f->dim);
        f->d->rows->store(cpu_token(f->o, b, q0 + i, h), f->o->dtype, o, f->dim);
        if (lse)
            lse[i] = sum == 0 ? -INFINITY : (w->max[i] + log2f(sum)) * CPU_LN2;
    }
}

static void run(const fwd *f, size_t all)
{
    size_t bytes = place(f, NULL, NULL) * 4, units = all * f->parts;
    int threads = (int)least((size_t)f->d->threads, units);

    if (!cpu_scratch_all(f->d, threads, bytes, bytes))
        return;
#pragma omp parallel num_threads(threads)
    {
        size_t held = all;                     /* the key head packed in w; all: none yet */
        block_areas w;
        place(f, cpu_scratch(f->d, omp_get_thread_num(), bytes), &w);
        f->g->begin();
#pragma omp for schedule(dynamic, 1)
        for (size_t u = 0; u < units; u++) {
            size_t bh = u / f->parts, part = u % f->parts, bk = bh / f->shared;
            if (bk != held)
                pack_keys(f, &w, bk);
            held = bk;
            for (size_t j = part * f->q_blocks / f->parts; j < (part + 1) * f->q_blocks / f->parts;
                 j++) {
                if (f->at_once)
                    query_block_at_once(f, &w, bh, j * f->bq);
                else
                    query_block(f, &w, bh, j * f->bq);
                emit(f, &w, bh, j * f->bq);
            }
        }
        f->g->end();
    }
}

void cpu_attention(vt_dev *d, vt_tensor *o, vt_tensor *lse, const vt_tensor *q, const vt_tensor *k,
                   const vt_tensor *v, const vt_attn *how)
{
    size_t all = (size_t)(q->dim[0] * q->dim[2]);
    fwd f = {
        .d = d, .g = cpu_gemm_of(d, q->dtype), .o = o, .lse = lse, .q = q, .k = k, .v = v,
        .kv_len = how->kv_len, .bias = how->bias, .causal = (size_t)how->causal,
        .scale = how->scale, .heads = (size_t)q->dim[2],
        .shared = (size_t)(q->dim[2] / k->dim[2]),
        .sq = (size_t)q->dim[1], .sk = (size_t)k->dim[1], .dim = (size_t)q->dim[3],
    };

    if (all == 0 || f.sq == 0)
        return;
    f.at_once = !f.bias && !f.causal;
    f.bq = f.at_once ? (size_t)f.g->queries : BQ;
    f.q_blocks = (f.sq + f.bq - 1) / f.bq;
    f.parts = least((SHARE * (size_t)d->threads + all - 1) / all, f.q_blocks);
    f.du = cpu_units(f.g, f.dim);
    f.dp = cpu_round_up(f.dim, (size_t)f.g->nr);
    f.ku = cpu_units(f.g, BK);
    f.head_units = (f.sk + BK - 1) / BK * (BK * f.du > f.ku * f.dp ? BK * f.du : f.ku * f.dp);
    run(&f, all);
}
