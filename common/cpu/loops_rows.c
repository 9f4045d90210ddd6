/* loops_rows.c - kernels of whole rows and of sums over rows: norms, embedding, reductions; see
 * kernel_list.h */
#include <string.h>

#include "common/cpu/loops.h"

enum { ROW_GRAIN = 8192, BLOCK = 128 };        /* elements per thread; rows summed at a time */

static const float *row(const vt_walk *w, const cpu_at *at, int o, const cpu_rows *r, float *buf)
{
    return w->data[o] ? cpu_load(r, buf, cpu_ptr(w, at, o, 0), w->type[o], w->step[o],
                                 (size_t)w->n)
                      : NULL;
}

/* A row converted to f32, reused if the next row is the same. */
typedef struct cached {
    int64_t offset;
    const float *p;
} cached;

static const float *row_again(const vt_walk *w, const cpu_at *at, int o, const cpu_rows *r,
                              float *buf, cached *c)
{
    if (!w->data[o])
        return NULL;
    if (!c->p || c->offset != at->offset[o]) {
        c->p = row(w, at, o, r, buf);
        c->offset = at->offset[o];
    }
    return c->p;
}

/* Returns t [D] of any float type as f32, or NULL. */
static const float *vector(const vt_tensor *t, const cpu_rows *r, float *buf)
{
    return t ? cpu_load(r, buf, t->data, t->dtype, 1, (size_t)vt_count(t)) : NULL;
}

/* ---- norm ---- */

enum { Y, X, SHIFT, SCALE, STATS, OPERANDS };

typedef struct norm {
    vt_walk w;
    vt_dev *d;
    const vt_tensor *weight, *bias;
    float eps;
    bool rms;
} norm;

static void norm_part(void *arg, int part, int64_t begin, int64_t end)
{
    const norm *s = arg;
    const cpu_rows *r = s->d->rows;
    const vt_walk *w = &s->w;
    size_t n = (size_t)w->n;
    float *buf = cpu_scratch(s->d, part, 6 * n * sizeof *buf);

    if (!buf)
        return;
    const float *weight = vector(s->weight, r, buf), *bias = vector(s->bias, r, buf + n);
    bool direct = w->type[Y] == VC_F32;
    cached shift = { 0 }, scale = { 0 };
    cpu_at at;
    cpu_at_row(w, &at, begin);
    for (int64_t i = begin; i < end; i++, cpu_next_row(w, &at)) {
        const float *x = row(w, &at, X, r, buf + 2 * n);
        const float *sh = row_again(w, &at, SHIFT, r, buf + 3 * n, &shift);
        const float *sc = row_again(w, &at, SCALE, r, buf + 4 * n, &scale);
        char *y = cpu_ptr(w, &at, Y, 0);
        float *out = direct ? (float *)y : buf + 5 * n, stats[2];
        (s->rms ? r->rms_stats : r->layer_stats)(stats, x, n, s->eps);
        r->norm(out, x, stats, weight, bias, sh, sc, n);
        if (!direct)
            r->store(y, w->type[Y], out, n);
        if (w->data[STATS])
            memcpy(cpu_ptr(w, &at, STATS, 0), stats, sizeof stats);
    }
}

void cpu_norm(vt_dev *d, vt_tensor *y, vt_tensor *stats, const vt_tensor *x,
              const vt_tensor *weight, const vt_tensor *bias, const vt_tensor *shift,
              const vt_tensor *scale, float eps, bool rms)
{
    norm s = { .d = d, .weight = weight, .bias = bias, .eps = eps, .rms = rms };
    vt_tensor st;

    if (stats)
        st = vt_row_stats(stats, x);
    s.w = vt_walk_of(OPERANDS,
                     (const vt_tensor *const[]){ y, x, shift, scale, stats ? &st : NULL }, false);
    cpu_share(d, cpu_parts(d, s.w.rows, ROW_GRAIN / s.w.n), s.w.rows, norm_part, &s);
}

/* ---- embedding ---- */

typedef struct lookup {
    vt_dev *d;
    vt_tensor *y;
    const vt_tensor *table;
    const int32_t *ids;
} lookup;

