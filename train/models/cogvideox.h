/* cogvideox.h - config.json, weights and forward of a CogVideoX transformer; for cogvideox*.c, and
 * for ttt*.c, whose blocks have more layers in place of attention alone. */
#ifndef TRAIN_MODELS_COGVIDEOX_H
#define TRAIN_MODELS_COGVIDEOX_H

#include "common/nn/attention.h"
#include "train/models/dit.h"

typedef struct cogvideox_config {
    int64_t heads, head, layers, in_channels, out_channels, text, time;
    int64_t ofs, patch, patch_t;              /* ofs and patch_t are 0 where the model has none */
    int64_t rows, columns, frames;            /* sample_height and sample_width, in latents, and
                                               * sample_frames, in pixel frames */
    int64_t compression, max_text;
    double eps, spatial_scale, temporal_scale;
    bool rotary, learned, patch_bias;
    bool control;                             /* beside the noisy latents are those of a control
                                               * clip, not of an image; no field of diffusers', the
                                               * pipeline decides (vtrain_weights_pipeline) */
} cogvideox_config;

/* Reads config.json; a missing field has diffusers' default. VC_EFORMAT: a field has a value of
 * another kind, out of range or not supported. VC_EINVAL: the fields describe no known variant. The
 * messages name the field. */
int cogvideox_config_read(cogvideox_config *c, const cJSON *o, vc_err *err);

/* Indices into the sizes of the weight tables. */
enum { D = -1, TIME = -2, TEXT = -3, HEAD = -4, HIDDEN = -5, SIX_D = -6, TWO_D = -7, IN = -8,
       PATCH = -9, TOKEN_IN = -10, TOKEN_OUT = -11, OFS_D = -12, TABLE = -13, BIAS = -14 };

typedef struct cogvideox_block {
    vt_lin mod1, mod2;                        /* [6D,TIME]: shift, scale and gate of the video, then
                                               * of the text */
    nn_norm norm1, norm2;
    nn_attention attn;
    vt_lin up, down;
} cogvideox_block;

typedef struct cogvideox_weights {
    vt_lin patch;                             /* w [D,IN,PATCH,PATCH], or with patch_size_t
                                               * [D,TOKEN_IN] */
    vt_tensor *table;                         /* [1,TABLE,D], text rows first; NULL: not stored */
    vt_lin text, time1, time2, ofs1, ofs2, mod_out, proj_out;
    nn_norm final, out;
} cogvideox_weights;

typedef struct cogvideox {
    vtrain_dit dit;
    cogvideox_config c;
    cogvideox_weights w;
    int patch[3];                             /* latent frames, rows, columns of a token */
    int64_t video;                            /* video tokens of the step in progress */
} cogvideox;

/* vtrain_in.made: cosines and sines of the rotations; sinusoids by frame, column and row; OFS. A
 * tensor that the model does not need is NULL. */
enum { COG_ROPE, COG_SINCOS = 2, COG_OFS = 5, COG_MADE };
/* The inputs of a block: the sequence [B,n+N,D], the embedding of the time [B,TIME], and the tables
 * of the rotations, which are NULL in 2B. */
enum { COG_X, COG_TIME, COG_COS, COG_SIN, COG_IN };

/* The functions of the family's row (dit.h); the model begins with a cogvideox. */
int cogvideox_read(void *model, const cJSON *config, vc_err *err);
void cogvideox_fit(const void *model, vtrain_fit *fit);
void cogvideox_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO]);
vt_tensor *cogvideox_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s);
/* Whether the model reads latents and prompts of these sizes; fails the step where it does not. */
bool cogvideox_check(vt_ctx *g, const cogvideox *m, const vtrain_in *in);
/* The heads of the block's attention in a sequence whose first n tokens are text. */
nn_heads cogvideox_heads(const cogvideox *m, vt_tensor *const *in, int64_t n);
/* Runs a block with `mix` in place of attention: it makes of the normalised sequence h [B,n+N,D] of
 * n text and N video tokens the branch that is gated and added. weights begin with a
 * cogvideox_block; in are the block's inputs. */
typedef vt_tensor *cogvideox_mix(vt_ctx *g, const void *model, const void *weights, vt_tensor *h,
                                 vt_tensor *const *in);
vt_tensor *cogvideox_run(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                         cogvideox_mix *mix);

#endif
