/* tiles.c - the grid of tiles, their blending, and their place in the result: see tiles.h */
#include "precompute/vae/tiles.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/vae/spill.h"

static int least(int a, int b) { return a < b ? a : b; }

/* ---- number and size of tiles ---- */

static int tiles_along(const vae_tiles *p, int axis)
{
    int n = p->source[axis] - (axis == 0), step = p->step[axis];

    return n < step ? 1 : (n + step - 1) / step;
}

static int source_size(const vae_tiles *p, int axis, int i)
{
    return least(p->size[axis] + (axis == 0), p->source[axis] - i * p->step[axis]);
}

static int result_size(const vae_tiles *p, int axis, int i)
{
    int n = source_size(p, axis, i);

    return axis ? n * p->times / p->per : p->frames(p->arg, n) - (i > 0);
}

static int kept_size(const vae_tiles *p, int axis, int i)
{
    return least(result_size(p, axis, i), p->kept[axis] + (axis == 0 && i == 0));
}

/* Rows, columns or frames of the result that all tiles together make. */
static int made_along(const vae_tiles *p, int axis)
{
    int n = 0;

    for (int i = 0; i < tiles_along(p, axis); i++)
        n += kept_size(p, axis, i);
    return n;
}

double vae_tiles_places(const vae_tiles *p)
{
    double places = 1;

    for (int a = 0; a < 3; a++) {
        int n = 0;
        for (int i = 0; i < tiles_along(p, a); i++)
            n += a ? result_size(p, a, i) : p->frames(p->arg, source_size(p, a, i));
        places *= n;
    }
    return places;
}

void vae_tiles_first(const vae_tiles *p, int n[3])
{
    for (int a = 0; a < 3; a++)
        n[a] = source_size(p, a, 0);
}

int vae_tiles_check(const vae_tiles *p, const int result[3], vc_err *err)
{
    int made[3] = { 0, 0, 0 };
    bool empty = false;

    for (int a = 0; a < 3; a++) {
        if (p->step[a] < 1 || p->size[a] < 1 || p->kept[a] < 1)
            return vc_fail(err, VC_EINVAL, "tiles of %dx%d in steps of %dx%d are not possible",
                           p->size[2], p->size[1], p->step[2], p->step[1]);
        made[a] = made_along(p, a);
        for (int i = 0; i < tiles_along(p, a); i++)
            empty |= result_size(p, a, i) < 1;
    }
    if (made[0] != result[0])
        return vc_fail(err, VC_EINVAL, "tiles of %d frames in steps of %d make %d frames of %d, "
                       "not %d: choose another number of frames, or no tiling", p->size[0] + 1,
                       p->step[0], made[0], p->source[0], result[0]);
    if (empty || made[1] != result[1] || made[2] != result[2])
        return vc_fail(err, VC_EINVAL, "tiles of %dx%d in steps of %dx%d make %dx%d of %dx%d, not "
                       "%dx%d: choose another size, or no tiling", p->size[2], p->size[1],
                       p->step[2], p->step[1], made[2], made[1], p->source[2], p->source[1],
                       result[2], result[1]);
    return 0;
}

/* ---- edges: the rows and columns that later tiles are blended with ---- */

/* The tiles of the source frames at..at+n-1, which make `frames` frames of the result. */
typedef struct span {
    int at, n, frames;
    void *arg;
    int (*take)(void *arg, const vae_tile *t, vc_err *err);
    vae_spill *edges;                             /* the last rows of a row of tiles, then the last
                                                   * columns of one tile */
} span;

struct vae_open_tile {
    const vae_tiles *p;
    const span *s;
    int i, j;                                     /* row and column of the grid */
    int h, w, y, x;                               /* size, and place in the result */
};

/* A part of a tile, and its place in span.edges. */
typedef struct edge {
    int y, x, h, w;
    size_t at, frame;                             /* begin, and floats of a frame */
} edge;

/* Columns of the result in the tiles before column j. */
static int columns_before(const vae_tiles *p, int j)
{
    int n = 0;

    while (j-- > 0)
        n += result_size(p, 2, j);
    return n;
}

/* The last rows of the tile (i, j). They replace those of the tile above it. */
static edge rows_of(const vae_tiles *p, const span *s, int i, int j)
{
    const int h = result_size(p, 1, i), w = result_size(p, 2, j), n = least(p->blend[1], h);
    const size_t row = (size_t)p->blend[1] * (size_t)p->channels;

    return (edge){ h - n, 0, n, w, (size_t)s->frames * row * (size_t)columns_before(p, j),
                   row * (size_t)w };
}

