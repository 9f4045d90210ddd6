/* zimage.c - Z-Image (Z-Image Team 2025): a refiner of the prompt, a refiner of the picture, then
 * blocks of one sequence, picture before prompt. Semantics and names are those of diffusers'
 * ZImageTransformer2DModel, of Z-Image and Z-Image-Turbo. Latents: one picture [B,C,1,h,w].
 *
 * Picture and prompt are filled up to multiples of 32 tokens with learned tokens, to which all
 * others attend; the places of a batch behind a shorter prompt's own multiple are masked. The
 * positions of the picture begin behind those of its prompt. The model reads the share of the
 * picture, 1 - s, as the time, and predicts the picture minus the noise. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/nn/embeddings.h"
#include "common/nn/positions.h"
#include "common/nn/sandwich.h"
#include "formats/json/config.h"
#include "train/models/dit.h"

#define HEAD_EPS 1e-5f                        /* of the norms of queries and keys */
#define LAST_EPS 1e-6f

enum { SIDE = 2, PATCH = SIDE * SIDE, TIME = 256, TIME_HIDDEN = 1024, MOST_TIME = 256,
       MULTIPLE = 32, AXES = 3, MAX_WIDTH = 16384 };

/* Indices into the sizes of the weight tables. */
enum { D = -1, TOKEN = -2, TEXT = -3, HEAD = -4, HIDDEN = -5, E_WIDTH = -6, FOUR_D = -7, ONE = -8 };

typedef struct model_weights {
    vt_lin patch, text, time1, time2, mod_out, proj_out;
    vt_tensor *text_norm;                     /* [TEXT] */
    vt_tensor *picture_pad, *text_pad;        /* [1,D] */
} model_weights;

#define LIN(type, field, name, out, in) \
    { name, VT_W_LINEAR, offsetof(type, field), { out, in }, VT_INIT_XAVIER }
#define NORM(type, field, name, n) { name, VT_W_TENSOR, offsetof(type, field), { n }, VT_INIT_ONE }
#define PAD(field, name) \
    { name, VT_W_TENSOR, offsetof(model_weights, field), { ONE, D }, VT_INIT_ZERO }

static const vt_weight model_table[] = {
    LIN(model_weights, patch, "all_x_embedder.2-1", D, TOKEN),
    LIN(model_weights, proj_out, "all_final_layer.2-1.linear", TOKEN, D),
    LIN(model_weights, mod_out, "all_final_layer.2-1.adaLN_modulation.1", D, E_WIDTH),
    LIN(model_weights, time1, "t_embedder.mlp.0", TIME_HIDDEN, TIME),
    LIN(model_weights, time2, "t_embedder.mlp.2", E_WIDTH, TIME_HIDDEN),
    NORM(model_weights, text_norm, "cap_embedder.0.weight", TEXT),
    LIN(model_weights, text, "cap_embedder.1", D, TEXT),
    PAD(picture_pad, "x_pad_token"),
    PAD(text_pad, "cap_pad_token"),
    { 0 }
};

static const vt_weight text_table[] = { NN_SANDWICH_ROWS(D, HEAD, HIDDEN), { 0 } };
static const vt_weight block_table[] = {
    NN_SANDWICH_ROWS(D, HEAD, HIDDEN), NN_SANDWICH_MOD("adaLN_modulation.0", FOUR_D, E_WIDTH), { 0 }
};

typedef struct zimage {
    vtrain_dit dit;
    int64_t width, heads, layers, refiners, channels, text, axis[AXES], most[AXES], patch[1],
            frames[1];
    double eps, theta, time_scale;
    int axes, lengths, patches, all_frames;
    int64_t picture;                          /* the picture's tokens in the step in progress,
                                               * without those that fill up */
    model_weights w;
} zimage;

/* vtrain_in.made: cosines and sines of the prompt's rotations, of the picture's and of both
 * together; the numbers of keys of the prompt and of both; zeros behind the picture's patches and
 * behind the prompt's states; 1 for tokens that are the picture's own or the prompt's, and 0 for
 * those that fill up, and the opposites; the number that the time is subtracted from. */
enum { TEXT_COS, TEXT_SIN, PICTURE_COS, PICTURE_SIN, COS, SIN, TEXT_KEYS, KEYS, PICTURE_REST,
       TEXT_REST, PICTURE_OWN, PICTURE_FILL, TEXT_OWN, TEXT_FILL, BEGIN, N_MADE };
