/* krea2.c - Krea 2 (Krea AI 2026): states of many layers of the text encoder are fused to one for
 * each token, then blocks of one sequence, picture and prompt, run with fewer key heads than query
 * heads. Semantics and names are those of diffusers' Krea2Transformer2DModel, of Krea 2 Raw and
 * Turbo. Latents: one picture [B,C,1,h,w].
 *
 * A prompt's token has the states of all taps, one behind the other. In the first blocks these
 * attend to each other, a linear layer joins them, and in the next blocks the prompt's tokens
 * attend to each other. The class has the prompt in front of the picture; here the picture is in
 * front, so that a batch's padding is at the end. Positions are those of the class, which do not
 * depend on the order. */
#include <stdlib.h>
#include <string.h>

#include "common/nn/attention.h"
#include "common/nn/embeddings.h"
#include "common/nn/positions.h"
#include "common/tensor/exchange.h"
#include "formats/json/config.h"
#include "train/models/dit.h"

enum { SIDE = 2, AXES = 3, MODS = 6, MAX_WIDTH = 16384 };

/* Indices into the sizes of the weight tables. */
enum { D = -1, KV = -2, HEAD = -3, HIDDEN = -4, TOKEN = -5, TIME = -6, TEXT = -7, TEXT_KV = -8,
       TEXT_HEAD = -9, TEXT_HIDDEN = -10, TAPS = -11, SIX = -12, SIX_D = -13, TWO = -14,
       ONE = -15 };

typedef struct block_weights {
    vt_tensor *table;                         /* [6,D]: scale, shift and gate of the attention, then
                                               * of the feed-forward; NULL in the prompt's blocks */
    vt_tensor *norm[2];                       /* [D], less 1, as those of attn are */
    nn_attention attn;
    vt_lin open;                              /* [D,D]: the results of the heads are multiplied by
                                               * its sigmoid */
    vt_lin gate, up, down;
} block_weights;

typedef struct model_weights {
    vt_lin patch, time1, time2, mod, projector, text1, text2, proj_out;
    vt_tensor *text_norm, *norm_out;          /* [TEXT], [D]: less 1 */
    vt_tensor *table;                         /* [2,D]: scale and shift */
} model_weights;

#define LIN(field, name, out, in) \
    { name, VT_W_LINEAR, offsetof(model_weights, field), { out, in }, VT_INIT_XAVIER }
#define BLOCK(field, name, out, in) \
    { name, VT_W_LINEAR_NO_BIAS, offsetof(block_weights, field), { out, in }, VT_INIT_XAVIER }
#define VEC(type, field, name, ...) \
    { name, VT_W_TENSOR, offsetof(type, field), { __VA_ARGS__ }, VT_INIT_ZERO }

static const vt_weight model_table[] = {
    LIN(patch, "img_in", D, TOKEN),
    LIN(time1, "time_embed.linear_1", D, TIME),
    LIN(time2, "time_embed.linear_2", D, D),
    LIN(mod, "time_mod_proj", SIX_D, D),
    { "text_fusion.projector", VT_W_LINEAR_NO_BIAS, offsetof(model_weights, projector),
      { ONE, TAPS }, VT_INIT_XAVIER },
    VEC(model_weights, text_norm, "txt_in.norm.weight", TEXT),
    LIN(text1, "txt_in.linear_1", D, TEXT),
    LIN(text2, "txt_in.linear_2", D, D),
    VEC(model_weights, table, "final_layer.scale_shift_table", TWO, D),
    VEC(model_weights, norm_out, "final_layer.norm.weight", D),
    LIN(proj_out, "final_layer.linear", TOKEN, D),
    { 0 }
};

#define PLAIN(d, kv, head, hidden) \
    VEC(block_weights, norm[0], "norm1.weight", d), \
    VEC(block_weights, norm[1], "norm2.weight", d), \
    BLOCK(attn.q, "attn.to_q", d, d), \
    BLOCK(attn.k, "attn.to_k", kv, d), \
    BLOCK(attn.v, "attn.to_v", kv, d), \
    BLOCK(open, "attn.to_gate", d, d), \
    VEC(block_weights, attn.norm_q.w, "attn.norm_q.weight", head), \
    VEC(block_weights, attn.norm_k.w, "attn.norm_k.weight", head), \
    BLOCK(attn.out, "attn.to_out.0", d, d), \
    BLOCK(gate, "ff.gate", hidden, d), \
    BLOCK(up, "ff.up", hidden, d), \
    BLOCK(down, "ff.down", d, hidden)

