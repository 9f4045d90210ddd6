/* winograd.c - convolutions with 3 x 3 kernels in space, by minimal filtering F(2x2, 3x3) (Winograd
 * 1980; Lavin & Gray 2016): 16 products make 4 outputs, where the direct sum has 36.
 *
 * The 16 places of a 4 x 4 tile of the input become 16 sums (V), the kernel's nine weights become
 * 16 (U). For each of the 16 a product of matrices [tiles, C] x [C, K] is added up over the
 * kernel's frames, and sums of these products make the 2 x 2 outputs of a tile. All sums are in
 * f32; the factors of F(2x2) are 1 and 1/2, so the error stays near that of the direct sum.
 *
 * A unit of work is a strip of tile rows of one output frame. A tile's numbers depend on its input
 * alone, so results depend neither on threads nor on the frames of a call. */
#include <omp.h>
#include <string.h>

#include "common/cpu/conv.h"

enum {
    TAPS = 16,                     /* products of a tile */
    TILES = 96,                    /* of a unit, at least, so that weights are read seldom */
    FEW = 32,                      /* fewer channels: the transforms cost more than they save */
    SMALL = 16                     /* fewer tiles of a frame: the weights' transform does so */
};

typedef struct winograd {
    const cpu_conv *v;
    size_t frames;                             /* of the kernel */
    size_t pb, each;                           /* units of a panel; of all panels of one product */
    size_t across, down;                       /* tiles of a frame */
    size_t strip, strips;                      /* tile rows of a unit; units of a frame */
    size_t row;                                /* floats of a padded input row */
    size_t tiles;                              /* of a whole unit */
} winograd;

/* A thread's scratch. */
typedef struct own {
    float *row;                                /* [4][row] of the input */
    float *mixed;                              /* [4][row] sums of these rows */
    float *v, *m;                              /* [16][tiles][C], [16][tiles][ldc] */
    float *y;                                  /* [4][K] the outputs of a tile */
} own;

static size_t least(size_t a, size_t b) { return a < b ? a : b; }
static size_t most(size_t a, size_t b) { return a > b ? a : b; }

bool cpu_winograd_suits(const cpu_conv *v)
{
    const int64_t *k = v->w->dim, *y = v->y->dim;
    return v->g->pair == 1 && k[3] == 3 && k[4] == 3 && v->c->stride[1] == 1 &&
           v->c->stride[2] == 1 && v->in >= FEW && v->out >= FEW &&
           (y[2] + 1) / 2 * ((y[3] + 1) / 2) >= SMALL;
}

/* ---- weights ---- */

/* u[i][j] = G w G' of one 3 x 3 kernel, `step` floats apart. */
static void transform_weights(float *u, size_t step, const float *w)
{
    float t[4][3];

    for (int j = 0; j < 3; j++) {
        float a = w[j], b = w[3 + j], c = w[6 + j];
        t[0][j] = a;
        t[1][j] = 0.5f * (a + b + c);
        t[2][j] = 0.5f * (a - b + c);
        t[3][j] = c;
    }
    for (int i = 0; i < 4; i++, u += 4 * step) {
        float a = t[i][0], b = t[i][1], c = t[i][2];
        u[0] = a;
        u[step] = 0.5f * (a + b + c);
        u[2 * step] = 0.5f * (a - b + c);
        u[3 * step] = c;
    }
}

/* Packs panel p of all products. stage: [frames][16][nr][C] floats. */
static void pack_weights(const winograd *s, uint32_t *dst, float *stage, size_t p)
{
    const cpu_conv *v = s->v;
    size_t nr = (size_t)v->g->nr, k0 = p * nr, n = least(nr, v->out - k0), taps = s->frames * 9;
    size_t size = vc_dtype_size(v->w->dtype), span = CPU_SPAN / taps;
    const char *w = (const char *)v->w->data + k0 * v->in * taps * size;
    float buf[CPU_SPAN];

    for (size_t i = 0; i < n; i++)
        for (size_t c0 = 0, m; c0 < v->in; c0 += m, w += m * taps * size) {
            m = least(span, v->in - c0);
            const float *f = cpu_load(v->d->rows, buf, w, v->w->dtype, 1, m * taps);
            for (size_t c = 0; c < m * s->frames; c++)
                transform_weights(stage + (c % s->frames * TAPS * nr + i) * v->in + c0 +
                                      c / s->frames, nr * v->in, f + c * 9);
        }
    for (size_t e = 0; e < s->frames * TAPS; e++)
        cpu_pack_b(v->g, dst + e * s->each + p * s->pb, s->pb,
                   (cpu_vectors){ stage + e * nr * v->in, VC_F32, v->in, true }, 0, n, 0, v->in);
}

