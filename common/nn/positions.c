/* positions.c - tables of positions, computed in f64; see positions.h */
#include "common/nn/positions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double angle(const nn_axis *a, double theta, int64_t i, int64_t j)
{
    return (a->start + (double)i * a->step) * pow(theta, -(double)j / (double)a->pairs);
}

void nn_sincos(float *out, int64_t stride, const nn_axis *axis, double theta)
{
    for (int64_t i = 0; i < axis->n; i++, out += stride)
        for (int64_t j = 0; j < axis->pairs; j++) {
            out[j] = (float)sin(angle(axis, theta, i, j));
            out[axis->pairs + j] = (float)cos(angle(axis, theta, i, j));
        }
}

/* Fills an axis' columns of both tables, from column `first` on: computes the angles of a position
 * at the first token that has it, and copies them to the others. `stride` tokens lie between
 * positions, and the grid has the whole axis `repeats` times. */
static void fill_axis(float *c, float *s, int64_t width, int64_t first, const nn_axis *a,
                      int64_t stride, int64_t repeats, double theta)
{
    size_t bytes = (size_t)a->pairs * sizeof *c;
    for (int64_t i = 0; i < a->n; i++) {
        int64_t from = i * stride * width + first;
        for (int64_t j = 0; j < a->pairs; j++) {
            c[from + j] = (float)cos(angle(a, theta, i, j));
            s[from + j] = (float)sin(angle(a, theta, i, j));
        }
        for (int64_t r = 0; r < repeats; r++)
            for (int64_t k = 0; k < stride; k++) {
                int64_t to = ((r * a->n + i) * stride + k) * width + first;
                memmove(c + to, c + from, bytes);
                memmove(s + to, s + from, bytes);
            }
    }
}

/* Fills the tables of `tokens` tokens, which are all places of a grid or a line through it. */
static void fill_rope(float *c, float *s, const nn_axis axis[3], int64_t tokens, bool line,
                      int64_t width, const double theta[3])
{
    int64_t stride = tokens, repeats = 1, first = 0;
    for (int k = 0; k < 3; k++) {
        stride = line ? 1 : stride / axis[k].n;
        fill_axis(c, s, width, first, &axis[k], stride, repeats, theta[k]);
        repeats = line ? 1 : repeats * axis[k].n;
        first += axis[k].pairs;
    }
}

static int64_t tokens_of(const nn_axis axis[3], bool line)
{
    return line ? axis[0].n : axis[0].n * axis[1].n * axis[2].n;
}

static void make_rope(vt_ctx *g, const nn_axis axis[][3], int grids, bool line,
                      const double theta[3], vt_tensor *table[2])
{
    int64_t dim[2] = { 0, axis[0][0].pairs + axis[0][1].pairs + axis[0][2].pairs }, at = 0;
    for (int k = 0; k < grids; k++)
        dim[0] += tokens_of(axis[k], line);
    const int64_t n = dim[0] * dim[1];
    float *host = malloc(2 * (size_t)n * sizeof *host);
    if (!host) {
        vt_fail(g, VC_ENOMEM, "positions: out of memory");
        return;
    }
    for (int k = 0; k < grids; at += tokens_of(axis[k++], line) * dim[1])
        fill_rope(host + at, host + n + at, axis[k], tokens_of(axis[k], line), line, dim[1], theta);
    for (int i = 0; i < 2; i++)
        table[i] = vt_from_host(g, VC_F32, 2, dim, host + i * n, VC_F32);
    free(host);
}

void nn_rope_grids(vt_ctx *g, const nn_axis axis[][3], int grids, double theta, vt_tensor *table[2])
{
    make_rope(g, axis, grids, false, (const double[3]){ theta, theta, theta }, table);
}

void nn_rope_axes(vt_ctx *g, const nn_axis axis[3], const double theta[3], vt_tensor *table[2])
{
    make_rope(g, (const nn_axis (*)[3])axis, 1, false, theta, table);
}

void nn_rope(vt_ctx *g, const nn_axis axis[3], double theta, vt_tensor *table[2])
{
    nn_rope_axes(g, axis, (const double[3]){ theta, theta, theta }, table);
}

void nn_rope_line(vt_ctx *g, const nn_axis axis[3], double theta, vt_tensor *table[2])
{
    make_rope(g, (const nn_axis (*)[3])axis, 1, true, (const double[3]){ theta, theta, theta },
              table);
}

/* Fills an axis' columns of both tables, from column `first` on, for tokens at at[i * step]. The
 * angles of each place are computed once. False: out of memory. */
static bool fill_places(float *c, float *s, int64_t width, int64_t first, const int32_t *at,
                        int64_t n, int step, int64_t pairs, double theta)
{
    int32_t most = 0;
    for (int64_t i = 0; i < n; i++)
        most = at[i * step] > most ? at[i * step] : most;
    const nn_axis axis = { most + 1, 0, 1, pairs };
    const size_t bytes = (size_t)pairs * sizeof *c;
    float *row = malloc((size_t)axis.n * 2 * bytes);
    if (!row)
        return false;
    nn_sincos(row, 2 * pairs, &axis, theta);
    for (int64_t i = 0; i < n; i++) {
        const float *from = row + at[i * step] * 2 * pairs;
        memcpy(s + i * width + first, from, bytes);
        memcpy(c + i * width + first, from + pairs, bytes);
    }
    free(row);
    return true;
}

void nn_rope_at(vt_ctx *g, const int32_t *at, int64_t n, int axes, const int64_t *pairs,
                double theta, vt_tensor *table[2])
{
    int64_t dim[2] = { n, 0 }, first = 0;
    for (int k = 0; k < axes; k++)
        dim[1] += pairs[k];
    const int64_t all = dim[0] * dim[1];
    float *host = malloc(2 * (size_t)all * sizeof *host);
    bool ok = host;
    for (int k = 0; ok && k < axes; first += pairs[k++])
        ok = fill_places(host, host + all, dim[1], first, at + k, n, axes, pairs[k], theta);
    if (!ok)
        vt_fail(g, VC_ENOMEM, "positions: out of memory");
    for (int i = 0; ok && i < 2; i++)
        table[i] = vt_from_host(g, VC_F32, 2, dim, host + i * all, VC_F32);
    free(host);
}