/* Converts n elements between any two types, by spans on the stack. */
static void convert(const cpu_rows *r, void *to, vc_dtype tt, const void *from, vc_dtype tf,
                    size_t n)
{
    float buf[CPU_SPAN];

    for (size_t i = 0; i < n; i += CPU_SPAN) {
        size_t m = n - i < CPU_SPAN ? n - i : CPU_SPAN;
        r->load(buf, (const char *)from + i * vc_dtype_size(tf), tf, m);
        r->store((char *)to + i * vc_dtype_size(tt), tt, buf, m);
    }
}

static void lookup_part(void *arg, int part, int64_t begin, int64_t end)
{
    const lookup *s = arg;
    const vt_tensor *t = s->table;
    size_t n = (size_t)t->dim[1], in = n * vc_dtype_size(t->dtype);
    size_t out = n * vc_dtype_size(s->y->dtype);

    (void)part;
    for (int64_t i = begin; i < end; i++) {
        int32_t id = s->ids[i];
        char *y = (char *)s->y->data + (size_t)i * out;
        if (id < 0 || id >= t->dim[0]) {
            cpu_fault(s->d, VC_EINVAL, "embedding: id %d at %lld, the table has %lld rows", id,
                      (long long)i, (long long)t->dim[0]);
            memset(y, 0, out);
            continue;
        }
        const char *row = (const char *)t->data + (size_t)id * in;
        if (t->dtype == s->y->dtype)
            memcpy(y, row, out);
        else
            convert(s->d->rows, y, s->y->dtype, row, t->dtype, n);
    }
}

void cpu_embedding(vt_dev *d, vt_tensor *y, const vt_tensor *table, const vt_tensor *ids)
{
    lookup s = { d, y, table, ids->data };
    int64_t n = vt_count(ids);

    cpu_share(d, cpu_parts(d, n, ROW_GRAIN / table->dim[1]), n, lookup_part, &s);
}

/* ---- gradient of norm ---- */

enum { G_X, G_DX, G_DY, G_SCALE, G_STATS, G_DSHIFT, G_DSCALE, G_OPERANDS };
enum { DW, DB, DSHIFT, DSCALE, SUMS };         /* gradients that are sums over rows */

/* A thread's scratch: rows of n floats. */
enum { R_X, R_DX, R_DY, R_SCALE, R_W, R_B, R_ADD, R_SUM, R_TOTAL = R_SUM + SUMS,
       R_ROWS = R_TOTAL + SUMS };

typedef struct norm_grad {
    vt_walk w;
    vt_dev *d;
    const vt_tensor *weight, *bias;
    bool want[SUMS], rms, dx_adds, targets_add;
    int64_t per;                               /* rows that share one row of shift and scale */
    int64_t base;                              /* first row of the work that threads share */
} norm_grad;

static float *rows_of(const norm_grad *s, int part)
{
    return cpu_scratch(s->d, part, (size_t)(R_ROWS * s->w.n) * sizeof(float));
}

static void clear(const norm_grad *s, float *buf, int from, int to)
{
    memset(buf + (R_SUM + from) * s->w.n, 0, (size_t)((to - from) * s->w.n) * sizeof *buf);
    memset(buf + (R_TOTAL + from) * s->w.n, 0, (size_t)((to - from) * s->w.n) * sizeof *buf);
}

/* Adds the sums of a stretch of rows to the totals: two levels keep long f32 sums accurate. */
static void flush(const norm_grad *s, float *buf)
{
    size_t n = (size_t)s->w.n;

    for (int i = 0; i < SUMS; i++)
        if (s->want[i])
            s->d->rows->add(buf + (size_t)(R_TOTAL + i) * n, buf + (size_t)(R_TOTAL + i) * n,
                            buf + (size_t)(R_SUM + i) * n, n);
    memset(buf + R_SUM * n, 0, SUMS * n * sizeof *buf);
}