/* ---- input ---- */

static void load_row(const winograd *s, float *dst, size_t n, long t, long h)
{
    const cpu_conv *v = s->v;
    const char *row = cpu_conv_row(v, n, t, h);
    size_t before = (size_t)v->c->before[2] * v->in, width = (size_t)v->x->dim[3] * v->in;

    if (!row)
        width = 0;
    else
        v->d->rows->load(dst + before, row, v->x->dtype, width);
    memset(dst, 0, before * sizeof *dst);
    memset(dst + before + width, 0, (s->row - before - width) * sizeof *dst);
    if (row)
        cpu_conv_edges(v, (uint32_t *)dst);
}

/* Makes V of tile row h of frame t, tiles first.. of the unit: B' d B of each tile. */
static void transform_input(const winograd *s, const own *w, size_t n, long t, size_t h,
                            size_t first)
{
    const cpu_conv *v = s->v;
    const cpu_rows *r = v->d->rows;
    size_t c = v->in, plane = s->tiles * c;
    float *row[4], *mixed[4];

    for (int i = 0; i < 4; i++) {
        row[i] = w->row + (size_t)i * s->row;
        mixed[i] = w->mixed + (size_t)i * s->row;
        load_row(s, row[i], n, t, (long)(2 * h) + i - v->c->before[1]);
    }
    r->sub(mixed[0], row[0], row[2], s->row);
    r->add(mixed[1], row[1], row[2], s->row);
    r->sub(mixed[2], row[2], row[1], s->row);
    r->sub(mixed[3], row[1], row[3], s->row);
    for (int i = 0; i < 4; i++)
        for (size_t x = 0; x < s->across; x++) {
            const float *d = mixed[i] + 2 * x * c;
            float *to = w->v + (size_t)(4 * i) * plane + (first + x) * c;
            r->sub(to, d, d + 2 * c, c);
            r->add(to + plane, d + c, d + 2 * c, c);
            r->sub(to + 2 * plane, d + 2 * c, d + c, c);
            r->sub(to + 3 * plane, d + c, d + 3 * c, c);
        }
}

/* ---- output ---- */

/* y[2][2][n] = A' m A + b of one tile; the 16 products are `plane` floats apart. */
static void transform_output(float *restrict y, const float *restrict m, size_t plane,
                             const float *restrict b, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        float up[4], low[4];
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; j++) {
            const float *at = m + j * plane + k;
            up[j] = at[0] + at[4 * plane] + at[8 * plane];
            low[j] = at[4 * plane] - at[8 * plane] - at[12 * plane];
        }
        y[k] = up[0] + up[1] + up[2] + b[k];
        y[n + k] = up[1] - up[2] - up[3] + b[k];
        y[2 * n + k] = low[0] + low[1] + low[2] + b[k];
        y[3 * n + k] = low[1] - low[2] - low[3] + b[k];
    }
}

/* Stores the outputs of tile row h of frame f (of all samples), tiles first.. of the unit. */
static void store_tiles(const winograd *s, const own *w, const float *bias, size_t f, size_t h,
                        size_t first)
{
    const cpu_conv *v = s->v;
    size_t height = (size_t)v->y->dim[2], width = (size_t)v->y->dim[3];
    size_t bytes = v->out * vc_dtype_size(v->y->dtype);

    for (size_t x = 0; x < s->across; x++) {
        transform_output(w->y, w->m + (first + x) * v->ldc, s->tiles * v->ldc, bias, v->out);
        for (size_t i = 0; i < 4; i++) {
            size_t row = 2 * h + i / 2, at = 2 * x + i % 2;
            if (row < height && at < width)
                v->d->rows->store((char *)v->y->data + ((f * height + row) * width + at) * bytes,
                                  v->y->dtype, w->y + i * v->out, v->out);
        }
    }
}

