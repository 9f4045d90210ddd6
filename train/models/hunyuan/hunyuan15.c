/* hunyuan15.c - HunyuanVideo 1.5 (Tencent Hunyuan 2025): a refiner of the prompt, then blocks in
 * which video and texts are two streams. Semantics and names are those of diffusers'
 * HunyuanVideo15Transformer3DModel.
 *
 * The texts of a row are states of a vision model that sees the first frame, of ByT5 for what the
 * prompt has in quotes, and of Qwen2.5-VL for the whole prompt, in this order and without their
 * padding, which stands behind all of them and is no key. Each has an embedding of its kind.
 *
 * The video's tokens have the noisy latents, those of the first frame and a mask of it. A model for
 * text to video (task_type t2v) has zeros for both, and no states of a picture; so has a batch
 * whose picture was dropped. */
#include <stdlib.h>
#include <string.h>

#include "common/nn/embeddings.h"
#include "common/nn/positions.h"
#include "common/tensor/exchange.h"
#include "formats/json/config.h"
#include "train/models/dit.h"
#include "train/models/hunyuan/hunyuan.h"
#include "train/models/hunyuan/hunyuan_refiner.h"

#define EPS 1e-6f
#define TEXT_EPS 1e-5f                        /* of the norms around states of ByT5 and pictures */

enum { TIME = 256, GLYPH_HIDDEN_DEFAULT = 2048, MAX_WIDTH = 16384 };
enum { PROMPT_SLOT, GLYPH_SLOT, SLOTS };
/* The rows of cond_type_embed. */
enum { KIND_PROMPT, KIND_GLYPHS, KIND_PICTURE, KINDS };

/* Indices into the sizes of the weight tables. */
enum { D = NN_FLUX_D, TWO_D = NN_FLUX_2D, IN = NN_FLUX_SIZES, PATCH = IN - 1, PATCH_T = IN - 2,
       TEXT = IN - 3, GLYPH = IN - 4, GLYPH_HIDDEN = IN - 5, PICTURE = IN - 6, TOKEN_OUT = IN - 7,
       NEXT = IN - 8 };

typedef struct model_weights {
    vt_lin patch;                             /* w [D,IN,PATCH_T,PATCH,PATCH] */
    nn_norm picture_norm, picture_norm_out, glyph_norm;
    vt_lin picture1, picture2, glyph1, glyph2, glyph3;
    vt_lin text, time1, time2, next1, next2, mod_out, proj_out;
    hunyuan_refiner_time refiner;
    vt_tensor *kinds;                         /* [KINDS,D] */
} model_weights;

#define LIN(field, name, out, in) \
    { name, VT_W_LINEAR, offsetof(model_weights, field), { out, in }, VT_INIT_XAVIER }
#define NORM(field, name, n) \
    { name ".weight", VT_W_TENSOR, offsetof(model_weights, field.w), { n }, VT_INIT_ONE }, \
    { name ".bias", VT_W_TENSOR, offsetof(model_weights, field.b), { n }, VT_INIT_ZERO }

