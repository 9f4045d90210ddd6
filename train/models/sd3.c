/* sd3.c - the transformer of Stable Diffusion 3 and 3.5 (Esser et al. 2024), an MM-DiT. Text and
 * picture are two streams with weights of their own, which share each block's attention; the last
 * block reads the text and leaves it unchanged. Semantics and names are those of diffusers'
 * SD3Transformer2DModel: 3 has no norms of queries and keys, 3.5 has them, and the first blocks of
 * 3.5 medium have a second attention, of the picture alone. Latents: one [B,C,1,h,w].
 *
 * The prompt is that of diffusers' pipeline: a token of the two CLIP encoders has the states of
 * both, one behind the other, and zeros up to the width of T5's, whose tokens follow. A text of T5
 * of one row stands for a prompt that T5 was not given: the pipeline has NO_T5 rows of zeros then.
 *
 * It is the worked example of docs/adding-a-model.md. The tables have macros of their own, as those
 * of every family, some in the same words as ltx.c's: a family's file is read alone, from the names
 * of its weights to its forward. */
#include <string.h>

#include "common/nn/embeddings.h"
#include "common/nn/joint_block.h"
#include "formats/json/config.h"
#include "train/models/dit.h"
#include "train/models/sd3.h"

#define EPS 1e-6f

enum { TIME = 256, MLP = 4, MAX_WIDTH = 16384, MAX_LAYERS = 256, NO_T5 = 256 };
enum { CLIP_L, CLIP_G, T5, N_TEXTS };         /* the slots of the texts */

/* Indices into the sizes of the weight tables. */
enum { D = -1, IN = -2, PATCH = -3, TEXT = -4, POOLED = -5, TABLE = -6, HEAD = -7, HIDDEN = -8,
       SIX_D = -9, TWO_D = -10, TOKEN_OUT = -11, NINE_D = -12 };

typedef struct block_weights { nn_stream_weights stream[2]; } block_weights;

typedef struct model_weights {
    vt_lin patch;                             /* w [D,IN,PATCH,PATCH] */
    vt_tensor *table;                         /* [1,TABLE,D]: the table of positions */
    vt_lin text, time1, time2, pooled1, pooled2, mod_out, proj_out;
} model_weights;

#define LIN(type, field, name, out, in) \
    { name, VT_W_LINEAR, offsetof(type, field), { out, in }, VT_INIT_XAVIER }
#define BLOCK(field, name, out, in) LIN(block_weights, field, name, out, in)
#define NORM(field, name) \
    { name, VT_W_TENSOR, offsetof(block_weights, field), { HEAD }, VT_INIT_ONE }

static const vt_weight model_table[] = {
    { "pos_embed.pos_embed", VT_W_BUFFER, offsetof(model_weights, table), { 1, TABLE, D },
      VT_INIT_ZERO },
    { "pos_embed.proj", VT_W_CONV, offsetof(model_weights, patch), { D, IN, PATCH, PATCH },
      VT_INIT_XAVIER },
    { "pos_embed.proj.bias", VT_W_TENSOR, offsetof(model_weights, patch.b), { D }, VT_INIT_ZERO },
    LIN(model_weights, time1, "time_text_embed.timestep_embedder.linear_1", D, TIME),
    LIN(model_weights, time2, "time_text_embed.timestep_embedder.linear_2", D, D),
    LIN(model_weights, pooled1, "time_text_embed.text_embedder.linear_1", D, POOLED),
    LIN(model_weights, pooled2, "time_text_embed.text_embedder.linear_2", D, D),
    LIN(model_weights, text, "context_embedder", D, TEXT),
    LIN(model_weights, mod_out, "norm_out.linear", TWO_D, D),
    LIN(model_weights, proj_out, "proj_out", TOKEN_OUT, D),
    { 0 }
};

/* Rows of every block; their names follow "transformer_blocks.%d.". */
#define BOTH_STREAMS(parts) \
    BLOCK(stream[0].mod, "norm1.linear", parts, D), \
    NORM(stream[0].attn.norm_q.w, "attn.norm_q.weight"), \
    NORM(stream[0].attn.norm_k.w, "attn.norm_k.weight"), \
    BLOCK(stream[0].attn.q, "attn.to_q", D, D), \
    BLOCK(stream[0].attn.k, "attn.to_k", D, D), \
    BLOCK(stream[0].attn.v, "attn.to_v", D, D), \
    BLOCK(stream[0].attn.out, "attn.to_out.0", D, D), \
    BLOCK(stream[0].up, "ff.net.0.proj", HIDDEN, D), \
    BLOCK(stream[0].down, "ff.net.2", D, HIDDEN), \
    NORM(stream[1].attn.norm_q.w, "attn.norm_added_q.weight"), \
    NORM(stream[1].attn.norm_k.w, "attn.norm_added_k.weight"), \
    BLOCK(stream[1].attn.q, "attn.add_q_proj", D, D), \
    BLOCK(stream[1].attn.k, "attn.add_k_proj", D, D), \
    BLOCK(stream[1].attn.v, "attn.add_v_proj", D, D)

