/* flux2.c - FLUX.2 (Black Forest Labs 2025): blocks in which picture and prompt are two streams,
 * then blocks of one sequence. Semantics and names are those of diffusers'
 * Flux2Transformer2DModel: klein 4B and 9B, and dev, which takes guidance as an input.
 *
 * A token is a place of the latent, whose channels are squares of the autoencoder's
 * (precompute/vae/autoencoder_kl.c). All blocks of a kind share one modulation. A position has four
 * axes: picture tokens stand at (0, row, column, 0), those of the prompt at (0, 0, 0, i). The model
 * attends to the prompt's padding. The order of tokens in a sequence has no meaning: here the
 * picture is first.
 *
 * It edits pictures too: the clean tokens of reference k, from 1, stand behind the noisy ones, at
 * 10 k of the first axis. The prediction is that of the noisy tokens. */
#include <stdlib.h>
#include <string.h>

#include "common/nn/attention.h"
#include "common/nn/embeddings.h"
#include "common/nn/flux_blocks.h"
#include "common/nn/positions.h"
#include "formats/json/config.h"
#include "train/models/dit.h"

#define EPS 1e-6f

enum { AXES = 4, MAX_WIDTH = 16384, REFERENCE_STEP = 10 };
enum { ATTENTION = 0, FEED_FORWARD = 3, SINGLE_MOD = 3, DUAL_MOD = 6 };  /* shift, scale, gate of
                                                                         * each */

/* Indices into the sizes of the weight tables. */
enum { D = -1, HEAD = -2, HIDDEN = -3, TWO_HIDDEN = -4, TWO_D = -5, THREE_D = -6, SIX_D = -7,
       FUSED = -8, JOINED_WIDTH = -9, IN = -10, OUT = -11, TEXT = -12, TIME = -13, GUIDANCE = -14,
       GUIDANCE_IN = -15 };

typedef struct stream_weights {
    nn_attention attn;
    vt_lin up, down;                          /* up [2H,D]: gate, then value */
} stream_weights;
typedef struct dual_weights { stream_weights stream[2]; } dual_weights;      /* picture, prompt */
typedef struct single_weights {
    vt_lin in, out;                           /* in [3D+2H,D]: q, k, v, gate, value; out reads
                                               * [attention | feed-forward] */
    nn_norm norm_q, norm_k;
} single_weights;
typedef struct model_weights {
    vt_lin patch, text, time1, time2, guidance1, guidance2, mod[2], single_mod, mod_out, proj_out;
} model_weights;

#define LIN(type, field, name, out, in) \
    { name, VT_W_LINEAR_NO_BIAS, offsetof(type, field), { out, in }, VT_INIT_XAVIER }
#define NORM(type, field, name) { name, VT_W_TENSOR, offsetof(type, field), { HEAD }, VT_INIT_ONE }
#define MODEL(field, name, out, in) LIN(model_weights, field, name, out, in)
#define STREAM(i, norms, q_, k_, v_, out_, ff) \
    NORM(dual_weights, stream[i].attn.norm_q.w, norms "q.weight"), \
    NORM(dual_weights, stream[i].attn.norm_k.w, norms "k.weight"), \
    LIN(dual_weights, stream[i].attn.q, q_, D, D), \
    LIN(dual_weights, stream[i].attn.k, k_, D, D), \
    LIN(dual_weights, stream[i].attn.v, v_, D, D), \
    LIN(dual_weights, stream[i].attn.out, out_, D, D), \
    LIN(dual_weights, stream[i].up, ff ".linear_in", TWO_HIDDEN, D), \
    LIN(dual_weights, stream[i].down, ff ".linear_out", D, HIDDEN)

