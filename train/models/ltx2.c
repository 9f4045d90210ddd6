/* ltx2.c - LTX-2 (HaCohen et al. 2026) without sound: the video's stream of a model of two streams,
 * whose blocks here leave the sound and the attention between the streams out, as diffusers'
 * LTX2VideoTransformer3DModel does with isolate_modalities. Versions 2.0 and 2.3.
 *
 * A block is LTX-Video's (ltx.c) with a norm before the attention to the prompt. In 2.3 heads are
 * gated, and that attention is modulated too: its queries by the timestep of each token, its keys
 * and values by the level of the sample's noise. A prompt first passes the connector. */
#include <string.h>

#include "common/nn/attention.h"
#include "common/nn/embeddings.h"
#include "formats/json/config.h"
#include "formats/tensors/model.h"
#include "train/models/ltx2_connector.h"
#include "train/models/ltx_batch.h"

#define QK_EPS 1e-6f
#define DEFAULT_FPS 24                        /* the default frame_rate of diffusers' pipelines */

enum { TIME = 256, MLP = 4, MAX_WIDTH = 16384 };

/* Indices into the sizes of the weight tables. PLAIN is D in 2.0, GATES and CROSS in 2.3 are the
 * heads and D; where a version lacks them they are absent. */
enum { D = -1, IN = -2, OUT = -3, TEXT = -4, HIDDEN = -5, MODS = -6, MODS_D = -7, PLAIN = -8,
       GATES = -9, CROSS = -10, TWO_D = -11 };

typedef struct block_weights {
    vt_tensor *table;                         /* [6,D]: shift, scale and gate of attention, then of
                                               * the feed-forward layer; [9,D]: then of the
                                               * attention to the prompt */
    vt_tensor *prompt;                        /* [2,D]: shift and scale of the prompt, or NULL */
    nn_attention self, cross;
    vt_lin up, down;
} block_weights;

typedef struct model_weights {
    vt_lin proj_in, time1, time2, time_proj, text1, text2, prompt1, prompt2, prompt_proj, proj_out;
    vt_tensor *table;                         /* [2,D]: shift and scale of the output */
} model_weights;

#define LIN(type, field, name, out, in) \
    { name, VT_W_LINEAR, offsetof(type, field), { out, in }, VT_INIT_XAVIER }
#define ATTENTION(field, name) \
    { name ".norm_q.weight", VT_W_TENSOR, offsetof(block_weights, field.norm_q.w), { D }, \
      VT_INIT_ONE }, \
    { name ".norm_k.weight", VT_W_TENSOR, offsetof(block_weights, field.norm_k.w), { D }, \
      VT_INIT_ONE }, \
    LIN(block_weights, field.q, name ".to_q", D, D), \
    LIN(block_weights, field.k, name ".to_k", D, D), \
    LIN(block_weights, field.v, name ".to_v", D, D), \
    LIN(block_weights, field.gate, name ".to_gate_logits", GATES, D), \
    LIN(block_weights, field.out, name ".to_out.0", D, D)

#define EMBEDDER "emb.timestep_embedder.linear_"
static const vt_weight model_table[] = {
    LIN(model_weights, proj_in, "proj_in", D, IN),
    { "scale_shift_table", VT_W_TENSOR, offsetof(model_weights, table), { 2, D }, VT_INIT_NORMAL },
    LIN(model_weights, time1, "time_embed." EMBEDDER "1", D, TIME),
    LIN(model_weights, time2, "time_embed." EMBEDDER "2", D, D),
    LIN(model_weights, time_proj, "time_embed.linear", MODS_D, D),
    LIN(model_weights, text1, "caption_projection.linear_1", PLAIN, TEXT),
    LIN(model_weights, text2, "caption_projection.linear_2", PLAIN, D),
    LIN(model_weights, prompt1, "prompt_adaln." EMBEDDER "1", CROSS, TIME),
    LIN(model_weights, prompt2, "prompt_adaln." EMBEDDER "2", CROSS, D),
    LIN(model_weights, prompt_proj, "prompt_adaln.linear", TWO_D, D),
    LIN(model_weights, proj_out, "proj_out", OUT, D),
    { 0 }
};

