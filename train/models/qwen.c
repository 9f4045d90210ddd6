/* qwen.c - Qwen-Image (Wu et al. 2025), an MM-DiT: all blocks have a stream of the picture's tokens
 * and one of the prompt's, which meet in the attention. Semantics and names are those of diffusers'
 * QwenImageTransformer2DModel. Latents: one picture [B,C,1,h,w].
 *
 * Qwen-Image-Edit is the same model. The tokens of its reference pictures, each of its own size,
 * stand behind those of the noisy picture, and the number of a picture is its place on the first
 * axis of rotations. With zero_cond_t (2511) they are modulated as tokens of the time 0.
 *
 * A blockwise ControlNet (DiffSynth-Studio's) has a small net behind each block: it adds to the
 * noisy picture's tokens what it makes of them and of the condition's, whose latents have the
 * picture's size. Its weights are rows of the same tables (train/models/controlnet.h). A ControlNet
 * of copied blocks (diffusers' QwenImageControlNetModel) is a model of its own beside this one.
 *
 * The prompt's tokens of the last block are not read, so the layers that make them have no
 * gradient. */
#include <string.h>

#include "common/nn/embeddings.h"
#include "common/nn/joint_block.h"
#include "common/nn/positions.h"
#include "common/tensor/exchange.h"
#include "formats/json/config.h"
#include "train/models/dit.h"

#define EPS 1e-6f
#define THETA 10000

enum { PATCH = 2, TIME = 256, MLP = 4, MAX_WIDTH = 16384 };

/* indices into sizes of the weight tables */
enum { D = -1, TOKEN_IN = -2, TOKEN_OUT = -3, TEXT = -4, HEAD = -5, HIDDEN = -6, SIX_D = -7,
       TWO_D = -8, CONTROL_D = -9, CONTROL_IN = -10, CONDITION_IN = -11 };

typedef struct control_weights {              /* of a block's ControlNet */
    vt_tensor *x_norm, *c_norm;               /* [D] of the picture's tokens, of the condition's */
    vt_lin in, out;
} control_weights;

typedef struct block_weights {
    nn_stream_weights stream[2];
    control_weights control;
} block_weights;

typedef struct model_weights {
    vt_lin patch, text, time1, time2, mod_out, proj_out;
    vt_tensor *text_norm;                     /* [TEXT] */
    vt_lin control;
} model_weights;

#define LIN(type, field, name, out, in) \
    { name, VT_W_LINEAR, offsetof(type, field), { out, in }, VT_INIT_XAVIER }
#define BLOCK(field, name, out, in) LIN(block_weights, field, name, out, in)
#define NORM(field, name) \
    { name, VT_W_TENSOR, offsetof(block_weights, field), { HEAD }, VT_INIT_ONE }

/* The layers in front of the blocks. */
#define EMBEDDERS \
    LIN(model_weights, time1, "time_text_embed.timestep_embedder.linear_1", D, TIME), \
    LIN(model_weights, time2, "time_text_embed.timestep_embedder.linear_2", D, D), \
    { "txt_norm.weight", VT_W_TENSOR, offsetof(model_weights, text_norm), { TEXT }, VT_INIT_ONE }, \
    LIN(model_weights, patch, "img_in", D, TOKEN_IN), \
    LIN(model_weights, text, "txt_in", D, TEXT)

static const vt_weight model_table[] = {
    EMBEDDERS,
    LIN(model_weights, mod_out, "norm_out.linear", TWO_D, D),
    LIN(model_weights, proj_out, "proj_out", TOKEN_OUT, D),
    { "controlnet.img_in", VT_W_LINEAR, offsetof(model_weights, control), { CONTROL_D, CONTROL_IN },
      VT_INIT_ZERO },
    { 0 }
};

static const vt_weight copied_table[] = {     /* of a ControlNet of copied blocks */
    EMBEDDERS,
    { "controlnet_x_embedder", VT_W_LINEAR, offsetof(model_weights, control), { D, CONDITION_IN },
      VT_INIT_ZERO },
    { 0 }
};

