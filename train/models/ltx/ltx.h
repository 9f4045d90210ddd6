/* ltx.h - pure functions that compute LTX-Video's and LTX-2's positions and their rotations on the
 * host. */
#ifndef TRAIN_MODELS_LTX_H
#define TRAIN_MODELS_LTX_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ltx_grid {
    int64_t dim[3];                           /* frames, rows, columns of the latents */
    int64_t pairs;                            /* pairs of a token's elements: half the width */
    bool causal_times;                        /* the first latent frame lasts one frame, as it does
                                               * since 0.9.5; in older models it lasts 8 frames */
    bool middle;                              /* a token stands in the middle of its frames, rows
                                               * and columns, as in LTX-2, not at their begin */
    bool exact;                               /* frequencies are computed in f64, then rounded */
    bool times;                               /* the rotations are of the time alone, as in LTX-2's
                                               * attention between video and sound */
    bool sound;                               /* with times: the frames are those of LTX-2's sound,
                                               * which have no frame rate */
} ltx_grid;

/* Fills positions [3,tokens]: the time in seconds, the row and the column in pixels of all tokens,
 * diffusers' video_coords (of LTX-2 their middle). Not of sound. */
void ltx_positions(const ltx_grid *grid, double fps, float *positions);

/* The rotations of a clip: the values of diffusers' LTXVideoRotaryPosEmbed, or of
 * LTX2AudioVideoRotaryPosEmbed. The struct holds the angles of each axis; a token's row of `pairs`
 * cosines or sines is put together from three of them, or is that of the time. */
typedef struct ltx_rope ltx_rope;
ltx_rope *ltx_rope_open(const ltx_grid *grid, double fps);          /* NULL: out of memory */
void ltx_rope_close(ltx_rope *r);                                   /* NULL is fine */
/* Writes the cosines or sines of n tokens from token `first` on, [n,pairs]. */
void ltx_rope_rows(const ltx_rope *r, bool sines, int64_t first, int64_t n, float *rows);

#endif