static const vt_weight model_table[] = {
    MODEL(time1, "time_guidance_embed.timestep_embedder.linear_1", D, TIME),
    MODEL(time2, "time_guidance_embed.timestep_embedder.linear_2", D, D),
    MODEL(guidance1, "time_guidance_embed.guidance_embedder.linear_1", GUIDANCE, GUIDANCE_IN),
    MODEL(guidance2, "time_guidance_embed.guidance_embedder.linear_2", GUIDANCE, D),
    MODEL(mod[0], "double_stream_modulation_img.linear", SIX_D, D),
    MODEL(mod[1], "double_stream_modulation_txt.linear", SIX_D, D),
    MODEL(single_mod, "single_stream_modulation.linear", THREE_D, D),
    MODEL(patch, "x_embedder", D, IN),
    MODEL(text, "context_embedder", D, TEXT),
    MODEL(mod_out, "norm_out.linear", TWO_D, D),
    MODEL(proj_out, "proj_out", OUT, D),
    { 0 }
};
static const vt_weight dual_table[] = {
    STREAM(0, "attn.norm_", "attn.to_q", "attn.to_k", "attn.to_v", "attn.to_out.0", "ff"),
    STREAM(1, "attn.norm_added_", "attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj",
           "attn.to_add_out", "ff_context"),
    { 0 }
};
static const vt_weight single_table[] = {
    NORM(single_weights, norm_q.w, "attn.norm_q.weight"),
    NORM(single_weights, norm_k.w, "attn.norm_k.weight"),
    LIN(single_weights, in, "attn.to_qkv_mlp_proj", FUSED, D),
    LIN(single_weights, out, "attn.to_out", D, JOINED_WIDTH),
    { 0 }
};

typedef struct flux2 {
    vtrain_dit dit;
    int64_t heads, head, dual, single, in_channels, out_channels, text, time, axis[AXES];
    double mlp_ratio, theta;
    bool guidance;
    bool distilled;                           /* the pipeline's field: samples are unguided */
    int axes;
    int64_t noisy, picture;                   /* the noisy tokens in the step in progress, and those
                                               * with the references' */
    model_weights w;
} flux2;

/* vtrain_in.made: rotations of the picture's and references' tokens, then of the prompt's. */
enum { COS, SIN };
/* The inputs of a block: the picture's tokens with the references' and the prompt's tokens, or for
 * the single blocks both as one sequence at JOINED; the modulations of picture and prompt, or at
 * MOD that of the single blocks; all of made. The head reads the embedding of the time. */
enum { X, PROMPT, MOD, PROMPT_MOD, MADE, N_IN = MADE + 2, E = N_IN, SINGLES, JOINED = X };

/* ---- config.json ---- */

static const vf_config_row config_rows[] = {
    VF_INT(flux2, heads, "num_attention_heads", 48, 1, 256),
    VF_INT(flux2, head, "attention_head_dim", 128, 8, 256),
    VF_INT(flux2, dual, "num_layers", 8, 1, 256),
    VF_INT(flux2, single, "num_single_layers", 48, 1, 256),
    VF_INT(flux2, in_channels, "in_channels", 128, 1, 4096),
    VF_INT(flux2, out_channels, "out_channels", 0, 1, 4096),
    VF_INT(flux2, text, "joint_attention_dim", 15360, 8, 65536),
    VF_INT(flux2, time, "timestep_guidance_channels", 256, 2, 4096),
    VF_NUM(flux2, mlp_ratio, "mlp_ratio", 3, VF_ABOVE_0, 64),
    VF_INTS(flux2, axis, axes, "axes_dims_rope", AXES, 2, 256),
    VF_NUM(flux2, theta, "rope_theta", 2000, 1, 1e9),
    VF_FLAG(flux2, guidance, "guidance_embeds", true),
    VF_FLAG(flux2, distilled, "is_distilled", false),
    VF_ONLY_NUM("eps", 1e-6),
    { 0 }
};

/* Checks the rules between fields. */
static int check_config(const flux2 *m, vc_err *err)
{
    if (m->head % 8 || m->heads * m->head > MAX_WIDTH || m->text % 8 || m->time % 2)
        return vc_fail(err, VC_EFORMAT, "attention_head_dim and joint_attention_dim must be "
                       "multiples of 8, timestep_guidance_channels even, and num_attention_heads "
                       "times attention_head_dim at most %d", MAX_WIDTH);
    return vtrain_check_axes("axes_dims_rope", m->axis, AXES, m->head, err);
}