/* The rows of a stream in a block; q, k, v, out and norms are those of attn. */
#define STREAM(i, name, q_, k_, v_, out_, norm_q_, norm_k_) \
    BLOCK(stream[i].mod, name "_mod.1", SIX_D, D), \
    BLOCK(stream[i].attn.q, "attn." q_, D, D), \
    BLOCK(stream[i].attn.k, "attn." k_, D, D), \
    BLOCK(stream[i].attn.v, "attn." v_, D, D), \
    BLOCK(stream[i].attn.out, "attn." out_, D, D), \
    NORM(stream[i].attn.norm_q.w, "attn." norm_q_ ".weight"), \
    NORM(stream[i].attn.norm_k.w, "attn." norm_k_ ".weight"), \
    BLOCK(stream[i].up, name "_mlp.net.0.proj", HIDDEN, D), \
    BLOCK(stream[i].down, name "_mlp.net.2", D, HIDDEN)

/* A row of a block's ControlNet. */
#define CONTROL(field, name, kind, init, ...) \
    { "controlnet." name, kind, offsetof(block_weights, control.field), { __VA_ARGS__ }, init }

static const vt_weight block_table[] = {      /* names follow "transformer_blocks.%d." */
    STREAM(0, "img", "to_q", "to_k", "to_v", "to_out.0", "norm_q", "norm_k"),
    STREAM(1, "txt", "add_q_proj", "add_k_proj", "add_v_proj", "to_add_out", "norm_added_q",
           "norm_added_k"),
    CONTROL(x_norm, "x_rms.weight", VT_W_TENSOR, VT_INIT_ONE, CONTROL_D),
    CONTROL(c_norm, "y_rms.weight", VT_W_TENSOR, VT_INIT_ONE, CONTROL_D),
    CONTROL(in, "input_proj", VT_W_LINEAR, VT_INIT_KAIMING, CONTROL_D, CONTROL_D),
    CONTROL(out, "output_proj", VT_W_LINEAR, VT_INIT_ZERO, CONTROL_D, CONTROL_D),
    { 0 }
};

typedef struct qwen {
    vtrain_dit dit;
    int64_t layers, heads, head, token_in, out_channels, text, axis[3];
    int64_t extra;                            /* numbers of a condition's token that its mask has */
    int axes;
    bool zero_cond_t, controlled;
    int64_t picture;                          /* tokens of the noisy picture, since prepare */
    model_weights w;
} qwen;

/* vtrain_in.made: cosines and sines of the picture's rotations and of the prompt's; the number of
 * keys of each row. */
enum { COS, SIN, TEXT_COS, TEXT_SIN, KEYS, N_MADE,
       KNOWN = N_MADE };                      /* of a ControlNet for inpainting, which no block
                                               * reads: where the picture is known */
/* The inputs of a block: the two streams, the embedding of the time, that of the time 0 where the
 * references have it, the condition's tokens of a ControlNet, and all of made. */
enum { X, PROMPT, E, E_0, CONDITION, MADE, N_IN = MADE + N_MADE };
/* The noisy picture and its references. */
enum { PICTURES = 1 + VC_REFERENCES };

/* ---- config.json ---- */

static const vf_config_row config_rows[] = {
    VF_INT(qwen, layers, "num_layers", 60, 1, 256),
    VF_INT(qwen, heads, "num_attention_heads", 24, 1, 256),
    VF_INT(qwen, head, "attention_head_dim", 128, 8, 256),
    VF_INT(qwen, token_in, "in_channels", 64, 4, 1024),
    VF_INT(qwen, out_channels, "out_channels", 16, 1, 1024),
    VF_INT(qwen, text, "joint_attention_dim", 3584, 1, 65536),
    VF_INTS(qwen, axis, axes, "axes_dims_rope", 3, 2, 256),
    VF_FLAG(qwen, zero_cond_t, "zero_cond_t", false),
    VF_INT(qwen, extra, "extra_condition_channels", 0, 0, PATCH * PATCH),
    VF_FLAG(qwen, controlled, "blockwise_controlnet", false),
    VF_ONLY_INT("num_mode", 0),               /* FLUX.1's ControlNets alone may be Unions */
    { 0 }
};

/* Checks the rules between fields. */
static int check_config(const qwen *m, vc_err *err)
{
    if (m->head % 8 || m->heads * m->head > MAX_WIDTH)
        return vc_fail(err, VC_EFORMAT, "attention_head_dim must be a multiple of 8, and "
                       "num_attention_heads times attention_head_dim at most %d", MAX_WIDTH);
    if (m->extra % (PATCH * PATCH))
        return vc_fail(err, VC_EFORMAT, "extra_condition_channels: %lld: a token's mask has %d "
                       "numbers", (long long)m->extra, PATCH * PATCH);
    return vtrain_check_axes("axes_dims_rope", m->axis, 3, m->head, err);
}

