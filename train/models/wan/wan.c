/* wan.c - Wan 2.1 and 2.2 (Wan et al. 2025): blocks of self-attention over the tokens of the video,
 * cross-attention to the prompt and a feed-forward layer; the time modulates the first and the last
 * of the three. Semantics and names are those of diffusers' WanTransformer3DModel, in its variants:
 *
 *     T2V             1.3B, 14B, and each transformer of A14B
 *     I2V             a mask of the known frames and a clip of them beside the noisy latents; 2.1
 *                     attends to the picture's CLIP embeddings as well
 *     FLF2V           I2V whose last frame is known too
 *     Fun-Control     VideoX-Fun's: a control clip beside the noisy latents, and, with CLIP
 *                     embeddings, the first frame
 *     TI2V-5B         a clip may begin with a clean frame, whose tokens have time 0
 *
 * All prompts have 512 tokens: rows of zeros follow a shorter one, and the video sees them too.
 * WanVACETransformer3DModel, whose blocks stand beside these, is in wan_vace.c; SkyReels V2, which
 * has the same blocks, in skyreels2.c. In both each latent frame may have a time of its own. */
#include <stdlib.h>
#include <string.h>

#include "common/nn/embeddings.h"
#include "common/nn/positions.h"
#include "common/tensor/exchange.h"
#include "formats/json/config.h"
#include "train/models/wan/wan.h"

#define IMAGE_EPS 1e-5f                       /* of the norms around the CLIP embeddings' layers */
#define THETA 10000
#define SLOW_RATE 16.0f                       /* frames per second */

enum { TEXT_ROWS = 512, MASK_CHANNELS = 4, CHANNELS_5B = 48, MAX_WIDTH = 16384,
       MOST_RUNS = 256, KNOWN_RATES = 2 };                     /* of 16 frames a second, and all others */

#define MODEL(field, name, out, in) WAN_LIN(wan_weights, field, name, out, in)
#define VEC(field, name, n, start) WAN_VEC(wan_weights, field, name, n, start)
#define EMBEDDER "condition_embedder."

const vt_weight wan_table[] = {
    { "patch_embedding", VT_W_CONV, offsetof(wan_weights, patch),
      { D, IN, PATCH_T, PATCH_H, PATCH_W }, VT_INIT_XAVIER },
    VEC(patch.b, "patch_embedding.bias", D, VT_INIT_ZERO),
    MODEL(time1, EMBEDDER "time_embedder.linear_1", D, TIME),
    MODEL(time2, EMBEDDER "time_embedder.linear_2", D, D),
    MODEL(time_proj, EMBEDDER "time_proj", SIX_D, D),
    MODEL(text1, EMBEDDER "text_embedder.linear_1", D, TEXT),
    MODEL(text2, EMBEDDER "text_embedder.linear_2", D, D),
    { EMBEDDER "image_embedder.pos_embed", VT_W_TENSOR, offsetof(wan_weights, image_positions),
      { 1, IMAGE_ROWS, IMAGE }, VT_INIT_ZERO },
    VEC(image_norm1.w, EMBEDDER "image_embedder.norm1.weight", IMAGE, VT_INIT_ONE),
    VEC(image_norm1.b, EMBEDDER "image_embedder.norm1.bias", IMAGE, VT_INIT_ZERO),
    MODEL(image1, EMBEDDER "image_embedder.ff.net.0.proj", IMAGE, IMAGE),
    MODEL(image2, EMBEDDER "image_embedder.ff.net.2", IMAGE_D, IMAGE),
    VEC(image_norm2.w, EMBEDDER "image_embedder.norm2.weight", IMAGE_D, VT_INIT_ONE),
    VEC(image_norm2.b, EMBEDDER "image_embedder.norm2.bias", IMAGE_D, VT_INIT_ZERO),
    { "scale_shift_table", VT_W_TENSOR, offsetof(wan_weights, table), { 1, 2, D },
      VT_INIT_NORMAL },
    MODEL(proj_out, "proj_out", TOKEN_OUT, D),
    { "vace_patch_embedding", VT_W_CONV, offsetof(wan_weights, vace_patch),
      { D, VACE_IN, PATCH_T, PATCH_H, PATCH_W }, VT_INIT_XAVIER },
    VEC(vace_patch.b, "vace_patch_embedding.bias", VACE_D, VT_INIT_ZERO),
    MODEL(vace_in, "vace_blocks.0.proj_in", VACE_D, VACE_D),
    { "fps_embedding.weight", VT_W_TENSOR, offsetof(wan_weights, rates), { RATES, RATE_D },
      VT_INIT_NORMAL },
    MODEL(rate1, "fps_projection.net.0.proj", RATE_D, RATE_D),
    MODEL(rate2, "fps_projection.net.2", RATE_SIX_D, RATE_D),
    { 0 }
};

