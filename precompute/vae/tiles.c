/* tiles.c - see tiles.h */
#include "precompute/vae/tiles.h"

#include <stdlib.h>

typedef struct tile {
    float *v;
    int h, w;
} tile;

static int least(int a, int b) { return a < b ? a : b; }

static int tiles_along(const vae_tiles *p, int axis)
{
    return (p->source[axis] + p->step[axis] - 1) / p->step[axis];
}

static int result_size(const vae_tiles *p, int axis, int i)
{
    return least(p->size[axis], p->source[axis] - i * p->step[axis]) * p->times / p->per;
}

int vae_tiles_check(const vae_tiles *p, int h, int w, vc_err *err)
{
    int made[2] = { 0, 0 }, empty = 0;

    for (int a = 0; a < 2; a++) {
        if (p->step[a] < 1 || p->size[a] < 1 || p->kept[a] < 1)
            return vc_fail(err, VC_EINVAL, "tiles of %dx%d in steps of %dx%d are not possible",
                           p->size[1], p->size[0], p->step[1], p->step[0]);
        for (int i = 0; i < tiles_along(p, a); i++) {
            int n = result_size(p, a, i);
            made[a] += least(n, p->kept[a]);
            empty |= n < 1;
        }
    }
    if (empty || made[0] != h || made[1] != w)
        return vc_fail(err, VC_EINVAL, "tiles of %dx%d in steps of %dx%d make %dx%d of %dx%d, not "
                       "%dx%d: another size, or no tiling", p->size[1], p->size[0], p->step[1],
                       p->step[0], made[1], made[0], p->source[1], p->source[0], w, h);
    return 0;
}

/* n numbers of b become a mix of a's and theirs: b's share is s. */
static void mix(float *b, const float *a, float s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        b[i] = a[i] * (1 - s) + b[i] * s;
}

static void blend_rows(const vae_tiles *p, const tile *above, const tile *t)
{
    int n = least(p->blend[0], least(above->h, t->h));
    size_t row = (size_t)t->w * (size_t)p->channels;

    for (int f = 0; f < p->frames; f++)
        for (int k = 0; k < n; k++)
            mix(t->v + ((size_t)f * (size_t)t->h + (size_t)k) * row,
                above->v + ((size_t)f * (size_t)above->h + (size_t)(above->h - n + k)) * row,
                (float)k / (float)n, row);
}

static void blend_columns(const vae_tiles *p, const tile *left, const tile *t)
{
    int n = least(p->blend[1], least(left->w, t->w));
    size_t c = (size_t)p->channels, rows = (size_t)p->frames * (size_t)t->h;

    for (size_t r = 0; r < rows; r++)
        for (int k = 0; k < n; k++)
            mix(t->v + (r * (size_t)t->w + (size_t)k) * c,
                left->v + (r * (size_t)left->w + (size_t)(left->w - n + k)) * c,
                (float)k / (float)n, c);
}

static int make_tile(const vae_tiles *p, tile *t, int i, int j, vc_err *err)
{
    int y = i * p->step[0], x = j * p->step[1];

    t->h = result_size(p, 0, i);
    t->w = result_size(p, 1, j);
    t->v = malloc((size_t)p->frames * (size_t)t->h * (size_t)t->w * (size_t)p->channels *
                  sizeof *t->v);
    if (!t->v)
        return vc_fail(err, VC_ENOMEM, "out of memory for a tile of %d frames of %dx%d", p->frames,
                       t->w, t->h);
    return p->make(p->arg, y, x, least(p->size[0], p->source[0] - y),
                   least(p->size[1], p->source[1] - x), t->v, err);
}

/* Row i of the tiles; the row above is in `above`. */
static int run_row(const vae_tiles *p, tile *row, const tile *above, int i, int y, vc_err *err)
{
    int columns = tiles_along(p, 1), x = 0, rc = 0;

    for (int j = 0; !rc && j < columns; j++) {
        tile *t = &row[j];
        rc = make_tile(p, t, i, j, err);
        if (rc)
            return rc;
        if (i > 0)
            blend_rows(p, &above[j], t);
        if (j > 0)
            blend_columns(p, &row[j - 1], t);
        vae_tile done = { t->v, t->h, t->w, least(t->h, p->kept[0]), least(t->w, p->kept[1]), y,
                          x };
        rc = p->take(p->arg, &done, err);
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

int vae_tiles_run(const vae_tiles *p, vc_err *err)
{
    int columns = tiles_along(p, 1), rows = tiles_along(p, 0), y = 0, rc = 0;
    tile *two[2] = { calloc((size_t)columns, sizeof(tile)), calloc((size_t)columns, sizeof(tile)) };

    if (!two[0] || !two[1])
        rc = vc_fail(err, VC_ENOMEM, "out of memory for %d tiles", columns);
    for (int i = 0; !rc && i < rows; i++) {
        clear(two[i % 2], columns);
        rc = run_row(p, two[i % 2], two[(i + 1) % 2], i, y, err);
        y += least(result_size(p, 0, i), p->kept[0]);
    }
    for (int k = 0; k < 2; k++) {
        clear(two[k], columns);
        free(two[k]);
    }
    return rc;
}
