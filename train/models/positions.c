#include "train/models/positions.h"

#include <math.h>
#include <string.h>

static double angle(const vtrain_axis *a, double theta, int64_t i, int64_t j)
{
    return (a->start + (double)i * a->step) * pow(theta, -(double)j / (double)a->pairs);
}

void vtrain_sincos(float *out, int64_t stride, const vtrain_axis *axis, double theta)
{
    for (int64_t i = 0; i < axis->n; i++, out += stride)
        for (int64_t j = 0; j < axis->pairs; j++) {
            out[j] = (float)sin(angle(axis, theta, i, j));
            out[axis->pairs + j] = (float)cos(angle(axis, theta, i, j));
        }
}

/* An axis' share of the table, from column `first`: computed at the first token of each position,
 * copied to the others. stride: tokens from one position to the next; repeats: of the whole axis
 * over the grid. */
static void turn_axis(float *c, float *s, int64_t width, int64_t first, const vtrain_axis *a,
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

void vtrain_rope(float *c, float *s, const vtrain_axis axis[3], double theta)
{
    int64_t width = axis[0].pairs + axis[1].pairs + axis[2].pairs;
    int64_t stride = axis[0].n * axis[1].n * axis[2].n, repeats = 1, first = 0;
    for (int k = 0; k < 3; k++) {
        stride /= axis[k].n;
        turn_axis(c, s, width, first, &axis[k], stride, repeats, theta);
        repeats *= axis[k].n;
        first += axis[k].pairs;
    }
}