const vt_weight wan_block_table[] = { WAN_BLOCK, { 0 } };

/* ---- config.json ---- */

static const vf_config_row config_rows[] = {
    WAN_CONFIG(40, 13824, 40),
    { 0 }
};

/* The pictures beside the noisy latents, by the number of channels: mask and clip of the known
 * frames; a control clip; a control clip and the first frame. 0: none, or no known model. */
static unsigned roles_beside(const wan *m)
{
    const unsigned control = 1u << VC_ROLE_CONTROL;
    const int64_t c = m->out_channels, beside = m->in_channels - c;
    if (beside == c + MASK_CHANNELS)
        return 1u << VC_ROLE_VIDEO | 1u << VC_ROLE_MASK;
    return beside == c ? control : beside == 2 * c ? control | 1u << VC_ROLE_IMAGE : 0;
}

static vc_mode mode_of(unsigned roles)
{
    return roles & 1u << VC_ROLE_VIDEO ? VC_MODE_I2V
           : roles & 1u << VC_ROLE_IMAGE ? VC_MODE_CONTROL_REF
           : roles ? VC_MODE_CONTROL : VC_MODE_NORMAL;
}

/* Fields that do not go together. */
static int check_config(const wan *m, vc_err *err)
{
    int64_t d = m->heads * m->head, beside = m->in_channels - m->out_channels;
    if (m->head % 8 || d > MAX_WIDTH)
        return vc_fail(err, VC_EFORMAT, "attention_head_dim must be a multiple of 8, and "
                       "num_attention_heads times attention_head_dim at most %d", MAX_WIDTH);
    if (m->time % 2)
        return vc_fail(err, VC_EFORMAT, "freq_dim: %lld is not even", (long long)m->time);
    if (m->image && !beside)
        return vc_fail(err, VC_EINVAL, "image_dim: %lld with in_channels %lld is no known model",
                       (long long)m->image, (long long)m->in_channels);
    if (m->added != (m->image ? d : 0))
        return vc_fail(err, VC_EFORMAT, "added_kv_proj_dim: %lld, it must be %lld where image_dim "
                       "is %lld", (long long)m->added, m->image ? (long long)d : 0,
                       (long long)m->image);
    if (m->image_rows && !m->image)
        return vc_fail(err, VC_EFORMAT, "pos_embed_seq_len: %lld without image_dim",
                       (long long)m->image_rows);
    return 0;
}

int wan_read_rows(wan *m, const vf_config_row *fields, const cJSON *config, vc_err *err)
{
    memcpy(m->patch, (int64_t[]){ 1, 2, 2 }, sizeof m->patch);
    int rc = vf_config_read(m, fields, config, err);
    if (!rc)
        rc = check_config(m, err);
    if (rc)
        return rc;
    int64_t d = m->heads * m->head, none = VT_ABSENT;
    const int64_t sizes[VTRAIN_SIZES] = {
        [-D] = d, [-IN] = m->in_channels, [-PATCH_T] = m->patch[0], [-PATCH_H] = m->patch[1],
        [-PATCH_W] = m->patch[2], [-TIME] = m->time, [-TEXT] = m->text, [-HIDDEN] = m->hidden,
        [-SIX_D] = 6 * d, [-TOKEN_OUT] = m->out_channels * m->patch[0] * m->patch[1] * m->patch[2],
        [-IMAGE] = m->image ? m->image : none, [-IMAGE_D] = m->image ? d : none,
        [-IMAGE_ROWS] = m->image_rows ? m->image_rows : none, [-VACE_IN] = none, [-VACE_D] = none,
        [-RATES] = m->rate ? KNOWN_RATES : none, [-RATE_D] = m->rate ? d : none,
        [-RATE_SIX_D] = m->rate ? 6 * d : none,
    };
    memcpy(m->dit.sizes, sizes, sizeof sizes);
    m->dit.layers[0] = m->layers;
    return 0;
}

