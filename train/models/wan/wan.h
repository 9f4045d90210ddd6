/* wan.h - a transformer of Wan, for wan*.c: config.json, weights, blocks; and the names and the
 * config.json that its first authors gave their models. */
#ifndef TRAIN_MODELS_WAN_H
#define TRAIN_MODELS_WAN_H

#include "common/nn/attention.h"
#include "formats/json/config.h"
#include "train/models/dit.h"

#define WAN_CLASS "WanTransformer3DModel"
#define WAN_VACE_CLASS "WanVACETransformer3DModel"
#define SKYREELS2_CLASS "SkyReelsV2Transformer3DModel"

/* Indices into sizes of the weight tables. IMAGE_D is D in models with IMAGE, VACE_D in models of
 * VACE, and RATE_D in models that read a frame rate. */
enum { D = -1, IN = -2, PATCH_T = -3, PATCH_H = -4, PATCH_W = -5, TIME = -6, TEXT = -7, HIDDEN = -8,
       SIX_D = -9, TOKEN_OUT = -10, IMAGE = -11, IMAGE_ROWS = -12, IMAGE_D = -13, VACE_IN = -14,
       VACE_D = -15, RATES = -16, RATE_D = -17, RATE_SIX_D = -18 };

typedef struct wan_block_weights {
    vt_tensor *table;                         /* [1,6,D]: shift, scale and gate of self-attention,
                                               * then of the feed-forward layer */
    nn_attention self, cross;
    nn_norm norm;                             /* before cross-attention */
    vt_lin image_k, image_v;                  /* of the CLIP embeddings */
    nn_norm norm_image_k;
    vt_lin up, down;
} wan_block_weights;

typedef struct wan_weights {
    vt_lin patch;                             /* w [D,IN,PATCH_T,PATCH_H,PATCH_W] */
    vt_lin time1, time2, time_proj, text1, text2, image1, image2, proj_out;
    nn_norm image_norm1, image_norm2;
    vt_tensor *image_positions;               /* [1,IMAGE_ROWS,IMAGE] */
    vt_tensor *table;                         /* [1,2,D]: shift and scale of the output */
    vt_lin vace_patch, vace_in;               /* of VACE: w [D,VACE_IN,PATCH_T,PATCH_H,PATCH_W] */
    vt_tensor *rates;                         /* [RATES,D]: of 16 frames a second, of other rates */
    vt_lin rate1, rate2;
} wan_weights;

#define WAN_LIN(type, field, name, out, in) \
    { name, VT_W_LINEAR, offsetof(type, field), { out, in }, VT_INIT_XAVIER }
#define WAN_VEC(type, field, name, n, start) \
    { name, VT_W_TENSOR, offsetof(type, field), { n }, start }
#define WAN_ATTENTION(field, name) \
    WAN_VEC(wan_block_weights, field.norm_q.w, name ".norm_q.weight", D, VT_INIT_ONE), \
    WAN_VEC(wan_block_weights, field.norm_k.w, name ".norm_k.weight", D, VT_INIT_ONE), \
    WAN_LIN(wan_block_weights, field.q, name ".to_q", D, D), \
    WAN_LIN(wan_block_weights, field.k, name ".to_k", D, D), \
    WAN_LIN(wan_block_weights, field.v, name ".to_v", D, D), \
    WAN_LIN(wan_block_weights, field.out, name ".to_out.0", D, D)
/* The rows of a block's table, whose struct begins with a wan_block_weights. */
#define WAN_BLOCK \
    { "scale_shift_table", VT_W_TENSOR, offsetof(wan_block_weights, table), { 1, 6, D }, \
      VT_INIT_NORMAL }, \
    WAN_ATTENTION(self, "attn1"), \
    WAN_VEC(wan_block_weights, norm.w, "norm2.weight", D, VT_INIT_ONE), \
    WAN_VEC(wan_block_weights, norm.b, "norm2.bias", D, VT_INIT_ZERO), \
    WAN_ATTENTION(cross, "attn2"), \
    WAN_LIN(wan_block_weights, image_k, "attn2.add_k_proj", IMAGE_D, IMAGE_D), \
    WAN_LIN(wan_block_weights, image_v, "attn2.add_v_proj", IMAGE_D, IMAGE_D), \
    WAN_VEC(wan_block_weights, norm_image_k.w, "attn2.norm_added_k.weight", IMAGE_D, VT_INIT_ONE), \
    WAN_LIN(wan_block_weights, up, "ffn.net.0.proj", HIDDEN, D), \
    WAN_LIN(wan_block_weights, down, "ffn.net.2", D, HIDDEN)

