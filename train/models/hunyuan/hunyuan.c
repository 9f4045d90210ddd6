/* hunyuan.c - HunyuanVideo (Kong et al. 2024): a refiner of the prompt, then blocks in which video
 * and prompt are two streams, then blocks of one sequence, video before prompt. Semantics and names
 * are those of diffusers' HunyuanVideoTransformer3DModel, in all its variants:
 *
 *     T2V             takes guidance as an input
 *     token_replace   has the picture itself as first latent frame, at time 0
 *     latent_concat   joins the picture and a mask of its frame with the noisy latents
 *     SkyReels I2V    joins the picture alone with the noisy latents
 *
 * No attention has padding of the prompt among its keys. */
#include <string.h>

#include "common/nn/embeddings.h"
#include "common/nn/positions.h"
#include "common/tensor/exchange.h"
#include "formats/json/config.h"
#include "train/models/dit.h"
#include "train/models/hunyuan/hunyuan.h"
#include "train/models/hunyuan/hunyuan_refiner.h"

#define EPS 1e-6f
#define GUIDANCE_STEPS 1000                   /* a guidance of 1 is embedded as this timestep */

enum { TIME = 256, MLP = 4, MAX_WIDTH = 16384,
       SKIP_FRAMES = 4 };                     /* that diffusers cuts off latent_concat's samples */

/* Indices into the sizes of the weight tables. */
enum { D = NN_FLUX_D, HEAD = NN_FLUX_HEAD, HIDDEN = NN_FLUX_HIDDEN, TWO_D = NN_FLUX_2D,
       IN = NN_FLUX_SIZES, PATCH = IN - 1, PATCH_T = IN - 2, TEXT = IN - 3, POOLED = IN - 4,
       TOKEN_OUT = IN - 5, GUIDANCE = IN - 6 };

typedef struct model_weights {
    vt_lin patch;                             /* w [D,IN,PATCH_T,PATCH,PATCH] */
    vt_lin time1, time2, guidance1, guidance2, pooled1, pooled2, mod_out, proj_out;
    vt_lin text;
    hunyuan_refiner_time refiner;
} model_weights;

#define LIN(type, field, name, out, in) \
    { name, VT_W_LINEAR, offsetof(type, field), { out, in }, VT_INIT_XAVIER }
#define VEC(type, field, name, n, start) { name, VT_W_TENSOR, offsetof(type, field), { n }, start }
#define MODEL(field, name, out, in) LIN(model_weights, field, name, out, in)

static const vt_weight model_table[] = {
    { "x_embedder.proj", VT_W_CONV, offsetof(model_weights, patch),
      { D, IN, PATCH_T, PATCH, PATCH }, VT_INIT_XAVIER },
    VEC(model_weights, patch.b, "x_embedder.proj.bias", D, VT_INIT_ZERO),
    HUNYUAN_REFINER_ROWS(MODEL),
    MODEL(time1, "time_text_embed.timestep_embedder.linear_1", D, TIME),
    MODEL(time2, "time_text_embed.timestep_embedder.linear_2", D, D),
    MODEL(pooled1, "time_text_embed.text_embedder.linear_1", D, POOLED),
    MODEL(pooled2, "time_text_embed.text_embedder.linear_2", D, D),
    MODEL(guidance1, "time_text_embed.guidance_embedder.linear_1", GUIDANCE, TIME),
    MODEL(guidance2, "time_text_embed.guidance_embedder.linear_2", GUIDANCE, D),
    MODEL(mod_out, "norm_out.linear", TWO_D, D),
    MODEL(proj_out, "proj_out", TOKEN_OUT, D),
    { 0 }
};

/* The values of image_condition_type. */
enum { NO_IMAGE, TOKEN_REPLACE, LATENT_CONCAT };

typedef struct hunyuan {
    vtrain_dit dit;
    int64_t heads, head, dual, single, refiner, in_channels, out_channels, patch, patch_t, text;
    int64_t pooled, axis[3];
    double theta;
    bool guidance;
    int condition, axes;
    int64_t video;                            /* video tokens of the step in progress */
    int64_t clean;                            /* number of tokens of a clean first frame */
    model_weights w;
} hunyuan;

/* vtrain_in.made: rotations of the video's tokens; the numbers of keys of both streams together and
 * of the prompt alone; the mask of latent_concat. */
