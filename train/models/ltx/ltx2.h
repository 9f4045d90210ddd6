/* ltx2.h - the stream of a modality in LTX-2's transformer, which video and sound have alike in
 * widths of their own: its weights, its part of a block, its head. For train/models/ltx/ltx2*.c.
 *
 * ltx2.c is the model of the video alone, ltx2_sound.c that of video and sound. */
#ifndef TRAIN_MODELS_LTX2_H
#define TRAIN_MODELS_LTX2_H

#include "common/nn/attention.h"
#include "train/models/ltx/ltx2_connector.h"
#include "train/models/ltx/ltx_batch.h"

#define LTX2_QK_EPS 1e-6f

enum { LTX2_TIME = 256 };
enum ltx2_rope_type { LTX2_INTERLEAVED, LTX2_SPLIT };

/* Indices into the sizes of the weight tables. V_ are the video's, A_ the sound's: D the width, IN
 * and OUT the numbers of a token of the latents. PLAIN is D in 2.0, GATES and CROSS in 2.3 are the
 * heads and D; where a version lacks them they are absent. Sizes of the sound are those of the
 * model with sound alone. */
enum { V_D = -1, V_IN = -2, V_OUT = -3, TEXT = -4, V_HIDDEN = -5, MODS = -6, V_MODS_D = -7,
       V_PLAIN = -8, V_GATES = -9, V_CROSS = -10, V_TWO_D = -11,
       A_D = -12, A_IN = -13, A_OUT = -14, A_HIDDEN = -15, A_MODS_D = -16, A_PLAIN = -17,
       A_GATES = -18, A_CROSS = -19, A_TWO_D = -20, V_FOUR_D = -21, A_FOUR_D = -22 };

/* A stream's weights in a block. */
typedef struct ltx2_block {
    vt_tensor *table;                         /* [6,D]: shift, scale and gate of attention, then of
                                               * the feed-forward layer; [9,D]: then of the
                                               * attention to the prompt */
    vt_tensor *prompt;                        /* [2,D]: shift and scale of the prompt, or NULL */
    nn_attention self, cross;
    vt_lin up, down;
} ltx2_block;

/* A stream's weights outside of blocks. */
typedef struct ltx2_outer {
    vt_lin proj_in, time1, time2, time_proj, text1, text2, prompt1, prompt2, prompt_proj, proj_out;
    vt_tensor *table;                         /* [2,D]: shift and scale of the output */
} ltx2_outer;

/* Modulation by the time of a level. */
typedef struct ltx2_adaln { vt_lin time1, time2, proj; } ltx2_adaln;

typedef struct ltx2_weights {
    ltx2_outer video, sound;
    ltx2_adaln video_shift, sound_shift;      /* of each stream's part in the attention between */
    ltx2_adaln video_gate, sound_gate;        /* of its results */
} ltx2_weights;

typedef struct ltx2 {
    vtrain_dit dit;
    int64_t layers, heads, head, in_channels, out_channels, cross, text;
    int64_t sound_heads, sound_head, sound_in, sound_out, sound_cross;
    double eps, gate_times;
    bool gated, modulated, sound_gated, sound_modulated, projected, exact;
    int rope;
    ltx2_weights w;
    ltx2_connector *connector;                /* NULL: prompts have passed one */
    ltx2_connector *sound_connector;          /* of the model with sound, beside the other */
} ltx2;

#define LTX2_LIN(type, field, name, out, in) \
    { name, VT_W_LINEAR, offsetof(type, field), { out, in }, VT_INIT_XAVIER }
/* An attention whose queries are D wide, its heads INNER together, its keys from KEYS. */
#define LTX2_ATTENTION(type, field, name, D, INNER, KEYS, GATES) \
    { name ".norm_q.weight", VT_W_TENSOR, offsetof(type, field.norm_q.w), { INNER }, \
      VT_INIT_ONE }, \
    { name ".norm_k.weight", VT_W_TENSOR, offsetof(type, field.norm_k.w), { INNER }, \
      VT_INIT_ONE }, \
    LTX2_LIN(type, field.q, name ".to_q", INNER, D), \
    LTX2_LIN(type, field.k, name ".to_k", INNER, KEYS), \
    LTX2_LIN(type, field.v, name ".to_v", INNER, KEYS), \
    LTX2_LIN(type, field.gate, name ".to_gate_logits", GATES, D), \
    LTX2_LIN(type, field.out, name ".to_out.0", D, INNER)

