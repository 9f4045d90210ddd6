/* ltx.h - the configuration and weights of AutoencoderKLLTXVideo and AutoencoderKLLTX2Video. For
 * precompute/vae/ltx*.c.
 *
 * This autoencoder (HaCohen et al. 2024, LTX-Video, 3.1) reads squares of pixels as channels and
 * normalises each place alone. The encoder is causal, so a clip has the same latent whole and in
 * chunks. Each convolution of the decoder reads one frame before and one after, so a picture
 * depends on some twenty later latent frames, for which chunks wait (common/nn/centred.h). Version
 * 0.9.0 halves sizes by convolutions in steps of two; 0.9.5 moves places into channels. Decoders
 * of 0.9.1 to 0.9.7 also remove noise, whose amount their timestep gives. LTX-2's network is that
 * of 0.9.5, with other sizes, a decoder that samples time and space in any order, and frames that
 * may be mirrored at their border. */
#ifndef PRECOMPUTE_VAE_LTX_H
#define PRECOMPUTE_VAE_LTX_H

#include "common/nn/centred.h"
#include "precompute/vae/vae.h"

#define LTX_CLASS "AutoencoderKLLTXVideo"
#define LTX2_CLASS "AutoencoderKLLTX2Video"

enum { LTX_RATIO_T = 8 };                                  /* pixel frames per latent frame */
enum { LTX_LEVELS = 8, LTX_LAYERS = 16 };                  /* the most levels, and the most resnets
                                                            * of a block */
enum { LTX_CONVS = (LTX_LEVELS + 1) * (2 * LTX_LAYERS + 3) + 2 };
/* Latent frames of a chunk: at least two, since convolutions carry two frames from chunk to chunk.
 * Decoding takes more: its chunks wait for frames that are late. */
enum { LTX_ENCODE_CHUNK = 2, LTX_CHUNK = 4 };
#define LTX_EPS 1e-8f                                      /* of RMS norms */

typedef struct ltx_resnet {
    nn_video_conv conv1, conv2;
    nn_video_conv shortcut;          /* w NULL: the block is as wide as its input */
    vt_tensor *norm3_w, *norm3_b;    /* [C], of the layer norm before the shortcut */
    vt_tensor *table;                /* scale_shift_table [4,C]; NULL: no timestep is read */
    vt_tensor *noise1, *noise2;      /* per_channel_scale [C,1,1]; NULL: no noise is added */
    nn_waiting waiting;              /* of the decoder: the block's input */
} ltx_resnet;

/* The layers that embed a timestep; up.w is NULL where the network has none. */
typedef struct ltx_time { vt_lin up, down; } ltx_time;

/* The encoder runs resnets of width `in`, the sampler and widen; the decoder runs widen, the
 * sampler and resnets of width `out`. widen is a resnet from width `in` to width `out`; its conv1.w
 * is NULL where the widths are equal or the sampler widens. */
typedef struct ltx_block {
    int in, out, n;
    int by[3];                       /* the sampler's steps in t, h, w; 1, 1, 1: no sampler */
    bool folds;                      /* the sampler moves places into channels, and widens */
    bool residual;                   /* a decoder's sampler adds its input to its result */
    bool noisy;                      /* the resnets add noise */
    int sampled[2];                  /* channels of the sampler's input and of its convolution's
                                      * result */
    nn_video_conv sampler;
    nn_waiting waiting;              /* of the decoder: the sampler's input */
    bool begun;                      /* the sampler has made the clip's first frame */
    ltx_time time;
    ltx_resnet widen, resnet[LTX_LAYERS];
} ltx_block;

/* The encoder runs conv_in, the levels from the finest on, mid and conv_out; the decoder runs
 * conv_in, mid, the levels up to the finest and conv_out. */
typedef struct ltx_net {
    int levels;
    int first, last;                 /* channels of conv_in's result and of conv_out's input */
    nn_video_conv conv_in, conv_out;
    ltx_block mid, level[LTX_LEVELS];
    ltx_time time;                   /* embeds the timestep for norm and table before conv_out */
    vt_tensor *table;                /* scale_shift_table [2,C] before conv_out */
    vt_tensor *multiplier;           /* factor of the timestep, a scalar */
    int convs, end[LTX_CONVS];       /* of a decoder: its convolutions, nn_centred.end */
} ltx_net;

typedef struct ltx_vae {
    vae all;
    int latent;                      /* channels of the latent */
    int patch;                       /* side of a square, in pixels */
    double eps;                      /* of layer norms */
    bool timed, causal;              /* the decoder reads a timestep; the decoder is causal */
    bool reflect;                    /* frames are mirrored at the border of the decoder's */
    bool two;                        /* LTX-2's names of tensors */
    ltx_net encoder, decoder;
} ltx_vae;

/* The functions of vae_net (vae.h). */
int ltx_configure(vae *v, const cJSON *config, bool tiling, vae_info *info, vf_hasher *h,
                  vc_err *err);
int ltx2_configure(vae *v, const cJSON *config, bool tiling, vae_info *info, vf_hasher *h,
                   vc_err *err);
void ltx_bind(vae *v, vae_binder *b);
int ltx_statistics(const vf_model *file, vae_info *info, vc_err *err);
extern const char *const ltx_statistics_names[];           /* names of tensors; NULL ends them */

#endif