static int qwen_read(void *model, const cJSON *config, vc_err *err)
{
    qwen *m = model;
    memcpy(m->axis, (int64_t[]){ 16, 56, 56 }, sizeof m->axis);
    int rc = vf_config_read(m, config_rows, config, err);
    if (!rc)
        rc = check_config(m, err);
    if (rc)
        return rc;
    const int64_t d = m->heads * m->head;
    const int64_t sizes[VTRAIN_SIZES] = {
        [-D] = d, [-TOKEN_IN] = m->token_in, [-TOKEN_OUT] = m->token_in, [-TEXT] = m->text,
        [-HEAD] = m->head, [-HIDDEN] = MLP * d, [-SIX_D] = 6 * d, [-TWO_D] = 2 * d,
        [-CONTROL_D] = m->controlled ? d : VT_ABSENT,
        [-CONTROL_IN] = m->controlled ? m->token_in + m->extra : VT_ABSENT,
        [-CONDITION_IN] = m->token_in + m->extra,
    };
    memcpy(m->dit.sizes, sizes, sizeof sizes);
    m->dit.layers[0] = m->layers;
    return 0;
}

/* Whether the model's ControlNet reads a masked picture and the mask. */
static bool masked(const qwen *m)
{
    const qwen *side = (const qwen *)m->dit.side;
    return side ? side->extra : m->extra;
}

static void qwen_fit(const void *model, vtrain_fit *fit)
{
    const qwen *m = model;
    *fit = (vtrain_fit){ .channels = (int)m->out_channels, .n_texts = 1, .text_width = { m->text },
                         .references = ((1u << VC_REFERENCES) - 1) << VC_ROLE_REFERENCE,
                         .mult = { 1, PATCH, PATCH }, .blocks = (int)m->layers,
                         .heads = m->heads };
    if (m->controlled || m->dit.side)
        vtrain_fit_control(&m->dit, masked(m), fit);
}

/* The schedule of the released model. */
static void qwen_schedule(const cJSON *config, vtrain_scheduler *s)
{
    (void)config;
    s->by_tokens = (vtrain_by_tokens){ .on = true, .type = VTRAIN_MU_EXPONENTIAL, .base = 0.5,
                                       .max = 0.9, .base_len = 256, .max_len = 8192 };
    s->terminal = 0.02;
}

/* ---- prepare ---- */

/* Lists the noisy picture and its references, in their order. Returns their number. */
static int pictures_of(const vtrain_in *in, vt_tensor *x[PICTURES])
{
    int n = 0;
    x[n++] = in->x;
    for (int k = 0; k < VC_REFERENCES; k++)
        if (in->cond[VC_ROLE_REFERENCE + k])
            x[n++] = in->cond[VC_ROLE_REFERENCE + k];
    return n;
}

static int64_t tokens_of(const vt_tensor *x)
{
    return x->dim[3] / PATCH * (x->dim[4] / PATCH);
}

/* The middle of each picture stands at row 0 and column 0. The prompt begins behind the rows and
 * columns of all pictures, and each of its tokens has the same position on all axes. */
static void make_rope(vt_ctx *g, const qwen *m, vt_tensor *const *x, int n, int64_t tokens,
                      vt_tensor **made)
{
    nn_axis picture[PICTURES][3], prompt[3];
    int64_t behind = 0;
    for (int k = 0; k < n; k++) {
        const int64_t side[2] = { x[k]->dim[3] / PATCH, x[k]->dim[4] / PATCH };
        picture[k][0] = (nn_axis){ 1, (double)k, 1, m->axis[0] / 2 };
        for (int i = 0; i < 2; i++) {
            picture[k][1 + i] = (nn_axis){ side[i], (double)(side[i] / 2 - side[i]), 1,
                                           m->axis[1 + i] / 2 };
            behind = side[i] / 2 > behind ? side[i] / 2 : behind;
        }
    }
    for (int i = 0; i < 3; i++)
        prompt[i] = (nn_axis){ tokens, (double)behind, 1, m->axis[i] / 2 };
    nn_rope_grids(g, (const nn_axis (*)[3])picture, n, THETA, made + COS);
    nn_rope_line(g, prompt, THETA, made + TEXT_COS);
}

/* Traces the arguments of diffusers' forward() that no tensor of the model has: the sizes of each
 * row's pictures in tokens, and the length of each prompt. */