static const vt_weight model_table[] = {
    { "x_embedder.proj", VT_W_CONV, offsetof(model_weights, patch),
      { D, IN, PATCH_T, PATCH, PATCH }, VT_INIT_XAVIER },
    { "x_embedder.proj.bias", VT_W_TENSOR, offsetof(model_weights, patch.b), { D }, VT_INIT_ZERO },
    NORM(picture_norm, "image_embedder.norm_in", PICTURE),
    LIN(picture1, "image_embedder.linear_1", PICTURE, PICTURE),
    LIN(picture2, "image_embedder.linear_2", D, PICTURE),
    NORM(picture_norm_out, "image_embedder.norm_out", D),
    HUNYUAN_REFINER_ROWS(LIN),
    NORM(glyph_norm, "context_embedder_2.norm", GLYPH),
    LIN(glyph1, "context_embedder_2.linear_1", GLYPH_HIDDEN, GLYPH),
    LIN(glyph2, "context_embedder_2.linear_2", GLYPH_HIDDEN, GLYPH_HIDDEN),
    LIN(glyph3, "context_embedder_2.linear_3", D, GLYPH_HIDDEN),
    LIN(time1, "time_embed.timestep_embedder.linear_1", D, TIME),
    LIN(time2, "time_embed.timestep_embedder.linear_2", D, D),
    LIN(next1, "time_embed.timestep_embedder_r.linear_1", NEXT, TIME),
    LIN(next2, "time_embed.timestep_embedder_r.linear_2", NEXT, D),
    { "cond_type_embed.weight", VT_W_TENSOR, offsetof(model_weights, kinds), { KINDS, D },
      VT_INIT_UNIT_NORMAL },
    LIN(mod_out, "norm_out.linear", TWO_D, D),
    LIN(proj_out, "proj_out", TOKEN_OUT, D),
    { 0 }
};

/* The values of task_type. */
enum { TEXT_TO_VIDEO, IMAGE_TO_VIDEO };

typedef struct hunyuan15 {
    vtrain_dit dit;
    int64_t heads, head, dual, refiner, in_channels, out_channels, patch, patch_t, text, glyph;
    int64_t glyph_hidden, picture, axis[3];
    double theta;
    int axes, task;
    bool steps;                               /* distilled to steps, from one time to another (Geng
                                               * et al. 2025) */
    int64_t video;                            /* video tokens of the step in progress */
    model_weights w;
} hunyuan15;

/* vtrain_in.made: rotations of the video's tokens; the numbers of keys of video and texts together
 * and of the prompt alone; the order of a row's texts, and its inverse; the mask of the first
 * frame. */
enum { COS, SIN, KEYS, TEXT_KEYS, ORDER, INVERSE, MASK };
/* The inputs of blocks. Those of the refiner have the prompt's tokens at FIRST and those of the
 * video at SECOND, the others the video's at FIRST and all texts' at SECOND. Then follow the
 * embeddings of the time and of the refiner, and the first four of made; behind them, for
 * join_texts alone, the tokens of glyphs and of the picture, and the order of all. */
enum { FIRST, SECOND, E, E_REFINER, MADE, N_IN = MADE + 4, GLYPHS = N_IN, SEEN, TEXT_ORDER,
       TEXT_INVERSE };

/* ---- config.json ---- */

static const vf_config_row config_rows[] = {
    VF_INT(hunyuan15, heads, "num_attention_heads", 16, 1, 256),
    VF_INT(hunyuan15, head, "attention_head_dim", 128, 8, 256),
    VF_INT(hunyuan15, dual, "num_layers", 54, 1, 256),
    VF_INT(hunyuan15, refiner, "num_refiner_layers", 2, 0, 64),
    VF_INT(hunyuan15, in_channels, "in_channels", 65, 1, 1024),
    VF_INT(hunyuan15, out_channels, "out_channels", 32, 1, 1024),
    VF_INT(hunyuan15, patch, "patch_size", 1, 1, 16),
    VF_INT(hunyuan15, patch_t, "patch_size_t", 1, 1, 16),
    VF_INT(hunyuan15, text, "text_embed_dim", 3584, 8, 65536),
    VF_INT(hunyuan15, glyph, "text_embed_2_dim", 1472, 8, 65536),
    /* no released model has this field, and all have its default */
    VF_INT(hunyuan15, glyph_hidden, "text_embed_2_hidden_dim", GLYPH_HIDDEN_DEFAULT, 8, 65536),
    VF_INT(hunyuan15, picture, "image_embed_dim", 1152, 8, 65536),
    VF_INTS(hunyuan15, axis, axes, "rope_axes_dim", 3, 2, 256),
    VF_NUM(hunyuan15, theta, "rope_theta", 256, 1, 1e9),
    VF_FLAG(hunyuan15, steps, "use_meanflow", false),
    VF_WORD(hunyuan15, task, "task_type", "i2v", "t2v|i2v"),
    { 0 }
};

