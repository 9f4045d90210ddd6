/* loops_grid.c - channels-last video: group norm, nearest resizing, means of frame pairs; see
 * kernel_list.h */
#include <math.h>
#include <string.h>

#include "common/cpu/loops.h"

/* Sums are f32 over BLOCK positions and f64 beyond. The positions of a sample are always divided
 * into PARTS, whose sums are added in order, so that they do not depend on the thread count. */
enum { PARTS = 32, BLOCK = 32, POSITIONS = 64 };

/* ---- group norm ---- */

typedef struct group {
    vt_dev *d;
    vt_tensor *y;
    const vt_tensor *x;
    const vt_group *n;
    int64_t sample, positions, c;              /* positions: per sample */
    double *sums;                              /* [PARTS][2][C]: of x - at, and squared */
    float *at, *a, *b;                         /* [C]: x's first position; y = a x + b */
    float *own;                                /* thread 0's rows, behind these arrays */
    size_t own_bytes;                          /* bytes of each thread's rows */
} group;

static float *own_rows(const group *s, int part)
{
    return part ? cpu_scratch(s->d, part, s->own_bytes) : s->own;
}

static const char *position(const vt_tensor *t, int64_t i)
{
    return (const char *)t->data + i * vt_last(t) * (int64_t)vc_dtype_size(t->dtype);
}

/* Sums differences from x's first position, which stay precise when the mean is far from 0. */
static void sum_parts(void *arg, int part, int64_t begin, int64_t end)
{
    const group *s = arg;
    size_t c = (size_t)s->c;
    float *sum = own_rows(s, part), *square = sum + c, *buf = square + c;

    for (int64_t p = begin; p < end; p++) {
        double *to = s->sums + (size_t)p * 2 * c;
        int64_t i = s->positions * p / PARTS, last = s->positions * (p + 1) / PARTS;
        memset(to, 0, 2 * c * sizeof *to);
        for (int64_t n; i < last; i += n) {
            n = last - i < BLOCK ? last - i : BLOCK;
            const char *from = position(s->x, s->sample * s->positions + i);
            memset(sum, 0, 2 * c * sizeof *sum);
            s->d->rows->moments(sum, square, cpu_load(s->d->rows, buf, from, s->x->dtype, 1,
                                                      (size_t)n * c), s->at, (size_t)n, c);
            for (size_t k = 0; k < 2 * c; k++)
                to[k] += (double)sum[k];
        }
    }
}

/* Computes a and b from the parts' sums, group by group. */
static void solve(const group *s, const vt_tensor *weight, const vt_tensor *bias)
{
    size_t c = (size_t)s->c, each = c / (size_t)s->n->groups;
    double count = (double)s->positions, *sum = s->sums, *square = sum + c;

    for (int p = 1; p < PARTS; p++)
        for (size_t k = 0; k < 2 * c; k++)
            sum[k] += s->sums[(size_t)p * 2 * c + k];
    s->d->rows->load(s->a, weight->data, weight->dtype, c);
    s->d->rows->load(s->b, bias->data, bias->dtype, c);
    for (size_t g = 0; g < c; g += each) {
        double mean = 0, var = 0;
        for (size_t k = g; k < g + each; k++)
            mean += (double)s->at[k] + sum[k] / count;
        mean /= (double)each;
        for (size_t k = g; k < g + each; k++) {
            double m = sum[k] / count, off = (double)s->at[k] + m - mean;
            var += square[k] / count - m * m + off * off;
        }
        double rstd = 1 / sqrt(fmax(var / (double)each, 0) + (double)s->n->eps);
        for (size_t k = g; k < g + each; k++) {
            double a = rstd * (double)s->a[k];
            s->b[k] = (float)((double)s->b[k] - mean * a);
            s->a[k] = (float)a;
        }
    }
}

/* Returns the position in scale and shift for position i of x's sample. */
static int64_t nearest_of(const group *s, int64_t i)
{
    const int64_t *to = s->x->dim, *from = s->n->scale->dim;
    int64_t w = i % to[3], h = i / to[3] % to[2], t = i / to[3] / to[2], f;

    if (s->n->first)
        f = t ? 1 + (t - 1) * (from[1] - 1) / (to[1] - 1) : 0;
    else
        f = t * from[1] / to[1];
    return ((s->sample * from[1] + f) * from[2] + h * from[2] / to[2]) * from[3] +
           w * from[3] / to[3];
}

static void apply_positions(void *arg, int part, int64_t begin, int64_t end)
{
    static const float none[2] = { 0, 1 };
    const group *s = arg;
    const cpu_rows *r = s->d->rows;
    const vt_group *n = s->n;
    size_t c = (size_t)s->c;
    float *in = own_rows(s, part), *out = in + c, *buf[2] = { out + c, out + 2 * c };
    const float *scale = NULL, *shift = NULL;
    bool direct = s->y->dtype == VC_F32;
    int64_t have = -1;

    for (int64_t i = begin; i < end; i++) {
        int64_t at = s->sample * s->positions + i;
        char *y = (char *)(uintptr_t)position(s->y, at);
        float *to = direct ? (float *)(void *)y : out;
        r->norm(to, cpu_load(r, in, position(s->x, at), s->x->dtype, 1, c), none, s->a, s->b, NULL,
                NULL, c);
        if (n->scale) {
            int64_t z = nearest_of(s, i);
            if (z != have) {
                scale = cpu_load(r, buf[0], position(n->scale, z), n->scale->dtype, 1, c);
                shift = cpu_load(r, buf[1], position(n->shift, z), n->shift->dtype, 1, c);
                have = z;
            }
            r->mul(to, to, scale, c);
            r->add(to, to, shift, c);
        }
        if (n->silu)
            r->silu(to, to, c);
        if (!direct)
            r->store(y, s->y->dtype, out, c);
    }
}

