/* The built-in transformer: a small MM-DiT after Peebles & Xie 2023 (adaLN-Zero) and Esser et al.
 * 2024 (text and video tokens in one attention). Both streams share the weights of a block; each
 * has its own table of shifts, scales and gates on top of one projection of time and pooled text
 * (Chen et al. 2023). Positions: rope over frames, rows and columns (Su et al. 2021), which is
 * relative, and a projection of sinusoids added to the patches, which is absolute: without it a
 * small model takes long to learn what belongs where. Queries and keys are normalised per head.
 * The noisy patches reach the output by a gate of the time alone, so that the blocks have only the
 * clean picture to say: at low noise the target is mostly the input's noise, which a narrow stream
 * is slow to learn to carry. Token order: video, then text: text padding ends the sequence. */
#include "train/models/dit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json/config.h"

#define EPS 1e-6f
#define MAX_PERIOD 10000.0f
#define POS_REACH 2.5
#define R3_ROOT 1.2207440846057596               /* x^4 = x + 1 */

enum { TIME = 256, MLP = 4, MAX_LAYERS = 256, MAX_WIDTH = 16384 };
enum { WAVES = 128, POS = 2 * WAVES };        /* directions of the positions' sinusoids */

/* indices into sizes of the weight tables */
enum { D = -1, PATCH = -2, TEXT = -3, HEAD = -4, HIDDEN = -5, SIX_D = -6, TWO_D = -7, N_SIZES = 8 };

typedef struct block_weights {
    vt_tensor *table, *text_table;            /* [6,D]: shift, scale, gate; of attention, of mlp */
    vt_lin q, k, v, out, up, down;
    vt_tensor *norm_q, *norm_k;               /* [head] */
} block_weights;

typedef struct model_weights {
    vt_lin patch, pos, text, pooled, time1, time2, time_proj, norm_out, proj_out, skip_gate;
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
    { 0 }
};

static const vt_weight block_table[] = {      /* below "transformer_blocks.%d." */
    { "scale_shift_table", VT_W_TENSOR, offsetof(block_weights, table), { 6, D }, VT_INIT_ZERO },
    { "text_scale_shift_table", VT_W_TENSOR, offsetof(block_weights, text_table), { 6, D },
      VT_INIT_ZERO },
    LIN0(block_weights, q, "attn.to_q", D, D),
    LIN0(block_weights, k, "attn.to_k", D, D),
    LIN0(block_weights, v, "attn.to_v", D, D),
    LIN(block_weights, out, "attn.to_out.0", D, D, VT_INIT_XAVIER),
    { "attn.norm_q.weight", VT_W_TENSOR, offsetof(block_weights, norm_q), { HEAD }, VT_INIT_ONE },
    { "attn.norm_k.weight", VT_W_TENSOR, offsetof(block_weights, norm_k), { HEAD }, VT_INIT_ONE },
    LIN(block_weights, up, "ff.net.0.proj", HIDDEN, D, VT_INIT_XAVIER),
    LIN(block_weights, down, "ff.net.2", D, HIDDEN, VT_INIT_XAVIER),
    { 0 }
};

typedef struct builtin {
    int64_t channels, patch, layers, heads, head, text;
    double theta;
    model_weights w;
    block_weights *block;                     /* [layers] */
    struct block_arg *arg;                    /* [layers] */
    float *cos, *sin;                         /* [tokens, head / 2] on the host */
    float *pos;                               /* [tokens, POS] */
    int64_t room, grid[3];                    /* tokens that fit; f, h, w they are of */
} builtin;

/* What a block reads beside its inputs. */
typedef struct block_arg {
    const builtin *m;
    const block_weights *w;
} block_arg;

/* vtrain_in.made: rope's tables; which tokens count as keys, of all and of the text; positions. The
 * first three are inputs of each block. */
enum { COS, SIN, KEYS, TEXT_KEYS, FEATURES };

/* ---- config.json ---- */

