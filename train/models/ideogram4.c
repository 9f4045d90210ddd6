/* ideogram4.c - Ideogram 4 (Ideogram 2026): blocks of one sequence of picture and prompt. Semantics
 * and names are those of diffusers' Ideogram4Transformer2DModel: of the transformer that reads the
 * prompt, and of the unconditional one, which is given none. Latents: one picture [B,C,1,h,w].
 *
 * A token is a place of the latent, whose channels are squares of the autoencoder's
 * (precompute/vae/autoencoder_kl.c), which have the channel first; a token has the square's place
 * first. A position has three axes, (t, row, column): the i-th token of
 * the prompt stands at (i, i, i), and a token of the picture at (0, row, column) behind a place
 * that no prompt reaches. A learned vector tells the picture's tokens from the prompt's. The order
 * of tokens in a sequence has no meaning: here the picture is first. The model reads the share of
 * the picture, 1 - s, as the time, and predicts the picture minus the noise. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/nn/embeddings.h"
#include "common/nn/sandwich.h"
#include "formats/json/config.h"
#include "train/models/dit.h"

#define HEAD_EPS 1e-5f                        /* of the norms of queries and keys */
#define TEXT_EPS 1e-6f                        /* of the prompt's norm */
#define LAST_EPS 1e-6f
#define PERIOD 10000.0                        /* the longest of the time's sinusoids */
#define PLACES 10.0f                          /* of 1e4 places of the time, for each of 1000 */

enum { AXES = 3, PATCH = 2 * 2, MAX_WIDTH = 16384, PICTURE_AT = 65536 };

/* Indices into the sizes of the weight tables. */
enum { D = -1, IN = -2, TEXT = -3, HEAD = -4, HIDDEN = -5, E_WIDTH = -6, FOUR_D = -7, TWO = -8 };

typedef struct model_weights {
    vt_lin patch, text, time1, time2, time3, mod_out, proj_out;
    vt_tensor *text_norm;                     /* [TEXT] */
    vt_tensor *kind;                          /* [2,D]: added to the prompt's tokens, and to the
                                               * picture's */
} model_weights;

#define LIN(field, name, out, in) \
    { name, VT_W_LINEAR, offsetof(model_weights, field), { out, in }, VT_INIT_XAVIER }

static const vt_weight model_table[] = {
    LIN(patch, "input_proj", D, IN),
    { "llm_cond_norm.weight", VT_W_TENSOR, offsetof(model_weights, text_norm), { TEXT },
      VT_INIT_ONE },
    LIN(text, "llm_cond_proj", D, TEXT),
    LIN(time1, "t_embedding.mlp_in", D, D),
    LIN(time2, "t_embedding.mlp_out", D, D),
    LIN(time3, "adaln_proj", E_WIDTH, D),
    { "embed_image_indicator.weight", VT_W_TENSOR, offsetof(model_weights, kind), { TWO, D },
      VT_INIT_ZERO },
    LIN(proj_out, "final_layer.linear", IN, D),
    LIN(mod_out, "final_layer.adaln_modulation", D, E_WIDTH),
    { 0 }
};
static const vt_weight block_table[] = {
    NN_SANDWICH_ROWS(D, HEAD, HIDDEN), NN_SANDWICH_MOD("adaln_modulation", FOUR_D, E_WIDTH), { 0 }
};

typedef struct ideogram4 {
    vtrain_dit dit;
    int64_t in, layers, head, heads, hidden, e_width, text, section[AXES];
    double theta, eps;
    int sections;
    int64_t picture;                          /* the picture's tokens in the step in progress */
    model_weights w;
} ideogram4;

/* vtrain_in.made: cosines and sines of the rotations; the numbers of keys; the time that t is
 * subtracted from. */
enum { COS, SIN, KEYS, CLEAN, N_MADE };
/* The inputs of a block: the tokens that it changes, the embedding of the time, made. */
enum { X, E, MADE, N_IN = MADE + CLEAN };

/* ---- config.json ---- */

