/* wan.h - AutoencoderKLWan and AutoencoderKLQwenImage inside: their configuration and weights. For
 * precompute/vae/wan*.c.
 *
 * A causal autoencoder (Wan Team 2025, Wan, 4.1) whose norms see one place and whose attention sees
 * one frame, so a clip that goes through in chunks has the latent of the whole clip. Zeros stand
 * before a clip, and steps in time leave its first frame alone. Version 2.2 takes squares of pixels
 * as channels. There, a level of the encoder also adds means of its input over the places that its
 * step joins, and a level of the decoder adds its input, spread over the places that its step
 * makes. Qwen-Image has version 2.1 under a name of its own, for images. */
#ifndef PRECOMPUTE_VAE_WAN_H
#define PRECOMPUTE_VAE_WAN_H

#include "precompute/vae/vae.h"

enum { WAN_RATIO_T = 4 };                                  /* frames of a latent frame */
enum { WAN_LEVELS = 6, WAN_LAYERS = 8 };                   /* most levels, resnets of a level */

/* A level has residual blocks, then a step to the next level. */
typedef struct wan_level {
    nn_video_resnet resnet[WAN_LAYERS];
    int n, in, out;                  /* in, out: channels of the residual blocks */
    nn_video_conv sampler;           /* w NULL: there is no step */
    nn_video_conv time;              /* w NULL: the step leaves time as it is */
    bool residual;                   /* the level's input is added to its result */
    int step[3];                     /* factors of the step in t, h, w; all 1: there is no step */
    int by[3];                       /* of them, those whose places are channels of the input; a
                                      * decoder's other places are copies */
} wan_level;

typedef struct wan_attention {
    vt_tensor *norm;                 /* gamma [C,1,1] */
    nn_video_conv qkv, out;          /* [3C,C,1,1], [C,C,1,1] */
} wan_attention;

/* The encoder runs conv_in, levels from the finest, the middle, conv_out and quant; the decoder
 * runs quant, conv_in, the middle, levels to the finest and conv_out. */
typedef struct wan_coder {
    nn_video_conv quant, conv_in, conv_out;
    wan_level level[WAN_LEVELS];
    nn_video_resnet mid[2];
    wan_attention attention;         /* between the two */
    nn_video_norm norm_out;
} wan_coder;

typedef struct wan_config {
    int levels, factor[WAN_LEVELS];  /* a level's channels are factor * base */
    int base, decoder_base, layers, latent;
    int steps;                       /* levels that have a step: all but the last */
    bool in_time[WAN_LEVELS];        /* whether the step of a level halves time */
    bool residual;
    int patch;                       /* pixels of a square's side */
    int in, out;                     /* channels of pixels, 3 * patch * patch */
} wan_config;

typedef struct wan_vae {
    vae all;
    wan_config c;
    wan_coder encoder, decoder;
} wan_vae;

#define WAN_CLASS "AutoencoderKLWan"
#define WAN_QWEN_CLASS "AutoencoderKLQwenImage"

/* The squared length of a place below which its norm is zero. */
#define WAN_EPS 1e-24f

/* vae_net's functions */
int wan_configure(vae *v, const cJSON *config, bool tiling, vae_info *info, vf_hasher *h,
                  vc_err *err);
void wan_bind(vae *v, vae_binder *b);

#endif
