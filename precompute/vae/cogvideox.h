/* cogvideox.h - AutoencoderKLCogVideoX inside: its weights, and one pass of a clip through the
 * encoder or the decoder. For vae_cogvideox*.c and their test.
 *
 * A causal autoencoder (Yang et al. 2024, CogVideoX) that sees a clip in chunks: eight pixel frames
 * or two latent frames, the first chunk longer by the remainder. Each 3x3x3 convolution carries the
 * last two frames of its input to the next chunk; group norms see one chunk. So memory does not
 * depend on the length of the clip: about three activations of the widest level and what is
 * carried (two frames of each convolution's input). */
#ifndef VAE_COGVIDEOX_H
#define VAE_COGVIDEOX_H

#include "common/tensor/weights.h"
#include "formats/tensors/model.h"
#include "precompute/encoder.h"

#define COG_CLASS "AutoencoderKLCogVideoX"

enum { COG_RATIO_T = 4 };                                   /* frames of a latent frame */
enum { COG_LEVELS = 6, COG_LAYERS = 8, COG_MID = 2 };      /* most levels, resnets of a block */

/* w [K,C,k,k,k] ([K,C,3,3] of the samplers), b [K] */
typedef struct cog_conv {
    vt_tensor *w, *b;
    vt_tensor *front;                /* [1,2,H,W,C]: carried to the next chunk; NULL: nothing is */
} cog_conv;

typedef struct cog_norm {
    vt_tensor *w, *b;
    cog_conv scale, shift;           /* decoder: from the latent, conv_y and conv_b */
} cog_norm;

typedef struct cog_resnet {
    cog_norm norm1, norm2;
    cog_conv conv1, conv2, shortcut; /* shortcut.w NULL: as wide as its input */
} cog_resnet;

typedef struct cog_block {
    cog_resnet resnet[COG_LAYERS];
    int n;
    cog_conv sampler;                /* w NULL: the last level */
} cog_block;

/* Encoder: conv_in, levels from the finest, mid. Decoder: conv_in, mid, levels to the finest. */
typedef struct cog_net {
    cog_conv conv_in, conv_out;
    cog_block mid, level[COG_LEVELS];
    cog_norm norm_out;
    float eps;                       /* of the resnets' norms */
    int out;                         /* channels of the result */
} cog_net;

typedef struct cog_config {
    int levels, width[COG_LEVELS], layers, latent, groups;
    double eps;
    int sample[2];                   /* sample_height, sample_width: tiles are half of it */
} cog_config;
/* Rows or columns of a latent's row or column. */
static inline int cog_ratio(const cog_config *c) { return 1 << (c->levels - 1); }

struct vae {
    cog_config c;
    cog_net encoder, decoder;
    bool tiling;
    vt_ctx *g;
    vf_model *file;
    vt_params *params;
};

/* encoder.h's open and close */
int cog_open(vae **out, const encoder_opts *o, vae_info *info, vc_err *err);
void cog_close(vae *v);

/* What of a source goes through: all of it, or a tile. */
typedef struct cog_pass {
    const float *source;             /* pixels [f,h,w,3] or latent [C,f,h,w]; NULL: a dry pass */
    int f, h, w;                     /* of the source */
    int y, x, rows, columns;         /* of the tile */
    /* frames of the result as they come: values f32 [n,h,w,out channels], first: index of the
     * first. NULL: a dry pass. */
    void (*take)(void *arg, const float *values, int first, int n, int h, int w);
    void *arg;
    size_t peak;                     /* set: bytes of the pool that the pass reached */
} cog_pass;

int cog_encode(vae *v, cog_pass *p, vc_err *err);
int cog_decode(vae *v, cog_pass *p, vc_err *err);

#endif