static const vf_config_row config_rows[] = {
    VF_INT(ideogram4, in, "in_channels", 128, 1, 4096),
    VF_INT(ideogram4, layers, "num_layers", 34, 1, 256),
    VF_INT(ideogram4, head, "attention_head_dim", 256, 8, 256),
    VF_INT(ideogram4, heads, "num_attention_heads", 18, 1, 256),
    VF_INT(ideogram4, hidden, "intermediate_size", 12288, 8, 65536),
    VF_INT(ideogram4, e_width, "adaln_dim", 512, 1, 65536),
    VF_INT(ideogram4, text, "llm_features_dim", 53248, 8, 1 << 20),
    VF_NUM(ideogram4, theta, "rope_theta", 5e6, 1, 1e12),
    VF_NUM(ideogram4, eps, "norm_eps", 1e-5, VF_ABOVE_0, 1),
    VF_INTS(ideogram4, section, sections, "mrope_section", AXES, 0, 256),
    { 0 }
};

/* Checks the rules between fields. */
static int check_config(const ideogram4 *m, vc_err *err)
{
    if (m->in % PATCH)
        return vc_fail(err, VC_EFORMAT, "in_channels: %lld must be a multiple of %d",
                       (long long)m->in, PATCH);
    if (m->head % 8 || m->heads * m->head > MAX_WIDTH)
        return vc_fail(err, VC_EFORMAT, "attention_head_dim: %lld must be a multiple of 8, and "
                       "with num_attention_heads: %lld make a width of at most %d",
                       (long long)m->head, (long long)m->heads, MAX_WIDTH);
    for (int k = 1; k < AXES; k++)
        if (m->section[k] && k + AXES * (m->section[k] - 1) >= m->head / 2)
            return vc_fail(err, VC_EFORMAT, "mrope_section: %lld, %lld, %lld are more than the "
                           "%lld angles of a head", (long long)m->section[0],
                           (long long)m->section[1], (long long)m->section[2],
                           (long long)m->head / 2);
    return 0;
}

static int ideogram4_read(void *model, const cJSON *config, vc_err *err)
{
    ideogram4 *m = model;
    memcpy(m->section, (int64_t[]){ 24, 20, 20 }, sizeof m->section);
    int rc = vf_config_read(m, config_rows, config, err);
    if (!rc)
        rc = check_config(m, err);
    if (rc)
        return rc;
    const int64_t d = m->heads * m->head;
    const int64_t sizes[VTRAIN_SIZES] = {
        [-D] = d, [-IN] = m->in, [-TEXT] = m->text, [-HEAD] = m->head, [-HIDDEN] = m->hidden,
        [-E_WIDTH] = m->e_width, [-FOUR_D] = 4 * d, [-TWO] = 2,
    };
    memcpy(m->dit.sizes, sizes, sizeof sizes);
    m->dit.layers[0] = m->layers;
    return 0;
}

static void ideogram4_fit(const void *model, vtrain_fit *fit)
{
    const ideogram4 *m = model;
    *fit = (vtrain_fit){ .channels = (int)m->in, .n_texts = 1, .text_width = { m->text },
                         .absent_texts = { true }, .mult = { 1, 1, 1 }, .blocks = (int)m->layers,
                         .heads = m->heads };
}

/* The pipeline's levels: s = sigmoid(mu + 1.5 n), where mu is half the logarithm of the pixels over
 * 512 x 512, which have 1024 tokens. */
static void ideogram4_schedule(const cJSON *config, vtrain_scheduler *s)
{
    (void)config;
    s->shift = 0;
    s->by_tokens = (vtrain_by_tokens){ .on = true, .type = VTRAIN_MU_ROOT, .base = 0,
                                       .max = M_LN2, .base_len = 1024, .max_len = 4096 };
}

/* ---- prepare ---- */

/* The axis of angle j of a head: rows and columns have every third one up to their sections. */
static int axis_of(const ideogram4 *m, int64_t j)
{
    const int k = (int)(j % AXES);
    return k && j < AXES * m->section[k] ? k : 0;
}

/* Makes the rotations. The angles are those of f32, as the model was trained with: at the picture's
 * places they differ from those of f64 by hundredths. */