/* Checks the rules between fields. */
static int check_config(const hunyuan15 *m, vc_err *err)
{
    if (m->head % 8 || m->heads * m->head > MAX_WIDTH || m->text % 8)
        return vc_fail(err, VC_EFORMAT, "attention_head_dim and text_embed_dim must be multiples "
                       "of 8, and num_attention_heads times attention_head_dim at most %d",
                       MAX_WIDTH);
    if (m->in_channels != 2 * m->out_channels + 1)
        return vc_fail(err, VC_EINVAL, "in_channels: %lld with out_channels %lld is no known "
                       "model, which has latents of the noisy clip and of its first frame and a "
                       "mask", (long long)m->in_channels, (long long)m->out_channels);
    return vtrain_check_axes("rope_axes_dim", m->axis, 3, m->head, err);
}

static int hunyuan15_read(void *model, const cJSON *config, vc_err *err)
{
    hunyuan15 *m = model;
    memcpy(m->axis, (int64_t[]){ 16, 56, 56 }, sizeof m->axis);
    int rc = vf_config_read(m, config_rows, config, err);
    if (!rc)
        rc = check_config(m, err);
    if (rc)
        return rc;
    const int64_t sizes[VTRAIN_SIZES] = {
        [-IN] = m->in_channels, [-PATCH] = m->patch, [-PATCH_T] = m->patch_t,
        [-TEXT] = m->text, [-GLYPH] = m->glyph, [-GLYPH_HIDDEN] = m->glyph_hidden,
        [-PICTURE] = m->picture,
        [-TOKEN_OUT] = m->out_channels * m->patch_t * m->patch * m->patch,
        [-NEXT] = m->steps ? m->heads * m->head : VT_ABSENT,
    };
    memcpy(m->dit.sizes, sizes, sizeof sizes);
    nn_flux_sizes(m->dit.sizes, m->heads, m->head);
    memcpy(m->dit.layers, (int64_t[]){ m->refiner, m->dual }, 2 * sizeof *m->dit.layers);
    return 0;
}

static void hunyuan15_fit(const void *model, vtrain_fit *fit)
{
    const hunyuan15 *m = model;
    const unsigned image = VC_ROLE_BIT(VC_ROLE_IMAGE);
    const bool pictures = m->task == IMAGE_TO_VIDEO;
    int p = (int)m->patch;
    *fit = (vtrain_fit){ .channels = (int)m->out_channels, .n_texts = SLOTS,
                         .text_width = { m->text, m->glyph },
                         .absent_texts = { [GLYPH_SLOT] = true }, .mult = { (int)m->patch_t, p, p },
                         .roles = pictures ? image | VC_ROLE_BIT(VC_ROLE_VISION) : 0,
                         .mean_roles = pictures ? image : 0,
                         .embeds = { 0, pictures ? m->picture : 0 },
                         .next_times = m->steps, .sample_guidance = m->steps,
                         .blocks = (int)(m->refiner + m->dual), .heads = m->heads };
}

/* ---- prepare ---- */

static bool sees(const hunyuan15 *m, const vtrain_in *in)
{
    return m->task == IMAGE_TO_VIDEO && in->cond[VC_ROLE_VISION];
}

/* The rows of the texts of a slot, padding included. */
static int64_t rows_of(const vtrain_in *in, int slot)
{
    return in->text[slot].embeds->dim[1];
}

/* Writes the order of row b, whose texts begin at row `at` of all: the picture's states, of which
 * there are `seen`, those of glyphs, those of the prompt, then the padding. */