/* Computes dx of rows begin..end-1, and adds their terms to the sums in this part's scratch. */
static void grad_rows(const norm_grad *s, float *buf, int64_t begin, int64_t end)
{
    const cpu_rows *r = s->d->rows;
    const vt_walk *w = &s->w;
    size_t n = (size_t)w->n;
    const float *weight = vector(s->weight, r, buf + R_W * n);
    const float *bias = vector(s->bias, r, buf + R_B * n);
    float *sum[SUMS];
    cached scale = { 0 };
    cpu_at at;

    for (int i = 0; i < SUMS; i++)
        sum[i] = s->want[i] ? buf + (size_t)(R_SUM + i) * n : NULL;
    cpu_at_row(w, &at, begin);
    for (int64_t i = begin; i < end; i++, cpu_next_row(w, &at)) {
        const float *x = row(w, &at, G_X, r, buf + R_X * n);
        const float *dy = row(w, &at, G_DY, r, buf + R_DY * n);
        const float *sc = row_again(w, &at, G_SCALE, r, buf + R_SCALE * n, &scale);
        float *dx = w->data[G_DX] ? buf + R_DX * n : NULL, stats[2];
        memcpy(stats, cpu_ptr(w, &at, G_STATS, 0), sizeof stats);
        r->norm_grad(dx, sum[DW], sum[DB], sum[DSHIFT], sum[DSCALE], dy, x, stats, weight, bias,
                     sc, n, s->rms);
        if (dx && s->dx_adds)
            r->add(dx, dx, row(w, &at, G_DX, r, buf + R_ADD * n), n);
        if (dx)
            r->store(cpu_ptr(w, &at, G_DX, 0), w->type[G_DX], dx, n);
        if ((i - begin) % BLOCK == BLOCK - 1)
            flush(s, buf);
    }
    flush(s, buf);
}

/* Operand o (+)= sum at position `at`. */
static void write_target(const norm_grad *s, const cpu_at *at, int o, const float *sum)
{
    const vt_walk *w = &s->w;

    if (!w->data[o])
        return;
    char *p = cpu_ptr(w, at, o, 0);
    for (int64_t i = 0; i < w->n; i += CPU_SPAN) {
        size_t n = (size_t)(w->n - i < CPU_SPAN ? w->n - i : CPU_SPAN);
        char *q = p + i * (int64_t)vc_dtype_size(w->type[o]);
        if (s->targets_add)
            cpu_store_add(s->d->rows, q, w->type[o], 1, sum + i, n);
        else
            cpu_store(s->d->rows, q, w->type[o], 1, sum + i, n);
    }
}

static void write_targets(const norm_grad *s, float *buf, int64_t target)
{
    cpu_at at;

    cpu_at_row(&s->w, &at, target * s->per);
    write_target(s, &at, G_DSHIFT, buf + (R_TOTAL + DSHIFT) * s->w.n);
    write_target(s, &at, G_DSCALE, buf + (R_TOTAL + DSCALE) * s->w.n);
}

/* Computes targets begin..end-1, which belong to this part alone. */
static void by_target(void *arg, int part, int64_t begin, int64_t end)
{
    const norm_grad *s = arg;
    float *buf = rows_of(s, part);

    if (!buf)
        return;
    clear(s, buf, 0, SUMS);
    for (int64_t t = begin; t < end; t++) {
        clear(s, buf, DSHIFT, SUMS);
        grad_rows(s, buf, t * s->per, (t + 1) * s->per);
        write_targets(s, buf, t);
    }
}

/* Computes rows begin..end-1 of a target that all parts share. */
static void by_row(void *arg, int part, int64_t begin, int64_t end)
{
    const norm_grad *s = arg;
    float *buf = rows_of(s, part);

    if (!buf)
        return;
    clear(s, buf, s->base == 0 ? 0 : DSHIFT, SUMS);
    grad_rows(s, buf, s->base + begin, s->base + end);
}

/* Adds the totals of all parts to those of the first, in their order. */
static float *gather(const norm_grad *s, int parts, int from, int to)
{
    float *first = rows_of(s, 0);

    for (int p = 1; p < parts && first; p++) {
        float *buf = rows_of(s, p);
        size_t at = (size_t)((R_TOTAL + from) * s->w.n), n = (size_t)((to - from) * s->w.n);
        if (buf)
            s->d->rows->add(first + at, first + at, buf + at, n);
    }
    return first;
}

