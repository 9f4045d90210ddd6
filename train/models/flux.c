/* flux.c - FLUX.1 (Black Forest Labs 2024): blocks in which picture and prompt are two streams,
 * then blocks of one sequence. Semantics and names are those of diffusers' FluxTransformer2DModel:
 * dev, which takes guidance as an input, and schnell.
 *
 * A token is a square of 2 x 2 places of the latents. T5's states are the prompt, CLIP's pooled
 * vector joins the time. All tokens of the prompt stand at position 0, so that only the picture's
 * are rotated. The order of tokens in a sequence has no meaning: here the picture is first.
 *
 * FLUX.1 Kontext is dev with a reference picture, whose clean tokens stand behind the noisy ones,
 * at 1 instead of 0 of the first axis. The prediction is that of the noisy tokens.
 *
 * A ControlNet (FluxControlNetModel) is a smaller FLUX.1 beside the transformer. It also reads the
 * latents of a condition, and its blocks' results are added behind the transformer's blocks. One
 * for inpainting (alimama-creative's) reads a masked picture and where it is known. A
 * ControlNet-Union takes conditions of several kinds (edges, depths, ..): the kind is a token
 * before the prompt's.
 *
 * FLUX.1 Fill is dev with more inputs: a token has noisy latents, then those of the picture without
 * its masked places, then the mask, of which a place of the latents has its 8 x 8 pixels. */
#include <stdlib.h>
#include <string.h>

#include "common/nn/embeddings.h"
#include "common/nn/flux_blocks.h"
#include "common/nn/positions.h"
#include "formats/json/config.h"
#include "train/models/flux.h"

#define EPS 1e-6f
#define THETA 10000
#define TIMES 1000                            /* a level or a guidance of 1 is embedded as 1000 */

enum { TIME = 256, SIDE = 2, PATCH = SIDE * SIDE, MAX_WIDTH = 16384,
       MASK = VTRAIN_MASK,                    /* pixels of a place, the channels of a mask */
       FILL_GUIDANCE = 30 };                  /* of FluxFillPipeline's samples */
enum { CLIP, T5 };                            /* the text slots */

/* Indices into the sizes of the weight tables. */
enum { D = NN_FLUX_D, TWO_D = NN_FLUX_2D, IN = NN_FLUX_SIZES, TEXT = IN - 1, POOLED = IN - 2,
       GUIDANCE = IN - 3, OUT = IN - 4,
       CONDITION_IN = IN - 5, KINDS = IN - 6 };           /* of a ControlNet */

typedef struct model_weights {
    vt_lin patch, text, time1, time2, guidance1, guidance2, pooled1, pooled2, mod_out, proj_out;
    vt_lin control;                           /* of a ControlNet */
    vt_tensor *kind;                          /* [KINDS,D], of a ControlNet-Union */
} model_weights;

#define LIN(field, name, out, in) \
    { name, VT_W_LINEAR, offsetof(model_weights, field), { out, in }, VT_INIT_XAVIER }

/* The layers in front of the blocks. */
#define EMBEDDERS \
    LIN(time1, "time_text_embed.timestep_embedder.linear_1", D, TIME), \
    LIN(time2, "time_text_embed.timestep_embedder.linear_2", D, D), \
    LIN(guidance1, "time_text_embed.guidance_embedder.linear_1", GUIDANCE, TIME), \
    LIN(guidance2, "time_text_embed.guidance_embedder.linear_2", GUIDANCE, D), \
    LIN(pooled1, "time_text_embed.text_embedder.linear_1", D, POOLED), \
    LIN(pooled2, "time_text_embed.text_embedder.linear_2", D, D), \
    LIN(text, "context_embedder", D, TEXT), \
    LIN(patch, "x_embedder", D, IN)

static const vt_weight model_table[] = {
    EMBEDDERS,
    LIN(mod_out, "norm_out.linear", TWO_D, D),
    LIN(proj_out, "proj_out", OUT, D),
    { 0 }
};

static const vt_weight copied_table[] = {     /* of a ControlNet */
    EMBEDDERS,
    { "controlnet_x_embedder", VT_W_LINEAR, offsetof(model_weights, control),
      { D, CONDITION_IN }, VT_INIT_ZERO },
    { "controlnet_mode_embedder.weight", VT_W_TENSOR, offsetof(model_weights, kind), { KINDS, D },
      VT_INIT_UNIT_NORMAL },
    { 0 }
};

