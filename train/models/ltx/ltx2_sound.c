/* ltx2_sound.c - LTX-2 with its sound: two streams of ltx2.h in each block, and attention between
 * them, in which each reads what the other was before it.
 *
 * The sound of a clip is as long as its frames at their rate, so that rows of a batch may differ in
 * it: a row's tokens behind its sound are attended to by none. A clip without sound passes as one
 * that no sound was given with: its video gets nothing of the other stream. */
#include <stdlib.h>
#include <string.h>

#include "common/nn/embeddings.h"
#include "common/tensor/exchange.h"
#include "formats/json/config.h"
#include "formats/tensors/model.h"
#include "train/models/ltx/ltx2.h"

#define DEFAULT_FPS 24

enum { MLP = 4 };
enum { VIDEO, SOUND };                        /* of x in a block, and the parts of a sequence that
                                               * processes share */

typedef struct block_weights {
    ltx2_block video, sound;
    nn_attention to_video, to_sound;          /* queries of the video, keys of the sound; the other
                                               * way round */
    vt_tensor *video_table, *sound_table;     /* [5,D]: of a stream's tokens scale and shift where
                                               * the video has the queries, scale and shift where
                                               * the sound has them, the gate of its result */
} block_weights;

#define ADALN(at, name, S, PROJ) \
    LTX2_LIN(ltx2_weights, at.time1, name "." LTX2_EMBEDDER "1", S##_D, LTX2_TIME), \
    LTX2_LIN(ltx2_weights, at.time2, name "." LTX2_EMBEDDER "2", S##_D, S##_D), \
    LTX2_LIN(ltx2_weights, at.proj, name ".linear", PROJ, S##_D)
static const vt_weight model_table[] = {
    LTX2_OUTER_ROWS(ltx2_weights, video, "", V),
    LTX2_OUTER_ROWS(ltx2_weights, sound, "audio_", A),
    ADALN(video_shift, "av_cross_attn_video_scale_shift", V, V_FOUR_D),
    ADALN(sound_shift, "av_cross_attn_audio_scale_shift", A, A_FOUR_D),
    ADALN(video_gate, "av_cross_attn_video_a2v_gate", V, V_D),
    ADALN(sound_gate, "av_cross_attn_audio_v2a_gate", A, A_D),
    { 0 }
};

static const vt_weight block_table[] = {      /* names follow "transformer_blocks.%d." */
    LTX2_BLOCK_ROWS(block_weights, video, "", V),
    LTX2_BLOCK_ROWS(block_weights, sound, "audio_", A),
    LTX2_ATTENTION(block_weights, to_video, "audio_to_video_attn", V_D, A_D, A_D, V_GATES),
    LTX2_ATTENTION(block_weights, to_sound, "video_to_audio_attn", A_D, A_D, V_D, A_GATES),
    { "video_a2v_cross_attn_scale_shift_table", VT_W_TENSOR,
      offsetof(block_weights, video_table), { 5, V_D }, VT_INIT_NORMAL },
    { "audio_a2v_cross_attn_scale_shift_table", VT_W_TENSOR,
      offsetof(block_weights, sound_table), { 5, A_D }, VT_INIT_NORMAL },
    { 0 }
};

/* vtrain_in.made: cosines and sines of the video, of the sound, and of both by their times alone;
 * the number of keys of each prompt; that of the sound's tokens; 1 for a row with sound, 0 for one
 * without; what the connectors need. */
enum { COS, SIN, A_COS, A_SIN, T_COS, T_SIN, AT_COS, AT_SIN, KEYS, TOKENS, HEARD, CONNECTOR,
       A_CONNECTOR = CONNECTOR + LTX2_CONNECTOR_MADE };
/* The inputs of a block: tokens, prompts and modulations of both streams, the modulation of the
 * attention between them, and of made what is before CONNECTOR. The heads also read the embeddings
 * of the times. */
enum { X, A_X, PROMPT, A_PROMPT, MOD, A_MOD, PROMPT_MOD, A_PROMPT_MOD, SHIFT, A_SHIFT, GATE,
       A_GATE, MADE, N_IN = MADE + CONNECTOR, E = N_IN, A_E };
_Static_assert((int)A_E < (int)VT_BLOCK_IO && (int)A_CONNECTOR + (int)LTX2_CONNECTOR_MADE <=
               (int)VTRAIN_MADE, "room");

/* ---- config.json ---- */

static const vf_config_row only[] = {
    VF_ONLY_INT("audio_patch_size", 1), VF_ONLY_INT("audio_patch_size_t", 1),
    VF_ONLY_INT("audio_pos_embed_max_pos", 20), VF_ONLY_INT("audio_scale_factor", 4),
    VF_ONLY_INT("audio_sampling_rate", 16000), VF_ONLY_INT("audio_hop_length", 160),
    VF_ONLY_FLAG("audio_ff_bias", true),
    { 0 }
};

static int64_t width(const ltx2 *m) { return m->sound_heads * m->sound_head; }

static int check(const ltx2 *m, vc_err *err)
{
    if (m->sound_head % 8 || m->sound_cross != width(m))
        return vc_fail(err, VC_EFORMAT, "audio_attention_head_dim must be a multiple of 8, and "
                       "audio_num_attention_heads times it audio_cross_attention_dim");
    if (m->sound_heads != m->heads)
        return vc_fail(err, VC_EFORMAT, "audio_num_attention_heads: %lld, but num_attention_heads "
                       "is %lld: the streams of known models have equally many",
                       (long long)m->sound_heads, (long long)m->heads);
    if (m->sound_in != m->sound_out)
        return vc_fail(err, VC_EFORMAT, "audio_in_channels: %lld with audio_out_channels %lld is "
                       "no known model", (long long)m->sound_in, (long long)m->sound_out);
    return 0;
}

static int sound_read(void *model, const cJSON *config, vc_err *err)
{
    ltx2 *m = model;
    int rc = ltx2_read(model, config, err);
    if (!rc)
        rc = vf_config_read(m, only, config, err);
    if (!rc)
        rc = check(m, err);
    if (rc)
        return rc;
    const int64_t d = width(m);
    int64_t *sizes = m->dit.sizes;
    sizes[-A_D] = d;
    sizes[-A_IN] = m->sound_in;
    sizes[-A_OUT] = m->sound_out;
    sizes[-A_HIDDEN] = MLP * d;
    sizes[-A_MODS_D] = sizes[-MODS] * d;
    sizes[-A_PLAIN] = m->projected ? d : VT_ABSENT;
    sizes[-A_GATES] = m->sound_gated ? m->sound_heads : VT_ABSENT;
    sizes[-A_CROSS] = m->modulated ? d : VT_ABSENT;
    sizes[-A_TWO_D] = m->modulated ? 2 * d : VT_ABSENT;
    sizes[-V_FOUR_D] = 4 * sizes[-V_D];
    sizes[-A_FOUR_D] = 4 * d;
    return 0;
}

/* ---- prompts ---- */

static int64_t sound_text_width(const ltx2 *m) { return m->projected ? m->text : width(m); }

/* Whether both connectors read the same features, as those of 2.0 do. In 2.3 each has its own, the
 * video's before the sound's in a row, and so are prompts that have passed connectors. */
static bool same_features(const ltx2 *m) { return m->connector && m->projected; }

static int open_connectors(void *model, vt_ctx *g, const cJSON *config, const vf_model *file,
                           vc_err *err)
{
    ltx2 *m = model;
    const vt_source src = vf_model_source(file);
    int rc = ltx2_open_connector(m, g, config, file, err);
    if (!rc)
        rc = ltx2_connector_open(&m->sound_connector, g, LTX2_OF_SOUND, config, &src,
                                 LTX2_PROMPT_ROWS, err);
    if (!rc && ltx2_connector_width(m->sound_connector) != sound_text_width(m))
        rc = vc_fail(err, VC_EMISMATCH, "the connector's prompts of sound are %lld wide, but the "
                     "transformer reads %lld: give the connectors of this transformer",
                     (long long)ltx2_connector_width(m->sound_connector),
                     (long long)sound_text_width(m));
    return rc;
}

/* A stream's part of the stored prompts or features. */
static vt_tensor *text_of(vt_ctx *g, const ltx2 *m, const vtrain_in *in, bool sound)
{
    const int64_t split = ltx2_text_width(m);
    vt_tensor *x = in->text[0].embeds;
    if (!same_features(m))
        x = vt_slice(g, x, 2, sound ? split : 0, sound ? split + sound_text_width(m) : split);
    const ltx2_connector *c = sound ? m->sound_connector : m->connector;
    return c ? ltx2_connector_run(g, c, x, in->made + (sound ? A_CONNECTOR : CONNECTOR))
             : vt_cast(g, x, vt_compute(g));
}

static void sound_fit(const void *model, vtrain_fit *fit)
{
    const ltx2 *m = model;
    const int64_t both = ltx2_text_width(m) + sound_text_width(m);
    *fit = (vtrain_fit){ .channels = (int)m->in_channels, .n_texts = 1,
                         .text_width = { same_features(m) ? m->text : both },
                         .text_rows = { LTX2_PROMPT_ROWS },
                         .mult = { 1, 1, 1 }, .token_times = true, .fps = DEFAULT_FPS,
                         .blocks = (int)m->layers, .heads = m->heads,
                         .sound = (int)m->sound_in };
    if (m->connector)
        fit->held = ltx2_connector_bytes(m->connector) + ltx2_connector_bytes(m->sound_connector);
}

/* ---- inputs from the host ---- */

static bool make_ropes(vt_ctx *g, const ltx2 *m, vtrain_in *in)
{
    const int64_t *d = in->x->dim + 2, l = in->sound->dim[2], pairs = width(m) / 2;
    const ltx_grid video = { .dim = { d[0], d[1], d[2] }, .pairs = m->heads * m->head / 2,
                             .middle = true, .exact = m->exact };
    const ltx_grid sound = { .dim = { l, 1, 1 }, .pairs = pairs, .exact = m->exact, .times = true,
                             .sound = true };
    ltx_grid times = video;
    times.pairs = pairs;
    times.times = true;
    return ltx_make_rope(g, &video, in, in->made + COS) &&
           ltx_make_rope(g, &sound, in, in->made + A_COS) &&
           ltx_make_rope(g, &times, in, in->made + T_COS) &&
           ltx_make_rope(g, &sound, in, in->made + AT_COS);
}

static void make_lengths(vt_ctx *g, vtrain_in *in)
{
    const int64_t rows = in->sound->dim[0], dim[3] = { rows, 1, 1 };
    int32_t tokens[VTRAIN_ROWS];
    float heard[VTRAIN_ROWS];
    for (int64_t b = 0; b < rows; b++) {
        heard[b] = in->sound_length[b] > 0;
        tokens[b] = in->sound_length[b] > 0 ? in->sound_length[b] : 1;
    }
    in->made[TOKENS] = vt_from_host(g, VC_I32, 1, &rows, tokens, VC_I32);
    in->made[HEARD] = vt_from_host(g, VC_F32, 3, dim, heard, VC_F32);
}

static void sound_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    const ltx2 *m = model;
    if (!in->x || !in->text[0].embeds || !in->sound || vt_failed(g))
        return;
    if (in->sound->dim[1] * in->sound->dim[4] != m->sound_in) {
        vt_fail(g, VC_EMISMATCH, "the sound has %lld channels of %lld bins, the transformer takes "
                "%lld numbers in all", (long long)in->sound->dim[1], (long long)in->sound->dim[4],
                (long long)m->sound_in);
        return;
    }
    if (!make_ropes(g, m, in))
        return;
    make_lengths(g, in);
    in->made[KEYS] = m->connector ? NULL : vtrain_key_lengths(g, &in->text[0], 0);
    if (!m->connector)
        return;
    ltx2_connector_prepare(g, m->connector, &in->text[0], in->made + CONNECTOR);
    ltx2_connector_prepare(g, m->sound_connector, &in->text[0], in->made + A_CONNECTOR);
}

/* ---- forward ---- */

/* The patch of a latent frame of sound: all of its bins. */
static int bins_of(const vtrain_in *in) { return (int)in->sound->dim[4]; }

static vt_tensor *modulation(vt_ctx *g, const ltx2_adaln *w, vt_tensor *t, int64_t n)
{
    return nn_modulation(g, vt_silu(g, nn_embed_number(g, t, &w->time1, &w->time2, VC_F32)),
                         &w->proj, n);
}

/* The modulation between the streams is by the level of the other stream's noise, which is that of
 * the row: diffusers' use_cross_timestep. */
static void embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const ltx2 *m = model;
    const ltx2_weights *w = &m->w;
    if (vt_failed(g))
        return;
    vt_tensor *gate = vt_scale(g, in->t, (float)(m->gate_times / VTRAIN_TIMES));
    const ltx2_inputs v = ltx2_stream_begin(g, m, &w->video,
                                            nn_patches(g, in->x, (int[]){ 1, 1, 1 }),
                                            text_of(g, m, in, false),
                                            in->token_t ? in->token_t : in->t, in->t);
    const ltx2_inputs a = ltx2_stream_begin(g, m, &w->sound,
                                            nn_patches(g, in->sound,
                                                       (int[]){ 1, 1, bins_of(in) }),
                                            text_of(g, m, in, true), in->t, in->t);
    s[X] = v.x, s[A_X] = a.x;
    s[PROMPT] = v.prompt, s[A_PROMPT] = a.prompt;
    s[MOD] = v.mod, s[A_MOD] = a.mod;
    s[PROMPT_MOD] = v.prompt_mod, s[A_PROMPT_MOD] = a.prompt_mod;
    s[SHIFT] = modulation(g, &w->video_shift, in->t, 4);
    s[A_SHIFT] = modulation(g, &w->sound_shift, in->t, 4);
    s[GATE] = modulation(g, &w->video_gate, gate, 1);
    s[A_GATE] = modulation(g, &w->sound_gate, gate, 1);
    s[E] = v.e, s[A_E] = a.e;
    memcpy(s + MADE, in->made, CONNECTOR * sizeof *in->made);
}

/* Where processes share the sequence, its parts are its two streams; from now on that of one
 * stream alone is shared. */
static void share(vt_ctx *g, const ltx2 *m, int stream)
{
    vt_share_tokens(g, m->dit.part[stream]);
}

/* The heads of a stream's own tokens. */
static vt_tensor *in_heads(vt_ctx *g, const ltx2 *m, vt_tensor *x, const vt_lin *l,
                           const nn_norm *norm, vt_tensor *const rope[2])
{
    const bool split = m->rope == LTX2_SPLIT;
    const nn_heads plain = { m->sound_heads, LTX2_QK_EPS, NULL, NULL, 0 };
    const nn_heads all = { m->sound_heads, LTX2_QK_EPS, rope[0], rope[1], 0 };
    const nn_heads own = nn_own_heads(g, &all);
    x = nn_project(g, x, l, norm, split ? &plain : &own);
    return vt_to_heads(g, split ? nn_rotate_halves(g, x, own.cos, own.sin) : x);
}

/* The queries of stream `to` of x see the keys of the other one; rope are the rotations of either
 * by the times, keys the number of keys of each row. */
static vt_tensor *between(vt_ctx *g, const ltx2 *m, const nn_attention *w, vt_tensor *const x[2],
                          vt_tensor *const *const rope[2], int to, vt_tensor *keys)
{
    const nn_heads plain = { m->sound_heads, LTX2_QK_EPS, NULL, NULL, 0 };
    const int from = !to;
    share(g, m, from);
    vt_tensor *k = in_heads(g, m, x[from], &w->k, &w->norm_k, rope[from]);
    vt_tensor *v = vt_to_heads(g, nn_project(g, x[from], &w->v, NULL, &plain));
    share(g, m, to);
    vt_tensor *q = in_heads(g, m, x[to], &w->q, &w->norm_q, rope[to]);
    vt_tensor *o = vt_to_tokens(g, vt_attention(g, q, k, v, &(vt_attn){ .kv_len = keys }));
    return nn_gated_out(g, nn_all_heads(g, o), x[to], w, m->sound_heads);
}

/* Adds the attention between the streams to both. */
static void exchange(vt_ctx *g, const ltx2 *m, const block_weights *w, vt_tensor *const *in,
                     vt_tensor *x[2])
{
    vt_tensor *const table[2] = { w->video_table, w->sound_table }, *mod[2][4], *gate[2], *h[2];
    vt_tensor *const *const rope[2] = { in + MADE + T_COS, in + MADE + AT_COS };
    const float eps = (float)m->eps;
    for (int i = 0; i < 2; i++) {
        nn_chunk(g, vt_add(g, in[SHIFT + i], vt_slice(g, table[i], 0, 0, 4)), 4, mod[i]);
        gate[i] = vt_add(g, in[GATE + i], vt_slice(g, table[i], 0, 4, 5));
    }
    for (int i = 0; i < 2; i++)
        h[i] = vt_rms_norm_modulate(g, x[i], NULL, mod[i][1], mod[i][0], eps);
    vt_tensor *video = between(g, m, &w->to_video, h, rope, VIDEO, in[MADE + TOKENS]);
    for (int i = 0; i < 2; i++)
        h[i] = vt_rms_norm_modulate(g, x[i], NULL, mod[i][3], mod[i][2], eps);
    vt_tensor *sound = between(g, m, &w->to_sound, h, rope, SOUND, NULL);
    x[VIDEO] = vt_gated_add(g, x[VIDEO], video, vt_mul(g, gate[VIDEO], in[MADE + HEARD]));
    x[SOUND] = vt_gated_add(g, x[SOUND], sound, gate[SOUND]);
}

static void block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                  vt_tensor **out)
{
    const ltx2 *m = model;
    const block_weights *w = weights;
    const ltx2_part video = { m->heads, in[PROMPT], in[MOD], in[PROMPT_MOD], in[MADE + COS],
                              in[MADE + SIN], NULL, in[MADE + KEYS] };
    const ltx2_part sound = { m->sound_heads, in[A_PROMPT], in[A_MOD], in[A_PROMPT_MOD],
                              in[MADE + A_COS], in[MADE + A_SIN], in[MADE + TOKENS],
                              in[MADE + KEYS] };
    vt_tensor *e[2][LTX2_MODS], *x[2];
    share(g, m, VIDEO);
    x[VIDEO] = ltx2_stream_attend(g, m, &w->video, in[X], &video, e[VIDEO]);
    share(g, m, SOUND);
    x[SOUND] = ltx2_stream_attend(g, m, &w->sound, in[A_X], &sound, e[SOUND]);
    exchange(g, m, w, in, x);
    out[VIDEO] = ltx2_stream_feed(g, m, &w->video, x[VIDEO], e[VIDEO]);
    out[SOUND] = ltx2_stream_feed(g, m, &w->sound, x[SOUND], e[SOUND]);
}

