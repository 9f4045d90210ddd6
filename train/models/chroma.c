/* chroma.c - Chroma (lodestones 2025): FLUX.1's blocks without the linear layers of their
 * modulation. One small network makes the shifts, scales and gates of all blocks, from the time and
 * from each number's place. Semantics and names are those of diffusers' ChromaTransformer2DModel.
 *
 * The prompt is T5's alone: the states of its tokens and of one token of padding, where the prompt
 * leaves room for one. Other padding is never seen. The order of tokens is that of flux.c: the
 * picture is first. */
#include <string.h>

#include "common/nn/embeddings.h"
#include "common/nn/flux_blocks.h"
#include "formats/json/config.h"
#include "train/models/flux.h"

#define EPS 1e-6f
#define NORM_EPS 1.1920929e-7f                /* of PyTorch's norms in f32 that give no other */
#define PERIOD 10000.0f

enum { SIDE = 2, PATCH = SIDE * SIDE, MAX_WIDTH = 16384,
       LAYERS = 5,                            /* of the network that makes modulations */
       MODS = 64, TIME = MODS / 4, PLACE = MODS / 2,    /* its input: time, guidance, place */
       SINGLE_MODS = 3, DUAL_MODS = 6, HEAD_MODS = 2 };

/* Indices into the sizes of the weight tables. */
enum { D = NN_FLUX_D, IN = NN_FLUX_SIZES, TEXT = IN - 1, OUT = IN - 2, WIDE = IN - 3,
       MOD_IN = IN - 4 };

typedef struct mod_layer {
    vt_lin up, down;
    vt_tensor *norm;                          /* [WIDE] */
} mod_layer;

typedef struct model_weights {
    vt_lin patch, text, mod_in, mod_out, proj_out;
    mod_layer mod[LAYERS];
} model_weights;

#define LIN(field, name, out, in) \
    { name, VT_W_LINEAR, offsetof(model_weights, field), { out, in }, VT_INIT_XAVIER }
