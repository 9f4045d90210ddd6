/* autoencoder_kl.c - AutoencoderKL of FLUX and of Stable Diffusion: its configuration, weights,
 * encoder and decoder.
 *
 * An autoencoder of pictures (Rombach et al. 2022, High-Resolution Image Synthesis with Latent
 * Diffusion Models, 3.1), whose frames go through one by one. */
#include <stdio.h>

#include "formats/json/config.h"
#include "precompute/vae/group_blocks.h"

#define CLASS "AutoencoderKL"
#define EPS 1e-6f
#define TILE_OVERLAP 0.25

enum { LEVELS = 6, LAYERS = 8, MAX_WIDTH = 8192, MAX_SAMPLE = 1 << 14 };

typedef struct config {
    int levels, width[LEVELS], layers, latent, groups;
    int sample;                      /* pixels of a tile's side */
    bool attention, quant, post_quant;
} config;

/* A level has residual blocks, then a step to the next level; the last has no step. */
typedef struct level {
    nn_video_resnet resnet[LAYERS];
    int n;
    nn_video_conv sampler;
} level;

/* The encoder runs conv_in, levels from the finest, the middle, conv_out and quant; the decoder
 * runs quant, conv_in, the middle, levels to the finest and conv_out. */
typedef struct coder {
    nn_video_conv quant, conv_in, conv_out;      /* quant.w NULL: there is none */
    level level[LEVELS];
    nn_video_resnet mid[2];
    vae_attention attention;         /* between the two; q.w NULL: there is none */
    nn_video_norm norm_out;
} coder;

typedef struct picture_vae {
    vae all;
    config c;
    coder encoder, decoder;
} picture_vae;

/* ---- the network ---- */

static vt_tensor *middle(const nn_video *n, coder *net, vt_tensor *x, vt_scope s)
{
    x = nn_video_resnets(n, net->mid, 1, x, s);
    if (net->attention.q.w)
        x = vae_attend(n, &net->attention, x);
    vt_scope_end(n->g, s, 1, &x);
    return nn_video_resnets(n, net->mid + 1, 1, x, s);
}

static vt_tensor *head(const nn_video *n, coder *net, vt_tensor *x, vt_scope s)
{
    x = nn_video_norm_silu(n, &net->norm_out, x);
    vt_scope_end(n->g, s, 1, &x);
    x = nn_video_causal(n, &net->conv_out, x);
    vt_scope_end(n->g, s, 1, &x);
    return x;
}

static vt_tensor *encode_frame(vae *v, const nn_video *n, vt_tensor *x)
{
    picture_vae *m = (picture_vae *)v;
    coder *net = &m->encoder;
    vt_scope s = vt_scope_begin(n->g);

    x = nn_video_causal(n, &net->conv_in, x);
    for (int i = 0; i < m->c.levels; i++) {
        level *l = &net->level[i];
        x = nn_video_resnets(n, l->resnet, l->n, x, s);
        if (l->sampler.w)
            x = nn_video_down(n, &l->sampler, x, false);
        vt_scope_end(n->g, s, 1, &x);
    }
    x = head(n, net, middle(n, net, x, s), s);
    if (net->quant.w)
        x = nn_video_pointwise(n, &net->quant, x);
    vt_scope_end(n->g, s, 1, &x);
    return x;
}

static vt_tensor *decode_frame(vae *v, const nn_video *n, vt_tensor *z)
{
    picture_vae *m = (picture_vae *)v;
    coder *net = &m->decoder;
    vt_scope s = vt_scope_begin(n->g);
    vt_tensor *x = net->quant.w ? nn_video_pointwise(n, &net->quant, z) : z;

    x = middle(n, net, nn_video_causal(n, &net->conv_in, x), s);
    for (int i = 0; i < m->c.levels; i++) {
        level *l = &net->level[i];
        x = nn_video_resnets(n, l->resnet, l->n, x, s);
        if (l->sampler.w)
            x = nn_video_up(n, &l->sampler, x, false);
        vt_scope_end(n->g, s, 1, &x);
    }
    x = head(n, net, x, s);
    vt_scope_end(n->g, s, 1, &x);
    return x;
}

