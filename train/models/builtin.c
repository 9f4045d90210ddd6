/* builtin.c - the built-in transformer: a small MM-DiT after Peebles & Xie 2023 (adaLN-Zero) and
 * Esser et al. 2024 (text and video tokens in one attention).
 *
 * Both streams share the weights of a block; each stream has its own table of shifts, scales and
 * gates, which is added to one projection of time and pooled text (Chen et al. 2023). Positions are
 * relative by rope over frames, rows and columns (Su et al. 2021), and absolute by a projection of
 * sinusoids that is added to the patches: without the absolute positions a small model takes long
 * to learn the places of objects. Queries and keys are normalised per head. The noisy patches are
 * added to the output through a gate of the time alone, so that the blocks predict only the clean
 * picture: at low noise the target is mostly the input's noise, which a narrow stream is slow to
 * learn to carry. Text tokens follow the video's, so that the padding of texts ends the
 * sequence. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/nn/attention.h"
#include "common/nn/embeddings.h"
#include "common/nn/positions.h"
#include "common/tensor/exchange.h"
#include "formats/json/config.h"
#include "train/models/dit.h"

#define EPS 1e-6f
#define POS_REACH 2.5
#define GUIDANCE_STEPS 1000
#define R3_ROOT 1.2207440846057596               /* x^4 = x + 1 */

enum { TIME = 256, MLP = 4, MAX_LAYERS = 256, MAX_WIDTH = 16384 };
enum { WAVES = 128, POS = 2 * WAVES };        /* directions of the positions' sinusoids */

/* Indices into the sizes of the weight tables. */
enum { D = -1, PATCH = -2, TEXT = -3, HEAD = -4, HIDDEN = -5, SIX_D = -6, TWO_D = -7,
       GUIDED = -8 };

typedef struct block_weights {
    vt_tensor *table, *text_table;            /* [6,D]: shift, scale, gate of attention, then of
                                               * the mlp */
    nn_attention attn;
    vt_lin up, down;
} block_weights;

typedef struct model_weights {
    vt_lin patch, pos, text, pooled, time1, time2, time_proj, norm_out, proj_out, skip_gate;
    vt_lin guidance1, guidance2;
} model_weights;

#define LIN(type, field, name, out, in, start) \
    { name, VT_W_LINEAR, offsetof(type, field), { out, in }, start }
#define LIN0(type, field, name, out, in) \
    { name, VT_W_LINEAR_NO_BIAS, offsetof(type, field), { out, in }, VT_INIT_XAVIER }

static const vt_weight model_table[] = {
    LIN(model_weights, patch, "patch_embed.proj", D, PATCH, VT_INIT_XAVIER),
    LIN0(model_weights, pos, "patch_embed.pos", D, POS),
    LIN(model_weights, text, "text_embed.proj", D, TEXT, VT_INIT_XAVIER),
    LIN0(model_weights, pooled, "text_embed.pooled", D, D),
    LIN(model_weights, time1, "time_embed.linear_1", D, TIME, VT_INIT_XAVIER),
    LIN(model_weights, time2, "time_embed.linear_2", D, D, VT_INIT_XAVIER),
    LIN(model_weights, time_proj, "time_proj", SIX_D, D, VT_INIT_ZERO),
    LIN(model_weights, norm_out, "norm_out.linear", TWO_D, D, VT_INIT_ZERO),
    LIN(model_weights, proj_out, "proj_out", PATCH, D, VT_INIT_ZERO),
    LIN(model_weights, skip_gate, "skip_gate", PATCH, D, VT_INIT_ZERO),
    LIN(model_weights, guidance1, "guidance_embed.linear_1", GUIDED, TIME, VT_INIT_XAVIER),
    LIN(model_weights, guidance2, "guidance_embed.linear_2", GUIDED, D, VT_INIT_XAVIER),
    { 0 }
};

