/* CogVideoX (Yang et al. 2024): text and video tokens in one sequence of an MM-DiT, each kind with
 * shifts, scales and gates of its own ("expert adaptive layer norm") and all other weights shared.
 * Semantics and names as diffusers' CogVideoXTransformer3DModel, in all its variants:
 *
 *     2B           sinusoids of frame, column and row added to the patches
 *     5B           rotations of queries and keys in proportion to the grid of sample_height, _width
 *     5B I2V       both rotations and a stored table of positions; image latents beside the noisy
 *     1.5          patches of two frames, rotations by plain indices; I2V with an `ofs` embedding
 *     Fun InP      any of them, with a mask and the masked video beside the noisy latents
 *
 * Token order: text, then video. Latents are [B,C,f,h,w] here, frames before channels only in
 * traces. */
#include "train/models/cogvideox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/models/dit.h"
#include "train/models/positions.h"

#define QK_EPS 1e-6f
#define THETA 10000.0
#define OFS 2.0f                              /* the value that 1.5 I2V was trained with */

enum { MLP = 4 };

/* indices into sizes of the weight tables */
enum { D = -1, TIME = -2, TEXT = -3, HEAD = -4, HIDDEN = -5, SIX_D = -6, TWO_D = -7, IN = -8,
       PATCH = -9, TOKEN_IN = -10, TOKEN_OUT = -11, OFS_D = -12, TABLE = -13, N_SIZES = 14 };

typedef struct block_weights {
    vt_lin mod1, mod2;                        /* [6D,TIME]: shift, scale, gate of the video, then of
                                               * the text */
    vt_tensor *norm1_w, *norm1_b, *norm2_w, *norm2_b;
    vt_lin q, k, v, out, up, down;
    vt_tensor *norm_q_w, *norm_q_b, *norm_k_w, *norm_k_b;    /* [HEAD] */
} block_weights;

typedef struct model_weights {
    vt_lin patch;                             /* w [D,IN,PATCH,PATCH] without patch_size_t */
    vt_tensor *table;                         /* [1,TABLE,D], text rows first; NULL: none */
    vt_lin text, time1, time2, ofs1, ofs2, mod_out, proj_out;
    vt_tensor *final_w, *final_b, *out_w, *out_b;
} model_weights;

#define COUNT(a) (sizeof (a) / sizeof *(a))
#define LIN(type, field, name, out, in) \
    { name, VT_W_LINEAR, offsetof(type, field), { out, in }, VT_INIT_XAVIER }
#define VEC(type, field, name, size) \
    { name, VT_W_TENSOR, offsetof(type, field), { size }, VT_INIT_ONE }

static const vt_weight table_table[] = {
    { "patch_embed.pos_embedding", VT_W_BUFFER, offsetof(model_weights, table), { 1, TABLE, D },
      VT_INIT_ZERO },
    { 0 }
};
static const vt_weight conv_table[] = {
    { "patch_embed.proj", VT_W_CONV, offsetof(model_weights, patch), { D, IN, PATCH, PATCH },
      VT_INIT_XAVIER },
    { 0 }
};
static const vt_weight conv_bias_table[] = {
    VEC(model_weights, patch.b, "patch_embed.proj.bias", D),
    { 0 }
};
static const vt_weight linear_table[] = {
    LIN(model_weights, patch, "patch_embed.proj", D, TOKEN_IN),
    { 0 }
};
static const vt_weight ofs_table[] = {
    LIN(model_weights, ofs1, "ofs_embedding.linear_1", OFS_D, OFS_D),
    LIN(model_weights, ofs2, "ofs_embedding.linear_2", OFS_D, OFS_D),
    { 0 }
};
static const vt_weight model_table[] = {
    LIN(model_weights, text, "patch_embed.text_proj", D, TEXT),
    LIN(model_weights, time1, "time_embedding.linear_1", TIME, D),
    LIN(model_weights, time2, "time_embedding.linear_2", TIME, TIME),
    VEC(model_weights, final_w, "norm_final.weight", D),
    VEC(model_weights, final_b, "norm_final.bias", D),
    LIN(model_weights, mod_out, "norm_out.linear", TWO_D, TIME),
    VEC(model_weights, out_w, "norm_out.norm.weight", D),
    VEC(model_weights, out_b, "norm_out.norm.bias", D),
    LIN(model_weights, proj_out, "proj_out", TOKEN_OUT, D),
    { 0 }
};
static const vt_weight block_table[] = {      /* below "transformer_blocks.%d." */
    LIN(block_weights, mod1, "norm1.linear", SIX_D, TIME),
    VEC(block_weights, norm1_w, "norm1.norm.weight", D),
    VEC(block_weights, norm1_b, "norm1.norm.bias", D),
    VEC(block_weights, norm_q_w, "attn1.norm_q.weight", HEAD),
    VEC(block_weights, norm_q_b, "attn1.norm_q.bias", HEAD),
    VEC(block_weights, norm_k_w, "attn1.norm_k.weight", HEAD),
    VEC(block_weights, norm_k_b, "attn1.norm_k.bias", HEAD),
    LIN(block_weights, q, "attn1.to_q", D, D),
    LIN(block_weights, k, "attn1.to_k", D, D),
    LIN(block_weights, v, "attn1.to_v", D, D),
    LIN(block_weights, out, "attn1.to_out.0", D, D),
    LIN(block_weights, mod2, "norm2.linear", SIX_D, TIME),
    VEC(block_weights, norm2_w, "norm2.norm.weight", D),
    VEC(block_weights, norm2_b, "norm2.norm.bias", D),
    LIN(block_weights, up, "ff.net.0.proj", HIDDEN, D),
    LIN(block_weights, down, "ff.net.2", D, HIDDEN),
    { 0 }
};

