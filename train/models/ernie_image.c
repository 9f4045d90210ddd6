/* ernie_image.c - ERNIE-Image (Baidu 2026): blocks of one sequence, picture before prompt, whose
 * modulation all blocks share. Semantics and names are those of diffusers'
 * ErnieImageTransformer2DModel, of ERNIE-Image and ERNIE-Image-Turbo. Latents: one picture
 * [B,C,1,h,w], a token each.
 *
 * Element j of a head is turned with element j + HEAD/2, as in LLaMA, but by the angle j / 2 of a
 * head, and its partner by the angle (j + HEAD/2) / 2: the halves of a pair have angles of their
 * own. The picture stands at the prompt's length on the first axis. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/nn/attention.h"
#include "common/nn/embeddings.h"
#include "common/tensor/exchange.h"
#include "formats/json/config.h"
#include "train/models/dit.h"

#define MAX_PERIOD 10000.0f

enum { AXES = 3, MODS = 6, MAX_WIDTH = 16384 };

/* Indices into the sizes of the weight tables. */
enum { D = -1, IN = -2, TEXT = -3, HEAD = -4, HIDDEN = -5, SIX_D = -6, TWO_D = -7, TEXT_D = -8,
       ONE = -9 };

typedef struct block_weights {
    vt_tensor *norm[2];                       /* [D] */
    nn_attention attn;
    vt_lin gate, up, down;
} block_weights;

typedef struct model_weights {
    vt_lin patch, time1, time2, mod, mod_out, proj_out;
    vt_lin text;                              /* w NULL: the prompt's states are D wide */
} model_weights;

#define LIN(field, name, out, in) \
    { name, VT_W_LINEAR, offsetof(model_weights, field), { out, in }, VT_INIT_XAVIER }
#define BLOCK(field, name, out, in) \
    { name, VT_W_LINEAR_NO_BIAS, offsetof(block_weights, field), { out, in }, VT_INIT_XAVIER }
#define NORM(field, name, n) \
    { name, VT_W_TENSOR, offsetof(block_weights, field), { n }, VT_INIT_ONE }

static const vt_weight model_table[] = {
    { "x_embedder.proj", VT_W_CONV, offsetof(model_weights, patch), { D, IN, ONE, ONE },
      VT_INIT_XAVIER },
    { "x_embedder.proj.bias", VT_W_TENSOR, offsetof(model_weights, patch.b), { D }, VT_INIT_ZERO },
    { "text_proj", VT_W_LINEAR_NO_BIAS, offsetof(model_weights, text), { TEXT_D, TEXT },
      VT_INIT_XAVIER },
    LIN(time1, "time_embedding.linear_1", D, D),
    LIN(time2, "time_embedding.linear_2", D, D),
    LIN(mod, "adaLN_modulation.1", SIX_D, D),
    LIN(mod_out, "final_norm.linear", TWO_D, D),
    LIN(proj_out, "final_linear", IN, D),
    { 0 }
};

static const vt_weight block_table[] = {
    NORM(norm[0], "adaLN_sa_ln.weight", D),
    BLOCK(attn.q, "self_attention.to_q", D, D),
    BLOCK(attn.k, "self_attention.to_k", D, D),
    BLOCK(attn.v, "self_attention.to_v", D, D),
    NORM(attn.norm_q.w, "self_attention.norm_q.weight", HEAD),
    NORM(attn.norm_k.w, "self_attention.norm_k.weight", HEAD),
    BLOCK(attn.out, "self_attention.to_out.0", D, D),
    NORM(norm[1], "adaLN_mlp_ln.weight", D),
    BLOCK(gate, "mlp.gate_proj", HIDDEN, D),
    BLOCK(up, "mlp.up_proj", HIDDEN, D),
    BLOCK(down, "mlp.linear_fc2", D, HIDDEN),
    { 0 }
};