static const vt_weight block_table[] = {      /* names follow "transformer_blocks.%d." */
    { "scale_shift_table", VT_W_TENSOR, offsetof(block_weights, table), { MODS, D },
      VT_INIT_NORMAL },
    { "prompt_scale_shift_table", VT_W_TENSOR, offsetof(block_weights, prompt), { 2, CROSS },
      VT_INIT_NORMAL },
    ATTENTION(self, "attn1"),
    ATTENTION(cross, "attn2"),
    LIN(block_weights, up, "ff.net.0.proj", HIDDEN, D),
    LIN(block_weights, down, "ff.net.2", D, HIDDEN),
    { 0 }
};

/* The stream of the sound, and the attention between the streams. */
static const char *const spare[] = {
    "*audio_*", "av_cross_attn_*", "transformer_blocks.*.video_a2v_cross_attn_scale_shift_table",
    NULL
};

typedef struct ltx2 {
    vtrain_dit dit;
    int64_t layers, heads, head, in_channels, out_channels, cross, text;
    double eps;
    bool gated, modulated, sound_modulated, projected, exact;
    int rope;
    model_weights w;
    ltx2_connector *connector;                /* NULL: prompts have passed one */
} ltx2;

enum rope { INTERLEAVED, SPLIT };

/* vtrain_in.made: cosines and sines of the rotations; the number of keys of each prompt; what the
 * connector needs. */
enum { COS, SIN, KEYS, CONNECTOR };
/* The inputs of a block: the video's tokens; the prompt's tokens; the modulation of the tokens and
 * of the prompt; all of made. The head also reads the embedding of the time. */
enum { X, PROMPT, MOD, PROMPT_MOD, MADE, N_IN = MADE + 3, E = N_IN };

/* ---- config.json ---- */

static const vf_config_row config_rows[] = {
    VF_INT(ltx2, layers, "num_layers", 48, 1, 256),
    VF_INT(ltx2, heads, "num_attention_heads", 32, 1, 256),
    VF_INT(ltx2, head, "attention_head_dim", 128, 8, 256),
    VF_INT(ltx2, in_channels, "in_channels", 128, 1, 1024),
    VF_INT(ltx2, out_channels, "out_channels", 128, 1, 1024),
    VF_INT(ltx2, cross, "cross_attention_dim", 4096, 1, MAX_WIDTH),
    VF_INT(ltx2, text, "caption_channels", 3840, 1, 65536),
    VF_NUM(ltx2, eps, "norm_eps", 1e-6, 1e-12, 1),
    VF_FLAG(ltx2, gated, "gated_attn", false),
    VF_FLAG(ltx2, modulated, "cross_attn_mod", false),
    VF_FLAG(ltx2, sound_modulated, "audio_cross_attn_mod", false),
    VF_FLAG(ltx2, projected, "use_prompt_embeddings", true),
    VF_FLAG(ltx2, exact, "rope_double_precision", true),
    VF_WORD(ltx2, rope, "rope_type", "interleaved", "interleaved|split"),
    { 0 }
};

static int check(const ltx2 *m, int64_t d, vc_err *err)
{
    if (m->head % 8 || d > MAX_WIDTH || m->cross != d)
        return vc_fail(err, VC_EFORMAT, "attention_head_dim must be a multiple of 8, and "
                       "num_attention_heads times attention_head_dim must be cross_attention_dim "
                       "and at most %d", MAX_WIDTH);
    if (m->in_channels != m->out_channels)
        return vc_fail(err, VC_EFORMAT, "in_channels: %lld with out_channels %lld is no known "
                       "model", (long long)m->in_channels, (long long)m->out_channels);
    if (m->modulated != m->sound_modulated)
        return vc_fail(err, VC_EFORMAT, "cross_attn_mod and audio_cross_attn_mod differ, as in no "
                       "known model: 2.0 has neither, 2.3 both");
    return 0;
}

static int ltx2_read(void *model, const cJSON *config, vc_err *err)
{
    ltx2 *m = model;
    int rc = vf_config_read(m, config_rows, config, err);
    int64_t d = m->heads * m->head, mods = m->modulated ? 9 : 6;
    if (!rc)
        rc = check(m, d, err);
    if (rc)
        return rc;
    const int64_t sizes[VTRAIN_SIZES] = {
        [-D] = d, [-IN] = m->in_channels, [-OUT] = m->out_channels, [-TEXT] = m->text,
        [-HIDDEN] = MLP * d, [-MODS] = mods, [-MODS_D] = mods * d,
        [-PLAIN] = m->projected ? d : VT_ABSENT, [-GATES] = m->gated ? m->heads : VT_ABSENT,
        [-CROSS] = m->modulated ? d : VT_ABSENT, [-TWO_D] = m->modulated ? 2 * d : VT_ABSENT,
    };
    memcpy(m->dit.sizes, sizes, sizeof sizes);
    m->dit.layers[0] = m->layers;
    return 0;
}