static void note_sizes(vt_ctx *g, const vtrain_in *in, vt_tensor *const *x, int n)
{
    const int64_t rows = in->x->dim[0], dim[3] = { rows, n, 3 };
    float shape[VTRAIN_ROWS * PICTURES * 3], length[VTRAIN_ROWS];
    for (int64_t b = 0; b < rows; b++) {
        for (int k = 0; k < n; k++)
            memcpy(shape + 3 * (b * n + k),
                   (float[]){ 1, (float)(x[k]->dim[3] / PATCH), (float)(x[k]->dim[4] / PATCH) },
                   3 * sizeof *shape);
        length[b] = (float)in->text[0].length[b];
    }
    vtrain_note(in, "img_shapes", n > 1 ? vt_from_host(g, VC_F32, 3, dim, shape, VC_F32)
                : vt_from_host(g, VC_F32, 2, (int64_t[]){ rows, 3 }, shape, VC_F32));
    vtrain_note(in, "txt_seq_lens", vt_from_host(g, VC_F32, 1, &rows, length, VC_F32));
}

static void qwen_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    qwen *m = model;
    const vtrain_cond *text = &in->text[0];
    if (vt_failed(g) || !in->x || !text->embeds)
        return;
    vt_tensor *x[PICTURES];
    const int n = pictures_of(in, x);
    int64_t tokens = 0;
    if (in->x->dim[2] != 1) {
        vt_fail(g, VC_EMISMATCH, "latents of %lld frames: Qwen-Image makes pictures, which have "
                "one", (long long)in->x->dim[2]);
        return;
    }
    for (int k = 0; k < n; k++)
        tokens += tokens_of(x[k]);
    m->picture = tokens_of(in->x);
    make_rope(g, m, x, n, text->embeds->dim[1], in->made);
    in->made[KEYS] = vtrain_key_lengths(g, text, tokens);
    if (masked(m))
        in->made[KNOWN] = vtrain_known_mask(g, in);
    vtrain_note_mask(g, in, "encoder_hidden_states_mask", text);
    if (in->note)
        note_sizes(g, in, x, n);
}

/* ---- forward ---- */

/* The tokens of the noisy picture, and behind them those of its references. */
static vt_tensor *patches_of(vt_ctx *g, const vtrain_in *in)
{
    vt_tensor *x[PICTURES];
    const int n = pictures_of(in, x);
    for (int k = 0; k < n; k++)
        x[k] = nn_patches(g, x[k], (int[]){ 1, PATCH, PATCH });
    return n > 1 ? vt_concat(g, 1, n, x) : x[0];
}

static vt_tensor *embed_time(vt_ctx *g, const model_weights *w, vt_tensor *t)
{
    return vt_silu(g, nn_embed_number(g, t, &w->time1, &w->time2, VC_F32));
}

static vt_tensor *embed_condition(vt_ctx *g, const qwen *m, const vtrain_in *in)
{
    const int side[3] = { 1, PATCH, PATCH };
    vt_tensor *known = m->extra ? in->made[KNOWN] : NULL;
    return vt_linear(g, vtrain_condition_tokens(g, in, known, side), &m->w.control);
}

/* The condition's tokens of a blockwise ControlNet. Where processes share the sequence zeros stand
 * behind them for the references' tokens, so that a process has those of its own tokens. */
static vt_tensor *beside(vt_ctx *g, const qwen *m, const vtrain_in *in, vt_tensor *x)
{
    vt_tensor *c = embed_condition(g, m, in);
    if (!in->shared || !x || x->dim[1] == m->picture)
        return c;
    vt_tensor *rest = vt_scale(g, vt_slice(g, x, 1, m->picture, x->dim[1]), 0);
    return vt_concat(g, 1, 2, (vt_tensor *[]){ c, rest });
}

static void qwen_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const qwen *m = model;
    const model_weights *w = &m->w;
    vt_tensor *text = vt_cast(g, in->text[0].embeds, vt_compute(g));
    s[X] = vt_linear(g, patches_of(g, in), &w->patch);
    s[PROMPT] = vt_linear(g, vt_rms_norm(g, text, w->text_norm, EPS), &w->text);
    s[E] = embed_time(g, w, in->t);
    if (m->zero_cond_t && s[X] && s[X]->dim[1] > m->picture)
        s[E_0] = embed_time(g, w, vt_scale(g, in->t, 0));
    if (m->controlled)
        s[CONDITION] = beside(g, m, in, s[X]);
    memcpy(s + MADE, in->made, N_MADE * sizeof *in->made);
}