typedef struct ernie {
    vtrain_dit dit;
    int64_t width, heads, layers, hidden, in, text, axis[AXES];
    double theta, eps;
    int axes;
    int64_t picture;                          /* the picture's tokens in the step in progress */
    model_weights w;
} ernie;

/* vtrain_in.made: cosines and sines of the first half of a head's elements, and of the second half;
 * the number of keys. */
enum { COS, SIN, COS_2, SIN_2, KEYS, N_MADE };
/* The inputs of a block: the sequence, the modulation that all blocks share, all of made. Behind
 * them the head reads the time's embedding. */
enum { X, MOD, MADE, N_IN = MADE + N_MADE, E = N_IN };

/* ---- config.json ---- */

static const vf_config_row config_rows[] = {
    VF_INT(ernie, width, "hidden_size", 3072, 8, MAX_WIDTH),
    VF_INT(ernie, heads, "num_attention_heads", 24, 1, 256),
    VF_INT(ernie, layers, "num_layers", 24, 1, 256),
    VF_INT(ernie, hidden, "ffn_hidden_size", 8192, 8, 65536),
    VF_INT(ernie, in, "in_channels", 128, 1, 4096),
    VF_INT(ernie, text, "text_in_dim", 2560, 8, 65536),
    VF_NUM(ernie, theta, "rope_theta", 256, 1, 1e9),
    VF_INTS(ernie, axis, axes, "rope_axes_dim", AXES, 2, 256),
    VF_NUM(ernie, eps, "eps", 1e-6, VF_ABOVE_0, 1),
    { 0 }
};

static int check_config(const ernie *m, vc_err *err)
{
    if (m->width % (8 * m->heads))
        return vc_fail(err, VC_EFORMAT, "hidden_size: %lld must be num_attention_heads: %lld times "
                       "a multiple of 8", (long long)m->width, (long long)m->heads);
    return vtrain_check_axes("rope_axes_dim", m->axis, AXES, m->width / m->heads, err);
}

static int ernie_read(void *model, const cJSON *config, vc_err *err)
{
    ernie *m = model;
    memcpy(m->axis, (int64_t[]){ 32, 48, 48 }, sizeof m->axis);
    int rc = vf_config_read(m, config_rows, config, err);
    if (!rc)
        rc = check_config(m, err);
    if (rc)
        return rc;
    const int64_t d = m->width;
    const int64_t sizes[VTRAIN_SIZES] = {
        [-D] = d, [-IN] = m->in, [-TEXT] = m->text, [-HEAD] = d / m->heads, [-HIDDEN] = m->hidden,
        [-SIX_D] = MODS * d, [-TWO_D] = 2 * d, [-TEXT_D] = m->text == d ? VT_ABSENT : d, [-ONE] = 1,
    };
    memcpy(m->dit.sizes, sizes, sizeof sizes);
    m->dit.layers[0] = m->layers;
    return 0;
}

static void ernie_fit(const void *model, vtrain_fit *fit)
{
    const ernie *m = model;
    *fit = (vtrain_fit){ .channels = (int)m->in, .n_texts = 1, .text_width = { m->text },
                         .mult = { 1, 1, 1 }, .blocks = (int)m->layers, .heads = m->heads };
}

/* ---- prepare ---- */

/* Writes the places of a sample's tokens, [n][AXES]: the picture's, then the prompt's. */
static void place(float *at, int64_t n, int64_t picture, int64_t columns, int32_t length)
{
    for (int64_t i = 0; i < n; i++, at += AXES) {
        at[0] = (float)(i < picture ? length : i - picture);
        at[1] = (float)(i < picture ? i / columns : 0);
        at[2] = (float)(i < picture ? i % columns : 0);
    }
}