typedef struct cogvideox {
    cogvideox_config c;
    model_weights w;
    block_weights *block;                     /* [layers] */
    struct block_arg *arg;                    /* [layers] */
    float *host;                              /* positions on their way to the device */
    int64_t room;                             /* of host, in floats */
    int64_t video;                            /* video tokens of the step in progress */
} cogvideox;

/* vtrain_in.made: cos and sin of the rotations; sinusoids by frame, column and row; OFS. NULL where
 * the model has none. */
enum { TURN, SINCOS = 2, OFS_AT = 5 };

typedef struct block_arg {
    const cogvideox *m;
    const block_weights *w;
} block_arg;

/* ---- weights ---- */

static void cogvideox_close(void *model)
{
    cogvideox *m = model;
    if (!m) return;
    free(m->block);
    free(m->arg);
    free(m->host);
    free(m);
}

/* Rows of the stored table: the text's and those of sample_frames, _height and _width. */
static int64_t table_rows(const cogvideox_config *c)
{
    int64_t frames = (c->frames - 1) / c->compression + 1;
    return c->max_text + frames * (c->rows / c->patch) * (c->columns / c->patch);
}

static int64_t width(const cogvideox *m)
{
    return m->c.heads * m->c.head;
}

/* Latent frames of a token. */
static int frames_of_patch(const cogvideox *m)
{
    return m->c.patch_t ? (int)m->c.patch_t : 1;
}

static int bind(cogvideox *m, vt_params *p, const vt_source *src, vc_err *err)
{
    const cogvideox_config *c = &m->c;
    int64_t d = width(m), volume = c->patch * c->patch * frames_of_patch(m);
    const int64_t sizes[N_SIZES] = {
        [-D] = d, [-TIME] = c->time, [-TEXT] = c->text, [-HEAD] = c->head, [-HIDDEN] = MLP * d,
        [-SIX_D] = 6 * d, [-TWO_D] = 2 * d, [-IN] = c->in_channels, [-PATCH] = c->patch,
        [-TOKEN_IN] = c->in_channels * volume, [-TOKEN_OUT] = c->out_channels * volume,
        [-OFS_D] = c->ofs, [-TABLE] = table_rows(c),
    };
    const struct { const vt_weight *table; bool there; } parts[] = {
        { table_table, c->learned }, { conv_table, !c->patch_t },
        { conv_bias_table, !c->patch_t && c->patch_bias }, { linear_table, c->patch_t != 0 },
        { model_table, true }, { ofs_table, c->ofs != 0 },
    };
    int rc = 0;
    for (size_t i = 0; !rc && i < COUNT(parts); i++)
        if (parts[i].there)
            rc = vt_params_bind(p, parts[i].table, "", 0, &m->w, sizes, src, err);
    for (int i = 0; !rc && i < c->layers; i++) {
        m->arg[i] = (block_arg){ m, &m->block[i] };
        rc = vt_params_bind(p, block_table, "transformer_blocks.%d.", i, &m->block[i], sizes, src,
                            err);
    }
    return rc;
}