static const vf_config_row config_rows[] = {
    VF_INT_NEEDED(builtin, channels, "in_channels", 1, 1024),
    VF_INT_NEEDED(builtin, patch, "patch_size", 1, 16),
    VF_INT_NEEDED(builtin, layers, "num_layers", 1, MAX_LAYERS),
    VF_INT_NEEDED(builtin, heads, "num_attention_heads", 1, 256),
    VF_INT_NEEDED(builtin, head, "attention_head_dim", 8, 256),
    VF_INT_NEEDED(builtin, text, "text_embed_dim", 1, 65536),
    VF_NUM_NEEDED(builtin, theta, "rope_theta", 1, 1e9),
    { 0 }
};

static int read_config(builtin *m, const cJSON *config, vc_err *err)
{
    int rc = vf_config_read(m, config_rows, config, err);
    if (!rc && (m->head % 8 || m->heads * m->head > MAX_WIDTH))
        rc = vc_fail(err, VC_EFORMAT, "attention_head_dim must be a multiple of 8, and "
                     "num_attention_heads times it at most %d", MAX_WIDTH);
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
    if (!o) return vc_fail(err, VC_ENOMEM, "out of memory");
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
    if (!ok) {
        cJSON_Delete(o);
        return vc_fail(err, VC_ENOMEM, "out of memory");
    }
    *config = o;
    return 0;
}

/* ---- weights ---- */

static void builtin_close(void *model)
{
    builtin *m = model;
    if (!m) return;
    free(m->block);
    free(m->arg);
    free(m->cos);
    free(m->sin);
    free(m->pos);
    free(m);
}

static int bind(builtin *m, vt_params *p, const vt_source *src, vc_err *err)
{
    int64_t d = m->heads * m->head, token = m->channels * m->patch * m->patch;
    const int64_t sizes[N_SIZES] = { 0, d, token, m->text, m->head, MLP * d, 6 * d, 2 * d };
    int rc = vt_params_bind(p, model_table, "", 0, &m->w, sizes, src, err);
    for (int i = 0; !rc && i < m->layers; i++) {
        m->arg[i] = (block_arg){ m, &m->block[i] };
        rc = vt_params_bind(p, block_table, "transformer_blocks.%d.", i, &m->block[i], sizes, src,
                            err);
    }
    return rc;
}

static int builtin_open(void **model, const cJSON *config, vt_params *p, const vt_source *src,
                        vc_err *err)
{
    *model = NULL;
    builtin *m = calloc(1, sizeof *m);
    if (!m) return vc_fail(err, VC_ENOMEM, "out of memory");
    int rc = vc_context(err, read_config(m, config, err), "config.json");
    if (!rc) {
        m->block = calloc((size_t)m->layers, sizeof *m->block);
        m->arg = calloc((size_t)m->layers, sizeof *m->arg);
        if (!m->block || !m->arg) rc = vc_fail(err, VC_ENOMEM, "out of memory");
    }
    if (!rc) rc = bind(m, p, src, err);
    if (rc) {
        builtin_close(m);
        return rc;
    }
    *model = m;
    return 0;
}

static void builtin_fit(const void *model, vtrain_fit *fit)
{
    const builtin *m = model;
    *fit = (vtrain_fit){ .channels = (int)m->channels, .n_texts = 1, .text_width = { m->text },
                         .mult = { 1, (int)m->patch, (int)m->patch }, .blocks = (int)m->layers };
}

/* ---- positions ---- */

/* Pairs of a head go to frames, rows and columns as 1:1:1, what is left to frames. */
static void fill_rope(builtin *m, const int64_t at[3], int64_t token)
{
    int64_t pairs = m->head / 2, side = pairs / 3;
    const int64_t n[3] = { pairs - 2 * side, side, side };
    float *c = m->cos + token * pairs, *s = m->sin + token * pairs;
    for (int axis = 0; axis < 3; axis++)
        for (int64_t j = 0; j < n[axis]; j++) {
            double angle = pow(m->theta, -(double)j / (double)n[axis]) * (double)at[axis];
            *c++ = (float)cos(angle);
            *s++ = (float)sin(angle);
        }
}