/* ---- running ---- */

static void unit(const winograd *s, const own *w, const uint32_t *weights, const float *bias,
                 size_t u)
{
    const cpu_conv *v = s->v;
    size_t f = u / s->strips, h0 = u % s->strips * s->strip, rows = least(s->strip, s->down - h0);
    size_t n = f / (size_t)v->y->dim[1], tiles = rows * s->across;
    long to = (long)(f % (size_t)v->y->dim[1]);

    memset(w->m, 0, TAPS * s->tiles * v->ldc * sizeof *w->m);
    for (size_t kt = 0; kt < s->frames; kt++) {
        long t = to * v->c->stride[0] + (long)kt - v->c->before[0];
        if (!cpu_conv_row(v, n, t, 0))         /* the whole frame is zeros */
            continue;
        for (size_t i = 0; i < rows; i++)
            transform_input(s, w, n, t, h0 + i, i * s->across);
        for (size_t e = 0; e < TAPS; e++)
            v->g->block(tiles, v->out, v->in, (uint32_t *)w->v + e * s->tiles * v->in, v->in,
                        weights + (kt * TAPS + e) * s->each, s->pb, w->m + e * s->tiles * v->ldc,
                        v->ldc, true);
    }
    for (size_t i = 0; i < rows; i++)
        store_tiles(s, w, bias, f, h0 + i, i * s->across);
}

static size_t place(const winograd *s, float *at, own *w)
{
    const cpu_conv *v = s->v;
    size_t rows = 4 * s->row, in = TAPS * s->tiles * v->in, out = TAPS * s->tiles * v->ldc;

    if (w)
        *w = (own){ at, at + rows, at + 2 * rows, at + 2 * rows + in, at + 2 * rows + in + out };
    return 2 * rows + in + out + 4 * v->out;
}

static void run(const winograd *s)
{
    const cpu_conv *v = s->v;
    size_t nr = (size_t)v->g->nr, panels = (v->out + nr - 1) / nr;
    size_t packed = s->frames * TAPS * s->each, stage = s->frames * TAPS * nr * v->in;
    size_t mine = most(place(s, NULL, NULL), stage), first = packed + v->ldc + mine;

    if (!cpu_scratch_all(v->d, v->d->threads, first * 4, mine * 4))
        return;
    uint32_t *weights = cpu_scratch(v->d, 0, first * 4);
    float *bias = (float *)(weights + packed);
    memset(bias, 0, v->ldc * sizeof *bias);
    if (v->b)
        v->d->rows->load(bias, v->b->data, v->b->dtype, v->out);
#pragma omp parallel num_threads(v->d->threads)
    {
        int t = omp_get_thread_num();
        float *at = t ? cpu_scratch(v->d, t, mine * 4) : bias + v->ldc;
        own w;
        v->g->begin();
#pragma omp for schedule(static)
        for (size_t p = 0; p < panels; p++)
            pack_weights(s, weights, at, p);
        place(s, at, &w);
#pragma omp for schedule(dynamic, 1)
        for (size_t u = 0; u < (size_t)(v->y->dim[0] * v->y->dim[1]) * s->strips; u++)
            unit(s, &w, weights, bias, u);
        v->g->end();
    }
}

void cpu_winograd(const cpu_conv *v)
{
    winograd s = {
        .v = v, .frames = (size_t)v->w->dim[2], .pb = v->in * (size_t)v->g->nr,
        .across = (size_t)(v->y->dim[3] + 1) / 2, .down = (size_t)(v->y->dim[2] + 1) / 2,
    };

    s.each = cpu_round_up(v->out, (size_t)v->g->nr) * v->in;
    s.strip = least((TILES + s.across - 1) / s.across, s.down);
    s.strips = (s.down + s.strip - 1) / s.strip;
    s.tiles = s.strip * s.across;
    s.row = most(2 * s.across + 2, (size_t)(v->x->dim[3] + v->c->before[2] + v->c->after[2])) *
            v->in;
    run(&s);
}
