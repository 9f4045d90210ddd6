/* winograd.c - convolutions with 3 x 3 kernels in space and 1 or 3 frames, by minimal filtering
 * (Winograd 1980; Lavin & Gray 2016), in f32.
 *
 * In space it is F(4x4, 3x3): the 6 x 6 places of a tile of the input make 36 sums, the kernel's
 * nine weights another 36, and their 36 products make 4 x 4 outputs, where the direct sum has 144.
 * In time it is F(2, 3): four frames make the products of two outputs, where the direct sum has
 * six. A kernel of 27 weights so takes 4.5 products an output. For each place a product of matrices
 * [tiles, C] x [C, K] is summed over the channels. A place in time reads and adds whole rows, so
 * the transforms of gemm/winograd.h know space alone. Without a second output (the last of an odd
 * number, or a stride in time) the fourth place in time is left out.
 *
 * A unit of work is a strip of one or, in small frames, several rows of tiles of one or two output
 * frames. It takes the places in time one after another, and of each the places down two by two, so
 * that their products stay in the cache, and adds them to the outputs. Output channels are divided
 * into slabs, whose weights are transformed before the units run. A tile's numbers depend on its
 * input alone, so results do not depend on threads. */
#include <omp.h>
#include <string.h>

#include "common/cpu/conv.h"

enum {
    SLAB = 128,                    /* most output channels of a slab */
    SLAB_WEIGHTS = 1 << 15,        /* and of its weights, whose 144 products take 18 MB, which a
                                    * cache that cores share may hold */
    FEW = 32,                      /* fewer channels: the transforms cost more than they save */
    STEP = 256,                    /* input channels of one call of products: a panel stays in L1 */
    PAD = 16,                      /* floats, so that rows are no power of two apart */
    PLACES = CPU_PLACES, KERNEL = PLACES * PLACES,
    SIDE = 4,                      /* outputs of a tile along an axis */
    MIX = 8                        /* input channels whose weights are transformed together */
};

typedef struct winograd {
    const cpu_conv *v;
    const cpu_gemm *g;                         /* of f32 */
    size_t frames;                             /* of the kernel: 1 or 3 */
    size_t outs, groups;                       /* output frames of a unit; units along time */
    size_t places;                             /* in time, of the packed weights */
    size_t slab, k0, k;                        /* channels of a slab; of this one the first, and
                                                * how many */
    size_t pb, each;                           /* units of a panel; of all panels of one product */
    size_t across, down;                       /* tiles of a frame */
    size_t strip, strips;                      /* tiles of a unit along a row; units of the row */
    size_t rows, heights;                      /* rows of tiles of a unit; units down a frame */
    size_t ldv, ldm;                           /* floats from tile to tile: of V; of products */
} winograd;

/* A thread's scratch. */
typedef struct tile_areas {
    float *x;                                  /* [4 rows + 2][4 strip + 2][C] of the input */
    float *v, *m;                              /* [2][PLACES][rows strip][ldv], [..][ldm] */
    float *sum;                                /* [rows][SIDE][4 strip][ldm]: a place in time */
    float *y;                                  /* [outs][rows][SIDE][4 strip][ldm] */
} tile_areas;

static size_t least(size_t a, size_t b) { return a < b ? a : b; }
static size_t most(size_t a, size_t b) { return a > b ? a : b; }
static size_t parts(size_t n, size_t of) { return (n + of - 1) / of; }

/* ---- weights ---- */

/* Transforms and packs the weights of panel p, input channels c0.. stage: [nr][MIX taps] and
 * [MIX taps][nr] floats. */
static void pack_weights(const winograd *s, float *dst, float *stage, size_t p, size_t c0)
{
    const cpu_conv *v = s->v;
    size_t nr = (size_t)s->g->nr, first = s->k0 + p * nr, n = least(nr, s->k0 + s->k - first);
    size_t taps = cpu_conv_taps(v), c = least(MIX, v->in - c0), all = MIX * taps;
    size_t size = vc_dtype_size(v->w->dtype);
    float *turned = stage + nr * all;

    memset(stage + n * all, 0, (nr - n) * all * sizeof *stage);
    for (size_t i = 0; i < n; i++)
        v->d->rows->load(stage + i * all,
                         (const char *)v->w->data + ((first + i) * v->in + c0) * taps * size,
                         v->w->dtype, c * taps);
    s->g->transpose((uint32_t *)turned, nr, (const uint32_t *)stage, all, nr, c * taps);
    for (size_t i = 0; i < c; i++) {
        float *w = turned + (i * taps + v->first * 9) * nr;
        for (size_t t = 1; t < v->sum; t++)
            v->d->rows->add(w, w, w + t * 9 * nr, 9 * nr);
        s->g->tiles_weights(dst + p * s->pb + (c0 + i) * nr, s->each, w, (int)s->places);
    }
}