static int flux2_read(void *model, const cJSON *config, vc_err *err)
{
    flux2 *m = model;
    memcpy(m->axis, (int64_t[]){ 32, 32, 32, 32 }, sizeof m->axis);
    int rc = vf_config_read(m, config_rows, config, err);
    if (!rc)
        rc = check_config(m, err);
    if (rc)
        return rc;
    const int64_t d = m->heads * m->head, hidden = (int64_t)((double)d * m->mlp_ratio);
    const int64_t sizes[VTRAIN_SIZES] = {
        [-D] = d, [-HEAD] = m->head, [-HIDDEN] = hidden, [-TWO_HIDDEN] = 2 * hidden,
        [-TWO_D] = 2 * d, [-THREE_D] = 3 * d, [-SIX_D] = 6 * d, [-FUSED] = 3 * d + 2 * hidden,
        [-JOINED_WIDTH] = d + hidden, [-IN] = m->in_channels,
        [-OUT] = m->out_channels ? m->out_channels : m->in_channels, [-TEXT] = m->text,
        [-TIME] = m->time, [-GUIDANCE] = m->guidance ? d : VT_ABSENT, [-GUIDANCE_IN] = m->time,
    };
    memcpy(m->dit.sizes, sizes, sizeof sizes);
    memcpy(m->dit.layers, (int64_t[]){ m->dual, m->single }, 2 * sizeof(int64_t));
    return 0;
}

static void flux2_fit(const void *model, vtrain_fit *fit)
{
    const flux2 *m = model;
    *fit = (vtrain_fit){ .channels = (int)m->in_channels, .n_texts = 1, .text_width = { m->text },
                         .references = ((1u << VC_REFERENCES) - 1) << VC_ROLE_REFERENCE,
                         .mult = { 1, 1, 1 }, .guidance = m->guidance,
                         .sample_guidance = m->distilled && !m->guidance,
                         .blocks = (int)(m->dual + m->single), .heads = m->heads };
}

/* Without a scheduler's file the shift follows from the number of tokens, as that of FLUX.1. */
static void flux2_schedule(const cJSON *config, vtrain_scheduler *s)
{
    (void)config;
    s->by_tokens = (vtrain_by_tokens){ .on = true, .type = VTRAIN_MU_EXPONENTIAL, .base = 0.5,
                                       .max = 1.15, .base_len = 256, .max_len = 4096 };
}

/* ---- prepare ---- */

static int64_t tokens_of(const vt_tensor *x)
{
    return x->dim[3] * x->dim[4];
}

/* Writes the positions (first, row, column, 0) of the tokens of x, and returns the end. */
static int32_t *put_picture(int32_t *at, const vt_tensor *x, int32_t first)
{
    const int64_t n = tokens_of(x), columns = x->dim[4];
    for (int64_t i = 0; i < n; i++, at += AXES) {
        at[0] = first;
        at[1] = (int32_t)(i / columns);
        at[2] = (int32_t)(i % columns);
    }
    return at;
}

/* Writes the positions of the picture's tokens, of the references' and of n of a prompt. */
static void put_all(int32_t *at, const vtrain_in *in, int64_t n)
{
    at = put_picture(at, in->x, 0);
    for (int k = 0; k < VC_REFERENCES && in->cond[VC_ROLE_REFERENCE + k]; k++)
        at = put_picture(at, in->cond[VC_ROLE_REFERENCE + k], REFERENCE_STEP * (k + 1));
    for (int64_t i = 0; i < n; i++, at += AXES)
        at[3] = (int32_t)i;
}

/* Traces n positions. */
static void note_ids(vt_ctx *g, const vtrain_in *in, const char *name, const int32_t *at,
                     int64_t n)
{
    float *id = in->note ? malloc((size_t)(n * AXES) * sizeof *id) : NULL;
    if (!in->note)
        return;
    if (!id) {
        vt_fail(g, VC_ENOMEM, "trace: out of memory");
        return;
    }
    for (int64_t i = 0; i < n * AXES; i++)
        id[i] = (float)at[i];
    vtrain_note(in, name, vt_from_host(g, VC_F32, 2, (int64_t[]){ n, AXES }, id, VC_F32));
    free(id);
}

static void flux2_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    flux2 *m = model;
    const vt_tensor *x = in->x, *text = in->text[0].embeds;
    if (vt_failed(g) || !x || !text)
        return;
    if (x->dim[2] != 1) {
        vt_fail(g, VC_EMISMATCH, "latents of %lld frames: FLUX.2 makes pictures, which have one",
                (long long)x->dim[2]);
        return;
    }
    m->noisy = m->picture = tokens_of(x);
    for (int k = 0; k < VC_REFERENCES && in->cond[VC_ROLE_REFERENCE + k]; k++)
        m->picture += tokens_of(in->cond[VC_ROLE_REFERENCE + k]);
    const int64_t n = m->picture + text->dim[1];
    int32_t *at = calloc((size_t)(n * AXES), sizeof *at);
    if (!at) {
        vt_fail(g, VC_ENOMEM, "positions: out of memory");
        return;
    }
    put_all(at, in, text->dim[1]);
    const int64_t pairs[AXES] = { m->axis[0] / 2, m->axis[1] / 2, m->axis[2] / 2, m->axis[3] / 2 };
    nn_rope_at(g, at, n, AXES, pairs, m->theta, in->made + COS);
    vtrain_check_padding(g, &in->text[0]);
    note_ids(g, in, "img_ids", at, m->picture);
    note_ids(g, in, "txt_ids", at + m->picture * AXES, text->dim[1]);
    free(at);
}