/* Fourier features (Tancik et al. 2020): sinusoids along WAVES fixed directions in (frame, row,
 * column), spread evenly over a cube of +-POS_REACH radians a step by the R3 sequence (Roberts
 * 2018), so that neighbours differ and distant places are unrelated. */
static void fill_pos(builtin *m, const int64_t at[3], int64_t token)
{
    float *v = m->pos + token * POS;
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

/* Room for the tables of `tokens` tokens. */
static bool reserve(builtin *m, int64_t tokens)
{
    if (tokens <= m->room) return true;
    size_t rope = (size_t)tokens * (size_t)(m->head / 2) * sizeof(float);
    free(m->cos);
    free(m->sin);
    free(m->pos);
    m->cos = malloc(rope);
    m->sin = malloc(rope);
    m->pos = malloc((size_t)tokens * POS * sizeof(float));
    m->room = m->cos && m->sin && m->pos ? tokens : 0;
    return m->room > 0;
}

/* The tables of a grid of f, h, w tokens; they are kept until another grid comes. */
static bool make_tables(builtin *m, const int64_t grid[3])
{
    int64_t tokens = grid[0] * grid[1] * grid[2], token = 0;
    if (!memcmp(m->grid, grid, sizeof m->grid)) return true;
    if (!reserve(m, tokens)) return false;
    for (int64_t f = 0; f < grid[0]; f++)
        for (int64_t h = 0; h < grid[1]; h++)
            for (int64_t w = 0; w < grid[2]; w++, token++) {
                const int64_t at[3] = { f, h, w };
                fill_rope(m, at, token);
                fill_pos(m, at, token);
            }
    memcpy(m->grid, grid, sizeof m->grid);
    return true;
}

/* Keys that count after `before` others, where a row's text is shorter than the longest; else
 * NULL. */
static vt_tensor *key_lengths(vt_ctx *g, const vtrain_cond *text, int64_t before)
{
    int32_t len[VTRAIN_ROWS];
    bool all = true;
    if (!text->embeds) return NULL;
    int64_t rows = text->embeds->dim[0];
    for (int64_t b = 0; b < rows; b++) {
        len[b] = (int32_t)before + text->length[b];
        all = all && text->length[b] == text->embeds->dim[1];
    }
    return all ? NULL : vt_from_host(g, VC_I32, 1, &rows, len, VC_I32);
}

/* ---- forward ---- */

/* [B,N,D] -> [B,N,H,head], normalised and turned */
static vt_tensor *heads(vt_ctx *g, const builtin *m, vt_tensor *x, const vt_lin *l,
                        vt_tensor *norm, vt_tensor *const *at)
{
    vt_tensor *y = vt_linear(g, x, l);
    if (!y) return NULL;
    const int64_t dim[4] = { y->dim[0], y->dim[1], m->heads, m->head };
    y = vt_reshape(g, y, 4, dim);
    return norm ? vt_rope(g, vt_rms_norm(g, y, norm, EPS), at[COS], at[SIN], 0) : y;
}

/* h [B,N,D]: all tokens -> [B,N,D] */
static vt_tensor *attention(vt_ctx *g, const block_arg *a, vt_tensor *h, vt_tensor *const *at)
{
    vt_tensor *q = heads(g, a->m, h, &a->w->q, a->w->norm_q, at);
    vt_tensor *k = heads(g, a->m, h, &a->w->k, a->w->norm_k, at);
    vt_tensor *v = heads(g, a->m, h, &a->w->v, NULL, at);
    vt_tensor *o = vt_attention(g, q, k, v, &(vt_attn){ .kv_len = at[KEYS] });
    if (!o) return NULL;
    const int64_t dim[3] = { o->dim[0], o->dim[1], a->m->heads * a->m->head };
    return vt_linear(g, vt_reshape(g, o, 3, dim), &a->w->out);
}

static vt_tensor *mlp(vt_ctx *g, const block_arg *a, vt_tensor *h)
{
    return vt_feed_forward(g, h, &a->w->up, &a->w->down);
}

/* Both streams normalised with their shift and scale, one after the other. */
static vt_tensor *join(vt_ctx *g, vt_tensor *x, vt_tensor *const *ex, vt_tensor *c,
                       vt_tensor *const *ec)
{
    vt_tensor *part[2] = {
        vt_layer_norm_modulate(g, x, NULL, NULL, ex[0], ex[1], EPS),
        vt_layer_norm_modulate(g, c, NULL, NULL, ec[0], ec[1], EPS),
    };
    return vt_concat(g, 1, 2, part);
}

/* in: x [B,N,D] video, c [B,n,D] text, m [B,6,D] time, then made's first; out: x, c */
static void block(vt_ctx *g, const void *arg, vt_tensor *const *in, vt_tensor **out)
{
    const block_arg *a = arg;
    vt_tensor *x = in[0], *c = in[1], *ex[6], *ec[6];
    vt_chunk(g, vt_add(g, in[2], a->w->table), 1, 6, ex);
    vt_chunk(g, vt_add(g, in[2], a->w->text_table), 1, 6, ec);
    int64_t n = x->dim[1], all = n + c->dim[1];

    vt_tensor *h = attention(g, a, join(g, x, ex, c, ec), in + 3);
    x = vt_gated_add(g, x, vt_slice(g, h, 1, 0, n), ex[2]);
    c = vt_gated_add(g, c, vt_slice(g, h, 1, n, all), ec[2]);
    h = mlp(g, a, join(g, x, ex + 3, c, ec + 3));
    out[0] = vt_gated_add(g, x, vt_slice(g, h, 1, 0, n), ex[5]);
    out[1] = vt_gated_add(g, c, vt_slice(g, h, 1, n, all), ec[5]);
}

/* c [B,n,D] -> [B,D]: the first token, where the built-in encoder sums up the prompt, and the
 * mean of the tokens that count, as attention of a query of zeros. */
static vt_tensor *pool_text(vt_ctx *g, const builtin *m, vt_tensor *c, vt_tensor *length)
{
    if (!c) return NULL;
    const int64_t heads_dim[4] = { c->dim[0], c->dim[1], m->heads, m->head };
    const int64_t query_dim[4] = { c->dim[0], 1, m->heads, m->head };
    const int64_t dim[2] = { c->dim[0], m->heads * m->head };
    vt_tensor *k = vt_reshape(g, c, 4, heads_dim), *first = vt_slice(g, c, 1, 0, 1);
    vt_tensor *q = vt_reshape(g, vt_scale(g, first, 0), 4, query_dim);
    vt_tensor *o = vt_attention(g, q, k, k, &(vt_attn){ .kv_len = length });
    vt_tensor *mean = vt_reshape(g, o, 2, dim);
    return vt_add(g, mean, vt_reshape(g, first, 2, dim));
}

/* t [B], text [B,D] -> [B,D] */
static vt_tensor *embed_time(vt_ctx *g, const builtin *m, vt_tensor *t, vt_tensor *text)
{
    vt_tensor *h = vt_cast(g, vt_timestep(g, t, TIME, MAX_PERIOD), vt_compute(g));
    h = vt_linear(g, vt_silu(g, vt_linear(g, h, &m->w.time1)), &m->w.time2);
    return vt_silu(g, vt_add(g, h, vt_linear(g, text, &m->w.pooled)));
}

/* e [B,D] -> [B,n,out/n] */
static vt_tensor *modulation(vt_ctx *g, const vt_lin *l, vt_tensor *e, int64_t n)
{
    vt_tensor *y = vt_linear(g, e, l);
    if (!y) return NULL;
    const int64_t dim[3] = { y->dim[0], n, y->dim[1] / n };
    return vt_reshape(g, y, 3, dim);
}

/* tokens [B,N,PATCH], pos [1,N,POS] -> [B,N,D] */
static vt_tensor *embed_patches(vt_ctx *g, const builtin *m, vt_tensor *tokens, vt_tensor *pos)
{
    return vt_add(g, vt_linear(g, tokens, &m->w.patch), vt_linear(g, pos, &m->w.pos));
}

static void builtin_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    builtin *m = model;
    if (vt_failed(g)) return;
    const int64_t *dim = in->x->dim, p = m->patch;
    const int64_t grid[3] = { dim[2], dim[3] / p, dim[4] / p };
    int64_t tokens = grid[0] * grid[1] * grid[2];
    const int64_t rope[2] = { tokens, m->head / 2 }, pos[3] = { 1, tokens, POS };
    if (!make_tables(m, grid)) {
        vt_fail(g, VC_ENOMEM, "positions: out of memory");
        return;
    }
    in->made[COS] = vt_from_host(g, VC_F32, 2, rope, m->cos, VC_F32);
    in->made[SIN] = vt_from_host(g, VC_F32, 2, rope, m->sin, VC_F32);
    in->made[KEYS] = key_lengths(g, &in->text[0], tokens);
    in->made[TEXT_KEYS] = key_lengths(g, &in->text[0], 0);
    in->made[FEATURES] = vt_from_host(g, vt_compute(g), 3, pos, m->pos, VC_F32);
}

