/* group_blocks.h - the blocks of autoencoders that have group norms and diffusers' names: norms,
 * residual blocks, and the middle with its attention of one head as wide as the channels. For
 * precompute/vae. */
#ifndef PRECOMPUTE_VAE_GROUP_BLOCKS_H
#define PRECOMPUTE_VAE_GROUP_BLOCKS_H

#include "precompute/vae/vae.h"

enum { VAE_MAX_HEAD = 512 };         /* the largest width; widths are multiples of 8 */

typedef struct vae_attention {
    nn_video_norm norm;
    vt_lin q, k, v, out;             /* q.w NULL: there is none */
} vae_attention;

/* What the blocks of an autoencoder have in common. */
typedef struct vae_blocks {
    int groups;                      /* of the norms */
    float eps;
    const vt_weight *conv, *shortcut;
    const char *suffix;              /* behind the names of convolutions: "" or ".conv" */
} vae_blocks;

void vae_bind_norm(vae_binder *b, const vae_blocks *k, nn_video_norm *n, int64_t width,
                   const char *below, const char *name);
/* Binds n residual blocks below `below`: resnets.0, resnets.1, ... The first has `in` channels, and
 * all give `out`. */
void vae_bind_resnets(vae_binder *b, const vae_blocks *k, nn_video_resnet *r, int n, int64_t in,
                      int64_t out, const char *below);
/* Binds mid_block of `coder` ("encoder."): two residual blocks and, unless a is NULL, the attention
 * between them. */
void vae_bind_middle(vae_binder *b, const vae_blocks *k, nn_video_resnet mid[2], vae_attention *a,
                     int64_t width, const char *coder);
/* Returns x [1,T,H,W,C] + attention(norm(x)), in which each frame attends to itself and to the
 * earlier frames. */
vt_tensor *vae_attend(const nn_video *n, const vae_attention *a, vt_tensor *x);

#endif