/* ---- forward ---- */

static void flux2_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const flux2 *m = model;
    const model_weights *w = &m->w;
    vt_tensor *patches = vtrain_picture_tokens(g, in, (int[]){ 1, 1, 1 });
    vtrain_note(in, "hidden_states", patches);
    vtrain_note(in, "guidance", in->guidance);
    vt_tensor *e = nn_embed_number(g, in->t, &w->time1, &w->time2, VC_F32);
    if (m->guidance)
        e = vt_add(g, e, nn_embed_number(g, vt_scale(g, in->guidance, VTRAIN_TIMES), &w->guidance1,
                                         &w->guidance2, VC_F32));
    s[E] = vt_silu(g, e);
    s[MOD] = nn_modulation(g, s[E], &w->mod[0], DUAL_MOD);
    s[PROMPT_MOD] = nn_modulation(g, s[E], &w->mod[1], DUAL_MOD);
    s[SINGLES] = nn_modulation(g, s[E], &w->single_mod, SINGLE_MOD);
    s[PROMPT] = vt_linear(g, vt_cast(g, in->text[0].embeds, vt_compute(g)), &w->text);
    s[X] = vt_linear(g, patches, &w->patch);
    memcpy(s + MADE, in->made, 2 * sizeof *in->made);
}

/* h [B,N,2H], gate and value -> silu(gate) * value */
static vt_tensor *swiglu(vt_ctx *g, vt_tensor *h)
{
    vt_tensor *half[2];
    vt_chunk(g, h, 2, 2, half);
    return vt_mul(g, vt_silu(g, half[0]), half[1]);
}

/* Normalises, scales and shifts x by the parts `first`, first + 1 of mod. */
static vt_tensor *modulated(vt_ctx *g, vt_tensor *x, vt_tensor *const *mod, int first)
{
    return vt_layer_norm_modulate(g, x, NULL, NULL, mod[first], mod[first + 1], EPS);
}

static void dual_block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                       vt_tensor **out)
{
    const flux2 *m = model;
    const dual_weights *w = weights;
    vt_tensor *mod[2][DUAL_MOD], *table[2][2], *y[2];
    nn_heads heads[2];
    nn_stream stream[2];
    for (int i = 0; i < 2; i++) {
        vt_tensor *all = in[MADE + i];
        table[0][i] = vt_slice(g, all, 0, 0, m->picture);
        table[1][i] = all ? vt_slice(g, all, 0, m->picture, all->dim[0]) : NULL;
    }
    for (int i = 0; i < 2; i++) {
        vt_chunk(g, in[MOD + i], 1, DUAL_MOD, mod[i]);
        heads[i] = (nn_heads){ m->heads, EPS, table[i][COS], table[i][SIN], 0 };
        stream[i] = (nn_stream){ modulated(g, in[X + i], mod[i], ATTENTION), &w->stream[i].attn,
                                 &heads[i] };
    }
    nn_joint_attention(g, stream, NULL, y);
    for (int i = 0; i < 2; i++) {
        vt_tensor *x = vt_gated_add(g, in[X + i], y[i], mod[i][ATTENTION + 2]);
        vt_tensor *h = vt_linear(g, modulated(g, x, mod[i], FEED_FORWARD), &w->stream[i].up);
        h = vt_linear(g, swiglu(g, h), &w->stream[i].down);
        out[X + i] = vt_gated_add(g, x, h, mod[i][FEED_FORWARD + 2]);
    }
}

/* Joins picture and prompt to one sequence, picture first. */
static void join_streams(vt_ctx *g, const void *model, vt_tensor *s[VT_BLOCK_IO])
{
    (void)model;
    s[JOINED] = vt_concat(g, 1, 2, (vt_tensor *[]){ s[X], s[PROMPT] });
    s[MOD] = s[SINGLES];
    s[PROMPT] = s[PROMPT_MOD] = NULL;
}