#define MOD "distilled_guidance_layer."
#define LAYER(i) \
    LIN(mod[i].up, MOD "layers." #i ".linear_1", WIDE, WIDE), \
    LIN(mod[i].down, MOD "layers." #i ".linear_2", WIDE, WIDE), \
    { MOD "norms." #i ".weight", VT_W_TENSOR, offsetof(model_weights, mod[i].norm), { WIDE }, \
      VT_INIT_ONE }

static const vt_weight model_table[] = {
    LIN(mod_in, MOD "in_proj", WIDE, MOD_IN),
    LAYER(0), LAYER(1), LAYER(2), LAYER(3), LAYER(4),
    LIN(mod_out, MOD "out_proj", D, WIDE),
    LIN(text, "context_embedder", D, TEXT),
    LIN(patch, "x_embedder", D, IN),
    LIN(proj_out, "proj_out", OUT, D),
    { 0 }
};

typedef struct chroma {
    vtrain_dit dit;
    int64_t heads, head, dual, single, in_channels, out_channels, text, wide, axis[3];
    int axes;
    int64_t picture;                          /* the noisy tokens in the step in progress */
    model_weights w;
} chroma;

/* vtrain_in.made: rotations of the picture's tokens; the number of keys of each row, or NULL; the
 * place of each modulation, times 1000, for each row of the batch. */
enum { COS, SIN, KEYS, PLACES, N_MADE };
/* The inputs of a block: the picture's tokens and the prompt's, or for the single blocks both as
 * one sequence at JOINED; the modulations of all blocks [B,n,D]; the first of made. */
enum { X, PROMPT, ALL, MADE, N_IN = MADE + PLACES, JOINED = X };

/* ---- config.json ---- */

static const vf_config_row config_rows[] = {
    VF_INT(chroma, heads, "num_attention_heads", 24, 1, 256),
    VF_INT(chroma, head, "attention_head_dim", 128, 8, 256),
    VF_INT(chroma, dual, "num_layers", 19, 1, 256),
    VF_INT(chroma, single, "num_single_layers", 38, 1, 256),
    VF_INT(chroma, in_channels, "in_channels", 64, PATCH, 4096),
    VF_INT(chroma, out_channels, "out_channels", 0, PATCH, 4096),
    VF_INT(chroma, text, "joint_attention_dim", 4096, 8, 65536),
    VF_INT(chroma, wide, "approximator_hidden_dim", 5120, 1, 65536),
    VF_INTS(chroma, axis, axes, "axes_dims_rope", 3, 2, 256),
    { 0 }
};

static int check_config(const chroma *m, vc_err *err)
{
    if (m->head % 8 || m->heads * m->head > MAX_WIDTH || m->text % 8)
        return vc_fail(err, VC_EFORMAT, "attention_head_dim and joint_attention_dim must be "
                       "multiples of 8, and num_attention_heads times attention_head_dim at most "
                       "%d", MAX_WIDTH);
    if (m->in_channels % PATCH)
        return vc_fail(err, VC_EFORMAT, "in_channels: %lld is no multiple of %d, the numbers of a "
                       "token that a channel of the latents has", (long long)m->in_channels, PATCH);
    return vtrain_check_axes("axes_dims_rope", m->axis, 3, m->head, err);
}

static int chroma_read(void *model, const cJSON *config, vc_err *err)
{
    chroma *m = model;
    memcpy(m->axis, (int64_t[]){ 16, 56, 56 }, sizeof m->axis);
    int rc = vf_config_read(m, config_rows, config, err);
    if (!m->out_channels)
        m->out_channels = m->in_channels;
    if (!rc)
        rc = check_config(m, err);
    if (rc)
        return rc;
    nn_flux_sizes(m->dit.sizes, m->heads, m->head);
    int64_t *sizes = m->dit.sizes;
    sizes[-IN] = m->in_channels;
    sizes[-OUT] = m->out_channels;
    sizes[-TEXT] = m->text;
    sizes[-WIDE] = m->wide;
    sizes[-MOD_IN] = MODS;
    sizes[-NN_FLUX_3D] = sizes[-NN_FLUX_6D] = VT_ABSENT;     /* the blocks' own modulation */
    memcpy(m->dit.layers, (int64_t[]){ m->dual, m->single }, 2 * sizeof(int64_t));
    return 0;
}

static void chroma_fit(const void *model, vtrain_fit *fit)
{
    const chroma *m = model;
    *fit = (vtrain_fit){ .channels = (int)m->out_channels / PATCH, .n_texts = 1,
                         .text_width = { m->text }, .mult = { 1, SIDE, SIDE },
                         .blocks = (int)(m->dual + m->single), .heads = m->heads };
}

/* The shift follows from the number of tokens, as FLUX.1-dev's does. */
static void chroma_schedule(const cJSON *config, vtrain_scheduler *s)
{
    (void)config;
    s->by_tokens = (vtrain_by_tokens){ .on = true, .type = VTRAIN_MU_EXPONENTIAL, .base = 0.5,
                                       .max = 1.15, .base_len = 256, .max_len = 4096 };
}

/* ---- prepare ---- */

/* The modulations of all blocks: those of the single blocks are first, then the dual blocks', of
 * the picture, then of the prompt, and the head's. */
static int64_t modulations(const chroma *m)
{
    return SINGLE_MODS * m->single + 2 * DUAL_MODS * m->dual + HEAD_MODS;
}

static vt_tensor *make_mod_places(vt_ctx *g, const chroma *m, int64_t rows)
{
    enum { MOST = 3 * 256 + 12 * 256 + 2 };
    const int64_t n = modulations(m);
    float at[MOST];
    vt_tensor *x[VTRAIN_ROWS];
    for (int64_t i = 0; i < n; i++)
        at[i] = (float)(1000 * i);
    x[0] = vt_from_host(g, VC_F32, 1, &n, at, VC_F32);
    for (int64_t b = 1; b < rows; b++)
        x[b] = x[0];
    return rows > 1 ? vt_concat(g, 0, (int)rows, x) : x[0];
}

static void chroma_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    chroma *m = model;
    const vtrain_cond *text = &in->text[0];
    if (vt_failed(g) || !in->x || !text->embeds)
        return;
    if (in->x->dim[2] != 1) {
        vt_fail(g, VC_EMISMATCH, "latents of %lld frames: Chroma makes pictures, which have one",
                (long long)in->x->dim[2]);
        return;
    }
    m->picture = flux_make_places(g, m->axis, in, in->made + COS);
    in->made[KEYS] = vtrain_key_lengths(g, text, m->picture);
    in->made[PLACES] = make_mod_places(g, m, in->x->dim[0]);
    flux_note_text_places(g, in, text);
    vtrain_note_mask(g, in, "attention_mask", text);
}

/* ---- forward ---- */

/* Makes the modulations of all blocks, [B,n,D] in f32. The guidance is 0. */
static vt_tensor *make_modulations(vt_ctx *g, const chroma *m, const vtrain_in *in)
{
    const model_weights *w = &m->w;
    const int64_t rows = in->x->dim[0], n = modulations(m);
    vt_tensor *part[2] = { vt_timestep(g, in->t, TIME, PERIOD),
                           vt_timestep(g, vt_scale(g, in->t, 0), TIME, PERIOD) };
    vt_tensor *place = vt_timestep(g, in->made[PLACES], PLACE, PERIOD);
    place = vt_reshape(g, place, 3, (int64_t[]){ rows, n, PLACE });
    part[0] = vt_reshape(g, vt_concat(g, 1, 2, part), 3, (int64_t[]){ rows, 1, 2 * TIME });
    part[0] = vt_add(g, vt_scale(g, place, 0), part[0]);
    part[1] = place;
    vt_tensor *x = vt_linear_f32(g, vt_concat(g, 2, 2, part), &w->mod_in);
    for (const mod_layer *l = w->mod; l < w->mod + LAYERS; l++) {
        vt_tensor *h = vt_rms_norm(g, x, l->norm, NORM_EPS);
        x = vt_add(g, x, vt_linear_f32(g, vt_silu(g, vt_linear_f32(g, h, &l->up)), &l->down));
    }
    return vt_linear_f32(g, x, &w->mod_out);
}

static void chroma_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const chroma *m = model;
    vt_tensor *patches = nn_patches(g, in->x, (int[]){ 1, SIDE, SIDE });
    vtrain_note(in, "hidden_states", patches);
    s[X] = vt_linear(g, patches, &m->w.patch);
    s[PROMPT] = vt_linear(g, vt_cast(g, in->text[0].embeds, vt_compute(g)), &m->w.text);
    s[ALL] = make_modulations(g, m, in);
    memcpy(s + MADE, in->made, PLACES * sizeof *in->made);
}