static void sum_out(const norm_grad *s, vt_tensor *t, const float *sum)
{
    if (!t)
        return;
    if (vt_adds(t))
        s->d->rows->add(t->data, t->data, sum, (size_t)s->w.n);
    else
        memcpy(t->data, sum, (size_t)s->w.n * sizeof *sum);
    vt_wrote(t);
}

static void run_grad(norm_grad *s, int64_t targets, vt_tensor *dw, vt_tensor *db)
{
    vt_dev *d = s->d;
    int parts;

    if (targets >= 2 * d->threads) {
        parts = cpu_parts(d, targets, ROW_GRAIN / (s->w.n * s->per) + 1);
        cpu_share(d, parts, targets, by_target, s);
    } else {
        parts = cpu_parts(d, s->per, ROW_GRAIN / s->w.n);
        for (int64_t t = 0; t < targets; t++) {
            s->base = t * s->per;
            cpu_share(d, parts, s->per, by_row, s);
            float *sums = gather(s, parts, DSHIFT, SUMS);
            if (sums)
                write_targets(s, sums, t);
        }
    }
    float *sums = gather(s, parts, DW, DSHIFT);
    if (!sums)
        return;
    sum_out(s, dw, sums + (R_TOTAL + DW) * s->w.n);
    sum_out(s, db, sums + (R_TOTAL + DB) * s->w.n);
}

void cpu_norm_grad(vt_dev *d, vt_tensor *dx, vt_tensor *dw, vt_tensor *db, vt_tensor *dshift,
                   vt_tensor *dscale, const vt_tensor *dy, const vt_tensor *x,
                   const vt_tensor *stats, const vt_tensor *weight, const vt_tensor *bias,
                   const vt_tensor *scale, bool rms)
{
    norm_grad s = { .d = d, .weight = weight, .bias = bias, .rms = rms,
                    .want = { dw, db, dshift, dscale }, .dx_adds = dx && vt_adds(dx) };
    vt_tensor st = vt_row_stats(stats, x), moved[G_OPERANDS];
    const vt_tensor *all[] = { x, dx, dy, scale, &st, dshift, dscale }, *t[G_OPERANDS];
    const vt_tensor *target = dshift ? dshift : dscale;

    int64_t targets = vt_kept_first(target, G_OPERANDS, all, moved, t);
    s.w = vt_walk_of(G_OPERANDS, t, false);
    s.per = s.w.rows / targets;
    s.targets_add = target && vt_adds(target);
    run_grad(&s, targets, dw, db);
    if (dx)
        vt_wrote(dx);
    if (dshift)
        vt_wrote(dshift);
    if (dscale)
        vt_wrote(dscale);
}

/* ---- sums over repeated axes ---- */

enum { R_T, R_DYS, R_OTHER, R_K };

typedef struct reduction {
    vt_walk w;
    vt_dev *d;
    float scale;
    bool adds;
    int64_t per, columns, blocks;              /* rows per target; columns per block; blocks */
} reduction;

static void put(const reduction *s, char *dst, const float *sum, size_t n)
{
    if (s->adds)
        cpu_store_add(s->d->rows, dst, s->w.type[R_T], s->w.step[R_T], sum, n);
    else
        cpu_store(s->d->rows, dst, s->w.type[R_T], s->w.step[R_T], sum, n);
}

/* Sums one block of columns of one target over rows in their order, so that the sum does not depend
 * on the thread count. */
