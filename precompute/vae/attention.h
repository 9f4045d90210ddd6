/* attention.h - the attention in the middle of autoencoders that have group norms: one head as wide
 * as the channels, between two residual blocks. For precompute/vae. */
#ifndef PRECOMPUTE_VAE_ATTENTION_H
#define PRECOMPUTE_VAE_ATTENTION_H

#include "precompute/vae/vae.h"

enum { VAE_MAX_HEAD = 512 };         /* the largest width; widths are multiples of 8 */

typedef struct vae_attention {
    nn_video_norm norm;
    vt_lin q, k, v, out;             /* q.w NULL: there is none */
} vae_attention;

/* Binds group_norm, to_q, to_k, to_v and to_out.0 below `name`, which stands below `below`. */
void vae_bind_attention(vae_binder *b, vae_attention *a, int groups, float eps, int64_t width,
                        const char *below, const char *name);
/* Returns x [1,T,H,W,C] + attention(norm(x)), in which each frame attends to itself and to the
 * earlier frames. */
vt_tensor *vae_attend(const nn_video *n, const vae_attention *a, vt_tensor *x);

#endif
