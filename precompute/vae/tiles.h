/* tiles.h - an autoencoder run on overlapping tiles of its pictures, blended as diffusers does.
 *
 * Tiles start at multiples of `step` in the source. Each is made on its own, its first rows are
 * faded into the last ones of the tile above (which was blended before), then its first columns
 * into the tile on the left, and of the result `kept` rows and columns are handed out. Two rows of
 * tiles are in memory at a time. */
#ifndef VAE_TILES_H
#define VAE_TILES_H

#include "common/base/err.h"

/* A finished tile, or what is kept of it: values f32 [frames][h][w][channels], of which the first
 * `rows` and `columns` belong at (y, x) of the result. */
typedef struct vae_tile {
    const float *values;
    int h, w, rows, columns, y, x;
} vae_tile;

/* Pairs are rows, columns. */
typedef struct vae_tiles {
    int source[2], size[2], step[2];          /* of the picture, of a tile, from tile to tile */
    int times, per;                           /* a tile of n makes n * times / per in the result */
    int blend[2], kept[2];                    /* in the result */
    int frames, channels;                     /* of the result */
    void *arg;
    /* The tile of source rows y.. and columns x.. -> values */
    int (*make)(void *arg, int y, int x, int h, int w, float *values, vc_err *err);
    int (*take)(void *arg, const vae_tile *t, vc_err *err);
} vae_tiles;

/* Whether the tiles make exactly a result of h x w: VC_EINVAL says what they make. */
int vae_tiles_check(const vae_tiles *p, int h, int w, vc_err *err);
/* Calls make and take once per tile, row by row. */
int vae_tiles_run(const vae_tiles *p, vc_err *err);

#endif