static int cogvideox_open(void **model, const cJSON *config, vt_params *p, const vt_source *src,
                          vc_err *err)
{
    *model = NULL;
    cogvideox *m = calloc(1, sizeof *m);
    if (!m) return vc_fail(err, VC_ENOMEM, "out of memory");
    int rc = vc_context(err, cogvideox_config_read(&m->c, config, err), "config.json");
    if (!rc) {
        m->block = calloc((size_t)m->c.layers, sizeof *m->block);
        m->arg = calloc((size_t)m->c.layers, sizeof *m->arg);
        if (!m->block || !m->arg) rc = vc_fail(err, VC_ENOMEM, "out of memory");
    }
    if (!rc) rc = bind(m, p, src, err);
    if (rc) {
        cogvideox_close(m);
        return rc;
    }
    *model = m;
    return 0;
}

static unsigned roles_of(const cogvideox *m)
{
    int64_t extra = m->c.in_channels - m->c.out_channels;
    if (extra == 0) return 0;
    return extra == m->c.out_channels ? 1u << VTRAIN_ROLE_IMAGE
                                      : 1u << VTRAIN_ROLE_VIDEO | 1u << VTRAIN_ROLE_MASK;
}

static void cogvideox_fit(const void *model, vtrain_fit *fit)
{
    const cogvideox *m = model;
    *fit = (vtrain_fit){ .channels = (int)m->c.out_channels,
                         .n_texts = 1, .text_width = { m->c.text },
                         .mult = { frames_of_patch(m), (int)m->c.patch, (int)m->c.patch },
                         .pad_front = m->c.patch_t > 1, .roles = roles_of(m),
                         .blocks = (int)m->c.layers };
}

/* ---- what a forward may be given ---- */

static bool check_latents(vt_ctx *g, const cogvideox *m, const vt_tensor *x)
{
    long long f = x->dim[2], h = x->dim[3], w = x->dim[4], p = m->c.patch;
    if (x->dim[1] != m->c.out_channels)
        return vt_fail(g, VC_EMISMATCH, "latents of %lld channels, the transformer takes %lld",
                       (long long)x->dim[1], (long long)m->c.out_channels);
    if (f % frames_of_patch(m) || h % p || w % p)
        return vt_fail(g, VC_EMISMATCH, "latents %lldx%lldx%lld: frames must be a multiple of %d "
                       "(patch_size_t), rows and columns of %lld (patch_size)", f, h, w,
                       frames_of_patch(m), p);
    if (m->c.learned && (h != m->c.rows || w != m->c.columns))
        return vt_fail(g, VC_EMISMATCH, "latents %lldx%lldx%lld: this model's table of positions "
                       "is for %lld rows and %lld columns only (sample_height, sample_width)",
                       f, h, w, (long long)m->c.rows, (long long)m->c.columns);
    if (m->c.patch_t && (h / p > m->c.rows / p || w / p > m->c.columns / p))
        return vt_fail(g, VC_EMISMATCH, "latents %lldx%lldx%lld: positions end at %lld rows and "
                       "%lld columns; use smaller clips or raise sample_height and sample_width in "
                       "config.json", f, h, w, (long long)m->c.rows, (long long)m->c.columns);
    return true;
}

/* Text rows are all attended to, padding included: each prompt must have all of its own. */
static bool check_text(vt_ctx *g, const cogvideox *m, const vtrain_cond *text)
{
    if (!text->embeds) return false;
    int64_t n = text->embeds->dim[1];
    if ((!m->c.rotary || m->c.learned) && n != m->c.max_text)
        vt_fail(g, VC_EMISMATCH, "prompts of %lld tokens: positions are for exactly %lld "
                "(max_text_seq_length)", (long long)n, (long long)m->c.max_text);
    for (int64_t b = 0; b < text->embeds->dim[0]; b++)
        if (text->length[b] != n)
            vt_fail(g, VC_EMISMATCH, "prompt of %d tokens among prompts of %lld: CogVideoX masks "
                    "nothing, so all of them, padding included, must be in the dataset",
                    (int)text->length[b], (long long)n);
    return !vt_failed(g);
}

static void note(const vtrain_in *in, const char *name, const vt_tensor *x)
{
    if (in->note && x) in->note(in->note_arg, name, x);
}

/* ---- positions ---- */