/* ---- input ---- */

/* Makes columns x0.. of row h of `place` in time, whose first input frame is t, with the padding
 * around the row: x0 - x2, x1 + x2, x2 - x1, x1 - x3. */
static void load_row(const winograd *s, float *to, size_t place, size_t n, long t, long h, long x0,
                     size_t columns)
{
    static const struct { int first, second; float by; } mix[] = {
        { 0, 2, -1 }, { 1, 2, 1 }, { 2, 1, -1 }, { 1, 3, -1 } };
    const cpu_conv *v = s->v;
    bool one = s->frames == 1;
    const char *a = cpu_conv_row(v, n, one ? t : t + mix[place].first, h);
    const char *b = one ? NULL : cpu_conv_row(v, n, t + mix[place].second, h);
    float by = one || (a && !b) ? 1 : mix[place].by;
    long width = (long)v->x->dim[3], end = x0 + (long)columns;
    size_t c = v->in, lo = x0 < 0 ? (size_t)-x0 : 0, hi = end > width ? (size_t)(end - width) : 0;
    size_t bytes = c * sizeof *to, from = (size_t)(x0 + (long)lo) * c * vc_dtype_size(v->x->dtype);

    if (!(a || b) || lo + hi >= columns) {
        memset(to, 0, columns * bytes);
        return;
    }
    s->g->tiles_row(to + lo * c, (a ? a : b) + from, a && b ? b + from : NULL, v->x->dtype, by,
                    (columns - lo - hi) * c);
    for (size_t i = 0; i < lo; i++)
        memcpy(to + i * c, to + lo * c, bytes);
    for (size_t i = columns - hi; i < columns; i++)
        memcpy(to + i * c, to + (columns - hi - 1) * c, bytes);
    if (!v->c->edge[2]) {
        memset(to, 0, lo * bytes);
        memset(to + (columns - hi) * c, 0, hi * bytes);
    }
}

/* ---- output ---- */

/* Returns the floats of a row of tiles of one output frame. */
static size_t outputs_of(const winograd *s) { return SIDE * SIDE * s->strip * s->ldm; }

/* Places in time make the outputs y0 = m0 + m1 + m2 and y1 = m1 - m2 - m3. m0 was written to y0, m1
 * to y1 (or, without a second output, as m2 to w->sum), and m3 is subtracted from y1. */
static void add_place(const winograd *s, const tile_areas *w, size_t place, size_t outs)
{
    const cpu_rows *r = s->v->d->rows;
    size_t n = s->rows * outputs_of(s);
    float *y0 = w->y, *y1 = w->y + n;

    if (place == 1)
        r->add(y0, y0, outs > 1 ? y1 : w->sum, n);
    if (place == 2) {
        r->add(y0, y0, w->sum, n);
        if (outs > 1)
            r->sub(y1, y1, w->sum, n);
    }
}

/* Stores the outputs of tile row h of output frame f (of all samples), tiles x0... */
static void store_tiles(const winograd *s, float *y, const float *bias, size_t f, size_t h,
                        size_t x0, size_t tiles)
{
    const cpu_conv *v = s->v;
    size_t height = (size_t)v->y->dim[2], width = (size_t)v->y->dim[3];
    size_t size = vc_dtype_size(v->y->dtype), columns = least(SIDE * tiles, width - SIDE * x0);

    for (size_t i = 0; i < SIDE && SIDE * h + i < height; i++)
        for (size_t x = 0; x < columns; x++) {
            float *at = y + (i * SIDE * s->strip + x) * s->ldm;
            size_t place = (f * height + SIDE * h + i) * width + SIDE * x0 + x;
            v->d->rows->add(at, at, bias + s->k0, s->k);
            v->d->rows->store((char *)v->y->data + (place * v->out + s->k0) * size, v->y->dtype,
                              at, s->k);
        }
}

/* ---- running ---- */

/* Computes the products of one place in time and a pair down for all places across. */
static void multiply(const winograd *s, const tile_areas *w, const float *weights, size_t tiles)
{
    size_t all = s->rows * s->strip;

    for (size_t e = 0; e < 2 * PLACES; e++, weights += s->each)
        for (size_t c = 0; c < s->v->in; c += STEP)
            s->g->block(tiles, s->k, least(STEP, s->v->in - c),
                        (const uint32_t *)w->v + e * all * s->ldv + c, s->ldv,
                        (const uint32_t *)weights + c * (size_t)s->g->nr, s->pb,
                        w->m + e * all * s->ldm, s->ldm, c > 0);
}

