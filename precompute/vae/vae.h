/* vae.h - the functions that autoencoders of all families share: the folder, the schedule of
 * chunks, tiles, and memory. For precompute/vae and its tests.
 *
 * A family's file describes its network by a vae_net and has a struct of its own that begins
 * with a struct vae. Its vae_class (encoder.h) is made of vae_close, vae_encode, vae_decode,
 * vae_memory and of an `open` that calls vae_open. */
#ifndef PRECOMPUTE_VAE_VAE_H
#define PRECOMPUTE_VAE_VAE_H

#include "common/nn/video.h"
#include "formats/tensors/model.h"
#include "precompute/encoder.h"

typedef struct vae_binder vae_binder;

typedef struct vae_net {
    const char *class;
    size_t size;                     /* of the family's struct */
    /* Frames that go through at a time, of pixels and of latents; the first chunk has the remainder
     * as well. */
    int pixel_frames, latent_frames;
    bool edge;                       /* as in nn_video */
    bool one_logvar;                 /* channels share one logvar: encode_chunk makes C+1 of them */
    int (*frames)(int f);            /* as in vae_class */
    /* config.json -> the family's struct, `info` (but for its fingerprint) and v->tiling; h gets
     * what of it changes the values. */
    int (*configure)(vae *v, const cJSON *config, bool tiling, vae_info *info, vf_hasher *h,
                     vc_err *err);
    void (*bind)(vae *v, vae_binder *b);
    /* Reads the constants of normalisation from the file of weights. NULL: config.json has them. */
    int (*statistics)(const vf_model *file, vae_info *info, vc_err *err);
    const char *const *spare;        /* names of tensors that nothing binds; NULL: none */
    /* pixels x [1,t,h,w,3] -> mean and logvar [1,t',h',w',2C]; latent z [1,t',h',w',C] -> pixels */
    vt_tensor *(*encode_chunk)(vae *v, const nn_video *n, vt_tensor *x);
    vt_tensor *(*decode_chunk)(vae *v, const nn_video *n, vt_tensor *z);
    /* Changes a clip's whole latent z [1,t',h',w',C] before decoding. NULL: nothing changes. */
    vt_tensor *(*latent)(vae *v, vt_tensor *z);
} vae_net;

/* Tiles on the axes t, h, w, in pixels: a clip that is larger than `size` goes through in tiles of
 * which `overlap` (a share) is blended with the next. size 0: the axis has none. A tile in time has
 * a frame more than its size, the first, as a clip has. */
typedef struct vae_tiling {
    int size[3];
    double overlap[3];
} vae_tiling;

struct vae {
    const vae_net *net;
    int channels, ratio[3];          /* of the latent; t, h, w */
    vae_tiling tiling;               /* sizes 0: clips go through whole */
    double decode_timestep, decode_noise_scale;          /* encoder_opts */
    vt_ctx *g;
    vf_model *file;
    vt_params *params;
};

/* encoder.h's functions */
int vae_open(vae **out, const vae_net *net, const encoder_opts *o, vae_info *info, vc_err *err);
void vae_close(vae *v);
int vae_encode(vae *v, const float *pixels, int f, int h, int w, float *mean, float *logvar,
               vc_err *err);
int vae_decode(vae *v, const float *z, int f, int h, int w, uint8_t *pixels, vc_err *err);
int vae_memory(vae *v, bool decode, int f, int h, int w, size_t *bytes, vc_err *err);

/* Binds a table's weights, below and name before their names; out, in: the table's sizes -1 and -2.
 * The first failure sticks, as in vt_ctx. */
void vae_bind(vae_binder *b, const vt_weight *table, void *base, int64_t out, int64_t in,
              const char *below, const char *name);

/* ---- chunks.c: one pass of a clip, or of a tile of it, through the encoder or the decoder ----
 *
 * Memory does not depend on the length of the clip: a chunk's activations, and what convolutions
 * carry to the next. */

typedef struct vae_pass {
    bool decodes;
    const float *source;             /* pixels [t,h,w,3] or latent [C,t,h,w]; NULL: a dry pass */
    int of[3];                       /* t, h, w of the source */
    int at[3], n[3];                 /* where the tile begins, and its size */
    /* Frames of the result as they come: values f32 [n,h,w,C], first: index of the first. NULL: a
     * dry pass. */
    void (*take)(void *arg, const float *values, int first, int n, int h, int w);
    void *arg;
    size_t peak;                     /* set: bytes of the pool and scratch that the pass reached */
} vae_pass;

int vae_run_pass(vae *v, vae_pass *p, vc_err *err);

#endif