static void order_row(int32_t *order, const vtrain_in *in, int64_t b, int64_t at, int64_t seen)
{
    const int64_t begin[SLOTS] = { [GLYPH_SLOT] = at + seen,
                                   [PROMPT_SLOT] = at + seen + rows_of(in, GLYPH_SLOT) };
    for (int64_t i = 0; i < seen; i++)
        *order++ = (int32_t)(at + i);
    for (int padding = 0; padding < 2; padding++)
        for (int slot = GLYPH_SLOT; slot >= PROMPT_SLOT; slot--) {
            const int64_t own = in->text[slot].length[b], all = rows_of(in, slot);
            for (int64_t i = padding ? own : 0; i < (padding ? all : own); i++)
                *order++ = (int32_t)(begin[slot] + i);
        }
}

static void make_order(vt_ctx *g, const vtrain_in *in, int64_t seen, vt_tensor **made)
{
    const int64_t rows = in->x->dim[0];
    const int64_t each = seen + rows_of(in, GLYPH_SLOT) + rows_of(in, PROMPT_SLOT);
    const int64_t n = rows * each;
    int32_t *order = malloc((size_t)(2 * n) * sizeof *order), *inverse = order + n;
    if (!order) {
        vt_fail(g, VC_ENOMEM, "texts of %lld rows: out of memory", (long long)n);
        return;
    }
    for (int64_t b = 0; b < rows; b++)
        order_row(order + b * each, in, b, b * each, seen);
    for (int64_t i = 0; i < n; i++)
        inverse[order[i]] = (int32_t)i;
    made[ORDER] = vt_from_host(g, VC_I32, 1, &n, order, VC_I32);
    made[INVERSE] = vt_from_host(g, VC_I32, 1, &n, inverse, VC_I32);
    free(order);
}

/* The number of keys of each row: `before`, glyphs and prompt. */
static vt_tensor *make_keys(vt_ctx *g, const vtrain_in *in, int64_t before)
{
    const int64_t rows = in->x->dim[0];
    int32_t keys[VTRAIN_ROWS];
    for (int64_t b = 0; b < rows; b++)
        keys[b] = (int32_t)before + in->text[GLYPH_SLOT].length[b] +
                  in->text[PROMPT_SLOT].length[b];
    return vt_from_host(g, VC_I32, 1, &rows, keys, VC_I32);
}

static void hunyuan15_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    hunyuan15 *m = model;
    if (vt_failed(g) || !in->x || !in->text[PROMPT_SLOT].embeds || !in->text[GLYPH_SLOT].embeds)
        return;
    const int64_t seen = sees(m, in) ? in->cond[VC_ROLE_VISION]->dim[1] : 0;
    const int64_t patch[3] = { m->patch_t, m->patch, m->patch };
    m->video = hunyuan_rope(g, in->x, patch, m->axis, m->theta, in->made + COS);
    in->made[KEYS] = make_keys(g, in, m->video + seen);
    in->made[TEXT_KEYS] = vtrain_key_lengths(g, &in->text[PROMPT_SLOT], 0);
    make_order(g, in, seen, in->made);
    if (seen)
        in->made[MASK] = hunyuan_first_frame_mask(g, in->x);
    vtrain_note_mask(g, in, "encoder_attention_mask", &in->text[PROMPT_SLOT]);
    vtrain_note_mask(g, in, "encoder_attention_mask_2", &in->text[GLYPH_SLOT]);
}

/* ---- forward ---- */

/* Embeds the time and, of a model distilled to steps, the time that the step leads to. The step of
 * a training sample leads to its own time: the model's mean velocity over no time is the flow's
 * velocity there, which is the target. */
static vt_tensor *embed_times(vt_ctx *g, const hunyuan15 *m, const vtrain_in *in)
{
    const model_weights *w = &m->w;
    vt_tensor *e = nn_embed_number(g, in->t, &w->time1, &w->time2, VC_F32);
    if (m->steps) {
        vt_tensor *next = in->t_next ? in->t_next : in->t;
        vtrain_note(in, "timestep_r", next);
        e = vt_add(g, e, nn_embed_number(g, next, &w->next1, &w->next2, VC_F32));
    }
    return vt_silu(g, e);
}