/* Makes the scratch of all threads; false after a fault. */
static bool make_room(group *s)
{
    size_t c = (size_t)s->c, shared = c * (2 * PARTS * sizeof(double) + 3 * sizeof(float));

    s->own_bytes = c * (2 + BLOCK) * sizeof(float);
    if (!cpu_scratch_all(s->d, s->d->threads, shared + s->own_bytes, s->own_bytes))
        return false;
    s->sums = (void *)cpu_scratch(s->d, 0, shared + s->own_bytes);
    s->at = (float *)(s->sums + 2 * PARTS * c);
    s->a = s->at + c;
    s->b = s->a + c;
    s->own = s->b + c;
    return true;
}

void cpu_group_norm(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *w,
                    const vt_tensor *b, const vt_group *n)
{
    group s = { .d = d, .y = y, .x = x, .n = n, .c = x->dim[4],
                .positions = x->dim[1] * x->dim[2] * x->dim[3] };

    if (!make_room(&s))
        return;
    int64_t grain = POSITIONS * 128 / s.c + 1;
    int parts = cpu_parts(d, s.positions, grain);
    for (; s.sample < x->dim[0]; s.sample++) {
        d->rows->load(s.at, position(x, s.sample * s.positions), x->dtype, (size_t)s.c);
        cpu_share(d, parts < PARTS ? parts : PARTS, PARTS, sum_parts, &s);
        solve(&s, w, b);
        cpu_share(d, parts, s.positions, apply_positions, &s);
    }
}

/* ---- nearest resizing ---- */

typedef struct pick {
    const cpu_rows *rows;
    vt_tensor *y;
    const vt_tensor *x;
} pick;

static void pick_position(const pick *s, char *y, const char *x, size_t c)
{
    float buf[CPU_SPAN];
    size_t from = vc_dtype_size(s->x->dtype), to = vc_dtype_size(s->y->dtype);

    if (s->x->dtype == s->y->dtype) {
        memcpy(y, x, c * to);
        return;
    }
    for (size_t i = 0; i < c; i += CPU_SPAN) {
        size_t n = c - i < CPU_SPAN ? c - i : CPU_SPAN;
        s->rows->load(buf, x + i * from, s->x->dtype, n);
        s->rows->store(y + i * to, s->y->dtype, buf, n);
    }
}

/* Copies rows of y, each of all positions of one (n, t, h). */
static void pick_rows(void *arg, int part, int64_t begin, int64_t end)
{
    const pick *s = arg;
    const int64_t *to = s->y->dim, *from = s->x->dim;
    size_t c = (size_t)to[4];

    (void)part;
    for (int64_t r = begin; r < end; r++) {
        int64_t h = r % to[2], t = r / to[2] % to[1], n = r / to[2] / to[1];
        int64_t line = (n * from[1] + t * from[1] / to[1]) * from[2] + h * from[2] / to[2];
        char *y = (char *)(uintptr_t)position(s->y, r * to[3]);
        for (int64_t w = 0; w < to[3]; w++, y += c * vc_dtype_size(s->y->dtype))
            pick_position(s, y, position(s->x, line * from[3] + w * from[3] / to[3]), c);
    }
}

void cpu_nearest(vt_dev *d, vt_tensor *y, const vt_tensor *x)
{
    pick s = { d->rows, y, x };
    int64_t rows = y->dim[0] * y->dim[1] * y->dim[2], each = y->dim[3] * y->dim[4];

    cpu_share(d, cpu_parts(d, rows, 8192 / each + 1), rows, pick_rows, &s);
}

/* ---- pairs of frames ---- */

/* Averages spans of y, frame after frame. */
static void pool_spans(void *arg, int part, int64_t begin, int64_t end)
{
    const pick *s = arg;
    const int64_t *to = s->y->dim, odd = s->x->dim[1] % 2, frame = to[2] * to[3] * to[4];
    int64_t spans = (frame + CPU_SPAN - 1) / CPU_SPAN;
    int64_t in = (int64_t)vc_dtype_size(s->x->dtype), out = (int64_t)vc_dtype_size(s->y->dtype);
    float a[CPU_SPAN], b[CPU_SPAN];

    (void)part;
    for (int64_t u = begin; u < end; u++) {
        int64_t i = u % spans * CPU_SPAN, t = u / spans % to[1], n = u / spans / to[1];
        bool alone = odd && t == 0;
        const char *x = (const char *)s->x->data +
                        ((n * s->x->dim[1] + (alone ? 0 : 2 * t - odd)) * frame + i) * in;
        size_t k = (size_t)(frame - i < CPU_SPAN ? frame - i : CPU_SPAN);
        s->rows->load(a, x, s->x->dtype, k);
        if (!alone) {
            s->rows->load(b, x + frame * in, s->x->dtype, k);
            s->rows->axpby(a, 0.5f, b, 0.5f, k);
        }
        s->rows->store((char *)s->y->data + ((n * to[1] + t) * frame + i) * out, s->y->dtype, a, k);
    }
}

void cpu_pool_frames(vt_dev *d, vt_tensor *y, const vt_tensor *x)
{
    pick s = { d->rows, y, x };
    int64_t frame = y->dim[2] * y->dim[3] * y->dim[4];
    int64_t units = y->dim[0] * y->dim[1] * ((frame + CPU_SPAN - 1) / CPU_SPAN);

    cpu_share(d, cpu_parts(d, units, 8), units, pool_spans, &s);
}