int wan_read(void *model, const cJSON *config, vc_err *err)
{
    return wan_read_rows(model, config_rows, config, err);
}

void wan_fit(const void *model, vtrain_fit *fit)
{
    const wan *m = model;
    const unsigned beside = roles_beside(m);
    *fit = (vtrain_fit){ .channels = (int)m->out_channels, .n_texts = 1, .text_width = { m->text },
                         .text_rows = { TEXT_ROWS },
                         .mult = { (int)m->patch[0], (int)m->patch[1], (int)m->patch[2] },
                         .token_times = !beside, .frame_times = true,
                         .causal = m->causal > 1 ? (int)m->causal : 1, .mean_roles = ~0u,
                         .mode = mode_of(beside),
                         .embeds = { m->image_rows, m->image },
                         .mask_channels = MASK_CHANNELS,
                         .roles = beside | (m->image ? 1u << VC_ROLE_VISION : 0),
                         .blocks = (int)m->layers, .heads = m->heads };
}

/* ---- what does not depend on weights ---- */

/* Fails the step where the inputs are not the model's. */
static bool check_inputs(vt_ctx *g, const wan *m, const vtrain_in *in, const nn_axis axis[3])
{
    const vt_tensor *image = in->cond[VC_ROLE_VISION];
    int64_t rows = in->text[0].embeds->dim[1];
    if (rows != TEXT_ROWS) {
        vt_fail(g, VC_EMISMATCH, "prompts of %lld tokens: Wan attends to %d, of which those "
                "behind the prompt are zeros", (long long)rows, TEXT_ROWS);
        return false;
    }
    for (int i = 0; i < 3; i++)
        if (axis[i].n > m->positions) {
            vt_fail(g, VC_EMISMATCH, "latents of %lld x %lld x %lld frames, rows and columns of "
                    "tokens: rope_max_seq_len is %lld", (long long)axis[0].n, (long long)axis[1].n,
                    (long long)axis[2].n, (long long)m->positions);
            return false;
        }
    if (m->run > 1 && (axis[0].n % m->run || axis[0].n / m->run > MOST_RUNS)) {
        vt_fail(g, VC_EMISMATCH, "%lld latent frames: with num_frame_per_block %lld their number "
                "is a multiple of it, at most %lld", (long long)axis[0].n, (long long)m->run,
                (long long)(MOST_RUNS * m->run));
        return false;
    }
    if (m->image && !image) {
        vt_fail(g, VC_EMISMATCH, "the batch has no CLIP embeddings of a picture, to which this "
                "transformer attends");
        return false;
    }
    if (m->image_rows && image->dim[1] != m->image_rows) {
        vt_fail(g, VC_EMISMATCH, "CLIP embeddings of a picture: %lld tokens, the transformer has "
                "positions for %lld", (long long)image->dim[1], (long long)m->image_rows);
        return false;
    }
    return true;
}

/* Makes 1 or 0, [B,D], for each of the embeddings of frame rates: whether a row has it. */
static void make_rates(vt_ctx *g, const wan *m, vtrain_in *in)
{
    const int64_t rows = in->x->dim[0], d = m->heads * m->head, dim[2] = { rows, d };
    float *has = malloc((size_t)(rows * d) * sizeof *has);
    for (int k = 0; has && k < KNOWN_RATES; k++) {
        for (int64_t i = 0; i < rows * d; i++)
            has[i] = (in->fps && in->fps[i / d] == SLOW_RATE) == (k == 0);
        in->made[RATE + k] = vt_from_host(g, VC_F32, 2, dim, has, VC_F32);
    }
    if (!has)
        vt_fail(g, VC_ENOMEM, "frame rates: out of memory");
    free(has);
}