/* Fills the tables of a half of the elements, [n,HEAD/2]: every two elements have one angle. */
static void fill_half(float *cosine, float *sine, const ernie *m, const float *at, int64_t n,
                      int half)
{
    const int64_t width = m->width / m->heads / 2;
    for (int64_t j = 0; j < width; j++) {
        int64_t angle = (half * width + j) / 2, axis = 0;
        while (angle >= m->axis[axis] / 2)
            angle -= m->axis[axis++] / 2;
        const double step = pow(m->theta, -2.0 * (double)angle / (double)m->axis[axis]);
        for (int64_t i = 0; i < n; i++) {
            cosine[i * width + j] = (float)cos(at[AXES * i + axis] * step);
            sine[i * width + j] = (float)sin(at[AXES * i + axis] * step);
        }
    }
}

static void make_rope(vt_ctx *g, const ernie *m, const int64_t *dim, const vtrain_cond *text,
                      vt_tensor **made)
{
    const int64_t each = m->picture + text->embeds->dim[1], n = dim[0] * each;
    const int64_t table[2] = { n, m->width / m->heads / 2 }, size = n * table[1];
    float *at = malloc((size_t)(n * AXES) * sizeof *at);
    float *host = malloc(2 * (size_t)size * sizeof *host);
    for (int64_t b = 0; at && host && b < dim[0]; b++)
        place(at + b * each * AXES, each, m->picture, dim[4], text->length[b]);
    for (int half = 0; at && host && half < 2; half++) {
        fill_half(host, host + size, m, at, n, half);
        made[COS + 2 * half] = vt_from_host(g, VC_F32, 2, table, host, VC_F32);
        made[SIN + 2 * half] = vt_from_host(g, VC_F32, 2, table, host + size, VC_F32);
    }
    if (!at || !host)
        vt_fail(g, VC_ENOMEM, "positions: out of memory");
    free(host);
    free(at);
}

static void ernie_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    ernie *m = model;
    const vtrain_cond *text = &in->text[0];
    if (vt_failed(g) || !in->x || !text->embeds)
        return;
    const int64_t *dim = in->x->dim;
    if (dim[2] != 1) {
        vt_fail(g, VC_EMISMATCH, "latents of %lld frames: ERNIE-Image makes pictures, which have "
                "one", (long long)dim[2]);
        return;
    }
    m->picture = dim[3] * dim[4];
    make_rope(g, m, dim, text, in->made);
    in->made[KEYS] = vtrain_key_lengths(g, text, m->picture);
    if (in->note)
        vtrain_note(in, "text_lens", vt_from_host(g, VC_I32, 1, dim, text->length, VC_I32));
}

/* ---- forward ---- */

/* The sinusoid of the class has the sines in front. */
static vt_tensor *embed_time(vt_ctx *g, const ernie *m, vt_tensor *t)
{
    vt_tensor *x = vt_timestep(g, t, m->width, MAX_PERIOD), *half[2];
    for (int i = 0; i < 2; i++)
        half[i] = vt_slice(g, x, 1, (1 - i) * m->width / 2, (2 - i) * m->width / 2);
    return nn_embed_vector(g, vt_concat(g, 1, 2, half), &m->w.time1, &m->w.time2, VC_F32);
}

static void ernie_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const ernie *m = model;
    const model_weights *w = &m->w;
    vt_tensor *x = nn_embed_patches(g, nn_patches(g, in->x, (int[]){ 1, 1, 1 }), &w->patch);
    vt_tensor *text = vt_cast(g, in->text[0].embeds, vt_compute(g));
    if (w->text.w)
        text = vt_linear(g, text, &w->text);
    s[X] = vt_concat(g, 1, 2, (vt_tensor *[]){ x, text });
    s[E] = embed_time(g, m, in->t);
    s[MOD] = nn_modulation(g, vt_silu(g, s[E]), &w->mod, MODS);
    memcpy(s + MADE, in->made, N_MADE * sizeof *in->made);
}

/* y [B,N,heads,HEAD] turned by both halves' tables [B*N,HEAD/2]: of each rotation of whole heads
 * the half stays that its angles are for. */