static void single_block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                         vt_tensor **out)
{
    const flux2 *m = model;
    const single_weights *w = weights;
    const int64_t d = m->heads * m->head;
    const nn_heads all = { m->heads, EPS, in[MADE + COS], in[MADE + SIN], 0 };
    const nn_heads heads = nn_own_heads(g, &all);
    vt_tensor *x = in[JOINED], *mod[SINGLE_MOD], *y[2];
    vt_chunk(g, in[MOD], 1, SINGLE_MOD, mod);
    vt_tensor *h = vt_linear(g, modulated(g, x, mod, ATTENTION), &w->in);
    vt_tensor *q = nn_in_heads(g, vt_slice(g, h, 2, 0, d), &w->norm_q, &heads);
    vt_tensor *k = nn_in_heads(g, vt_slice(g, h, 2, d, 2 * d), &w->norm_k, &heads);
    vt_tensor *v = nn_in_heads(g, vt_slice(g, h, 2, 2 * d, 3 * d), NULL, &heads);
    y[0] = nn_attend_shared(g, q, k, v, NULL);
    y[1] = h ? swiglu(g, vt_slice(g, h, 2, 3 * d, h->dim[2])) : NULL;
    h = vt_linear(g, vt_concat(g, 2, 2, y), &w->out);
    out[JOINED] = vt_gated_add(g, x, h, mod[ATTENTION + 2]);
}

static vt_tensor *flux2_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    const flux2 *m = model;
    vt_tensor *x = vtrain_noisy_begin(g, s[JOINED], m->noisy);
    x = nn_flux_head(g, x, s[E], &m->w.mod_out, &m->w.proj_out);
    x = vtrain_noisy_end(g, x, m->noisy);
    return vt_unpatchify(g, x, in->x->dim + 1, 1, 1, 1, VT_C_FIRST);
}

/* ---- names and files of the first authors ---- */

#define DUAL "transformer_blocks.#."
#define SINGLE "single_transformer_blocks.#."
#define TIMES "time_guidance_embed."
#define SCALE(theirs_, ours_) { theirs_ ".scale", .ours = { ours_ ".weight" } }

/* The modules, then tensors of whole weights that no LoRA has. The first authors'
 * final_layer.adaLN_modulation.1 has shift before scale. */
static const vtrain_rename first_names[] = {
    { "double_blocks.#.img_attn.qkv",
      .ours = { DUAL "attn.to_q", DUAL "attn.to_k", DUAL "attn.to_v" } },
    { "double_blocks.#.txt_attn.qkv",
      .ours = { DUAL "attn.add_q_proj", DUAL "attn.add_k_proj", DUAL "attn.add_v_proj" } },
    { "double_blocks.#.img_attn.proj", .ours = { DUAL "attn.to_out.0" } },
    { "double_blocks.#.txt_attn.proj", .ours = { DUAL "attn.to_add_out" } },
    { "double_blocks.#.img_mlp.0", .ours = { DUAL "ff.linear_in" } },
    { "double_blocks.#.img_mlp.2", .ours = { DUAL "ff.linear_out" } },
    { "double_blocks.#.txt_mlp.0", .ours = { DUAL "ff_context.linear_in" } },
    { "double_blocks.#.txt_mlp.2", .ours = { DUAL "ff_context.linear_out" } },
    { "single_blocks.#.linear1", .ours = { SINGLE "attn.to_qkv_mlp_proj" } },
    { "single_blocks.#.linear2", .ours = { SINGLE "attn.to_out" } },
    { "double_stream_modulation_img.lin", .ours = { "double_stream_modulation_img.linear" } },
    { "double_stream_modulation_txt.lin", .ours = { "double_stream_modulation_txt.linear" } },
    { "single_stream_modulation.lin", .ours = { "single_stream_modulation.linear" } },
    { "time_in.in_layer", .ours = { TIMES "timestep_embedder.linear_1" } },
    { "time_in.out_layer", .ours = { TIMES "timestep_embedder.linear_2" } },
    { "guidance_in.in_layer", .ours = { TIMES "guidance_embedder.linear_1" } },
    { "guidance_in.out_layer", .ours = { TIMES "guidance_embedder.linear_2" } },
    { "img_in", .ours = { "x_embedder" } },
    { "txt_in", .ours = { "context_embedder" } },
    { "final_layer.linear", .ours = { "proj_out" } },
    VTRAIN_SWAPPED_HEAD("weight"),
    SCALE("double_blocks.#.img_attn.norm.query_norm", DUAL "attn.norm_q"),
    SCALE("double_blocks.#.img_attn.norm.key_norm", DUAL "attn.norm_k"),
    SCALE("double_blocks.#.txt_attn.norm.query_norm", DUAL "attn.norm_added_q"),
    SCALE("double_blocks.#.txt_attn.norm.key_norm", DUAL "attn.norm_added_k"),
    SCALE("single_blocks.#.norm.query_norm", SINGLE "attn.norm_q"),
    SCALE("single_blocks.#.norm.key_norm", SINGLE "attn.norm_k"),
    { 0 }
};