/* The inputs of a block: the tokens that it changes, which are the prompt's, then the picture's,
 * then both; the tokens that wait; the embedding of the time; the first of made. */
enum { X, OTHER, E, MADE, N_IN = MADE + KEYS + 1 };

/* ---- config.json ---- */

static const vf_config_row config_rows[] = {
    VF_INT(zimage, width, "dim", 3840, 8, MAX_WIDTH),
    VF_INT(zimage, heads, "n_heads", 30, 1, 256),
    VF_INT(zimage, layers, "n_layers", 30, 1, 256),
    VF_INT(zimage, refiners, "n_refiner_layers", 2, 1, 64),
    VF_INT(zimage, channels, "in_channels", 16, 1, 1024),
    VF_INT(zimage, text, "cap_feat_dim", 2560, 8, 65536),
    VF_NUM(zimage, eps, "norm_eps", 1e-5, VF_ABOVE_0, 1),
    VF_NUM(zimage, theta, "rope_theta", 256, 1, 1e9),
    VF_NUM(zimage, time_scale, "t_scale", 1000, VF_ABOVE_0, 1e6),
    VF_INTS(zimage, axis, axes, "axes_dims", AXES, 2, 256),
    VF_INTS(zimage, most, lengths, "axes_lens", AXES, 1, 1 << 20),
    VF_INTS(zimage, patch, patches, "all_patch_size", 1, SIDE, SIDE),
    VF_INTS(zimage, frames, all_frames, "all_f_patch_size", 1, 1, 1),
    { 0 }
};

/* Checks the rules between fields. */
static int check_config(const zimage *m, vc_err *err)
{
    const int64_t head = m->width / m->heads;
    if (m->width % m->heads || head % 8 || m->text % 8)
        return vc_fail(err, VC_EFORMAT, "dim: %lld must be n_heads: %lld times a multiple of 8, "
                       "and cap_feat_dim: %lld a multiple of 8", (long long)m->width,
                       (long long)m->heads, (long long)m->text);
    if (m->axis[0] + m->axis[1] + m->axis[2] == head &&
        !((m->axis[0] | m->axis[1] | m->axis[2]) & 1))
        return 0;
    return vc_fail(err, VC_EFORMAT, "axes_dims: %lld, %lld, %lld must be even, and their sum equal "
                   "to dim / n_heads, which is %lld", (long long)m->axis[0],
                   (long long)m->axis[1], (long long)m->axis[2], (long long)head);
}

static int zimage_read(void *model, const cJSON *config, vc_err *err)
{
    zimage *m = model;
    memcpy(m->axis, (int64_t[]){ 32, 48, 48 }, sizeof m->axis);
    memcpy(m->most, (int64_t[]){ 1024, 512, 512 }, sizeof m->most);
    int rc = vf_config_read(m, config_rows, config, err);
    if (!rc)
        rc = check_config(m, err);
    if (rc)
        return rc;
    const int64_t d = m->width;
    const int64_t sizes[VTRAIN_SIZES] = {
        [-D] = d, [-TOKEN] = PATCH * m->channels, [-TEXT] = m->text, [-HEAD] = d / m->heads,
        [-HIDDEN] = (int64_t)((double)d / 3 * 8), [-E_WIDTH] = d < MOST_TIME ? d : MOST_TIME,
        [-FOUR_D] = 4 * d, [-ONE] = 1,
    };
    memcpy(m->dit.sizes, sizes, sizeof sizes);
    memcpy(m->dit.layers, (int64_t[]){ m->refiners, m->refiners, m->layers },
           sizeof m->dit.layers);
    return 0;
}

static void zimage_fit(const void *model, vtrain_fit *fit)
{
    const zimage *m = model;
    *fit = (vtrain_fit){ .channels = (int)m->channels, .n_texts = 1, .text_width = { m->text },
                         .mult = { 1, SIDE, SIDE }, .blocks = (int)(2 * m->refiners + m->layers),
                         .heads = m->heads };
}

/* ---- prepare ---- */

static int64_t filled(int64_t n) { return (n + MULTIPLE - 1) / MULTIPLE * MULTIPLE; }

/* The numbers of tokens of a batch: of the picture and of its prompts, with those that fill up. */
typedef struct counts {
    int64_t batch, rows, columns, picture, text;
} counts;

