/* ltx.c - LTX-Video (HaCohen et al. 2024): blocks of self-attention over the tokens of the video,
 * cross-attention to the prompt and a feed-forward layer; the timestep, of a row or of each token,
 * modulates the first and the last of these. Semantics and names are those of diffusers'
 * LTXVideoTransformer3DModel: 2B (0.9.0 to 0.9.5) and 13B (0.9.7).
 *
 * A token is one position of the latents, which already are 32 times smaller than the frames.
 * Positions are measured in seconds and pixels, so rotations depend on the frame rate. */
#include <string.h>

#include "common/nn/attention.h"
#include "common/nn/embeddings.h"
#include "formats/json/config.h"
#include "train/models/dit.h"
#include "train/models/ltx/ltx_batch.h"

#define QK_EPS 1e-5f
#define DEFAULT_FPS 25                        /* the default frame_rate of diffusers' pipelines */

enum { TIME = 256, MLP = 4, MAX_WIDTH = 16384 };

/* Indices into the sizes of the weight tables. */
enum { D = -1, IN = -2, OUT = -3, TEXT = -4, HIDDEN = -5, SIX_D = -6 };

typedef struct block_weights {
    vt_tensor *table;                         /* [6,D]: shift, scale and gate of attention, then of
                                               * the feed-forward layer */
    nn_attention self, cross;
    vt_lin up, down;
} block_weights;

typedef struct model_weights {
    vt_lin proj_in, time1, time2, time_proj, text1, text2, proj_out;
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
    LIN(block_weights, field.out, name ".to_out.0", D, D)

static const vt_weight model_table[] = {
    LIN(model_weights, proj_in, "proj_in", D, IN),
    { "scale_shift_table", VT_W_TENSOR, offsetof(model_weights, table), { 2, D }, VT_INIT_NORMAL },
    LIN(model_weights, time1, "time_embed.emb.timestep_embedder.linear_1", D, TIME),
    LIN(model_weights, time2, "time_embed.emb.timestep_embedder.linear_2", D, D),
    LIN(model_weights, time_proj, "time_embed.linear", SIX_D, D),
    LIN(model_weights, text1, "caption_projection.linear_1", D, TEXT),
    LIN(model_weights, text2, "caption_projection.linear_2", D, D),
    LIN(model_weights, proj_out, "proj_out", OUT, D),
    { 0 }
};

static const vt_weight block_table[] = {      /* names follow "transformer_blocks.%d." */
    { "scale_shift_table", VT_W_TENSOR, offsetof(block_weights, table), { 6, D }, VT_INIT_NORMAL },
    ATTENTION(self, "attn1"),
    ATTENTION(cross, "attn2"),
    LIN(block_weights, up, "ff.net.0.proj", HIDDEN, D),
    LIN(block_weights, down, "ff.net.2", D, HIDDEN),
    { 0 }
};

typedef struct ltx {
    vtrain_dit dit;
    int64_t layers, heads, head, in_channels, out_channels, cross, text;
    double eps;
    bool causal_times;                        /* as in ltx_grid; true in 0.9.5 and later */
    model_weights w;
} ltx;

/* vtrain_in.made: cosines and sines of the rotations; the number of keys of each prompt. */
enum { COS, SIN, KEYS };
/* The inputs of a block: the video's tokens; the prompt's tokens; the modulation; all of made. The
 * head also reads the embedding of the time. */
enum { X, PROMPT, MOD, MADE, N_IN = MADE + 3, E = N_IN };

/* ---- config.json ---- */

static const vf_config_row config_rows[] = {
    VF_INT(ltx, layers, "num_layers", 28, 1, 256),
    VF_INT(ltx, heads, "num_attention_heads", 32, 1, 256),
    VF_INT(ltx, head, "attention_head_dim", 64, 8, 256),
    VF_INT(ltx, in_channels, "in_channels", 128, 1, 1024),
    VF_INT(ltx, out_channels, "out_channels", 128, 1, 1024),
    VF_INT(ltx, cross, "cross_attention_dim", 2048, 1, MAX_WIDTH),
    VF_INT(ltx, text, "caption_channels", 4096, 1, 65536),
    VF_NUM(ltx, eps, "norm_eps", 1e-6, 1e-12, 1),
    /* Files of the first authors have this field. For diffusers' files, which lack it, the class of
     * the pipeline decides (vtrain_weights_pipeline). */
    VF_FLAG(ltx, causal_times, "causal_temporal_positioning", false),
    { 0 }
};

static int ltx_read(void *model, const cJSON *config, vc_err *err)
{
    ltx *m = model;
    int rc = vf_config_read(m, config_rows, config, err);
    if (rc)
        return rc;
    int64_t d = m->heads * m->head;
    if (m->head % 8 || d > MAX_WIDTH || m->cross != d)
        return vc_fail(err, VC_EFORMAT, "attention_head_dim must be a multiple of 8, and "
                       "num_attention_heads times attention_head_dim must be cross_attention_dim "
                       "and at most %d", MAX_WIDTH);
    const int64_t sizes[VTRAIN_SIZES] = {
        [-D] = d, [-IN] = m->in_channels, [-OUT] = m->out_channels, [-TEXT] = m->text,
        [-HIDDEN] = MLP * d, [-SIX_D] = 6 * d,
    };
    memcpy(m->dit.sizes, sizes, sizeof sizes);
    m->dit.layers[0] = m->layers;
    return 0;
}

static void ltx_fit(const void *model, vtrain_fit *fit)
{
    const ltx *m = model;
    *fit = (vtrain_fit){ .channels = (int)m->in_channels, .n_texts = 1, .text_width = { m->text },
                         .mult = { 1, 1, 1 }, .token_times = true, .frame_times = true,
                         .fps = DEFAULT_FPS,
                         .blocks = (int)m->layers, .heads = m->heads };
}

/* The schedule that 0.9.0 and 0.9.1 were trained with. Later models were trained without a shift,
 * which their field of the positions tells apart. */
static void ltx_schedule(const cJSON *config, vtrain_scheduler *s)
{
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(config, "causal_temporal_positioning")))
        return;
    s->by_tokens = (vtrain_by_tokens){ .on = true, .type = VTRAIN_MU_EXPONENTIAL, .base = 0.95,
                                       .max = 2.05, .base_len = 1024, .max_len = 4096 };
    s->terminal = 0.1;
}