typedef struct flux {
    vtrain_dit dit;
    int64_t heads, head, dual, single, in_channels, out_channels, text, pooled, axis[3];
    int64_t extra;                            /* numbers of a condition's token that its mask has */
    int64_t kinds;                            /* of conditions, of a ControlNet-Union; or 0 */
    bool guidance;
    int axes;
    int64_t picture;                          /* the noisy tokens in the step in progress */
    model_weights w;
} flux;

/* vtrain_in.made: rotations of the picture's and the references' tokens; of a ControlNet, which
 * blocks do not read, where the masked picture is known, and [B,1,KINDS] a 1 for each row's
 * kind. */
enum { COS, SIN, KNOWN, KIND };
/* The inputs of a block: the picture's tokens with the references' and the prompt's tokens, or for
 * the single blocks both as one sequence at JOINED; the embedding of the time; the rotations. */
enum { X, PROMPT, E, MADE, N_IN = MADE + 2, JOINED = X };

/* ---- config.json ---- */

static const vf_config_row config_rows[] = {
    VF_INT(flux, heads, "num_attention_heads", 24, 1, 256),
    VF_INT(flux, head, "attention_head_dim", 128, 8, 256),
    VF_INT(flux, dual, "num_layers", 19, 1, 256),
    VF_INT(flux, single, "num_single_layers", 38, 0, 256),
    VF_INT(flux, in_channels, "in_channels", 64, PATCH, 4096),
    VF_INT(flux, out_channels, "out_channels", 0, PATCH, 4096),
    VF_INT(flux, text, "joint_attention_dim", 4096, 8, 65536),
    VF_INT(flux, pooled, "pooled_projection_dim", 768, 1, 65536),
    VF_INTS(flux, axis, axes, "axes_dims_rope", 3, 2, 256),
    VF_FLAG(flux, guidance, "guidance_embeds", false),
    /* of a ControlNet */
    VF_INT(flux, extra, "extra_condition_channels", 0, 0, PATCH),
    VF_INT(flux, kinds, "num_mode", 0, 0, VTRAIN_CONTROL_KINDS),
    { 0 }
};

/* Whether the model is Fill. */
static bool fills(const flux *m)
{
    return m->in_channels == 2 * m->out_channels + PATCH * MASK;
}

/* Checks the rules between fields. */
static int check_config(const flux *m, vc_err *err)
{
    if (m->head % 8 || m->heads * m->head > MAX_WIDTH || m->text % 8)
        return vc_fail(err, VC_EFORMAT, "attention_head_dim and joint_attention_dim must be "
                       "multiples of 8, and num_attention_heads times attention_head_dim at most "
                       "%d", MAX_WIDTH);
    if (m->in_channels % PATCH || m->out_channels % PATCH)
        return vc_fail(err, VC_EFORMAT, "%s_channels: %lld is no multiple of %d, the numbers of a "
                       "token that a channel of the latents has",
                       m->in_channels % PATCH ? "in" : "out",
                       (long long)(m->in_channels % PATCH ? m->in_channels : m->out_channels),
                       PATCH);
    if (m->extra % PATCH)
        return vc_fail(err, VC_EFORMAT, "extra_condition_channels: %lld: a token's mask has %d "
                       "numbers", (long long)m->extra, PATCH);
    return vtrain_check_axes("axes_dims_rope", m->axis, 3, m->head, err);
}

static int flux_read(void *model, const cJSON *config, vc_err *err)
{
    flux *m = model;
    memcpy(m->axis, (int64_t[]){ 16, 56, 56 }, sizeof m->axis);
    int rc = vf_config_read(m, config_rows, config, err);
    if (!m->out_channels)
        m->out_channels = m->in_channels;
    if (!rc)
        rc = check_config(m, err);
    if (rc)
        return rc;
    const int64_t sizes[VTRAIN_SIZES] = {
        [-IN] = m->in_channels, [-OUT] = m->out_channels, [-TEXT] = m->text, [-POOLED] = m->pooled,
        [-GUIDANCE] = m->guidance ? m->heads * m->head : VT_ABSENT,
        [-CONDITION_IN] = m->in_channels + m->extra, [-KINDS] = m->kinds ? m->kinds : VT_ABSENT,
    };
    memcpy(m->dit.sizes, sizes, sizeof sizes);
    nn_flux_sizes(m->dit.sizes, m->heads, m->head);
    memcpy(m->dit.layers, (int64_t[]){ m->dual, m->single }, 2 * sizeof(int64_t));
    return 0;
}