void wan_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    wan *m = model;
    if (vt_failed(g) || !in->x || !in->text[0].embeds)
        return;
    const int64_t *dim = in->x->dim + 2, side = m->head / 6;
    const nn_axis axis[3] = { { dim[0] / m->patch[0], 0, 1, m->head / 2 - 2 * side },
                              { dim[1] / m->patch[1], 0, 1, side },
                              { dim[2] / m->patch[2], 0, 1, side } };
    m->run = in->causal ? in->causal : m->causal;
    if (!check_inputs(g, m, in, axis))
        return;
    m->all_frames = axis[0].n;
    m->frames = in->frame_t ? axis[0].n : 0;
    m->clean = in->token_t && !in->frame_t ? axis[1].n * axis[2].n : 0;
    nn_rope(g, axis, THETA, in->made + COS);
    if (m->rate)
        make_rates(g, m, in);
}

/* ---- forward ---- */

/* Puts the pictures beside the noisy latents. */
static vt_tensor *join(vt_ctx *g, const wan *m, const vtrain_in *in)
{
    if (!roles_beside(m))
        return in->x;
    vt_tensor *both = vtrain_join(g, in, roles_beside(m), MASK_CHANNELS);
    vtrain_note(in, "hidden_states", both);
    return both;
}

/* The numbers of the frame rates, which are added to those of the times: [B,6,D]. */
static vt_tensor *embed_rates(vt_ctx *g, const wan_weights *w, const vtrain_in *in)
{
    vt_tensor *part[KNOWN_RATES];
    for (int i = 0; i < KNOWN_RATES; i++)
        part[i] = vt_mul(g, in->made[RATE + i],
                         vt_cast(g, vt_slice(g, w->rates, 0, i, i + 1), VC_F32));
    vt_tensor *e = vt_add(g, part[0], part[1]);
    return nn_modulation(g, vt_silu(g, vt_linear_f32(g, e, &w->rate1)), &w->rate2, 6);
}

/* Adds those of the rows to the numbers of times e, [B,6,D] or, by rows and frames, [B*f,6,D]. */
static vt_tensor *add_rates(vt_ctx *g, vt_tensor *e, vt_tensor *rates)
{
    if (!e || !rates)
        return NULL;
    const int64_t *d = e->dim, rows = rates->dim[0], all[3] = { d[0], d[1], d[2] };
    const int64_t split[4] = { rows, d[0] / rows, d[1], d[2] }, one[4] = { rows, 1, d[1], d[2] };
    e = vt_add(g, vt_reshape(g, e, 4, split), vt_reshape(g, rates, 4, one));
    return vt_reshape(g, e, 3, all);
}

/* Sets s[E] to the embedding of a clean first frame's time, if there is one, s[E + 1] to that of
 * the other tokens' time, and s[MOD], s[MOD + 1] to the numbers by which these modulate all
 * blocks. */
static void embed_times(vt_ctx *g, const wan *m, const vtrain_in *in, vt_tensor **s)
{
    const wan_weights *w = &m->w;
    vt_tensor *t[2] = { NULL, in->t }, *rates = m->rate ? embed_rates(g, w, in) : NULL;
    if (m->clean)
        t[0] = vt_pack(g, vt_reshape(g, vt_slice(g, in->token_t, 1, 0, 1), 1, in->t->dim));
    if (m->frames)
        t[1] = vt_reshape(g, in->frame_t, 1, (int64_t[]){ -1 });
    for (int i = !m->clean; i < 2; i++) {
        s[E + i] = nn_embed_number(g, t[i], &w->time1, &w->time2, VC_F32);
        s[MOD + i] = nn_modulation(g, vt_silu(g, s[E + i]), &w->time_proj, 6);
        if (m->rate)
            s[MOD + i] = add_rates(g, s[MOD + i], rates);
    }
}

static vt_tensor *embed_picture(vt_ctx *g, const wan_weights *w, const vtrain_in *in)
{
    vt_tensor *x = in->cond[VC_ROLE_VISION];
    vtrain_note(in, "encoder_hidden_states_image", x);
    x = vt_cast(g, x, vt_compute(g));
    if (w->image_positions)
        x = vt_add(g, x, w->image_positions);
    x = vt_layer_norm(g, x, w->image_norm1.w, w->image_norm1.b, IMAGE_EPS);
    x = vt_linear(g, vt_gelu_erf(g, vt_linear(g, x, &w->image1)), &w->image2);
    return vt_layer_norm(g, x, w->image_norm2.w, w->image_norm2.b, IMAGE_EPS);
}

