/* positions.h - tables of the positions of a video's tokens, on the host.
 *
 * Tokens lie on a grid of frames, rows and columns, frames outermost. Along an axis the i-th token
 * stands at start + i * step; its angles are position * theta^(-j / pairs), j < pairs (Vaswani et
 * al. 2017; Su et al. 2021 for rotations). Computed in f64. No state. */
#ifndef VTRAIN_POSITIONS_H
#define VTRAIN_POSITIONS_H

#include <stdint.h>

typedef struct vtrain_axis {
    int64_t n;                   /* tokens */
    double start, step;
    int64_t pairs;               /* angles of a token */
} vtrain_axis;

/* Of each token, `stride` floats after the one before: the sines of its angles, then the cosines. */
void vtrain_sincos(float *out, int64_t stride, const vtrain_axis *axis, double theta);
/* cos, sin [frames * rows * columns, sum of pairs]: of each token the angles of its frame, then of
 * its row, then of its column. */
void vtrain_rope(float *cos, float *sin, const vtrain_axis axis[3], double theta);

#endif
