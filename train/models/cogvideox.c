/* cogvideox.c - CogVideoX (Yang et al. 2024): an MM-DiT with text and video tokens in one sequence.
 * Both kinds of tokens have shifts, scales and gates of their own ("expert adaptive layer norm")
 * and share all other weights. Semantics and names are those of diffusers'
 * CogVideoXTransformer3DModel, in all its variants:
 *
 *     2B           adds sinusoids of frame, column and row to the patches
 *     5B           rotates queries and keys in proportion to the grid of sample_height, _width
 *     5B I2V       also adds a stored table of positions; joins image and noisy latents
 *     1.5          has patches of two frames, and rotates by plain indices; I2V embeds `ofs`
 *     Fun InP      is any of these, and joins a mask, the masked video and noisy latents
 *     Fun Control  is any of these, and joins a control clip and noisy latents
 *
 * Text tokens precede the video's. Latents are [B,C,f,h,w] here; traces alone have frames before
 * channels. */
#include "train/models/cogvideox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/nn/embeddings.h"
#include "common/nn/positions.h"
#include "common/tensor/exchange.h"

#define QK_EPS 1e-6f
#define THETA 10000.0
#define OFS 2.0f                              /* the value that 1.5 I2V was trained with */

enum { MLP = 4 };

#define LIN(type, field, name, out, in) \
    { name, VT_W_LINEAR, offsetof(type, field), { out, in }, VT_INIT_XAVIER }
#define VEC(type, field, name, size) \
    { name, VT_W_TENSOR, offsetof(type, field), { size }, VT_INIT_ONE }

static const vt_weight model_table[] = {
    { "patch_embed.pos_embedding", VT_W_BUFFER, offsetof(cogvideox_weights, table), { 1, TABLE, D },
      VT_INIT_ZERO },
    { "patch_embed.proj", VT_W_CONV, offsetof(cogvideox_weights, patch), { D, IN, PATCH, PATCH },
      VT_INIT_XAVIER },
    VEC(cogvideox_weights, patch.b, "patch_embed.proj.bias", BIAS),
    LIN(cogvideox_weights, patch, "patch_embed.proj", D, TOKEN_IN),
    LIN(cogvideox_weights, text, "patch_embed.text_proj", D, TEXT),
    LIN(cogvideox_weights, time1, "time_embedding.linear_1", TIME, D),
    LIN(cogvideox_weights, time2, "time_embedding.linear_2", TIME, TIME),
    VEC(cogvideox_weights, final.w, "norm_final.weight", D),
    VEC(cogvideox_weights, final.b, "norm_final.bias", D),
    LIN(cogvideox_weights, mod_out, "norm_out.linear", TWO_D, TIME),
    VEC(cogvideox_weights, out.w, "norm_out.norm.weight", D),
    VEC(cogvideox_weights, out.b, "norm_out.norm.bias", D),
    LIN(cogvideox_weights, proj_out, "proj_out", TOKEN_OUT, D),
    LIN(cogvideox_weights, ofs1, "ofs_embedding.linear_1", OFS_D, OFS_D),
    LIN(cogvideox_weights, ofs2, "ofs_embedding.linear_2", OFS_D, OFS_D),
    { 0 }
};
static const vt_weight block_table[] = {      /* names follow "transformer_blocks.%d." */
    LIN(cogvideox_block, mod1, "norm1.linear", SIX_D, TIME),
    VEC(cogvideox_block, norm1.w, "norm1.norm.weight", D),
    VEC(cogvideox_block, norm1.b, "norm1.norm.bias", D),
    VEC(cogvideox_block, attn.norm_q.w, "attn1.norm_q.weight", HEAD),
    VEC(cogvideox_block, attn.norm_q.b, "attn1.norm_q.bias", HEAD),
    VEC(cogvideox_block, attn.norm_k.w, "attn1.norm_k.weight", HEAD),
    VEC(cogvideox_block, attn.norm_k.b, "attn1.norm_k.bias", HEAD),
    LIN(cogvideox_block, attn.q, "attn1.to_q", D, D),
    LIN(cogvideox_block, attn.k, "attn1.to_k", D, D),
    LIN(cogvideox_block, attn.v, "attn1.to_v", D, D),
    LIN(cogvideox_block, attn.out, "attn1.to_out.0", D, D),
    LIN(cogvideox_block, mod2, "norm2.linear", SIX_D, TIME),
    VEC(cogvideox_block, norm2.w, "norm2.norm.weight", D),
    VEC(cogvideox_block, norm2.b, "norm2.norm.bias", D),
    LIN(cogvideox_block, up, "ff.net.0.proj", HIDDEN, D),
    LIN(cogvideox_block, down, "ff.net.2", D, HIDDEN),
    { 0 }
};