/* The part of a frame that a unit computes: the first tile and the number of tiles, along a row and
 * of rows. */
typedef struct part { size_t x0, tiles, h0, rows; } part;

/* Adds one place in time of the part to y [rows][SIDE][4 strip][ldm], or subtracts it. t: the first
 * input frame of sample n. */
static void add_products(const winograd *s, const tile_areas *w, const part *a, size_t place,
                         size_t n, long t, const float *weights, float *y)
{
    const cpu_conv *v = s->v;
    size_t all = s->rows * s->strip, ldx = (SIDE * s->strip + 2) * v->in;
    size_t outputs = outputs_of(s);

    for (size_t i = 0; i < SIDE * a->rows + 2; i++)
        load_row(s, w->x + i * ldx, place, n, t, (long)(SIDE * a->h0 + i) - v->c->before[1],
                 (long)(SIDE * a->x0) - v->c->before[2], SIDE * a->tiles + 2);
    for (int pair = 0; pair < PLACES / 2; pair++, weights += 2 * PLACES * s->each) {
        for (size_t r = 0; r < a->rows; r++) {
            const float *x = w->x + r * SIDE * ldx;
            const float *const row[PLACES] = { x, x + ldx, x + 2 * ldx, x + 3 * ldx, x + 4 * ldx,
                                               x + 5 * ldx };
            s->g->tiles_in(pair, w->v + r * a->tiles * s->ldv, all * s->ldv, s->ldv, row, a->tiles,
                           v->in);
        }
        multiply(s, w, weights, a->rows * a->tiles);
        for (size_t r = 0; r < a->rows; r++) {
            float *o = y + r * outputs;
            float *const out[SIDE] = { o, o + outputs / 4, o + outputs / 2, o + 3 * outputs / 4 };
            s->g->tiles_out(pair, place == 3, out, s->ldm, w->m + r * a->tiles * s->ldm,
                            all * s->ldm, s->ldm, a->tiles, s->k);
        }
    }
}

static void unit(const winograd *s, const tile_areas *w, const float *weights, const float *bias,
                 size_t u)
{
    const cpu_conv *v = s->v;
    size_t strip = u % s->strips, height = u / s->strips % s->heights;
    size_t group = u / s->strips / s->heights % s->groups;
    size_t n = u / s->strips / s->heights / s->groups, f = group * s->outs;
    size_t outs = least(s->outs, (size_t)v->y->dim[1] - f), frame = s->rows * outputs_of(s);
    size_t places = s->frames == 1 ? 1 : outs + 2;
    part a = { .x0 = strip * s->strip, .h0 = height * s->rows };

    a.tiles = least(s->strip, s->across - a.x0);
    a.rows = least(s->rows, s->down - a.h0);
    for (size_t p = 0; p < places; p++, weights += KERNEL * s->each) {
        float *y = p == 0 ? w->y : p == 2 || outs == 1 ? w->sum : w->y + frame;
        add_products(s, w, &a, p, n, (long)f * v->c->stride[0] - v->c->before[0], weights, y);
        add_place(s, w, p, outs);
    }
    for (size_t o = 0; o < outs; o++)
        for (size_t r = 0; r < a.rows; r++)
            store_tiles(s, w->y + o * frame + r * outputs_of(s), bias,
                        n * (size_t)v->y->dim[1] + f + o, a.h0 + r, a.x0, a.tiles);
}

static size_t place(const winograd *s, float *at, tile_areas *w)
{
    size_t x = (SIDE * s->rows + 2) * (SIDE * s->strip + 2) * s->v->in;
    size_t all = s->rows * s->strip;
    size_t v = 2 * PLACES * all * s->ldv, m = 2 * PLACES * all * s->ldm;
    size_t frame = s->rows * outputs_of(s);

    if (w)
        *w = (tile_areas){ at, at + x, at + x + v, at + x + v + m, at + x + v + m + frame };
    return x + v + m + (1 + s->outs) * frame;
}

/* Computes a slab of output channels; `weights` has room for its weights. */
static void run_slab(const winograd *s, float *weights, const float *bias, float *first)
{
    const cpu_conv *v = s->v;
    size_t panels = parts(s->k, (size_t)s->g->nr);
    size_t units = (size_t)v->y->dim[0] * s->groups * s->heights * s->strips;

#pragma omp parallel num_threads(v->d->threads)
    {
        int t = omp_get_thread_num();
        float *at = t ? cpu_scratch(v->d, t, 0) : first;
        tile_areas w;
        s->g->begin();
#pragma omp for schedule(static) collapse(2)
        for (size_t p = 0; p < panels; p++)
            for (size_t c = 0; c < v->in; c += MIX)
                pack_weights(s, weights, at, p, c);
        place(s, at, &w);
#pragma omp for schedule(dynamic, 1)
        for (size_t u = 0; u < units; u++)
            unit(s, &w, weights, bias, u);
        s->g->end();
    }
}