static vt_tensor *predict(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    const ltx2_outer *w = &((ltx2 *)model)->w.video;
    share(g, model, VIDEO);
    return ltx_head(g, in, s[X], s[E], w->table, &w->proj_out);
}

static vt_tensor *predict_sound(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    const ltx2_outer *w = &((ltx2 *)model)->w.sound;
    share(g, model, SOUND);
    vt_tensor *y = vt_all_tokens(g, ltx_out(g, s[A_X], s[A_E], w->table, &w->proj_out));
    y = vt_unpatchify(g, y, in->sound->dim + 1, 1, 1, bins_of(in), VT_C_FIRST);
    vtrain_note(in, "audio_model_output", y);
    return y;
}

const vtrain_family vtrain_ltx2_sound = {
    .class_name = "LTX2VideoTransformer3DModel", .lora_names = ltx2_names,
    .text_args = { "encoder_hidden_states" }, .layout = VTRAIN_TOKENS,
    .size = sizeof(ltx2), .weights = offsetof(ltx2, w), .table = model_table,
    .beside = "connectors", .open_beside = open_connectors, .free = ltx2_free,
    .read = sound_read, .fit = sound_fit,
    .prepare = sound_prepare, .embed = embed,
    .blocks = { { "transformer_blocks.%d.", block_table, sizeof(block_weights), N_IN, 2, block,
                  NULL, NULL } },
    .head = predict, .sound_head = predict_sound, .two_parts = true,
    .objective = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
    .flow_shift = 1, .logit_mean = 0, .logit_std = 1, .schedule = ltx2_schedule,
    .posterior_mean = true, .bf16 = true,
    .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 3, .batch = 1, .steps = 1000,
    .lora_targets = "to_q,to_k,to_v,to_out.0", .without_sound = &vtrain_ltx2,
};
