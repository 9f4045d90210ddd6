/* tiles.h - an autoencoder run on overlapping tiles of a clip, blended as diffusers does.
 *
 * Tiles start at multiples of `step` in the source. In a frame, each is made on its own, its first
 * rows are faded into the last ones of the tile above (which was blended before), then its first
 * columns into the tile on the left, and of the result `kept` rows and columns are handed out. Two
 * rows of tiles are in memory at a time.
 *
 * In time, tiles have size + 1 frames, and each is made as a whole clip is. All but the first lose
 * the first frame of their result, which stood for a clip's beginning; then their first frames are
 * faded into the last ones of the tile before. `kept` frames are handed out, and one more of the
 * first tile. */
#ifndef PRECOMPUTE_VAE_TILES_H
#define PRECOMPUTE_VAE_TILES_H

#include "common/base/err.h"

/* A finished tile, or what is kept of it: values f32 [..][h][w][channels], of which the first
 * `frames`, `rows` and `columns` belong at (t, y, x) of the result. */
typedef struct vae_tile {
    const float *values;
    int h, w, frames, rows, columns, t, y, x;
} vae_tile;

/* Axes are t, h, w. */
typedef struct vae_tiles {
    int source[3], size[3], step[3];          /* of the clip, of a tile, from tile to tile */
    int times, per;                           /* n rows make n * times / per in the result */
    int blend[3], kept[3];                    /* in the result */
    int channels;                             /* of the result */
    void *arg;
    int (*frames)(void *arg, int n);          /* frames of the result of n frames */
    /* The tile of n frames, rows and columns from `at` on -> values */
    int (*make)(void *arg, const int at[3], const int n[3], float *values, vc_err *err);
    int (*take)(void *arg, const vae_tile *t, vc_err *err);
} vae_tiles;

/* VC_EINVAL: the tiles make another size than t, h, w, which the message names. */
int vae_tiles_check(const vae_tiles *p, const int result[3], vc_err *err);
/* The size of the first tile, which is the largest. */
void vae_tiles_first(const vae_tiles *p, int n[3]);
/* Calls make and take once per tile; tiles in time are taken whole. */
int vae_tiles_run(const vae_tiles *p, vc_err *err);

#endif