/* n floats of host memory */
static float *host_room(vt_ctx *g, cogvideox *m, int64_t n)
{
    if (n > m->room) {
        free(m->host);
        m->host = malloc((size_t)n * sizeof *m->host);
        m->room = m->host ? n : 0;
    }
    if (!m->host) vt_fail(g, VC_ENOMEM, "positions: out of memory");
    return m->host;
}

/* Sinusoids of each token: of its frame in the first quarter, of its column in the next three
 * eighths, of its row in the rest. The tables, each [n,D] along its axis of the grid, are zero
 * outside of their columns, so that each element is rounded once, as if one table were added. */
static void make_sincos(vt_ctx *g, cogvideox *m, const int64_t grid[3], vt_tensor *table[3])
{
    int64_t d = width(m), first = 0;
    const int64_t pairs[3] = { d / 8, 3 * d / 16, 3 * d / 16 };
    const double step[2] = { 1 / m->c.temporal_scale, 1 / m->c.spatial_scale };
    static const int order[3] = { 0, 2, 1 };
    for (int k = 0; k < 3; k++) {
        int a = order[k];
        const vtrain_axis axis = { grid[a], 0, step[a > 0], pairs[a] };
        int64_t dim[4] = { 1, 1, 1, d };
        float *t = host_room(g, m, axis.n * d);
        if (!t) return;
        dim[a] = axis.n;
        memset(t, 0, (size_t)(axis.n * d) * sizeof *t);
        vtrain_sincos(t + first, d, &axis, THETA);
        first += 2 * pairs[a];
        table[k] = vt_from_host(g, vt_compute(g), 4, dim, t, VC_F32);
    }
}

/* x [B,f*h*w,D] with them added */
static vt_tensor *add_sincos(vt_ctx *g, vt_tensor *x, vt_tensor *const table[3])
{
    if (!x) return NULL;
    const int64_t flat[3] = { x->dim[0], x->dim[1], x->dim[2] };
    const int64_t video[5] = { x->dim[0], table[0]->dim[0], table[2]->dim[1], table[1]->dim[2],
                               x->dim[2] };
    x = vt_reshape(g, x, 5, video);
    for (int k = 0; k < 3; k++)
        x = vt_add(g, x, table[k]);
    return vt_reshape(g, x, 3, flat);
}

/* Where the rows and columns of a grid lie on the one the model was trained on: scaled to fit into
 * it, in its middle. The last position is end * (n - 1) / n, as diffusers computes it, which is not
 * the evenly spaced one where start is not 0. Halves round to even. */
static void place_grid(const cogvideox *m, vtrain_axis *rows, vtrain_axis *columns)
{
    double h = (double)rows->n, w = (double)columns->n;
    double base_h = (double)(m->c.rows / m->c.patch), base_w = (double)(m->c.columns / m->c.patch);
    double high = base_h, wide = base_w;
    if (h / w > base_h / base_w)
        wide = rint(base_h / h * w);
    else
        high = rint(base_w / w * h);
    const struct { vtrain_axis *axis; double n, start, size; } sides[] = {
        { rows, h, rint((base_h - high) / 2), high },
        { columns, w, rint((base_w - wide) / 2), wide },
    };
    for (int i = 0; i < 2; i++) {
        double n = sides[i].n, start = sides[i].start, end = (start + sides[i].size) * (n - 1) / n;
        sides[i].axis->start = start;
        sides[i].axis->step = n > 1 ? (end - start) / (n - 1) : 0;
    }
}

/* cos, sin [tokens, head/2]: a quarter of the pairs for frames, three eighths for rows and columns
 * each. Nothing without rotations. */
static void make_rope(vt_ctx *g, cogvideox *m, const int64_t grid[3], vt_tensor *turn[2])
{
    int64_t pairs = m->c.head / 2;
    vtrain_axis axis[3] = { { grid[0], 0, 1, pairs / 4 }, { grid[1], 0, 1, pairs / 8 * 3 },
                            { grid[2], 0, 1, pairs / 8 * 3 } };
    const int64_t dim[2] = { grid[0] * grid[1] * grid[2], pairs };
    float *host = m->c.rotary ? host_room(g, m, 2 * dim[0] * pairs) : NULL;
    if (!host) return;
    if (!m->c.patch_t) place_grid(m, &axis[1], &axis[2]);
    vtrain_rope(host, host + dim[0] * pairs, axis, THETA);
    turn[0] = vt_from_host(g, VC_F32, 2, dim, host, VC_F32);
    turn[1] = vt_from_host(g, VC_F32, 2, dim, host + dim[0] * pairs, VC_F32);
}