/* ---- config ---- */

/* The rows of the stored table: the tokens of the text, and those of a video of sample_frames,
 * sample_height and sample_width. */
static int64_t table_rows(const cogvideox_config *c)
{
    int64_t frames = (c->frames - 1) / c->compression + 1;
    return c->max_text + frames * (c->rows / c->patch) * (c->columns / c->patch);
}

static int64_t width(const cogvideox *m)
{
    return m->c.heads * m->c.head;
}

int cogvideox_read(void *model, const cJSON *config, vc_err *err)
{
    cogvideox *m = model;
    cogvideox_config *c = &m->c;
    int rc = cogvideox_config_read(c, config, err);
    if (rc)
        return rc;
    int p = (int)c->patch, pt = c->patch_t ? (int)c->patch_t : 1;
    int64_t d = width(m), volume = (int64_t)p * p * pt;
    const int64_t sizes[VTRAIN_SIZES] = {
        [-D] = d, [-TIME] = c->time, [-TEXT] = c->text, [-HEAD] = c->head, [-HIDDEN] = MLP * d,
        [-SIX_D] = 6 * d, [-TWO_D] = 2 * d, [-TOKEN_OUT] = c->out_channels * volume,
        [-TABLE] = c->learned ? table_rows(c) : VT_ABSENT, [-OFS_D] = c->ofs ? c->ofs : VT_ABSENT,
        /* Patches are embedded by a convolution, or with patch_size_t by a linear layer. */
        [-PATCH] = p, [-IN] = c->patch_t ? VT_ABSENT : c->in_channels,
        [-BIAS] = !c->patch_t && c->patch_bias ? d : VT_ABSENT,
        [-TOKEN_IN] = c->patch_t ? c->in_channels * volume : VT_ABSENT,
    };
    m->dit.layers[0] = c->layers;
    memcpy(m->dit.sizes, sizes, sizeof sizes);
    memcpy(m->patch, (int[]){ pt, p, p }, sizeof m->patch);
    return 0;
}

static unsigned roles_of(const cogvideox *m)
{
    int64_t extra = m->c.in_channels - m->c.out_channels;
    if (extra == 0)
        return 0;
    if (extra > m->c.out_channels)
        return 1u << VC_ROLE_VIDEO | 1u << VC_ROLE_MASK;
    return m->c.control ? 1u << VC_ROLE_CONTROL : 1u << VC_ROLE_IMAGE;
}

void cogvideox_fit(const void *model, vtrain_fit *fit)
{
    const cogvideox *m = model;
    *fit = (vtrain_fit){ .channels = (int)m->c.out_channels,
                         .n_texts = 1, .text_width = { m->c.text },
                         .mult = { m->patch[0], m->patch[1], m->patch[2] },
                         .pad_front = m->c.patch_t > 1, .roles = roles_of(m),
                         .blocks = (int)m->c.layers, .heads = m->c.heads };
}

/* ---- checks of inputs ---- */

static bool check_latents(vt_ctx *g, const cogvideox *m, const vt_tensor *x)
{
    long long f = x->dim[2], h = x->dim[3], w = x->dim[4], p = m->c.patch;
    if (x->dim[1] != m->c.out_channels)
        return vt_fail(g, VC_EMISMATCH, "latents have %lld channels, but the transformer reads "
                       "%lld", (long long)x->dim[1], (long long)m->c.out_channels);
    if (f % m->patch[0] || h % p || w % p)
        return vt_fail(g, VC_EMISMATCH, "latents %lldx%lldx%lld: frames must be a multiple of %d "
                       "(patch_size_t), rows and columns multiples of %lld (patch_size)", f, h, w,
                       m->patch[0], p);
    if (m->c.learned && (h != m->c.rows || w != m->c.columns))
        return vt_fail(g, VC_EMISMATCH, "latents %lldx%lldx%lld: this model's table of positions "
                       "holds %lld rows and %lld columns (sample_height, sample_width) and fits no "
                       "other size", f, h, w, (long long)m->c.rows, (long long)m->c.columns);
    if (m->c.patch_t && (h / p > m->c.rows / p || w / p > m->c.columns / p))
        return vt_fail(g, VC_EMISMATCH, "latents %lldx%lldx%lld: positions end at %lld rows and "
                       "%lld columns; use smaller clips or raise sample_height and sample_width in "
                       "config.json", f, h, w, (long long)m->c.rows, (long long)m->c.columns);
    return true;
}

