/* cosmos2.c - Cosmos-Predict2 (NVIDIA 2025): blocks of self-attention over the tokens of the video,
 * cross-attention to the prompt and a feed-forward layer, each of which the time modulates by two
 * narrow layers, whose results are added to those of one that all blocks share. Semantics and names
 * are those of diffusers' CosmosTransformer3DModel, of Text2Image and Video2World 2B and 14B.
 * Latents: pictures or clips [B,C,f,h,w]; of Video2World a clip may begin with a clean frame, which
 * a channel of ones beside it marks, and whose tokens have a level of their own.
 *
 * A model that is asked as NVIDIA does, for noise of the deviation s beside a clean picture, is a
 * flow at the level s / (1 + s), from 0 to 1, which is the time that it gets. A channel of zeros
 * beside the latents says that no part of the picture is padding. All prompts have 512 tokens: rows
 * of zeros follow a shorter one, and the video sees them too. */
#include <math.h>
#include <string.h>

#include "common/nn/attention.h"
#include "common/nn/embeddings.h"
#include "common/nn/positions.h"
#include "common/tensor/exchange.h"
#include "formats/json/config.h"
#include "train/models/cosmos2.h"
#include "train/models/dit.h"

#define EPS 1e-6f                             /* of the layer norms and of the time's norm */
#define QK_EPS 1e-5f
#define MAX_PERIOD 10000.0f

#define KNOWN (1e-4f / (1 + 1e-4f))           /* the level that a clean frame is said to have */
#define SHARP 1e6f                            /* 2 sigmoid(-SHARP t) is 1 or 0 */

enum { TEXT_ROWS = 512, PARTS = 3, MAX_WIDTH = 16384 };

/* Indices into the sizes of the weight tables. */
enum { D = -1, IN = -2, OUT = -3, TEXT = -4, HEAD = -5, HIDDEN = -6, RANK = -7, TWO_D = -8,
       THREE_D = -9 };

typedef struct narrow { vt_lin down, up; } narrow;     /* of shift, scale and, in blocks, gate */
typedef struct block_weights {
    narrow mod[PARTS];                        /* of both attentions and of the feed-forward layer */
    nn_attention self, cross;
    vt_lin up, down;
} block_weights;

typedef struct model_weights {
    vt_lin patch, time1, time2, proj_out;
    vt_tensor *time_norm;                     /* [D] */
    narrow mod;
} model_weights;

#define LIN(type, field, name, out, in) \
    { name, VT_W_LINEAR_NO_BIAS, offsetof(type, field), { out, in }, VT_INIT_XAVIER }
#define NORM(type, field, name, n) { name, VT_W_TENSOR, offsetof(type, field), { n }, VT_INIT_ONE }
#define NARROW(type, field, name, n) \
    LIN(type, field.down, name ".linear_1", RANK, D), LIN(type, field.up, name ".linear_2", n, RANK)
#define ATTENTION(field, name, in) \
    NORM(block_weights, field.norm_q.w, name ".norm_q.weight", HEAD), \
    NORM(block_weights, field.norm_k.w, name ".norm_k.weight", HEAD), \
    LIN(block_weights, field.q, name ".to_q", D, D), \
    LIN(block_weights, field.k, name ".to_k", D, in), \
    LIN(block_weights, field.v, name ".to_v", D, in), \
    LIN(block_weights, field.out, name ".to_out.0", D, D)

static const vt_weight model_table[] = {
    LIN(model_weights, patch, "patch_embed.proj", D, IN),
    LIN(model_weights, time1, "time_embed.t_embedder.linear_1", D, D),
    LIN(model_weights, time2, "time_embed.t_embedder.linear_2", THREE_D, D),
    NORM(model_weights, time_norm, "time_embed.norm.weight", D),
    NARROW(model_weights, mod, "norm_out", TWO_D),
    LIN(model_weights, proj_out, "proj_out", OUT, D),
    { 0 }
};

static const vt_weight block_table[] = {      /* names follow "transformer_blocks.%d." */
    NARROW(block_weights, mod[0], "norm1", THREE_D),
    ATTENTION(self, "attn1", D),
    NARROW(block_weights, mod[1], "norm2", THREE_D),
    ATTENTION(cross, "attn2", TEXT),
    NARROW(block_weights, mod[2], "norm3", THREE_D),
    LIN(block_weights, up, "ff.net.0.proj", HIDDEN, D),
    LIN(block_weights, down, "ff.net.2", D, HIDDEN),
    { 0 }
};

