/* cogvideox_open.c - AutoencoderKLCogVideoX's config.json and weights: see cogvideox.h */
#include <stdio.h>

#include "formats/json/config.h"
#include "precompute/vae/cogvideox.h"

enum { MAX_WIDTH = 8192, MAX_SAMPLE = 1 << 14 };
#define EPS 1e-6                     /* of norm_out and of the decoder's norms */

/* ---- config.json ---- */

/* The fields of config.json: those of the network, and the constants of normalisation, which the
 * manifest records and which do not change the latents. */
typedef struct config {
    cog_config c;
    vae_info info;
    int n_down, n_up, n_mean, n_std;
} config;

static const vf_config_row rows[] = {
    VF_ONLY("_class_name", COG_CLASS, COG_CLASS),
    VF_INTS(config, c.width, c.levels, "block_out_channels", 3, 1, MAX_WIDTH),
    VF_WORDS(config, n_down, "down_block_types", "CogVideoXDownBlock3D"),
    VF_WORDS(config, n_up, "up_block_types", "CogVideoXUpBlock3D"),
    VF_INT(config, c.layers, "layers_per_block", 3, 1, COG_LAYERS - 1),
    VF_INT(config, c.latent, "latent_channels", 16, 1, VAE_MAX_CHANNELS),
    VF_INT(config, c.groups, "norm_num_groups", 32, 1, MAX_WIDTH),
    VF_INT(config, c.sample[0], "sample_height", 480, 1, MAX_SAMPLE),
    VF_INT(config, c.sample[1], "sample_width", 720, 1, MAX_SAMPLE),
    VF_NUM(config, c.eps, "norm_eps", 1e-6, VF_ABOVE_0, 1),
    VF_ONLY_INT("in_channels", 3),
    VF_ONLY_INT("out_channels", 3),
    VF_ONLY_INT("temporal_compression_ratio", COG_RATIO_T),
    VF_ONLY_FLAG("use_quant_conv", false),
    VF_ONLY_FLAG("use_post_quant_conv", false),
    VF_ONLY("act_fn", "silu|swish", "silu"),
    VF_NUM(config, info.scaling_factor, "scaling_factor", 1.15258426, VF_ABOVE_0, INFINITY),
    VF_NUM(config, info.shift_factor, "shift_factor", 0, -INFINITY, INFINITY),
    VF_FLAG(config, info.invert_scale_latents, "invert_scale_latents", false),
    VF_NUMS(config, info.mean, n_mean, "latents_mean", 1, -INFINITY, INFINITY),
    VF_NUMS(config, info.std, n_std, "latents_std", 1, VF_ABOVE_0, INFINITY),
    { 0 }
};

/* Checks that a list has n entries, where config.json has this list. */
static int check_length(const char *field, int has, int n, const char *per, vc_err *err)
{
    return !has || has == n ? 0 : vc_fail(err, VC_EFORMAT, "%s has %d entries for %d %s", field,
                                          has, n, per);
}

static int check_config(const config *f, vc_err *err)
{
    const cog_config *c = &f->c;
    int rc = check_length("down_block_types", f->n_down, c->levels, "block_out_channels", err);

    if (!rc)
        rc = check_length("up_block_types", f->n_up, c->levels, "block_out_channels", err);
    if (!rc)
        rc = check_length("latents_mean", f->n_mean, c->latent, "latent_channels", err);
    if (!rc)
        rc = check_length("latents_std", f->n_std, c->latent, "latent_channels", err);
    if (!rc && f->n_mean != f->n_std)
        rc = vc_fail(err, VC_EFORMAT, "%s is missing: latents_mean and latents_std are used "
                     "together", f->n_mean ? "latents_std" : "latents_mean");
    for (int i = 0; !rc && i < c->levels; i++)
        if (c->width[i] % c->groups)
            rc = vc_fail(err, VC_EFORMAT, "block_out_channels: %d is not a multiple of "
                         "norm_num_groups %d", c->width[i], c->groups);
    return rc;
}

static int read_config(cog_config *c, vae_info *info, const cJSON *o, vc_err *err)
{
    config f = { .c = { .levels = 4, .width = { 128, 256, 256, 512 } },
                 .info = { .class = COG_CLASS, .has_logvar = true } };
    int rc = vf_config_read(&f, rows, o, err);

    if (!rc)
        rc = check_config(&f, err);
    if (rc)
        return rc;
    *c = f.c;
    *info = f.info;
    info->channels = c->latent;
    info->ratio[0] = COG_RATIO_T;
    info->ratio[1] = info->ratio[2] = 1 << (c->levels - 1);
    info->per_channel = f.n_mean != 0;
    return 0;
}

/* A tile has half of the sample's height and width; 1/6 of its height and 1/5 of its width overlap
 * the next tile. */
static vae_tiling tiles(const cog_config *c)
{
    return (vae_tiling){ .size = { 0, c->sample[0] / 2, c->sample[1] / 2 },
                         .overlap = { 0, 1.0 / 6, 1.0 / 5 } };
}