static void make_rope(vt_ctx *g, const ideogram4 *m, int64_t columns, int64_t prompt,
                      vt_tensor **made)
{
    const int64_t dim[2] = { m->picture + prompt, m->head / 2 }, n = dim[0] * dim[1];
    float *host = malloc(2 * (size_t)n * sizeof *host);
    if (!host) {
        vt_fail(g, VC_ENOMEM, "positions: out of memory");
        return;
    }
    for (int64_t j = 0; j < dim[1]; j++) {
        const float frequency = 1 / powf((float)m->theta, (float)(2 * j) / (float)m->head);
        const int axis = axis_of(m, j);
        for (int64_t i = 0; i < dim[0]; i++) {
            const int64_t place[AXES] = { 0, i / columns, i % columns };
            const int64_t at = i < m->picture ? PICTURE_AT + place[axis] : i - m->picture;
            const float angle = frequency * (float)at;
            host[i * dim[1] + j] = cosf(angle);
            host[n + i * dim[1] + j] = sinf(angle);
        }
    }
    for (int i = 0; i < 2; i++)
        made[COS + i] = vt_from_host(g, VC_F32, 2, dim, host + i * n, VC_F32);
    free(host);
}

/* Traces the picture's rows of diffusers' position_ids. */
static void note_places(vt_ctx *g, const ideogram4 *m, const vtrain_in *in, int64_t columns)
{
    const int64_t dim[2] = { m->picture, AXES };
    float *at = malloc((size_t)(m->picture * AXES) * sizeof *at);
    if (!at) {
        vt_fail(g, VC_ENOMEM, "trace: out of memory");
        return;
    }
    for (int64_t i = 0; i < m->picture; i++) {
        at[AXES * i] = PICTURE_AT;
        at[AXES * i + 1] = (float)(PICTURE_AT + i / columns);
        at[AXES * i + 2] = (float)(PICTURE_AT + i % columns);
    }
    vtrain_note(in, "position_ids", vt_from_host(g, VC_F32, 2, dim, at, VC_F32));
    free(at);
}

static void ideogram4_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    static const float clean = VTRAIN_TIMES;
    ideogram4 *m = model;
    const vtrain_cond *text = &in->text[0];
    if (vt_failed(g) || !in->x || !text->embeds)
        return;
    const int64_t *dim = in->x->dim, prompt = text->embeds->dim[1];
    if (dim[2] != 1) {
        vt_fail(g, VC_EMISMATCH, "latents of %lld frames: Ideogram 4 makes pictures, which have "
                "one", (long long)dim[2]);
        return;
    }
    if (prompt > PICTURE_AT) {
        vt_fail(g, VC_EMISMATCH, "a prompt of %lld tokens reaches the picture's positions, which "
                "begin at %d: cut prompts by vprep's --tokenizer_max_length", (long long)prompt,
                PICTURE_AT);
        return;
    }
    m->picture = dim[3] * dim[4];
    make_rope(g, m, dim[4], prompt, in->made);
    in->made[KEYS] = vtrain_key_lengths(g, text, m->picture);
    in->made[CLEAN] = vt_from_host(g, VC_F32, 1, (int64_t[]){ 1 }, &clean, VC_F32);
    vtrain_note_mask(g, in, "encoder_attention_mask", text);
    if (in->note)
        note_places(g, m, in, dim[4]);
}

/* ---- forward ---- */

/* The numbers of the tokens x [B,N,IN], which are a matrix of `rows` rows, in the order of its
 * columns. */
static vt_tensor *turned(vt_ctx *g, vt_tensor *x, int64_t rows)
{
    if (!x)
        return NULL;
    const int64_t *d = x->dim, is[4] = { d[0], d[1], rows, d[2] / rows };
    x = vt_permute(g, vt_reshape(g, x, 4, is), (int[]){ 0, 1, 3, 2 });
    return vt_reshape(g, x, 3, (int64_t[]){ is[0], is[1], is[2] * is[3] });
}

/* The embedding of the time: sines, then cosines, whose periods are even from the shortest to the
 * longest, both included. */
