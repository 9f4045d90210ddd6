/* ltx_rope.c - LTX-Video's and LTX-2's positions and their rotations; see ltx.h */
#include "train/models/ltx/ltx.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define THETA 10000.0

/* Frames and pixels from one position of the latents to the next, and the seconds and pixels by
 * which positions are divided. */
#define STEP_FRAMES 8
#define STEP_PIXELS 32
#define BASE_SECONDS 20
#define BASE_PIXELS 2048

/* Of sound: frames of a spectrogram from one position to the next, and their parts of a second. */
#define STEP_MEL 4
#define MEL_HOP 160
#define MEL_RATE 16000

/* Angles are products of frequencies up to 15708 and positions, and an error of 2^-24 in either
 * factor changes the angle by 1e-3. So the code rounds both factors to f32 in the same steps as
 * PyTorch. */

/* The begin of a causal span i of an axis, in seconds or pixels. */
static float begin_of(int axis, int64_t i, double fps)
{
    int64_t frame = STEP_FRAMES * (i - 1) + 1;
    return axis ? (float)i * STEP_PIXELS : (float)(frame > 0 ? frame : 0) / (float)fps;
}

/* The begin of frame i of a sound in seconds, which is causal too. */
static float sound_begin(int64_t i)
{
    const int64_t mel = STEP_MEL * (i - 1) + 1;
    return (float)((mel > 0 ? mel : 0) * MEL_HOP) / MEL_RATE;
}

/* The position i of an axis, in seconds or pixels. */
static float position(const ltx_grid *grid, int axis, int64_t i, double fps)
{
    if (grid->sound)
        return (sound_begin(i) + sound_begin(i + 1)) / 2;
    if (grid->middle)
        return (begin_of(axis, i, fps) + begin_of(axis, i + 1, fps)) / 2;
    if (axis)
        return (float)i * STEP_PIXELS;
    if (!grid->causal_times)
        return (float)i * (float)(STEP_FRAMES / fps);
    return (float)(i ? STEP_FRAMES * (i - 1) + 1 : 0) * (float)(1 / fps);
}

/* The frame, row and column of a token. */
static void place_of(int64_t at[3], const int64_t dim[3], int64_t token)
{
    at[0] = token / (dim[1] * dim[2]);
    at[1] = token / dim[2] % dim[1];
    at[2] = token % dim[2];
}

void ltx_positions(const ltx_grid *grid, double fps, float *positions)
{
    int64_t tokens = grid->dim[0] * grid->dim[1] * grid->dim[2], at[3];
    for (int64_t i = 0; i < tokens; i++) {
        place_of(at, grid->dim, i);
        for (int k = 0; k < 3; k++)
            positions[k * tokens + i] = position(grid, k, at[k], fps);
    }
}

/* n frequencies from 1 to THETA, times pi/2. */
static void exact_frequencies(float *f, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        f[j] = (float)(pow(THETA, n > 1 ? (double)j / (double)(n - 1) : 0) * M_PI / 2);
}

static void frequencies(float *f, int64_t n)
{
    float step = n > 1 ? 1.0f / (float)(n - 1) : 0;
    for (int64_t j = 0; j < n; j++) {
        float at = j < n / 2 ? step * (float)j : fmaf(-step, (float)(n - 1 - j), 1);
        f[j] = (float)pow(THETA, (double)(n > 1 ? at : 0)) * (float)M_PI / 2;
    }
}

struct ltx_rope {
    ltx_grid grid;
    int64_t count;                            /* frequencies */
    float *of[2][3];                          /* cosines, sines of the axes: [positions,count] */
};

static bool open_axis(ltx_rope *r, int k, double fps, const float *f)
{
    int64_t n = r->grid.dim[k], count = r->count;
    float *c = r->of[0][k] = malloc((size_t)(n * count + 1) * sizeof *c);
    float *s = r->of[1][k] = malloc((size_t)(n * count + 1) * sizeof *s);
    for (int64_t i = 0; i < n && c && s; i++) {
        float at = position(&r->grid, k, i, fps) / (k ? BASE_PIXELS : BASE_SECONDS);
        for (int64_t j = 0; j < count; j++) {
            float angle = f[j] * (at * 2 - 1);
            c[i * count + j] = (float)cos((double)angle);
            s[i * count + j] = (float)sin((double)angle);
        }
    }
    return c && s;
}

ltx_rope *ltx_rope_open(const ltx_grid *grid, double fps)
{
    ltx_rope *r = calloc(1, sizeof *r);
    const int axes = grid->times ? 1 : 3;
    float *f = malloc((size_t)(grid->pairs / axes + 1) * sizeof *f);
    bool ok = r && f;
    if (ok) {
        r->grid = *grid;
        r->count = grid->pairs / axes;
        (grid->exact ? exact_frequencies : frequencies)(f, r->count);
    }
    for (int k = 0; k < axes && ok; k++)
        ok = open_axis(r, k, fps, f);
    free(f);
    if (ok)
        return r;
    ltx_rope_close(r);
    return NULL;
}

void ltx_rope_close(ltx_rope *r)
{
    for (int i = 0; r && i < 6; i++)
        free(r->of[i / 3][i % 3]);
    free(r);
}

/* Rows of the time's angles alone. */
static void time_rows(const ltx_rope *r, bool sines, int64_t first, int64_t n, float *rows)
{
    for (int64_t i = first; i < first + n; i++, rows += r->count) {
        int64_t at[3];
        place_of(at, r->grid.dim, i);
        memcpy(rows, r->of[sines][0] + at[0] * r->count, (size_t)r->count * sizeof *rows);
    }
}

/* Pairs that are left over keep their place in front and are not rotated, then each frequency has
 * the angles of frame, row and column. */
void ltx_rope_rows(const ltx_rope *r, bool sines, int64_t first, int64_t n, float *rows)
{
    const int64_t count = r->count, rest = r->grid.pairs - 3 * count;
    if (r->grid.times) {
        time_rows(r, sines, first, n, rows);
        return;
    }
    for (int64_t i = first; i < first + n; i++) {
        int64_t at[3];
        place_of(at, r->grid.dim, i);
        const float *t = r->of[sines][0] + at[0] * count, *y = r->of[sines][1] + at[1] * count;
        const float *x = r->of[sines][2] + at[2] * count;
        for (int64_t j = 0; j < rest; j++)
            *rows++ = sines ? 0 : 1;
        for (int64_t j = 0; j < count; j++, rows += 3) {
            rows[0] = t[j];
            rows[1] = y[j];
            rows[2] = x[j];
        }
    }
}