/* FLUX.1 Fill, whose tokens have more numbers, has no ControlNet. */
static int copied_read(void *model, const cJSON *config, vc_err *err)
{
    const flux *m = model;
    int rc = flux_read(model, config, err);
    return rc || m->in_channels == m->out_channels ? rc
           : vc_fail(err, VC_EMISMATCH, "in_channels: %lld with out_channels %lld: the ControlNets "
                     "of FLUX.1 dev and schnell alone are trained here", (long long)m->in_channels,
                     (long long)m->out_channels);
}

static void flux_fit(const void *model, vtrain_fit *fit)
{
    const flux *m = model, *side = (const flux *)m->dit.side;
    const unsigned masked = 1u << VC_ROLE_VIDEO | 1u << VC_ROLE_MASK;
    *fit = (vtrain_fit){ .channels = (int)m->out_channels / PATCH, .n_texts = 2,
                         .text_width = { [T5] = m->text }, .pooled_width = { [CLIP] = m->pooled },
                         .references = fills(m) ? 0 : 1u << VC_ROLE_REFERENCE,
                         .roles = fills(m) ? masked : 0, .mask_channels = MASK,
                         .needs_mask = fills(m),
                         .mode = fills(m) ? VC_MODE_INPAINT : VC_MODE_NORMAL,
                         .mult = { 1, SIDE, SIDE }, .guidance = m->guidance,
                         .sample_guidance = !m->guidance ? 1 : fills(m) ? FILL_GUIDANCE : 0,
                         .blocks = (int)(m->dual + m->single), .heads = m->heads };
    if (!side)
        return;
    vtrain_fit_control(&m->dit, side->extra, fit);
    fit->black = side->extra;
    fit->control_kinds = (int)side->kinds;
}

/* FLUX.1-dev was trained with a shift that follows from the number of tokens, schnell without. */
static void flux_schedule(const cJSON *config, vtrain_scheduler *s)
{
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(config, "guidance_embeds")))
        s->by_tokens = (vtrain_by_tokens){ .on = true, .type = VTRAIN_MU_EXPONENTIAL, .base = 0.5,
                                           .max = 1.15, .base_len = 256, .max_len = 4096 };
}

/* ---- prepare ---- */

/* Traces the positions of n tokens; at NULL: all tokens stand at 0. */
static void note_ids(vt_ctx *g, const vtrain_in *in, const char *name, int64_t n, const int32_t *at)
{
    float *id = in->note ? calloc((size_t)n * 3, sizeof *id) : NULL;
    if (!in->note)
        return;
    if (!id) {
        vt_fail(g, VC_ENOMEM, "trace: out of memory");
        return;
    }
    for (int64_t i = 0; at && i < 3 * n; i++)
        id[i] = (float)at[i];
    vtrain_note(in, name, vt_from_host(g, VC_F32, 2, (int64_t[]){ n, 3 }, id, VC_F32));
    free(id);
}

static int64_t tokens_of(const vt_tensor *x)
{
    return x ? x->dim[3] / SIDE * (x->dim[4] / SIDE) : 0;
}

/* Writes the places (first, row, column) of the tokens of x, and returns the end. */
static int32_t *put_places(int32_t *at, const vt_tensor *x, int32_t first)
{
    const int64_t n = tokens_of(x), columns = x ? x->dim[4] / SIDE : 1;
    for (int64_t i = 0; i < n; i++, at += 3) {
        at[0] = first;
        at[1] = (int32_t)(i / columns);
        at[2] = (int32_t)(i % columns);
    }
    return at;
}