/* Returns the sizes of the convolution; those of a slab are of the largest. */
static winograd sizes_of(const cpu_conv *v)
{
    enum { CACHE_512 = 800 << 10, CACHE = 380 << 10 };    /* bytes of V, products and their sums */
    const int64_t *y = v->y->dim;
    winograd s = { .v = v, .g = cpu_gemm_of(v->d, VC_F32), .frames = v->frames,
                   .across = parts((size_t)y[3], SIDE), .down = parts((size_t)y[2], SIDE) };
    size_t nr = (size_t)s.g->nr;

    s.outs = s.frames == 3 && v->c->stride[0] == 1 && y[1] > 1 ? 2 : 1;
    s.groups = parts((size_t)y[1], s.outs);
    s.places = s.frames == 1 ? 1 : s.outs + 2;
    s.slab = cpu_round_up(least(SLAB, most(SLAB_WEIGHTS / v->in, nr)), nr);
    s.k = least(s.slab, v->out);
    s.pb = v->in * nr;
    s.each = cpu_round_up(s.k, nr) * v->in + PAD;
    s.ldv = v->in + PAD;
    s.ldm = cpu_round_up(s.k, PAD) + PAD;
    size_t tile = (2 * PLACES * (s.ldv + s.ldm) + SIDE * SIDE * s.ldm) * sizeof(float);
    size_t cache = s.g->nr == CPU_NR ? CACHE_512 : CACHE;
    size_t tiles = most(cache / tile, 8);
    s.strip = least(s.across, cpu_round_up(parts(s.across, parts(s.across, tiles)), 8));
    s.strips = parts(s.across, s.strip);
    /* several rows, but not so many that threads are left without work */
    size_t work = (size_t)y[0] * s.groups * s.down * s.strips;
    s.rows = least(s.down, most(least(tiles / s.strip, work / (2 * (size_t)v->d->threads)), 1));
    s.heights = parts(s.down, s.rows);
    return s;
}

bool cpu_winograd_suits(const cpu_conv *v)
{
    const int64_t *k = v->w->dim;
    bool kernel = k[3] == 3 && k[4] == 3 && (v->frames == 1 || v->frames == 3);

    if (!kernel || v->c->stride[1] != 1 || v->c->stride[2] != 1 || v->in < FEW || v->out < FEW ||
        v->g->kr > 1)
        return false;
    /* For each input and output channel, in hundredths of a product: a tile's products carry the
     * transforms of its inputs and outputs, and a weight's transform takes as long as the products
     * of WEIGHT tiles (Zen 5, sets avx2, avx512 and avx512_bf16). */
    enum { WEIGHT = 4000, HUNDRED = 100 };
    winograd s = sizes_of(v);
    size_t tiles = (size_t)v->y->dim[0] * s.groups * s.down * s.across;
    size_t tile = 120 + 2500 / v->in + 2500 / v->out;
    size_t outputs = (size_t)(v->y->dim[0] * v->y->dim[1] * v->y->dim[2] * v->y->dim[3]);
    return KERNEL * s.places * (tiles * tile + WEIGHT) <
           HUNDRED * outputs * v->rows * v->kw / (size_t)v->g->pair;
}

void cpu_winograd(const cpu_conv *v)
{
    winograd s = sizes_of(v);
    size_t nr = (size_t)s.g->nr, packed = s.places * KERNEL * s.each;
    size_t bias_room = cpu_round_up(v->out, PAD), taps = cpu_conv_taps(v);
    size_t mine = most(place(&s, NULL, NULL), 2 * nr * MIX * taps);
    size_t first = packed + bias_room + mine;

    if (!cpu_scratch_all(v->d, v->d->threads, first * sizeof(float), mine * sizeof(float)))
        return;
    float *weights = cpu_scratch(v->d, 0, first * sizeof(float)), *bias = weights + packed;
    memset(bias, 0, bias_room * sizeof *bias);
    if (v->b)
        v->d->rows->load(bias, v->b->data, v->b->dtype, v->out);
    for (; s.k0 < v->out; s.k0 += s.slab) {
        s.k = least(s.slab, v->out - s.k0);
        run_slab(&s, weights, bias, bias + bias_room);
    }
}