typedef struct cosmos2 {
    vtrain_dit dit;
    int64_t channels, out_channels, heads, head, layers, text, rank;
    int64_t most[3], patch[3];                /* frames, rows and columns of latents; of a token */
    double mlp, scale[3];                     /* of the positions on these axes */
    int n_most, n_patch, n_scale;
    int64_t clean;                            /* tokens of a clean first frame in the step in
                                               * progress; 0: all tokens have one time */
    model_weights w;
} cosmos2;

/* vtrain_in.made: cosines and sines of the rotations. */
enum { COS, SIN };
/* The inputs of a block: the video's tokens; the prompt's; the embedding of a clean first frame's
 * time, if there is one, and of the other tokens'; what is added to each block's results of these;
 * the tables of the rotations. */
enum { X, PROMPT, E, SHARED = E + 2, TABLES = SHARED + 2, N_IN = TABLES + 2 };

/* ---- config.json ---- */

static const vf_config_row config_rows[] = {
    VF_INT(cosmos2, channels, "in_channels", 16, 1, 1024),
    VF_INT(cosmos2, out_channels, "out_channels", 16, 1, 1024),
    VF_INT(cosmos2, heads, "num_attention_heads", 32, 1, 256),
    VF_INT(cosmos2, head, "attention_head_dim", 128, 8, 256),
    VF_INT(cosmos2, layers, "num_layers", 28, 1, 256),
    VF_INT(cosmos2, text, "text_embed_dim", 1024, 1, 65536),
    VF_INT(cosmos2, rank, "adaln_lora_dim", 256, 1, 65536),
    VF_NUM(cosmos2, mlp, "mlp_ratio", 4, VF_ABOVE_0, 64),
    VF_INTS(cosmos2, most, n_most, "max_size", 3, 1, 1 << 20),
    VF_INTS(cosmos2, patch, n_patch, "patch_size", 3, 1, 16),
    VF_NUMS(cosmos2, scale, n_scale, "rope_scale", 3, VF_ABOVE_0, 1000),
    { 0 }
};

static int cosmos2_read(void *model, const cJSON *config, vc_err *err)
{
    cosmos2 *m = model;
    memcpy(m->most, (int64_t[]){ 128, 240, 240 }, sizeof m->most);
    memcpy(m->patch, (int64_t[]){ 1, 2, 2 }, sizeof m->patch);
    memcpy(m->scale, (double[]){ 2, 1, 1 }, sizeof m->scale);
    int rc = vf_config_read(m, config_rows, config, err);
    if (rc)
        return rc;
    const int64_t d = m->heads * m->head, area = m->patch[1] * m->patch[2];
    if (m->head % 8 || m->head < 16 || d > MAX_WIDTH)
        return vc_fail(err, VC_EFORMAT, "attention_head_dim must be a multiple of 8 above 8, and "
                       "num_attention_heads times attention_head_dim at most %d", MAX_WIDTH);
    if (m->patch[0] != 1)
        return vc_fail(err, VC_EFORMAT, "patch_size: a token has several frames; 1 is supported");
    const int64_t sizes[VTRAIN_SIZES] = {
        [-D] = d, [-IN] = (m->channels + 1) * area, [-OUT] = m->out_channels * area,
        [-TEXT] = m->text, [-HEAD] = m->head, [-HIDDEN] = (int64_t)((double)d * m->mlp),
        [-RANK] = m->rank, [-TWO_D] = 2 * d, [-THREE_D] = 3 * d,
    };
    memcpy(m->dit.sizes, sizes, sizeof sizes);
    m->dit.layers[0] = m->layers;
    return 0;
}

static bool takes_frames(const cosmos2 *m) { return m->channels > m->out_channels; }

