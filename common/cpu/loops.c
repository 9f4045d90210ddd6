/* loops.c - threads, walks, and maps and sums over walks; see loops.h */
#include "common/cpu/loops.h"

#include <string.h>

/* ---- threads ---- */

int cpu_parts(const vt_dev *d, int64_t units, int64_t grain)
{
    int64_t parts = units / (grain < 1 ? 1 : grain);

    return parts < 1 ? 1 : parts < d->threads ? (int)parts : d->threads;
}

/* The team always has dev->threads members, since OpenMP starts a new team for another size. */
void cpu_share(const vt_dev *d, int parts, int64_t units, cpu_part fn, void *arg)
{
    if (parts <= 1) {
        fn(arg, 0, 0, units);
        return;
    }
    #pragma omp parallel for schedule(static, 1) num_threads(d->threads)
    for (int p = 0; p < parts; p++)
        fn(arg, p, units * p / parts, units * (p + 1) / parts);
}

/* ---- walks ---- */

void cpu_at_row(const vt_walk *w, cpu_at *at, int64_t row)
{
    *at = (cpu_at){ 0 };
    for (int i = w->nd; i-- > 0; row /= w->dim[i]) {
        at->index[i] = row % w->dim[i];
        for (int o = 0; o < w->k; o++)
            at->offset[o] += at->index[i] * w->stride[o][i];
    }
}

void cpu_next_row(const vt_walk *w, cpu_at *at)
{
    for (int i = w->nd; i-- > 0;) {
        bool wraps = ++at->index[i] == w->dim[i];
        int64_t back = wraps ? w->dim[i] - 1 : -1;
        for (int o = 0; o < w->k; o++)
            at->offset[o] -= back * w->stride[o][i];
        if (!wraps)
            return;
        at->index[i] = 0;
    }
}

/* ---- elements ---- */

static float element(const char *p, vc_dtype t)
{
    float x;

    vc_to_f32(&x, p, t, 1);
    return x;
}

const float *cpu_load(const cpu_rows *r, float *buf, const void *src, vc_dtype t, int64_t step,
                      size_t n)
{
    if (step == 1 || n == 1) {
        if (t == VC_F32)
            return src;
        r->load(buf, src, t, n);
        return buf;
    }
    const char *p = src;
    int64_t bytes = step * (int64_t)vc_dtype_size(t);
    if (step == 0) {
        float x = element(p, t);
        for (size_t i = 0; i < n; i++)
            buf[i] = x;
    } else if (t == VC_F32) {
        for (size_t i = 0; i < n; i++, p += bytes)
            memcpy(&buf[i], p, 4);
    } else {
        for (size_t i = 0; i < n; i++, p += bytes)
            buf[i] = element(p, t);
    }
    return buf;
}

void cpu_store(const cpu_rows *r, void *dst, vc_dtype t, int64_t step, const float *src, size_t n)
{
    if (step == 1 || n == 1) {
        r->store(dst, t, src, n);
        return;
    }
    char *p = dst;
    int64_t bytes = step * (int64_t)vc_dtype_size(t);
    for (size_t i = 0; i < n; i++, p += bytes)
        vc_from_f32(p, t, &src[i], 1);
}

void cpu_store_add(const cpu_rows *r, void *dst, vc_dtype t, int64_t step, const float *src,
                   size_t n)
{
    float buf[CPU_SPAN], sum[CPU_SPAN];

    r->add(sum, cpu_load(r, buf, dst, t, step, n), src, n);
    cpu_store(r, dst, t, step, sum, n);
}

/* ---- maps ---- */

enum { MAPPED = 5, GRAIN = 16384 };            /* most operands of a map; elements per thread */

typedef struct map {
    vt_walk w;
    const cpu_rows *rows;
    cpu_span fn;
    const void *arg;
    bool adds;
    int64_t spans;                             /* per row */
} map;

static void map_span(const map *m, const cpu_at *at, int64_t first, size_t n)
{
    float buf[MAPPED][CPU_SPAN];
    const float *x[MAPPED - 1] = { NULL };
    const vt_walk *w = &m->w;
    char *y = cpu_ptr(w, at, 0, first);

    for (int o = 1; o < w->k; o++)
        x[o - 1] = cpu_load(m->rows, buf[o], cpu_ptr(w, at, o, first), w->type[o], w->step[o], n);
    if (!m->adds && w->type[0] == VC_F32 && w->step[0] == 1) {
        m->fn(m->rows, m->arg, (float *)y, x, n);
        return;
    }
    m->fn(m->rows, m->arg, buf[0], x, n);
    if (m->adds)
        cpu_store_add(m->rows, y, w->type[0], w->step[0], buf[0], n);
    else
        cpu_store(m->rows, y, w->type[0], w->step[0], buf[0], n);
}