#define TEXT_STREAM \
    BLOCK(stream[1].mod, "norm1_context.linear", SIX_D, D), \
    BLOCK(stream[1].attn.out, "attn.to_add_out", D, D), \
    BLOCK(stream[1].up, "ff_context.net.0.proj", HIDDEN, D), \
    BLOCK(stream[1].down, "ff_context.net.2", D, HIDDEN)

static const vt_weight dual_table[] = {
    BOTH_STREAMS(NINE_D),
    TEXT_STREAM,
    NORM(stream[0].own.norm_q.w, "attn2.norm_q.weight"),
    NORM(stream[0].own.norm_k.w, "attn2.norm_k.weight"),
    BLOCK(stream[0].own.q, "attn2.to_q", D, D),
    BLOCK(stream[0].own.k, "attn2.to_k", D, D),
    BLOCK(stream[0].own.v, "attn2.to_v", D, D),
    BLOCK(stream[0].own.out, "attn2.to_out.0", D, D),
    { 0 }
};
static const vt_weight block_table[] = { BOTH_STREAMS(SIX_D), TEXT_STREAM, { 0 } };
static const vt_weight last_table[] = {
    BOTH_STREAMS(SIX_D),
    BLOCK(stream[1].mod, "norm1_context.linear", TWO_D, D),
    { 0 }
};

typedef struct sd3 {
    vtrain_dit dit;
    int64_t layers, heads, head, in_channels, out_channels, patch, text, width, pooled, side;
    int64_t dual[MAX_LAYERS];                 /* dual_attention_layers */
    int qk_norm, n_dual;
    int64_t picture;                          /* tokens of the picture, in this step */
    model_weights w;
} sd3;

static const vf_config_row config_rows[] = {
    VF_INT(sd3, layers, "num_layers", 18, 1, MAX_LAYERS),
    VF_INT(sd3, heads, "num_attention_heads", 18, 1, 256),
    VF_INT(sd3, head, "attention_head_dim", 64, 8, 256),
    VF_INT(sd3, in_channels, "in_channels", 16, 1, 1024),
    VF_INT(sd3, out_channels, "out_channels", 16, 1, 1024),
    VF_INT(sd3, patch, "patch_size", 2, 1, 16),
    VF_INT(sd3, text, "joint_attention_dim", 4096, 1, 65536),
    VF_INT(sd3, width, "caption_projection_dim", 1152, 1, MAX_WIDTH),
    VF_INT(sd3, pooled, "pooled_projection_dim", 2048, 1, 65536),
    VF_INT(sd3, side, "pos_embed_max_size", 96, 1, 1024),
    VF_WORD(sd3, qk_norm, "qk_norm", "", "|rms_norm"),
    VF_INTS(sd3, dual, n_dual, "dual_attention_layers", 0, 0, MAX_LAYERS),
    { 0 }
};

/* Blocks of one kind follow each other: those with a second attention come first. */
static int check_dual(const sd3 *m, vc_err *err)
{
    for (int i = 0; i < m->n_dual; i++)
        if (m->dual[i] != i || i >= m->layers - 1)
            return vc_fail(err, VC_EFORMAT, "dual_attention_layers: its number %d is %lld; the "
                           "layers with a second attention must be 0, 1, 2, ... in this order, "
                           "and the last layer, %lld, has none", i + 1, (long long)m->dual[i],
                           (long long)m->layers - 1);
    return 0;
}