int64_t flux_make_places(vt_ctx *g, const int64_t axis[3], vtrain_in *in, vt_tensor **rotations)
{
    const vt_tensor *reference = in->cond[VC_ROLE_REFERENCE];
    const int64_t pairs[3] = { axis[0] / 2, axis[1] / 2, axis[2] / 2 };
    const int64_t picture = tokens_of(in->x), n = picture + tokens_of(reference);
    int32_t *at = malloc((size_t)n * 3 * sizeof *at);
    if (!at) {
        vt_fail(g, VC_ENOMEM, "positions: out of memory");
        return picture;
    }
    put_places(put_places(at, in->x, 0), reference, 1);
    nn_rope_at(g, at, n, 3, pairs, THETA, rotations);
    note_ids(g, in, "img_ids", n, at);
    free(at);
    return picture;
}

void flux_note_text_places(vt_ctx *g, const vtrain_in *in, const vtrain_cond *text)
{
    note_ids(g, in, "txt_ids", text->embeds->dim[1], NULL);
}

/* What the ControlNet reads that comes from the host. */
static void prepare_control(vt_ctx *g, const flux *side, vtrain_in *in)
{
    if (side->extra)
        in->made[KNOWN] = vtrain_known_mask(g, in);
    if (side->kinds)
        in->made[KIND] = vtrain_control_kinds(g, in, side->kinds);
}

static void flux_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    flux *m = model;
    const vt_tensor *x = in->x;
    if (vt_failed(g) || !x || !in->text[T5].embeds)
        return;
    if (x->dim[2] != 1) {
        vt_fail(g, VC_EMISMATCH, "a clip of %lld latent frames: FLUX.1 makes pictures",
                (long long)x->dim[2]);
        return;
    }
    if (!vtrain_check_pooled(g, &in->text[CLIP], m->pooled))
        return;
    if (fills(m) && (!in->cond[VC_ROLE_VIDEO] || !in->cond[VC_ROLE_MASK])) {
        vt_fail(g, VC_EMISMATCH, "the batch has no mask with a masked picture, which FLUX.1 Fill "
                "reads");
        return;
    }
    m->picture = flux_make_places(g, m->axis, in, in->made + COS);
    if (m->dit.side)
        prepare_control(g, (const flux *)m->dit.side, in);
    vtrain_check_padding(g, &in->text[T5]);
    flux_note_text_places(g, in, &in->text[T5]);
}

/* ---- forward ---- */

/* The tokens of Fill: those of the noisy picture, the masked picture and the mask, joined by
 * their channels. */
static vt_tensor *filled_tokens(vt_ctx *g, const vtrain_in *in)
{
    const int side[3] = { 1, SIDE, SIDE };
    vt_tensor *part[3] = { in->x, in->cond[VC_ROLE_VIDEO], in->cond[VC_ROLE_MASK] };
    for (int i = 0; i < 3; i++)
        part[i] = nn_patches(g, part[i], side);
    return vt_concat(g, 2, 3, part);
}

static void flux_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const flux *m = model;
    const model_weights *w = &m->w;
    vt_tensor *patches = fills(m) ? filled_tokens(g, in)
                         : vtrain_picture_tokens(g, in, (int[]){ 1, SIDE, SIDE });
    vt_tensor *pooled = in->text[CLIP].pooled;
    vtrain_note(in, "hidden_states", patches);
    vtrain_note(in, "pooled_projections", pooled);
    vtrain_note(in, "guidance", in->guidance);
    vt_tensor *e = nn_embed_number(g, in->t, &w->time1, &w->time2, VC_F32);
    if (m->guidance)
        e = vt_add(g, e, nn_embed_number(g, vt_scale(g, in->guidance, TIMES), &w->guidance1,
                                         &w->guidance2, VC_F32));
    s[E] = vt_silu(g, vt_add(g, e, nn_embed_vector(g, pooled, &w->pooled1, &w->pooled2, VC_F32)));
    s[PROMPT] = vt_linear(g, vt_cast(g, in->text[T5].embeds, vt_compute(g)), &w->text);
    s[X] = vt_linear(g, patches, &w->patch);
    memcpy(s + MADE, in->made, 2 * sizeof *in->made);
}

/* The token [B,1,D] of each row's kind: the rows of the table that the 1s choose. */
static vt_tensor *kind_token(vt_ctx *g, const flux *m, const vtrain_in *in)
{
    vt_tensor *columns = vt_permute(g, vt_cast(g, m->w.kind, VC_F32), (int[]){ 1, 0 });
    return vt_linear(g, in->made[KIND], &(vt_lin){ .w = vt_pack(g, columns) });
}