static const vt_weight text_table[] = { PLAIN(TEXT, TEXT_KV, TEXT_HEAD, TEXT_HIDDEN), { 0 } };
static const vt_weight block_table[] = {
    VEC(block_weights, table, "scale_shift_table", SIX, D), PLAIN(D, KV, HEAD, HIDDEN), { 0 }
};

typedef struct krea2 {
    vtrain_dit dit;
    int64_t token, layers, head, heads, kv_heads, hidden, time, text, taps, text_heads,
            text_kv_heads, text_hidden, layerwise, refiners, axis[AXES];
    double theta, eps;
    int axes;
    int64_t picture, rows;                    /* the picture's tokens and the rows of the batch in
                                               * the step in progress */
    model_weights w;
} krea2;

/* vtrain_in.made: cosines and sines of the rotations; the numbers of keys of the prompt, and of
 * picture and prompt; the number that is added to the weights of norms. */
enum { COS, SIN, TEXT_KEYS, KEYS, UNIT, N_MADE };
/* The inputs of a block: the tokens that it changes, which are each prompt's states, then the
 * prompt's tokens, then picture and prompt; the modulation that all blocks share; all of made.
 * Behind them the picture's tokens wait, and the head reads the time's embedding. */
enum { X, MOD, MADE, N_IN = MADE + N_MADE, PICTURE = N_IN, E };

/* ---- config.json ---- */

static const vf_config_row config_rows[] = {
    VF_INT(krea2, token, "in_channels", 64, 4, 4096),
    VF_INT(krea2, layers, "num_layers", 28, 1, 256),
    VF_INT(krea2, head, "attention_head_dim", 128, 8, 256),
    VF_INT(krea2, heads, "num_attention_heads", 48, 1, 256),
    VF_INT(krea2, kv_heads, "num_key_value_heads", 12, 1, 256),
    VF_INT(krea2, hidden, "intermediate_size", 16384, 8, 65536),
    VF_INT(krea2, time, "timestep_embed_dim", 256, 2, 4096),
    VF_INT(krea2, text, "text_hidden_dim", 2560, 8, 65536),
    VF_INT(krea2, taps, "num_text_layers", 12, 1, 64),
    VF_INT(krea2, text_heads, "text_num_attention_heads", 20, 1, 256),
    VF_INT(krea2, text_kv_heads, "text_num_key_value_heads", 20, 1, 256),
    VF_INT(krea2, text_hidden, "text_intermediate_size", 6912, 8, 65536),
    VF_INT(krea2, layerwise, "num_layerwise_text_blocks", 2, 1, 64),
    VF_INT(krea2, refiners, "num_refiner_text_blocks", 2, 1, 64),
    VF_INTS(krea2, axis, axes, "axes_dims_rope", AXES, 2, 256),
    VF_NUM(krea2, theta, "rope_theta", 1000, 1, 1e9),
    VF_NUM(krea2, eps, "norm_eps", 1e-5, VF_ABOVE_0, 1),
    { 0 }
};

/* Checks the rules between fields. */
static int check_config(const krea2 *m, vc_err *err)
{
    if (m->token % (SIDE * SIDE) || m->time % 2)
        return vc_fail(err, VC_EFORMAT, "in_channels: %lld must be a multiple of %d, and "
                       "timestep_embed_dim: %lld even", (long long)m->token, SIDE * SIDE,
                       (long long)m->time);
    if (m->head % 8 || m->heads % m->kv_heads || m->heads * m->head > MAX_WIDTH)
        return vc_fail(err, VC_EFORMAT, "attention_head_dim must be a multiple of 8, "
                       "num_attention_heads one of num_key_value_heads, and num_attention_heads "
                       "times attention_head_dim at most %d", MAX_WIDTH);
    if (m->text % (8 * m->text_heads) || m->text_heads % m->text_kv_heads)
        return vc_fail(err, VC_EFORMAT, "text_hidden_dim must be text_num_attention_heads times a "
                       "multiple of 8, and text_num_attention_heads a multiple of "
                       "text_num_key_value_heads");
    return vtrain_check_axes("axes_dims_rope", m->axis, AXES, m->head, err);
}

