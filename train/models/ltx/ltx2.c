/* ltx2.c - LTX-2 (HaCohen et al. 2026) without sound: the video's stream of a model of two streams,
 * whose blocks here leave the sound and the attention between the streams out, as diffusers'
 * LTX2VideoTransformer3DModel does with isolate_modalities. Versions 2.0 and 2.3. A prompt first
 * passes the connector. */
#include "train/models/ltx/ltx2.h"

#include <string.h>

#include "common/nn/embeddings.h"
#include "formats/json/config.h"
#include "formats/tensors/model.h"

#define DEFAULT_FPS 24                        /* the default frame_rate of diffusers' pipelines */

enum { MLP = 4, MAX_WIDTH = 16384 };

static const vt_weight model_table[] = {
    LTX2_OUTER_ROWS(ltx2_weights, video, "", V),
    { 0 }
};

typedef struct block_weights { ltx2_block video; } block_weights;

static const vt_weight block_table[] = {      /* names follow "transformer_blocks.%d." */
    LTX2_BLOCK_ROWS(block_weights, video, "", V),
    { 0 }
};

/* The stream of the sound, and the attention between the streams. */
static const char *const spare[] = {
    "*audio_*", "av_cross_attn_*", "transformer_blocks.*.video_a2v_cross_attn_scale_shift_table",
    NULL
};

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
    VF_INT(ltx2, sound_heads, "audio_num_attention_heads", 32, 1, 256),
    VF_INT(ltx2, sound_head, "audio_attention_head_dim", 64, 1, 256),
    VF_INT(ltx2, sound_in, "audio_in_channels", 128, 1, 4096),
    VF_INT(ltx2, sound_out, "audio_out_channels", 128, 1, 4096),
    VF_INT(ltx2, sound_cross, "audio_cross_attention_dim", 2048, 1, MAX_WIDTH),
    VF_NUM(ltx2, eps, "norm_eps", 1e-6, 1e-12, 1),
    VF_NUM(ltx2, gate_times, "cross_attn_timestep_scale_multiplier", 1000, 0, 1e6),
    VF_FLAG(ltx2, gated, "gated_attn", false),
    VF_FLAG(ltx2, modulated, "cross_attn_mod", false),
    VF_FLAG(ltx2, sound_gated, "audio_gated_attn", false),
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

int ltx2_read(void *model, const cJSON *config, vc_err *err)
{
    ltx2 *m = model;
    int rc = vf_config_read(m, config_rows, config, err);
    int64_t d = m->heads * m->head, mods = m->modulated ? 9 : 6;
    if (!rc)
        rc = check(m, d, err);
    if (rc)
        return rc;
    const int64_t sizes[VTRAIN_SIZES] = {
        [-V_D] = d, [-V_IN] = m->in_channels, [-V_OUT] = m->out_channels, [-TEXT] = m->text,
        [-V_HIDDEN] = MLP * d, [-MODS] = mods, [-V_MODS_D] = mods * d,
        [-V_PLAIN] = m->projected ? d : VT_ABSENT, [-V_GATES] = m->gated ? m->heads : VT_ABSENT,
        [-V_CROSS] = m->modulated ? d : VT_ABSENT, [-V_TWO_D] = m->modulated ? 2 * d : VT_ABSENT,
    };
    memcpy(m->dit.sizes, sizes, sizeof sizes);
    m->dit.layers[0] = m->layers;
    return 0;
}

int64_t ltx2_text_width(const ltx2 *m)
{
    return m->projected ? m->text : m->heads * m->head;
}

/* Tensors of the connectors that make features, which vprep has stored, and those of the sound. */
static const char *const connector_spare[] = { "*audio_*", "*text_proj_in.*", NULL };

int ltx2_open_connector(void *model, vt_ctx *g, const cJSON *config, const vf_model *file,
                               vc_err *err)
{
    ltx2 *m = model;
    const vt_source src = vf_model_source(file);
    int rc = ltx2_connector_open(&m->connector, g, LTX2_OF_VIDEO, config, &src,
                                 LTX2_PROMPT_ROWS, err);
    if (!rc)
        rc = vf_model_all_bound(file, ltx2_connector_params(m->connector), connector_spare, err);
    if (!rc && ltx2_connector_width(m->connector) != ltx2_text_width(m))
        rc = vc_fail(err, VC_EMISMATCH, "the connector's prompts are %lld wide, but the "
                     "transformer reads %lld: give the connectors of this transformer",
                     (long long)ltx2_connector_width(m->connector), (long long)ltx2_text_width(m));
    return rc;
}

void ltx2_free(void *model)
{
    ltx2 *m = model;
    ltx2_connector_close(m->connector);
    ltx2_connector_close(m->sound_connector);
}