#define LTX2_EMBEDDER "emb.timestep_embedder.linear_"
/* Rows of an ltx2_outer at field `at` of type; P is "" or "audio_", S is V or A. */
#define LTX2_OUTER_ROWS(type, at, P, S) \
    LTX2_LIN(type, at.proj_in, P "proj_in", S##_D, S##_IN), \
    { P "scale_shift_table", VT_W_TENSOR, offsetof(type, at.table), { 2, S##_D }, \
      VT_INIT_NORMAL }, \
    LTX2_LIN(type, at.time1, P "time_embed." LTX2_EMBEDDER "1", S##_D, LTX2_TIME), \
    LTX2_LIN(type, at.time2, P "time_embed." LTX2_EMBEDDER "2", S##_D, S##_D), \
    LTX2_LIN(type, at.time_proj, P "time_embed.linear", S##_MODS_D, S##_D), \
    LTX2_LIN(type, at.text1, P "caption_projection.linear_1", S##_PLAIN, TEXT), \
    LTX2_LIN(type, at.text2, P "caption_projection.linear_2", S##_PLAIN, S##_D), \
    LTX2_LIN(type, at.prompt1, P "prompt_adaln." LTX2_EMBEDDER "1", S##_CROSS, LTX2_TIME), \
    LTX2_LIN(type, at.prompt2, P "prompt_adaln." LTX2_EMBEDDER "2", S##_CROSS, S##_D), \
    LTX2_LIN(type, at.prompt_proj, P "prompt_adaln.linear", S##_TWO_D, S##_D), \
    LTX2_LIN(type, at.proj_out, P "proj_out", S##_OUT, S##_D)
/* Rows of an ltx2_block at field `at` of type. */
#define LTX2_BLOCK_ROWS(type, at, P, S) \
    { P "scale_shift_table", VT_W_TENSOR, offsetof(type, at.table), { MODS, S##_D }, \
      VT_INIT_NORMAL }, \
    { P "prompt_scale_shift_table", VT_W_TENSOR, offsetof(type, at.prompt), { 2, S##_CROSS }, \
      VT_INIT_NORMAL }, \
    LTX2_ATTENTION(type, at.self, P "attn1", S##_D, S##_D, S##_D, S##_GATES), \
    LTX2_ATTENTION(type, at.cross, P "attn2", S##_D, S##_D, S##_D, S##_GATES), \
    LTX2_LIN(type, at.up, P "ff.net.0.proj", S##_HIDDEN, S##_D), \
    LTX2_LIN(type, at.down, P "ff.net.2", S##_D, S##_HIDDEN)

/* ---- ltx2.c ---- */

/* Reads config.json; sizes are those of the video. */
int ltx2_read(void *model, const cJSON *config, vc_err *err);
void ltx2_free(void *model);
/* open_beside: opens the video's connector. */
int ltx2_open_connector(void *model, vt_ctx *g, const cJSON *config, const struct vf_model *file,
                        vc_err *err);
void ltx2_schedule(const cJSON *config, vtrain_scheduler *s);
/* The width of the prompts that the video's stream reads. */
int64_t ltx2_text_width(const ltx2 *m);

/* The authors' names of modules. */
extern const vtrain_rename ltx2_names[];

/* ---- ltx2_stream.c ---- */

/* Inputs of a stream's blocks, which depend on prompt and times. */
typedef struct ltx2_inputs {
    vt_tensor *x;                             /* [B,N,D] tokens */
    vt_tensor *prompt;                        /* [B,n,D] */
    vt_tensor *e;                             /* [B,D] or [B,N,D]: the embedding of the time */
    vt_tensor *mod, *prompt_mod;              /* the modulation of tokens and prompt */
} ltx2_inputs;
/* patches [B,N,IN]; text is the prompt after its connector; t and level as vtrain_in's token_t, or
 * t, and t. */
ltx2_inputs ltx2_stream_begin(vt_ctx *g, const ltx2 *m, const ltx2_outer *w, vt_tensor *patches,
                              vt_tensor *text, vt_tensor *t, vt_tensor *level);

/* What a stream's part of a block reads beside the tokens. */
typedef struct ltx2_part {
    int64_t heads;
    vt_tensor *prompt, *mod, *prompt_mod;     /* as ltx2_inputs' */
    vt_tensor *cos, *sin;                     /* of the tokens */
    vt_tensor *tokens, *keys;                 /* i32 [B]: how many tokens of a row are attended to,
                                               * and rows of its prompt; NULL: all */
} ltx2_part;
enum { LTX2_MODS = 9 };
/* Adds self-attention and attention to the prompt to x; e gets the parts of the modulation. */
vt_tensor *ltx2_stream_attend(vt_ctx *g, const ltx2 *m, const ltx2_block *w, vt_tensor *x,
                              const ltx2_part *p, vt_tensor *e[LTX2_MODS]);
/* Adds the feed-forward layer. */
vt_tensor *ltx2_stream_feed(vt_ctx *g, const ltx2 *m, const ltx2_block *w, vt_tensor *x,
                            vt_tensor *const e[LTX2_MODS]);

#endif