static void cosmos2_fit(const void *model, vtrain_fit *fit)
{
    const cosmos2 *m = model;
    *fit = (vtrain_fit){ .channels = (int)m->out_channels, .n_texts = 1, .text_width = { m->text },
                         .text_rows = { TEXT_ROWS },
                         .mult = { 1, (int)m->patch[1], (int)m->patch[2] },
                         .token_times = takes_frames(m), .begins = takes_frames(m),
                         .blocks = (int)m->layers, .heads = m->heads };
}

/* ---- prepare ---- */

/* A scale above 1 slows the rotations of an axis down, the slowest ones by the scale. */
static void make_rope(vt_ctx *g, const cosmos2 *m, const int64_t *dim, vt_tensor **made)
{
    const int64_t side = m->head / 6;
    nn_axis axis[3];
    double theta[3];
    for (int i = 0; i < 3; i++) {
        const int64_t pairs = i ? side : m->head / 2 - 2 * side;
        axis[i] = (nn_axis){ dim[i] / m->patch[i], 0, 1, pairs };
        theta[i] = MAX_PERIOD * pow(m->scale[i], (double)pairs / (double)(pairs - 1));
        if (dim[i] > m->most[i]) {
            vt_fail(g, VC_EMISMATCH, "latents of %lld frames, %lld rows and %lld columns: max_size "
                    "is %lld, %lld and %lld", (long long)dim[0], (long long)dim[1],
                    (long long)dim[2], (long long)m->most[0], (long long)m->most[1],
                    (long long)m->most[2]);
            return;
        }
    }
    nn_rope_axes(g, axis, theta, made + COS);
}

static void cosmos2_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    cosmos2 *m = model;
    if (vt_failed(g) || !in->x || !in->text[0].embeds)
        return;
    const int64_t rows = in->text[0].embeds->dim[1];
    if (rows != TEXT_ROWS) {
        vt_fail(g, VC_EMISMATCH, "prompts of %lld tokens: Cosmos-Predict2 attends to %d, of which "
                "those behind the prompt are zeros", (long long)rows, TEXT_ROWS);
        return;
    }
    m->clean = in->token_t ? in->x->dim[3] / m->patch[1] * (in->x->dim[4] / m->patch[2]) : 0;
    make_rope(g, m, in->x->dim + 2, in->made);
}

/* ---- forward ---- */

/* The latents with a channel of known frames, if the model takes any, and one of zeros. known [B]
 * is 1 for rows whose first frame is clean, and 0 for others. */
static vt_tensor *join(vt_ctx *g, const cosmos2 *m, const vtrain_in *in, vt_tensor *known)
{
    vt_tensor *padding = vt_scale(g, vt_slice(g, in->x, 1, 0, 1), 0);
    vt_tensor *part[3] = { in->x, padding, padding }, *frame[2];
    if (known) {
        const int64_t rows[5] = { in->x->dim[0], 1, 1, 1, 1 }, f = in->x->dim[2];
        frame[0] = vt_add(g, vt_slice(g, padding, 2, 0, 1), vt_reshape(g, known, 5, rows));
        frame[1] = f > 1 ? vt_slice(g, padding, 2, 1, f) : NULL;
        part[1] = f > 1 ? vt_concat(g, 2, 2, frame) : frame[0];
    }
    return vt_concat(g, 1, takes_frames(m) ? 3 : 2, part);
}

/* Sets the inputs of blocks that a level makes: those of a clean first frame (0), or of others. */
static void embed_level(vt_ctx *g, const cosmos2 *m, vt_tensor *level, int which, vt_tensor **s)
{
    const model_weights *w = &m->w;
    vt_tensor *time = vt_timestep(g, level, m->heads * m->head, MAX_PERIOD);
    s[E + which] = vt_silu(g, vt_rms_norm(g, time, w->time_norm, EPS));
    time = vt_silu(g, vt_linear_f32(g, time, &w->time1));
    s[SHARED + which] = nn_modulation(g, time, &w->time2, 3);
}

