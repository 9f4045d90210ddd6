/* ltx.h - pure functions that compute LTX-Video's positions and their rotations on the host. */
#ifndef TRAIN_MODELS_LTX_H
#define TRAIN_MODELS_LTX_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ltx_grid {
    int64_t dim[3];                           /* frames, rows, columns of the latents */
    int64_t pairs;                            /* pairs of a token's elements: half the width */
    bool causal_times;                        /* the first latent frame lasts one frame, as it does
                                               * since 0.9.5; in older models it lasts 8 frames */
} ltx_grid;

/* Fills positions [3,tokens]: the time in seconds, the row and the column in pixels of all tokens,
 * diffusers' video_coords. */
void ltx_positions(const ltx_grid *grid, double fps, float *positions);
/* Fills the cosines and sines, each [tokens,pairs], of all tokens of a clip with this frame rate:
 * the values of diffusers' LTXVideoRotaryPosEmbed. False: out of memory. */
bool ltx_rotations(const ltx_grid *grid, double fps, float *cosines, float *sines);

#endif