void wan_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const wan *m = model;
    const wan_weights *w = &m->w;
    const int patch[3] = { (int)m->patch[0], (int)m->patch[1], (int)m->patch[2] };
    s[X] = nn_embed_patches(g, nn_patches(g, join(g, m, in), patch), &w->patch);
    s[PROMPT] = vt_feed_forward(g, vt_cast(g, in->text[0].embeds, vt_compute(g)), &w->text1,
                                &w->text2);
    if (m->image)
        s[PICTURE] = embed_picture(g, w, in);
    embed_times(g, m, in, s);
    memcpy(s + MADE, in->made, 2 * sizeof *in->made);
}

/* Prompt and picture have attentions of their own to the same queries, whose results add up. */
static vt_tensor *cross_attention(vt_ctx *g, const wan *m, const wan_block_weights *w, vt_tensor *x,
                                  vt_tensor *prompt, vt_tensor *picture)
{
    const nn_heads heads = { .n = m->heads, .eps = (float)m->eps };
    if (!picture)
        return nn_cross_attention(g, x, prompt, &w->cross, &heads, NULL);
    vt_tensor *q = nn_project(g, x, &w->cross.q, &w->cross.norm_q, &heads);
    vt_tensor *k = nn_project(g, prompt, &w->cross.k, &w->cross.norm_k, &heads);
    vt_tensor *v = nn_project(g, prompt, &w->cross.v, NULL, &heads);
    vt_tensor *image_k = nn_project(g, picture, &w->image_k, &w->norm_image_k, &heads);
    vt_tensor *image_v = nn_project(g, picture, &w->image_v, NULL, &heads);
    x = vt_add(g, nn_attend(g, q, k, v, NULL, NULL), nn_attend(g, q, image_k, image_v, NULL, NULL));
    return vt_linear(g, x, &w->cross.out);
}

/* Where frames have times of their own, x [B,N,D] by rows and frames, [B*f,N/f,D], and back. */
static vt_tensor *by_frame(vt_ctx *g, const wan *m, vt_tensor *x)
{
    if (!x || !m->frames)
        return x;
    return vt_reshape(g, x, 3, (int64_t[]){ x->dim[0] * m->frames, -1, x->dim[2] });
}

static vt_tensor *by_row(vt_ctx *g, const wan *m, vt_tensor *x)
{
    if (!x || !m->frames)
        return x;
    return vt_reshape(g, x, 3, (int64_t[]){ x->dim[0] / m->frames, -1, x->dim[2] });
}

/* Tokens of each run of frames attend to those of its frames and of the frames before. */
static vt_tensor *causal_attention(vt_ctx *g, const wan *m, vt_tensor *x, const nn_attention *w,
                                   const nn_heads *heads)
{
    const nn_heads own = nn_own_heads(g, heads);
    vt_tensor *q = vt_to_heads(g, nn_project(g, x, &w->q, &w->norm_q, &own));
    vt_tensor *k = vt_to_heads(g, nn_project(g, x, &w->k, &w->norm_k, &own));
    vt_tensor *v = vt_to_heads(g, nn_project(g, x, &w->v, NULL, &own)), *part[MOST_RUNS];
    if (!q)
        return NULL;
    const int n = (int)(m->all_frames / m->run);
    const int64_t run = q->dim[1] / n;
    for (int i = 0; i < n; i++)
        part[i] = vt_attention(g, vt_slice(g, q, 1, i * run, (i + 1) * run),
                               vt_slice(g, k, 1, 0, (i + 1) * run),
                               vt_slice(g, v, 1, 0, (i + 1) * run), NULL);
    vt_tensor *o = vt_to_tokens(g, n > 1 ? vt_concat(g, 1, n, part) : part[0]);
    return vt_linear(g, nn_all_heads(g, o), &w->out);
}

static vt_tensor *self_attention(vt_ctx *g, const wan *m, vt_tensor *x, const nn_attention *w,
                                 const nn_heads *heads)
{
    return m->run > 1 ? causal_attention(g, m, x, w, heads)
                         : nn_self_attention(g, x, w, heads, NULL);
}