static void cosmos2_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const cosmos2 *m = model;
    const int patch[3] = { 1, (int)m->patch[1], (int)m->patch[2] };
    vt_tensor *known = NULL;
    if (m->clean) {                           /* the time of a clean frame is 0 */
        vt_tensor *t = vt_reshape(g, vt_slice(g, in->token_t, 1, 0, 1), 1, in->t->dim);
        t = vt_pack(g, t);
        known = vt_scale(g, vt_sigmoid(g, vt_scale(g, t, -SHARP)), 2);
        embed_level(g, m, vt_add(g, vt_scale(g, t, 1.0f / 1000), vt_scale(g, known, KNOWN)), 0, s);
    }
    embed_level(g, m, vt_scale(g, in->t, 1.0f / 1000), 1, s);
    s[X] = vt_linear(g, nn_patches(g, join(g, m, in, known), patch), &m->w.patch);
    s[PROMPT] = vt_cast(g, in->text[0].embeds, vt_compute(g));
    memcpy(s + TABLES, in->made, 2 * sizeof *in->made);
}

/* The n parts of what the times make by w, and of their first n that all blocks share. */
static const nn_norm none;
static nn_groups modulation(vt_ctx *g, const cosmos2 *m, vt_tensor *const *s, const narrow *w,
                            int n)
{
    const nn_times t = { .split = vt_own_before(g, m->clean) };
    vt_tensor *part[2][NN_MOD] = { { NULL } };
    for (int i = !m->clean; i < 2; i++) {
        vt_tensor *e = nn_modulation(g, vt_linear_f32(g, s[E + i], &w->down), &w->up, n);
        vt_tensor *shared = n < 3 ? vt_slice(g, s[SHARED + i], 1, 0, n) : s[SHARED + i];
        nn_chunk(g, vt_add(g, e, shared), n, part[i]);
    }
    return nn_part_groups(&t, part, 0);
}

static void block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                  vt_tensor **out)
{
    const cosmos2 *m = model;
    const block_weights *w = weights;
    const nn_heads heads = { m->heads, QK_EPS, in[TABLES + COS], in[TABLES + SIN], 0 };
    const nn_heads plain = { m->heads, QK_EPS, NULL, NULL, 0 };
    vt_tensor *x = in[X], *h;

    nn_groups e = modulation(g, m, in, &w->mod[0], 3);
    h = nn_modulate(g, x, &none, &e, EPS);
    x = nn_gate(g, x, nn_halves_attention(g, h, &w->self, &heads, NULL), &e);

    e = modulation(g, m, in, &w->mod[1], 3);
    h = nn_modulate(g, x, &none, &e, EPS);
    x = nn_gate(g, x, nn_cross_attention(g, h, in[PROMPT], &w->cross, &plain, NULL), &e);

    e = modulation(g, m, in, &w->mod[2], 3);
    h = nn_modulate(g, x, &none, &e, EPS);
    h = vt_linear(g, vt_gelu_erf(g, vt_linear(g, h, &w->up)), &w->down);
    out[X] = nn_gate(g, x, h, &e);
}

static vt_tensor *cosmos2_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    const cosmos2 *m = model;
    const nn_groups e = modulation(g, m, s, &m->w.mod, 2);
    vt_tensor *x = nn_modulate(g, s[X], &none, &e, EPS);
    x = vt_all_tokens(g, vt_linear(g, x, &m->w.proj_out));
    return vt_unpatchify(g, x, in->x->dim + 1, 1, (int)m->patch[1], (int)m->patch[2], VT_C_LAST);
}

const vtrain_family vtrain_cosmos2 = {
    .class_name = "CosmosTransformer3DModel",
    .lora_names = cosmos2_names, .kohya = &vtrain_kohya_scripts,
    .text_args = { "encoder_hidden_states" }, .time = VTRAIN_TIME_LEVEL,
    .size = sizeof(cosmos2), .weights = offsetof(cosmos2, w), .table = model_table,
    .read = cosmos2_read, .fit = cosmos2_fit, .prepare = cosmos2_prepare, .embed = cosmos2_embed,
    .head = cosmos2_head,
    .blocks = { { "transformer_blocks.%d.", block_table, sizeof(block_weights), N_IN, 1, block,
                  NULL, NULL } },
    .objective = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
    .flow_shift = 1, .logit_mean = 0, .logit_std = 1,
    .posterior_mean = true, .bf16 = true,
    .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 7, .guidance_added = true,
    .inference_steps = 35, .batch = 1, .steps = 1000,
    .lora_targets = "to_q,to_k,to_v,to_out.0", .lora_reader = "transformer.load_lora_adapter",
};