/* ---- config.json ---- */

/* The fields of config.json: those of the network, and those that the manifest keeps. */
typedef struct fields {
    config c;
    vae_info info;
    int n_down, n_up;
} fields;

static const vf_config_row rows[] = {
    VF_ONLY("_class_name", CLASS, CLASS),
    VF_INTS(fields, c.width, c.levels, "block_out_channels", 1, 1, MAX_WIDTH),
    VF_WORDS(fields, n_down, "down_block_types", "DownEncoderBlock2D"),
    VF_WORDS(fields, n_up, "up_block_types", "UpDecoderBlock2D"),
    VF_INT(fields, c.layers, "layers_per_block", 1, 1, LAYERS - 1),
    VF_INT(fields, c.latent, "latent_channels", 4, 1, VAE_MAX_CHANNELS),
    VF_INT(fields, c.groups, "norm_num_groups", 32, 1, MAX_WIDTH),
    VF_INT(fields, c.sample, "sample_size", 32, 1, MAX_SAMPLE),
    VF_FLAG(fields, c.attention, "mid_block_add_attention", true),
    VF_FLAG(fields, c.quant, "use_quant_conv", true),
    VF_FLAG(fields, c.post_quant, "use_post_quant_conv", true),
    VF_ONLY_INT("in_channels", 3),
    VF_ONLY_INT("out_channels", 3),
    VF_ONLY("act_fn", "silu|swish", "silu"),
    VF_NUM(fields, info.scaling_factor, "scaling_factor", 0.18215, VF_ABOVE_0, INFINITY),
    VF_NUM(fields, info.shift_factor, "shift_factor", 0, -INFINITY, INFINITY),
    VF_UNSET("latents_mean", "scaling_factor and shift_factor are supported"),
    VF_UNSET("latents_std", "scaling_factor and shift_factor are supported"),
    { 0 }
};

static int ratio_of(const config *c) { return 1 << (c->levels - 1); }

static int check(const fields *f, vc_err *err)
{
    const config *c = &f->c;
    int last = c->width[c->levels - 1];

    for (int i = 0; i < 2; i++) {
        int n = i ? f->n_up : f->n_down;
        if (n && n != c->levels)
            return vc_fail(err, VC_EFORMAT, "%s_block_types: a list of %d for %d "
                           "block_out_channels", i ? "up" : "down", n, c->levels);
    }
    for (int i = 0; i < c->levels; i++)
        if (c->width[i] % c->groups)
            return vc_fail(err, VC_EFORMAT, "block_out_channels: %d is no multiple of "
                           "norm_num_groups %d", c->width[i], c->groups);
    if (c->attention && (last % 8 || last > VAE_MAX_HEAD))
        return vc_fail(err, VC_EFORMAT, "block_out_channels: the last, %d, is the width of the "
                       "attention in the middle: a multiple of 8, at most %d", last, VAE_MAX_HEAD);
    return 0;
}

static void hash(vf_hasher *h, const picture_vae *m)
{
    const config *c = &m->c;

    vf_hasher_int(h, "layers_per_block", c->layers);
    vf_hasher_int(h, "latent_channels", c->latent);
    vf_hasher_int(h, "norm_num_groups", c->groups);
    vf_hasher_int(h, "mid_block_add_attention", c->attention);
    vf_hasher_int(h, "use_quant_conv", c->quant);
    for (int i = 0; i < c->levels; i++)
        vf_hasher_int(h, "block_out_channels", c->width[i]);
    for (int i = 1; i < 3; i++)
        vf_hasher_int(h, "tile", m->all.tiling.size[i]);
}

static int configure(vae *v, const cJSON *json, bool tiling, vae_info *info, vf_hasher *h,
                     vc_err *err)
{
    fields f = { .c = { .levels = 1, .width = { 64 } },
                 .info = { .class = CLASS, .has_logvar = true } };
    picture_vae *m = (picture_vae *)v;
    int rc = vf_config_read(&f, rows, json, err);

    if (!rc)
        rc = check(&f, err);
    if (rc)
        return rc;
    m->c = f.c;
    *info = f.info;
    info->channels = f.c.latent;
    info->ratio[0] = 1;
    info->ratio[1] = info->ratio[2] = ratio_of(&f.c);
    for (int i = 1; i < 3 && tiling; i++) {
        v->tiling.size[i] = f.c.sample;
        v->tiling.overlap[i] = TILE_OVERLAP;
    }
    hash(h, m);
    return 0;
}