static int sd3_read(void *model, const cJSON *config, vc_err *err)
{
    sd3 *m = model;
    int rc = vf_config_read(m, config_rows, config, err);
    if (rc)
        return rc;
    int64_t d = m->width, p = m->patch;
    if (m->head % 8 || m->heads * m->head != d || m->out_channels != m->in_channels)
        return vc_fail(err, VC_EFORMAT, "attention_head_dim must be a multiple of 8, "
                       "caption_projection_dim must be num_attention_heads times "
                       "attention_head_dim, and out_channels must be in_channels");
    const int64_t sizes[VTRAIN_SIZES] = {
        [-D] = d, [-IN] = m->in_channels, [-PATCH] = p, [-TEXT] = m->text, [-POOLED] = m->pooled,
        [-TABLE] = m->side * m->side, [-HEAD] = m->qk_norm ? m->head : VT_ABSENT,
        [-HIDDEN] = MLP * d, [-SIX_D] = 6 * d, [-TWO_D] = 2 * d,
        [-TOKEN_OUT] = m->out_channels * p * p, [-NINE_D] = 9 * d,
    };
    const int64_t layers[VTRAIN_KINDS] = { m->n_dual, m->layers - 1 - m->n_dual, 1 };
    memcpy(m->dit.sizes, sizes, sizeof sizes);
    memcpy(m->dit.layers, layers, sizeof layers);
    return check_dual(m, err);
}

static void sd3_fit(const void *model, vtrain_fit *fit)
{
    const sd3 *m = model;
    *fit = (vtrain_fit){ .channels = (int)m->in_channels, .n_texts = N_TEXTS,
                         .text_width = { [T5] = m->text }, .blocks = (int)m->layers,
                         .heads = m->heads,
                         .mult = { 1, (int)m->patch, (int)m->patch } };
}

static int64_t width_of(const vt_tensor *x)
{
    return x ? vt_last(x) : 0;
}

/* config.json has the widths of both CLIP encoders together alone. */
static void check_texts(vt_ctx *g, const sd3 *m, const vtrain_cond *text)
{
    const vt_tensor *l = text[CLIP_L].embeds, *clip_g = text[CLIP_G].embeds;
    const int64_t pooled = width_of(text[CLIP_L].pooled) + width_of(text[CLIP_G].pooled);
    if (pooled != m->pooled)
        vt_fail(g, VC_EMISMATCH, "pooled prompts are %lld wide, but pooled_projection_dim is %lld: "
                "encode the captions with this model's text encoders (vprep --model)",
                (long long)pooled, (long long)m->pooled);
    else if (!l || !clip_g || l->dim[1] != clip_g->dim[1] || !text[T5].embeds ||
             width_of(l) + width_of(clip_g) > m->text || width_of(text[T5].embeds) != m->text)
        vt_fail(g, VC_EMISMATCH, "the prompts' tokens are %lld and %lld wide of CLIP, %lld of T5; "
                "joint_attention_dim is %lld: encode the captions with this model's text encoders "
                "(vprep --model)", (long long)width_of(l), (long long)width_of(clip_g),
                (long long)width_of(text[T5].embeds), (long long)m->text);
    for (int i = 0; i < N_TEXTS; i++)
        vtrain_check_padding(g, &text[i]);
}

static void fill_zeros(const void *width, int64_t first, int64_t n, float *rows)
{
    (void)first;
    memset(rows, 0, (size_t)(n * *(const int64_t *)width) * sizeof *rows);
}

static vt_tensor *zeros(vt_ctx *g, int64_t batch, int64_t rows, int64_t width)
{
    vt_tensor *x = vt_from_rows(g, batch * rows, width, fill_zeros, &width);
    return vt_reshape(g, x, 3, (int64_t[]){ batch, rows, width });
}

enum { CLIP_PAD, T5_ZEROS };                  /* in->made */

static void sd3_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    sd3 *m = model;
    const vt_tensor *x = in->x;
    if (!x || vt_failed(g))
        return;
    if (x->dim[2] != 1 || x->dim[3] / m->patch > m->side || x->dim[4] / m->patch > m->side)
        vt_fail(g, VC_EMISMATCH, "latents %lldx%lldx%lld: this model makes one picture of at most "
                "%lld rows and columns (pos_embed_max_size, patch_size)", (long long)x->dim[2],
                (long long)x->dim[3], (long long)x->dim[4], (long long)(m->side * m->patch));
    check_texts(g, m, in->text);
    if (vt_failed(g))
        return;
    m->picture = x->dim[3] / m->patch * (x->dim[4] / m->patch);
    const vt_tensor *clip = in->text[CLIP_L].embeds;
    const int64_t pad = m->text - width_of(clip) - width_of(in->text[CLIP_G].embeds);
    in->made[CLIP_PAD] = pad ? zeros(g, x->dim[0], clip->dim[1], pad) : NULL;
    in->made[T5_ZEROS] = in->text[T5].embeds->dim[1] == 1 ? zeros(g, x->dim[0], NO_T5, m->text)
                                                         : NULL;
}

