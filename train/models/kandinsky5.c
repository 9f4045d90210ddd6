/* kandinsky5.c - Kandinsky 5 (Kandinsky Lab 2025): the prompt's tokens attend to each other, then
 * those of the video to each other and to the prompt. Semantics and names are those of diffusers'
 * Kandinsky5Transformer3DModel, of Lite and Pro, T2V and I2V.
 *
 * Beside the noisy latents are channels for known ones, which are zeros in diffusers' pipelines,
 * and a mask of the frames that are clean: the first one, or none. Positions along rows and columns
 * are nearer to each other than 1; how near depends on the size of the clip. */
#include <string.h>

#include "common/nn/attention.h"
#include "common/nn/embeddings.h"
#include "common/nn/positions.h"
#include "common/tensor/exchange.h"
#include "formats/json/config.h"
#include "train/models/dit.h"

#define EPS 1e-5f
#define HEAD_EPS 1.1920929e-7f                /* FLT_EPSILON, as of torch's RMSNorm without one */

enum { AXES = 3, MODS = 3, THETA = 10000, MAX_WIDTH = 16384,
       PLACES = 128 };                        /* of tokens along an axis */

/* Indices into the sizes of the weight tables. */
enum { D = -1, IN = -2, TEXT = -3, POOLED = -4, TIME = -5, HEAD = -6, HIDDEN = -7, TWO_D = -8,
       SIX_D = -9, NINE_D = -10, TOKEN_OUT = -11 };

typedef struct block_weights {
    vt_lin mod, up, down;
    nn_attention self, cross;                 /* cross: of the video's blocks */
} block_weights;

typedef struct model_weights {
    vt_lin time1, time2, text, pooled, patch, mod_out, proj_out;
    nn_norm text_norm, pooled_norm;
} model_weights;

#define LIN(field, name, out, in) \
    { name, VT_W_LINEAR, offsetof(model_weights, field), { out, in }, VT_INIT_XAVIER }
#define NORM(field, name, n) \
    { name ".weight", VT_W_TENSOR, offsetof(model_weights, field.w), { n }, VT_INIT_ONE }, \
    { name ".bias", VT_W_TENSOR, offsetof(model_weights, field.b), { n }, VT_INIT_ZERO }
#define BLOCK(kind, field, name, init, ...) \
    { name, kind, offsetof(block_weights, field), { __VA_ARGS__ }, init }
#define BLOCK_LIN(field, name, out, in) BLOCK(VT_W_LINEAR, field, name, VT_INIT_XAVIER, out, in)
#define ATTENTION(field, name) \
    BLOCK_LIN(field.q, name ".to_query", D, D), \
    BLOCK_LIN(field.k, name ".to_key", D, D), \
    BLOCK_LIN(field.v, name ".to_value", D, D), \
    BLOCK(VT_W_TENSOR, field.norm_q.w, name ".query_norm.weight", VT_INIT_ONE, HEAD), \
    BLOCK(VT_W_TENSOR, field.norm_k.w, name ".key_norm.weight", VT_INIT_ONE, HEAD), \
    BLOCK_LIN(field.out, name ".out_layer", D, D)
#define FEED_FORWARD \
    BLOCK(VT_W_LINEAR_NO_BIAS, up, "feed_forward.in_layer", VT_INIT_XAVIER, HIDDEN, D), \
    BLOCK(VT_W_LINEAR_NO_BIAS, down, "feed_forward.out_layer", VT_INIT_XAVIER, D, HIDDEN)

static const vt_weight model_table[] = {
    LIN(time1, "time_embeddings.in_layer", TIME, D),
    LIN(time2, "time_embeddings.out_layer", TIME, TIME),
    LIN(text, "text_embeddings.in_layer", D, TEXT),
    NORM(text_norm, "text_embeddings.norm", D),
    LIN(pooled, "pooled_text_embeddings.in_layer", TIME, POOLED),
    NORM(pooled_norm, "pooled_text_embeddings.norm", TIME),
    LIN(patch, "visual_embeddings.in_layer", D, IN),
    LIN(mod_out, "out_layer.modulation.out_layer", TWO_D, TIME),
    LIN(proj_out, "out_layer.out_layer", TOKEN_OUT, D), { 0 }
};