/* Every token attends to all tokens of the text, padding included, so the padding must be in the
 * dataset too. */
static bool check_text(vt_ctx *g, const cogvideox *m, const vtrain_cond *text)
{
    if (!text->embeds)
        return false;
    int64_t n = text->embeds->dim[1];
    if ((!m->c.rotary || m->c.learned) && n != m->c.max_text)
        vt_fail(g, VC_EMISMATCH, "prompts have %lld tokens, but this model needs exactly %lld "
                "(max_text_seq_length)", (long long)n, (long long)m->c.max_text);
    vtrain_check_padding(g, text);
    return !vt_failed(g);
}

bool cogvideox_check(vt_ctx *g, const cogvideox *m, const vtrain_in *in)
{
    return in->x && check_latents(g, m, in->x) && check_text(g, m, &in->text[0]);
}

/* ---- positions ---- */

/* Makes the tables of sinusoids, each [n,D] along its axis of the grid: of frames in the first
 * quarter of the D elements, of columns in the next three eighths, of rows in the last three
 * eighths. The other elements of a table are zero, so that the three sums round each element once,
 * like the sum with one whole table. */
static void make_sincos(vt_ctx *g, const cogvideox *m, const int64_t grid[3], vt_tensor *table[3])
{
    int64_t d = width(m), first = 0;
    const int64_t pairs[3] = { d / 8, 3 * d / 16, 3 * d / 16 };
    const double step[2] = { 1 / m->c.temporal_scale, 1 / m->c.spatial_scale };
    static const int order[3] = { 0, 2, 1 };
    for (int k = 0; k < 3; k++) {
        int a = order[k];
        const nn_axis axis = { grid[a], 0, step[a > 0], pairs[a] };
        int64_t dim[4] = { 1, 1, 1, d };
        float *t = calloc((size_t)(axis.n * d), sizeof *t);
        if (!t) {
            vt_fail(g, VC_ENOMEM, "positions: out of memory");
            return;
        }
        dim[a] = axis.n;
        nn_sincos(t + first, d, &axis, THETA);
        first += 2 * pairs[a];
        table[k] = vt_from_host(g, vt_compute(g), 4, dim, t, VC_F32);
        free(t);
    }
}

/* Adds the three tables to x [B,f*h*w,D]. */
static vt_tensor *add_sincos(vt_ctx *g, vt_tensor *x, vt_tensor *const table[3])
{
    if (!x)
        return NULL;
    const int64_t flat[3] = { x->dim[0], x->dim[1], x->dim[2] };
    const int64_t video[5] = { x->dim[0], table[0]->dim[0], table[2]->dim[1], table[1]->dim[2],
                               x->dim[2] };
    x = vt_reshape(g, x, 5, video);
    for (int k = 0; k < 3; k++)
        x = vt_add(g, x, table[k]);
    return vt_reshape(g, x, 3, flat);
}

/* Scales the rows and columns of a grid to fit into the grid that the model was trained on, and
 * centres them there. The last position is end * (n - 1) / n, as in diffusers; an evenly spaced
 * grid would end elsewhere if its start were not 0. Halves round to even. */
static void place_grid(const cogvideox *m, nn_axis *rows, nn_axis *columns)
{
    double h = (double)rows->n, w = (double)columns->n;
    double base_h = (double)(m->c.rows / m->c.patch), base_w = (double)(m->c.columns / m->c.patch);
    double high = base_h, wide = base_w;
    if (h / w > base_h / base_w)
        wide = rint(base_h / h * w);
    else
        high = rint(base_w / w * h);
    const struct { nn_axis *axis; double n, start, size; } sides[] = {
        { rows, h, rint((base_h - high) / 2), high },
        { columns, w, rint((base_w - wide) / 2), wide },
    };
    for (int i = 0; i < 2; i++) {
        double n = sides[i].n, start = sides[i].start, end = (start + sides[i].size) * (n - 1) / n;
        sides[i].axis->start = start;
        sides[i].axis->step = n > 1 ? (end - start) / (n - 1) : 0;
    }
}

/* Makes cosines and sines [tokens, head/2]: frames rotate a quarter of the pairs, rows and columns
 * three eighths each. */