/* ---- positions ---- */

static ltx_grid grid_of(const ltx *m, const vtrain_in *in)
{
    const int64_t *dim = in->x->dim + 2;
    return (ltx_grid){ .dim = { dim[0], dim[1], dim[2] }, .pairs = m->heads * m->head / 2,
                       .causal_times = m->causal_times };
}

static void ltx_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    const ltx *m = model;
    if (!in->x || !in->text[0].embeds || vt_failed(g))
        return;
    const ltx_grid grid = grid_of(m, in);
    if (!ltx_make_rope(g, &grid, in, in->made + COS))
        return;
    in->made[KEYS] = vtrain_key_lengths(g, &in->text[0], 0);
    ltx_note_positions(g, &grid, in);
    vtrain_note_mask(g, in, "encoder_attention_mask", &in->text[0]);
}

/* ---- forward ---- */

static void ltx_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const model_weights *w = &((ltx *)model)->w;
    vt_tensor *t = in->token_t ? in->token_t : in->t;
    s[X] = vt_linear(g, nn_patches(g, in->x, (int[]){ 1, 1, 1 }), &w->proj_in);
    s[PROMPT] = vt_feed_forward(g, vt_cast(g, in->text[0].embeds, vt_compute(g)), &w->text1,
                                &w->text2);
    s[E] = nn_embed_number(g, t, &w->time1, &w->time2, VC_F32);
    s[MOD] = nn_modulation(g, vt_silu(g, s[E]), &w->time_proj, 6);
    memcpy(s + MADE, in->made, 3 * sizeof *in->made);
}

static void block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                  vt_tensor **out)
{
    const ltx *m = model;
    const block_weights *w = weights;
    vt_tensor *const *made = in + MADE, *x = in[X], *h, *e[6];
    const nn_heads heads = { m->heads, QK_EPS, made[COS], made[SIN], 0 };
    const nn_heads plain = { m->heads, QK_EPS, NULL, NULL, 0 };
    float eps = (float)m->eps;
    nn_chunk(g, vt_add(g, ltx_own_times(g, in[MOD]), w->table), 6, e);

    h = vt_rms_norm_modulate(g, x, NULL, e[0], e[1], eps);
    x = vt_gated_add(g, x, nn_self_attention(g, h, &w->self, &heads, NULL), e[2]);

    x = vt_add(g, x, nn_cross_attention(g, x, in[PROMPT], &w->cross, &plain, made[KEYS]));

    h = vt_rms_norm_modulate(g, x, NULL, e[3], e[4], eps);
    out[0] = vt_gated_add(g, x, vt_feed_forward(g, h, &w->up, &w->down), e[5]);
}

static vt_tensor *predict(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    const model_weights *w = &((ltx *)model)->w;
    return ltx_head(g, in, s[X], s[E], w->table, &w->proj_out);
}

/* Modules without a row have the same name in the first authors' files. */
#define TIME_AT "emb.timestep_embedder"
static const vtrain_rename renames[] = {
    { "patchify_proj", .ours = { "proj_in" } },
    { "adaln_single." TIME_AT ".linear_1", .ours = { "time_embed." TIME_AT ".linear_1" } },
    { "adaln_single." TIME_AT ".linear_2", .ours = { "time_embed." TIME_AT ".linear_2" } },
    { "adaln_single.linear", .ours = { "time_embed.linear" } },
    { 0 }
};

const vtrain_family vtrain_ltx = {
    .class_name = "LTXVideoTransformer3DModel", .lora_names = renames,
    .text_args = { "encoder_hidden_states" }, .layout = VTRAIN_TOKENS,
    .size = sizeof(ltx), .weights = offsetof(ltx, w), .table = model_table,
    .read = ltx_read, .fit = ltx_fit,
    .prepare = ltx_prepare, .embed = ltx_embed,
    .blocks = { { "transformer_blocks.%d.", block_table, sizeof(block_weights), N_IN, 1, block,
                  NULL, NULL } },
    .head = predict,
    .objective = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
    .flow_shift = 1, .logit_mean = 0, .logit_std = 1, .schedule = ltx_schedule,
    .posterior_mean = false, .bf16 = true,
    .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 3, .batch = 1, .steps = 1000,
    .lora_targets = "to_q,to_k,to_v,to_out.0",
};