/* As diffusers has the tables: each angle for both of its columns. */
static void note_rope(vt_ctx *g, const vtrain_in *in, vt_tensor *const turn[2])
{
    static const char *const name[2] = { "image_rotary_emb_cos", "image_rotary_emb_sin" };
    for (int i = 0; i < 2 && in->note && turn[i]; i++) {
        const int64_t single[3] = { turn[i]->dim[0], turn[i]->dim[1], 1 };
        const int64_t wide[2] = { turn[i]->dim[0], 2 * turn[i]->dim[1] };
        vt_tensor *one = vt_reshape(g, turn[i], 3, single), *two[2] = { one, one };
        note(in, name[i], vt_reshape(g, vt_concat(g, 2, 2, two), 2, wide));
    }
}

/* ---- forward ---- */

/* The first C channels of x, all zero. */
static vt_tensor *zeros(vt_ctx *g, vt_tensor *x, int64_t channels)
{
    return vt_scale(g, vt_slice(g, x, 1, 0, channels), 0);
}

/* image [B,C,1,h,w] -> [B,C,f,h,w]: zeros after the first frame */
static vt_tensor *first_frame(vt_ctx *g, vt_tensor *image, vt_tensor *x)
{
    int64_t f = x->dim[2];
    if (f == 1) return image;
    vt_tensor *part[2] = { image, vt_slice(g, zeros(g, x, x->dim[1]), 2, 1, f) };
    return vt_concat(g, 2, 2, part);
}

/* Noisy latents and what stands beside them: [B,in_channels,f,h,w] */
static vt_tensor *join(vt_ctx *g, const cogvideox *m, const vtrain_in *in)
{
    vt_tensor *const *c = in->cond, *x = in->x, *part[3] = { x, NULL, NULL };
    unsigned roles = roles_of(m);
    int n = 1;
    if (roles & 1u << VTRAIN_ROLE_IMAGE)
        part[n++] = c[VTRAIN_ROLE_IMAGE] ? first_frame(g, c[VTRAIN_ROLE_IMAGE], x)
                                         : zeros(g, x, x->dim[1]);
    if (roles & 1u << VTRAIN_ROLE_MASK)
        part[n++] = c[VTRAIN_ROLE_MASK] ? c[VTRAIN_ROLE_MASK] : zeros(g, x, 1);
    if (roles & 1u << VTRAIN_ROLE_VIDEO)
        part[n++] = c[VTRAIN_ROLE_VIDEO] ? c[VTRAIN_ROLE_VIDEO] : zeros(g, x, x->dim[1]);
    return n == 1 ? x : vt_concat(g, 1, n, part);
}

/* x [B,in_channels,f,h,w] -> [B,f*h*w/p..,D] */
static vt_tensor *embed_patches(vt_ctx *g, cogvideox *m, vt_tensor *x)
{
    int p = (int)m->c.patch;
    vt_lin patch = m->w.patch;
    const int64_t flat[2] = { width(m), -1 };
    patch.w = vt_reshape(g, patch.w, 2, flat);     /* steps as wide as the kernel: a linear layer */
    if (patch.lora_a) {
        patch.lora_b = vt_reshape(g, patch.lora_b, 2, flat);
        patch.lora_a = vt_reshape(g, patch.lora_a, 2, (int64_t[]){ patch.lora_a->dim[0], -1 });
    }
    x = vt_cast(g, vt_patchify(g, x, frames_of_patch(m), p, p, VT_C_FIRST), vt_compute(g));
    return patch.w ? vt_linear(g, x, &patch) : NULL;
}

/* The sequence: text, then video: [B,n+N,D] */
static vt_tensor *embed(vt_ctx *g, cogvideox *m, vt_tensor *x, vt_tensor *text,
                        vt_tensor *const *made)
{
    bool sincos = made[SINCOS] != NULL;
    vt_tensor *part[2] = {
        vt_linear(g, vt_cast(g, text, vt_compute(g)), &m->w.text), embed_patches(g, m, x),
    };
    if (sincos) part[1] = add_sincos(g, part[1], made + SINCOS);
    vt_tensor *all = vt_concat(g, 1, 2, part);
    return m->c.learned && !sincos ? vt_add(g, all, m->w.table) : all;
}