static vt_tensor *embed_time(vt_ctx *g, const model_weights *w, vt_tensor *t, vt_tensor *clean,
                             int64_t width)
{
    const int64_t half = width / 2;
    const float period = (float)pow(PERIOD, (double)half / (double)(half - 1));
    vt_tensor *place = vt_scale(g, vt_add(g, vt_scale(g, t, -1), clean), PLACES);
    vt_tensor *wave = vt_timestep(g, place, width, period);
    wave = vt_concat(g, 1, 2, (vt_tensor *[]){ vt_slice(g, wave, 1, half, width),
                                               vt_slice(g, wave, 1, 0, half) });
    wave = nn_embed_vector(g, wave, &w->time1, &w->time2, VC_F32);
    return vt_silu(g, vt_linear_f32(g, wave, &w->time3));
}

static void ideogram4_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const ideogram4 *m = model;
    const model_weights *w = &m->w;
    vt_tensor *text = vt_cast(g, in->text[0].embeds, vt_compute(g));
    text = vt_linear(g, vt_rms_norm(g, text, w->text_norm, TEXT_EPS), &w->text);
    vt_tensor *x = turned(g, nn_patches(g, in->x, (int[]){ 1, 1, 1 }), m->in / PATCH);
    x = vt_linear(g, x, &w->patch);
    x = vt_add(g, x, vt_slice(g, w->kind, 0, 1, 2));
    text = vt_add(g, text, vt_slice(g, w->kind, 0, 0, 1));
    s[X] = vt_concat(g, 1, 2, (vt_tensor *[]){ x, text });
    s[E] = embed_time(g, w, in->t, in->made[CLEAN], m->dit.sizes[-D]);
    memcpy(s + MADE, in->made, CLEAN * sizeof *in->made);
}

static void block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                  vt_tensor **out)
{
    const ideogram4 *m = model;
    vt_tensor *const *made = in + MADE;
    const nn_heads heads = { m->heads, HEAD_EPS, made[COS], made[SIN], 0 };
    out[X] = nn_sandwich_block(g, in[X], weights, in[E], nn_halves_attention, &heads, made[KEYS],
                               (float)m->eps);
}

/* The prediction is noise minus picture, the opposite of the model's result. */
static vt_tensor *ideogram4_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    const ideogram4 *m = model;
    vt_tensor *x = vtrain_noisy_begin(g, s[X], m->picture);
    x = nn_sandwich_head(g, x, vt_silu(g, s[E]), &m->w.mod_out, &m->w.proj_out, LAST_EPS);
    x = turned(g, vt_scale(g, vtrain_noisy_end(g, x, m->picture), -1), PATCH);
    return vt_unpatchify(g, x, in->x->dim + 1, 1, 1, 1, VT_C_FIRST);
}

/* The first authors' names of modules, which ComfyUI has too: queries, keys and values are one
 * matrix. ComfyUI reads no others. */
static const vtrain_rename first_names[] = {
    { "layers.#.attention.qkv", .ours = { "layers.#.attention.to_q", "layers.#.attention.to_k",
                                          "layers.#.attention.to_v" } },
    { "layers.#.attention.o", .ours = { "layers.#.attention.to_out.0" } },
    { 0 }
};

const vtrain_family vtrain_ideogram4 = {
    .class_name = "Ideogram4Transformer2DModel",
    .lora_names = first_names, .kohya = &vtrain_kohya_scripts,
    .text_args = { "encoder_hidden_states" }, .layout = VTRAIN_TOKENS, .time = VTRAIN_TIME_CLEAN,
    .size = sizeof(ideogram4), .weights = offsetof(ideogram4, w), .table = model_table,
    .read = ideogram4_read, .fit = ideogram4_fit, .prepare = ideogram4_prepare,
    .embed = ideogram4_embed, .head = ideogram4_head,
    .blocks = { { "layers.%d.", block_table, sizeof(nn_sandwich), N_IN, 1, block, NULL, NULL } },
    .objective = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
    .flow_shift = 1, .logit_mean = 0, .logit_std = 1.5, .schedule = ideogram4_schedule,
    .own_levels = true, .unconditional = "unconditional_transformer",
    .posterior_mean = true, .bf16 = true,
    .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 7, .guidance_end = 3, .inference_steps = 48,
    .batch = 1, .steps = 1000,
    .lora_targets = "to_q,to_k,to_v,to_out.0,w1,w2,w3",
};