/* ---- weights ---- */

static vae_blocks blocks_of(const config *c)
{
    return (vae_blocks){ c->groups, EPS, nn_video_plane, nn_video_pixel, "" };
}

static void bind_encoder(vae_binder *b, coder *net, const config *c)
{
    const vae_blocks blocks = blocks_of(c);
    int last = c->levels - 1, z = 2 * c->latent;
    char name[48];

    vae_bind(b, nn_video_plane, &net->conv_in, c->width[0], 3, "encoder.", "conv_in");
    for (int i = 0; i <= last; i++) {
        level *l = &net->level[i];
        l->n = c->layers;
        snprintf(name, sizeof name, "encoder.down_blocks.%d.", i);
        vae_bind_resnets(b, &blocks, l->resnet, l->n, c->width[i ? i - 1 : 0], c->width[i], name);
        if (i < last)
            vae_bind(b, nn_video_plane, &l->sampler, c->width[i], c->width[i], name,
                     "downsamplers.0.conv");
    }
    vae_bind_middle(b, &blocks, net->mid, c->attention ? &net->attention : NULL,
                    c->width[c->levels - 1], "encoder.");
    vae_bind_norm(b, &blocks, &net->norm_out, c->width[last], "encoder.", "conv_norm_out");
    vae_bind(b, nn_video_plane, &net->conv_out, z, c->width[last], "encoder.", "conv_out");
    if (c->quant)
        vae_bind(b, nn_video_pixel, &net->quant, z, z, "", "quant_conv");
}

static void bind_decoder(vae_binder *b, coder *net, const config *c)
{
    const vae_blocks blocks = blocks_of(c);
    int last = c->levels - 1, z = c->latent;
    char name[48];

    if (c->post_quant)
        vae_bind(b, nn_video_pixel, &net->quant, z, z, "", "post_quant_conv");
    vae_bind(b, nn_video_plane, &net->conv_in, c->width[last], z, "decoder.", "conv_in");
    vae_bind_middle(b, &blocks, net->mid, c->attention ? &net->attention : NULL,
                    c->width[c->levels - 1], "decoder.");
    for (int i = 0; i <= last; i++) {
        level *l = &net->level[i];
        int64_t out = c->width[last - i];
        l->n = c->layers + 1;
        snprintf(name, sizeof name, "decoder.up_blocks.%d.", i);
        vae_bind_resnets(b, &blocks, l->resnet, l->n, c->width[i ? last - i + 1 : last], out, name);
        if (i < last)
            vae_bind(b, nn_video_plane, &l->sampler, out, out, name, "upsamplers.0.conv");
    }
    vae_bind_norm(b, &blocks, &net->norm_out, c->width[0], "decoder.", "conv_norm_out");
    vae_bind(b, nn_video_plane, &net->conv_out, 3, c->width[0], "decoder.", "conv_out");
}

static void bind(vae *v, vae_binder *b)
{
    picture_vae *m = (picture_vae *)v;

    bind_encoder(b, &m->encoder, &m->c);
    bind_decoder(b, &m->decoder, &m->c);
}

static int frames(int f) { return f; }

static const vae_net net = {
    .class = CLASS, .size = sizeof(picture_vae), .pixel_frames = 1, .latent_frames = 1,
    .frames = frames, .configure = configure, .bind = bind, .encode_chunk = encode_frame,
    .decode_chunk = decode_frame,
};

static int open_kl(vae **out, const encoder_opts *o, vae_info *info, vc_err *err)
{
    return vae_open(out, &net, o, info, err);
}

const vae_class vae_kl = { CLASS, open_kl, vae_close, vae_encode, vae_decode, frames, vae_memory };
