/* ltx_rope.c - LTX-Video's positions and their rotations; see ltx.h */
#include "train/models/ltx.h"

#include <math.h>
#include <stdlib.h>

#define THETA 10000.0

/* Frames and pixels from one position of the latents to the next, and the seconds and pixels by
 * which positions are divided. */
#define STEP_FRAMES 8
#define STEP_PIXELS 32
#define BASE_SECONDS 20
#define BASE_PIXELS 2048

/* Angles are products of frequencies up to 15708 and positions, and an error of 2^-24 in either
 * factor changes the angle by 1e-3. So the code rounds both factors to f32 in the same steps as
 * PyTorch. */

/* The position i of an axis, in seconds or pixels. */
static float position(const ltx_grid *grid, int axis, int64_t i, double fps)
{
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
static void frequencies(float *f, int64_t n)
{
    float step = n > 1 ? 1.0f / (float)(n - 1) : 0;
    for (int64_t j = 0; j < n; j++) {
        float at = j < n / 2 ? step * (float)j : fmaf(-step, (float)(n - 1 - j), 1);
        f[j] = (float)pow(THETA, (double)(n > 1 ? at : 0)) * (float)M_PI / 2;
    }
}

/* The rotations of one axis: cosines and sines [positions,frequencies]. */
typedef struct axis {
    float *cosines, *sines;
} axis;

static bool open_axis(axis *a, const ltx_grid *grid, int k, double fps, const float *f,
                      int64_t count)
{
    size_t bytes = (size_t)(grid->dim[k] * count) * sizeof(float);
    *a = (axis){ malloc(bytes), malloc(bytes) };
    for (int64_t i = 0; i < grid->dim[k] && a->cosines && a->sines; i++) {
        float at = position(grid, k, i, fps) / (k ? BASE_PIXELS : BASE_SECONDS);
        for (int64_t j = 0; j < count; j++) {
            float angle = f[j] * (at * 2 - 1);
            a->cosines[i * count + j] = (float)cos((double)angle);
            a->sines[i * count + j] = (float)sin((double)angle);
        }
    }
    return a->cosines && a->sines;
}

/* Fills a token's row of pairs. The remainder of pairs by three comes first and is not rotated
 * (`still`); then each frequency has the angles of frame, row and column. */
static void fill_row(float *y, int64_t pairs, const float *const of[3], int64_t count, float still)
{
    for (int64_t j = 3 * count; j < pairs; j++)
        *y++ = still;
    for (int64_t j = 0; j < count; j++)
        for (int k = 0; k < 3; k++)
            *y++ = of[k][j];
}

bool ltx_rotations(const ltx_grid *grid, double fps, float *cosines, float *sines)
{
    const int64_t *dim = grid->dim, count = grid->pairs / 3;
    axis a[3] = { { 0 } };
    float *f = malloc((size_t)(count + 1) * sizeof *f);
    bool ok = f != NULL;
    if (f)
        frequencies(f, count);
    for (int k = 0; k < 3 && ok; k++)
        ok = open_axis(&a[k], grid, k, fps, f, count);
    for (int64_t i = 0; ok && i < dim[0] * dim[1] * dim[2]; i++) {
        int64_t at[3];
        const float *c[3], *s[3];
        place_of(at, dim, i);
        for (int k = 0; k < 3; k++) {
            c[k] = a[k].cosines + at[k] * count;
            s[k] = a[k].sines + at[k] * count;
        }
        fill_row(cosines + i * grid->pairs, grid->pairs, c, count, 1);
        fill_row(sines + i * grid->pairs, grid->pairs, s, count, 0);
    }
    for (int k = 0; k < 3; k++) {
        free(a[k].cosines);
        free(a[k].sines);
    }
    free(f);
    return ok;
}
