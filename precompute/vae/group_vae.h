/* group_vae.h - the network of autoencoders that have group norms and diffusers' names: levels of
 * residual blocks with a step between them, and a middle whose attention has one head as wide as
 * the channels. For precompute/vae/autoencoder_kl.c and hunyuan.c, which differ in their
 * convolutions and steps. */
#ifndef PRECOMPUTE_VAE_GROUP_VAE_H
#define PRECOMPUTE_VAE_GROUP_VAE_H

#include "precompute/vae/vae.h"

enum {
    GROUP_LEVELS = 6, GROUP_LAYERS = 8,       /* the most levels, and the most resnets of a level */
    GROUP_MAX_WIDTH = 8192,
};
#define GROUP_EPS 1e-6f                       /* of the norms */

typedef struct group_config {
    int levels, width[GROUP_LEVELS], layers, latent, groups;
    int decoder[GROUP_LEVELS], decoder_levels;   /* the decoder's widths, from the finest level on;
                                      * decoder_levels 0: they are the encoder's */
    bool attention;                  /* the middle has attention */
    bool quant, post_quant;          /* the encoder, the decoder has a convolution quant */
    int steps, steps_t;              /* the first `steps` levels halve or double rows and columns;
                                      * the last steps_t levels that have a step, time */
} group_config;

/* Checks the rules between fields; n_down and n_up are the lengths of the lists of blocks' types, 0
 * where config.json has none. VC_EFORMAT names the field. */
int group_check(const group_config *c, int n_down, int n_up, vc_err *err);

typedef struct group_attention {
    nn_video_norm norm;
    vt_lin q, k, v, out;             /* q.w NULL: there is no attention */
} group_attention;

/* A level runs residual blocks, then a step to the next level. */
typedef struct group_level {
    nn_video_resnet resnet[GROUP_LAYERS];
    int n, by[3];                    /* factors of the step in t, h, w */
    nn_video_conv sampler;           /* w NULL: there is no step */
} group_level;

/* The encoder runs conv_in, the levels from the finest on, the middle, norm_out, conv_out and
 * quant; the decoder runs quant, conv_in, the middle, the levels up to the finest, norm_out and
 * conv_out. */
typedef struct group_coder {
    nn_video_conv quant, conv_in, conv_out;      /* quant.w NULL: there is no quant */
    group_level level[GROUP_LEVELS];
    nn_video_resnet mid[2];
    group_attention attention;       /* runs between mid[0] and mid[1] */
    nn_video_norm norm_out;
} group_coder;

/* The struct of both families (vae_net.size). */
typedef struct group_vae {
    vae all;
    group_config c;
    group_coder encoder, decoder;
} group_vae;

/* The convolutions of a family: tables of those with a kernel and of the pointwise ones, and the
 * ending of their names, "" or ".conv". Binds all weights of both coders. */
typedef struct group_convs {
    const vt_weight *conv, *point;
    const char *suffix;
} group_convs;
void group_bind(group_vae *m, vae_binder *b, const group_convs *k);

/* Takes the step of level l, which has one: returns the next level's input. x was made in the scope
 * s, which the step may end for tensors that it has read. */
typedef vt_tensor *group_step(const nn_video *n, group_level *l, vt_tensor *x, vt_scope s);
/* Run the encoder and the decoder, as vae_net's encode_chunk and decode_chunk. */
vt_tensor *group_encode(group_vae *m, const nn_video *n, group_step *step, vt_tensor *x);
vt_tensor *group_decode(group_vae *m, const nn_video *n, group_step *step, vt_tensor *z);

#endif