/* The last columns of the tile (i, j). They replace those of the tile before it. */
static edge columns_of(const vae_tiles *p, const span *s, int i, int j)
{
    const int h = result_size(p, 1, i), w = result_size(p, 2, j), n = least(p->blend[2], w);
    const size_t c = (size_t)p->channels;
    const size_t all = (size_t)p->blend[1] * c * (size_t)columns_before(p, tiles_along(p, 2));

    return (edge){ 0, w - n, h, n, (size_t)s->frames * all,
                   (size_t)result_size(p, 1, 0) * (size_t)p->blend[2] * c };
}

static size_t edges_size(const vae_tiles *p, const span *s)
{
    edge e = columns_of(p, s, 0, 0);

    return (e.at + (size_t)s->frames * e.frame) * sizeof(float);
}

static int edge_room(float **v, const edge *e, int n, vc_err *err)
{
    *v = calloc((size_t)n * e->frame + 1, sizeof **v);
    return *v ? 0 : vc_fail(err, VC_ENOMEM, "out of memory for the edges of %d frames", n);
}

static int keep_edge(const vae_open_tile *t, edge e, const float *values, int first, int n,
                     vc_err *err)
{
    const size_t c = (size_t)t->p->channels, row = (size_t)e.w * c;
    float *v;
    int rc = edge_room(&v, &e, n, err);

    for (int f = 0; !rc && f < n; f++)
        for (int y = 0; y < e.h; y++)
            memcpy(v + (size_t)f * e.frame + (size_t)y * row,
                   values + (((size_t)f * (size_t)t->h + (size_t)(e.y + y)) * (size_t)t->w +
                             (size_t)e.x) * c, row * sizeof *v);
    if (!rc)
        rc = vae_spill_put(t->s->edges, (e.at + (size_t)first * e.frame) * sizeof *v, v,
                           (size_t)n * e.frame * sizeof *v, err);
    free(v);
    return rc;
}

static int read_edge(float **v, const vae_open_tile *t, const edge *e, int first, int n,
                     vc_err *err)
{
    int rc = edge_room(v, e, n, err);

    return rc ? rc : vae_spill_get(t->s->edges, (e->at + (size_t)first * e->frame) * sizeof **v,
                                   *v, (size_t)n * e->frame * sizeof **v, err);
}

/* ---- blending ---- */

/* Fades a into b: each of n numbers of b becomes a * (1 - s) + b * s. */
static void mix(float *b, const float *a, float s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        b[i] = a[i] * (1 - s) + b[i] * s;
}

static int blend_rows(const vae_open_tile *t, float *values, int first, int n, vc_err *err)
{
    const edge e = rows_of(t->p, t->s, t->i - 1, t->j);
    const int rows = least(e.h, t->h);
    const size_t row = (size_t)t->w * (size_t)t->p->channels;
    float *above;
    int rc = read_edge(&above, t, &e, first, n, err);

    for (int f = 0; !rc && f < n; f++)
        for (int k = 0; k < rows; k++)
            mix(values + ((size_t)f * (size_t)t->h + (size_t)k) * row,
                above + (size_t)f * e.frame + (size_t)(e.h - rows + k) * row,
                (float)k / (float)rows, row);
    free(above);
    return rc;
}

static int blend_columns(const vae_open_tile *t, float *values, int first, int n, vc_err *err)
{
    const edge e = columns_of(t->p, t->s, t->i, t->j - 1);
    const int columns = least(e.w, t->w);
    const size_t c = (size_t)t->p->channels;
    float *left;
    int rc = read_edge(&left, t, &e, first, n, err);

    for (int f = 0; !rc && f < n; f++)
        for (int y = 0; y < t->h; y++)
            for (int k = 0; k < columns; k++)
                mix(values + (((size_t)f * (size_t)t->h + (size_t)y) * (size_t)t->w + (size_t)k) *
                        c,
                    left + (size_t)f * e.frame +
                        ((size_t)y * (size_t)e.w + (size_t)(e.w - columns + k)) * c,
                    (float)k / (float)columns, c);
    free(left);
    return rc;
}

/* ---- the tiles of a frame ---- */

int vae_tiles_put(vae_open_tile *t, float *values, int first, int n, vc_err *err)
{
    const vae_tiles *p = t->p;
    int rc = 0;

    if (t->i > 0)
        rc = blend_rows(t, values, first, n, err);
    if (!rc && t->j > 0)
        rc = blend_columns(t, values, first, n, err);
    if (!rc && t->i + 1 < tiles_along(p, 1))
        rc = keep_edge(t, rows_of(p, t->s, t->i, t->j), values, first, n, err);
    if (!rc && t->j + 1 < tiles_along(p, 2))
        rc = keep_edge(t, columns_of(p, t->s, t->i, t->j), values, first, n, err);
    if (rc)
        return rc;
    const vae_tile done = { values, t->h, t->w, n, kept_size(p, 1, t->i), kept_size(p, 2, t->j),
                            first, t->y, t->x };
    return t->s->take(t->s->arg, &done, err);
}