/* Checks that the model has positions for the batch. */
static bool check_positions(vt_ctx *g, const zimage *m, const counts *n)
{
    const int64_t need[AXES] = { n->text + 2, n->rows, n->columns };
    static const char *const remedy[AXES] = { "cut prompts by vprep's --tokenizer_max_length",
                                              "give smaller pictures", "give smaller pictures" };
    for (int i = 0; i < AXES; i++)
        if (need[i] > m->most[i]) {
            vt_fail(g, VC_EMISMATCH, "prompts of %lld tokens and pictures of %lld x %lld tokens: "
                    "axes_lens of the model's config.json has %lld, %lld, %lld positions: %s",
                    (long long)n->text, (long long)n->rows, (long long)n->columns,
                    (long long)m->most[0], (long long)m->most[1], (long long)m->most[2],
                    remedy[i]);
            return false;
        }
    return true;
}

/* Writes the positions of a sample's tokens, [n][AXES]. Those that fill the picture up stand at
 * zeros, and those that fill the prompt up at the next places of its line. */
static void place(int32_t *picture, int32_t *text, const counts *n, int64_t own_text)
{
    memset(picture, 0, (size_t)(n->picture * AXES) * sizeof *picture);
    memset(text, 0, (size_t)(n->text * AXES) * sizeof *text);
    for (int64_t i = 0; i < n->rows * n->columns; i++) {
        picture[AXES * i] = (int32_t)(filled(own_text) + 1);
        picture[AXES * i + 1] = (int32_t)(i / n->columns);
        picture[AXES * i + 2] = (int32_t)(i % n->columns);
    }
    for (int64_t i = 0; i < n->text; i++)
        text[AXES * i] = (int32_t)(i + 1);
}

/* Makes the rotations of all samples: of prompts, of pictures and of both. */
static void make_rope(vt_ctx *g, const zimage *m, const counts *n, const int32_t *length,
                      vt_tensor **made)
{
    const int64_t all = n->picture + n->text, tokens[3] = { n->text, n->picture, all };
    const int64_t pairs[AXES] = { m->axis[0] / 2, m->axis[1] / 2, m->axis[2] / 2 };
    int32_t *at = malloc((size_t)(2 * n->batch * all * AXES) * sizeof *at);
    if (!at) {
        vt_fail(g, VC_ENOMEM, "positions: out of memory");
        return;
    }
    int32_t *part[3] = { at, at + n->batch * n->text * AXES, at + n->batch * all * AXES };
    for (int64_t b = 0; b < n->batch; b++) {
        int32_t *text = part[0] + b * n->text * AXES, *both = part[2] + b * all * AXES;
        int32_t *picture = part[1] + b * n->picture * AXES;
        place(picture, text, n, length[b]);
        memcpy(both, picture, (size_t)(n->picture * AXES) * sizeof *at);
        memcpy(both + n->picture * AXES, text, (size_t)(n->text * AXES) * sizeof *at);
    }
    for (int i = 0; i < 3; i++)
        nn_rope_at(g, part[i], n->batch * tokens[i], AXES, pairs, m->theta,
                   made + TEXT_COS + 2 * i);
    free(at);
}

/* Ones for a sample's first own[b] of n tokens and zeros for the others, [B,n,1], and the
 * opposites. */
static void make_own(vt_ctx *g, int64_t batch, int64_t n, const int64_t *own, vt_tensor **made)
{
    float *host = malloc((size_t)(batch * n) * sizeof *host);
    for (int k = 0; host && k < 2; k++) {
        for (int64_t i = 0; i < batch * n; i++)
            host[i] = (i % n < own[i / n]) != k;
        made[k] = vt_from_host(g, VC_F32, 3, (int64_t[]){ batch, n, 1 }, host, VC_F32);
    }
    if (!host)
        vt_fail(g, VC_ENOMEM, "out of memory for a batch");
    free(host);
}

/* Zeros [B,n,width]; NULL: n is 0. */
static vt_tensor *zeros(vt_ctx *g, int64_t batch, int64_t n, int64_t width)
{
    const int64_t dim[3] = { batch, n, width };
    float *host = n ? calloc((size_t)(batch * n * width), sizeof *host) : NULL;
    if (n && !host)
        vt_fail(g, VC_ENOMEM, "out of memory for a batch");
    vt_tensor *x = host ? vt_from_host(g, VC_F32, 3, dim, host, VC_F32) : NULL;
    free(host);
    return x;
}

