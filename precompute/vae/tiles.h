/* tiles.h - runs an autoencoder on overlapping tiles of a clip, and blends them as diffusers does.
 *
 * Tiles start at multiples of `step` in the source. In a frame, each tile is made on its own. The
 * last rows of the tile above (which is blended already) are faded into its first rows, then the
 * last columns of the tile on the left into its first columns, and the first `kept` rows and
 * columns of the tile go to the result. A tile comes in chunks of frames, of which one is in
 * memory; the rows and columns that later tiles are blended with are put aside (spill.h).
 *
 * In time, tiles have size + 1 frames, and each tile is made like a whole clip. All tiles but the
 * first lose the first frame of their result, which is made for the beginning of a clip; then the
 * last frames of the tile before are faded into their first frames. `kept` frames of each tile go
 * to the result, and kept + 1 frames of the first tile. */
#ifndef PRECOMPUTE_VAE_TILES_H
#define PRECOMPUTE_VAE_TILES_H

#include "common/base/err.h"

/* A finished chunk of a tile: values f32 [..][h][w][channels]. Its first `frames`, `rows` and
 * `columns` are kept and belong at (t, y, x) of the result. */
typedef struct vae_tile {
    const float *values;
    int h, w, frames, rows, columns, t, y, x;
} vae_tile;

typedef struct vae_open_tile vae_open_tile;   /* a tile whose chunks are being made */

/* Axes are t, h, w. */
typedef struct vae_tiles {
    int source[3];                            /* size of the source clip */
    int size[3];                              /* size of a tile in the source */
    int step[3];                              /* distance of neighbouring tiles in the source */
    int times, per;                           /* n rows or columns of the source make
                                               * n * times / per of the result */
    int blend[3], kept[3];                    /* in frames, rows and columns of the result */
    int channels;                             /* of the result */
    const char *beside;                       /* path of what is put aside (spill.h), or NULL; where
                                               * time is cut into tiles, that is little, and stays
                                               * in memory */
    void *arg;
    int (*frames)(void *arg, int n);          /* frames of the result that n source frames make */
    /* Makes the tile that begins at `at` and has n frames, rows and columns: passes its values in
     * chunks of frames to vae_tiles_put. */
    int (*make)(void *arg, const int at[3], const int n[3], vae_open_tile *tile, vc_err *err);
    /* Receives a finished chunk, which lasts until `take` returns. */
    int (*take)(void *arg, const vae_tile *t, vc_err *err);
} vae_tiles;

/* VC_EINVAL: the tiles make another size than result (t, h, w); the message names both. */
int vae_tiles_check(const vae_tiles *p, const int result[3], vc_err *err);
/* The places (of a frame, a row and a column of the result) that all tiles make, those that are not
 * kept included. */
double vae_tiles_places(const vae_tiles *p);
/* Sets n to the size of the first tile, which is the largest. */
void vae_tiles_first(const vae_tiles *p, int n[3]);
/* Calls make for each tile, and take for each finished chunk of it. Where time is cut into tiles,
 * take gets whole frames. */
int vae_tiles_run(const vae_tiles *p, vc_err *err);
/* Takes the values of n frames of the tile from frame `first` of its result on, and blends them in
 * place. */
int vae_tiles_put(vae_open_tile *tile, float *values, int first, int n, vc_err *err);

#endif