static int krea2_read(void *model, const cJSON *config, vc_err *err)
{
    krea2 *m = model;
    memcpy(m->axis, (int64_t[]){ 32, 48, 48 }, sizeof m->axis);
    int rc = vf_config_read(m, config_rows, config, err);
    if (!rc)
        rc = check_config(m, err);
    if (rc)
        return rc;
    const int64_t d = m->heads * m->head, text_head = m->text / m->text_heads;
    const int64_t sizes[VTRAIN_SIZES] = {
        [-D] = d, [-KV] = m->kv_heads * m->head, [-HEAD] = m->head, [-HIDDEN] = m->hidden,
        [-TOKEN] = m->token, [-TIME] = m->time, [-TEXT] = m->text,
        [-TEXT_KV] = m->text_kv_heads * text_head, [-TEXT_HEAD] = text_head,
        [-TEXT_HIDDEN] = m->text_hidden, [-TAPS] = m->taps, [-SIX] = MODS, [-SIX_D] = MODS * d,
        [-TWO] = 2, [-ONE] = 1,
    };
    memcpy(m->dit.sizes, sizes, sizeof sizes);
    memcpy(m->dit.layers, (int64_t[]){ m->layerwise, m->refiners, m->layers },
           sizeof m->dit.layers);
    return 0;
}

static void krea2_fit(const void *model, vtrain_fit *fit)
{
    const krea2 *m = model;
    *fit = (vtrain_fit){ .channels = (int)(m->token / (SIDE * SIDE)), .n_texts = 1,
                         .text_width = { m->taps * m->text }, .mult = { 1, SIDE, SIDE },
                         .blocks = (int)(m->layerwise + m->refiners + m->layers),
                         .heads = m->kv_heads };
}

/* The schedule of the released model. */
static void krea2_schedule(const cJSON *config, vtrain_scheduler *s)
{
    (void)config;
    s->by_tokens = (vtrain_by_tokens){ .on = true, .type = VTRAIN_MU_EXPONENTIAL, .base = 0.5,
                                       .max = 1.15, .base_len = 256, .max_len = 6400 };
}

/* ---- prepare ---- */

/* The picture's tokens stand at their rows and columns, and the prompt's at zeros. */
static void make_rope(vt_ctx *g, const krea2 *m, int64_t columns, int64_t prompt, vt_tensor **made)
{
    const int64_t all = m->picture + prompt;
    const int64_t pairs[AXES] = { m->axis[0] / 2, m->axis[1] / 2, m->axis[2] / 2 };
    int32_t *at = calloc((size_t)(all * AXES), sizeof *at);
    if (!at) {
        vt_fail(g, VC_ENOMEM, "positions: out of memory");
        return;
    }
    for (int64_t i = 0; i < m->picture; i++) {
        at[AXES * i + 1] = (int32_t)(i / columns);
        at[AXES * i + 2] = (int32_t)(i % columns);
    }
    nn_rope_at(g, at, all, AXES, pairs, m->theta, made + COS);
    free(at);
}

/* Traces the arguments of diffusers' forward() that the model does not read: it has the prompt in
 * front of the picture. */
static void note_places(vt_ctx *g, const vtrain_in *in, int64_t columns, int64_t prompt)
{
    const int64_t picture = in->x->dim[3] / SIDE * columns, dim[2] = { prompt + picture, AXES };
    float *at = calloc((size_t)(dim[0] * AXES), sizeof *at);
    if (!at) {
        vt_fail(g, VC_ENOMEM, "trace: out of memory");
        return;
    }
    for (int64_t i = 0; i < picture; i++) {
        at[AXES * (prompt + i) + 1] = (float)(i / columns);
        at[AXES * (prompt + i) + 2] = (float)(i % columns);
    }
    vtrain_note(in, "position_ids", vt_from_host(g, VC_F32, 2, dim, at, VC_F32));
    free(at);
}