/* There is no config.json of theirs: all facts are in sizes. */
static int flux2_convert(cJSON **config, const cJSON *theirs, const vt_source *src, vc_err *err)
{
    (void)theirs;
    const int64_t width = vtrain_size_in(src, "img_in.weight", 0);
    const int64_t head = vtrain_size_in(src, "double_blocks.0.img_attn.norm.query_norm.scale", 0);
    if (head < 8 || head % 8 || width % head)
        return vc_fail(err, VC_EFORMAT, "img_in.weight has %lld rows, and the queries' norm has "
                       "%lld numbers: this is no FLUX.2", (long long)width, (long long)head);
    const struct { const char *name; double value; } fields[] = {
        { "num_attention_heads", (double)(width / head) }, { "attention_head_dim", (double)head },
        { "in_channels", (double)vtrain_size_in(src, "img_in.weight", 1) },
        { "joint_attention_dim", (double)vtrain_size_in(src, "txt_in.weight", 1) },
        { "timestep_guidance_channels", (double)vtrain_size_in(src, "time_in.in_layer.weight", 1) },
        { "mlp_ratio", (double)vtrain_size_in(src, "double_blocks.0.img_mlp.2.weight", 1) /
                       (double)width },
        { "num_layers", (double)vtrain_blocks_in(src, "double_blocks.%d.img_mlp.0.weight") },
        { "num_single_layers", (double)vtrain_blocks_in(src, "single_blocks.%d.linear1.weight") },
    };
    const int axis = (int)head / AXES, axes[AXES] = { axis, axis, axis, axis };
    const bool guidance = vtrain_size_in(src, "guidance_in.in_layer.weight", 0) > 0;
    cJSON *o = cJSON_CreateObject();
    bool ok = cJSON_AddStringToObject(o, "_class_name", vtrain_flux2.class_name) &&
              cJSON_AddBoolToObject(o, "guidance_embeds", guidance) &&
              cJSON_AddItemToObject(o, "axes_dims_rope", cJSON_CreateIntArray(axes, AXES));
    for (size_t i = 0; ok && i < sizeof fields / sizeof *fields; i++)
        ok = cJSON_AddNumberToObject(o, fields[i].name, fields[i].value);
    if (!ok) {
        cJSON_Delete(o);
        return vc_no_memory(err);
    }
    *config = o;
    return 0;
}

const vtrain_family vtrain_flux2 = {
    .class_name = "Flux2Transformer2DModel", .first_class = "Flux2", .convert = flux2_convert,
    .lora_names = first_names, .kohya = &vtrain_kohya_scripts, .diffsynth = true,
    .text_args = { "encoder_hidden_states" }, .layout = VTRAIN_TOKENS, .time = VTRAIN_TIME_LEVEL,
    .size = sizeof(flux2), .weights = offsetof(flux2, w), .table = model_table,
    .read = flux2_read, .fit = flux2_fit, .prepare = flux2_prepare, .embed = flux2_embed,
    .two_parts = true, .head = flux2_head,
    .blocks = { { "transformer_blocks.%d.", dual_table, sizeof(dual_weights), N_IN, 2, dual_block,
                  NULL, NULL },
                { "single_transformer_blocks.%d.", single_table, sizeof(single_weights), N_IN, 1,
                  single_block, join_streams, NULL } },
    .objective = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
    .flow_shift = 1, .logit_mean = 0, .logit_std = 1, .schedule = flux2_schedule,
    .posterior_mean = true, .bf16 = true,
    .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 4, .inference_steps = 50,
    .batch = 1, .steps = 1000,
    .lora_targets = ".*\\.(to_q|to_k|to_v|to_out\\.0|to_qkv_mlp_proj)|"
                    "single_transformer_blocks\\.[0-9]+\\.attn\\.to_out",
};