static const vt_weight text_table[] = {
    BLOCK_LIN(mod, "text_modulation.out_layer", SIX_D, TIME),
    ATTENTION(self, "self_attention"), FEED_FORWARD, { 0 }
};

static const vt_weight video_table[] = {
    BLOCK_LIN(mod, "visual_modulation.out_layer", NINE_D, TIME),
    ATTENTION(self, "self_attention"), ATTENTION(cross, "cross_attention"), FEED_FORWARD, { 0 }
};

typedef struct kandinsky5 {
    vtrain_dit dit;
    int64_t in, out, text, pooled, time, width, hidden, layers[2], axis[AXES], heads;
    int patch[AXES], patches, axes;
    model_weights w;
} kandinsky5;

/* vtrain_in.made: rotations of the video's tokens and of the prompt's; the number of the prompt's
 * keys; the mask of clean frames. */
enum { COS, SIN, TEXT_COS, TEXT_SIN, KEYS, IN_BLOCKS, MASK = IN_BLOCKS };
/* The inputs of blocks: the prompt's tokens at FIRST and the video's at SECOND, and the other way
 * round in the video's blocks; the embedding of time and pooled prompt; the first five of made. */
enum { FIRST, SECOND, E, MADE, N_IN = MADE + IN_BLOCKS };

/* ---- config.json ---- */

static const vf_config_row config_rows[] = {
    VF_INT(kandinsky5, in, "in_visual_dim", 4, 1, 1024),
    VF_INT(kandinsky5, out, "out_visual_dim", 4, 1, 1024),
    VF_INT(kandinsky5, text, "in_text_dim", 3584, 8, 65536),
    VF_INT(kandinsky5, pooled, "in_text_dim2", 768, 1, 65536),
    VF_INT(kandinsky5, time, "time_dim", 512, 8, 65536),
    VF_INT(kandinsky5, width, "model_dim", 2048, 8, MAX_WIDTH),
    VF_INT(kandinsky5, hidden, "ff_dim", 5120, 8, 65536),
    VF_INT(kandinsky5, layers[0], "num_text_blocks", 2, 0, 64),
    VF_INT(kandinsky5, layers[1], "num_visual_blocks", 32, 1, 256),
    VF_INTS(kandinsky5, patch, patches, "patch_size", AXES, 1, 16),
    VF_INTS(kandinsky5, axis, axes, "axes_dims", AXES, 2, 256),
    { 0 }
};

static int kandinsky5_read(void *model, const cJSON *config, vc_err *err)
{
    kandinsky5 *m = model;
    memcpy(m->patch, (int[]){ 1, 2, 2 }, sizeof m->patch);
    memcpy(m->axis, (int64_t[]){ 16, 24, 24 }, sizeof m->axis);
    int rc = vf_config_read(m, config_rows, config, err);
    const int64_t head = m->axis[0] + m->axis[1] + m->axis[2];
    if (!rc && (head % 8 || m->width % head || m->text % 8 || m->time % 8))
        rc = vc_fail(err, VC_EFORMAT, "model_dim: %lld must be a multiple of the sum of axes_dims: "
                     "%lld, and this sum, in_text_dim and time_dim multiples of 8",
                     (long long)m->width, (long long)head);
    if (!rc)
        rc = vtrain_check_axes("axes_dims", m->axis, AXES, head, err);
    if (rc)
        return rc;
    m->heads = m->width / head;
    const int64_t d = m->width, places = m->patch[0] * m->patch[1] * m->patch[2];
    const int64_t sizes[VTRAIN_SIZES] = {
        [-D] = d, [-IN] = places * (2 * m->in + 1), [-TEXT] = m->text,
        [-POOLED] = m->pooled, [-TIME] = m->time, [-HEAD] = d / m->heads, [-HIDDEN] = m->hidden,
        [-TWO_D] = 2 * d, [-SIX_D] = 2 * MODS * d, [-NINE_D] = 3 * MODS * d,
        [-TOKEN_OUT] = places * m->out,
    };
    memcpy(m->dit.sizes, sizes, sizeof sizes);
    memcpy(m->dit.layers, m->layers, sizeof m->layers);
    return 0;
}

static void kandinsky5_fit(const void *model, vtrain_fit *fit)
{
    const kandinsky5 *m = model;
    *fit = (vtrain_fit){ .channels = (int)m->out, .n_texts = 2,
                         .text_width = { m->text }, .pooled_width = { 0, m->pooled },
                         .mult = { m->patch[0], m->patch[1], m->patch[2] },
                         .clean_rows = true,
                         .blocks = (int)(m->layers[0] + m->layers[1]), .heads = m->heads };
}