static vt_tensor *turned(vt_ctx *g, vt_tensor *y, const nn_heads half[2])
{
    if (!y)
        return NULL;
    const int64_t all[4] = { y->dim[0], y->dim[1], y->dim[2], y->dim[3] }, width = all[3] / 2;
    vt_tensor *part[2];
    y = vt_reshape(g, y, 4, (int64_t[]){ 1, all[0] * all[1], all[2], all[3] });
    for (int i = 0; i < 2; i++)
        part[i] = vt_slice(g, vt_rope_halves(g, y, half[i].cos, half[i].sin, 0), 3, i * width,
                           (i + 1) * width);
    return vt_reshape(g, vt_concat(g, 3, 2, part), 4, all);
}

static vt_tensor *attend(vt_ctx *g, vt_tensor *x, const ernie *m, const block_weights *w,
                         vt_tensor *const *made)
{
    const nn_heads plain = { .n = m->heads, .eps = (float)m->eps };
    nn_heads half[2];
    for (int i = 0; i < 2; i++)
        half[i] = nn_own_heads(g, &(nn_heads){ 0, 0, made[COS + 2 * i], made[SIN + 2 * i], 0 });
    vt_tensor *q = turned(g, nn_project(g, x, &w->attn.q, &w->attn.norm_q, &plain), half);
    vt_tensor *k = turned(g, nn_project(g, x, &w->attn.k, &w->attn.norm_k, &plain), half);
    vt_tensor *v = nn_project(g, x, &w->attn.v, NULL, &plain);
    return vt_linear(g, nn_attend_shared(g, q, k, v, made[KEYS]), &w->attn.out);
}

static void block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                  vt_tensor **out)
{
    const ernie *m = model;
    const block_weights *w = weights;
    const float eps = (float)m->eps;
    vt_tensor *e[MODS], *x = in[X];
    nn_chunk(g, in[MOD], MODS, e);
    vt_tensor *h = vt_rms_norm_modulate(g, x, w->norm[0], e[0], e[1], eps);
    x = vt_gated_add(g, x, attend(g, h, m, w, in + MADE), e[2]);
    h = vt_rms_norm_modulate(g, x, w->norm[1], e[3], e[4], eps);
    h = vt_mul(g, vt_gelu_erf(g, vt_linear(g, h, &w->gate)), vt_linear(g, h, &w->up));
    out[X] = vt_gated_add(g, x, vt_linear(g, h, &w->down), e[5]);
}

static vt_tensor *ernie_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    const ernie *m = model;
    vt_tensor *mod[2];
    nn_chunk(g, nn_modulation(g, s[E], &m->w.mod_out, 2), 2, mod);
    vt_tensor *x = vtrain_noisy_begin(g, s[X], m->picture);
    x = vt_layer_norm_modulate(g, x, NULL, NULL, mod[1], mod[0], (float)m->eps);
    x = vtrain_noisy_end(g, vt_linear(g, x, &m->w.proj_out), m->picture);
    return vt_unpatchify(g, x, in->x->dim + 1, 1, 1, 1, VT_C_FIRST);
}

const vtrain_family vtrain_ernie_image = {
    .class_name = "ErnieImageTransformer2DModel", .kohya = &vtrain_kohya_plain,
    .text_args = { "text_bth" }, .layout = VTRAIN_CHANNELS_FIRST, .time = VTRAIN_TIME_STEP,
    .size = sizeof(ernie), .weights = offsetof(ernie, w), .table = model_table,
    .read = ernie_read, .fit = ernie_fit, .prepare = ernie_prepare, .embed = ernie_embed,
    .head = ernie_head,
    .blocks = { { "layers.%d.", block_table, sizeof(block_weights), N_IN, 1, block, NULL, NULL } },
    .objective = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
    .flow_shift = 4, .logit_mean = 0, .logit_std = 1,
    .posterior_mean = true, .bf16 = true,
    .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 4, .inference_steps = 50,
    .batch = 1, .steps = 1000,
    .lora_targets = "to_q,to_k,to_v,to_out.0",
};
