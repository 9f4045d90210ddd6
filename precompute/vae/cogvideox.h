/* cogvideox.h - the configuration and weights of AutoencoderKLCogVideoX. For
 * precompute/vae/cogvideox*.c and their test.
 *
 * This causal autoencoder (Yang et al. 2024, CogVideoX) reads a clip in chunks of eight pixel
 * frames or two latent frames; the first chunk also has the remainder. Each 3x3x3 convolution
 * carries the last two frames of its input to the next chunk. Group norms normalise each chunk by
 * itself. */
#ifndef PRECOMPUTE_VAE_COGVIDEOX_H
#define PRECOMPUTE_VAE_COGVIDEOX_H

#include "precompute/vae/vae.h"

#define COG_CLASS "AutoencoderKLCogVideoX"

enum { COG_RATIO_T = 4 };                                  /* pixel frames per latent frame */
enum { COG_LEVELS = 6, COG_LAYERS = 8 };                   /* the most levels, and the most resnets
                                                            * of a block */
enum { COG_MID = 2 };                                      /* resnets of the middle block */

typedef struct cog_block {
    nn_video_resnet resnet[COG_LAYERS];
    int n;
    nn_video_conv sampler;           /* w NULL: the last level */
} cog_block;

/* The encoder runs conv_in, the levels from the finest on, mid, norm_out and conv_out; the decoder
 * runs conv_in, mid, the levels up to the finest, norm_out and conv_out. The decoder's norms are
 * spatial. */
typedef struct cog_net {
    nn_video_conv conv_in, conv_out;
    cog_block mid, level[COG_LEVELS];
    nn_video_norm norm_out;
} cog_net;

typedef struct cog_config {
    int levels, width[COG_LEVELS], layers, latent, groups;
    double eps;
    int sample[2];                   /* sample_height, sample_width: a tile is half as large */
} cog_config;

typedef struct cog_vae {
    vae all;
    cog_config c;
    cog_net encoder, decoder;
} cog_vae;

/* The functions of vae_net (vae.h). */
int cog_configure(vae *v, const cJSON *config, bool tiling, vae_info *info, vf_hasher *h,
                  vc_err *err);
void cog_bind(vae *v, vae_binder *b);

#endif