static void make_rope(vt_ctx *g, const cogvideox *m, const int64_t grid[3], vt_tensor *table[2])
{
    int64_t pairs = m->c.head / 2;
    nn_axis axis[3] = { { grid[0], 0, 1, pairs / 4 }, { grid[1], 0, 1, pairs / 8 * 3 },
                        { grid[2], 0, 1, pairs / 8 * 3 } };
    if (!m->c.patch_t)
        place_grid(m, &axis[1], &axis[2]);
    nn_rope(g, axis, THETA, table);
}

/* Traces the tables in diffusers' layout, in which both elements of a pair have the angle. */
static void note_rope(vt_ctx *g, const vtrain_in *in, vt_tensor *const table[2])
{
    static const char *const name[2] = { "image_rotary_emb_cos", "image_rotary_emb_sin" };
    for (int i = 0; i < 2 && table[i]; i++) {
        const int64_t single[3] = { table[i]->dim[0], table[i]->dim[1], 1 };
        const int64_t wide[2] = { table[i]->dim[0], 2 * table[i]->dim[1] };
        vt_tensor *one = vt_reshape(g, table[i], 3, single), *two[2] = { one, one };
        vtrain_note(in, name[i], vt_reshape(g, vt_concat(g, 2, 2, two), 2, wide));
    }
}

static void cogvideox_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    static const float ofs = OFS;
    const int64_t one = 1;
    cogvideox *m = model;
    if (!cogvideox_check(g, m, in))
        return;
    const int64_t *dim = in->x->dim, grid[3] = { dim[2] / m->patch[0], dim[3] / m->patch[1],
                                                 dim[4] / m->patch[2] };
    bool stored = m->c.learned && (dim[2] - 1) * m->c.compression + 1 == m->c.frames;
    m->video = grid[0] * grid[1] * grid[2];
    if (m->c.rotary)
        make_rope(g, m, grid, in->made + COG_ROPE);
    if (!stored && (!m->c.rotary || m->c.learned))
        make_sincos(g, m, grid, in->made + COG_SINCOS);
    if (m->c.ofs)
        in->made[COG_OFS] = vt_from_host(g, VC_F32, 1, &one, &ofs, VC_F32);
}

/* ---- forward ---- */

/* The embedding of the time [B,TIME], which modulates all blocks. The embedding and the modulation
 * are f32. */
static vt_tensor *embed_time(vt_ctx *g, const cogvideox_weights *w, vt_tensor *t, vt_tensor *ofs)
{
    vt_tensor *e = nn_embed_number(g, t, &w->time1, &w->time2, VC_F32);
    if (ofs)
        e = vt_add(g, e, nn_embed_number(g, ofs, &w->ofs1, &w->ofs2, VC_F32));
    return vt_silu(g, e);
}

/* The sequence of n text tokens and N video tokens: [B,n+N,D]. */
static vt_tensor *embed_tokens(vt_ctx *g, const cogvideox *m, vt_tensor *x, vt_tensor *text,
                               vt_tensor *const *sincos)
{
    vt_tensor *part[2] = {
        vt_linear(g, vt_cast(g, text, vt_compute(g)), &m->w.text),
        nn_embed_patches(g, nn_patches(g, x, m->patch), &m->w.patch),
    };
    if (sincos[0])
        part[1] = add_sincos(g, part[1], sincos);
    vt_tensor *all = vt_concat(g, 1, 2, part);
    return m->c.learned && !sincos[0] ? vt_add(g, all, m->w.table) : all;
}

void cogvideox_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const cogvideox *m = model;
    vt_tensor *x = vtrain_join(g, in, roles_of(m), 1);
    if (in->note) {
        vtrain_note(in, "hidden_states", vt_permute(g, x, (int[]){ 0, 2, 1, 3, 4 }));
        note_rope(g, in, in->made + COG_ROPE);
    }
    s[COG_TIME] = embed_time(g, &m->w, in->t, in->made[COG_OFS]);
    s[COG_X] = embed_tokens(g, m, x, in->text[0].embeds, in->made + COG_SINCOS);
    s[COG_COS] = in->made[COG_ROPE];
    s[COG_SIN] = in->made[COG_ROPE + 1];
}

/* The expert adaptive layer norm: the shifts, scales and gates of n text tokens, and those of the
 * video tokens after them. */
