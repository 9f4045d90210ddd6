/* tiles.c - the grid of tiles, their blending, and their place in the result: see tiles.h */
#include "precompute/vae/tiles.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct tile {
    float *v;
    int h, w;
} tile;

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

/* ---- blending ---- */

/* Fades a into b: each of n numbers of b becomes a * (1 - s) + b * s. */
static void mix(float *b, const float *a, float s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        b[i] = a[i] * (1 - s) + b[i] * s;
}

static void blend_rows(const vae_tiles *p, int frames, const tile *above, const tile *t)
{
    int n = least(p->blend[1], least(above->h, t->h));
    size_t row = (size_t)t->w * (size_t)p->channels;

    for (int f = 0; f < frames; f++)
        for (int k = 0; k < n; k++)
            mix(t->v + ((size_t)f * (size_t)t->h + (size_t)k) * row,
                above->v + ((size_t)f * (size_t)above->h + (size_t)(above->h - n + k)) * row,
                (float)k / (float)n, row);
}

static void blend_columns(const vae_tiles *p, int frames, const tile *left, const tile *t)
{
    int n = least(p->blend[2], least(left->w, t->w));
    size_t c = (size_t)p->channels, rows = (size_t)frames * (size_t)t->h;

    for (size_t r = 0; r < rows; r++)
        for (int k = 0; k < n; k++)
            mix(t->v + (r * (size_t)t->w + (size_t)k) * c,
                left->v + (r * (size_t)left->w + (size_t)(left->w - n + k)) * c,
                (float)k / (float)n, c);
}

/* ---- the tiles of a frame ---- */

/* The tiles of the source frames at..at+n-1, which make `frames` frames of the result. */
typedef struct span {
    int at, n, frames;
    void *arg;
    int (*take)(void *arg, const vae_tile *t, vc_err *err);
} span;

static int make_tile(const vae_tiles *p, const span *s, tile *t, int i, int j, vc_err *err)
{
    const int at[3] = { s->at, i * p->step[1], j * p->step[2] };
    const int n[3] = { s->n, source_size(p, 1, i), source_size(p, 2, j) };

    t->h = result_size(p, 1, i);
    t->w = result_size(p, 2, j);
    t->v = malloc((size_t)s->frames * (size_t)t->h * (size_t)t->w * (size_t)p->channels *
                  sizeof *t->v);
    if (!t->v)
        return vc_fail(err, VC_ENOMEM, "out of memory for a tile of %d frames of %dx%d", s->frames,
                       t->w, t->h);
    return p->make(p->arg, at, n, t->v, err);
}

/* Makes row i of the tiles, which begins at row y of the result; `above` holds the row before. */
static int run_row(const vae_tiles *p, const span *s, tile *row, const tile *above, int i, int y,
                   vc_err *err)
{
    int columns = tiles_along(p, 2), x = 0, rc = 0;

    for (int j = 0; !rc && j < columns; j++) {
        tile *t = &row[j];
        rc = make_tile(p, s, t, i, j, err);
        if (rc)
            return rc;
        if (i > 0)
            blend_rows(p, s->frames, &above[j], t);
        if (j > 0)
            blend_columns(p, s->frames, &row[j - 1], t);
        vae_tile done = { t->v, t->h, t->w, s->frames, kept_size(p, 1, i), kept_size(p, 2, j), 0, y,
                          x };
        rc = s->take(s->arg, &done, err);
        x += done.columns;
    }
    return rc;
}

static void clear(tile *row, int n)
{
    for (int j = 0; row && j < n; j++) {
        free(row[j].v);
        row[j].v = NULL;
    }
}

static int run_span(const vae_tiles *p, const span *s, vc_err *err)
{
    int columns = tiles_along(p, 2), rows = tiles_along(p, 1), y = 0, rc = 0;
    tile *two[2] = { calloc((size_t)columns, sizeof(tile)), calloc((size_t)columns, sizeof(tile)) };

    if (!two[0] || !two[1])
        rc = vc_fail(err, VC_ENOMEM, "out of memory for %d tiles", columns);
    for (int i = 0; !rc && i < rows; i++) {
        clear(two[i % 2], columns);
        rc = run_row(p, s, two[i % 2], two[(i + 1) % 2], i, y, err);
        y += kept_size(p, 1, i);
    }
    for (int k = 0; k < 2; k++) {
        clear(two[k], columns);
        free(two[k]);
    }
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
            memcpy(b->v + (size_t)f * b->frame + (size_t)(t->y + y) * b->row +
                       (size_t)t->x * values,
                   t->values + ((size_t)f * (size_t)t->h + (size_t)y) * (size_t)t->w * values,
                   (size_t)t->columns * values * sizeof *b->v);
    return 0;
}

static int run_time(const vae_tiles *p, slab *b, int i, int *t, vc_err *err)
{
    span s = { i * p->step[0], source_size(p, 0, i), 0, b, fill_slab };
    s.frames = p->frames(p->arg, s.n);
    int rc = run_span(p, &s, err);
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
    span all = { 0, p->source[0], 0, p->arg, p->take };

    if (count > 1)
        return run_times(p, count, err);
    all.frames = p->frames(p->arg, p->source[0]);
    return run_span(p, &all, err);
}