static vt_tensor *builtin_forward(vt_ctx *g, void *model, const vtrain_in *in)
{
    builtin *m = model;
    vt_tensor *const *made = in->made;
    if (vt_failed(g)) return NULL;
    const int64_t *dim = in->x->dim, p = m->patch;

    vt_tensor *c = vt_cast(g, in->text[0].embeds, vt_compute(g));
    c = vt_linear(g, vt_layer_norm(g, c, NULL, NULL, EPS), &m->w.text);
    vt_tensor *e = embed_time(g, m, in->t, pool_text(g, m, c, made[TEXT_KEYS]));
    vt_tensor *tokens = vt_cast(g, vt_patchify(g, in->x, 1, (int)p, (int)p, VT_C_FIRST),
                                vt_compute(g));
    vt_tensor *stream[6] = {
        embed_patches(g, m, tokens, made[FEATURES]), c, modulation(g, &m->w.time_proj, e, 6),
        made[COS], made[SIN], made[KEYS],
    };
    vt_scope scope = vt_scope_begin(g);        /* of both streams only the latest is kept */
    for (int i = 0; i < m->layers; i++) {
        const vt_block b = { block, &m->arg[i], 6, 2, i };
        vt_tensor *next[2];
        vt_run_block(g, &b, i < in->recompute ? VT_RECOMPUTE : VT_KEEP, stream, next);
        memcpy(stream, next, sizeof next);
        vt_scope_end(g, scope, 2, stream);
    }
    vt_tensor *s[2];
    vt_chunk(g, modulation(g, &m->w.norm_out, e, 2), 1, 2, s);
    vt_tensor *x = vt_layer_norm_modulate(g, stream[0], NULL, NULL, s[0], s[1], EPS);
    x = vt_gated_add(g, vt_linear(g, x, &m->w.proj_out), tokens,
                     modulation(g, &m->w.skip_gate, e, 1));
    return vt_unpatchify(g, x, dim + 1, 1, (int)p, (int)p, VT_C_FIRST);
}

const vtrain_family vtrain_builtin = {
    .class_name = "VltTransformer3DModel",
    .text_args = { "encoder_hidden_states" },
    .fresh = builtin_fresh, .open = builtin_open, .close = builtin_close, .fit = builtin_fit,
    .prepare = builtin_prepare, .forward = builtin_forward,
    .objective = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
    .flow_shift = 3, .logit_mean = 0, .logit_std = 1,
    .posterior_mean = false, .bf16 = false,
    .lr_full = 1e-3, .lr_lora = 1e-3, .guidance = 1.5, .batch = 4, .steps = 500,
    .lora_targets = "to_q,to_k,to_v,to_out.0",
};