static const vt_weight block_table[] = {      /* names follow "transformer_blocks.%d." */
    { "scale_shift_table", VT_W_TENSOR, offsetof(block_weights, table), { 6, D }, VT_INIT_ZERO },
    { "text_scale_shift_table", VT_W_TENSOR, offsetof(block_weights, text_table), { 6, D },
      VT_INIT_ZERO },
    LIN0(block_weights, attn.q, "attn.to_q", D, D),
    LIN0(block_weights, attn.k, "attn.to_k", D, D),
    LIN0(block_weights, attn.v, "attn.to_v", D, D),
    LIN(block_weights, attn.out, "attn.to_out.0", D, D, VT_INIT_XAVIER),
    { "attn.norm_q.weight", VT_W_TENSOR, offsetof(block_weights, attn.norm_q.w), { HEAD },
      VT_INIT_ONE },
    { "attn.norm_k.weight", VT_W_TENSOR, offsetof(block_weights, attn.norm_k.w), { HEAD },
      VT_INIT_ONE },
    LIN(block_weights, up, "ff.net.0.proj", HIDDEN, D, VT_INIT_XAVIER),
    LIN(block_weights, down, "ff.net.2", D, HIDDEN, VT_INIT_XAVIER),
    { 0 }
};

typedef struct builtin {
    vtrain_dit dit;
    int64_t channels, patch, layers, heads, head, text;
    double theta;
    bool guidance;                            /* guidance is an input, embedded like the time */
    model_weights w;
    float *features;                          /* [tokens, POS] on the host: features of positions */
    int64_t grid[3];                          /* f, h, w of the grid that features describes */
} builtin;

/* vtrain_in.made: the tables of rope; the numbers of keys among all tokens and among the text's;
 * the features of the positions. */
enum { COS, SIN, KEYS, TEXT_KEYS, FEATURES };
/* The inputs of a block are the sequence, its modulation (TEXT_MOD for the text's tokens, where the
 * video's tokens have times of their own), and the first three of made. The head also reads the
 * embedding of time and text (TEXT_E again for the text's tokens), and the noisy patches. */
enum { X, MOD, TEXT_MOD, MADE, N_IN = MADE + 3, E = N_IN, TEXT_E, PATCHES };

/* ---- config.json ---- */

static const vf_config_row config_rows[] = {
    VF_INT_NEEDED(builtin, channels, "in_channels", 1, 1024),
    VF_INT_NEEDED(builtin, patch, "patch_size", 1, 16),
    VF_INT_NEEDED(builtin, layers, "num_layers", 1, MAX_LAYERS),
    VF_INT_NEEDED(builtin, heads, "num_attention_heads", 1, 256),
    VF_INT_NEEDED(builtin, head, "attention_head_dim", 8, 256),
    VF_INT_NEEDED(builtin, text, "text_embed_dim", 1, 65536),
    VF_NUM_NEEDED(builtin, theta, "rope_theta", 1, 1e9),
    VF_FLAG(builtin, guidance, "guidance_embeds", false),
    { 0 }
};

static int read_config(builtin *m, const cJSON *config, vc_err *err)
{
    int rc = vf_config_read(m, config_rows, config, err);
    if (!rc && (m->head % 8 || m->heads * m->head > MAX_WIDTH))
        rc = vc_fail(err, VC_EFORMAT, "attention_head_dim must be a multiple of 8, and "
                     "num_attention_heads times attention_head_dim at most %d", MAX_WIDTH);
    return rc;
}

static bool fresh_sizes_fit(const vtrain_fresh *want)
{
    int64_t w = want->width, h = want->heads;
    return w % h == 0 && w / h % 8 == 0 && w / h <= 256;
}

static int builtin_fresh(cJSON **config, const vtrain_fresh *want, vc_err *err)
{
    if (!fresh_sizes_fit(want))
        return vc_fail(err, VC_EUSAGE, "--dit_width %lld, --dit_heads %lld: width / heads must be "
                       "a multiple of 8, at most 256", (long long)want->width,
                       (long long)want->heads);
    cJSON *o = cJSON_CreateObject();
    if (!o)
        return vc_no_memory(err);
    const struct { const char *field; int64_t v; } rows[] = {
        { "in_channels", want->channels }, { "patch_size", want->patch },
        { "num_layers", want->layers }, { "num_attention_heads", want->heads },
        { "attention_head_dim", want->width / want->heads },
        { "text_embed_dim", want->text_width }, { "rope_theta", 100 },
    };
    const char *kind = want->objective == VTRAIN_V ? "v" : "flow";
    bool ok = cJSON_AddStringToObject(o, "_class_name", vtrain_builtin.class_name) &&
              cJSON_AddStringToObject(o, "prediction_type", kind);
    for (size_t i = 0; ok && i < sizeof rows / sizeof *rows; i++)
        ok = vf_json_add_int(o, rows[i].field, rows[i].v) == 0;
    if (ok && want->guidance)
        ok = cJSON_AddTrueToObject(o, "guidance_embeds");
    if (!ok) {
        cJSON_Delete(o);
        return vc_no_memory(err);
    }
    *config = o;
    return 0;
}