enum { COS, SIN, KEYS, TEXT_KEYS, MASK };
/* The inputs of a block: of the refiner's, the prompt's tokens at FIRST and the video's at SECOND; of
 * the blocks of two streams, the video's at FIRST and the prompt's at SECOND; of the single blocks
 * both as one sequence at JOINED. Then the embeddings of the time, of time 0 and of the refiner; the
 * first four of made. */
enum { FIRST, SECOND, E, E_CLEAN, E_REFINER, MADE, N_IN = MADE + 4, JOINED = FIRST };

/* ---- config.json ---- */

static const vf_config_row config_rows[] = {
    VF_INT(hunyuan, heads, "num_attention_heads", 24, 1, 256),
    VF_INT(hunyuan, head, "attention_head_dim", 128, 8, 256),
    VF_INT(hunyuan, dual, "num_layers", 20, 1, 256),
    VF_INT(hunyuan, single, "num_single_layers", 40, 0, 256),
    VF_INT(hunyuan, refiner, "num_refiner_layers", 2, 0, 64),
    VF_INT(hunyuan, in_channels, "in_channels", 16, 1, 1024),
    VF_INT(hunyuan, out_channels, "out_channels", 16, 1, 1024),
    VF_INT(hunyuan, patch, "patch_size", 2, 1, 16),
    VF_INT(hunyuan, patch_t, "patch_size_t", 1, 1, 16),
    VF_INT(hunyuan, text, "text_embed_dim", 4096, 8, 65536),
    VF_INT(hunyuan, pooled, "pooled_projection_dim", 768, 1, 65536),
    VF_INTS(hunyuan, axis, axes, "rope_axes_dim", 3, 2, 256),
    VF_NUM(hunyuan, theta, "rope_theta", 256, 1, 1e9),
    VF_FLAG(hunyuan, guidance, "guidance_embeds", true),
    VF_WORD(hunyuan, condition, "image_condition_type", "", "|token_replace|latent_concat"),
    { 0 }
};

/* Checks the rules between fields. */
static int check_config(const hunyuan *m, vc_err *err)
{
    int64_t extra = m->in_channels - m->out_channels;
    int64_t wanted = m->condition == LATENT_CONCAT ? m->out_channels + 1 : 0;
    if (m->head % 8 || m->heads * m->head > MAX_WIDTH || m->text % 8)
        return vc_fail(err, VC_EFORMAT, "attention_head_dim and text_embed_dim must be multiples "
                       "of 8, and num_attention_heads times attention_head_dim at most %d",
                       MAX_WIDTH);
    if (extra != wanted && (m->condition != NO_IMAGE || extra != m->out_channels))
        return vc_fail(err, VC_EINVAL, "in_channels: %lld with out_channels %lld and "
                       "image_condition_type %s is no known model", (long long)m->in_channels,
                       (long long)m->out_channels,
                       m->condition == LATENT_CONCAT ? "latent_concat" :
                       m->condition == TOKEN_REPLACE ? "token_replace" : "null");
    return vtrain_check_axes("rope_axes_dim", m->axis, 3, m->head, err);
}

static int hunyuan_read(void *model, const cJSON *config, vc_err *err)
{
    hunyuan *m = model;
    memcpy(m->axis, (int64_t[]){ 16, 56, 56 }, sizeof m->axis);
    int rc = vf_config_read(m, config_rows, config, err);
    if (!rc)
        rc = check_config(m, err);
    if (rc)
        return rc;
    const int64_t sizes[VTRAIN_SIZES] = {
        [-IN] = m->in_channels, [-PATCH] = m->patch, [-PATCH_T] = m->patch_t,
        [-TEXT] = m->text, [-POOLED] = m->pooled,
        [-TOKEN_OUT] = m->out_channels * m->patch_t * m->patch * m->patch,
        [-GUIDANCE] = m->guidance ? m->heads * m->head : VT_ABSENT,
    };
    memcpy(m->dit.sizes, sizes, sizeof sizes);
    nn_flux_sizes(m->dit.sizes, m->heads, m->head);
    memcpy(m->dit.layers, (int64_t[]){ m->refiner, m->dual, m->single }, sizeof m->dit.layers);
    return 0;
}

static unsigned roles_of(const hunyuan *m)
{
    return m->in_channels > m->out_channels ? 1u << VC_ROLE_IMAGE : 0;
}

