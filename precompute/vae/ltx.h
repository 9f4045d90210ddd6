/* ltx.h - AutoencoderKLLTXVideo inside: its configuration and weights. For precompute/vae/ltx*.c.
 *
 * An autoencoder (HaCohen et al. 2024, LTX-Video, 3.1) that takes squares of pixels as channels and
 * normalises each place alone. The encoder is causal, so a clip that goes through in chunks has the
 * same latent. The decoder's convolutions see a frame to either side, so that a picture depends on
 * some twenty latent frames that follow it: a clip is decoded whole. Version 0.9.0 halves by
 * convolutions in steps of two; 0.9.5 moves places into channels. Decoders since 0.9.1 also remove
 * noise: a timestep tells them how much. */
#ifndef PRECOMPUTE_VAE_LTX_H
#define PRECOMPUTE_VAE_LTX_H

#include "precompute/vae/vae.h"

#define LTX_CLASS "AutoencoderKLLTXVideo"

enum { LTX_RATIO_T = 8 };                                  /* frames of a latent frame */
enum { LTX_LEVELS = 8, LTX_LAYERS = 16 };                  /* most levels, resnets of a block */
#define LTX_EPS 1e-8f                                      /* of RMS norms */

typedef struct ltx_resnet {
    nn_video_conv conv1, conv2;
    nn_video_conv shortcut;          /* w NULL: the block is as wide as its input */
    vt_tensor *norm3_w, *norm3_b;    /* [C], of the layer norm before the shortcut */
    vt_tensor *table;                /* scale_shift_table [4,C]; NULL: it has no timestep */
    vt_tensor *noise1, *noise2;      /* per_channel_scale [C,1,1]; NULL: no noise */
} ltx_resnet;

/* The layers that embed a timestep; up.w NULL: there are none. */
typedef struct ltx_time { vt_lin up, down; } ltx_time;

/* The encoder runs resnets of width `in`, the sampler and widen; the decoder runs widen, the
 * sampler and resnets of width `out`. widen is a resnet from in to out, or its conv1.w is NULL. */
typedef struct ltx_block {
    int in, out, n;
    int by[3];                       /* the sampler's steps in t, h, w; 1, 1, 1: there is none */
    bool folds;                      /* the sampler moves places into channels, and widens */
    bool residual;                   /* a decoder's sampler adds its input to its result */
    bool noisy;                      /* the resnets add noise */
    int sampled[2];                  /* channels of the sampler's input, of its convolution */
    nn_video_conv sampler;
    ltx_time time;
    ltx_resnet widen, resnet[LTX_LAYERS];
} ltx_block;

/* The encoder runs conv_in, levels from the finest, mid and conv_out; the decoder runs conv_in,
 * mid, levels to the finest and conv_out. */
typedef struct ltx_net {
    int levels, first, last;         /* widths that conv_in makes and that conv_out takes */
    nn_video_conv conv_in, conv_out;
    ltx_block mid, level[LTX_LEVELS];
    ltx_time time;                   /* of the head */
    vt_tensor *table;                /* [2,C] */
    vt_tensor *multiplier;           /* of the timestep, [] */
} ltx_net;

typedef struct ltx_vae {
    vae all;
    int latent, patch;               /* channels; pixels of a square's side */
    double eps;                      /* of layer norms */
    bool timed, causal;              /* of the decoder */
    ltx_net encoder, decoder;
} ltx_vae;

/* vae_net's functions */
int ltx_configure(vae *v, const cJSON *config, bool tiling, vae_info *info, vf_hasher *h,
                  vc_err *err);
void ltx_bind(vae *v, vae_binder *b);
int ltx_statistics(const vf_model *file, vae_info *info, vc_err *err);
extern const char *const ltx_statistics_names[];           /* of the file's tensors, NULL-ended */

#endif