int cog_configure(vae *v, const cJSON *json, bool tiling, vae_info *info, vf_hasher *h,
                  vc_err *err)
{
    cog_config *c = &((cog_vae *)v)->c;
    int rc = read_config(c, info, json, err);

    if (rc)
        return rc;
    if (tiling)
        v->tiling = tiles(c);
    vf_hasher_int(h, "layers_per_block", c->layers);
    vf_hasher_int(h, "latent_channels", c->latent);
    vf_hasher_int(h, "norm_num_groups", c->groups);
    vf_hasher_bytes(h, "norm_eps", &c->eps, sizeof c->eps);
    for (int i = 0; i < c->levels; i++)
        vf_hasher_int(h, "block_out_channels", c->width[i]);
    for (int i = 0; i < 2 && tiling; i++)
        vf_hasher_int(h, i ? "sample_width" : "sample_height", c->sample[i]);
    return 0;
}

/* ---- weights ---- */

/* Binds a spatial norm that reads `latent` channels, or with a latent of 0 a plain norm. */
static void bind_norm(vae_binder *b, nn_video_norm *n, const cog_config *c, double eps, int latent,
                      int64_t width, const char *below, const char *name)
{
    char inner[96];

    n->groups = c->groups;
    n->eps = (float)eps;
    if (!latent) {
        vae_bind(b, nn_video_affine, n, width, 0, below, name);
        return;
    }
    snprintf(inner, sizeof inner, "%s%s.", below, name);
    vae_bind(b, nn_video_affine, n, width, 0, inner, "norm_layer");
    vae_bind(b, nn_video_point, &n->scale, width, latent, inner, "conv_y.conv");
    vae_bind(b, nn_video_point, &n->shift, width, latent, inner, "conv_b.conv");
}

static void bind_block(vae_binder *b, cog_block *k, const cog_config *c, int n, int latent,
                       int64_t in, int64_t out, const char *below)
{
    double eps = latent ? EPS : c->eps;
    char name[72];

    k->n = n;
    for (int i = 0; i < n; i++, in = out) {
        nn_video_resnet *r = &k->resnet[i];
        snprintf(name, sizeof name, "%sresnets.%d.", below, i);
        bind_norm(b, &r->norm1, c, eps, latent, in, name, "norm1");
        vae_bind(b, nn_video_cube, &r->conv1, out, in, name, "conv1.conv");
        bind_norm(b, &r->norm2, c, eps, latent, out, name, "norm2");
        vae_bind(b, nn_video_cube, &r->conv2, out, out, name, "conv2.conv");
        if (in != out)
            vae_bind(b, nn_video_point, &r->shortcut, out, in, name, "conv_shortcut");
    }
}

static void bind_encoder(vae_binder *b, cog_net *n, const cog_config *c)
{
    int last = c->levels - 1;
    char name[48];

    vae_bind(b, nn_video_cube, &n->conv_in, c->width[0], 3, "encoder.", "conv_in.conv");
    for (int i = 0; i <= last; i++) {
        snprintf(name, sizeof name, "encoder.down_blocks.%d.", i);
        bind_block(b, &n->level[i], c, c->layers, 0, c->width[i ? i - 1 : 0], c->width[i], name);
        if (i < last)
            vae_bind(b, nn_video_plane, &n->level[i].sampler, c->width[i], c->width[i], name,
                     "downsamplers.0.conv");
    }
    bind_block(b, &n->mid, c, COG_MID, 0, c->width[last], c->width[last], "encoder.mid_block.");
    bind_norm(b, &n->norm_out, c, EPS, 0, c->width[last], "encoder.", "norm_out");
    vae_bind(b, nn_video_cube, &n->conv_out, 2 * c->latent, c->width[last], "encoder.",
             "conv_out.conv");
}

static void bind_decoder(vae_binder *b, cog_net *n, const cog_config *c)
{
    int last = c->levels - 1, z = c->latent;
    char name[48];

    vae_bind(b, nn_video_cube, &n->conv_in, c->width[last], z, "decoder.", "conv_in.conv");
    bind_block(b, &n->mid, c, COG_MID, z, c->width[last], c->width[last], "decoder.mid_block.");
    for (int i = 0; i <= last; i++) {
        int64_t out = c->width[last - i];
        snprintf(name, sizeof name, "decoder.up_blocks.%d.", i);
        bind_block(b, &n->level[i], c, c->layers + 1, z, c->width[i ? last - i + 1 : last], out,
                   name);
        if (i < last)
            vae_bind(b, nn_video_plane, &n->level[i].sampler, out, out, name, "upsamplers.0.conv");
    }
    bind_norm(b, &n->norm_out, c, EPS, z, c->width[0], "decoder.", "norm_out");
    vae_bind(b, nn_video_cube, &n->conv_out, 3, c->width[0], "decoder.", "conv_out.conv");
}

void cog_bind(vae *v, vae_binder *b)
{
    cog_vae *cog = (cog_vae *)v;

    bind_encoder(b, &cog->encoder, &cog->c);
    bind_decoder(b, &cog->decoder, &cog->c);
}