/* Makes the numbers of keys of the prompts and of whole sequences. NULL: all places are keys. */
static void make_keys(vt_ctx *g, const counts *n, const int32_t *length, vt_tensor **made)
{
    int32_t keys[2][VTRAIN_ROWS];
    bool all = true;
    for (int64_t b = 0; b < n->batch; b++) {
        keys[0][b] = (int32_t)filled(length[b]);
        keys[1][b] = (int32_t)n->picture + keys[0][b];
        all = all && keys[0][b] == n->text;
    }
    for (int i = 0; i < 2 && !all; i++)
        made[TEXT_KEYS + i] = vt_from_host(g, VC_I32, 1, &n->batch, keys[i], VC_I32);
}

static void make_fillers(vt_ctx *g, const zimage *m, const counts *n, const vtrain_cond *text,
                         vt_tensor **made)
{
    int64_t own[VTRAIN_ROWS];
    const float begin = VTRAIN_TIMES;
    for (int64_t b = 0; b < n->batch; b++)
        own[b] = text->length[b];
    make_own(g, n->batch, n->text, own, made + TEXT_OWN);
    if (m->picture < n->picture)
        make_own(g, 1, n->picture, &m->picture, made + PICTURE_OWN);
    made[PICTURE_REST] = zeros(g, n->batch, n->picture - m->picture, PATCH * m->channels);
    made[TEXT_REST] = zeros(g, n->batch, n->text - text->embeds->dim[1], m->text);
    made[BEGIN] = vt_from_host(g, VC_F32, 1, (int64_t[]){ 1 }, &begin, VC_F32);
}

static void zimage_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    zimage *m = model;
    const vtrain_cond *text = &in->text[0];
    if (vt_failed(g) || !in->x || !text->embeds)
        return;
    const int64_t *dim = in->x->dim;
    if (dim[2] != 1) {
        vt_fail(g, VC_EMISMATCH, "latents of %lld frames: Z-Image makes pictures, which have one",
                (long long)dim[2]);
        return;
    }
    counts n = { .batch = dim[0], .rows = dim[3] / SIDE, .columns = dim[4] / SIDE };
    m->picture = n.rows * n.columns;
    n.picture = filled(m->picture);
    n.text = filled(text->embeds->dim[1]);
    if (!check_positions(g, m, &n))
        return;
    vtrain_note_mask(g, in, "cap_feats_mask", text);
    make_rope(g, m, &n, text->length, in->made);
    make_keys(g, &n, text->length, in->made);
    make_fillers(g, m, &n, text, in->made);
}

/* ---- forward ---- */

/* x [B,N,D] with the learned token in the places where own [B,N,1] is 0 and fill is 1. */
static vt_tensor *fill_up(vt_ctx *g, vt_tensor *x, vt_tensor *own, vt_tensor *fill, vt_tensor *pad)
{
    x = vt_mul(g, x, own);
    return vt_add(g, x, vt_mul(g, vt_add(g, vt_scale(g, x, 0), pad), fill));
}

/* Joins the rows of two tensors, the second of which may be NULL. */
static vt_tensor *behind(vt_ctx *g, vt_tensor *x, vt_tensor *rest)
{
    return rest ? vt_concat(g, 1, 2, (vt_tensor *[]){ x, rest }) : x;
}

static void zimage_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const zimage *m = model;
    const model_weights *w = &m->w;
    vt_tensor *const *made = in->made;

    vt_tensor *text = behind(g, in->text[0].embeds, made[TEXT_REST]);
    text = vt_rms_norm(g, vt_cast(g, text, vt_compute(g)), w->text_norm, (float)m->eps);
    s[X] = fill_up(g, vt_linear(g, text, &w->text), made[TEXT_OWN], made[TEXT_FILL], w->text_pad);

    vt_tensor *x = vt_patchify(g, in->x, 1, SIDE, SIDE, VT_C_LAST);
    s[OTHER] = vt_linear(g, vt_cast(g, behind(g, x, made[PICTURE_REST]), vt_compute(g)),
                         &w->patch);
    if (made[PICTURE_OWN])
        s[OTHER] = fill_up(g, s[OTHER], made[PICTURE_OWN], made[PICTURE_FILL], w->picture_pad);

    vt_tensor *t = vt_add(g, vt_scale(g, in->t, -1), made[BEGIN]);
    t = vt_scale(g, t, (float)(m->time_scale / VTRAIN_TIMES));
    s[E] = nn_embed_number(g, t, &w->time1, &w->time2, VC_F32);
    memcpy(s + MADE, made, (N_IN - MADE) * sizeof *made);
}