static int builtin_read(void *model, const cJSON *config, vc_err *err)
{
    builtin *m = model;
    int rc = read_config(m, config, err);
    if (rc)
        return rc;
    int64_t d = m->heads * m->head;
    const int64_t sizes[VTRAIN_SIZES] = {
        [-D] = d, [-PATCH] = m->channels * m->patch * m->patch, [-TEXT] = m->text,
        [-HEAD] = m->head, [-HIDDEN] = MLP * d, [-SIX_D] = 6 * d, [-TWO_D] = 2 * d,
        [-GUIDED] = m->guidance ? d : VT_ABSENT,
    };
    m->dit.layers[0] = m->layers;
    memcpy(m->dit.sizes, sizes, sizeof sizes);
    return 0;
}

static void builtin_free(void *model)
{
    builtin *m = model;
    free(m->features);
}

static void builtin_fit(const void *model, vtrain_fit *fit)
{
    const builtin *m = model;
    *fit = (vtrain_fit){ .channels = (int)m->channels, .n_texts = 1, .text_width = { m->text },
                         .mult = { 1, (int)m->patch, (int)m->patch }, .token_times = true,
                         .frame_times = true, .guidance = m->guidance,
                         .blocks = (int)m->layers, .heads = m->heads };
}

/* ---- positions ---- */

/* Fills the Fourier features of a position (Tancik et al. 2020): sinusoids along WAVES fixed
 * directions in (frame, row, column). The R3 sequence (Roberts 2018) spreads the directions evenly
 * over a cube of +-POS_REACH radians per place, so that neighbours differ and distant places are
 * unrelated. */
static void fill_features(float v[POS], const int64_t at[3])
{
    for (int k = 1; k <= WAVES; k++) {
        double angle = 0, step = 1;
        for (int axis = 0; axis < 3; axis++) {
            step /= R3_ROOT;
            double u = 0.5 + k * step;
            angle += POS_REACH * (2 * (u - floor(u)) - 1) * (double)at[axis];
        }
        *v++ = (float)cos(angle);
        *v++ = (float)sin(angle);
    }
}

/* Makes the features of a grid's tokens, and keeps them for later steps on the same grid. */
static bool make_features(builtin *m, const int64_t grid[3])
{
    if (m->features && !memcmp(m->grid, grid, sizeof m->grid))
        return true;
    free(m->features);
    m->features = malloc((size_t)(grid[0] * grid[1] * grid[2]) * POS * sizeof(float));
    if (!m->features)
        return false;
    float *v = m->features;
    for (int64_t f = 0; f < grid[0]; f++)
        for (int64_t h = 0; h < grid[1]; h++)
            for (int64_t w = 0; w < grid[2]; w++, v += POS)
                fill_features(v, (int64_t[]){ f, h, w });
    memcpy(m->grid, grid, sizeof m->grid);
    return true;
}

static void builtin_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    builtin *m = model;
    if (vt_failed(g))
        return;
    const int64_t *dim = in->x->dim, p = m->patch;
    const int64_t grid[3] = { dim[2], dim[3] / p, dim[4] / p };
    const int64_t tokens = grid[0] * grid[1] * grid[2], features[3] = { 1, tokens, POS };
    /* Frames, rows and columns each rotate a third of a head's pairs; frames also the remainder. */
    const int64_t pairs = m->head / 2, third = pairs / 3;
    const nn_axis axis[3] = { { grid[0], 0, 1, pairs - 2 * third }, { grid[1], 0, 1, third },
                              { grid[2], 0, 1, third } };
    if (!make_features(m, grid)) {
        vt_fail(g, VC_ENOMEM, "positions: out of memory");
        return;
    }
    nn_rope(g, axis, m->theta, in->made + COS);
    in->made[KEYS] = vtrain_key_lengths(g, &in->text[0], tokens);
    in->made[TEXT_KEYS] = vtrain_key_lengths(g, &in->text[0], 0);
    in->made[FEATURES] = vt_from_host(g, vt_compute(g), 3, features, m->features, VC_F32);
}

/* ---- forward ---- */

/* c [B,n,D] -> [B,D]: the first token, in which the built-in encoder sums up the prompt, plus the
 * mean of the prompt's tokens. Attention with a query of zeros makes this mean. */