static int64_t text_width(const ltx2 *m) { return m->projected ? m->text : m->heads * m->head; }

/* Tensors of the connectors that make features, which vprep has stored, and those of the sound. */
static const char *const connector_spare[] = { "*audio_*", "*text_proj_in.*", NULL };

static int ltx2_open_connector(void *model, vt_ctx *g, const cJSON *config, const vf_model *file,
                               vc_err *err)
{
    ltx2 *m = model;
    const vt_source src = vf_model_source(file);
    int rc = ltx2_connector_open(&m->connector, g, config, &src, LTX2_PROMPT_ROWS, err);
    if (!rc)
        rc = vf_model_all_bound(file, ltx2_connector_params(m->connector), connector_spare, err);
    if (!rc && ltx2_connector_width(m->connector) != text_width(m))
        rc = vc_fail(err, VC_EMISMATCH, "the connector's prompts are %lld wide, but the "
                     "transformer reads %lld: give the connectors of this transformer",
                     (long long)ltx2_connector_width(m->connector), (long long)text_width(m));
    return rc;
}

static void ltx2_free(void *model)
{
    ltx2_connector_close(((ltx2 *)model)->connector);
}

static void ltx2_fit(const void *model, vtrain_fit *fit)
{
    const ltx2 *m = model;
    *fit = (vtrain_fit){ .channels = (int)m->in_channels, .n_texts = 1,
                         .text_width = { text_width(m) }, .text_rows = { LTX2_PROMPT_ROWS },
                         .mult = { 1, 1, 1 }, .token_times = true, .fps = DEFAULT_FPS,
                         .blocks = (int)m->layers, .heads = m->heads,
                         .held = m->connector ? ltx2_connector_bytes(m->connector) : 0 };
}

/* The schedule of the scheduler's files of 2.0 and 2.3. */
static void ltx2_schedule(const cJSON *config, vtrain_scheduler *s)
{
    (void)config;
    s->by_tokens = (vtrain_by_tokens){ .on = true, .type = VTRAIN_MU_EXPONENTIAL, .base = 0.95,
                                       .max = 2.05, .base_len = 1024, .max_len = 4096 };
    s->terminal = 0.1;
}

static void ltx2_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    const ltx2 *m = model;
    if (!in->x || !in->text[0].embeds || vt_failed(g))
        return;
    const int64_t *dim = in->x->dim + 2;
    const ltx_grid grid = { .dim = { dim[0], dim[1], dim[2] }, .pairs = m->heads * m->head / 2,
                            .middle = true, .exact = m->exact };
    if (!ltx_make_rope(g, &grid, in, in->made + COS))
        return;
    in->made[KEYS] = m->connector ? NULL : vtrain_key_lengths(g, &in->text[0], 0);
    if (m->connector)
        ltx2_connector_prepare(g, m->connector, &in->text[0], in->made + CONNECTOR);
}

/* ---- forward ---- */

static void ltx2_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const ltx2 *m = model;
    const model_weights *w = &m->w;
    vt_tensor *t = in->token_t ? in->token_t : in->t;
    vt_tensor *text = m->connector ? ltx2_connector_run(g, m->connector, in->text[0].embeds,
                                                        in->made + CONNECTOR)
                                   : vt_cast(g, in->text[0].embeds, vt_compute(g));
    s[X] = vt_linear(g, nn_patches(g, in->x, (int[]){ 1, 1, 1 }), &w->proj_in);
    s[PROMPT] = m->projected ? vt_feed_forward(g, text, &w->text1, &w->text2) : text;
    s[E] = nn_embed_number(g, t, &w->time1, &w->time2, VC_F32);
    s[MOD] = nn_modulation(g, vt_silu(g, s[E]), &w->time_proj, m->modulated ? 9 : 6);
    s[PROMPT_MOD] = s[MOD];                   /* of 2.0, which reads none */
    if (m->modulated) {
        vt_tensor *level = nn_embed_number(g, in->t, &w->prompt1, &w->prompt2, VC_F32);
        s[PROMPT_MOD] = nn_modulation(g, vt_silu(g, level), &w->prompt_proj, 2);
    }
    memcpy(s + MADE, in->made, 3 * sizeof *in->made);
}