static int make_tile(const vae_tiles *p, vae_open_tile *t, vc_err *err)
{
    const int at[3] = { t->s->at, t->i * p->step[1], t->j * p->step[2] };
    const int n[3] = { t->s->n, source_size(p, 1, t->i), source_size(p, 2, t->j) };

    t->h = result_size(p, 1, t->i);
    t->w = result_size(p, 2, t->j);
    return p->make(p->arg, at, n, t, err);
}

static int run_span(const vae_tiles *p, span *s, const char *beside, vc_err *err)
{
    vae_open_tile t = { .p = p, .s = s };
    int rc = vae_spill_open(&s->edges, beside, edges_size(p, s), err);

    for (t.i = 0; !rc && t.i < tiles_along(p, 1); t.i++) {
        for (t.j = t.x = 0; !rc && t.j < tiles_along(p, 2); t.j++) {
            rc = make_tile(p, &t, err);
            t.x += kept_size(p, 2, t.j);
        }
        t.y += kept_size(p, 1, t.i);
    }
    vae_spill_close(s->edges);
    return rc;
}

/* ---- tiles in time ---- */

/* v holds the whole frames of a tile in time, and `last` the last n_last frames of the tile before,
 * which the first frames of v are blended with. */
typedef struct slab {
    float *v, *last;
    int h, w, n_last;
    size_t row, frame;                            /* floats of a row and of a frame */
} slab;

static int fill_slab(void *arg, const vae_tile *t, vc_err *err)
{
    const slab *b = arg;
    size_t values = b->row / (size_t)b->w;        /* floats of a place */

    (void)err;
    for (int f = 0; f < t->frames; f++)
        for (int y = 0; y < t->rows; y++)
            memcpy(b->v + (size_t)(t->t + f) * b->frame + (size_t)(t->y + y) * b->row +
                       (size_t)t->x * values,
                   t->values + ((size_t)f * (size_t)t->h + (size_t)y) * (size_t)t->w * values,
                   (size_t)t->columns * values * sizeof *b->v);
    return 0;
}

static int run_time(const vae_tiles *p, slab *b, int i, int *t, vc_err *err)
{
    span s = { i * p->step[0], source_size(p, 0, i), 0, b, fill_slab, NULL };

    s.frames = p->frames(p->arg, s.n);
    int rc = run_span(p, &s, NULL, err);
    if (rc)
        return rc;

    int frames = result_size(p, 0, i), n = least(least(p->blend[0], b->n_last), frames);
    float *v = b->v + (size_t)(s.frames - frames) * b->frame;
    for (int k = 0; k < n; k++)
        mix(v + (size_t)k * b->frame, b->last + (size_t)(b->n_last - n + k) * b->frame,
            (float)k / (float)n, b->frame);
    b->n_last = least(p->blend[0], frames);
    memcpy(b->last, v + (size_t)(frames - b->n_last) * b->frame,
           (size_t)b->n_last * b->frame * sizeof *v);
    vae_tile done = { v, b->h, b->w, kept_size(p, 0, i), b->h, b->w, *t, 0, 0 };
    *t += done.frames;
    return p->take(p->arg, &done, err);
}

static int run_times(const vae_tiles *p, int count, vc_err *err)
{
    int most = p->frames(p->arg, source_size(p, 0, 0)), t = 0, rc = 0;
    slab b = { .h = made_along(p, 1), .w = made_along(p, 2) };

    b.row = (size_t)b.w * (size_t)p->channels;
    b.frame = (size_t)b.h * b.row;
    b.v = malloc((size_t)most * b.frame * sizeof *b.v);
    b.last = malloc(((size_t)p->blend[0] * b.frame + 1) * sizeof *b.last);
    if (!b.v || !b.last)
        rc = vc_fail(err, VC_ENOMEM, "out of memory for a tile of %d frames of %dx%d", most, b.w,
                     b.h);
    for (int i = 0; !rc && i < count; i++)
        rc = run_time(p, &b, i, &t, err);
    free(b.v);
    free(b.last);
    return rc;
}

int vae_tiles_run(const vae_tiles *p, vc_err *err)
{
    int count = tiles_along(p, 0);
    span all = { 0, p->source[0], 0, p->arg, p->take, NULL };

    if (count > 1)
        return run_times(p, count, err);
    all.frames = p->frames(p->arg, p->source[0]);
    return run_span(p, &all, p->beside, err);
}