static vt_tensor *pool_text(vt_ctx *g, const builtin *m, vt_tensor *c, vt_tensor *length)
{
    if (!c)
        return NULL;
    const int64_t heads_dim[4] = { c->dim[0], c->dim[1], m->heads, m->head };
    const int64_t query_dim[4] = { c->dim[0], 1, m->heads, m->head };
    const int64_t dim[2] = { c->dim[0], m->heads * m->head };
    vt_tensor *k = vt_reshape(g, c, 4, heads_dim), *first = vt_slice(g, c, 1, 0, 1);
    vt_tensor *q = vt_reshape(g, vt_scale(g, first, 0), 4, query_dim);
    vt_tensor *o = vt_attention(g, q, k, k, &(vt_attn){ .kv_len = length });
    vt_tensor *mean = vt_reshape(g, o, 2, dim);
    return vt_add(g, mean, vt_reshape(g, first, 2, dim));
}

/* text [B,D] -> [B,D]: the embedding of a row's text plus, in a model with guidance, the embedding
 * of the guidance, which is scaled to the range of timesteps. All tokens of the row add this sum to
 * their embedding of the time. */
static vt_tensor *embed_row(vt_ctx *g, const builtin *m, const vtrain_in *in, vt_tensor *text)
{
    vt_tensor *c = vt_linear(g, text, &m->w.pooled);
    if (!m->guidance)
        return c;
    vtrain_note(in, "guidance", in->guidance);
    return vt_add(g, c, nn_embed_number(g, vt_scale(g, in->guidance, GUIDANCE_STEPS),
                                        &m->w.guidance1, &m->w.guidance2, vt_compute(g)));
}

/* t [B] and row [B,D] -> [B,D]; t [B,N] and row [B,D] -> [B,N,D] */
static vt_tensor *embed_time(vt_ctx *g, const builtin *m, vt_tensor *t, vt_tensor *row)
{
    vt_tensor *h = nn_embed_number(g, t, &m->w.time1, &m->w.time2, vt_compute(g));
    if (h && row && h->nd == 3)
        row = vt_reshape(g, row, 3, (int64_t[]){ row->dim[0], 1, row->dim[1] });
    return vt_silu(g, vt_add(g, h, row));
}

static void builtin_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const builtin *m = model;
    vt_tensor *const *made = in->made;
    vt_tensor *c = vt_cast(g, in->text[0].embeds, vt_compute(g));
    c = vt_linear(g, vt_layer_norm(g, c, NULL, NULL, EPS), &m->w.text);
    vt_tensor *row = embed_row(g, m, in, pool_text(g, m, c, made[TEXT_KEYS]));
    vt_lin pos = m->w.pos;
    pos.lora_key = 0;                          /* the positions are those of all samples */
    s[E] = embed_time(g, m, in->token_t ? in->token_t : in->t, row);
    s[PATCHES] = nn_patches(g, in->x, (int[]){ 1, (int)m->patch, (int)m->patch });
    vt_tensor *part[2] = { vt_add(g, vt_linear(g, s[PATCHES], &m->w.patch),
                                  vt_linear(g, made[FEATURES], &pos)), c };
    s[X] = vt_concat(g, 1, 2, part);
    s[MOD] = nn_modulation(g, s[E], &m->w.time_proj, 6);
    if (in->token_t) {
        s[TEXT_E] = embed_time(g, m, in->t, row);
        s[TEXT_MOD] = nn_modulation(g, s[TEXT_E], &m->w.time_proj, 6);
    }
    memcpy(s + MADE, made, 3 * sizeof *made);
}

/* The shift, scale and gate of n video tokens, and those of the text tokens after them. */
static nn_groups groups(int64_t n, vt_tensor *const *video, vt_tensor *const *text)
{
    return (nn_groups){ n, { video[0], text[0] }, { video[1], text[1] }, { video[2], text[2] } };
}

/* Of x, whose rows are those of the video's tokens, the rows of this process's tokens; NULL where
 * it has none. */
static vt_tensor *own_video(vt_ctx *g, vt_tensor *x)
{
    if (!x || !vt_shared_tokens(g))
        return x;
    int64_t first = vt_own_first(g), n = vt_own_before(g, x->dim[1]);
    return n ? vt_slice(g, x, 1, first, first + n) : NULL;
}

/* The block's tables for video and text. Where processes share the sequence, each of them has to
 * read both, also one whose tokens are all of one kind. */