static void krea2_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    static const float unit = 1;
    krea2 *m = model;
    const vtrain_cond *text = &in->text[0];
    if (vt_failed(g) || !in->x || !text->embeds)
        return;
    const int64_t *dim = in->x->dim, columns = dim[4] / SIDE, prompt = text->embeds->dim[1];
    if (dim[2] != 1) {
        vt_fail(g, VC_EMISMATCH, "latents of %lld frames: Krea 2 makes pictures, which have one",
                (long long)dim[2]);
        return;
    }
    m->rows = dim[0];
    m->picture = dim[3] / SIDE * columns;
    make_rope(g, m, columns, prompt, in->made);
    in->made[TEXT_KEYS] = vtrain_key_lengths(g, text, 0);
    in->made[KEYS] = vtrain_key_lengths(g, text, m->picture);
    in->made[UNIT] = vt_from_host(g, VC_F32, 1, (int64_t[]){ 1 }, &unit, VC_F32);
    vtrain_note_mask(g, in, "encoder_attention_mask", text);
    if (in->note)
        note_places(g, in, columns, prompt);
}

/* ---- forward ---- */

/* The weights of a norm, which files have less 1. */
static vt_tensor *whole(vt_ctx *g, vt_tensor *w, vt_tensor *unit)
{
    return vt_add(g, vt_cast(g, w, VC_F32), unit);
}

static void krea2_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const krea2 *m = model;
    const model_weights *w = &m->w;
    vt_tensor *text = in->text[0].embeds;
    if (!text)
        return;
    const int64_t states[3] = { text->dim[0] * text->dim[1], m->taps, m->text };
    vt_tensor *time = vt_timestep(g, in->t, m->time, 10000);
    time = vt_linear_f32(g, vt_gelu(g, vt_linear_f32(g, time, &w->time1)), &w->time2);
    s[X] = vt_reshape(g, vt_cast(g, text, vt_compute(g)), 3, states);
    s[MOD] = nn_modulation(g, vt_gelu(g, time), &w->mod, MODS);
    s[PICTURE] = vt_linear(g, nn_patches(g, in->x, (int[]){ 1, SIDE, SIDE }), &w->patch);
    s[E] = time;
    memcpy(s + MADE, in->made, N_MADE * sizeof *in->made);
}

/* Keys or values y [B,N,K,HEAD], each for `times` query heads: [B,N,K*times,HEAD] */
static vt_tensor *repeat(vt_ctx *g, vt_tensor *y, int64_t times)
{
    enum { MOST = 256 };
    vt_tensor *copy[MOST];
    if (!y || times == 1)
        return y;
    const int64_t *d = y->dim, one[5] = { d[0], d[1], d[2], 1, d[3] };
    const int64_t all[4] = { d[0], d[1], d[2] * times, d[3] };
    copy[0] = vt_reshape(g, y, 5, one);
    for (int64_t i = 1; i < times; i++)
        copy[i] = copy[0];
    return vt_reshape(g, vt_concat(g, 3, (int)times, copy), 4, all);
}

/* The attention of x [B,N,D] to itself; cos NULL: nothing is rotated. */
static vt_tensor *attend(vt_ctx *g, vt_tensor *x, const block_weights *w, const nn_heads *heads,
                         int64_t kv_heads, vt_tensor *keys, vt_tensor *unit)
{
    const nn_heads few = { kv_heads, heads->eps, heads->cos, heads->sin, 0 };
    const nn_norm norm_q = { whole(g, w->attn.norm_q.w, unit), NULL };
    const nn_norm norm_k = { whole(g, w->attn.norm_k.w, unit), NULL };
    vt_tensor *q = vt_to_heads(g, nn_project(g, x, &w->attn.q, &norm_q, heads));
    vt_tensor *k = vt_to_heads(g, nn_project(g, x, &w->attn.k, &norm_k, &few));
    vt_tensor *v = vt_to_heads(g, nn_project(g, x, &w->attn.v, NULL, &few));
    k = repeat(g, k, heads->n / kv_heads);
    v = repeat(g, v, heads->n / kv_heads);
    vt_tensor *o = vt_attention(g, q, k, v, &(vt_attn){ .kv_len = keys });
    o = nn_all_heads(g, vt_to_tokens(g, o));
    return vt_linear(g, vt_mul(g, o, vt_sigmoid(g, vt_linear(g, x, &w->open))), &w->attn.out);
}