/* Runs a block of tokens that have the rotations from made[rotations] on. */
static vt_tensor *block(vt_ctx *g, const zimage *m, const nn_sandwich *w, vt_tensor *const *in,
                        int rotations, vt_tensor *keys)
{
    vt_tensor *const *made = in + MADE;
    const nn_heads heads = { m->heads, HEAD_EPS, made[rotations], made[rotations + 1], 0 };
    return nn_sandwich_block(g, in[X], w, in[E], nn_self_attention, &heads, keys, (float)m->eps);
}

static void text_block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                       vt_tensor **out)
{
    out[X] = block(g, model, weights, in, TEXT_COS, in[MADE + TEXT_KEYS]);
}

static void picture_block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                          vt_tensor **out)
{
    out[X] = block(g, model, weights, in, PICTURE_COS, NULL);
}

static void joined_block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                         vt_tensor **out)
{
    out[X] = block(g, model, weights, in, COS, in[MADE + KEYS]);
}

/* The prompt is refined: the picture takes its place. */
static void swap_streams(vt_ctx *g, const void *model, vt_tensor *s[VT_BLOCK_IO])
{
    vt_tensor *text = s[X];
    (void)g;
    (void)model;
    s[X] = s[OTHER];
    s[OTHER] = text;
}

/* Joins picture and prompt to one sequence, picture first. */
static void join_streams(vt_ctx *g, const void *model, vt_tensor *s[VT_BLOCK_IO])
{
    (void)model;
    s[X] = vt_concat(g, 1, 2, (vt_tensor *[]){ s[X], s[OTHER] });
    s[OTHER] = NULL;
}

/* The prediction is noise minus picture, the opposite of the model's result. */
static vt_tensor *zimage_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    const zimage *m = model;
    vt_tensor *x = vtrain_noisy_begin(g, s[X], m->picture);
    x = nn_sandwich_head(g, x, vt_silu(g, s[E]), &m->w.mod_out, &m->w.proj_out, LAST_EPS);
    x = vt_scale(g, vtrain_noisy_end(g, x, m->picture), -1);
    return vt_unpatchify(g, x, in->x->dim + 1, 1, SIDE, SIDE, VT_C_LAST);
}

/* The first authors' names of modules, which ComfyUI has too: queries, keys and values are one
 * matrix. Files with these names are read. All trainers write diffusers' names, and all programs
 * read them, so that none are written with others. */
#define LIST(list) \
    { list ".#.attention.qkv", \
      .ours = { list ".#.attention.to_q", list ".#.attention.to_k", list ".#.attention.to_v" } }, \
    { list ".#.attention.out", .ours = { list ".#.attention.to_out.0" } }

static const vtrain_rename first_names[] = {
    LIST("layers"), LIST("noise_refiner"), LIST("context_refiner"),
    { "x_embedder", .ours = { "all_x_embedder.2-1" } },
    { "final_layer.linear", .ours = { "all_final_layer.2-1.linear" } },
    { "final_layer.adaLN_modulation.1", .ours = { "all_final_layer.2-1.adaLN_modulation.1" } },
    { 0 }
};

const vtrain_family vtrain_zimage = {
    .class_name = "ZImageTransformer2DModel",
    .peer_names = first_names, .kohya = &vtrain_kohya_plain,
    .text_args = { "cap_feats" }, .layout = VTRAIN_CHANNELS_FIRST, .time = VTRAIN_TIME_CLEAN,
    .size = sizeof(zimage), .weights = offsetof(zimage, w), .table = model_table,
    .read = zimage_read, .fit = zimage_fit, .prepare = zimage_prepare, .embed = zimage_embed,
    .head = zimage_head, .whole_kinds = 2,
    .blocks = { { "context_refiner.%d.", text_table, sizeof(nn_sandwich), N_IN, 1, text_block,
                  NULL, NULL },
                { "noise_refiner.%d.", block_table, sizeof(nn_sandwich), N_IN, 1, picture_block,
                  swap_streams, NULL },
                { "layers.%d.", block_table, sizeof(nn_sandwich), N_IN, 1, joined_block,
                  join_streams, NULL } },
    .objective = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
    .flow_shift = 3, .logit_mean = 0, .logit_std = 1,
    .posterior_mean = false, .bf16 = true, .guidance_added = true,
    .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 5, .inference_steps = 50,
    .batch = 1, .steps = 1000,
    .lora_targets = "to_q,to_k,to_v,to_out.0",
};