static void hunyuan_fit(const void *model, vtrain_fit *fit)
{
    const hunyuan *m = model;
    static const char *const words[] = { "", "token_replace", "latent_concat" };
    const vc_family *family = vc_family_of_transformer(HUNYUAN_CLASS);
    const bool concat = m->condition == LATENT_CONCAT;
    int p = (int)m->patch;
    *fit = (vtrain_fit){ .channels = (int)m->out_channels, .n_texts = 2,
                         .text_width = { m->text }, .pooled_width = { 0, m->pooled },
                         .mult = { (int)m->patch_t, p, p },
                         .clean_first = m->condition == TOKEN_REPLACE,
                         .needs_image = m->condition == TOKEN_REPLACE,
                         .interleave = { vc_family_interleave(family, words[m->condition]) },
                         .guidance = m->guidance,
                         .sample_guidance = concat && !m->guidance,
                         .image_start = m->condition == NO_IMAGE ? 0 : 1 - 0.999f,
                         .skip_frames = concat ? SKIP_FRAMES : 0,
                         .mean_roles = concat ? roles_of(m) : 0,
                         .two_prompts = m->condition == NO_IMAGE && roles_of(m),      /* SkyReels */
                         .roles = roles_of(m),
                         .blocks = (int)(m->refiner + m->dual + m->single), .heads = m->heads };
}

/* ---- prepare ---- */

static void hunyuan_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    hunyuan *m = model;
    if (vt_failed(g) || !in->x || !in->text[0].embeds)
        return;
    if (!vtrain_check_pooled(g, &in->text[1], m->pooled))
        return;
    const int64_t patch[3] = { m->patch_t, m->patch, m->patch };
    m->video = hunyuan_rope(g, in->x, patch, m->axis, m->theta, in->made + COS);
    if (m->condition == TOKEN_REPLACE)
        m->clean = in->x->dim[3] / m->patch * (in->x->dim[4] / m->patch);
    in->made[KEYS] = vtrain_key_lengths(g, &in->text[0], m->video);
    in->made[TEXT_KEYS] = vtrain_key_lengths(g, &in->text[0], 0);
    if (m->condition == LATENT_CONCAT)
        in->made[MASK] = hunyuan_first_frame_mask(g, in->x);
    vtrain_note_mask(g, in, "encoder_attention_mask", &in->text[0]);
}

/* ---- forward ---- */

static vt_tensor *embed_number(vt_ctx *g, vt_tensor *t, const vt_lin *l1, const vt_lin *l2)
{
    return nn_embed_number(g, t, l1, l2, VC_F32);
}

/* Embeds time, pooled prompt and guidance: s[E] modulates all blocks, and s[E_CLEAN] the tokens of
 * a clean first frame, with time 0 and without guidance. */
static void embed_times(vt_ctx *g, const hunyuan *m, const vtrain_in *in, vt_tensor **s)
{
    const model_weights *w = &m->w;
    vt_tensor *pooled = nn_embed_vector(g, in->text[1].pooled, &w->pooled1, &w->pooled2, VC_F32);
    vt_tensor *e = vt_add(g, embed_number(g, in->t, &w->time1, &w->time2), pooled);
    if (m->guidance) {
        vt_tensor *guidance = vt_scale(g, in->guidance, GUIDANCE_STEPS);
        vtrain_note(in, "guidance", guidance);
        e = vt_add(g, e, embed_number(g, guidance, &w->guidance1, &w->guidance2));
    }
    s[E] = vt_silu(g, e);
    if (m->clean)
        s[E_CLEAN] = vt_silu(g, vt_add(g, embed_number(g, vt_scale(g, in->t, 0), &w->time1,
                                                       &w->time2), pooled));
}

static void hunyuan_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const hunyuan *m = model;
    const model_weights *w = &m->w;
    const int patch[3] = { (int)m->patch_t, (int)m->patch, (int)m->patch };
    vt_tensor *x = vtrain_join(g, in, roles_of(m), 1), *text = in->text[0].embeds;
    if (in->made[MASK])
        x = vt_concat(g, 1, 2, (vt_tensor *[]){ x, in->made[MASK] });
    vtrain_note(in, "hidden_states", x);
    vtrain_note(in, "pooled_projections", in->text[1].pooled);
    embed_times(g, m, in, s);
    s[E_REFINER] = hunyuan_refiner_embed(g, &w->refiner, in->t, text, in->made[TEXT_KEYS]);
    s[FIRST] = vt_linear(g, vt_cast(g, text, vt_compute(g)), &w->text);
    s[SECOND] = nn_embed_patches(g, nn_patches(g, x, patch), &w->patch);
    memcpy(s + MADE, in->made, 4 * sizeof *in->made);
}

