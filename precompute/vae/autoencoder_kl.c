/* autoencoder_kl.c - AutoencoderKL of FLUX and of Stable Diffusion: its configuration and steps.
 *
 * An autoencoder of pictures (Rombach et al. 2022, High-Resolution Image Synthesis with Latent
 * Diffusion Models, 3.1), whose frames go through one by one. */
#include "formats/json/config.h"
#include "precompute/vae/group_vae.h"

#define CLASS "AutoencoderKL"
#define TILE_OVERLAP 0.25

enum { MAX_SAMPLE = 1 << 14 };

/* ---- the network ---- */

static vt_tensor *step_down(const nn_video *n, group_level *l, vt_tensor *x, vt_scope s)
{
    (void)s;
    return nn_video_down(n, &l->sampler, x, false);
}

static vt_tensor *step_up(const nn_video *n, group_level *l, vt_tensor *x, vt_scope s)
{
    (void)s;
    return nn_video_up(n, &l->sampler, x, false);
}

static vt_tensor *encode_frame(vae *v, const nn_video *n, vt_tensor *x)
{
    return group_encode((group_vae *)v, n, step_down, x);
}

static vt_tensor *decode_frame(vae *v, const nn_video *n, vt_tensor *z)
{
    return group_decode((group_vae *)v, n, step_up, z);
}

/* ---- config.json ---- */

/* The fields of config.json: those of the network, and those that the manifest keeps. */
typedef struct fields {
    group_config c;
    vae_info info;
    int n_down, n_up;
    int sample;                      /* pixels of a tile's side */
} fields;

static const vf_config_row rows[] = {
    VF_ONLY("_class_name", CLASS, CLASS),
    VF_INTS(fields, c.width, c.levels, "block_out_channels", 1, 1, GROUP_MAX_WIDTH),
    VF_WORDS(fields, n_down, "down_block_types", "DownEncoderBlock2D"),
    VF_WORDS(fields, n_up, "up_block_types", "UpDecoderBlock2D"),
    VF_INT(fields, c.layers, "layers_per_block", 1, 1, GROUP_LAYERS - 1),
    VF_INT(fields, c.latent, "latent_channels", 4, 1, VAE_MAX_CHANNELS),
    VF_INT(fields, c.groups, "norm_num_groups", 32, 1, GROUP_MAX_WIDTH),
    VF_INT(fields, sample, "sample_size", 32, 1, MAX_SAMPLE),
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

static void hash(vf_hasher *h, const group_vae *m)
{
    const group_config *c = &m->c;

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
    group_vae *m = (group_vae *)v;
    int rc = vf_config_read(&f, rows, json, err);

    if (!rc)
        rc = group_check(&f.c, f.n_down, f.n_up, err);
    if (rc)
        return rc;
    f.c.steps = f.c.levels - 1;
    m->c = f.c;
    *info = f.info;
    info->channels = f.c.latent;
    info->ratio[0] = 1;
    info->ratio[1] = info->ratio[2] = 1 << f.c.steps;
    for (int i = 1; i < 3 && tiling; i++) {
        v->tiling.size[i] = f.sample;
        v->tiling.overlap[i] = TILE_OVERLAP;
    }
    hash(h, m);
    return 0;
}

static void bind(vae *v, vae_binder *b)
{
    group_bind((group_vae *)v, b, &(group_convs){ nn_video_plane, nn_video_pixel, "" });
}

static int frames(int f) { return f; }

static const vae_net net = {
    .class = CLASS, .size = sizeof(group_vae), .pixel_frames = 1, .latent_frames = 1,
    .frames = frames, .configure = configure, .bind = bind, .encode_chunk = encode_frame,
    .decode_chunk = decode_frame,
};

static int open_kl(vae **out, const encoder_opts *o, vae_info *info, vc_err *err)
{
    return vae_open(out, &net, o, info, err);
}

const vae_class vae_kl = { CLASS, open_kl, vae_close, vae_encode, vae_decode, frames, vae_memory,
                           vae_chunk };