/* ---- prepare ---- */

/* What the pipelines divide the positions of rows and columns by, for latents of h rows. */
static double spread(int64_t h, int64_t w)
{
    enum { PIXELS = 8, LEAST = 480, MOST = 854 };
    const int64_t small = PIXELS * (h < w ? h : w), large = PIXELS * (h < w ? w : h);
    return small >= LEAST && large <= MOST ? 2 : 3.16;
}

static void make_rope(vt_ctx *g, const kandinsky5 *m, const int64_t *dim, int64_t text,
                      vt_tensor **made)
{
    const nn_axis line[AXES] = { { text, 0, 1, m->width / m->heads / 2 }, { 1, 0, 1, 0 },
                                 { 1, 0, 1, 0 } };
    nn_axis video[AXES];
    for (int i = 0; i < AXES; i++) {
        const double step = i ? 1 / spread(dim[3], dim[4]) : 1;
        video[i] = (nn_axis){ dim[2 + i] / m->patch[i], 0, step, m->axis[i] / 2 };
        if (video[i].n > PLACES)
            vt_fail(g, VC_EMISMATCH, "%lld tokens along axis %d of the latents: Kandinsky 5 has "
                    "positions for %d", (long long)video[i].n, i + 2, PLACES);
    }
    nn_rope(g, video, THETA, made + COS);
    nn_rope(g, line, THETA, made + TEXT_COS);
}

/* Makes the mask of clean frames of latents x [B,C,f,h,w]: [B,1,f,h,w]. */
static vt_tensor *make_mask(vt_ctx *g, vt_tensor *x, const bool *clean)
{
    const int64_t dim[5] = { x->dim[0], 1, 1, 1, 1 };
    float row[VTRAIN_ROWS];
    for (int64_t b = 0; b < dim[0]; b++)
        row[b] = clean && clean[b];
    vt_tensor *zero = vt_scale(g, vt_slice(g, x, 1, 0, 1), 0), *part[2];
    part[0] = vt_add(g, vt_slice(g, zero, 2, 0, 1), vt_from_host(g, VC_F32, 5, dim, row, VC_F32));
    if (x->dim[2] == 1)
        return part[0];
    part[1] = vt_slice(g, zero, 2, 1, x->dim[2]);
    return vt_concat(g, 2, 2, part);
}

static void kandinsky5_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    const kandinsky5 *m = model;
    const vtrain_cond *text = in->text;
    if (vt_failed(g) || !in->x || !text->embeds || !vtrain_check_pooled(g, text + 1, m->pooled))
        return;
    make_rope(g, m, in->x->dim, text->embeds->dim[1], in->made);
    in->made[KEYS] = vtrain_key_lengths(g, text, 0);
    in->made[MASK] = make_mask(g, in->x, in->clean);
    vtrain_note_mask(g, in, "encoder_attention_mask", text);
}

/* ---- forward ---- */

static void kandinsky5_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const kandinsky5 *m = model;
    const model_weights *w = &m->w;
    vt_tensor *x = in->x, *text = in->text[0].embeds, *pooled = in->text[1].pooled;
    vtrain_note(in, "pooled_projections", pooled);
    x = vt_concat(g, 1, 3, (vt_tensor *[]){ x, vt_scale(g, x, 0), in->made[MASK] });
    vtrain_note(in, "hidden_states", in->note ? vt_permute(g, x, (int[]){ 0, 2, 3, 4, 1 }) : x);
    text = vt_linear(g, vt_cast(g, text, vt_compute(g)), &w->text);
    s[FIRST] = vt_layer_norm(g, text, w->text_norm.w, w->text_norm.b, EPS);
    x = vt_patchify(g, x, m->patch[0], m->patch[1], m->patch[2], VT_C_LAST);
    s[SECOND] = vt_linear(g, vt_cast(g, x, vt_compute(g)), &w->patch);
    pooled = vt_layer_norm(g, vt_linear_f32(g, pooled, &w->pooled), w->pooled_norm.w,
                           w->pooled_norm.b, EPS);
    s[E] = vt_silu(g, vt_add(g, nn_embed_number(g, in->t, &w->time1, &w->time2, VC_F32), pooled));
    memcpy(s + MADE, in->made, IN_BLOCKS * sizeof *in->made);
}

