/* positions.h - tables of the positions of a video's tokens.
 *
 * Tokens lie on a grid of frames, rows and columns, frames outermost. Along an axis the i-th token
 * stands at start + i * step; its angles are position * theta^(-j / pairs), j < pairs (Vaswani et
 * al. 2017; Su et al. 2021 for rotations). The host computes them in f64 and keeps no state. */
#ifndef COMMON_NN_POSITIONS_H
#define COMMON_NN_POSITIONS_H

#include "common/tensor/tensor.h"

typedef struct nn_axis {
    int64_t n;                   /* tokens */
    double start, step;
    int64_t pairs;               /* angles of a token */
} nn_axis;

/* Writes a row for each token, `stride` floats apart: the sines of its angles, then the cosines. */
void nn_sincos(float *out, int64_t stride, const nn_axis *axis, double theta);
/* Makes the cosines and the sines that vt_rope takes, [frames * rows * columns, sum of pairs] f32:
 * a token's row has the angles of its frame, then of its row, then of its column. Fails the step
 * where memory is out. */
void nn_rope(vt_ctx *g, const nn_axis axis[3], double theta, vt_tensor *table[2]);
/* Does the same with a theta for each axis. */
void nn_rope_axes(vt_ctx *g, const nn_axis axis[3], const double theta[3], vt_tensor *table[2]);
/* Makes these tables for the tokens of several grids, one grid behind the other. All have the same
 * numbers of pairs. */
void nn_rope_grids(vt_ctx *g, const nn_axis axis[][3], int grids, double theta,
                   vt_tensor *table[2]);
/* Makes these tables for a line of axis[0].n tokens, as a text beside a picture is: the i-th token
 * stands at the i-th place of every axis. */
void nn_rope_line(vt_ctx *g, const nn_axis axis[3], double theta, vt_tensor *table[2]);
/* Makes these tables for n tokens at any places of `axes` axes: at [n][axes], none below 0. Axis k
 * has pairs[k] angles of a token. */
void nn_rope_at(vt_ctx *g, const int32_t *at, int64_t n, int axes, const int64_t *pairs,
                double theta, vt_tensor *table[2]);

#endif