/* The inputs of a block: the two streams, then the embedding of the time. */
enum { X, TEXT_AT, TIME_AT, N_IN };

/* The tokens of all texts, [B,n,TEXT] in the compute type. */
static vt_tensor *prompt_of(vt_ctx *g, const vtrain_in *in)
{
    vt_tensor *wide[3] = { in->text[CLIP_L].embeds, in->text[CLIP_G].embeds, in->made[CLIP_PAD] };
    vt_tensor *t5 = in->made[T5_ZEROS] ? in->made[T5_ZEROS] : in->text[T5].embeds;
    vt_tensor *clip = vt_concat(g, 2, wide[2] ? 3 : 2, wide);
    vt_tensor *all = vt_concat(g, 1, 2, (vt_tensor *[]){ clip, t5 });
    vtrain_note(in, "encoder_hidden_states", all);
    return vt_cast(g, all, vt_compute(g));
}

/* [B,POOLED]: those of both CLIP encoders. */
static vt_tensor *pooled_of(vt_ctx *g, const vtrain_in *in)
{
    vt_tensor *all = vt_concat(g, 1, 2, (vt_tensor *[]){ in->text[CLIP_L].pooled,
                                                         in->text[CLIP_G].pooled });
    vtrain_note(in, "pooled_projections", all);
    return all;
}

static void sd3_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const sd3 *m = model;
    const model_weights *w = &m->w;
    const int p = (int)m->patch, patch[3] = { 1, p, p };
    vt_tensor *time = nn_embed_number(g, in->t, &w->time1, &w->time2, VC_F32);
    vt_tensor *pooled = nn_embed_vector(g, pooled_of(g, in), &w->pooled1, &w->pooled2, VC_F32);
    s[TIME_AT] = vt_silu(g, vt_add(g, time, pooled));
    s[TEXT_AT] = vt_linear(g, prompt_of(g, in), &w->text);
    s[X] = nn_add_cropped(g, nn_embed_patches(g, nn_patches(g, in->x, patch), &w->patch), w->table,
                          m->side, in->x->dim[3] / p, in->x->dim[4] / p);
}

static void block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                  vt_tensor **out)
{
    const sd3 *m = model;
    const block_weights *w = weights;
    const nn_heads h = { .n = m->heads, .eps = EPS };
    const nn_times t = { .e = in[TIME_AT] };
    nn_joint_block(g, in + X, (const nn_times[2]){ t, t }, w->stream, (const nn_heads[2]){ h, h },
                   NULL, out);
}

static vt_tensor *sd3_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    const sd3 *m = model;
    const int p = (int)m->patch;
    vt_tensor *e[2];
    vt_chunk(g, nn_modulation(g, s[TIME_AT], &m->w.mod_out, 2), 1, 2, e);
    vt_tensor *noisy = vtrain_noisy_begin(g, s[X], m->picture);
    vt_tensor *x = vt_layer_norm_modulate(g, noisy, NULL, NULL, e[1], e[0], EPS);
    x = vtrain_noisy_end(g, vt_linear(g, x, &m->w.proj_out), m->picture);
    return vt_unpatchify(g, x, in->x->dim + 1, 1, p, p, VT_C_LAST);
}

#define BLOCKS(table, n_out) \
    { "transformer_blocks.%d.", table, sizeof(block_weights), N_IN, n_out, block, NULL, NULL }

const vtrain_family vtrain_sd3 = {
    .class_name = "SD3Transformer2DModel", .first_class = "MMDiTX", .convert = sd3_convert,
    .lora_names = sd3_names, .kohya = &vtrain_kohya_scripts,
    .layout = VTRAIN_CHANNELS_FIRST,
    .size = sizeof(sd3), .weights = offsetof(sd3, w), .table = model_table,
    .read = sd3_read, .fit = sd3_fit, .prepare = sd3_prepare, .embed = sd3_embed, .head = sd3_head,
    .two_parts = true, .skips_layers = true,
    .blocks = { BLOCKS(dual_table, 2), BLOCKS(block_table, 2), BLOCKS(last_table, 1) },
    .objective = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL, .flow_shift = 3, .logit_std = 1,
    .bf16 = true, .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 7, .batch = 1, .steps = 1000,
    .lora_targets = "attn.to_q,attn.to_k,attn.to_v,attn.to_out.0,attn.add_q_proj,attn.add_k_proj,"
                    "attn.add_v_proj,attn.to_add_out",
};
