/* cosmos2.c - Cosmos-Predict2 (NVIDIA 2025): blocks of self-attention over the tokens of the video,
 * cross-attention to the prompt and a feed-forward layer, each of which the time modulates by two
 * narrow layers, whose results are added to those of one that all blocks share. Semantics and names
 * are those of diffusers' CosmosTransformer3DModel, of Text2Image 2B and 14B. Latents: pictures or
 * clips [B,C,f,h,w].
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

enum { TEXT_ROWS = 512, PARTS = 3, MAX_WIDTH = 16384 };

/* Indices into the sizes of the weight tables. */
enum { D = -1, IN = -2, OUT = -3, TEXT = -4, HEAD = -5, HIDDEN = -6, RANK = -7, TWO_D = -8,
       THREE_D = -9 };

/* The two layers that make the time's shift and scale, and, of a block's parts, gate. */
typedef struct narrow { vt_lin down, up; } narrow;

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
    int64_t channels, heads, head, layers, text, rank;
    int64_t most[3], patch[3];                /* frames, rows and columns of latents; of a token */
    double mlp, scale[3];                     /* of the positions on these axes */
    int n_most, n_patch, n_scale;
    model_weights w;
} cosmos2;

/* vtrain_in.made: cosines and sines of the rotations. */
enum { COS, SIN };
/* The inputs of a block: the video's tokens; the prompt's; the time's embedding; what is added to
 * each block's results of it; the tables of the rotations. */
enum { X, PROMPT, E, SHARED, TABLES, N_IN = TABLES + 2 };

/* ---- config.json ---- */

static const vf_config_row config_rows[] = {
    VF_INT(cosmos2, channels, "in_channels", 16, 1, 1024),
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
        return vc_fail(err, VC_EFORMAT, "patch_size: a token has %lld frames; 1 is supported",
                       (long long)m->patch[0]);
    const int64_t sizes[VTRAIN_SIZES] = {
        [-D] = d, [-IN] = (m->channels + 1) * area, [-OUT] = m->channels * area, [-TEXT] = m->text,
        [-HEAD] = m->head, [-HIDDEN] = (int64_t)((double)d * m->mlp), [-RANK] = m->rank,
        [-TWO_D] = 2 * d, [-THREE_D] = 3 * d,
    };
    memcpy(m->dit.sizes, sizes, sizeof sizes);
    m->dit.layers[0] = m->layers;
    return 0;
}

static void cosmos2_fit(const void *model, vtrain_fit *fit)
{
    const cosmos2 *m = model;
    *fit = (vtrain_fit){ .channels = (int)m->channels, .n_texts = 1, .text_width = { m->text },
                         .text_rows = { TEXT_ROWS },
                         .mult = { 1, (int)m->patch[1], (int)m->patch[2] },
                         .blocks = (int)m->layers, .heads = m->heads };
}

/* ---- prepare ---- */

/* A scale above 1 slows the rotations of an axis down, the slowest ones by the scale. */
static double theta_of(double scale, int64_t pairs)
{
    return MAX_PERIOD * pow(scale, (double)pairs / (double)(pairs - 1));
}

static void make_rope(vt_ctx *g, const cosmos2 *m, const int64_t *dim, vt_tensor **made)
{
    const int64_t side = m->head / 6;
    nn_axis axis[3];
    double theta[3];
    for (int i = 0; i < 3; i++) {
        axis[i] = (nn_axis){ dim[i] / m->patch[i], 0, 1, i ? side : m->head / 2 - 2 * side };
        theta[i] = theta_of(m->scale[i], axis[i].pairs);
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
    const cosmos2 *m = model;
    if (vt_failed(g) || !in->x || !in->text[0].embeds)
        return;
    const int64_t rows = in->text[0].embeds->dim[1];
    if (rows != TEXT_ROWS) {
        vt_fail(g, VC_EMISMATCH, "prompts of %lld tokens: Cosmos-Predict2 attends to %d, of which "
                "those behind the prompt are zeros", (long long)rows, TEXT_ROWS);
        return;
    }
    make_rope(g, m, in->x->dim + 2, in->made);
}

/* ---- forward ---- */

static void cosmos2_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const cosmos2 *m = model;
    const model_weights *w = &m->w;
    const int patch[3] = { 1, (int)m->patch[1], (int)m->patch[2] };
    vt_tensor *x = vtrain_join(g, in, VC_ROLE_BIT(VC_ROLE_MASK), 1);
    s[X] = vt_linear(g, nn_patches(g, x, patch), &w->patch);
    s[PROMPT] = vt_cast(g, in->text[0].embeds, vt_compute(g));
    vt_tensor *time = vt_timestep(g, vt_scale(g, in->t, 1.0f / 1000), m->heads * m->head,
                                  MAX_PERIOD);
    s[E] = vt_silu(g, vt_rms_norm(g, time, w->time_norm, EPS));
    s[SHARED] = nn_modulation(g, vt_silu(g, vt_linear_f32(g, time, &w->time1)), &w->time2, 3);
    memcpy(s + TABLES, in->made, 2 * sizeof *in->made);
}

/* The n parts of what the time makes by w, and of its first n that all blocks share. */
static void modulation(vt_ctx *g, vt_tensor *const *s, const narrow *w, int n, vt_tensor **part)
{
    vt_tensor *e = nn_modulation(g, vt_linear_f32(g, s[E], &w->down), &w->up, n);
    vt_tensor *shared = n < 3 ? vt_slice(g, s[SHARED], 1, 0, n) : s[SHARED];
    nn_chunk(g, vt_add(g, e, shared), n, part);
}

static void block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                  vt_tensor **out)
{
    const cosmos2 *m = model;
    const block_weights *w = weights;
    const nn_heads heads = { m->heads, QK_EPS, in[TABLES + COS], in[TABLES + SIN], 0 };
    const nn_heads plain = { m->heads, QK_EPS, NULL, NULL, 0 };
    vt_tensor *x = in[X], *h, *e[3];

    modulation(g, in, &w->mod[0], 3, e);
    h = vt_layer_norm_modulate(g, x, NULL, NULL, e[0], e[1], EPS);
    x = vt_gated_add(g, x, nn_halves_attention(g, h, &w->self, &heads, NULL), e[2]);

    modulation(g, in, &w->mod[1], 3, e);
    h = vt_layer_norm_modulate(g, x, NULL, NULL, e[0], e[1], EPS);
    x = vt_gated_add(g, x, nn_cross_attention(g, h, in[PROMPT], &w->cross, &plain, NULL), e[2]);

    modulation(g, in, &w->mod[2], 3, e);
    h = vt_layer_norm_modulate(g, x, NULL, NULL, e[0], e[1], EPS);
    h = vt_linear(g, vt_gelu_erf(g, vt_linear(g, h, &w->up)), &w->down);
    out[X] = vt_gated_add(g, x, h, e[2]);
}

static vt_tensor *cosmos2_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    const cosmos2 *m = model;
    vt_tensor *e[2];
    modulation(g, s, &m->w.mod, 2, e);
    vt_tensor *x = vt_layer_norm_modulate(g, s[X], NULL, NULL, e[0], e[1], EPS);
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
    .lora_targets = "to_q,to_k,to_v,to_out.0",
};