static void refiner_block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                          vt_tensor **out)
{
    const hunyuan *m = model;
    out[FIRST] = hunyuan_refine(g, in[FIRST], in[E_REFINER], weights, m->heads,
                                in[MADE + TEXT_KEYS]);
}

static nn_times times_of(vt_ctx *g, const hunyuan *m, vt_tensor *const *in)
{
    return (nn_times){ in[E], in[E_CLEAN], vt_own_before(g, m->clean) };
}

static void dual_block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                       vt_tensor **out)
{
    const hunyuan *m = model;
    const nn_dual_weights *w = weights;
    const nn_times t[2] = { times_of(g, m, in), { .e = in[E] } };  /* the prompt has time t alone */
    const nn_heads heads[2] = { { m->heads, EPS, in[MADE + COS], in[MADE + SIN], 0 },
                                { .n = m->heads, .eps = EPS } };
    nn_joint_block(g, in + FIRST, t, w->stream, heads, in[MADE + KEYS], out);
}

/* Joins video and prompt to one sequence, video first. */
static void join_streams(vt_ctx *g, const void *model, vt_tensor *s[VT_BLOCK_IO])
{
    (void)model;
    s[JOINED] = vt_concat(g, 1, 2, s + FIRST);
    s[SECOND] = NULL;
}

static void single_block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                         vt_tensor **out)
{
    const hunyuan *m = model;
    const nn_times t = times_of(g, m, in);
    const nn_heads heads = { m->heads, EPS, in[MADE + COS], in[MADE + SIN], 0 };
    out[JOINED] = nn_single_block(g, in[JOINED], &t, weights, &heads, in[MADE + KEYS]);
}

static vt_tensor *hunyuan_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    const hunyuan *m = model;
    vt_tensor *x = vtrain_noisy_begin(g, s[m->single ? JOINED : FIRST], m->video);
    x = nn_flux_head(g, x, s[E], &m->w.mod_out, &m->w.proj_out);
    return vt_unpatchify(g, vtrain_noisy_end(g, x, m->video), in->x->dim + 1, (int)m->patch_t,
                         (int)m->patch, (int)m->patch, VT_C_FIRST);
}

const vtrain_family vtrain_hunyuan = {
    .class_name = HUNYUAN_CLASS,
    .text_args = { "encoder_hidden_states" }, .lora_names = hunyuan_names,
    .peer_names = hunyuan_comfyui_names,
    .first_class = "HunyuanVideo", .convert = hunyuan_convert,
    .kohya = &vtrain_kohya_diffusers,
    .size = sizeof(hunyuan), .weights = offsetof(hunyuan, w), .table = model_table,
    .read = hunyuan_read, .fit = hunyuan_fit, .prepare = hunyuan_prepare,
    .embed = hunyuan_embed, .head = hunyuan_head, .whole_kinds = 1, .two_parts = true,
    .blocks = { { HUNYUAN_REFINER, hunyuan_refiner_table, sizeof(hunyuan_refiner_weights), N_IN, 1,
                  refiner_block, NULL, NULL },
                { "transformer_blocks.%d.", nn_dual_table, sizeof(nn_dual_weights), N_IN, 2,
                  dual_block, vtrain_swap_streams, NULL },
                { "single_transformer_blocks.%d.", nn_single_table, sizeof(nn_single_weights), N_IN,
                  1, single_block, join_streams, NULL } },
    .objective = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
    .flow_shift = 7, .logit_mean = 0, .logit_std = 1,
    .posterior_mean = false, .bf16 = true,
    .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 6, .batch = 1, .steps = 1000,
    .lora_targets = "(single_)?transformer_blocks\\.[0-9]+\\.attn\\."      /* not the refiner's */
                    "(to_q|to_k|to_v|to_out\\.0|add_q_proj|add_k_proj|add_v_proj|to_add_out)",
};