static void tables(vt_ctx *g, const block_weights *w, vt_tensor *of[2])
{
    of[0] = w->table;
    of[1] = w->text_table;
    if (!vt_shared_tokens(g))
        return;
    vt_tensor *both = vt_concat(g, 0, 2, of);
    vt_chunk(g, both, 0, 2, of);
}

static void block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                  vt_tensor **out)
{
    static const nn_norm plain = { NULL, NULL };
    const builtin *m = model;
    const block_weights *w = weights;
    vt_tensor *const *made = in + MADE;
    vt_tensor *x = in[X], *h, *video[6], *text[6], *table[2];
    vt_tensor *mod = in[TEXT_MOD] ? own_video(g, in[MOD]) : in[MOD];
    const nn_heads heads = { m->heads, EPS, made[COS], made[SIN], 0 };
    int64_t n = vt_own_before(g, made[COS]->dim[0]);
    tables(g, w, table);
    vt_tensor *text_mod = in[TEXT_MOD] ? in[TEXT_MOD] : mod;
    nn_chunk(g, vt_add(g, mod ? mod : text_mod, table[0]), 6, video);
    nn_chunk(g, vt_add(g, text_mod, table[1]), 6, text);

    nn_groups e = groups(n, video, text);
    h = nn_modulate(g, x, &plain, &e, EPS);
    h = nn_self_attention(g, h, &w->attn, &heads, made[KEYS]);
    x = nn_gate(g, x, h, &e);

    e = groups(n, video + 3, text + 3);
    h = nn_modulate(g, x, &plain, &e, EPS);
    h = vt_feed_forward(g, h, &w->up, &w->down);
    out[0] = nn_gate(g, x, h, &e);
}

/* The prediction for the tokens x, of time e, with the noisy patches; NULL: they have none. */
static vt_tensor *project(vt_ctx *g, const builtin *m, vt_tensor *x, vt_tensor *e,
                          vt_tensor *patches)
{
    vt_tensor *part[2], *gate;
    nn_chunk(g, nn_modulation(g, e, &m->w.norm_out, 2), 2, part);
    nn_chunk(g, nn_modulation(g, e, &m->w.skip_gate, 1), 1, &gate);
    x = vt_layer_norm_modulate(g, x, NULL, NULL, part[0], part[1], EPS);
    x = vt_linear(g, x, &m->w.proj_out);
    return vt_gated_add(g, x, patches ? patches : vt_scale(g, x, 0), gate);
}

/* Where processes share the sequence, the text's tokens are projected too, since all processes have
 * to read the weights, and one of them may have no other tokens. */
static vt_tensor *builtin_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    const builtin *m = model;
    int p = (int)m->patch, k = 0;
    int64_t tokens = s[PATCHES]->dim[1], n = vt_own_before(g, tokens), all = s[X]->dim[1];
    vt_tensor *e = s[TEXT_E] ? own_video(g, s[E]) : s[E], *y[2];
    if (n)
        y[k++] = project(g, m, vt_slice(g, s[X], 1, 0, n), e, own_video(g, s[PATCHES]));
    if (vt_shared_tokens(g) && n < all)
        y[k++] = project(g, m, vt_slice(g, s[X], 1, n, all), s[TEXT_E] ? s[TEXT_E] : s[E], NULL);
    vt_tensor *x = vt_all_tokens(g, k == 1 ? y[0] : vt_concat(g, 1, 2, y));
    if (vt_shared_tokens(g))
        x = vt_slice(g, x, 1, 0, tokens);
    return vt_unpatchify(g, x, in->x->dim + 1, 1, p, p, VT_C_FIRST);
}

const vtrain_family vtrain_builtin = {
    .class_name = "VltTransformer3DModel",
    .text_args = { "encoder_hidden_states" },
    .fresh = builtin_fresh,
    .size = sizeof(builtin), .weights = offsetof(builtin, w), .table = model_table,
    .read = builtin_read, .free = builtin_free, .fit = builtin_fit, .prepare = builtin_prepare,
    .embed = builtin_embed,
    .blocks = { { "transformer_blocks.%d.", block_table, sizeof(block_weights), N_IN, 1, block,
                  NULL, NULL } },
    .head = builtin_head,
    .objective = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
    .flow_shift = 3, .logit_mean = 0, .logit_std = 1,
    .posterior_mean = false, .image_dropout = 0.05, .bf16 = false,
    .lr_full = 1e-3, .lr_lora = 1e-3, .guidance = 1.5, .batch = 4, .steps = 500,
    .lora_targets = "to_q,to_k,to_v,to_out.0",
};