enum { WAN_MOST_VACE = 64 };
typedef struct wan {
    vtrain_dit dit;
    int64_t heads, head, layers, in_channels, out_channels, text, time, hidden, patch[3], positions;
    int64_t image, added, image_rows;         /* 0: there are none */
    int64_t vace[WAN_MOST_VACE], vace_in;     /* the blocks behind which a block of VACE adds its
                                               * result, and the channels of what VACE is given */
    int n_vace;                               /* 0: it is no model of VACE */
    int axes;
    bool rate;                                /* the clip's frame rate is an input */
    int64_t causal;                           /* n > 1: tokens attend to those of the frames up to
                                               * the end of their own run of n */
    double eps;
    int64_t clean;                            /* tokens of a clean first frame, in this step */
    int64_t frames;                           /* of which each has a time of its own, in this step;
                                               * 0: a row has one time but for a clean frame */
    int64_t all_frames, run;                  /* of this step: its frames, and those of a run, as
                                               * `causal`, or as vtrain_in.causal says */
    wan_weights w;
} wan;

/* vtrain_in.made: cos and sin of the rotations; which of the two embeddings of frame
 * rates a row has. */
enum { COS, SIN, RATE };
/* Inputs of a block: the video's tokens; those of VACE's stream, which other models lack; the
 * prompt's; the picture's; the numbers that modulate the tokens of a clean first frame, then the
 * others or, by rows and frames [B*f,..], all of them; cos and sin. The head reads the two embeddings of the time as well. */
enum { X, CONTROL, PROMPT, PICTURE, MOD, MADE = MOD + 2, N_IN = MADE + 2, E = N_IN };

/* The fields of config.json with the values of a file without the field. */
#define WAN_CONFIG(heads_, hidden_, layers_) \
    VF_INTS(wan, patch, axes, "patch_size", 3, 1, 16), \
    VF_INT(wan, heads, "num_attention_heads", heads_, 1, 256), \
    VF_INT(wan, head, "attention_head_dim", 128, 8, 256), \
    VF_INT(wan, in_channels, "in_channels", 16, 1, 1024), \
    VF_INT(wan, out_channels, "out_channels", 16, 1, 1024), \
    VF_INT(wan, text, "text_dim", 4096, 1, 65536), \
    VF_INT(wan, time, "freq_dim", 256, 2, 65536), \
    VF_INT(wan, hidden, "ffn_dim", hidden_, 1, 65536), \
    VF_INT(wan, layers, "num_layers", layers_, 1, 256), \
    VF_NUM(wan, eps, "eps", 1e-6, 1e-12, 1), \
    VF_INT(wan, image, "image_dim", 0, 1, 65536), \
    VF_INT(wan, added, "added_kv_proj_dim", 0, 1, 65536), \
    VF_INT(wan, image_rows, "pos_embed_seq_len", 0, 1, 65536), \
    VF_INT(wan, positions, "rope_max_seq_len", 1024, 1, 65536)

/* The tables and functions of the family's row (dit.h). */
extern const vt_weight wan_table[], wan_block_table[];       /* the latter below "blocks.%d." */
int wan_read(void *model, const cJSON *config, vc_err *err);
/* Does the same with other rows of fields, WAN_CONFIG's and more. */
int wan_read_rows(wan *m, const vf_config_row *rows, const cJSON *config, vc_err *err);
void wan_fit(const void *model, vtrain_fit *fit);
void wan_prepare(vt_ctx *g, void *model, vtrain_in *in);
void wan_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO]);
void wan_block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
               vt_tensor **out);
vt_tensor *wan_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s);

/* The first authors' names, of Wan, of VACE and of SkyReels V2. */
extern const vtrain_rename wan_names[], wan_vace_names[], skyreels2_names[];
/* vtrain_family.convert */
int wan_convert(cJSON **config, const cJSON *theirs, const vt_source *src, vc_err *err);
int wan_vace_convert(cJSON **config, const cJSON *theirs, const vt_source *src, vc_err *err);
int skyreels2_convert(cJSON **config, const cJSON *theirs, const vt_source *src, vc_err *err);

#endif