/* Sinusoid of t [B], then two linears: [B,TIME] f32, as all that comes of it: in bf16 these few
 * roundings would be half of a gradient's error, since they move every token alike. */
static vt_tensor *embed_number(vt_ctx *g, vt_tensor *t, const vt_lin *l1, const vt_lin *l2)
{
    vt_tensor *h = vt_timestep(g, t, l1->w->dim[1], (float)THETA);
    return vt_linear_f32(g, vt_silu(g, vt_linear_f32(g, h, l1)), l2);
}

/* What modulates all blocks: [B,TIME] */
static vt_tensor *embed_time(vt_ctx *g, const cogvideox *m, vt_tensor *t, vt_tensor *ofs)
{
    const model_weights *w = &m->w;
    vt_tensor *e = embed_number(g, t, &w->time1, &w->time2);
    if (ofs) e = vt_add(g, e, embed_number(g, ofs, &w->ofs1, &w->ofs2));
    return vt_silu(g, e);
}

/* e [B,TIME] -> n tensors [B,1,D] f32 */
static void modulation(vt_ctx *g, const vt_lin *l, vt_tensor *e, int n, vt_tensor **out)
{
    vt_tensor *y = vt_linear_f32(g, e, l);
    const int64_t dim[3] = { y ? y->dim[0] : 0, n, y ? y->dim[1] / n : 0 };
    vt_chunk(g, vt_reshape(g, y, 3, dim), 1, n, out);
}

/* [B,N,D] -> [B,N,H,HEAD]; w NULL: only cut into heads, else normalised and turned */
static vt_tensor *heads(vt_ctx *g, const cogvideox *m, vt_tensor *x, const vt_lin *l, vt_tensor *w,
                        vt_tensor *b, vt_tensor *const turn[2])
{
    vt_tensor *y = vt_linear(g, x, l);
    if (!y) return NULL;
    const int64_t dim[4] = { y->dim[0], y->dim[1], m->c.heads, m->c.head };
    y = vt_reshape(g, y, 4, dim);
    if (w) y = vt_layer_norm(g, y, w, b, QK_EPS);
    if (!y || !w || !turn[0]) return y;
    return vt_rope(g, y, turn[0], turn[1], dim[1] - m->video);
}

static vt_tensor *attention(vt_ctx *g, const block_arg *a, vt_tensor *x, vt_tensor *const turn[2])
{
    const block_weights *w = a->w;
    vt_tensor *q = heads(g, a->m, x, &w->q, w->norm_q_w, w->norm_q_b, turn);
    vt_tensor *k = heads(g, a->m, x, &w->k, w->norm_k_w, w->norm_k_b, turn);
    vt_tensor *v = heads(g, a->m, x, &w->v, NULL, NULL, turn);
    vt_tensor *o = vt_attention(g, q, k, v, NULL);
    if (!o) return NULL;
    const int64_t dim[3] = { o->dim[0], o->dim[1], width(a->m) };
    return vt_linear(g, vt_reshape(g, o, 3, dim), &w->out);
}

static vt_tensor *mlp(vt_ctx *g, const block_weights *w, vt_tensor *x)
{
    return vt_feed_forward(g, x, &w->up, &w->down);
}

/* in: the sequence [B,n+N,D], time [B,TIME], rope's tables or NULL; out: the sequence. */
static void block(vt_ctx *g, const void *arg, vt_tensor *const *in, vt_tensor **out)
{
    const block_arg *a = arg;
    const block_weights *w = a->w;
    enum { SHIFT, SCALE, GATE, C_SHIFT, C_SCALE, C_GATE, SIX };
    vt_tensor *x = in[0], *e[SIX], *h;
    float eps = (float)a->m->c.eps;
    int64_t n = x->dim[1] - a->m->video;

    modulation(g, &w->mod1, in[1], SIX, e);
    h = vt_layer_norm_modulate_two(g, x, w->norm1_w, w->norm1_b, n,
                                   (vt_tensor *[]){ e[C_SHIFT], e[SHIFT] },
                                   (vt_tensor *[]){ e[C_SCALE], e[SCALE] }, eps);
    h = attention(g, a, h, in + 2);
    x = vt_gated_add_two(g, x, h, n, (vt_tensor *[]){ e[C_GATE], e[GATE] });

    modulation(g, &w->mod2, in[1], SIX, e);
    h = vt_layer_norm_modulate_two(g, x, w->norm2_w, w->norm2_b, n,
                                   (vt_tensor *[]){ e[C_SHIFT], e[SHIFT] },
                                   (vt_tensor *[]){ e[C_SCALE], e[SCALE] }, eps);
    out[0] = vt_gated_add_two(g, x, mlp(g, w, h), n, (vt_tensor *[]){ e[C_GATE], e[GATE] });
}