/* x with the embedding of its kind. */
static vt_tensor *of_kind(vt_ctx *g, const hunyuan15 *m, vt_tensor *x, int kind)
{
    return vt_add(g, x, vt_slice(g, m->w.kinds, 0, kind, kind + 1));
}

static vt_tensor *embed_glyphs(vt_ctx *g, const hunyuan15 *m, vt_tensor *text)
{
    const model_weights *w = &m->w;
    vt_tensor *x = vt_cast(g, text, vt_compute(g));
    x = vt_layer_norm(g, x, w->glyph_norm.w, w->glyph_norm.b, TEXT_EPS);
    x = vt_gelu_erf(g, vt_linear(g, x, &w->glyph1));
    x = vt_gelu_erf(g, vt_linear(g, x, &w->glyph2));
    return of_kind(g, m, vt_linear(g, x, &w->glyph3), KIND_GLYPHS);
}

static vt_tensor *embed_picture(vt_ctx *g, const hunyuan15 *m, vt_tensor *states)
{
    const model_weights *w = &m->w;
    vt_tensor *x = vt_cast(g, states, vt_compute(g));
    x = vt_layer_norm(g, x, w->picture_norm.w, w->picture_norm.b, TEXT_EPS);
    x = vt_linear(g, vt_gelu_erf(g, vt_linear(g, x, &w->picture1)), &w->picture2);
    x = vt_layer_norm(g, x, w->picture_norm_out.w, w->picture_norm_out.b, TEXT_EPS);
    return of_kind(g, m, x, KIND_PICTURE);
}

/* The noisy latents, those of the first frame, and its mask. */
static vt_tensor *joined(vt_ctx *g, const vtrain_in *in)
{
    if (in->made[MASK])
        return vt_concat(g, 1, 2, (vt_tensor *[]){
            vtrain_join(g, in, VC_ROLE_BIT(VC_ROLE_IMAGE), 1), in->made[MASK] });
    vt_tensor *zero = vt_scale(g, in->x, 0);
    return vt_concat(g, 1, 3, (vt_tensor *[]){ in->x, zero, vt_slice(g, zero, 1, 0, 1) });
}

static void hunyuan15_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const hunyuan15 *m = model;
    const model_weights *w = &m->w;
    const int patch[3] = { (int)m->patch_t, (int)m->patch, (int)m->patch };
    vt_tensor *x = joined(g, in), *text = in->text[PROMPT_SLOT].embeds;
    vtrain_note(in, "hidden_states", x);
    vtrain_note(in, "image_embeds", in->cond[VC_ROLE_VISION]);
    s[FIRST] = vt_linear(g, vt_cast(g, text, vt_compute(g)), &w->text);
    s[SECOND] = nn_embed_patches(g, nn_patches(g, x, patch), &w->patch);
    s[E] = embed_times(g, m, in);
    s[E_REFINER] = hunyuan_refiner_embed(g, &w->refiner, in->t, text, in->made[TEXT_KEYS]);
    memcpy(s + MADE, in->made, (N_IN - MADE) * sizeof *in->made);
    s[GLYPHS] = embed_glyphs(g, m, in->text[GLYPH_SLOT].embeds);
    s[SEEN] = in->made[MASK] ? embed_picture(g, m, in->cond[VC_ROLE_VISION]) : NULL;
    s[TEXT_ORDER] = in->made[ORDER];
    s[TEXT_INVERSE] = in->made[INVERSE];
}

static void refiner_block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                          vt_tensor **out)
{
    const hunyuan15 *m = model;
    out[FIRST] = hunyuan_refine(g, in[FIRST], in[E_REFINER], weights, m->heads,
                                in[MADE + TEXT_KEYS]);
}

