/* cogvideox.h - the configuration and weights of AutoencoderKLCogVideoX. For
 * precompute/vae/cogvideox*.c and their test.
 *
 * A causal autoencoder (Yang et al. 2024, CogVideoX) that takes a clip in chunks: eight pixel
 * frames or two latent frames, the first chunk longer by the remainder. Each 3x3x3 convolution
 * carries the last two frames of its input to the next chunk; group norms see one chunk. */
#ifndef PRECOMPUTE_VAE_COGVIDEOX_H
#define PRECOMPUTE_VAE_COGVIDEOX_H

#include "precompute/vae/vae.h"

#define COG_CLASS "AutoencoderKLCogVideoX"

enum { COG_RATIO_T = 4 };                                   /* frames of a latent frame */
enum { COG_LEVELS = 6, COG_LAYERS = 8, COG_MID = 2 };      /* most levels, resnets of a block */

typedef struct cog_block {
    nn_video_resnet resnet[COG_LAYERS];
    int n;
    nn_video_conv sampler;           /* w NULL: the last level */
} cog_block;

/* Encoder: conv_in, levels from the finest, mid. Decoder: conv_in, mid, levels to the finest. The
 * decoder's norms are spatial. */
typedef struct cog_net {
    nn_video_conv conv_in, conv_out;
    cog_block mid, level[COG_LEVELS];
    nn_video_norm norm_out;
} cog_net;

typedef struct cog_config {
    int levels, width[COG_LEVELS], layers, latent, groups;
    double eps;
    int sample[2];                   /* sample_height, sample_width: tiles are half of it */
} cog_config;
/* Rows or columns of a latent's row or column. */
static inline int cog_ratio(const cog_config *c) { return 1 << (c->levels - 1); }

typedef struct cog_vae {
    vae all;
    cog_config c;
    cog_net encoder, decoder;
} cog_vae;

/* vae_net's functions */
int cog_configure(vae *v, const cJSON *config, bool tiling, vae_info *info, vf_hasher *h,
                  vc_err *err);
void cog_bind(vae *v, vae_binder *b);

#endif