static vt_tensor *feed(vt_ctx *g, vt_tensor *x, const block_weights *w)
{
    vt_tensor *gate = vt_silu(g, vt_linear(g, x, &w->gate));
    return vt_linear(g, vt_mul(g, gate, vt_linear(g, x, &w->up)), &w->down);
}

static vt_tensor *text_block(vt_ctx *g, const krea2 *m, const block_weights *w, vt_tensor *x,
                             vt_tensor *keys, vt_tensor *unit)
{
    const nn_heads heads = { .n = m->text_heads, .eps = (float)m->eps };
    vt_tensor *h = vt_rms_norm(g, x, whole(g, w->norm[0], unit), heads.eps);
    x = vt_add(g, x, attend(g, h, w, &heads, m->text_kv_heads, keys, unit));
    h = vt_rms_norm(g, x, whole(g, w->norm[1], unit), heads.eps);
    return vt_add(g, x, feed(g, h, w));
}

static void layerwise_block(vt_ctx *g, const void *model, const void *weights,
                            vt_tensor *const *in, vt_tensor **out)
{
    out[X] = text_block(g, model, weights, in[X], NULL, in[MADE + UNIT]);
}

static void refiner_block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                          vt_tensor **out)
{
    out[X] = text_block(g, model, weights, in[X], in[MADE + TEXT_KEYS], in[MADE + UNIT]);
}

static void joined_block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                         vt_tensor **out)
{
    const krea2 *m = model;
    const block_weights *w = weights;
    vt_tensor *const *made = in + MADE, *e[MODS], *x = in[X];
    const nn_heads all = { m->heads, (float)m->eps, made[COS], made[SIN], 0 };
    const nn_heads heads = nn_own_heads(g, &all);
    nn_chunk(g, vt_add(g, in[MOD], w->table), MODS, e);
    vt_tensor *h = vt_rms_norm_modulate(g, x, whole(g, w->norm[0], made[UNIT]), e[1], e[0],
                                        heads.eps);
    x = vt_gated_add(g, x, attend(g, h, w, &heads, m->kv_heads, made[KEYS], made[UNIT]), e[2]);
    h = vt_rms_norm_modulate(g, x, whole(g, w->norm[1], made[UNIT]), e[4], e[3], heads.eps);
    out[X] = vt_gated_add(g, x, feed(g, h, w), e[5]);
}

/* Joins the states of each token, [B*n,TAPS,TEXT] -> [B,n,TEXT]. */
static void join_states(vt_ctx *g, const void *model, vt_tensor *s[VT_BLOCK_IO])
{
    const krea2 *m = model;
    vt_tensor *x = vt_permute(g, s[X], (int[]){ 0, 2, 1 });
    const int64_t dim[3] = { m->rows, -1, m->text };
    s[X] = vt_reshape(g, vt_linear(g, x, &m->w.projector), 3, dim);
}

/* Joins picture and prompt to one sequence, picture first. */
static void join_streams(vt_ctx *g, const void *model, vt_tensor *s[VT_BLOCK_IO])
{
    const krea2 *m = model;
    vt_tensor *norm = whole(g, m->w.text_norm, s[MADE + UNIT]);
    vt_tensor *text = vt_rms_norm(g, s[X], norm, (float)m->eps);
    text = vt_feed_forward(g, text, &m->w.text1, &m->w.text2);
    s[X] = vt_concat(g, 1, 2, (vt_tensor *[]){ s[PICTURE], text });
    s[PICTURE] = NULL;
}