void wan_block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
               vt_tensor **out)
{
    static const nn_norm plain;
    const wan *m = model;
    const wan_block_weights *w = weights;
    const float eps = (float)m->eps;
    const nn_heads heads = { m->heads, eps, in[MADE + COS], in[MADE + SIN], 0 };
    const nn_times t = { .split = vt_own_before(g, m->clean) };
    vt_tensor *x = in[X], *h, *part[2][NN_MOD] = { { NULL } };
    for (int i = !m->clean; i < 2; i++)
        nn_chunk(g, vt_add(g, in[MOD + i], w->table), 6, part[i]);
    const nn_groups e[2] = { nn_part_groups(&t, part, 0), nn_part_groups(&t, part, 3) };

    x = by_frame(g, m, x);
    h = by_row(g, m, nn_modulate(g, x, &plain, &e[0], eps));
    h = by_frame(g, m, self_attention(g, m, h, &w->self, &heads));
    x = by_row(g, m, nn_gate(g, x, h, &e[0]));

    h = vt_layer_norm(g, x, w->norm.w, w->norm.b, eps);
    x = vt_add(g, x, cross_attention(g, m, w, h, in[PROMPT], in[PICTURE]));

    x = by_frame(g, m, x);
    h = nn_modulate(g, x, &plain, &e[1], eps);
    out[X] = by_row(g, m, nn_gate(g, x, vt_feed_forward(g, h, &w->up, &w->down), &e[1]));
}

vt_tensor *wan_head(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s)
{
    static const nn_norm plain;
    const wan *m = model;
    nn_groups e = { .split = vt_own_before(g, m->clean) };
    for (int i = !m->clean; i < 2 && s[E + i]; i++) {
        const int64_t dim[3] = { s[E + i]->dim[0], 1, s[E + i]->dim[1] };
        vt_tensor *time = vt_reshape(g, s[E + i], 3, dim);
        e.shift[i] = vt_add(g, time, vt_slice(g, m->w.table, 1, 0, 1));
        e.scale[i] = vt_add(g, time, vt_slice(g, m->w.table, 1, 1, 2));
    }
    vt_tensor *x = nn_modulate(g, by_frame(g, m, s[X]), &plain, &e, (float)m->eps);
    x = by_row(g, m, x);
    x = vt_all_tokens(g, vt_linear(g, x, &m->w.proj_out));
    return vt_unpatchify(g, x, in->x->dim + 1, (int)m->patch[0], (int)m->patch[1],
                         (int)m->patch[2], VT_C_LAST);
}

/* TI2V-5B, whose autoencoder has more channels, is made for large pictures. */
static void wan_schedule(const cJSON *config, vtrain_scheduler *s)
{
    const cJSON *channels = cJSON_GetObjectItemCaseSensitive(config, "out_channels");
    if (cJSON_IsNumber(channels) && channels->valueint == CHANNELS_5B)
        s->shift = 5;
}

/* Files of I2V 2.1 have it, and neither diffusers nor the first authors use it. */
static const char *const spare[] = { "blocks.*.attn2.norm_added_q.weight", NULL };

const vtrain_family vtrain_wan = {
    .class_name = WAN_CLASS, .lora_names = wan_names,
    .first_class = "WanModel", .convert = wan_convert,
    .text_args = { "encoder_hidden_states" },
    .size = sizeof(wan), .weights = offsetof(wan, w), .table = wan_table,
    .spare = spare,
    .read = wan_read, .fit = wan_fit, .prepare = wan_prepare, .embed = wan_embed,
    .blocks = { { "blocks.%d.", wan_block_table, sizeof(wan_block_weights), N_IN, 1, wan_block,
                  NULL, NULL } },
    .head = wan_head,
    .objective = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
    .flow_shift = 3, .logit_mean = 0, .logit_std = 1, .schedule = wan_schedule,
    .posterior_mean = true, .fun_dropout = 0.1, .bf16 = true,
    .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 5, .batch = 1, .steps = 1000,
    .lora_targets = "blocks\\.[0-9]+\\.attn[12]\\.(to_q|to_k|to_v|to_out\\.0)",
};