/* The video's part of the sequence as patches: [B,N,TOKEN_OUT] */
static vt_tensor *predict(vt_ctx *g, const cogvideox *m, vt_tensor *x, vt_tensor *e)
{
    const model_weights *w = &m->w;
    float eps = (float)m->c.eps;
    vt_tensor *s[2];
    if (!x) return NULL;
    x = vt_slice(g, x, 1, x->dim[1] - m->video, x->dim[1]);
    x = vt_layer_norm(g, x, w->final_w, w->final_b, eps);
    modulation(g, &w->mod_out, e, 2, s);
    x = vt_layer_norm_modulate(g, x, w->out_w, w->out_b, s[0], s[1], eps);
    return vt_linear(g, x, &w->proj_out);
}

static void cogvideox_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    static const float ofs = OFS;
    const int64_t one = 1;
    cogvideox *m = model;
    int pt = frames_of_patch(m), p = (int)m->c.patch;
    if (!in->x || !check_latents(g, m, in->x) || !check_text(g, m, &in->text[0])) return;
    const int64_t *dim = in->x->dim, grid[3] = { dim[2] / pt, dim[3] / p, dim[4] / p };
    bool stored = m->c.learned && (dim[2] - 1) * m->c.compression + 1 == m->c.frames;
    m->video = grid[0] * grid[1] * grid[2];
    make_rope(g, m, grid, in->made + TURN);
    if (!stored && (!m->c.rotary || m->c.learned)) make_sincos(g, m, grid, in->made + SINCOS);
    if (m->c.ofs) in->made[OFS_AT] = vt_from_host(g, VC_F32, 1, &one, &ofs, VC_F32);
}

static vt_tensor *cogvideox_forward(vt_ctx *g, void *model, const vtrain_in *in)
{
    cogvideox *m = model;
    int pt = frames_of_patch(m), p = (int)m->c.patch;
    if (vt_failed(g)) return NULL;

    vt_tensor *x = join(g, m, in), *s[4] = { NULL, NULL, in->made[TURN], in->made[TURN + 1] };
    if (in->note) {
        note(in, "hidden_states", vt_permute(g, x, (int[]){ 0, 2, 1, 3, 4 }));
        note_rope(g, in, s + 2);
    }
    s[1] = embed_time(g, m, in->t, in->made[OFS_AT]);
    vt_scope scope = vt_scope_begin(g);        /* of sequences only the latest is kept */
    s[0] = embed(g, m, x, in->text[0].embeds, in->made);
    vt_scope_end(g, scope, 1, s);
    for (int i = 0; i < m->c.layers && !vt_failed(g); i++) {
        const vt_block b = { block, &m->arg[i], 4, 1, i };
        vt_run_block(g, &b, i < in->recompute ? VT_RECOMPUTE : VT_KEEP, s, s);
        vt_scope_end(g, scope, 1, s);
    }
    x = predict(g, m, s[0], s[1]);
    return vt_unpatchify(g, x, in->x->dim + 1, pt, p, p, VT_C_FIRST);
}

const vtrain_family vtrain_cogvideox = {
    .class_name = "CogVideoXTransformer3DModel",
    .text_args = { "encoder_hidden_states" }, .frames_first = true,
    .open = cogvideox_open, .close = cogvideox_close, .fit = cogvideox_fit,
    .prepare = cogvideox_prepare, .forward = cogvideox_forward,
    .scale = { [VTRAIN_ROLE_IMAGE] = VTRAIN_SCALE_INVERT, [VTRAIN_ROLE_VIDEO] = VTRAIN_SCALE_FACTOR,
               [VTRAIN_ROLE_MASK] = VTRAIN_SCALE_FACTOR },
    .objective = VTRAIN_V, .density = VTRAIN_UNIFORM,
    .flow_shift = 1, .logit_mean = 0, .logit_std = 1,
    .posterior_mean = false, .bf16 = true,
    .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 6, .batch = 1, .steps = 1000,
    .lora_targets = "to_q,to_k,to_v,to_out.0",
};