/* The streams of a ControlNet of copied blocks. */
static void copied_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    qwen_embed(g, model, in, s);
    s[X] = vt_add(g, s[X], embed_condition(g, model, in));
}

/* Adds to the tokens of the noisy picture, which stand in front, what the block's ControlNet makes
 * of them and of the condition. A process that has references' tokens alone reads its weights too,
 * for a token to which nothing is added. */
static vt_tensor *controlled(vt_ctx *g, const qwen *m, const control_weights *w, vt_tensor *x,
                             vt_tensor *condition)
{
    if (!x || !condition)
        return NULL;
    const int64_t all = x->dim[1], own = vt_own_before(g, m->picture), n = own ? own : 1;
    vt_tensor *part[2] = { vt_slice(g, x, 1, 0, n) };
    vt_tensor *h = vt_add(g, vt_rms_norm(g, part[0], w->x_norm, EPS),
                          vt_rms_norm(g, vt_slice(g, condition, 1, 0, n), w->c_norm, EPS));
    h = vt_linear(g, vt_gelu_erf(g, vt_linear(g, h, &w->in)), &w->out);
    part[0] = vt_add(g, part[0], own ? h : vt_scale(g, h, 0));
    if (all == n)
        return part[0];
    part[1] = vt_slice(g, x, 1, n, all);
    return vt_concat(g, 1, 2, part);
}

static void block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                  vt_tensor **out)
{
    const qwen *m = model;
    const block_weights *w = weights;
    vt_tensor *const *made = in + MADE;
    const nn_times t = { .e = in[E] };
    /* the picture is the group in front, with the time, and references have the time 0 */
    const nn_times split = { .e = in[E_0], .clean = in[E],
                             .split = vt_own_before(g, m->picture) };
    const nn_heads heads[2] = { { m->heads, EPS, made[COS], made[SIN], 0 },
                                { m->heads, EPS, made[TEXT_COS], made[TEXT_SIN], 0 } };
    nn_joint_block(g, in + X, (const nn_times[2]){ in[E_0] ? split : t, t }, w->stream, heads,
                   made[KEYS], out);
    if (m->controlled)
        out[0] = controlled(g, m, &w->control, out[0], in[CONDITION]);
}

static vt_tensor *qwen_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    const qwen *m = model;
    const model_weights *w = &m->w;
    vt_tensor *e[2], *noisy = vtrain_noisy_begin(g, s[X], m->picture);
    vt_chunk(g, nn_modulation(g, s[E], &w->mod_out, 2), 1, 2, e);
    vt_tensor *x = vt_layer_norm_modulate(g, noisy, NULL, NULL, e[1], e[0], EPS);
    x = vtrain_noisy_end(g, vt_linear(g, x, &w->proj_out), m->picture);
    return vt_unpatchify(g, x, in->x->dim + 1, 1, PATCH, PATCH, VT_C_FIRST);
}

static const vtrain_family copied = {
    .class_name = "QwenImageControlNetModel",
    .size = sizeof(qwen), .weights = offsetof(qwen, w), .table = copied_table,
    .read = qwen_read, .embed = copied_embed,
    .blocks = { { "transformer_blocks.%d.", block_table, sizeof(block_weights), N_IN, 2, block,
                  NULL, NULL } },
    .two_parts = true,
    .hint = { "controlnet_blocks.%d" },
};

const vtrain_family vtrain_qwen = {
    .class_name = "QwenImageTransformer2DModel",
    .text_args = { "encoder_hidden_states" }, .layout = VTRAIN_TOKENS, .time = VTRAIN_TIME_LEVEL,
    .size = sizeof(qwen), .weights = offsetof(qwen, w), .table = model_table,
    .controlnet = "blockwise_controlnet", .copied = &copied,
    .read = qwen_read, .fit = qwen_fit, .prepare = qwen_prepare, .embed = qwen_embed,
    .blocks = { { "transformer_blocks.%d.", block_table, sizeof(block_weights), N_IN, 2, block,
                  NULL, NULL } },
    .two_parts = true, .stream = CONDITION, .head = qwen_head,
    .objective = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
    .flow_shift = 1, .logit_mean = 0, .logit_std = 1, .schedule = qwen_schedule,
    .posterior_mean = true, .bf16 = true, .renormalised = true,
    .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 4, .inference_steps = 50,
    .batch = 1, .steps = 1000,
    .lora_targets = "to_q,to_k,to_v,to_out.0,add_q_proj,add_k_proj,add_v_proj,to_add_out",
};