/* e: shift, scale, gate. */
static vt_tensor *modulated(vt_ctx *g, vt_tensor *x, vt_tensor *const *e)
{
    return vt_layer_norm_modulate(g, x, NULL, NULL, e[0], e[1], EPS);
}

static vt_tensor *feed_forward(vt_ctx *g, vt_tensor *x, const block_weights *w,
                               vt_tensor *const *e)
{
    vt_tensor *h = vt_gelu_erf(g, vt_linear(g, modulated(g, x, e), &w->up));
    return vt_gated_add(g, x, vt_linear(g, h, &w->down), e[2]);
}

static void text_block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                       vt_tensor **out)
{
    const kandinsky5 *m = model;
    const block_weights *w = weights;
    const nn_heads heads = { m->heads, HEAD_EPS, in[MADE + TEXT_COS], in[MADE + TEXT_SIN], 0 };
    vt_tensor *e[2 * MODS], *x = in[FIRST];
    nn_chunk(g, nn_modulation(g, in[E], &w->mod, 2 * MODS), 2 * MODS, e);
    x = vt_gated_add(g, x, nn_self_attention(g, modulated(g, x, e), &w->self, &heads,
                                             in[MADE + KEYS]), e[2]);
    out[FIRST] = feed_forward(g, x, w, e + MODS);
}

static void video_block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                        vt_tensor **out)
{
    const kandinsky5 *m = model;
    const block_weights *w = weights;
    const nn_heads heads = { m->heads, HEAD_EPS, in[MADE + COS], in[MADE + SIN], 0 };
    const nn_heads plain = { .n = m->heads, .eps = HEAD_EPS };
    vt_tensor *mod[3 * MODS], *x = in[FIRST], **e = mod + MODS;
    nn_chunk(g, nn_modulation(g, in[E], &w->mod, 3 * MODS), 3 * MODS, mod);
    x = vt_gated_add(g, x, nn_self_attention(g, modulated(g, x, mod), &w->self, &heads, NULL),
                     mod[2]);
    x = vt_gated_add(g, x, nn_cross_attention(g, modulated(g, x, e), in[SECOND], &w->cross, &plain,
                                              in[MADE + KEYS]), e[2]);
    out[FIRST] = feed_forward(g, x, w, e + MODS);
}

static vt_tensor *kandinsky5_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    const kandinsky5 *m = model;
    vt_tensor *e[2];
    nn_chunk(g, nn_modulation(g, s[E], &m->w.mod_out, 2), 2, e);
    vt_tensor *x = vt_linear(g, modulated(g, s[FIRST], e), &m->w.proj_out);
    return vt_unpatchify(g, vt_all_tokens(g, x), in->x->dim + 1, m->patch[0], m->patch[1],
                         m->patch[2], VT_C_FIRST);
}

const vtrain_family vtrain_kandinsky5 = {
    .class_name = "Kandinsky5Transformer3DModel", .kohya = &vtrain_kohya_plain,
    .text_args = { "encoder_hidden_states" }, .layout = VTRAIN_CHANNELS_LAST,
    .time = VTRAIN_TIME_STEP,
    .size = sizeof(kandinsky5), .weights = offsetof(kandinsky5, w), .table = model_table,
    .read = kandinsky5_read, .fit = kandinsky5_fit, .prepare = kandinsky5_prepare,
    .embed = kandinsky5_embed, .head = kandinsky5_head, .whole_kinds = 1,
    .blocks = { { "text_transformer_blocks.%d.", text_table, sizeof(block_weights), N_IN, 1,
                  text_block, NULL, NULL },
                { "visual_transformer_blocks.%d.", video_table, sizeof(block_weights), N_IN, 1,
                  video_block, vtrain_swap_streams, NULL } },
    .objective = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
    .flow_shift = 10, .logit_mean = 0, .logit_std = 1,
    .posterior_mean = false, .bf16 = true,
    .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 5, .inference_steps = 50, .batch = 1,
    .steps = 1000,
    .lora_targets = "visual_transformer_blocks\\.[0-9]+\\.(self|cross)_attention\\."
                    "(to_query|to_key|to_value|out_layer)",
};