static vt_tensor *krea2_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    const krea2 *m = model;
    if (!s[E])
        return NULL;
    const int64_t each[3] = { m->rows, 1, s[E]->dim[1] };
    vt_tensor *e = vt_reshape(g, s[E], 3, each), *mod[2];
    for (int i = 0; i < 2; i++)
        mod[i] = vt_add(g, e, vt_slice(g, m->w.table, 0, i, i + 1));
    vt_tensor *norm = whole(g, m->w.norm_out, s[MADE + UNIT]);
    vt_tensor *x = vtrain_noisy_begin(g, s[X], m->picture);
    x = vt_rms_norm_modulate(g, x, norm, mod[1], mod[0], (float)m->eps);
    x = vtrain_noisy_end(g, vt_linear(g, x, &m->w.proj_out), m->picture);
    return vt_unpatchify(g, x, in->x->dim + 1, 1, SIDE, SIDE, VT_C_FIRST);
}

/* The first authors' names of modules, which ComfyUI and ai-toolkit have too. */
#define ATTN(theirs_, ours_, name, our) \
    { theirs_ ".attn." name, .ours = { ours_ ".attn." our } }
#define BLOCKS(theirs_, ours_) \
    ATTN(theirs_, ours_, "wq", "to_q"), ATTN(theirs_, ours_, "wk", "to_k"), \
    ATTN(theirs_, ours_, "wv", "to_v"), ATTN(theirs_, ours_, "wo", "to_out.0"), \
    ATTN(theirs_, ours_, "gate", "to_gate"), \
    { theirs_ ".mlp.gate", .ours = { ours_ ".ff.gate" } }, \
    { theirs_ ".mlp.up", .ours = { ours_ ".ff.up" } }, \
    { theirs_ ".mlp.down", .ours = { ours_ ".ff.down" } }

static const vtrain_rename first_names[] = {
    BLOCKS("blocks.#", "transformer_blocks.#"),
    BLOCKS("txtfusion.layerwise_blocks.#", "text_fusion.layerwise_blocks.#"),
    BLOCKS("txtfusion.refiner_blocks.#", "text_fusion.refiner_blocks.#"),
    { "txtfusion.projector", .ours = { "text_fusion.projector" } },
    { "first", .ours = { "img_in" } },
    { "last.linear", .ours = { "final_layer.linear" } },
    { "tmlp.0", .ours = { "time_embed.linear_1" } },
    { "tmlp.2", .ours = { "time_embed.linear_2" } },
    { "tproj.1", .ours = { "time_mod_proj" } },
    { "txtmlp.1", .ours = { "txt_in.linear_1" } },
    { "txtmlp.3", .ours = { "txt_in.linear_2" } },
    { 0 }
};

const vtrain_family vtrain_krea2 = {
    .class_name = "Krea2Transformer2DModel",
    .lora_names = first_names, .kohya = &vtrain_kohya_scripts,
    .text_args = { "encoder_hidden_states" }, .layout = VTRAIN_TOKENS, .time = VTRAIN_TIME_LEVEL,
    .size = sizeof(krea2), .weights = offsetof(krea2, w), .table = model_table,
    .read = krea2_read, .fit = krea2_fit, .prepare = krea2_prepare, .embed = krea2_embed,
    .head = krea2_head, .whole_kinds = 2,
    .blocks = { { "text_fusion.layerwise_blocks.%d.", text_table, sizeof(block_weights), N_IN, 1,
                  layerwise_block, NULL, NULL },
                { "text_fusion.refiner_blocks.%d.", text_table, sizeof(block_weights), N_IN, 1,
                  refiner_block, join_states, NULL },
                { "transformer_blocks.%d.", block_table, sizeof(block_weights), N_IN, 1,
                  joined_block, join_streams, NULL } },
    .objective = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
    .flow_shift = 1, .logit_mean = 0, .logit_std = 1, .schedule = krea2_schedule,
    .posterior_mean = true, .bf16 = true, .guidance_added = true,
    .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 4.5, .inference_steps = 28,
    .batch = 1, .steps = 1000,
    .lora_targets = "to_q,to_k,to_v,to_out.0",
};