static vt_tensor *mods_from(vt_ctx *g, vt_tensor *all, int64_t first, int64_t n)
{
    return vt_slice(g, all, 1, first, first + n);
}

static void dual_block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                       vt_tensor **out)
{
    const chroma *m = model;
    const nn_dual_weights *w = weights;
    const nn_heads heads[2] = { { m->heads, EPS, in[MADE + COS], in[MADE + SIN], 0 },
                                { .n = m->heads, .eps = EPS } };
    nn_times t[2];
    for (int i = 0; i < 2; i++) {
        const int64_t block = m->dual * i + vtrain_block_of(m, weights);
        const int64_t first = SINGLE_MODS * m->single + DUAL_MODS * block;
        t[i] = (nn_times){ .e = mods_from(g, in[ALL], first, DUAL_MODS) };
    }
    nn_joint_block(g, in + X, t, w->stream, heads, in[MADE + KEYS], out);
}

/* Joins picture and prompt to one sequence, picture first. */
static void join_streams(vt_ctx *g, const void *model, vt_tensor *s[VT_BLOCK_IO])
{
    (void)model;
    s[JOINED] = vt_concat(g, 1, 2, (vt_tensor *[]){ s[X], s[PROMPT] });
    s[PROMPT] = NULL;
}

static void single_block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                         vt_tensor **out)
{
    const chroma *m = model;
    const int64_t first = SINGLE_MODS * (vtrain_block_of(m, weights) - m->dual);
    const nn_times t = { .e = mods_from(g, in[ALL], first, SINGLE_MODS) };
    const nn_heads heads = { m->heads, EPS, in[MADE + COS], in[MADE + SIN], 0 };
    out[JOINED] = nn_single_block(g, in[JOINED], &t, weights, &heads, in[MADE + KEYS]);
}

static vt_tensor *chroma_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    const chroma *m = model;
    vt_tensor *mod[HEAD_MODS], *x = vtrain_noisy_begin(g, s[JOINED], m->picture);
    vt_chunk(g, mods_from(g, s[ALL], modulations(m) - HEAD_MODS, HEAD_MODS), 1, HEAD_MODS, mod);
    x = vt_layer_norm_modulate(g, x, NULL, NULL, mod[0], mod[1], EPS);
    x = vtrain_noisy_end(g, vt_linear(g, x, &m->w.proj_out), m->picture);
    return vt_unpatchify(g, x, in->x->dim + 1, 1, SIDE, SIDE, VT_C_FIRST);
}

const vtrain_family vtrain_chroma = {
    .class_name = CHROMA_CLASS, .first_class = "Chroma", .convert = chroma_convert,
    .lora_names = chroma_names, .kohya = &vtrain_kohya_scripts,
    .text_args = { "encoder_hidden_states" }, .layout = VTRAIN_TOKENS, .time = VTRAIN_TIME_LEVEL,
    .size = sizeof(chroma), .weights = offsetof(chroma, w), .table = model_table,
    .read = chroma_read, .fit = chroma_fit, .prepare = chroma_prepare, .embed = chroma_embed,
    .two_parts = true, .head = chroma_head,
    .blocks = { { "transformer_blocks.%d.", nn_dual_table, sizeof(nn_dual_weights), N_IN, 2,
                  dual_block, NULL, NULL },
                { "single_transformer_blocks.%d.", nn_single_table, sizeof(nn_single_weights), N_IN,
                  1, single_block, join_streams, NULL } },
    .objective = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
    .flow_shift = 1, .logit_mean = 0, .logit_std = 1, .schedule = chroma_schedule,
    .posterior_mean = false, .bf16 = true,
    .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 5, .inference_steps = 35, .batch = 1,
    .steps = 1000,
    .lora_targets = "to_q,to_k,to_v,to_out.0,add_q_proj,add_k_proj,add_v_proj,to_add_out",
};