/* The prompt is refined: the other texts join it, and the video takes its place. */
static void join_texts(vt_ctx *g, const void *model, vt_tensor *s[VT_BLOCK_IO])
{
    vt_tensor *part[3], *text;
    int n = 0;
    if (s[SEEN])
        part[n++] = s[SEEN];
    part[n++] = s[GLYPHS];
    part[n++] = of_kind(g, model, s[FIRST], KIND_PROMPT);
    text = vt_reorder(g, vt_concat(g, 1, n, part), s[TEXT_ORDER], s[TEXT_INVERSE]);
    s[FIRST] = s[SECOND];
    s[SECOND] = text;
    s[GLYPHS] = s[SEEN] = NULL;
}

/* Not shared with hunyuan.c and qwen.c, whose blocks have other inputs and the times of clean
 * tokens: what is the same is nn_joint_block. */
static void dual_block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                       vt_tensor **out)
{
    const hunyuan15 *m = model;
    const nn_dual_weights *w = weights;
    const nn_times t[2] = { { .e = in[E] }, { .e = in[E] } };
    const nn_heads heads[2] = { { m->heads, EPS, in[MADE + COS], in[MADE + SIN], 0 },
                                { .n = m->heads, .eps = EPS } };
    nn_joint_block(g, in + FIRST, t, w->stream, heads, in[MADE + KEYS], out);
}

static vt_tensor *hunyuan15_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    const hunyuan15 *m = model;
    vt_tensor *x = vtrain_noisy_begin(g, s[FIRST], m->video);
    x = nn_flux_head(g, x, s[E], &m->w.mod_out, &m->w.proj_out);
    return vt_unpatchify(g, vtrain_noisy_end(g, x, m->video), in->x->dim + 1, (int)m->patch_t,
                         (int)m->patch, (int)m->patch, VT_C_FIRST);
}

/* Models of 720p have larger shifts, which differ by the task. */
static void hunyuan15_schedule(const cJSON *config, vtrain_scheduler *s)
{
    const cJSON *side = cJSON_GetObjectItemCaseSensitive(config, "target_size");
    const cJSON *task = cJSON_GetObjectItemCaseSensitive(config, "task_type");
    if (cJSON_IsNumber(side) && side->valueint >= HUNYUAN15_720P)
        s->shift = cJSON_IsString(task) && !strcmp(task->valuestring, "t2v") ? 9 : 7;
}

const vtrain_family vtrain_hunyuan15 = {
    .class_name = HUNYUAN15_CLASS, .first_class = "HunyuanVideo_1_5_DiffusionTransformer",
    .convert = hunyuan15_convert, .first_names = hunyuan15_first_names,
    .packed_names = hunyuan15_packed_names, .schedule = hunyuan15_schedule,
    .text_args = { "encoder_hidden_states", "encoder_hidden_states_2" },
    .lora_names = hunyuan15_names, .peer_names = hunyuan15_peer_names,
    .kohya = &vtrain_kohya_diffusers,
    .size = sizeof(hunyuan15), .weights = offsetof(hunyuan15, w), .table = model_table,
    .read = hunyuan15_read, .fit = hunyuan15_fit, .prepare = hunyuan15_prepare,
    .embed = hunyuan15_embed, .head = hunyuan15_head, .whole_kinds = 1, .two_parts = true,
    .blocks = { { HUNYUAN_REFINER, hunyuan_refiner_table, sizeof(hunyuan_refiner_weights), N_IN, 1,
                  refiner_block, NULL, NULL },
                { "transformer_blocks.%d.", nn_dual_table, sizeof(nn_dual_weights), N_IN, 2,
                  dual_block, join_texts, NULL } },
    .objective = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
    .flow_shift = 5, .logit_mean = 0, .logit_std = 1,
    .posterior_mean = false, .bf16 = true,
    .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 6, .inference_steps = 50, .batch = 1,
    .steps = 1000,
    .lora_targets = "transformer_blocks\\.[0-9]+\\.attn\\."      /* not the refiner's */
                    "(to_q|to_k|to_v|to_out\\.0|add_q_proj|add_k_proj|add_v_proj|to_add_out)",
};