static void ltx2_fit(const void *model, vtrain_fit *fit)
{
    const ltx2 *m = model;
    *fit = (vtrain_fit){ .channels = (int)m->in_channels, .n_texts = 1,
                         .text_width = { ltx2_text_width(m) },
                         .text_more = { m->projected ? 0 : m->sound_heads * m->sound_head },
                         .text_rows = { LTX2_PROMPT_ROWS },
                         .mult = { 1, 1, 1 }, .token_times = true, .fps = DEFAULT_FPS,
                         .blocks = (int)m->layers, .heads = m->heads,
                         .held = m->connector ? ltx2_connector_bytes(m->connector) : 0 };
}

/* The schedule of the scheduler's files of 2.0 and 2.3. */
void ltx2_schedule(const cJSON *config, vtrain_scheduler *s)
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
    ltx_note_positions(g, &grid, in);
    vtrain_note_mask(g, in, "encoder_attention_mask", &in->text[0]);
    if (m->connector)
        ltx2_connector_prepare(g, m->connector, &in->text[0], in->made + CONNECTOR);
}

/* ---- forward ---- */

static void ltx2_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const ltx2 *m = model;
    vt_tensor *text = in->text[0].embeds;
    if (text && text->dim[2] > ltx2_text_width(m))
        text = vt_slice(g, text, 2, 0, ltx2_text_width(m));        /* without that of the sound */
    text = m->connector ? ltx2_connector_run(g, m->connector, text, in->made + CONNECTOR)
                        : vt_cast(g, text, vt_compute(g));
    if (m->connector)
        vtrain_note(in, "connector_prompt_embeds", text);
    const ltx2_inputs is = ltx2_stream_begin(g, m, &m->w.video,
                                             nn_patches(g, in->x, (int[]){ 1, 1, 1 }), text,
                                             in->token_t ? in->token_t : in->t, in->t);
    s[X] = is.x;
    s[PROMPT] = is.prompt;
    s[E] = is.e;
    s[MOD] = is.mod;
    s[PROMPT_MOD] = is.prompt_mod;
    memcpy(s + MADE, in->made, 3 * sizeof *in->made);
}

static void block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                  vt_tensor **out)
{
    const ltx2 *m = model;
    const block_weights *w = weights;
    const ltx2_part p = { m->heads, in[PROMPT], in[MOD], in[PROMPT_MOD], in[MADE + COS],
                          in[MADE + SIN], NULL, in[MADE + KEYS] };
    vt_tensor *e[LTX2_MODS], *x = ltx2_stream_attend(g, m, &w->video, in[X], &p, e);
    out[0] = ltx2_stream_feed(g, m, &w->video, x, e);
}

static vt_tensor *predict(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    const ltx2_outer *w = &((ltx2 *)model)->w.video;
    return ltx_head(g, in, s[X], s[E], w->table, &w->proj_out);
}

/* Modules without a row have the same name in the first authors' files. */
#define EMB "emb.timestep_embedder"
#define ADALN(theirs, ours_) \
    { theirs "." EMB ".linear_1", .ours = { ours_ "." EMB ".linear_1" } }, \
    { theirs "." EMB ".linear_2", .ours = { ours_ "." EMB ".linear_2" } }, \
    { theirs ".linear", .ours = { ours_ ".linear" } }
const vtrain_rename ltx2_names[] = {
    { "patchify_proj", .ours = { "proj_in" } },
    ADALN("adaln_single", "time_embed"),
    ADALN("prompt_adaln_single", "prompt_adaln"),
    { "audio_patchify_proj", .ours = { "audio_proj_in" } },
    ADALN("audio_adaln_single", "audio_time_embed"),
    ADALN("audio_prompt_adaln_single", "audio_prompt_adaln"),
    ADALN("av_ca_video_scale_shift_adaln_single", "av_cross_attn_video_scale_shift"),
    ADALN("av_ca_audio_scale_shift_adaln_single", "av_cross_attn_audio_scale_shift"),
    ADALN("av_ca_a2v_gate_adaln_single", "av_cross_attn_video_a2v_gate"),
    ADALN("av_ca_v2a_gate_adaln_single", "av_cross_attn_audio_v2a_gate"),
    { 0 }
};

const vtrain_family vtrain_ltx2 = {
    .class_name = "LTX2VideoTransformer3DModel", .lora_names = ltx2_names,
    .text_args = { "encoder_hidden_states" }, .layout = VTRAIN_TOKENS,
    .size = sizeof(ltx2), .weights = offsetof(ltx2, w), .table = model_table, .spare = spare,
    .beside = "connectors", .open_beside = ltx2_open_connector, .free = ltx2_free,
    .read = ltx2_read, .fit = ltx2_fit,
    .prepare = ltx2_prepare, .embed = ltx2_embed,
    .blocks = { { "transformer_blocks.%d.", block_table, sizeof(block_weights), N_IN, 1, block,
                  NULL, NULL } },
    .head = predict,
    .objective = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
    .flow_shift = 1, .logit_mean = 0, .logit_std = 1, .schedule = ltx2_schedule,
    .posterior_mean = true, .bf16 = true,
    .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 3, .batch = 1, .steps = 1000,
    .lora_targets = "to_q,to_k,to_v,to_out.0",
};
