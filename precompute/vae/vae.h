/* vae.h - functions that the autoencoders of all families share: the reading of the folder, the
 * schedule of chunks, tiles, and memory. For precompute/vae and its tests.
 *
 * A vae_net describes a family's network, whose state is a struct of the family's own that begins
 * with a struct vae. The family's vae_class (encoder.h) is a VAE_CLASS, or has functions of its own
 * around those of the net. */
#ifndef PRECOMPUTE_VAE_VAE_H
#define PRECOMPUTE_VAE_VAE_H

#include "common/nn/video.h"
#include "formats/tensors/model.h"
#include "precompute/encoder.h"

typedef struct vae_binder vae_binder;

typedef struct vae_net {
    const char *class;
    size_t size;                     /* of the family's struct */
    /* Pixel frames or latent frames of a chunk; the first chunk also has the remainder. */
    int pixel_frames, latent_frames;
    bool windows;                    /* encoder_opts.window may replace pixel_frames by
                                      * a multiple of it */
    bool edge, blank;                /* as in nn_video */
    bool one_logvar;                 /* channels share one logvar: encode_chunk makes [..,C+1] */
    int (*frames)(int f);            /* as in vae_class */
    /* Reads config.json into the family's struct, v->tiling and *info, except its fingerprint, and
     * hashes with h every field that changes the latents. */
    int (*configure)(vae *v, const cJSON *config, bool tiling, vae_info *info, vf_hasher *h,
                     vc_err *err);
    void (*bind)(vae *v, vae_binder *b);
    /* Reads the constants of normalisation from the file of weights. NULL: config.json has them. */
    int (*statistics)(const vf_model *file, vae_info *info, vc_err *err);
    const char *const *spare;        /* names of tensors that bind leaves unread; NULL: none */
    /* pixels x [1,t,h,w,3] -> mean and logvar [1,t',h',w',2C] */
    vt_tensor *(*encode_chunk)(vae *v, const nn_video *n, vt_tensor *x);
    /* latent z [1,t',h',w',C] -> pixels [1,t,h,w,3] of frames that are complete, or NULL */
    vt_tensor *(*decode_chunk)(vae *v, const nn_video *n, vt_tensor *z);
    /* How many more times decode_chunk runs after the last of several chunks, with NULL for z and
     * n->ended from 1 on, for frames that were incomplete (common/nn/centred.h). NULL: never. */
    int (*decode_ends)(const vae *v);
    /* Returns the latent to decode for a clip's whole latent z [1,t',h',w',C]. NULL: z itself. */
    vt_tensor *(*latent)(vae *v, vt_tensor *z);
} vae_net;

/* Tiles on the axes t, h, w, in pixels. A clip that is larger than `size` is cut into tiles, and
 * the share `overlap` of each tile is blended with the next. An axis of size 0 is not cut. Like a
 * clip, a tile in time has one first frame besides its `size`. */
typedef struct vae_tiling {
    int size[3];
    double overlap[3];
} vae_tiling;

struct vae {
    const vae_net *net;
    int channels;                    /* of the latent */
    int ratio[3];                    /* pixels per latent place in t, h, w */
    vae_tiling tiling;               /* sizes 0: clips are not cut into tiles */
    int window;                      /* pixel frames of a chunk; the first one also has the
                                      * remainder */
    double decode_timestep, decode_noise_scale;          /* as in encoder_opts */
    vt_ctx *g;
    vf_model *file;
    vt_params *params;
};

/* The functions of vae_class (encoder.h). */
int vae_open(vae **out, const vae_net *net, const encoder_opts *o, vae_info *info, vc_err *err);
void vae_close(vae *v);
int vae_encode(vae *v, const vae_input *pixels, int f, int h, int w, float *mean, float *logvar,
               vc_err *err);
int vae_decode(vae *v, const float *z, int f, int h, int w, const vae_output *to, vc_err *err);
int vae_memory(vae *v, bool decode, int f, int h, int w, size_t *bytes, vc_err *err);
int vae_chunk(const vae *v, int f);
/* Defines the class `symbol` of a name and a vae_net, with these functions. */
#define VAE_CLASS(symbol, name, net, frames)                                                       \
    static int symbol##_open(vae **out, const encoder_opts *o, vae_info *info, vc_err *err)        \
    {                                                                                              \
        return vae_open(out, &(net), o, info, err);                                                \
    }                                                                                              \
    const vae_class symbol = { name, symbol##_open, vae_close, vae_encode, vae_decode, frames,     \
                               vae_memory, vae_chunk }

/* Binds the weights of a table. `below` and `name` stand before their names in the file; `out` and
 * `in` are the table's sizes -1 and -2. The first failure sticks to b, and later calls do
 * nothing. */
void vae_bind(vae_binder *b, const vt_weight *table, void *base, int64_t out, int64_t in,
              const char *below, const char *name);

/* Reads a tensor of the file that has one axis of n finite numbers, n <= VAE_MAX_CHANNELS. */
int vae_numbers(const vf_model *file, const char *name, int n, double *out, vc_err *err);

/* ---- chunks.c: one pass of a clip or of a tile through the encoder or the decoder ----
 *
 * A pass holds the pixels and the activations of one chunk, and the frames that convolutions carry
 * to the next chunk, whatever the clip's length. Decoding also holds the whole latent. */

typedef struct vae_pass {
    bool decodes;
    const float *source;             /* latent [C,t,h,w]; NULL: a dry pass, or encoding */
    const vae_input *pixels;        /* NULL: a dry pass, or decoding */
    int of[3];                       /* t, h, w of the source */
    int at[3], n[3];                 /* begin and size of the tile in the source */
    /* Receives each chunk of the result, which it may overwrite: values f32 [n,h,w,C], the frames
     * first..first+n-1. NULL: a dry pass. */
    int (*take)(void *arg, float *values, int first, int n, int h, int w, vc_err *err);
    void *arg;
    size_t peak;                     /* set by the pass: the most bytes of pool and scratch that it
                                      * had in use */
} vae_pass;

/* Runs the pass in a step of its own. */
int vae_run_pass(vae *v, vae_pass *p, vc_err *err);

#endif