static void reduce_block(const reduction *s, int64_t target, int64_t first, size_t n)
{
    const vt_walk *w = &s->w;
    const cpu_rows *r = s->d->rows;
    float total[CPU_SPAN], sum[CPU_SPAN], a[CPU_SPAN], b[CPU_SPAN];
    cpu_at at;

    memset(total, 0, n * sizeof *total);
    memset(sum, 0, n * sizeof *sum);
    cpu_at_row(w, &at, target * s->per);
    char *dst = cpu_ptr(w, &at, R_T, first);
    for (int64_t i = 0; i < s->per; i++, cpu_next_row(w, &at)) {
        const float *dy = cpu_load(r, a, cpu_ptr(w, &at, R_DYS, first), w->type[R_DYS],
                                   w->step[R_DYS], n);
        if (w->data[R_OTHER])
            r->muladd(sum, dy, cpu_load(r, b, cpu_ptr(w, &at, R_OTHER, first), w->type[R_OTHER],
                                        w->step[R_OTHER], n), n);
        else
            r->add(sum, sum, dy, n);
        if (i % BLOCK == BLOCK - 1 || i == s->per - 1) {
            r->add(total, total, sum, n);
            memset(sum, 0, n * sizeof *sum);
        }
    }
    for (size_t i = 0; i < n; i++)
        total[i] *= s->scale;
    put(s, dst, total, n);
}

static void reduce_columns(void *arg, int part, int64_t begin, int64_t end)
{
    const reduction *s = arg;

    (void)part;
    for (int64_t u = begin; u < end; u++) {
        int64_t first = u % s->blocks * s->columns, left = s->w.n - first;
        reduce_block(s, u / s->blocks, first, (size_t)(left < s->columns ? left : s->columns));
    }
}

/* Sums rows whose last axis is summed too, so that a target is one number. */
static void reduce_rows(void *arg, int part, int64_t begin, int64_t end)
{
    const reduction *s = arg;
    const vt_walk *w = &s->w;
    const cpu_rows *r = s->d->rows;
    float a[CPU_SPAN], b[CPU_SPAN];
    cpu_at at;

    (void)part;
    cpu_at_row(w, &at, begin * s->per);
    for (int64_t t = begin; t < end; t++) {
        char *dst = cpu_ptr(w, &at, R_T, 0);
        double sum = 0;
        for (int64_t i = 0; i < s->per; i++, cpu_next_row(w, &at))
            for (int64_t j = 0; j < w->n; j += CPU_SPAN) {
                size_t n = (size_t)(w->n - j < CPU_SPAN ? w->n - j : CPU_SPAN);
                const float *dy = cpu_load(r, a, cpu_ptr(w, &at, R_DYS, j), w->type[R_DYS],
                                           w->step[R_DYS], n);
                sum += (double)(w->data[R_OTHER]
                                    ? r->dot(dy, cpu_load(r, b, cpu_ptr(w, &at, R_OTHER, j),
                                                          w->type[R_OTHER], w->step[R_OTHER], n), n)
                                    : r->sum(dy, n));
            }
        float value = (float)sum * s->scale;
        put(s, dst, &value, 1);
    }
}

void cpu_reduce(vt_dev *d, vt_tensor *dx, const vt_tensor *dy, const vt_tensor *other, float scale)
{
    reduction s = { .d = d, .scale = scale, .adds = vt_adds(dx) };
    const vt_tensor *all[] = { dx, dy, other }, *t[R_K];
    vt_tensor moved[R_K];

    int64_t targets = vt_kept_first(dx, R_K, all, moved, t);
    s.w = vt_walk_of(R_K, t, false);
    s.per = s.w.rows / targets;
    bool scalar = s.w.n > 1 && s.w.step[R_T] == 0;
    if (scalar) {
        cpu_share(d, cpu_parts(d, targets, ROW_GRAIN / (s.w.n * s.per) + 1), targets, reduce_rows,
                  &s);
    } else {
        int64_t even = (s.w.n + d->threads - 1) / d->threads;
        s.columns = even < 64 ? 64 : even > 1024 ? 1024 : (even + 63) / 64 * 64;
        s.blocks = (s.w.n + s.columns - 1) / s.columns;
        int64_t units = targets * s.blocks, each = s.per * (s.w.n / s.blocks);
        cpu_share(d, cpu_parts(d, units, ROW_GRAIN / (each + 1) + 1), units, reduce_columns, &s);
    }
    vt_wrote(dx);
}