static nn_groups expert(vt_ctx *g, vt_tensor *time, const vt_lin *l, int64_t n)
{
    vt_tensor *e[6];
    vt_chunk(g, nn_modulation(g, time, l, 6), 1, 6, e);
    return (nn_groups){ n, { e[3], e[0] }, { e[4], e[1] }, { e[5], e[2] } };
}

/* The number of text tokens of the sequence of which x has all tokens or this process's share. */
static int64_t text_tokens(const vt_ctx *g, const cogvideox *m, const vt_tensor *x)
{
    int64_t shared = vt_shared_tokens(g);
    return (shared ? shared : x->dim[1]) - m->video;
}

nn_heads cogvideox_heads(const cogvideox *m, vt_tensor *const *in, int64_t n)
{
    return (nn_heads){ m->c.heads, QK_EPS, in[COG_COS], in[COG_SIN], n };
}

vt_tensor *cogvideox_run(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                         cogvideox_mix *mix)
{
    const cogvideox *m = model;
    const cogvideox_block *w = weights;
    vt_tensor *x = in[COG_X], *h;
    float eps = (float)m->c.eps;
    int64_t n = vt_own_before(g, text_tokens(g, m, x));
    nn_groups e = expert(g, in[COG_TIME], &w->mod1, n);
    h = nn_modulate(g, x, &w->norm1, &e, eps);
    h = mix(g, model, weights, h, in);
    x = nn_gate(g, x, h, &e);

    e = expert(g, in[COG_TIME], &w->mod2, n);
    h = nn_modulate(g, x, &w->norm2, &e, eps);
    h = vt_feed_forward(g, h, &w->up, &w->down);
    return nn_gate(g, x, h, &e);
}

static vt_tensor *attention(vt_ctx *g, const void *model, const void *weights, vt_tensor *h,
                            vt_tensor *const *in)
{
    const cogvideox *m = model;
    const cogvideox_block *w = weights;
    const nn_heads heads = cogvideox_heads(m, in, text_tokens(g, m, in[COG_X]));
    return nn_self_attention(g, h, &w->attn, &heads, NULL);
}

static void block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                  vt_tensor **out)
{
    out[0] = cogvideox_run(g, model, weights, in, attention);
}

/* The head projects all tokens, since a process may share only a text's, and puts the video's
 * patches together to latents. */
vt_tensor *cogvideox_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    const cogvideox *m = model;
    const cogvideox_weights *w = &m->w;
    float eps = (float)m->c.eps;
    int64_t text = text_tokens(g, m, s[COG_X]);
    vt_tensor *x = s[COG_X], *e[2];
    x = vt_layer_norm(g, x, w->final.w, w->final.b, eps);
    vt_chunk(g, nn_modulation(g, s[COG_TIME], &w->mod_out, 2), 1, 2, e);
    x = vt_layer_norm_modulate(g, x, w->out.w, w->out.b, e[0], e[1], eps);
    x = vt_all_tokens(g, vt_linear(g, x, &w->proj_out));
    x = vt_slice(g, x, 1, text, text + m->video);
    return vt_unpatchify(g, x, in->x->dim + 1, m->patch[0], m->patch[1], m->patch[2], VT_C_FIRST);
}

const vtrain_family vtrain_cogvideox = {
    .class_name = "CogVideoXTransformer3DModel",
    .text_args = { "encoder_hidden_states" }, .layout = VTRAIN_FRAMES_FIRST,
    .size = sizeof(cogvideox), .weights = offsetof(cogvideox, w), .table = model_table,
    .read = cogvideox_read, .fit = cogvideox_fit, .prepare = cogvideox_prepare,
    .embed = cogvideox_embed,
    .blocks = { { "transformer_blocks.%d.", block_table, sizeof(cogvideox_block), COG_IN, 1, block,
                  NULL, NULL } },
    .head = cogvideox_head,
    .scale = { [VC_ROLE_IMAGE] = VTRAIN_SCALE_INVERT, [VC_ROLE_VIDEO] = VTRAIN_SCALE_FACTOR,
               [VC_ROLE_MASK] = VTRAIN_SCALE_FACTOR, [VC_ROLE_CONTROL] = VTRAIN_SCALE_FACTOR },
    .objective = VTRAIN_V, .density = VTRAIN_UNIFORM,
    .flow_shift = 1, .logit_mean = 0, .logit_std = 1,
    .posterior_mean = false, .image_dropout = 0.05, .bf16 = true,
    .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 6, .batch = 1, .steps = 1000,
    .lora_targets = "to_q,to_k,to_v,to_out.0",
};