/* Adds the attention to the prompt; e are shift, scale and gate of the tokens, or NULL. */
static vt_tensor *attend_prompt(vt_ctx *g, const ltx2 *m, const block_weights *w, vt_tensor *x,
                                vt_tensor *const *in, vt_tensor *const *e)
{
    const nn_heads heads = { m->heads, QK_EPS, NULL, NULL, 0 };
    vt_tensor *text = in[PROMPT], *part[2], *h;
    if (!m->modulated) {
        h = vt_rms_norm(g, x, NULL, (float)m->eps);
        return vt_add(g, x, nn_cross_attention(g, h, text, &w->cross, &heads, in[MADE + KEYS]));
    }
    nn_chunk(g, vt_add(g, in[PROMPT_MOD], w->prompt), 2, part);
    text = vt_add(g, vt_gated_add(g, text, text, part[1]), part[0]);
    h = vt_rms_norm_modulate(g, x, NULL, e[0], e[1], (float)m->eps);
    h = nn_cross_attention(g, h, text, &w->cross, &heads, in[MADE + KEYS]);
    return vt_gated_add(g, x, h, e[2]);
}

static void block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                  vt_tensor **out)
{
    const ltx2 *m = model;
    const block_weights *w = weights;
    vt_tensor *x = in[X], *h, *e[9];
    const nn_heads heads = { m->heads, QK_EPS, in[MADE + COS], in[MADE + SIN], 0 };
    float eps = (float)m->eps;
    nn_chunk(g, vt_add(g, ltx_own_times(g, in[MOD]), w->table), m->modulated ? 9 : 6, e);

    h = vt_rms_norm_modulate(g, x, NULL, e[0], e[1], eps);
    h = m->rope == SPLIT ? nn_halves_attention(g, h, &w->self, &heads, NULL)
                         : nn_self_attention(g, h, &w->self, &heads, NULL);
    x = vt_gated_add(g, x, h, e[2]);

    x = attend_prompt(g, m, w, x, in, e + 6);

    h = vt_rms_norm_modulate(g, x, NULL, e[3], e[4], eps);
    out[0] = vt_gated_add(g, x, vt_feed_forward(g, h, &w->up, &w->down), e[5]);
}

static vt_tensor *predict(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    const model_weights *w = &((ltx2 *)model)->w;
    return ltx_head(g, in, s[X], s[E], w->table, &w->proj_out);
}

/* Modules without a row have the same name in the first authors' files. */
#define EMB "emb.timestep_embedder"
#define ADALN(theirs, ours_) \
    { theirs "." EMB ".linear_1", .ours = { ours_ "." EMB ".linear_1" } }, \
    { theirs "." EMB ".linear_2", .ours = { ours_ "." EMB ".linear_2" } }, \
    { theirs ".linear", .ours = { ours_ ".linear" } }
static const vtrain_rename renames[] = {
    { "patchify_proj", .ours = { "proj_in" } },
    ADALN("adaln_single", "time_embed"),
    ADALN("prompt_adaln_single", "prompt_adaln"),
    { 0 }
};

const vtrain_family vtrain_ltx2 = {
    .class_name = "LTX2VideoTransformer3DModel", .lora_names = renames,
    .text_args = { "encoder_hidden_states" }, .layout = VTRAIN_TOKENS,
    .size = sizeof(ltx2), .weights = offsetof(ltx2, w), .table = model_table, .spare = spare,
    .beside = "connectors", .open_beside = ltx2_open_connector, .free = ltx2_free,
    .read = ltx2_read, .fit = ltx2_fit,
    .prepare = ltx2_prepare, .embed = ltx2_embed,
    .blocks = { { "transformer_blocks.%d.", block_table, sizeof(block_weights), N_IN, 1, block,
                  NULL } },
    .head = predict,
    .objective = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
    .flow_shift = 1, .logit_mean = 0, .logit_std = 1, .schedule = ltx2_schedule,
    .posterior_mean = true, .bf16 = true,
    .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 3, .batch = 1, .steps = 1000,
    .lora_targets = "to_q,to_k,to_v,to_out.0",
};