static void map_part(void *arg, int part, int64_t begin, int64_t end)
{
    const map *m = arg;
    int64_t span = begin % m->spans;
    cpu_at at;

    (void)part;
    cpu_at_row(&m->w, &at, begin / m->spans);
    for (int64_t u = begin; u < end; u++) {
        int64_t first = span * CPU_SPAN, left = m->w.n - first;
        map_span(m, &at, first, (size_t)(left < CPU_SPAN ? left : CPU_SPAN));
        if (++span == m->spans) {
            span = 0;
            cpu_next_row(&m->w, &at);
        }
    }
}

void cpu_map(vt_dev *d, cpu_span fn, const void *arg, bool adds, int k, const vt_tensor *const *t)
{
    map m = { .rows = d->rows, .fn = fn, .arg = arg, .adds = adds };

    m.w = vt_walk_of(k, t, true);
    m.spans = (m.w.n + CPU_SPAN - 1) / CPU_SPAN;
    int64_t units = m.w.rows * m.spans, size = m.w.n < CPU_SPAN ? m.w.n : CPU_SPAN;
    cpu_share(d, cpu_parts(d, units, GRAIN / size), units, map_part, &m);
}

/* ---- sums ---- */

enum { SUM_PARTS = 256 };                      /* partial sums, for any number of threads */

typedef struct sums {
    map m;
    cpu_sum_span fn;
    int64_t units;
    double part[SUM_PARTS];
} sums;

static double sum_units(const sums *s, int64_t begin, int64_t end)
{
    const map *m = &s->m;
    int64_t span = begin % m->spans;
    double sum = 0;
    cpu_at at;

    cpu_at_row(&m->w, &at, begin / m->spans);
    for (int64_t u = begin; u < end; u++) {
        float buf[MAPPED][CPU_SPAN];
        const float *x[MAPPED] = { NULL };
        int64_t first = span * CPU_SPAN, left = m->w.n - first;
        size_t n = (size_t)(left < CPU_SPAN ? left : CPU_SPAN);
        for (int o = 0; o < m->w.k; o++)
            if (m->w.data[o])
                x[o] = cpu_load(m->rows, buf[o], cpu_ptr(&m->w, &at, o, first), m->w.type[o],
                                m->w.step[o], n);
        sum += s->fn(m->rows, x, n);
        if (++span == m->spans) {
            span = 0;
            cpu_next_row(&m->w, &at);
        }
    }
    return sum;
}

static void sum_part(void *arg, int part, int64_t begin, int64_t end)
{
    sums *s = arg;

    (void)part;
    for (int64_t p = begin; p < end; p++)
        s->part[p] = sum_units(s, s->units * p / SUM_PARTS, s->units * (p + 1) / SUM_PARTS);
}

double cpu_sum_of(vt_dev *d, cpu_sum_span fn, int k, const vt_tensor *const *t)
{
    sums s = { .m.rows = d->rows, .fn = fn };
    double sum = 0;

    s.m.w = vt_walk_of(k, t, true);
    s.m.spans = (s.m.w.n + CPU_SPAN - 1) / CPU_SPAN;
    s.units = s.m.w.rows * s.m.spans;
    int parts = s.m.w.rows * s.m.w.n < 2 * GRAIN ? 1 : cpu_parts(d, SUM_PARTS, 1);
    cpu_share(d, parts, SUM_PARTS, sum_part, &s);
    for (int p = 0; p < SUM_PARTS; p++)
        sum += s.part[p];
    return sum;
}

void cpu_finish_row(const cpu_rows *r, void *c, vc_dtype type, float *t, size_t n,
                    const vt_tensor *bias, size_t n0, float alpha, float beta)
{
    float row[CPU_SPAN];
    char *to = c;

    for (size_t i = 0, m; i < n; i += m, t += m, to += m * vc_dtype_size(type)) {
        m = n - i < CPU_SPAN ? n - i : CPU_SPAN;
        if (alpha != 1)
            r->axpby(t, alpha, t, 0, m);
        if (bias) {
            r->load(row, (const char *)bias->data + (n0 + i) * vc_dtype_size(bias->dtype),
                    bias->dtype, m);
            r->add(t, t, row, m);
        }
        if (beta != 0) {
            r->load(row, to, type, m);
            r->axpby(t, beta, row, 1, m);
        }
        r->store(to, type, t, m);
    }
}
