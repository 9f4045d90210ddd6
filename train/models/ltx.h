/* ltx.h - LTX-Video's positions and their rotations, on the host. Pure functions. */
#ifndef TRAIN_MODELS_LTX_H
#define TRAIN_MODELS_LTX_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ltx_grid {
    int64_t dim[3];                           /* frames, rows, columns of the latents */
    int64_t pairs;                            /* of elements of a token: half the model's width */
    bool causal_times;                        /* frame 0 is a single picture, as 0.9.5 and later
                                               * know; older models take 8 frames for it as well */
} ltx_grid;

/* Seconds, row and column (in pixels) of all tokens, [3,tokens]: diffusers' video_coords. */
void ltx_positions(const ltx_grid *grid, double fps, float *positions);
/* Cosines and sines of all tokens of a clip of that frame rate, each [tokens,pairs]: the values of
 * diffusers' LTXVideoRotaryPosEmbed. False: out of memory. */
bool ltx_rotations(const ltx_grid *grid, double fps, float *cosines, float *sines);

#endif