/* The streams of a ControlNet. */
static void copied_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const flux *m = model;
    const int side[3] = { 1, SIDE, SIDE };
    vt_tensor *known = m->extra ? in->made[KNOWN] : NULL;
    flux_embed(g, model, in, s);
    s[X] = vt_add(g, s[X], vt_linear(g, vtrain_condition_tokens(g, in, known, side),
                                     &m->w.control));
    if (m->kinds)
        s[PROMPT] = vt_concat(g, 1, 2, (vt_tensor *[]){ kind_token(g, m, in), s[PROMPT] });
}

static void dual_block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                       vt_tensor **out)
{
    const flux *m = model;
    const nn_dual_weights *w = weights;
    const nn_times t = { .e = in[E] };
    const nn_heads heads[2] = { { m->heads, EPS, in[MADE + COS], in[MADE + SIN], 0 },
                                { .n = m->heads, .eps = EPS } };
    nn_joint_block(g, in + X, (const nn_times[2]){ t, t }, w->stream, heads, NULL, out);
}

/* Joins picture and prompt to one sequence, picture first. */
static void join_streams(vt_ctx *g, const void *model, vt_tensor *s[VT_BLOCK_IO])
{
    (void)model;
    s[JOINED] = vt_concat(g, 1, 2, (vt_tensor *[]){ s[X], s[PROMPT] });
    s[PROMPT] = NULL;
}

static void single_block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                         vt_tensor **out)
{
    const flux *m = model;
    const nn_times t = { .e = in[E] };
    const nn_heads heads = { m->heads, EPS, in[MADE + COS], in[MADE + SIN], 0 };
    out[JOINED] = nn_single_block(g, in[JOINED], &t, weights, &heads, NULL);
}

static vt_tensor *flux_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    const flux *m = model;
    vt_tensor *x = vtrain_noisy_begin(g, s[m->single ? JOINED : X], m->picture);
    x = nn_flux_head(g, x, s[E], &m->w.mod_out, &m->w.proj_out);
    x = vtrain_noisy_end(g, x, m->picture);
    return vt_unpatchify(g, x, in->x->dim + 1, 1, SIDE, SIDE, VT_C_FIRST);
}

/* The kinds of blocks of the transformer and of a ControlNet. */
#define BLOCKS \
    .blocks = { { "transformer_blocks.%d.", nn_dual_table, sizeof(nn_dual_weights), N_IN, 2, \
                  dual_block, NULL, NULL }, \
                { "single_transformer_blocks.%d.", nn_single_table, sizeof(nn_single_weights), \
                  N_IN, 1, single_block, join_streams, NULL } }

static const vtrain_family copied = {
    .class_name = "FluxControlNetModel",
    .size = sizeof(flux), .weights = offsetof(flux, w), .table = copied_table,
    .read = copied_read, .embed = copied_embed, BLOCKS,
    .two_parts = true,
    .hint = { "controlnet_blocks.%d", "controlnet_single_blocks.%d" },
    .masked_reader = "ComfyUI, DiffSynth-Studio or alimama-creative's FluxControlNetModel",
};

const vtrain_family vtrain_flux = {
    .class_name = FLUX_CLASS, .first_class = "Flux", .convert = flux_convert,
    .lora_names = flux_names, .peer_names = flux_diffsynth_names, .kohya = &vtrain_kohya_scripts,
    .text_args = { [T5] = "encoder_hidden_states" }, .layout = VTRAIN_TOKENS,
    .time = VTRAIN_TIME_LEVEL,
    .size = sizeof(flux), .weights = offsetof(flux, w), .table = model_table,
    .read = flux_read, .fit = flux_fit, .prepare = flux_prepare, .embed = flux_embed,
    .copied = &copied, .two_parts = true, .head = flux_head,
    BLOCKS,
    .objective = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
    .flow_shift = 1, .logit_mean = 0, .logit_std = 1, .schedule = flux_schedule,
    .posterior_mean = false, .bf16 = true,
    .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 3.5, .batch = 1, .steps = 1000,
    .lora_targets = "to_q,to_k,to_v,to_out.0,add_q_proj,add_k_proj,add_v_proj,to_add_out",
};
